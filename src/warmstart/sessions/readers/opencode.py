"""OpenCode: its database, and what `opencode export` writes. Both contain the same objects.

A message has metadata (`info`) and `parts`: text, reasoning, tool calls with their state, steps, files. Quirks:

- A shell command that fails is `completed`; only `state.metadata.exit` shows the failure. A command that timed out has
  no exit code.
- `error` also means that the user, or a rule of the user's, refused or stopped a call: those are `rejected`.
- `summary` is `true` on a compaction summary, but an object (changed files) on user messages.
- The user's text is mixed with text that OpenCode adds (`synthetic`), such as attached files. If the user typed
  anything, only that is kept; otherwise the message counts as injected.
- Call ids may repeat between sessions. `origin` names a message's own session, so that the store does not mistake
  messages that happen to have the same id for copies.
- Token counts are on every step and, for the last step only, on the message: steps are added up.
- A fork begins with a copy of another session under new ids, and does not name it. But a copy is older than its
  session, and its original has the same role and time. In the database, copies are skipped, and the fork's parent is
  the session that wrote the last one.

The database is live and in WAL mode: it is opened read-only, never copied. Messages and parts are updated in place
while the model streams, so `time_updated` shows what changed; row ids also show what is new, because clocks are set
back and rows can be dated in the future. When everything is read, `Reading.state` gets `since` (everything older is
done) and `rows` (the last row done per table, with a digest). If one of those rows has changed, the database was
replaced or vacuumed and is read from its start.
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from typing import Any

from warmstart.sessions.marks import without_hint
from warmstart.sessions.readers.base import SQLITE, Pair, Reader, files_below, open_database
from warmstart.sessions.readers.content import as_json, as_text, join_blocks
from warmstart.sessions.readers.fields import Fields, as_dict, as_int, as_list, as_str, as_time, usage_of
from warmstart.sessions.readers.transcript import DECODE_ERRORS, OBJECT, Transcript, decode
from warmstart.sessions.values import CallOutcome, Message, Session, ToolCall, ToolResult, Usage

MARGIN_MS = 1000  # a transaction may be committed a moment after the times it wrote

_EXPORT = re.compile(rb'\s*\{\s*"info"\s*:\s*\{[^{}]*?"id"\s*:\s*"ses_')
_REFUSED = re.compile(
    r"user (?:rejected|dismissed)|rejected permission|specified a rule which prevents you|Tool execution aborted",
    re.IGNORECASE,
)
_STOPPED = "User aborted the command"
_TIMED_OUT = re.compile(r"(?:shell|bash) tool terminated command after exceeding timeout")
_SHELLS = ("bash", "shell")
_PARTS = ("text", "reasoning", "tool", "file", "subtask", "step-start", "step-finish")
_Rows = dict[str, tuple[int, str]]  # for each table, the number and the digest of a row
_NO_ROWS: _Rows = {"message": (0, ""), "part": (0, "")}


class _Sessions(Transcript[Fields]):
    """The sessions in a database, or the one in an export."""

    agent = "opencode"
    decoder = OBJECT

    def pairs(self) -> Iterator[Pair]:
        with self.path.open("rb") as file:
            is_database = file.read(len(SQLITE)) == SQLITE or self.path.suffix == ".db"
        return self.database_pairs() if is_database else self.document_pairs()

    def take_document(self, document: Fields) -> Iterator[Pair]:
        facts, seen = as_dict(document.get("info")), Counter[str]()
        facts["id"] = as_str(facts.get("id")) or self.session.native_id
        for number, message in enumerate(as_list(document.get("messages")), 1):
            if not isinstance(message, dict):
                self.reading.report(number, "the message is not a JSON object")
                continue
            info = as_dict(message.get("info"))
            key = as_str(info.get("id")) or f"{facts['id']}#{number}"
            seen[key] += 1
            info = {**info, "id": key if seen[key] == 1 else f"{key}#{seen[key]}"}
            yield from self.take_message(facts, info, [as_dict(part) for part in as_list(message.get("parts"))])

    def database_pairs(self) -> Iterator[Pair]:
        """What changed in the database since `reading`."""
        with closing(open_database(self.path)) as self.db:
            now = _now()
            since, rows = self.state.get("since", 0), self.state.get("rows", _NO_ROWS)
            is_same = all(self.digest(name, number) == digest for name, (number, digest) in rows.items())
            # If the last pass ended in the future, the clock was set back, and what has changed is unknown.
            if since > now or not is_same:
                since, rows = 0, _NO_ROWS
            next_since, next_rows = max(since, min(self.latest(), now) - MARGIN_MS), self.last_rows()
            done = {"since": since, "message": rows["message"][0], "part": rows["part"][0]}
            for key in self.changed_sessions(done):
                copies = self.copies(key)
                facts = {**self.facts_of(key), "forkOf": next(reversed(copies.values()), "")}
                yield self.session_at(facts, {}), None
                for info in self.objects(self.changed_messages(key, done), "message"):
                    if info["id"] in copies:
                        self.reading.skip("copied message")
                    else:
                        query = "SELECT id, data FROM part WHERE message_id = ? ORDER BY id"
                        parts = self.objects(self.db.execute(query, (info["id"],)), "part")
                        yield from self.take_message(facts, info, list(parts))
            self.state |= {"since": next_since, "rows": next_rows}

    def objects(self, rows: Iterable[tuple[Any, Any]], kind: str) -> Iterator[Fields]:
        """The objects in rows of ids and JSON."""
        for key, data in rows:
            fields = _object(data)
            if fields is None or not isinstance(key, str):
                self.reading.report(0, f"{kind} {key!r} is not a JSON object")
            else:
                yield {**fields, "id": key}

    def take_message(self, facts: Fields, info: Fields, parts: list[Fields]) -> Iterator[Pair]:
        """The message of `info` and `parts`, followed by the results of its calls."""
        if info.get("role") not in ("user", "assistant"):
            self.reading.skip(as_str(info.get("role")) or "unknown message")
            return
        for kind in (as_str(part.get("type")) for part in parts):
            if kind not in _PARTS:
                self.reading.skip(kind or "unknown part")
        known = [part for part in parts if part.get("type") in _PARTS and not part.get("ignored")]
        session = self.session_at(facts, info)
        self.native_id, self.time = info["id"], as_time(as_dict(info.get("time")).get("created"))
        self.origin = session.native_id
        for message in self.prompt(known) if info["role"] == "user" else self.reply(info, known):
            yield session, message

    def session_at(self, facts: Fields, info: Fields) -> Session:
        """The session as it is at a message with this `info`."""
        time, parent, fork = as_dict(facts.get("time")), as_str(facts.get("parentID")), as_str(facts.get("forkOf"))
        more = {
            "cwd": facts.get("directory") or as_dict(info.get("path")).get("cwd"),
            "model": info.get("modelID") or as_dict(facts.get("model")).get("id"),
            "started": time.get("created"),
            "ended": time.get("updated"),
            "parent": (parent, "subagent") if parent else (fork, "branch"),
        }
        return self.session_from({**facts, **more})

    def prompt(self, parts: list[Fields]) -> Iterator[Message]:
        spoken = [_spoken(part) for part in parts if not part.get("synthetic")]
        added = [_spoken(part) for part in parts if part.get("synthetic")]
        typed = any(part["type"] in ("text", "subtask") and not part.get("synthetic") for part in parts)
        if text := join_blocks("\n", spoken if typed else [*added, *spoken]):
            yield self.message("user", text, injected=not typed and bool(added))

    def reply(self, info: Fields, parts: list[Fields]) -> Iterator[Message]:
        tools = _tools(info, parts)
        text, thoughts = (
            join_blocks("\n", (as_str(part.get("text")) for part in parts if part["type"] == kind))
            for kind in ("text", "reasoning")
        )
        if not (text or thoughts or tools):
            return
        inputs = {key: as_json(as_dict(part.get("state")).get("input", {})) for key, part in tools.items()}
        calls = (ToolCall(id=key, name=as_str(part.get("tool")), arguments=inputs[key]) for key, part in tools.items())
        facts = {"model": as_str(info.get("modelID")), "usage": _usage(info, parts)}
        is_summary = info.get("summary") is True
        yield self.message(
            "assistant", text, reasoning=thoughts, tool_calls=tuple(calls), compaction_summary=is_summary, **facts
        )
        answered = self.time
        for key, part in tools.items():
            state = as_dict(part.get("state"))
            if state.get("status") not in ("completed", "error"):
                continue
            about, time, failed = as_dict(state.get("metadata")), as_dict(state.get("time")), state["status"] == "error"
            start, end = as_int(time.get("start")), as_int(time.get("end"))
            self.native_id, self.time = f"{info['id']}:{key}:result", as_time(end) or answered
            result = self.result(
                key,
                without_hint(as_text((failed and state.get("error")) or state.get("output"))),
                tool=as_str(part.get("tool")),
                refused=about.get("interrupted") is True,
                flag=failed,
                exit_code=as_int(about.get("exit")),
                ms=max(0, end - start) if start is not None and end is not None else None,
            )
            yield self.message("tool", tool_results=(result,))

    @staticmethod
    def outcome_of(tool: str, result: ToolResult) -> CallOutcome:
        """`flag` means error. A refusal stays a refusal, because the field for interrupted calls is not stored."""
        text, code = result.text, result.exit_code
        if result.flag:
            return "rejected" if result.outcome == "rejected" or _REFUSED.search(text[:400]) else "error"
        if tool in _SHELLS and code is None:
            # Without an exit code the command did not end by itself; the text after its output says why.
            end = text[-1000:]
            return "rejected" if _STOPPED in end else "error" if _TIMED_OUT.search(end) else "ok"
        return "error" if code else "ok"

    def last_rows(self) -> _Rows:
        numbers = {name: self.db.execute(f"SELECT max(rowid) FROM {name}").fetchone()[0] or 0 for name in _NO_ROWS}
        return {name: (number, self.digest(name, number)) for name, number in numbers.items()}

    def digest(self, name: str, number: int) -> str:
        row = self.db.execute(f"SELECT id FROM {name} WHERE rowid = ?", (number,)).fetchone() if number else None
        return blake2b(repr(row).encode("utf-8", "replace"), digest_size=8).hexdigest() if row else ""

    def latest(self) -> int:
        """The latest `time_updated` in any table."""
        tables = ("session", "message", "part")
        newest = (self.db.execute(f"SELECT max(time_updated) FROM {name}").fetchone()[0] for name in tables)
        return max(as_int(value) or 0 for value in newest)

    def changed_sessions(self, done: dict[str, int]) -> list[str]:
        """The ids of the sessions in which anything changed. A list, so that no cursor stays open between pairs."""
        rows = self.db.execute(
            f"""SELECT id FROM session WHERE :since = 0 OR time_updated >= :since
                    OR id IN (SELECT session_id FROM message WHERE {_is_recent("message")})
                    OR id IN (SELECT m.session_id FROM message m WHERE m.id IN
                        (SELECT message_id FROM part WHERE {_is_recent("part")}))
                ORDER BY id""",
            done,
        )
        return [key for (key,) in rows if isinstance(key, str)]

    def facts_of(self, key: str) -> Fields:
        """The `info` of a session, as in an export."""
        cursor = self.db.execute("SELECT * FROM session WHERE id = ?", (key,))
        facts = dict(zip((name for name, *_ in cursor.description), cursor.fetchone() or (), strict=False))
        times = {"created": facts.get("time_created"), "updated": facts.get("time_updated")}
        model = _object(facts.get("model")) or {}
        return {**facts, "id": key, "parentID": facts.get("parent_id"), "model": model, "time": times}

    def copies(self, key: str) -> dict[str, str]:
        """The messages that were copied from older sessions of the project, each with the session that wrote it."""
        rows = self.db.execute(
            f"""SELECT m.id, w.id FROM session s
                JOIN message m ON m.session_id = s.id AND m.time_created < s.time_created
                JOIN session w ON w.time_created < s.time_created AND w.project_id IS s.project_id
                JOIN message o ON o.session_id = w.id AND o.time_created = m.time_created
                    AND {_role("o")} IS {_role("m")}
                WHERE s.id = ? AND s.parent_id IS NULL
                ORDER BY m.time_created, {_role("m")}, w.time_created DESC, w.id DESC""",
            (key,),
        )
        return {message: writer for message, writer in rows if isinstance(message, str) and isinstance(writer, str)}

    def changed_messages(self, session: str, done: dict[str, int]) -> sqlite3.Cursor:
        return self.db.execute(
            f"""SELECT id, data FROM message WHERE session_id = :session AND ({_is_recent("message")}
                    OR id IN (SELECT message_id FROM part WHERE message_id = message.id AND {_is_recent("part")}))
                ORDER BY time_created, id""",
            {**done, "session": session},
        )


class OpenCodeReader(Reader):
    """Reads the sessions of OpenCode."""

    log = _Sessions

    def roots(self, env: Mapping[str, str], home: Path) -> list[Path]:
        data = Path(env.get("XDG_DATA_HOME") or home / ".local" / "share") / "opencode"
        named = env.get("OPENCODE_DB", "")
        return [data] if named in ("", ":memory:") else [data, data / named]

    def find(self, root: Path) -> Iterable[Path]:
        databases = sorted(root.glob("opencode*.db")) if root.is_dir() else []
        if databases or (root.name == "opencode" and os.access(root, os.R_OK | os.X_OK)):
            return databases
        return files_below(root, lambda name: name.endswith(".json"))

    def folders(self, root: Path) -> Iterable[Path]:
        return [root] if any(root.glob("opencode*.db")) else super().folders(root)

    def claims(self, path: Path, head: bytes) -> bool:
        if head.startswith(SQLITE):
            tables = (b"CREATE TABLE `%s`" % name in head for name in (b"session", b"message", b"part"))
            return path.name.startswith("opencode") or all(tables)
        return path.suffix == ".json" and bool(_EXPORT.match(head))


def _now() -> int:
    return int(time.time() * 1000)


def _is_recent(table: str) -> str:
    return f"(:since = 0 OR time_updated >= :since OR rowid > :{table})"


def _role(table: str) -> str:
    return f"CASE WHEN json_valid({table}.data) THEN json_extract({table}.data, '$.role') END"


def _object(data: object) -> Fields | None:
    raw = data.encode("utf-8", "replace") if isinstance(data, str) else data
    try:
        return decode(raw, OBJECT) if isinstance(raw, bytes) else None
    except DECODE_ERRORS:
        return None


def _spoken(part: Fields) -> str:
    if part["type"] == "file":
        image = as_str(part.get("mime")).startswith("image/")
        return "[image]" if image else f"[file {as_str(part.get('filename'))}]".replace(" ]", "]")
    return as_str(part.get({"text": "text", "subtask": "prompt"}.get(part["type"], "")))


def _tools(info: Fields, parts: Iterable[Fields]) -> dict[str, Fields]:
    """The tool parts by call id, which is made unique within the message."""
    tools: dict[str, Fields] = {}
    for number, part in enumerate(part for part in parts if part["type"] == "tool"):
        key = as_str(part.get("callID")) or as_str(part.get("id")) or f"{info['id']}#{number}"
        tools[f"{key}#{number}" if key in tools else key] = part
    return tools


def _usage(info: Fields, parts: Iterable[Fields]) -> Usage | None:
    steps = [as_dict(part.get("tokens")) for part in parts if part["type"] == "step-finish"]
    total: Counter[str] = Counter()
    for tokens in steps or [as_dict(info.get("tokens"))]:
        for name, count in {**tokens, **as_dict(tokens.get("cache"))}.items():
            total[name] += as_int(count) or 0
    return usage_of(total, "input", "output", "read", "write", "reasoning")
