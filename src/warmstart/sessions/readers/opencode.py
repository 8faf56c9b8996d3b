"""OpenCode: its database, its older folder of JSON files, and what `opencode export` writes. All hold the same objects.

A message has facts (`info`) and `parts`: text, reasoning, tool calls with their state, steps, files. Traps:

- A shell command that fails is `completed`; only `state.metadata.exit` says so. A command that timed out has no number.
- `error` also means that the user, or a rule of the user's, refused or stopped a call: those are `rejected`.
- `summary` is `true` on the summary of a compaction, but an object (changed files) on messages of the user.
- The user's text is mixed with text that OpenCode adds (`synthetic`), such as attached files. Where the user typed
  anything, only that is kept; otherwise the message counts as injected.
- Ids of calls may repeat between sessions. `origin` names a message's own session, so that the store keeps messages
  apart that only happen to have the same id.
- Token counts are on every step and, for the last step only, on the message: steps are added up.
- A fork begins with a copy of another session under new ids, and does not name it. But a copy is older than its
  session, and its original has the same role and time. Copies are left out; the writer of the last one is the fork's
  parent.

The database is live and in WAL mode: it is opened read-only, never copied. Messages and parts are updated in place
while the model streams, so `time_updated` says what changed; row ids also say what is new, because clocks are set back
and rows can be dated in the future. `Reading.state` holds `since` (everything older is done) and `rows` (the last row
done per table, with a digest). Within a pass it also holds `after` (the last session done), `until` and `upto` (the
next `since` and `rows`), so that an interrupted first pass continues. If another row is in the place of one that was
done, the database was replaced or packed and is read from its start.

In the older folder a session is found by its file `ses_*.json`, which OpenCode writes when the user sends a message.
What is added without that is read when the file is written next.
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from warmstart.errors import LogError
from warmstart.sessions.projects import project_of
from warmstart.sessions.readers.base import LogReader, Pair, Reading, files_below, open_database, table_columns
from warmstart.sessions.readers.decoding import DECODE_ERRORS, decode, hold_last, load_document, read_document
from warmstart.sessions.readers.fields import (
    as_dict,
    as_int,
    as_json,
    as_list,
    as_str,
    as_text,
    as_time,
    join_blocks,
    usage_of,
)
from warmstart.sessions.values import CallOutcome, Message, Session, ToolCall, ToolResult, Usage, session_id

AGENT = "opencode"
MARGIN_MS = 1000  # a transaction may be committed a moment after the times that it wrote

_SQLITE = b"SQLite format 3\0"
_EXPORT = re.compile(rb'\s*\{\s*"info"\s*:\s*\{[^{}]*?"id"\s*:\s*"ses_')
_REFUSED = re.compile(
    r"user (?:rejected|dismissed)|rejected permission|specified a rule which prevents you|Tool execution aborted",
    re.IGNORECASE,
)
_STOPPED = "User aborted the command"
_TIMED_OUT = re.compile(r"(?:shell|bash) tool terminated command after exceeding timeout")
_SHELLS = ("bash", "shell")
_NO_CONTENT = ("step-start", "step-finish")


_COLUMNS = {
    "session": {"id", "time_created", "time_updated"},
    "message": {"id", "session_id", "data", "time_created", "time_updated"},
    "part": {"id", "message_id", "data", "time_updated"},
}
_SESSION_COLUMNS = ("id", "parent_id", "directory", "title", "version", "model", "time_created", "time_updated")
_OBJECT = msgspec.json.Decoder(dict[str, Any])
_Fields = dict[str, Any]


class Entry(NamedTuple):
    """One stored message with the facts of its session; without a message, the facts alone."""

    session: _Fields
    message: _Fields | None
    parts: list[_Fields]


class Original(NamedTuple):
    """A message that others may copy: when its session was created, that session's id, and its own facts."""

    created: int
    session: str
    info: _Fields


