"""The session store in SQL that SQLite and PostgreSQL share.

They differ in the connection and in the text index, which a store of either kind brings along.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from warmstart.config import Settings
from warmstart.errors import AmbiguousId, SessionNotFound
from warmstart.sessions.append import Append, texts_of
from warmstart.sessions.bad_sessions import BAD_SESSION, log_skip
from warmstart.sessions.outcomes import Judge, rejudge_session
from warmstart.sessions.redaction import exchange_text, forget_state, rewrite_facts
from warmstart.sessions.schema import (
    IN_PROJECT,
    MIGRATIONS,
    SESSION_COLUMNS,
    TEXT_USES,
    encode,
    read_rows,
    to_message,
    to_seconds,
    to_session,
    to_time,
)
from warmstart.sessions.store import AgentStatistics, Appended, Filter, Match, Position, SessionSummary
from warmstart.sessions.text_index import PostgresTextIndex, SQLiteTextIndex, TextIndex
from warmstart.sessions.values import Message, Session, SessionOutcome, clean
from warmstart.storage.database import Connection, Database, Statements
from warmstart.storage.sql import batches, placeholders
from warmstart.storage.sqlite import SQLiteDatabase
from warmstart.text.words import stem_words, tokenize

_COUNTS = """
    (SELECT count(*) FROM messages m WHERE m.session = s.pk) AS messages,
    (SELECT count(*) FROM messages m JOIN tool_calls c ON c.message = m.pk WHERE m.session = s.pk) AS calls,
    (SELECT count(*) FROM messages m JOIN tool_results r ON r.message = m.pk
        WHERE m.session = s.pk AND r.outcome = 'error') AS errors,
    (SELECT count(*) FROM messages m JOIN tool_results r ON r.message = m.pk
        WHERE m.session = s.pk AND r.outcome = 'rejected') AS rejections
"""
# Few logs have a title; the first message of the user serves as one.
_TITLE = """
    CASE WHEN s.title <> '' THEN s.title ELSE coalesce((
        SELECT substr(t.body, 1, 200) FROM messages m JOIN texts t ON t.id = m.text
        WHERE m.session = s.pk AND m.role = 'user' AND m.flags & 3 = 0 ORDER BY m.seq LIMIT 1), '') END
