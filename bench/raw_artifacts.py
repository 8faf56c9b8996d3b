"""What a session's tool calls touched, read from the agents' raw logs: the ground truth for packets.

It shares no code with the product, so that it exposes mistakes of the ledger. It reads the logs of Claude Code, Codex,
Copilot CLI and Gemini CLI, and knows their tools and shell commands that read, write and delete files.
"""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

_READ = {"Read", "NotebookRead", "read_file", "view", "view_image"}
_WRITE = {"Write", "Edit", "MultiEdit", "NotebookEdit", "write_file", "replace", "edit", "create", "str_replace_editor"}
_SHELL = {"Bash", "bash", "exec_command", "shell", "shell_command", "run_shell_command", "local_shell"}
_PATH = ("file_path", "path", "absolute_path", "notebook_path")
_PATCH = re.compile(r"^\*\*\* (Update|Add|Delete) File: (.+)$|^\*\*\* Move to: (.+)$", re.MULTILINE)
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1(.*?)\n.*?^\s*\2\s*$", re.DOTALL | re.MULTILINE)
_OUTSIDE = re.compile(r"^(?:/tmp/|/private/tmp/|/dev/|/var/folders/|/private/var/)|\.log$")
_EXIT = re.compile(r"(?:Process exited with code|Exit code:?|exit code:?) (\d+)")
_NOT_A_FILE = re.compile(r"[$*?{}()<>|`=;,!\"'\\\s]|^-|^\d+$|^[@%+]|^\.{0,2}$|://")
_KEYWORDS = {"if", "then", "else", "do", "while", "!", "{"}
_READERS = {"cat", "head", "tail", "less", "more", "bat", "nl"}


class Call(NamedTuple):
    """A raw call: the tool, its arguments, whether it failed (`None` if it has no result), and its exit code."""

    tool: str
    arguments: dict[str, Any]
    failed: bool | None
    exit_code: int | None
    output: str
    folder: str


@dataclass
class Artifacts:
    """The files (absolute paths) by what was done with them, and the commands with their last exit codes."""

    folder: str = ""
    read: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)
    commands: dict[str, int | None] = field(default_factory=dict)

    @property
    def files(self) -> set[str]:
        return self.read | self.written | self.deleted


def artifacts_of(log: Path, *, until: str = "") -> Artifacts:
    """The artifacts of a log, up to but not including the message with the native id `until`."""
    calls = list(_calls(log, until))
    found = Artifacts(next((call.folder for call in calls if call.folder), ""))
    for call in calls:
        if call.tool in _SHELL:
            _add_command(found, call)
        elif call.failed is False:
            path = next((call.arguments[name] for name in _PATH if isinstance(call.arguments.get(name), str)), "")
            if "*** Begin Patch" in str(call.arguments.get("input", "")):
                _add_patch(found, str(call.arguments["input"]), call.folder)
            elif call.tool in _READ and path:
                found.read.add(_resolve(path, call.folder))
            elif call.tool in _WRITE and path:
                _write(found, _resolve(path, call.folder))
    return found


def _write(found: Artifacts, path: str, *, shell: bool = False) -> None:
    if shell and _OUTSIDE.search(path):
        return
    found.written.add(path)
    found.deleted.discard(path)


def _delete(found: Artifacts, path: str) -> None:
    if _OUTSIDE.search(path):
        return
    found.deleted.add(path)
    found.written.discard(path)


def _resolve(path: str, folder: str) -> str:
    if path.startswith("~"):
        return path
    return posixpath.normpath(posixpath.join(folder, path)).replace("/private/", "/", 1)


def _add_patch(found: Artifacts, patch: str, folder: str) -> None:
    for kind, path, moved in _PATCH.findall(patch):
        act = _delete if kind == "Delete" else _write
        act(found, _resolve((path or moved).strip(), folder))


def _add_command(found: Artifacts, call: Call) -> None:
    value = call.arguments.get("command", call.arguments.get("cmd", ""))
    text = value[-1] if isinstance(value, list) else str(value)
    if call.failed is None or not text:
        return
    found.commands[" ".join(text.split())] = call.exit_code
    folder = _resolve(str(call.arguments.get("workdir") or ""), call.folder)
    if call.failed:
        return
    if "*** Begin Patch" in text:
        _add_patch(found, text, folder)
        return
    for words, outputs in _simple_commands(text):
        if words[:1] == ["cd"] and len(words) > 1:
            folder = _resolve(words[1], folder)
            continue
        for path in filter(_is_file, outputs):
            _write(found, _resolve(path, folder), shell=True)
        _add_program(found, words, folder)


def _add_program(found: Artifacts, words: list[str], folder: str) -> None:
    if not words:
        return
    program, plain = words[0].rsplit("/", 1)[-1], [word for word in words[1:] if not word.startswith("-")]
    in_place = any(re.match(r"-[a-zE]*i|--in-place", word) for word in words[1:3])
    if program == "git" and plain[:1] in (["rm"], ["mv"]):
        program, plain = plain[0], plain[1:]
    if program in _READERS or (program == "sed" and not in_place):
        shown = plain[1:] if program == "sed" else plain
        places = (_resolve(path, folder) for path in filter(_is_file, shown))
        found.read.update(path for path in places if not _OUTSIDE.search(path))
    elif program in ("rm", "unlink") and not any(re.match(r"-[a-z]*r", word) for word in words):
        for path in filter(_is_file, plain):
            _delete(found, _resolve(path, folder))
    elif program in ("mv", "cp") and len(plain) == 2 and "." in plain[1].rsplit("/", 1)[-1] and _is_file(plain[1]):
        _write(found, _resolve(plain[1], folder), shell=True)
        if program == "mv" and _is_file(plain[0]):
            _delete(found, _resolve(plain[0], folder))
    elif program in ("touch", "tee", "sed"):
        for path in filter(_is_file, plain[1:] if program == "sed" else plain):
            _write(found, _resolve(path, folder), shell=True)