class OpenCodeReader(LogReader):
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
        if head.startswith(_SQLITE):
            return path.name.startswith("opencode") or all(
                b"CREATE TABLE `%s`" % name in head for name in (b"session", b"message", b"part")
            )
        if path.suffix != ".json":
            return False
        return bool(_EXPORT.match(head)) or _is_session_file(path, head)

    def pairs(self, path: Path, reading: Reading) -> Iterator[Pair]:
        with path.open("rb") as file:
            head = file.read(65536)
        is_database = head.startswith(_SQLITE) or path.suffix == ".db"
        entries = _database_entries(path, reading) if is_database else _file_entries(path, head, reading)
        # One pair is held back, so that the place to continue from is set before the last pair is yielded.
        yield from hold_last(_pairs(entries, path, reading), lambda: None)

    def outcome_of(self, tool: str, result: ToolResult) -> CallOutcome:
        """`flag` means error. That a call was interrupted is not stored, so a refusal stays one."""
        interrupted = result.outcome == "rejected"
        return _outcome(tool, result.text, result.flag is True, result.exit_code, interrupted=interrupted)


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


# Forks


def _created_at(facts: _Fields) -> int:
    return as_int(as_dict(facts.get("time")).get("created")) or 0


def _find_copies(facts: _Fields, own: Iterable[_Fields], others: Iterable[Original]) -> set[str]:
    """The ids of the copies among a session's `own` messages. If there are any, `forkOf` is set in its facts.

    `others` are messages of its project. They are read only if the session is younger than its first message.
    """
    created, messages = _created_at(facts), iter(own)
    first = next(messages, None)
    if first is None or as_str(facts.get("parentID")) or not 0 < _created_at(first) < created:
        return set()
    writers: dict[tuple[int, str], tuple[int, str]] = {}
    for original in others:
        if original.created < created:
            key, writer = _role_and_time(original.info), original[:2]
            writers[key] = min(writers.get(key, writer), writer)
    copies = {
        info["id"]: key
        for info in (first, *messages)
        if (key := _role_and_time(info)) in writers and _created_at(info) < created
    }
    if copies:
        facts["forkOf"] = writers[max(copies.values())][1]
    return set(copies)


def _role_and_time(info: _Fields) -> tuple[int, str]:
    return _created_at(info), as_str(info.get("role"))


# Files: an export holds all of a session, a file of facts has folders of messages and parts beside it


def _file_entries(path: Path, head: bytes, reading: Reading) -> Iterator[Entry]:
    loaded = load_document(path, reading, _OBJECT)
    if loaded is None:
        return
    facts, messages = _conversation(path, head, loaded[0], reading)
    copies = _find_copies(facts, (info for info, _ in messages), _beside(path, facts))
    reading.offset = 0
    if _is_session_file(path, head):
        yield Entry(facts, None, [])
    for info, parts in messages:
        if info["id"] in copies:
            reading.skip("copied message")
        elif isinstance(parts, Path):
            own = [part for file in _json_files(parts) if (part := _load(file, reading)) is not None]
            # The very first versions kept the parts inside the message.
            yield Entry(facts, info, own or [as_dict(part) for part in as_list(info.get("parts"))])
        else:
            yield Entry(facts, info, [as_dict(part) for part in as_list(parts)])
    reading.offset = loaded[1]


def _conversation(
    path: Path, head: bytes, document: _Fields, reading: Reading
) -> tuple[_Fields, list[tuple[_Fields, Any]]]:
    """The facts of a session and its messages, each with its parts or with the folder of its parts."""
    if not _is_session_file(path, head):
        facts = as_dict(document.get("info"))
        facts["id"] = as_str(facts.get("id")) or path.stem
        messages: list[tuple[_Fields, Any]] = []
        for number, message in enumerate(as_list(document.get("messages")), 1):
            if isinstance(message, dict):
                info = as_dict(message.get("info"))
                info = {**info, "id": as_str(info.get("id")) or f"{facts['id']}#{number}"}
                messages.append((info, message.get("parts")))
            else:
                reading.report(number, "the message is not a JSON object")
        return facts, messages
    facts = {**document, "id": as_str(document.get("id")) or path.stem}
    if path.parent.name == "info":
        base = path.parent.parent
        parts = base / "part" / path.stem
    else:
        base = path.parent.parent.parent
        parts = base / "part"
    files = _json_files(base / "message" / path.stem)
    return facts, [(found, parts / file.stem) for file in files if (found := _load(file, reading)) is not None]


