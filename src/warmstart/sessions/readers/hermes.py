"""Hermes Agent's database: `state.db` in `$HERMES_HOME` and in each of its profiles.

The traps, and how they are handled:

- Hermes is running and most of what it wrote is in the write-ahead log. The database is opened read-only through
  SQLite, which reads that log; a copy of the file alone would be empty, and closing a plain file handle inside Hermes'
  own process would drop its locks. Rows are fetched in small pages, so no read holds up Hermes' checkpoints.
- Columns come and go without a change of version: they are looked up by name, and a missing one is empty.
- Compaction and branches write messages a second time (`hermes_copies`), and put summaries into people's mouths
  (`hermes_rows`).
- A session row says nothing of when it changed, and its title or end come late. Facts are compared by digest, in a
  fixed number of groups, so that the state stays small whatever the number of sessions.
- `ended_at` is often empty for good: an end is never waited for. Rotated sessions may lack their working directory,
  which is then that of the session they go on from.
- Row ids only grow, so the last one read is the place to go on from. Ids that went back, or a row up to there that is
  none of the last ones read, mean another database, which is read from its start.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from warmstart.errors import LogError
from warmstart.sessions.projects import project_of
from warmstart.sessions.readers import hermes_rows as rows
from warmstart.sessions.readers.base import Pair, Reading
from warmstart.sessions.readers.fields import as_dict, as_int, as_list, as_str, as_time, from_json
from warmstart.sessions.readers.hermes_copies import Copies
from warmstart.sessions.values import Message, ParentKind, Session, session_id

AGENT = "hermes"
_MAGIC = b"SQLite format 3\0"
_NAME = "state.db"
_BUSY_SECONDS = 10.0
# SQLite quotes a damaged schema in its complaint, and Python fails to decode that.
_FAILURES = (sqlite3.Error, UnicodeDecodeError)
_PAGE = 100
_GROUPS = 64
_CACHED = 512
# This many rows may be deleted at the end before it is in doubt whether the database is still the same.
_TRAIL = 32
_ANCESTORS = 64
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
)
# What no other agent's tables of these names have together.
_MARKS = {
    "messages": {"session_id", "role", "content", "tool_call_id"},
    "sessions": {"id", "source", "started_at"},
}


class HermesReader:
    """Reads the sessions of every profile of Hermes Agent."""

    agent = AGENT

    def roots(self, env: Mapping[str, str], home: Path) -> list[Path]:
        """Hermes' own folder."""
        chosen = env.get("HERMES_HOME", "").strip()
        return [Path(chosen).expanduser() if chosen else home / ".hermes"]

    def find(self, root: Path) -> Iterable[Path]:
        """The database of `root` and those of its profiles."""
        if root.is_file():
            return [root]
        found = [root / _NAME, *sorted((root / "profiles").glob(f"*/{_NAME}"))]
        return [path for path in found if path.is_file()]

    def claims(self, path: Path, head: bytes) -> bool:
        """Whether this is a SQLite database with Hermes' tables."""
        if not head.startswith(_MAGIC):
            return False
        try:
            with closing(_open(path)) as connection:
                return all(marks <= _columns(connection, table) for table, marks in _MARKS.items())
        except _FAILURES:
            # By its name it is Hermes'; reading it then tells what is wrong.
            return path.name == _NAME

    def read(self, path: Path, reading: Reading) -> Iterator[Pair]:
        """Stream the facts of sessions that changed, then the messages that are new."""
        try:
            with closing(_open(path)) as connection:
                yield from _Database(connection, path, reading).read()
        except _FAILURES as error:
            raise LogError(_explained(path, error)) from error


def _open(path: Path) -> sqlite3.Connection:
    # `mode=ro` still takes part in the write-ahead log; `immutable` would not.
    uri = f"file:{quote(os.fsencode(path.absolute()))}?mode=ro"
    connection = sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS, check_same_thread=False)
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    return connection


