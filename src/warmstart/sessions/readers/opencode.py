"""OpenCode: its database, its older folder of JSON files, and what `opencode export` writes. All hold the same objects.

A message has facts (`info`) and `parts`: text, reasoning, tool calls with their state, steps, files.

Traps, and what is done about them:

- A shell command that fails is `completed`; only `state.metadata.exit` tells. A number other than 0 is an error, and so
  is a command that was stopped after its time, which has no such number.
- `error` is also the word for a call that the user refused or stopped: those are `rejected`. A call that a rule in the
  settings forbids is an error, since nobody was asked.
- `summary` is `true` on the summary of a compaction, but an object (changed files) on messages of the user.
- Text of the user is mixed with text that OpenCode adds (`synthetic`), such as the content of attached files. Where the
  user said anything, only that is kept; otherwise the message counts as injected.
- Ids of calls come from the model's provider and may repeat between sessions: a fork is a copy with new message ids and
  the same call ids. It does not say of which session it is a copy, so it has no parent; `parentID` means subagent.
- Token counts stand on every step and, for the last step only, on the message: steps are added up.

A limit: in the older folder a session is known by its file of facts, `ses_*.json`. OpenCode writes that file whenever
the user speaks; a message or part added without that is read when the file is next written.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from warmstart.errors import LogError
from warmstart.sessions.projects import project_of
from warmstart.sessions.readers import document
from warmstart.sessions.readers.base import Pair, Reading
from warmstart.sessions.readers.decoding import DECODE_ERRORS, decode
from warmstart.sessions.readers.fields import as_dict, as_int, as_json, as_list, as_str, as_text, as_time, usage_of
from warmstart.sessions.readers.opencode_store import Entry, database, folder
from warmstart.sessions.readers.walking import files_below
from warmstart.sessions.values import CallOutcome, Message, Session, ToolCall, ToolResult, Usage, session_id

AGENT = "opencode"
SQLITE = b"SQLite format 3\0"

_EXPORT = re.compile(rb'\s*\{\s*"info"\s*:\s*\{[^{}]*?"id"\s*:\s*"ses_')
_REFUSED = re.compile(r"user (?:rejected|dismissed)|rejected permission|Tool execution aborted", re.IGNORECASE)
_STOPPED = "User aborted the command"
_TIMED_OUT = re.compile(r"(?:shell|bash) tool terminated command after exceeding timeout")
_SHELLS = ("bash", "shell")
_NO_CONTENT = ("step-start", "step-finish")


class Export(msgspec.Struct):
    """What `opencode export` writes."""

    info: Any = None
    messages: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"[]"))


class Exported(msgspec.Struct):
    """One message of an export."""

    info: Any = None
    parts: Any = None


_DOCUMENT = msgspec.json.Decoder(Export)
_RAW_LIST = msgspec.json.Decoder(list[msgspec.Raw])
_MESSAGE = msgspec.json.Decoder(Exported)


class OpenCodeReader:
    """Reads the sessions of OpenCode."""

    agent = AGENT

    def roots(self, env: Mapping[str, str], home: Path) -> list[Path]:
        data = Path(env.get("XDG_DATA_HOME") or home / ".local" / "share") / "opencode"
        named = env.get("OPENCODE_DB", "")
        return [data] if named in ("", ":memory:") else [data, data / named]

    def find(self, root: Path) -> Iterable[Path]:
        if root.is_file() or (root.is_dir() and not _can_list(root)):
            return [root]
        stores = [root / "session", root / "storage" / "session", *root.glob("project/*/storage/session/info")]
        stored = [path for store in stores if store.is_dir() for path in files_below(store, _is_session_name)]
        databases = sorted(root.glob("opencode*.db"))
        if stored or databases or (root.name == "opencode" and _can_list(root)):
            # The database comes last: it holds the newer state of what was moved into it.
            return [*sorted(stored), *databases]
        return list(files_below(root, lambda name: name.endswith(".json")))

    def claims(self, path: Path, head: bytes) -> bool:
        if head.startswith(SQLITE):
            return path.name.startswith("opencode") or all(
                b"CREATE TABLE `%s`" % name in head for name in (b"session", b"message", b"part")
            )
        if path.suffix != ".json":
            return False
        return bool(_EXPORT.match(head)) or _is_session_file(path, head)

    def read(self, path: Path, reading: Reading) -> Iterator[Pair]:
        try:
            with path.open("rb") as file:
                head = file.read(65536)
            if head.startswith(SQLITE) or path.suffix == ".db":
                entries = database(path, reading)
            elif _is_session_file(path, head):
                entries = folder(path, reading)
            else:
                entries = _exported(path, reading)
            # One pair is held back, so that the place to go on from is set before the last pair is handed out.
            yield from document.ending(_pairs(entries, path, reading), lambda: None)
        except OSError as error:
            raise LogError(f"cannot read {str(path)!r}: {error.strerror or error}") from error


def _is_session_name(name: str) -> bool:
    return name.startswith("ses_") and name.endswith(".json")


def _can_list(folder: Path) -> bool:
    try:
        with os.scandir(folder):
            return True
    except OSError:
        return False


def _is_session_file(path: Path, head: bytes) -> bool:
    return path.name.startswith("ses_") and re.search(rb'"id"\s*:\s*"ses_', head) is not None and b'"info"' not in head


def _exported(path: Path, reading: Reading) -> Iterator[Entry]:
    loaded = document.load(path, reading, _DOCUMENT)
    if loaded is None:
        return
    export, size = loaded
    facts = as_dict(export.info)
    facts["id"] = as_str(facts.get("id")) or path.stem
    try:
        listed = decode(export.messages, _RAW_LIST)
    except DECODE_ERRORS as error:
        reading.fault(1, error)
        return
    reading.offset = 0
    for number, raw in enumerate(listed, 1):
        try:
            message = decode(raw, _MESSAGE)
        except DECODE_ERRORS as error:
            reading.fault(number, error)
            continue
        info = as_dict(message.info)
        info["id"] = as_str(info.get("id")) or f"{facts['id']}#{number}"
        yield Entry(facts, info, [as_dict(part) for part in as_list(message.parts)])
    reading.offset = size


def _pairs(entries: Iterator[Entry], path: Path, reading: Reading) -> Iterator[Pair]:
    for entry in entries:
        session = _session(entry, path)
        if entry.message is None:
            yield session, None
            continue
        sidechain = session.parent_kind == "subagent"
        for message in messages(entry.message, entry.parts, reading):
            yield session, replace(message, sidechain=sidechain)


def _session(entry: Entry, path: Path) -> Session:
    facts, info = entry.session, entry.message or {}
    time, parent = as_dict(facts.get("time")), as_str(facts.get("parentID"))
    directory = as_str(facts.get("directory")) or as_str(as_dict(info.get("path")).get("cwd"))
    return Session(
        agent=AGENT,
        native_id=as_str(facts.get("id")),
        project=project_of(directory),
        model=as_str(info.get("modelID")) or as_str(as_dict(facts.get("model")).get("id")),
        title=as_str(facts.get("title")),
        version=as_str(facts.get("version")),
        source=str(path),
        started_at=_time(time.get("created")),
        ended_at=_time(time.get("updated")),
        parent_id=session_id(AGENT, parent) if parent else None,
        parent_kind="subagent" if parent else None,
    )


def messages(info: dict[str, Any], parts: list[dict[str, Any]], reading: Reading) -> list[Message]:
    """The message that `info` and `parts` make up, followed by the results of its calls."""
    role = info.get("role")
    if role not in ("user", "assistant"):
        reading.skip(as_str(role) or "unknown message")
        return []
    own = [part for part in parts if _known(part, reading)]
    if role == "user":
        return _user(info, own)
    tools = _tools(info, own)
    said = Message(
        native_id=info["id"],
        role="assistant",
        text="\n".join(filter(None, (as_str(part.get("text")) for part in own if part["type"] == "text"))),
        reasoning="\n".join(filter(None, (as_str(part.get("text")) for part in own if part["type"] == "reasoning"))),
        tool_calls=tuple(_call(key, part) for key, part in tools.items()),
        timestamp=_time(as_dict(info.get("time")).get("created")),
        model=as_str(info.get("modelID")),
        usage=_usage(info, own),
        compaction_summary=info.get("summary") is True,
    )
    if not (said.text or said.reasoning or said.tool_calls):
        return []
    return [said, *_results(said, tools)]


def _known(part: dict[str, Any], reading: Reading) -> bool:
    kind = as_str(part.get("type"))
    if kind not in ("text", "reasoning", "tool", "file", "subtask", *_NO_CONTENT):
        reading.skip(kind or "unknown part")
        return False
    return not part.get("ignored")


def _user(info: dict[str, Any], parts: list[dict[str, Any]]) -> list[Message]:
    spoken = [_spoken(part) for part in parts if not part.get("synthetic")]
    added = [_spoken(part) for part in parts if part.get("synthetic")]
    typed = any(part["type"] in ("text", "subtask") and not part.get("synthetic") for part in parts)
    text = "\n".join(filter(None, spoken if typed else [*added, *spoken]))
    if not text:
        return []
    time = _time(as_dict(info.get("time")).get("created"))
    return [Message(native_id=info["id"], role="user", text=text, timestamp=time, injected=not typed and bool(added))]


def _spoken(part: dict[str, Any]) -> str:
    if part["type"] == "text":
        return as_str(part.get("text"))
    if part["type"] == "subtask":
        return as_str(part.get("prompt"))
    if part["type"] == "file":
        image = as_str(part.get("mime")).startswith("image/")
        return "[image]" if image else f"[file {as_str(part.get('filename'))}]".replace(" ]", "]")
    return ""


def _tools(info: dict[str, Any], parts: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The tool parts by the id of their call, which is made unique within the message."""
    found: dict[str, dict[str, Any]] = {}
    for number, part in enumerate(part for part in parts if part["type"] == "tool"):
        key = as_str(part.get("callID")) or as_str(part.get("id")) or f"{info['id']}#{number}"
        found[f"{key}#{number}" if key in found else key] = part
    return found


