"""Tool output: unwrap the tool's own text, and normalize a line of it.

Agents wrap output in exit codes, headers, tags, JSON and terminal escape codes. A result may be a megabyte; the error
is at its beginning or its end, so only those are read. What varies between occurrences of an error (paths, numbers,
ids, quoted text) becomes a placeholder that says what it replaced. The patterns are in `tables/output.toml`.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any, NamedTuple

from warmstart.profile.rules import pattern, pattern_rows

_HEAD, _TAIL = 8_192, 24_576
_MAX_JSON = 400_000

# Cursor movements, colours, window titles, and character set selection.
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]{0,40}[ -/]{0,4}[@-~]|\][^\x07\x1b]{0,400}(?:\x07|\x1b\\)|[()][0-9A-B]|[0-9=>A-Za-z])"
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]+")
_GEMINI_HEAD = re.compile(r"(?:Command|Directory): [^\n]*\n")
_GEMINI_FIELD = re.compile(
    r"^(Output|Stdout|Stderr|Error|Exit Code|Signal|Background PIDs|Process Group PGID):[ \t]*", re.MULTILINE
)
_TAG = re.compile(r"\s*<(tool_use_error|error|returncode|stderr|output|stdout|system-reminder|untrusted_context)>\n?")
_EXIT_FIELDS = ("exit_code", "exitCode", "returncode", "exit")
_MESSAGES = ("error", "errors", "error_message", "errorMessage", "message", "detail", "reason")
_OUTPUTS = ("stderr", "output", "stdout", "content", "result", "text")


class Output(NamedTuple):
    """A tool's own text, the exit code if the wrapper has one, and whether the agent refused to run the call."""

    text: str
    exit_code: int | None = None
    refused: bool = False


# A text without its outermost wrapper, the exit code in that, and whether there was a wrapper.
_Layer = tuple[str, int | None, bool]


def unwrap(text: str) -> Output:
    """The tool's own text in a result, without the agent's wrappers."""
    text = text[: _MAX_JSON + 1] if text[:1] in "{[" and len(text) <= _MAX_JSON else _ends(text)
    refused = "<tool_use_error>" in text[:100]
    code: int | None = None
    for _ in range(4):  # wrappers nest: JSON after an exit code, a tag in JSON
        text, found, changed = _unwrap_layer(text)
        code = found if found is not None else code
        if not changed:
            break
    return Output(_clean(_ends(text)), code, refused)


def _ends(text: str) -> str:
    return text if len(text) <= _HEAD + _TAIL else f"{text[:_HEAD]}\n{text[-_TAIL:]}"


def _unwrap_layer(text: str) -> _Layer:
    for (wrapping,) in pattern_rows("output", "wrappings"):
        if found := wrapping.match(text):
            return text[found.end() :], int(found["code"]) if found["code"] else None, True
    if found := pattern("output", "trailer").search(text, max(0, len(text) - 400)):
        return text[: found.start()], int(found["code"]), True
    if found := _TAG.match(text):
        name = found[1]
        inner, _, rest = text[found.end() :].partition(f"</{name}>")
        return (rest if name == "system-reminder" else f"{inner}\n{rest}"), None, True
    if text.startswith(("Command: ", "Output: ", "Output:\n")) and _GEMINI_FIELD.search(text):
        return _unwrap_gemini(text)
    if text.lstrip()[:1] in ("{", "["):
        return _unwrap_json(text)
    return text, None, False


def _unwrap_gemini(text: str) -> _Layer:
    while found := _GEMINI_HEAD.match(text):
        text = text[found.end() :]
    _, *parts = _GEMINI_FIELD.split(text)
    fields = {name: part.strip() for name, part in zip(parts[::2], parts[1::2], strict=True)}
    code = fields.get("Exit Code", "")
    outputs = (fields.get(name, "") for name in ("Stderr", "Error", "Stdout", "Output"))
    body = "\n".join(part for part in outputs if part not in ("", "(none)", "(empty)"))
    return body, int(code) if re.fullmatch(r"-?\d{1,9}", code) else None, True


def _unwrap_json(text: str) -> _Layer:
    """The error message or output in JSON, and the text that follows the JSON."""
    unchanged = text, None, False
    text = text.lstrip()
    try:
        body, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return unchanged
    own, rest = _text_in(body, 4), text[end:]
    if not isinstance(body, dict):
        return (own, None, True) if own and not rest.strip() else unchanged
    metadata = body.get("metadata")
    fields = {**(metadata if isinstance(metadata, dict) else {}), **body}
    codes = (fields.get(name) for name in _EXIT_FIELDS)
    code = next((code for code in codes if isinstance(code, int) and not isinstance(code, bool)), None)
    return (f"{own}\n{rest}", code, True) if own or code is not None else unchanged


