"""What the output of a tool says: its own text without the agent's wrapping, and whether a test or build passed.

Agents wrap output in exit codes, headers, tags, JSON and terminal codes. A result may be a megabyte; what went wrong is
at its beginning or its end, so only those are read. A summary is read only where the exit code cannot tell; a failure
in it outweighs every success, because a run of many packages has many summaries.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any, NamedTuple

import msgspec

from warmstart.profile.rules import load_table

_HEAD, _TAIL = 8_192, 24_576
_MAX_JSON = 400_000
_SUMMARY = 4_000  # characters at the end in which a summary stands

# Cursor movements, colours, window titles, and the letters that choose a character set.
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]{0,40}[ -/]{0,4}[@-~]|\][^\x07\x1b]{0,400}(?:\x07|\x1b\\)|" r"[()][0-9A-B]|[0-9=>A-Za-z])"
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]+")
_EXIT_LINE = re.compile(
    r"\s*(?:Error: )?(?:Exit code:?|Command failed with exit code|" r"exit status) (-?\d{1,9})\b:?[ \t]*(?:\n|$)"
)
_CODEX = re.compile(
    r"(?:(?:Chunk ID|Wall time|Exit code|Total output lines|Original token count|"
    r"Process exited with code"
    r"|Process running with session ID)\b[^\n]*\n+)+(?:Output:[ \t]*(?:\n|$))?"
)
_CODEX_EXIT = re.compile(r"(?:Process exited with code|Exit code:) (-?\d{1,9})")
_COPILOT = re.compile(r"<[^<>\n]{0,80}\b(?:exited|completed) with exit code (-?\d{1,9})>[^\n]*\s*$")
_GEMINI_HEAD = re.compile(r"(?:Command|Directory): [^\n]*\n")
_GEMINI_FIELD = re.compile(
    r"^(Output|Stdout|Stderr|Error|Exit Code|Signal|Background PIDs|Process Group PGID):[ \t]*", re.MULTILINE
)
_TAG = re.compile(r"\s*<(tool_use_error|error|returncode|stderr|output|stdout|system-reminder)>")
_RETURNED = re.compile(r"\s*<returncode>(-?\d{1,9})</returncode>")
_TASK = re.compile(
    r"^(?:\[[\w:./@-]{1,40}\] (?=\S)|[\w./@-]{1,40}:(?:lint|test|build|typecheck|"
    r"type-check|check)[\w:-]{0,30}: "
    r"|[\w./@-]{1,40} (?:lint|test|build|typecheck|check)[\w:-]{0,20}: "
    r"|#\d{1,3} \d{1,4}\.\d{1,4} |[\w.-]{1,40} +\| )",
    re.MULTILINE,
)
_EXIT_FIELDS = ("exit_code", "exitCode", "returncode", "exit")
_MESSAGES = ("error", "errors", "error_message", "errorMessage", "message", "detail", "reason")
_OUTPUTS = ("stderr", "output", "stdout", "content", "result", "text")
_ERROR_STRING = re.compile(r'"(?:error|message)"\s*:\s*"((?:[^"\\]|\\.){1,2000})')


class Output(NamedTuple):
    """A tool's own text, the exit code if the wrapping has one, and whether the agent refused to run the call."""

    text: str
    exit_code: int | None = None
    refused: bool = False


def unwrap(text: str) -> Output:
    """The tool's own text in a result, without the agent's wrapping."""
    text = text[: _MAX_JSON + 1] if text[:1] in "{[" and len(text) <= _MAX_JSON else _ends(text)
    refused = "<tool_use_error>" in text[:100]
    code: int | None = None
    for _ in range(4):  # wrappings nest: JSON after an exit code, a tag in JSON
        text, found, changed = _layer(text)
        code = found if found is not None else code
        if not changed:
            break
    return Output(_clean(_ends(text)), code, refused)


def _ends(text: str) -> str:
    return text if len(text) <= _HEAD + _TAIL else f"{text[:_HEAD]}\n{text[-_TAIL:]}"


def _layer(text: str) -> tuple[str, int | None, bool]:
    """The text without its outermost wrapping, the exit code in it, and whether there was a wrapping."""
    if found := _EXIT_LINE.match(text):
        return text[found.end() :], int(found[1]), True
    if found := _CODEX.match(text):
        code = _CODEX_EXIT.search(found[0])
        return text[found.end() :], int(code[1]) if code else None, True
    if found := _COPILOT.search(text, max(0, len(text) - 400)):
        return text[: found.start()], int(found[1]), True
    if found := _RETURNED.match(text):
        return text[found.end() :], int(found[1]), True
    if found := _TAG.match(text):
        name = found[1]
        inner, _, rest = text[found.end() :].partition(f"</{name}>")
        return (rest if name == "system-reminder" else f"{inner}\n{rest}"), None, True
    if text.startswith(("Command: ", "Output: ", "Output:\n")) and (found := _GEMINI_FIELD.search(text)):
        return _gemini(text)
    if text.lstrip()[:1] in ("{", "["):
        return _json(text)
    return text, None, False