def _beside(path: Path, facts: _Fields) -> Iterator[Original]:
    """The messages of the project's other sessions in the same folder."""
    for other in path.parent.glob("*.json"):
        with suppress(OSError, LogError, *DECODE_ERRORS):
            with other.open("rb") as file:
                head = file.read(65536)
            if other == path or not (_EXPORT.match(head) or _is_session_file(other, head)):
                continue
            info, messages = _conversation(other, head, decode(read_document(other), _OBJECT), Reading(other))
            if info.get("projectID") == facts.get("projectID") and info["id"] != facts["id"]:
                yield from (Original(_created_at(info), info["id"], each) for each, _ in messages)


def _json_files(folder: Path) -> list[Path]:
    """The JSON files of a folder, oldest first: OpenCode's ids of messages and parts ascend."""
    return sorted(folder.glob("*.json")) if folder.is_dir() else []


def _load(file: Path, reading: Reading) -> _Fields | None:
    try:
        found = _object(file.read_bytes())
    except OSError:
        found = None
    if found is None:
        reading.report(0, f"{file.name} is not a JSON object")
        return None
    return {**found, "id": as_str(found.get("id")) or file.stem}


# The database


def _database_entries(path: Path, reading: Reading) -> Iterator[Entry]:
    """What changed in the database since `reading`."""
    try:
        with closing(open_database(path)) as db:
            yield from _pass(_Tables(db, path), reading)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        # SQLite quotes a damaged schema in its message, which Python cannot decode.
        raise LogError(f"cannot read the OpenCode database {str(path)!r}: {error}") from error


def _pass(tables: _Tables, reading: Reading) -> Iterator[Entry]:
    state, now = reading.state, _now()
    places = [as_dict(state.get(name)) for name in ("rows", "upto")]
    # If the last pass ends in the future, the clock was set back: nobody knows what changed since.
    if (as_int(state.get("since")) or 0) > now or not all(map(tables.has_rows, places)):
        state.clear()
    since, after = as_int(state.get("since")) or 0, as_str(state.get("after"))
    if not after:
        state["until"], state["upto"] = min(tables.latest(), now), tables.last_rows()
    rows = as_dict(state.get("rows"))
    done = {"since": since, "message": _row(rows.get("message"))[0], "part": _row(rows.get("part"))[0]}
    for key in tables.changed_sessions(done, after):
        facts = tables.session(key)
        copies = tables.copies(facts)
        yield Entry(facts, None, [])
        for info in tables.changed_messages(key, done, reading):
            if info["id"] in copies:
                reading.skip("copied message")
            else:
                yield Entry(facts, info, list(tables.parts(info["id"], reading)))
        state["after"] = key
    until = as_int(state.pop("until", None)) or 0
    state.pop("after", None)
    state["since"] = max(since, until - MARGIN_MS)
    state["rows"] = state.pop("upto", {})


def _now() -> int:
    return int(time.time() * 1000)


def _row(place: object) -> tuple[int, str]:
    """A row in the state: its number and its digest."""
    number, mark = [*as_list(place), None, None][:2]
    return as_int(number) or 0, as_str(mark)