def _text_in(body: Any, depth: int) -> str:
    """The error message in a JSON value, otherwise its output."""
    if isinstance(body, str):
        return body
    if depth == 0 or not isinstance(body, dict | list):
        return ""
    if isinstance(body, list):
        return "\n".join(part for part in (_text_in(item, depth - 1) for item in body[:20]) if part)
    message = next((part for part in (_text_in(body.get(name), depth - 1) for name in _MESSAGES) if part), "")
    status = str(body.get("status") or body.get("status_code") or "")
    if message and re.fullmatch(r"[45]\d\d", status):
        return f"HTTP {status}: {message}"
    outputs = [part for part in (_text_in(body.get(name), depth - 1) for name in _OUTPUTS) if part.strip()]
    return "\n".join([*outputs, message] if message and outputs else outputs or [message])


def _clean(text: str) -> str:
    """The text without terminal escape codes and task-runner prefixes; each state of a progress bar becomes a line."""
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = _CONTROLS.sub("", text)
    if text.startswith("[") or "\n[" in text or " | " in text or "\n#" in text or ": " in text[:200]:
        text = pattern("output", "task_prefix", "^", flags=re.MULTILINE).sub("", text)
    # Gradle puts the error on the line after these words.
    return text.replace("What went wrong:\n", "What went wrong: ").strip()


# -- normalization of one line

MAX_LENGTH = 160
_MAX_LINE = 600  # characters of a line that are read
_REPEATED = re.compile(r"(‹\w+›)(?:(?:,| and| or|;| \||:)?\s*\1)+")
_DEBRIS = " \t\n.,:;-–—=*|·•>!│┃╷╵└├─━═^~\"'`#"
_OPENING = {")": "(", "]": "[", "}": "{"}
# A sentence ends with a full stop after two letters (`e.g.` does not), or before a list or an object.
_END = re.compile(r"(?<=[\w)\]›][\w)\]›])[.!?](?= |$)|: (?=[{\[])|; ")


@lru_cache(maxsize=2048)
def normalize(line: str, *, names: bool = False) -> str:
    """A line with placeholders for what varies; with `names` also for identifiers."""
    line = " ".join(line[:_MAX_LINE].split())
    for varying, replacement, needed in pattern_rows("output", "placeholders"):
        if needed in line:
            line = varying.sub(replacement, line)
    line = pattern("output", "names" if names else "calls").sub(_name, line)
    if any(map(str.isdigit, line)):
        line = _replace_numbers(line)
    return trim(_REPEATED.sub(r"\1", line))


def _name(found: re.Match[str]) -> str:
    """An error class keeps its name, without the module path; any other name becomes a placeholder."""
    last = re.split(r"\.|::", found[0])[-1]
    return last if last.endswith(("Error", "Exception", "Warning")) else "‹name›"


def _replace_numbers(line: str) -> str:
    numbers: list[str] = []

    def keep(found: re.Match[str]) -> str:
        numbers.append(found[1])
        return found[0][: -len(found[1])] + "\0"

    line = pattern("output", "error_number").sub(keep, line.replace("\0", ""))
    line = pattern("output", "number").sub("‹n›", line)
    word = pattern("output", "word").fullmatch
    line = pattern("output", "id").sub(lambda found: found[0] if word(found[0]) else "‹id›", line)
    for number in numbers:
        line = line.replace("\0", number, 1)
    return line


def trim(line: str) -> str:
    """The line cut to at most 160 characters at a word boundary, without leftover punctuation at its ends."""
    if len(line) > MAX_LENGTH:
        line = line[: MAX_LENGTH + 1]
        line = line[: line.rfind(" ")] if " " in line[MAX_LENGTH // 2 :] else line[:MAX_LENGTH]
        if line.rfind("‹") > line.rfind("›"):
            line = line[: line.rfind("‹")]
    before = None
    while before != line:
        before = line
        line = line.strip(_DEBRIS)
        last = line[-1:]
        if last in ("(", "[", "{") or (last in _OPENING and _OPENING[last] not in line):
            line = line[:-1]
    return line


def first_sentence(text: str) -> str:
    """The first sentence of a message, normalized, without lists and payload after it."""
    line = normalize(text.strip().partition("\n")[0])
    return trim(_END.split(line, maxsplit=1)[0])