def _gemini(text: str) -> tuple[str, int | None, bool]:
    while found := _GEMINI_HEAD.match(text):
        text = text[found.end() :]
    fields: dict[str, str] = {}
    marks = list(_GEMINI_FIELD.finditer(text))
    for place, mark in enumerate(marks):
        end = marks[place + 1].start() if place + 1 < len(marks) else len(text)
        fields[mark[1]] = text[mark.end() : end].strip()
    code = fields.get("Exit Code", "")
    outputs = (fields.get(name, "") for name in ("Stderr", "Error", "Stdout", "Output"))
    body = "\n".join(part for part in outputs if part not in ("", "(none)", "(empty)"))
    return body, int(code) if re.fullmatch(r"-?\d{1,9}", code) else None, True


def _json(text: str) -> tuple[str, int | None, bool]:
    try:
        body = msgspec.json.decode(text.encode("utf-8", "surrogatepass"))
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return _broken_json(text)
    if isinstance(body, list):
        parts = [part for part in map(_text_in, body[:20]) if part]
        return ("\n".join(parts), None, True) if parts else (text, None, False)
    if not isinstance(body, dict):
        return text, None, False
    codes = (body.get(name) for name in _EXIT_FIELDS)
    metadata = body.get("metadata")
    inner = metadata.get("exit_code") if isinstance(metadata, dict) else None
    code = next((code for code in (*codes, inner) if isinstance(code, int) and not isinstance(code, bool)), None)
    own = _text_in(body)
    return (own, code, True) if own or code is not None else (text, None, False)


def _broken_json(text: str) -> tuple[str, int | None, bool]:
    """The error message in JSON that is cut off or followed by other text, which stays."""
    text = text.lstrip()
    if not text.startswith("{"):
        return text, None, False
    try:
        body, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        found = _ERROR_STRING.search(text, 0, _HEAD)
        return (_unescaped(found[1]), None, True) if found else (text, None, False)
    own = _text_in(body)
    return (f"{own}\n{text[end:]}", None, True) if own else (text, None, False)


def _text_in(body: Any, depth: int = 3) -> str:
    """The error message in a JSON value, otherwise its output."""
    if isinstance(body, str):
        return body
    if depth == 0 or not isinstance(body, dict | list):
        return ""
    if isinstance(body, list):
        return "\n".join(part for part in (_text_in(item, depth - 1) for item in body[:5]) if part)
    message = next((part for part in (_text_in(body.get(name), depth - 1) for name in _MESSAGES) if part), "")
    status = str(body.get("status") or body.get("status_code") or "")
    if message and re.fullmatch(r"[45]\d\d", status):
        return f"HTTP {status}: {message}"
    outputs = [part for part in (_text_in(body.get(name), depth - 1) for name in _OUTPUTS) if part.strip()]
    return "\n".join([*outputs, message] if message and outputs else outputs or [message])


def _unescaped(text: str) -> str:
    return text.replace("\\n", "\n").replace('\\"', '"').replace("\\t", "\t").replace("\\\\", "\\")


def _clean(text: str) -> str:
    """The text without terminal codes and prefixes of task runners; each state of a progress bar is a line."""
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = _CONTROLS.sub("", text)
    if text.startswith("[") or "\n[" in text or " | " in text or "\n#" in text or ": " in text[:200]:
        text = _TASK.sub("", text)
    # Gradle puts the error on the line after these words.
    return text.replace("What went wrong:\n", "What went wrong: ").strip()


# -- summaries of test runners and compilers

_PRINTED_EXIT = re.compile(r"\b(?:exit|rc|status|code)\w*\b[^\d\n]{0,12}(\d{1,3})\s*$", re.IGNORECASE)
_HEAD_COMMAND = re.compile(r"head(?: -n)? ?-?(\d+)?")
_SEARCHES = ("grep", "rg", "egrep")


@cache
def _summary(kind: str) -> re.Pattern[str]:
    rows: list[str] = load_table("checks")[kind]
    # One anchor for all patterns at the start of a line: each of its own would be tried at every character.
    starts = "|".join(row[1:] for row in rows if row.startswith("^"))
    return re.compile("|".join((f"^(?:{starts})", *(row for row in rows if not row.startswith("^")))), re.MULTILINE)


def printed_exit(output: str) -> int | None:
    """The exit code that a command prints at its end: `pytest; echo exit: $?`."""
    found = _PRINTED_EXIT.search(output[-200:])
    return int(found[1]) if found else None


def has_passed(output: str, filter: str = "", *, alone: bool = True, silent: bool = False) -> bool | None:
    """Whether the output says that a check passed; `None` if it does not say.

    `filter` is the command that the output went through: a success is believed only if the filter cannot have hidden a
    failure. Unless the check ran `alone`, an error may be another program's. With `silent`, empty output passes, as a
    compiler without errors prints nothing.
    """
    tail = output[-_SUMMARY:]
    lower = tail.lower()
    # Most runs pass, and no failure lacks all of these words.
    if any(word in lower for word in ("fail", "error", "not ok")) and _summary("failed").search(tail):
        return False
    if alone and _summary("errors").search(tail):
        return False
    if not output.strip():
        return True if silent and not filter.startswith(_SEARCHES) else None
    if filter.startswith("head"):
        lines = _HEAD_COMMAND.match(filter)
        if output.count("\n") + 1 >= int((lines and lines[1]) or 10):
            return None
    if filter.startswith(_SEARCHES) and "fail" not in filter.lower():
        return None
    return True if _summary("passed").search(tail) else None