def _call(key: str, part: dict[str, Any]) -> ToolCall:
    given = as_dict(part.get("state")).get("input")
    return ToolCall(id=key, name=as_str(part.get("tool")), arguments=as_json({} if given is None else given))


def _results(said: Message, tools: Mapping[str, dict[str, Any]]) -> Iterator[Message]:
    for key, part in tools.items():
        state = as_dict(part.get("state"))
        result = _result(key, as_str(part.get("tool")), state)
        if result is not None:
            yield Message(
                native_id=f"{said.native_id}:{key}:result",
                role="tool",
                tool_results=(result,),
                timestamp=_time(as_dict(state.get("time")).get("end")) or said.timestamp,
            )


def _result(key: str, tool: str, state: dict[str, Any]) -> ToolResult | None:
    status = state.get("status")
    if status not in ("completed", "error"):
        return None
    facts, time = as_dict(state.get("metadata")), as_dict(state.get("time"))
    failed = status == "error"
    text = as_text(state.get("error")) or as_text(state.get("output")) if failed else as_text(state.get("output"))
    code = as_int(facts.get("exit"))
    start, end = as_int(time.get("start")), as_int(time.get("end"))
    return ToolResult(
        call_id=key,
        outcome=_outcome(tool, text, failed, code, interrupted=facts.get("interrupted") is True),
        text=text,
        duration=max(0, end - start) / 1000 if start is not None and end is not None else None,
        flag=failed,
        exit_code=code,
    )


