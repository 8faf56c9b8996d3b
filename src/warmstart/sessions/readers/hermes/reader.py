"""Hermes Agent's database: `state.db` in `$HERMES_HOME` and in each of its profiles.

Traps of the format:

- Hermes is running and most of what it wrote is in the write-ahead log. The database is opened read-only through
  SQLite, which reads that log; closing a plain file handle inside Hermes' own process would drop its locks. Rows are
  fetched in small pages, so no read holds up Hermes' checkpoints.
- Columns come and go without a change of version: they are looked up by name, and a missing one is empty.
- Compaction and branches write messages a second time (`copies`), and put summaries into people's mouths (`rows`).
- A session row does not say when it changed, and its title or end come late. Facts are compared by digest, in a fixed
  number of groups, so that the state stays small with any number of sessions.
- `ended_at` is often empty for good. Rotated sessions and subagents may lack their working directory, which is then
  that of the session they come from.
- Tokens are counted by session, not by message.
- Row ids only grow, so reading continues after the last one. If ids went back, or the last row up to there is none of
  the last ones read, it is another database, and is read from its start.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warmstart.errors import LogError
from warmstart.sessions.projects import project_of
from warmstart.sessions.readers.base import Pair, Reading, open_database, table_columns
from warmstart.sessions.readers.fields import as_dict, as_int, as_list, as_str, as_time, from_json, usage_of
from warmstart.sessions.readers.hermes.copies import Copies
from warmstart.sessions.readers.hermes.rows import (
    COLUMNS,
    Body,
    Row,
    body_of,
    digest,
    outcome_of,
    own_message,
    summary_message,
    text_of,
)
from warmstart.sessions.values import CallOutcome, Message, ParentKind, Session, ToolResult, session_id

AGENT = "hermes"
MAX_STORIES = 512
MAX_ANCESTORS = 64

_NAME = "state.db"
# SQLite quotes a damaged schema in its message, which Python cannot decode.
_FAILURES = (sqlite3.Error, UnicodeDecodeError)
_PAGE = 100
_GROUPS = 64
_TRAIL = 32  # rows at the end that may be deleted before the database counts as another one
_ROLES = ("user", "assistant", "tool", "system")

_SESSION_COLUMNS = (
    "id",
    "source",
    "model",
    "model_config",
    "title",
    "parent_session_id",
    "started_at",
    "ended_at",
    "end_reason",
    "cwd",
    "git_branch",
    "git_repo_root",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
)
# No other agent's tables of these names have all these columns.
_MARKS = {
    "messages": {"session_id", "role", "content", "tool_call_id"},
    "sessions": {"id", "source", "started_at"},
}


class HermesReader:
    """Reads the sessions of every profile of Hermes Agent."""

    agent = AGENT

    def outcome_of(self, tool: str, result: ToolResult) -> CallOutcome:
        return outcome_of(tool, result)

    def roots(self, env: Mapping[str, str], home: Path) -> list[Path]:
        chosen = env.get("HERMES_HOME", "").strip()
        return [Path(chosen).expanduser() if chosen else home / ".hermes"]

    def find(self, root: Path) -> Iterable[Path]:
        if root.is_file():
            return [root]
        found = [root / _NAME, *sorted((root / "profiles").glob(f"*/{_NAME}"))]
        return [path for path in found if path.is_file()]

    def claims(self, path: Path, head: bytes) -> bool:
        if not head.startswith(b"SQLite format 3\0"):
            return False
        try:
            with closing(open_database(path)) as connection:
                return all(marks <= table_columns(connection, table) for table, marks in _MARKS.items())
        except _FAILURES:
            # Its name is Hermes'; reading it reports what is wrong.
            return path.name == _NAME

    def read(self, path: Path, reading: Reading) -> Iterator[Pair]:
        try:
            with closing(open_database(path)) as connection:
                yield from _Database(connection, path, reading).read()
        except _FAILURES as error:
            raise LogError(_explain(path, error)) from error


def _explain(path: Path, error: Exception) -> str:
    reason = " ".join(str(error).split())
    if not os.access(path, os.F_OK):
        return f"there is no file at {str(path)!r}; check HERMES_HOME or the path"
    if "unable to open" in reason or "readonly" in reason:
        return (
            f"cannot open {str(path)!r}: SQLite must be able to read it and to create {path.name + '-shm'!r} beside it;"
            " allow writing in that folder, or make a copy with `sqlite3 … '.backup'` and import that"
        )
    if "locked" in reason or "busy" in reason:
        return f"{str(path)!r} is locked by a running Hermes ({reason}); try again in a moment"
    return f"cannot read {str(path)!r} ({reason}); if Hermes cannot either, run `hermes sessions repair`"


@dataclass(frozen=True, slots=True)
class _Story:
    """A session with its lineage: itself and the sessions that it continues, nearest first.

    `forked` means that it began with a copy of its parent; a session that merely follows another one does not.
    """

    session: Session
    lineage: tuple[str, ...]
    sidechain: bool
    forked: bool

    @property
    def root(self) -> str:
        return self.lineage[-1]


class _Database:
    """One read of one database."""

    def __init__(self, connection: sqlite3.Connection, path: Path, reading: Reading) -> None:
        self._connection = connection
        self._path = path
        self._reading = reading
        self._stories: dict[str, _Story] = {}
        self._session_columns = table_columns(connection, "sessions")
        columns = table_columns(connection, "messages")
        missing = [table for table, found in (("sessions", self._session_columns), ("messages", columns)) if not found]
        if missing:
            raise LogError(f"{str(path)!r} has no table {missing[0]!r}; it is not a database of Hermes Agent")
        self._messages = f"(SELECT rowid AS id, {_listed(COLUMNS, columns)} FROM messages)"
        self._sessions = f"(SELECT {_listed(_SESSION_COLUMNS, self._session_columns)} FROM sessions)"
        self._copies = Copies(connection, self._messages)

    def read(self) -> Iterator[Pair]:
        state = self._reading.state
        newest = self._newest()
        last = as_int(state.get("row")) or 0
        if last > newest or not self._is_known(last):
            last = state["row"] = 0
            state.pop("facts", None)
            state.pop("trail", None)
        yield from self._changed_facts(last)
        yield from self._new_messages(last, newest)

    def _newest(self) -> int:
        """The highest row id ever used, even if that row is gone."""
        highest = self._connection.execute("SELECT max(rowid) FROM messages").fetchone()[0] or 0
        if table_columns(self._connection, "sqlite_sequence"):
            query = "SELECT max(seq) FROM sqlite_sequence WHERE name = 'messages'"
            given = as_int(self._connection.execute(query).fetchone()[0]) or 0
            return max(int(highest), given)
        return int(highest)

    def _is_known(self, last: int) -> bool:
        """Whether the last remaining row up to `last` is one that was read."""
        query = f"SELECT id, session_id, timestamp FROM {self._messages} WHERE id <= ? ORDER BY id DESC LIMIT 1"
        found = self._connection.execute(query, (last,)).fetchone()
        return found is None or _mark(*found) in as_list(self._reading.state.get("trail"))

    def _changed_facts(self, last: int) -> Iterator[Pair]:
        known = as_list(self._reading.state.get("facts"))
        groups = self._facts()
        changed = {group for group in range(_GROUPS) if known[group : group + 1] != groups[group : group + 1]}
        if not changed:
            return
        for name in self._names():
            if _group(name) in changed:
                story = self._story(name)
                yield story.session, None if self._seen(name, last) else self._system_prompt(name, story)
        self._reading.state["facts"] = groups

    def _facts(self) -> list[str]:
        groups = [""] * _GROUPS
        query = f"SELECT * FROM {self._sessions} ORDER BY id"
        for cells in self._connection.execute(query):
            if as_str(cells[0]) and self._seen(cells[0], 2**62):
                group = _group(cells[0])
                groups[group] = digest(groups[group], repr(cells))[:16]
        return groups

    def _names(self) -> list[str]:
        """The sessions with messages; Hermes itself drops empty ones."""
        names = [name for (name,) in self._connection.execute(f"SELECT id FROM {self._sessions}")]
        return [name for name in names if as_str(name) and self._seen(name, 2**62)]

    def _seen(self, name: str, last: int) -> bool:
        query = f"SELECT 1 FROM {self._messages} WHERE session_id = ? AND id <= ? LIMIT 1"
        return self._connection.execute(query, (name, last)).fetchone() is not None

    def _system_prompt(self, name: str, story: _Story) -> Message | None:
        columns = self._session_columns
        cell: object = None
        if "system_prompt" in columns:
            cell = self._value("SELECT system_prompt FROM sessions WHERE id = ?", name)
        if not cell and "system_prompt_hash" in columns and "hash" in table_columns(self._connection, "system_prompts"):
            query = "SELECT prompt FROM system_prompts JOIN sessions ON hash = system_prompt_hash WHERE id = ?"
            cell = self._value(query, name)
        text = text_of(cell)
        if not text:
            return None
        started = story.session.started_at
        identity = f"{name}:system"
        return Message(native_id=identity, role="system", text=text, timestamp=started, sidechain=story.sidechain)

    def _value(self, query: str, name: str) -> object:
        found = self._connection.execute(query, (name,)).fetchone()
        return found[0] if found else None

    def _new_messages(self, last: int, newest: int) -> Iterator[Pair]:
        state = self._reading.state
        query = f"SELECT * FROM {self._messages} WHERE id > ? AND id <= ? ORDER BY id LIMIT {_PAGE}"
        while page := self._connection.execute(query, (last, newest)).fetchall():
            for cells in page:
                row = Row(*cells)
                if row.id <= last:  # or the next page would begin here too, without end
                    raise sqlite3.DatabaseError("rows are out of order: database disk image is malformed")
                yield from self._row(row)
                last = state["row"] = row.id
                state["trail"] = [*as_list(state.get("trail")), _mark(row.id, row.session_id, row.timestamp)][-_TRAIL:]

    def _row(self, row: Row) -> Iterator[Pair]:
        if not as_str(row.session_id) or not as_str(row.role):
            self._reading.report(row.id, "message without a session or a role")
        elif row.undone:
            self._reading.skip("undone")
        elif row.role not in _ROLES:
            self._reading.skip(f"role {row.role}")
        else:
            story = self._story(row.session_id)
            for message in self._understood(row, story):
                yield story.session, message

    def _understood(self, row: Row, story: _Story) -> list[Message]:
        try:
            body = body_of(row)
            if row.tool_calls and not body.calls:
                self._reading.report(row.id, "tool_calls are not a list of calls")
            return self._messages_of(row, body, story)
        except (RecursionError, ValueError, OverflowError) as error:
            self._reading.report(row.id, error)
            return []

    def _messages_of(self, row: Row, body: Body, story: _Story) -> list[Message]:
        messages: list[Message] = []
        if not (body.summary and body.empty):
            if self._copies.covers(row, body, story.lineage, forked=story.forked):
                self._reading.skip("copy")
            else:
                messages.append(own_message(row, body, story.root, sidechain=story.sidechain))
        if body.summary:
            whole = Body(text_of(row.content), (), "")
            if self._copies.repeats(row, whole, story.lineage):
                self._reading.skip("copy")
            else:
                messages.append(summary_message(row, body, story.root, sidechain=story.sidechain))
        return messages[::-1] if body.leading else messages

    def _story(self, name: str) -> _Story:
        if name not in self._stories:
            if len(self._stories) >= MAX_STORIES:
                self._stories.clear()
            self._stories[name] = self._new_story(name)
        return self._stories[name]

    def _new_story(self, name: str) -> _Story:
        fields = self._session_row(name)
        parent = as_str(fields.get("parent_session_id"))
        before = self._session_row(parent) if parent else {}
        kind, sidechain = _relation(fields, parent, before)
        chain = list(self._chain(name))
        lineage = [link for link, _, _ in chain]
        # A subagent starts from nothing, but works where its parent does.
        started = [place for place, (_, _, link) in enumerate(chain, 1) if link in (None, "subagent")]
        session = Session(
            agent=AGENT,
            native_id=name,
            project=next((place for _, link, _ in chain if (place := _project(link))), ""),
            branch=as_str(fields.get("git_branch")),
            model=as_str(fields.get("model")),
            title=as_str(fields.get("title")),
            source=str(self._path),
            started_at=as_time(fields.get("started_at")),
            ended_at=as_time(fields.get("ended_at")),
            parent_id=session_id(AGENT, parent) if kind else None,
            parent_kind=kind,
            usage=usage_of(
                input=fields.get("input_tokens"),
                output=fields.get("output_tokens"),
                cache_read=fields.get("cache_read_tokens"),
                cache_write=fields.get("cache_write_tokens"),
                reasoning=fields.get("reasoning_tokens"),
            ),
        )
        forked = kind == "branch" and (_branched_from(fields) == parent or before.get("end_reason") == "branched")
        return _Story(session, tuple(lineage[: min(started, default=None)]), sidechain, forked)

    def _session_row(self, name: str) -> dict[str, Any]:
        cells = self._connection.execute(f"SELECT * FROM {self._sessions} WHERE id = ?", (name,)).fetchone()
        return dict(zip(_SESSION_COLUMNS, cells, strict=True)) if cells else {}

    def _chain(self, name: str) -> Iterator[tuple[str, dict[str, Any], ParentKind | None]]:
        """The session and its ancestors, each with its relation to the next."""
        seen: set[str] = set()
        while name and name not in seen and len(seen) < MAX_ANCESTORS:
            seen.add(name)
            fields = self._session_row(name)
            parent = as_str(fields.get("parent_session_id"))
            yield name, fields, _relation(fields, parent, self._session_row(parent) if parent else {})[0]
            name = parent


def _relation(fields: dict[str, Any], parent: str, before: dict[str, Any]) -> tuple[ParentKind | None, bool]:
    """The relation of a session to its parent, and whether it is a subagent's.

    A session after a compaction inherits the marks of the one before: a mark that names another session than the parent
    is about the lineage, not about this link.
    """
    config = as_dict(from_json(fields.get("model_config")))
    delegated = config.get("_delegate_from")
    sidechain = fields.get("source") == "subagent" or delegated is not None
    if not parent:
        return None, sidechain
    compacted = before.get("end_reason") == "compression"
    if delegated == parent or (sidechain and (delegated is None or not compacted)):
        return "subagent", sidechain
    if _branched_from(fields) == parent or not compacted:
        return "branch", sidechain
    return "compaction", sidechain


def _branched_from(fields: dict[str, Any]) -> object:
    return as_dict(from_json(fields.get("model_config"))).get("_branched_from")


def _project(fields: dict[str, Any]) -> str:
    return as_str(fields.get("git_repo_root")) or project_of(as_str(fields.get("cwd")))


def _listed(wanted: Iterable[str], present: set[str]) -> str:
    return ", ".join(name if name in present else f"NULL AS {name}" for name in wanted)


def _mark(number: int, session: object, timestamp: object) -> str:
    """A digest that identifies a row of this database."""
    return digest(repr((number, session, timestamp)))[:16]


def _group(name: str) -> int:
    return int(digest(name)[:4], 16) % _GROUPS