def _columns(connection: sqlite3.Connection, table: str) -> set[str]:
    return {name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")}


def _explained(path: Path, error: Exception) -> str:
    said = " ".join(str(error).split())
    if not os.access(path, os.F_OK):
        return f"there is no file at {str(path)!r}; check HERMES_HOME or the path"
    if "unable to open" in said or "readonly" in said:
        return (
            f"cannot open {str(path)!r}: SQLite must be able to read it and to create {path.name + '-shm'!r} beside it;"
            " allow writing in that folder, or make a copy with `sqlite3 … '.backup'` and import that"
        )
    if "locked" in said or "busy" in said:
        return f"{str(path)!r} is locked by a running Hermes ({said}); try again in a moment"
    return f"cannot read {str(path)!r} ({said}); if Hermes cannot either, run `hermes sessions repair`"


@dataclass(frozen=True, slots=True)
class _Story:
    """A session with what its messages need to know: the sessions it goes on from, nearest first, itself included.

    `forked` says that it began with a copy of its parent; a session that merely follows another one does not.
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
        self._session_columns = _columns(connection, "sessions")
        columns = _columns(connection, "messages")
        missing = [table for table, found in (("sessions", self._session_columns), ("messages", columns)) if not found]
        if missing:
            raise LogError(f"{str(path)!r} has no table {missing[0]!r}; it is not a database of Hermes Agent")
        self._messages = f"(SELECT rowid AS id, {_listed(rows.COLUMNS, columns)} FROM messages)"
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
        """The highest row id that was ever given, also if that row is gone."""
        highest = self._connection.execute("SELECT max(rowid) FROM messages").fetchone()[0] or 0
        if _columns(self._connection, "sqlite_sequence"):
            query = "SELECT max(seq) FROM sqlite_sequence WHERE name = 'messages'"
            given = as_int(self._connection.execute(query).fetchone()[0]) or 0
            return max(int(highest), given)
        return int(highest)

    def _is_known(self, last: int) -> bool:
        """Whether what is left of the rows up to `last` ends with one that was read."""
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
                groups[group] = rows.digest(groups[group], repr(cells))[:16]
        return groups

    def _names(self) -> list[str]:
        """The sessions that hold messages; Hermes itself drops those that stay empty."""
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
        if not cell and "system_prompt_hash" in columns and "hash" in _columns(self._connection, "system_prompts"):
            query = "SELECT prompt FROM system_prompts JOIN sessions ON hash = system_prompt_hash WHERE id = ?"
            cell = self._value(query, name)
        text = rows.text_of(cell)
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
                row = rows.Row(*cells)
                if row.id <= last:  # then the next page would begin here too, and so on without end
                    raise sqlite3.DatabaseError("rows are out of order: database disk image is malformed")
                yield from self._row(row)
                last = state["row"] = row.id
                state["trail"] = [*as_list(state.get("trail")), _mark(row.id, row.session_id, row.timestamp)][-_TRAIL:]

    def _row(self, row: rows.Row) -> Iterator[Pair]:
        if not as_str(row.session_id) or not as_str(row.role):
            self._reading.fault(row.id, "message without a session or a role")
        elif row.undone:
            self._reading.skip("undone")
        elif row.role not in _ROLES:
            self._reading.skip(f"role {row.role}")
        else:
            story = self._story(row.session_id)
            for message in self._understood(row, story):
                yield story.session, message

    def _understood(self, row: rows.Row, story: _Story) -> list[Message]:
        try:
            body = rows.body_of(row)
            if row.tool_calls and not body.calls:
                self._reading.fault(row.id, "tool_calls are not a list of calls")
            return self._messages_of(row, body, story)
        except (RecursionError, ValueError, OverflowError) as error:
            self._reading.fault(row.id, error)
            return []

    def _messages_of(self, row: rows.Row, body: rows.Body, story: _Story) -> list[Message]:
        messages: list[Message] = []
        if not (body.summary and body.empty):
            if self._copies.covers(row, body, story.lineage, forked=story.forked):
                self._reading.skip("copy")
            else:
                messages.append(rows.own_message(row, body, story.root, sidechain=story.sidechain))
        if body.summary:
            whole = rows.Body(rows.text_of(row.content), (), "")
            if self._copies.repeats(row, whole, story.lineage):
                self._reading.skip("copy")
            else:
                messages.append(rows.summary_message(row, body, story.root, sidechain=story.sidechain))
        return messages[::-1] if body.leading else messages

    def _story(self, name: str) -> _Story:
        if name not in self._stories:
            if len(self._stories) >= _CACHED:
                self._stories.clear()
            self._stories[name] = self._told(name)
        return self._stories[name]

    def _told(self, name: str) -> _Story:
        fields = self._session_row(name)
        parent = as_str(fields.get("parent_session_id"))
        before = self._session_row(parent) if parent else {}
        kind, sidechain = _relation(fields, parent, before)
        chain = [(name, fields), *self._ancestors(name, parent, kind)]
        session = Session(
            agent=AGENT,
            native_id=name,
            project=next((place for _, link in chain if (place := _project(link))), ""),
            branch=as_str(fields.get("git_branch")),
            model=as_str(fields.get("model")),
            title=as_str(fields.get("title")),
            source=str(self._path),
            started_at=as_time(fields.get("started_at")),
            ended_at=as_time(fields.get("ended_at")),
            parent_id=session_id(AGENT, parent) if kind else None,
            parent_kind=kind,
        )
        forked = kind == "branch" and (_branched_from(fields) == parent or before.get("end_reason") == "branched")
        return _Story(session, tuple(link for link, _ in chain), sidechain, forked)

    def _session_row(self, name: str) -> dict[str, Any]:
        cells = self._connection.execute(f"SELECT * FROM {self._sessions} WHERE id = ?", (name,)).fetchone()
        return dict(zip(_SESSION_COLUMNS, cells, strict=True)) if cells else {}

    def _ancestors(self, name: str, parent: str, kind: ParentKind | None) -> Iterator[tuple[str, dict[str, Any]]]:
        """The sessions that `name` goes on from. A subagent starts from nothing."""
        seen = {name}
        while parent and kind not in (None, "subagent") and parent not in seen and len(seen) < _ANCESTORS:
            seen.add(parent)
            fields = self._session_row(parent)
            yield parent, fields
            parent = as_str(fields.get("parent_session_id"))
            kind, _ = _relation(fields, parent, self._session_row(parent) if parent else {})


def _relation(fields: dict[str, Any], parent: str, before: dict[str, Any]) -> tuple[ParentKind | None, bool]:
    """How a session hangs on its parent, and whether a subagent speaks in it.

    A session that goes on after compaction inherits the marks of the one before: a mark that names another session
    than the parent says what the lineage is, not how this link came about.
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
    """What tells a row from those of another database."""
    return rows.digest(repr((number, session, timestamp)))[:16]


def _group(name: str) -> int:
    return int(rows.digest(name)[:4], 16) % _GROUPS