"""
_SESSION = ", ".join(f"s.{name}" for name in SESSION_COLUMNS.split(", ")).replace("s.title", _TITLE)
_POSITION = 'path, agent, signature, mark, "offset", line, state, revision'
_NEWEST_FIRST = "ORDER BY s.started_at DESC NULLS LAST, s.id"
# The messages that use any of some texts; {0} is an IN list.
_USES = " UNION ".join(
    f"SELECT {pk} AS pk, {text} AS text FROM {table} WHERE {text} IN ({{0}})" for table, pk, text in TEXT_USES
)
_MATCHES = (
    f"SELECT s.id, m.native_id, m.role, m.at, t.body FROM ({_USES}) used JOIN texts t ON t.id = used.text "
    "JOIN messages m ON m.pk = used.pk JOIN sessions s ON s.pk = m.session ORDER BY t.id DESC, m.pk DESC"
)
_REWRITE_PAGE = 200  # texts rewritten in one transaction
_FILTERS = {
    "id": "s.id = :id",
    "agent": "s.agent = :agent",
    "project": IN_PROJECT,
    "since": "s.started_at >= :since",
    "outcome": "s.outcome = :outcome",
}


def where(filter: Filter) -> tuple[str, dict[str, object]]:
    """A filter as a condition on `sessions s`, and its parameters, among them `limit`."""
    values: dict[str, object] = {}
    for name in _FILTERS:
        value = getattr(filter, name)
        if value not in (None, ""):
            values[name] = to_seconds(value) if isinstance(value, datetime) else clean(value)
    condition = " AND ".join(_FILTERS[name] for name in values) or "true"
    return condition, {**values, "limit": filter.limit if filter.limit > 0 else 2**62}


class SQLSessionStore:
    """Sessions in a database. Implements `SessionStore` and what sync needs; for one thread.

    `name` is a path, or a URL without its password; `about` names the kind and version of the database. Other packages
    have tables of their own in `database`.
    """

    def __init__(self, database: Database, index: TextIndex, about: str) -> None:
        self.database = database
        self.index = index
        self.name = database.name
        self.about = about
        self._stale: set[int] = set()

    def close(self) -> None:
        self.database.close()

    @contextmanager
    def transaction(
        self, *, wait: bool = True, stems: Mapping[str, str] = MappingProxyType({})
    ) -> Iterator[Connection]:
        """Write all or nothing. The text index is updated once, at the end."""
        is_inner, last = self.database.is_writing, list[Statements]()
        with self.database.transaction(chain.from_iterable(last), wait=wait) as connection:
            if is_inner:
                yield connection
                return
            self._stale = set()
            newest, pending = connection.execute(
                "SELECT coalesce(max(id), 0), (SELECT coalesce(max(pending), 0) FROM index_state) FROM texts"
            ).fetchone()
            yield connection
            last.append(self.index.end_write(newest, pending, self._stale, stems))

    def fetch(self, sql: str, parameters: Any = ()) -> list[Any]:
        """The rows of a query."""
        with self.database.translate_errors():
            return self.database.connection.execute(sql, parameters).fetchall()

    def integrity(self) -> list[str]:
        """Problems with the stored data; empty if there are none."""
        return self.database.integrity()

    def forget(self, texts: set[int]) -> None:
        """Delete those of these texts that are no longer used, at the end of the transaction."""
        self._stale |= texts

    # -- writing

    def append(self, session: Session, messages: Iterable[Message] = ()) -> Appended:
        bodies: dict[bytes, str] = {}
        rows = [encode(session.agent, message, bodies) for message in messages]
        with self.transaction() as connection:
            append = Append(connection, session, list({row.key: row for row in rows}.values()), bodies)
            appended = append.run()
            self._stale |= append.stale
        return appended

    def set_outcome(self, session_id: str, outcome: SessionOutcome, because: str = "") -> None:
        session = self.get(session_id)
        with self.transaction() as connection:
            connection.execute(
                "UPDATE sessions SET outcome = ?, evidence = ?, judge = 'user', revision = revision + 1 WHERE id = ?",
                (outcome, clean(because), session.id),
            )

    def delete(self, session_id: str) -> bool:
        with self.transaction() as connection:
            found = connection.execute("SELECT pk, source FROM sessions WHERE id = ?", (session_id,)).fetchone()
            if found is None:
                return False
            pk, source = found
            messages = connection.execute("SELECT pk FROM messages WHERE session = ?", (pk,))
            self._stale |= texts_of(connection, [row[0] for row in messages])
            connection.execute("INSERT INTO deleted_sessions (id) VALUES (?) ON CONFLICT DO NOTHING", (session_id,))
            connection.execute(
                "INSERT INTO deleted_messages (key, session_id) SELECT key, ? FROM messages WHERE session = ? "
                "ON CONFLICT DO NOTHING",
                (session_id, pk),
            )
            # The state of a reader may hold titles and unfinished messages.
            forget_state(connection, source)
            connection.execute("DELETE FROM sessions WHERE pk = ?", (pk,))
            children = connection.execute(
                "SELECT id FROM sessions WHERE parent_id = ? AND parent_kind = 'subagent'", (session_id,)
            ).fetchall()
            for (child,) in children:
                self.delete(child)
        return True

    def rewrite(self, change: Callable[[str], str], rename: Callable[[str], str] | None = None) -> int:
        changed = 0
        raise_revisions = "UPDATE sessions SET revision = revision + 1"
        last = self.fetch("SELECT coalesce(max(id), 0) FROM texts")[0][0]
        for first in range(0, last, _REWRITE_PAGE):
            with self.transaction() as connection:
                page = connection.execute(
                    "SELECT id, body FROM texts WHERE id > ? AND id <= ?", (first, min(first + _REWRITE_PAGE, last))
                ).fetchall()
                rewritten = {old: new for old, body in page if (new := change(body)) != body}
                for old, new in rewritten.items():
                    exchange_text(connection, old, new)
                # What was derived from a text is outdated even if this is interrupted.
                if rewritten:
                    connection.execute(raise_revisions)
                self._stale |= rewritten.keys()
                changed += len(rewritten)
        with self.transaction() as connection:
            if facts := rewrite_facts(connection, change, rename or change):
                connection.execute(raise_revisions)
        return changed + facts

    def rejudge(self, judge: Judge, rules: int) -> int:
        changed = 0
        for session_id, agent in self.fetch("SELECT id, agent FROM sessions WHERE rules <> ? ORDER BY pk", (rules,)):
            with self.transaction() as connection:
                try:
                    number = rejudge_session(self.database, session_id, agent, judge)
                except BAD_SESSION as error:
                    log_skip(session_id, error)
                    number = 0
                connection.execute(
                    "UPDATE sessions SET rules = ?, revision = revision + ? WHERE id = ?",
                    (rules, int(number > 0), session_id),
                )
                changed += number
        return changed

    def scrub(self) -> None:
        """Remove all traces of deleted data: from the index, the tables of other packages and the file.

        The logs and backups of a server are not touched.
        """
        with self.transaction() as connection:
            self.index.optimize()
            connection.execute("INSERT INTO scrubs (id) VALUES (1)")
            connection.execute("DELETE FROM scrubs")
        self.database.vacuum()

    # -- reading

    def get(self, session_id: str) -> Session:
        session_id = clean(session_id)
        rows = self.fetch(
            f"SELECT {_SESSION} FROM sessions s WHERE s.id = ?1 OR s.native_id = ?1 LIMIT 2", (session_id,)
        )
        if not rows and session_id:
            rows = self.fetch(
                f"SELECT {_SESSION} FROM sessions s WHERE substr(s.id, 1, length(?1)) = ?1 "
                "OR substr(s.native_id, 1, length(?1)) = ?1 "
                "ORDER BY coalesce(s.parent_kind, '') = 'subagent', s.started_at DESC LIMIT 4",
                (session_id,),
            )
            # A subagent's id begins with that of its parent; the parent is meant.
            if len(rows) > 1 and all(row[2].startswith(f"{rows[0][2]}/") for row in rows[1:]):
                rows = rows[:1]
        if not rows:
            raise SessionNotFound(f"no session has the id {session_id!r}; `warmstart sessions list` shows them")
        if len(rows) > 1:
            some = ", ".join(f"{row[0]} ({row[1]})" for row in rows[:3])
            raise AmbiguousId(f"{session_id!r} fits several sessions: {some}; give more of the id")
        return to_session(rows[0])

    def messages(self, session_id: str) -> Iterator[Message]:
        return (to_message(row) for _, row in read_rows(self.database, session_id, "body"))

    def projects(self) -> list[str]:
        return [row[0] for row in self.fetch("SELECT DISTINCT project FROM sessions ORDER BY project")]

    def statistics(self) -> list[AgentStatistics]:
        rows = self.fetch(
            "SELECT agent, count(*), CAST(sum(messages) AS BIGINT), CAST(sum(calls) AS BIGINT), "
            "CAST(sum(errors) AS BIGINT), CAST(sum(rejections) AS BIGINT) "
            f"FROM (SELECT s.agent, {_COUNTS} FROM sessions s) counted GROUP BY agent ORDER BY agent"
        )
        return [AgentStatistics(*row) for row in rows]

    def search(self, text: str, *, limit: int = 20) -> list[Match]:
        stems = dict.fromkeys(stem_words(tokenize(clean(text))))
        found: list[Match] = []
        for some in batches(self.index.find(stems, limit=limit)):
            rows = self.fetch(_MATCHES.format(placeholders(some)), some * len(TEXT_USES))
            found += [Match(session, message, role, to_time(at), body) for session, message, role, at, body in rows]
        return found[:limit]

    @property
    def index_complete(self) -> bool:
        return self.index.is_complete

    def fill_index(self, progress: Callable[[int, int], None] | None = None) -> None:
        self.index.fill(progress)

    # -- what sync needs

    def positions(self, paths: Iterable[str] | None = None) -> dict[str, Position]:
        query, rows = f"SELECT {_POSITION} FROM positions", list[Any]()
        for some in ((),) if paths is None else batches(paths):
            rows += self.fetch(f"{query} WHERE path IN ({placeholders(some)})" if some else query, some)
        return {row[0]: Position(*(*row[:6], json.loads(row[6]), row[7])) for row in rows}

    def save_position(self, position: Position) -> int:
        state = clean(msgspec.json.encode(position.state).decode())
        place = (position.mark, position.offset, position.line)
        with self.transaction() as connection:
            row = connection.execute(
                f"INSERT INTO positions ({_POSITION}) VALUES (?, ?, ?, ?, ?, ?, ?, 1) "
                "ON CONFLICT (path) DO UPDATE SET agent = excluded.agent, "
                'signature = excluded.signature, mark = excluded.mark, "offset" = excluded."offset", '
                "line = excluded.line, state = excluded.state, revision = positions.revision + 1 RETURNING revision",
                (position.path, position.agent, position.signature, *place, state),
            ).fetchone()
        return int(row[0])

    def map_projects(self, map: Callable[[str, str], str]) -> None:
        rows = self.fetch("SELECT DISTINCT project, source FROM sessions WHERE directory = '' AND project <> ''")
        mapped = [(clean(new), old, old, source) for old, source in rows if (new := map(old, source))]
        if mapped:
            with self.transaction() as connection:
                connection.executemany(
                    "UPDATE sessions SET project = ?, directory = ? "
                    "WHERE project = ? AND source = ? AND directory = ''",
                    mapped,
                )

    def deleted(self) -> frozenset[str]:
        return frozenset(row[0] for row in self.fetch("SELECT id FROM deleted_sessions"))

    # Last, because from here on `list` is no longer the type.

    def list(self, filter: Filter = Filter()) -> list[SessionSummary]:  # noqa: B008 - Filter is frozen
        condition, values = where(filter)
        # Select the sessions first, so that only their messages are counted.
        rows = self.fetch(
            f"SELECT {_SESSION}, {_COUNTS} FROM (SELECT * FROM sessions s WHERE {condition} {_NEWEST_FIRST} "
            f"LIMIT :limit) s {_NEWEST_FIRST}",
            values,
        )
        return [SessionSummary(to_session(row[:-4]), *row[-4:]) for row in rows]


class SQLiteSessionStore(SQLSessionStore):
    """Sessions in one SQLite file."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        database = SQLiteDatabase(self.path, MIGRATIONS)
        super().__init__(database, SQLiteTextIndex(database), f"SQLite {sqlite3.sqlite_version}")


class PostgresSessionStore(SQLSessionStore):
    """The sessions of one tenant in a PostgreSQL database.

    `tenant` is the tenant to act for, if the role may; by default it is the role that the URL logs in.
    """

    def __init__(self, url: str, *, tenant: str = "") -> None:
        from warmstart.storage.postgres import PostgresDatabase  # deferred: psycopg comes with an extra

        database = PostgresDatabase(url, MIGRATIONS, tenant=tenant)
        self.tenant = database.tenant
        about = f"PostgreSQL {database.version}, tenant {self.tenant}"
        super().__init__(database, PostgresTextIndex(database), about)


@contextmanager
def open_store(settings: Settings) -> Iterator[SQLSessionStore]:
    """The store in the settings, created and migrated if necessary, and closed afterwards."""
    store: SQLSessionStore
    if settings.store_url:
        store = PostgresSessionStore(settings.store_url, tenant=settings.store_tenant)
    else:
        store = SQLiteSessionStore(settings.store_path)
    try:
        yield store
    finally:
        store.close()