def outcome_of(tool: str, result: ToolResult) -> CallOutcome:
    """What a result comes to; `flag` says that it is an error. That a call was interrupted is not kept: it stands."""
    interrupted = result.outcome == "rejected"
    return _outcome(tool, result.text, result.flag is True, result.exit_code, interrupted=interrupted)


def _outcome(tool: str, text: str, failed: bool, code: int | None, *, interrupted: bool) -> CallOutcome:
    if failed:
        return "rejected" if interrupted or _REFUSED.search(text[:400]) else "error"
    if code:
        return "error"
    if tool in _SHELLS and code is None:
        # Without an exit code the command did not end by itself; why is said after its output.
        end = text[-1000:]
        return "rejected" if _STOPPED in end else "error" if _TIMED_OUT.search(end) else "ok"
    return "ok"


def _usage(info: dict[str, Any], parts: Iterable[dict[str, Any]]) -> Usage | None:
    steps = [as_dict(part.get("tokens")) for part in parts if part["type"] == "step-finish"]
    total: Counter[str] = Counter()
    for tokens in steps or [as_dict(info.get("tokens"))]:
        cache = as_dict(tokens.get("cache"))
        total["cache_read"] += as_int(cache.get("read")) or 0
        total["cache_write"] += as_int(cache.get("write")) or 0
        for name in ("input", "output", "reasoning"):
            total[name] += as_int(tokens.get(name)) or 0
    return usage_of(**total)


def _time(value: object) -> datetime | None:
    return as_time(as_int(value))