class _Tables:
    """The tables of an OpenCode database; columns that only newer versions have may be missing."""

    def __init__(self, db: sqlite3.Connection, path: Path) -> None:
        self.db = db
        self.columns = {name: table_columns(db, name) for name in _COLUMNS}
        for name, needed in _COLUMNS.items():
            if missing := needed - self.columns[name]:
                raise LogError(f"{str(path)!r} is not an OpenCode database: {name} has no column {min(missing)!r}")

    def last_rows(self) -> dict[str, list[int | str]]:
        found: dict[str, list[int | str]] = {}
        for name in ("message", "part"):
            number = as_int(self.db.execute(f"SELECT max(rowid) FROM {name}").fetchone()[0]) or 0
            found[name] = [number, self._mark(name, number)]
        return found

    def has_rows(self, rows: _Fields) -> bool:
        """Whether these rows are still the same."""
        places = {name: _row(rows.get(name)) for name in ("message", "part")}
        return all(self._mark(name, number) == mark for name, (number, mark) in places.items())

    def _mark(self, name: str, number: int) -> str:
        found = self.db.execute(f"SELECT id FROM {name} WHERE rowid = ?", (number,)).fetchone() if number else None
        return blake2b(repr(found).encode("utf-8", "replace"), digest_size=8).hexdigest() if found else ""

    def latest(self) -> int:
        """The newest `time_updated` of all."""
        newest = (self.db.execute(f"SELECT max(time_updated) FROM {name}").fetchone()[0] for name in _COLUMNS)
        return max(as_int(value) or 0 for value in newest)

    def changed_sessions(self, done: dict[str, int], after: str) -> list[str]:
        """The ids of sessions in which anything changed. Ids alone: no cursor stays open while a pair is handled."""
        found = self.db.execute(
            f"""SELECT id FROM session WHERE id > :after AND (
                    (:since = 0 OR time_updated >= :since)
                    OR id IN (SELECT session_id FROM message WHERE {_is_recent("message")})
                    OR id IN (SELECT m.session_id FROM message m WHERE m.id IN
                        (SELECT message_id FROM part WHERE {_is_recent("part")})))
                ORDER BY id""",
            {**done, "after": after},
        )
        return [key for (key,) in found if isinstance(key, str)]

    def session(self, key: str) -> _Fields:
        names = [name for name in _SESSION_COLUMNS if name in self.columns["session"]]
        row = self.db.execute(f"SELECT {', '.join(names)} FROM session WHERE id = ?", (key,)).fetchone()
        facts = dict(zip(names, row or [], strict=False))
        return {
            "id": key,
            "parentID": facts.get("parent_id"),
            "directory": facts.get("directory"),
            "title": facts.get("title"),
            "version": facts.get("version"),
            "model": _object(facts.get("model")) or {},
            "time": {"created": facts.get("time_created"), "updated": facts.get("time_updated")},
        }

    def copies(self, facts: _Fields) -> set[str]:
        """The messages of a session that were copied from others of its project."""
        rows = self.db.execute(
            "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id", (facts["id"],)
        )
        own = ({**info, "id": key} for key, data in rows if isinstance(key, str) and (info := _object(data)))
        return _find_copies(facts, own, self._older(facts))

    def _older(self, facts: _Fields) -> Iterator[Original]:
        same = "s.project_id IS (SELECT project_id FROM session WHERE id = :id)"
        rows = self.db.execute(
            f"""SELECT s.time_created, s.id, m.data FROM session s JOIN message m ON m.session_id = s.id
                WHERE s.time_created < :created AND {same if "project_id" in self.columns["session"] else "1"}""",
            {"created": _created_at(facts), "id": facts["id"]},
        )
        for created, key, data in rows:
            if isinstance(key, str) and (info := _object(data)):
                yield Original(created, key, info)

    def changed_messages(self, session: str, done: dict[str, int], reading: Reading) -> Iterator[_Fields]:
        rows = self.db.execute(
            f"""SELECT id, data FROM message WHERE session_id = :session AND ({_is_recent("message")}
                    OR id IN (SELECT message_id FROM part WHERE message_id = message.id AND {_is_recent("part")}))
                ORDER BY time_created, id""",
            {**done, "session": session},
        )
        yield from _objects(rows, "message", reading)

    def parts(self, message: str, reading: Reading) -> Iterator[_Fields]:
        rows = self.db.execute("SELECT id, data FROM part WHERE message_id = ? ORDER BY id", (message,))
        yield from _objects(rows, "part", reading)


def _is_recent(table: str) -> str:
    return f"(:since = 0 OR time_updated >= :since OR rowid > :{table})"


def _objects(rows: sqlite3.Cursor, kind: str, reading: Reading) -> Iterator[_Fields]:
    for key, data in rows:
        found = _object(data)
        if found is None or not isinstance(key, str):
            reading.report(0, f"{kind} {key!r} is not a JSON object")
        else:
            yield {**found, "id": key}


def _object(data: object) -> _Fields | None:
    raw = data.encode("utf-8", "replace") if isinstance(data, str) else data
    if not isinstance(raw, bytes):
        return None
    try:
        return decode(raw, _OBJECT)
    except DECODE_ERRORS:
        return None


