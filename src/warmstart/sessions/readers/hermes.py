"""Hermes Agent's database: `state.db` in `$HERMES_HOME` and in each of its profiles. Its traps:

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
- Row ids only grow, so reading continues after the last one. If the last row up to there is none of the last ones read,
  it is another database, and is read from its start.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, get_args

from warmstart.errors import LogError
from warmstart.sessions.marks import is_ours
from warmstart.sessions.projects import project_of
from warmstart.sessions.readers.base import SQLITE, Pair, Reader, Reading, open_database, table_columns
from warmstart.sessions.readers.content import from_json
from warmstart.sessions.readers.fields import as_dict, as_int, as_list, as_str, as_time, usage_of
from warmstart.sessions.readers.hermes_rows import (
    COLUMNS,
    Body,
    Copies,
    Row,
    body_of,
    digest,
    message_of,
    outcome_of,
    text_of,
)
from warmstart.sessions.readers.transcript import Transcript
from warmstart.sessions.values import CallOutcome, Message, ParentKind, Role, Session, ToolResult, session_id

AGENT = "hermes"
MAX_STORIES = 512
MAX_ANCESTORS = 64

_NAME = "state.db"
_PAGE = 100
_GROUPS = 64
_TRAIL = 32  # rows at the end that may be deleted before the database counts as another one
_TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
_SESSION_COLUMNS = (
    *("id", "source", "model", "model_config", "title", "parent_session_id", "started_at", "ended_at", "end_reason"),
    *("cwd", "git_branch", "git_repo_root", *_TOKENS),
)
# No other agent's tables of these names have all these columns.
_MARKS = {"messages": {"session_id", "role", "content", "tool_call_id"}, "sessions": {"id", "source", "started_at"}}
_Fields = dict[str, Any]


class _Story(NamedTuple):
    """A session with its lineage: itself and the sessions that it continues, nearest first.

    `forked` means that it began with a copy of its parent; a session that merely follows another one does not.
    """

    session: Session
    lineage: tuple[str, ...]
    sidechain: bool
    forked: bool


class _Database(Transcript[Row]):
    """One read of one database."""

    agent = AGENT

    def __init__(self, path: Path, reading: Reading) -> None:
        super().__init__(path, reading)
        self.story_of = lru_cache(MAX_STORIES)(self.new_story)

    def pairs(self) -> Iterator[Pair]:
        with closing(open_database(self.path)) as self.db:
            columns = {name: table_columns(self.db, name) for name in ("sessions", "messages")}
            for name, found in columns.items():
                if not found:
                    raise LogError(f"{str(self.path)!r} has no table {name!r}; it is not a database of Hermes Agent")
            self.session_columns = columns["sessions"]
            self.messages = f"(SELECT rowid AS id, {_select(COLUMNS, columns['messages'])} FROM messages)"
            self.sessions = f"(SELECT {_select(_SESSION_COLUMNS, columns['sessions'])} FROM sessions)"
            self.copies = Copies(self.db, self.messages)
            last = as_int(self.state.get("row")) or 0
            query = f"SELECT id, session_id, timestamp FROM {self.messages} WHERE id <= ? ORDER BY id DESC LIMIT 1"
            row = self.db.execute(query, (last,)).fetchone()
            if row is None or _fingerprint(*row) not in as_list(self.state.get("trail")):
                last = self.state["row"] = 0
                self.state.pop("facts", None)
                self.state.pop("trail", None)
            yield from self.changed_facts(last)
            yield from self.new_messages(last)

    def value(self, query: str, *parameters: object) -> object:
        row = self.db.execute(query, parameters).fetchone()
        return row[0] if row else None

    def changed_facts(self, last: int) -> Iterator[Pair]:
        """The sessions whose facts changed. Hermes itself drops sessions without messages."""
        names: dict[str, int] = {}
        digests = [""] * _GROUPS
        query = f"SELECT * FROM {self.sessions} AS s WHERE EXISTS (SELECT 1 FROM messages WHERE session_id = s.id)"
        for cells in self.db.execute(query):
            if name := as_str(cells[0]):
                group = names[name] = int(digest(name)[:4], 16) % _GROUPS
                digests[group] = digest(digests[group], repr(cells))[:16]
        known = as_list(self.state.get("facts"))
        for name, group in names.items():
            if known[group : group + 1] != [digests[group]]:
                story = self.story_of(name)
                is_known = self.value("SELECT 1 FROM messages WHERE session_id = ? AND rowid <= ?", name, last)
                yield story.session, None if is_known else self.system_prompt(name, story)
        self.state["facts"] = digests

    def system_prompt(self, name: str, story: _Story) -> Message | None:
        prompt: object = None
        if "system_prompt" in self.session_columns:
            prompt = self.value("SELECT system_prompt FROM sessions WHERE id = ?", name)
        if not prompt and "system_prompt_hash" in self.session_columns and table_columns(self.db, "system_prompts"):
            query = "SELECT prompt FROM system_prompts JOIN sessions ON hash = system_prompt_hash WHERE id = ?"
            prompt = self.value(query, name)
        self.native_id, self.time = f"{name}:system", story.session.started_at
        text = text_of(prompt)
        return self.message("system", text, sidechain=story.sidechain) if text else None

    def new_story(self, name: str) -> _Story:
        chain = list(self.chain(name))
        fields, parent = chain[0], as_str(chain[0].get("parent_session_id"))
        before = self.session_row(parent) if parent else {}
        kind, sidechain = _relation(fields, before)
        # A subagent starts from nothing, but works where its parent does.
        lineage: list[str] = []
        for link, above in zip(chain, [*chain[1:], None], strict=True):
            lineage.append(link["id"])
            if above is None or _relation(link, above)[0] in (None, "subagent"):
                break
        folders = (as_str(link.get("git_repo_root")) or project_of(as_str(link.get("cwd"))) for link in chain)
        session = Session(
            agent=AGENT,
            native_id=name,
            project=next(filter(None, folders), ""),
            branch=as_str(fields.get("git_branch")),
            model=as_str(fields.get("model")),
            title=as_str(fields.get("title")),
            source=str(self.path),
            started_at=as_time(fields.get("started_at")),
            ended_at=as_time(fields.get("ended_at")),
            parent_id=session_id(AGENT, parent) if kind else None,
            parent_kind=kind,
            usage=usage_of(fields, *_TOKENS),
        )
        forked = kind == "branch" and (
            _config(fields).get("_branched_from") == parent or before.get("end_reason") == "branched"
        )
        return _Story(session, tuple(lineage), sidechain, forked)

    def session_row(self, name: str) -> _Fields:
        cells = self.db.execute(f"SELECT * FROM {self.sessions} WHERE id = ?", (name,)).fetchone()
        return dict(zip(_SESSION_COLUMNS, cells, strict=True)) if cells else {}

    def chain(self, name: str) -> Iterator[_Fields]:
        """The row of the session and those of its ancestors."""
        seen: set[str] = set()
        while name and name not in seen and len(seen) < MAX_ANCESTORS:
            seen.add(name)
            fields = self.session_row(name)
            yield {**fields, "id": name}
            name = as_str(fields.get("parent_session_id"))

    def new_messages(self, last: int) -> Iterator[Pair]:
        query = f"SELECT * FROM {self.messages} WHERE id > ? ORDER BY id LIMIT {_PAGE}"
        while page := self.db.execute(query, (last,)).fetchall():
            for cells in page:
                row = Row(*cells)
                if row.id <= last:  # or the next page would begin here too, without end
                    raise sqlite3.DatabaseError("rows are out of order: database disk image is malformed")
                yield from self.take_row(row)
                last = self.state["row"] = row.id
                trail = [*as_list(self.state.get("trail")), _fingerprint(row.id, row.session_id, row.timestamp)]
                self.state["trail"] = trail[-_TRAIL:]

    def take_row(self, row: Row) -> list[Pair]:
        if not as_str(row.session_id) or not as_str(row.role):
            self.reading.report(row.id, "message without a session or a role")
        elif row.active == 0 and not row.compacted:
            self.reading.skip("undone")
        elif row.role not in get_args(Role):
            self.reading.skip(f"role {row.role}")
        else:
            story = self.story_of(row.session_id)
            try:
                return [(story.session, message) for message in self.messages_of(row, story)]
            except (RecursionError, ValueError, OverflowError) as error:
                self.reading.report(row.id, error)
        return []

    def messages_of(self, row: Row, story: _Story) -> list[Message]:
        body, lineage = body_of(row), story.lineage
        if row.tool_calls and not body.calls:
            self.reading.report(row.id, "tool_calls are not a list of calls")
        messages: list[Message] = []
        if body.text or body.calls or not body.summary:
            if self.copies.covers(row, body, lineage, forked=story.forked):
                self.reading.skip("copy")
            elif is_ours(message := message_of(row, body, lineage[-1], sidechain=story.sidechain)):
                self.reading.skip("ours")
            else:
                messages.append(message)
        if body.summary:
            if self.copies.repeats(row, Body(text_of(row.content), (), ""), lineage):
                self.reading.skip("copy")
            else:
                messages.append(message_of(row, body, lineage[-1], sidechain=story.sidechain, summary=True))
        return messages[::-1] if body.leading else messages


class HermesReader(Reader):
    """Reads the sessions of every profile of Hermes Agent."""

    agent = AGENT
    log = _Database

    def outcome_of(self, tool: str, result: ToolResult) -> CallOutcome:
        return outcome_of(result)

    def roots(self, env: Mapping[str, str], home: Path) -> list[Path]:
        chosen = env.get("HERMES_HOME", "").strip()
        return [Path(chosen).expanduser() if chosen else home / ".hermes"]

    def find(self, root: Path) -> Iterable[Path]:
        if root.is_file():
            return [root]
        databases = [root / _NAME, *sorted((root / "profiles").glob(f"*/{_NAME}"))]
        return [path for path in databases if path.is_file()]

    def claims(self, path: Path, head: bytes) -> bool:
        if not head.startswith(SQLITE):
            return False
        try:
            with closing(open_database(path)) as db:
                return all(marks <= table_columns(db, table) for table, marks in _MARKS.items())
        except (sqlite3.Error, UnicodeDecodeError):
            # Its name is Hermes'; reading it reports what is wrong.
            return path.name == _NAME

    def explain(self, path: Path, error: Exception) -> str:
        reason = " ".join(str(error).split())
        if not os.access(path, os.F_OK):
            return f"there is no file at {str(path)!r}; check HERMES_HOME or the path"
        if "unable to open" in reason or "readonly" in reason:
            return (
                f"cannot open {str(path)!r}: SQLite must be able to read it and to create {path.name + '-shm'!r} beside"
                " it; allow writing in that folder, or make a copy with `sqlite3 … '.backup'` and import that"
            )
        if "locked" in reason or "busy" in reason:
            return f"{str(path)!r} is locked by a running Hermes ({reason}); try again in a moment"
        return f"cannot read {str(path)!r} ({reason}); if Hermes cannot either, run `hermes sessions repair`"


def _relation(fields: _Fields, before: _Fields) -> tuple[ParentKind | None, bool]:
    """The relation of a session to its parent, and whether it is a subagent's.

    A session after a compaction inherits the marks of the one before: a mark that names another session than the parent
    is about the lineage, not about this link.
    """
    parent, config = as_str(fields.get("parent_session_id")), _config(fields)
    delegated = config.get("_delegate_from")
    sidechain = fields.get("source") == "subagent" or delegated is not None
    if not parent:
        return None, sidechain
    compacted = before.get("end_reason") == "compression"
    if delegated == parent or (sidechain and (delegated is None or not compacted)):
        return "subagent", sidechain
    if config.get("_branched_from") == parent or not compacted:
        return "branch", sidechain
    return "compaction", sidechain


def _config(fields: _Fields) -> _Fields:
    return as_dict(from_json(fields.get("model_config")))


def _select(wanted: Iterable[str], present: set[str]) -> str:
    return ", ".join(name if name in present else f"NULL AS {name}" for name in wanted)


def _fingerprint(number: int, session: object, timestamp: object) -> str:
    """A digest that identifies a row of this database."""
    return digest(repr((number, session, timestamp)))[:16]