def _is_file(word: str) -> bool:
    return not _NOT_A_FILE.search(word) and word.strip("./") != "" and ("." in word or "/" in word)


def _simple_commands(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """The words of each simple command, and the files that it redirects its output to."""
    text = _HEREDOC.sub(r"\3\n", text)
    lexer = shlex.shlex(text.replace("\\\n", " ").replace("\n", " ; "), posix=True, punctuation_chars="();<>|&")
    lexer.whitespace_split, lexer.commenters = True, ""
    words: list[str] = []
    outputs: list[str] = []
    redirect = ""
    try:
        for token in lexer:
            if token in (">", ">>"):
                redirect = ">"
                if words and words[-1] == "2":
                    words.pop()
                    redirect = "2"
            elif token and set(token) <= set("();<>|&"):
                redirect = "<" if token[0] in "<>" or ">" in token else ""
                if not redirect:
                    yield words, outputs
                    words, outputs = [], []
            elif redirect:
                outputs += [token] if redirect == ">" else []
                redirect = ""
            elif words or not (re.match(r"\w+=", token) or token in _KEYWORDS):
                words.append(token)
    except ValueError:  # an unbalanced quote
        return
    yield words, outputs


# -- the logs


def _calls(log: Path, until: str) -> Iterator[Call]:
    text = log.read_text(encoding="utf-8", errors="replace")
    lines: list[dict[str, Any]] = []
    if log.suffix == ".json":
        yield from _gemini(json.loads(text))
        return
    for line in text.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            if until and entry.get("uuid") == until:
                break
            lines.append(entry)
    if any("payload" in line for line in lines):
        yield from _codex(lines)
    elif any(str(line.get("type", "")).startswith("tool.execution") for line in lines):
        yield from _copilot(lines)
    else:
        yield from _claude(lines)


def _claude(lines: list[dict[str, Any]]) -> Iterator[Call]:
    results: dict[str, dict[str, Any]] = {}
    calls: dict[str, tuple[dict[str, Any], str]] = {}
    folder = next((str(line["cwd"]) for line in lines if line.get("cwd")), "")
    for line in lines:
        content = line.get("message", {}).get("content") if isinstance(line.get("message"), dict) else None
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict) and block.get("type") == "tool_use":
                calls[block["id"]] = block, str(line.get("cwd") or folder)
            elif isinstance(block, dict) and block.get("type") == "tool_result":
                results[block["tool_use_id"]] = block
    for call_id, (block, where) in calls.items():
        result = results.get(call_id)
        output = _text(result.get("content")) if result else ""
        failed = bool(result.get("is_error")) if result else None
        code = _EXIT.match(output)
        yield Call(block["name"], block["input"], failed, int(code[1]) if code else 0, output, where)


def _codex(lines: list[dict[str, Any]]) -> Iterator[Call]:
    payloads = [line["payload"] for line in lines if isinstance(line.get("payload"), dict)]
    folder = next((str(one["cwd"]) for one in payloads if one.get("cwd")), "")
    outputs = {one["call_id"]: _text(one.get("output")) for one in payloads if str(one.get("type")).endswith("_output")}
    for one in payloads:
        if one.get("type") not in ("function_call", "custom_tool_call"):
            continue
        output = outputs.get(one["call_id"])
        try:
            arguments = json.loads(one["arguments"]) if "arguments" in one else {"input": one.get("input", "")}
        except ValueError:
            arguments = {}
        code = _EXIT.search(output[:400]) if output else None
        failed = None if output is None else bool(code and code[1] != "0") or output.startswith("apply_patch verific")
        yield Call(one["name"], arguments, failed, int(code[1]) if code else None, output or "", folder)


def _copilot(lines: list[dict[str, Any]]) -> Iterator[Call]:
    data = [(str(line["type"]), line["data"]) for line in lines if isinstance(line.get("data"), dict)]
    folder = next((str(one["context"]["cwd"]) for _, one in data if one.get("context", {}).get("cwd")), "")
    ended = {one["toolCallId"]: one for kind, one in data if kind == "tool.execution_complete"}
    for kind, one in data:
        if kind == "tool.execution_start":
            end = ended.get(one["toolCallId"])
            output = _text((end or {}).get("result", {}).get("content")) if end else ""
            code = re.search(r"exit(?:ed with)?(?: exit)? code:? (\d+)", output[-200:])
            failed = None if end is None else not end.get("success") or bool(code and code[1] != "0")
            yield Call(one["toolName"], one["arguments"], failed, int(code[1]) if code else None, output, folder)


def _gemini(log: dict[str, Any]) -> Iterator[Call]:
    for message in log.get("messages", ()):
        for one in message.get("toolCalls", ()):
            yield Call(one["name"], one.get("args", {}), one.get("status") != "success", None, "", "")


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(str(block.get("text", "")) for block in content if isinstance(block, dict))
    return str(content or "")