# Messages


def _pairs(entries: Iterator[Entry], path: Path, reading: Reading) -> Iterator[Pair]:
    seen: Counter[str] = Counter()
    for entry in entries:
        session = _session(entry, path)
        if entry.message is None:
            seen.clear()
            yield session, None
            continue
        key = entry.message["id"]
        seen[key] += 1
        info = entry.message if seen[key] == 1 else {**entry.message, "id": f"{key}#{seen[key]}"}
        sidechain = session.parent_kind == "subagent"
        for message in _messages(info, entry.parts, reading):
            yield session, replace(message, sidechain=sidechain, origin=session.native_id)


def _session(entry: Entry, path: Path) -> Session:
    facts, info = entry.session, entry.message or {}
    time, parent, fork = as_dict(facts.get("time")), as_str(facts.get("parentID")), as_str(facts.get("forkOf"))
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
        parent_id=session_id(AGENT, parent or fork) if parent or fork else None,
        parent_kind="subagent" if parent else "branch" if fork else None,
    )


def _messages(info: _Fields, parts: list[_Fields], reading: Reading) -> list[Message]:
    """The message of `info` and `parts`, followed by the results of its calls."""
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
        text=join_blocks("\n", (as_str(part.get("text")) for part in own if part["type"] == "text")),
        reasoning=join_blocks("\n", (as_str(part.get("text")) for part in own if part["type"] == "reasoning")),
        tool_calls=tuple(_call(key, part) for key, part in tools.items()),
        timestamp=_time(as_dict(info.get("time")).get("created")),
        model=as_str(info.get("modelID")),
        usage=_usage(info, own),
        compaction_summary=info.get("summary") is True,
    )
    if not (said.text or said.reasoning or said.tool_calls):
        return []
    return [said, *_results(said, tools)]


def _known(part: _Fields, reading: Reading) -> bool:
    kind = as_str(part.get("type"))
    if kind not in ("text", "reasoning", "tool", "file", "subtask", *_NO_CONTENT):
        reading.skip(kind or "unknown part")
        return False
    return not part.get("ignored")


def _user(info: _Fields, parts: list[_Fields]) -> list[Message]:
    spoken = [_spoken(part) for part in parts if not part.get("synthetic")]
    added = [_spoken(part) for part in parts if part.get("synthetic")]
    typed = any(part["type"] in ("text", "subtask") and not part.get("synthetic") for part in parts)
    text = join_blocks("\n", spoken if typed else [*added, *spoken])
    if not text:
        return []
    time = _time(as_dict(info.get("time")).get("created"))
    return [Message(native_id=info["id"], role="user", text=text, timestamp=time, injected=not typed and bool(added))]


def _spoken(part: _Fields) -> str:
    if part["type"] == "text":
        return as_str(part.get("text"))
    if part["type"] == "subtask":
        return as_str(part.get("prompt"))
    if part["type"] == "file":
        image = as_str(part.get("mime")).startswith("image/")
        return "[image]" if image else f"[file {as_str(part.get('filename'))}]".replace(" ]", "]")
    return ""


def _tools(info: _Fields, parts: Iterable[_Fields]) -> dict[str, _Fields]:
    """The tool parts by the id of their call, which is made unique within the message."""
    found: dict[str, _Fields] = {}
    for number, part in enumerate(part for part in parts if part["type"] == "tool"):
        key = as_str(part.get("callID")) or as_str(part.get("id")) or f"{info['id']}#{number}"
        found[f"{key}#{number}" if key in found else key] = part
    return found


def _call(key: str, part: _Fields) -> ToolCall:
    given = as_dict(part.get("state")).get("input")
    return ToolCall(id=key, name=as_str(part.get("tool")), arguments=as_json({} if given is None else given))


def _results(said: Message, tools: Mapping[str, _Fields]) -> Iterator[Message]:
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


def _result(key: str, tool: str, state: _Fields) -> ToolResult | None:
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


def _usage(info: _Fields, parts: Iterable[_Fields]) -> Usage | None:
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
