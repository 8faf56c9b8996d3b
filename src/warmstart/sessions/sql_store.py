"""The session store, in SQL that SQLite and PostgreSQL share. Only the connection and the text index differ."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType

import msgspec

from warmstart.config import COPIES, Settings
from warmstart.errors import AmbiguousId, SessionNotFound
from warmstart.sessions.append import Append, texts_of
from warmstart.sessions.indexed_store import IndexedStore
from warmstart.sessions.redaction import exchange_text, forget_state, rewrite_facts
from warmstart.sessions.schema import (
    SESSION_COLUMNS,
    encode,
    judged_digest,
    read_rows,
    to_message,
    to_result,
    to_session,
)
from warmstart.sessions.skip import CONTENT_ERRORS
from warmstart.sessions.skip import log_skip as log_skip
from warmstart.sessions.store import Appended, Filter, Position, SessionSummary
from warmstart.sessions.tables import IN_PROJECT, MIGRATIONS
from warmstart.sessions.text_index import PostgresTextIndex, SQLiteTextIndex, TextIndex
from warmstart.sessions.values import CallOutcome, Message, ParentKind, Session, SessionOutcome, ToolResult, clean
from warmstart.storage.compression import decompress
from warmstart.storage.database import Connection, Database, Statement, select_in
from warmstart.storage.sqlite import SQLiteDatabase

_COUNTS = """
    (SELECT count(*) FROM messages m WHERE m.session = s.pk) AS messages,
    (SELECT count(*) FROM messages m JOIN tool_calls c ON c.message = m.pk WHERE m.session = s.pk) AS calls,
    (SELECT count(*) FROM messages m JOIN tool_results r ON r.message = m.pk
        WHERE m.session = s.pk AND r.outcome = 'error') AS errors,
    (SELECT count(*) FROM messages m JOIN tool_results r ON r.message = m.pk
        WHERE m.session = s.pk AND r.outcome = 'rejected') AS rejections
"""
# Few logs have a title; the user's first message serves as one.
_TITLE = """
    CASE WHEN s.title <> '' THEN s.title ELSE coalesce((
        SELECT substr(decompress(t.body), 1, 200) FROM messages m JOIN texts t ON t.id = m.text
        WHERE m.session = s.pk AND m.role = 'user' AND m.flags & 3 = 0 ORDER BY m.seq LIMIT 1), '') END
"""
_SESSION = ", ".join(f"s.{name}" for name in SESSION_COLUMNS.split(", ")).replace("s.title", _TITLE)
_POSITION = 'path, agent, signature, mark, "offset", line, state, revision'
_NEWEST_FIRST = "ORDER BY s.started_at DESC NULLS LAST, s.id"
_REWRITE_PAGE = 200  # texts rewritten in one transaction
_FILTERS = {
    "id": "s.id = :id",
    "agent": "s.agent = :agent",
    "project": IN_PROJECT,
    "since": "s.started_at >= :since",
    "outcome": "s.outcome = :outcome",
}
# What reading a session can raise, if its content is bad.
BAD_SESSION = (*CONTENT_ERRORS, msgspec.MsgspecError)
Skip = Callable[[str, Exception], None]


def where(filter: Filter) -> tuple[str, dict[str, object]]:
    """A filter as a condition on `sessions s`, and its parameters, including `limit`."""
    values: dict[str, object] = {}
    for name in _FILTERS:
        value = getattr(filter, name)
        if value not in (None, ""):
            values[name] = value.timestamp() if isinstance(value, datetime) else clean(value)
    condition = " AND ".join(_FILTERS[name] for name in values) or "true"
    return condition, {**values, "limit": filter.limit if filter.limit > 0 else 2**62}


class SQLSessionStore(IndexedStore):
    """Sessions in a database. Implements `SessionStore` and what sync needs; for one thread.

    `name` is a path, or a URL without its password; `about` names the kind and version of the database. Other packages
    have their own tables in `database`.
    """

    def __init__(self, database: Database, index: TextIndex, about: str) -> None:
        super().__init__(database, index)
        self.name = database.name
        self.about = about
        self._stale: set[int] = set()
        self._known_stems: Mapping[str, str] = {}
        self._stems: dict[int, str] = {}  # of texts that were added, by their ids

    @contextmanager
    def transaction(
        self, *, wait: bool = True, stems: Mapping[str, str] = MappingProxyType({})
    ) -> Iterator[Connection]:
        """Write all or nothing. The text index is updated once, at the end."""
        is_inner, last = self.database.is_writing, list[Statement]()
        with self.database.transaction(last, wait=wait) as connection:
            if is_inner:
                yield connection
                return
            self._stale, self._known_stems, self._stems = set(), stems, {}
            newest, pending = connection.execute(
                "SELECT coalesce(max(id), 0), (SELECT coalesce(max(pending), 0) FROM index_state) FROM texts"
            ).fetchone()
            yield connection
            if self._stale:
                self.index.remove(self._stale, pending + 1, newest)
            for statement in self.index.add(max(newest, pending) + 1, stems=self._stems):
                if wait:
                    connection.execute(*statement)
                else:  # runs in the background; stemming there would wait for the GIL at every row
                    last.append(statement)

    def forget(self, texts: set[int]) -> None:
        """At the end of the transaction, delete those of these texts that are no longer used."""
        self._stale |= texts

    # -- writing

    def append(self, session: Session, messages: Iterable[Message] = ()) -> Appended:
        bodies: dict[bytes, str] = {}
        rows = [encode(session.agent, message, bodies) for message in messages]
        with self.transaction() as connection:
            append = Append(connection, session, list({row.key: row for row in rows}.values()), bodies)
            appended = append.run()
            self._stale |= append.stale
            for key, number in append.texts.items() if self._known_stems else ():
                if (stems := self._known_stems.get(bodies[key])) is not None:
                    self._stems[number] = stems
        return appended

    def set_outcome(self, session_id: str, outcome: SessionOutcome, because: str = "") -> None:
        session = self.get(session_id)
        with self.transaction() as connection:
            connection.execute(
                "UPDATE sessions SET outcome = ?, evidence = ?, judge = 'user', revision = revision + 1 WHERE id = ?",
                (outcome, clean(because), session.id),
            )

    def save_outcomes(self, outcomes: Iterable[tuple[SessionOutcome, str, str, int]]) -> None:
        """Save outcomes, each with its evidence, the session's id and the revision that was profiled."""
        with self.transaction() as connection:
            connection.executemany(
                "UPDATE sessions SET outcome = ?, evidence = ? WHERE id = ? AND revision = ?", [*outcomes]
            )

    def set_parent(self, session_id: str, parent_id: str, kind: ParentKind) -> None:
        """Link a session to the one that it continues."""
        with self.transaction() as connection:
            values = (parent_id, kind, session_id)
            connection.execute("UPDATE sessions SET parent_id = ?, parent_kind = ? WHERE id = ?", values)

    def delete(self, session_id: str) -> bool:
        with self.transaction() as connection:
            found = connection.execute("SELECT pk, source FROM sessions WHERE id = ?", (session_id,)).fetchone()
            if found is None:
                return False
            self.database.take_back()
            pk, source = found
            messages = connection.execute("SELECT pk FROM messages WHERE session = ?", (pk,))
            self._stale |= texts_of(connection, [row[0] for row in messages])
            connection.execute("INSERT INTO deleted_sessions (id) VALUES (?) ON CONFLICT DO NOTHING", (session_id,))
            connection.execute(
                "INSERT INTO deleted_messages (key, session_id) SELECT key, ? FROM messages WHERE session = ? "
                "ON CONFLICT DO NOTHING",
                (session_id, pk),
            )
            # A reader's state may contain titles and unfinished messages.
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
                    "SELECT id, decompress(body) FROM texts WHERE id > ? AND id <= ?",
                    (first, min(first + _REWRITE_PAGE, last)),
                ).fetchall()
                rewritten = {old: new for old, body in page if (new := change(body)) != body}
                for old, new in rewritten.items():
                    exchange_text(connection, old, new)
                # What was derived from a text is outdated, even if the rewrite is interrupted.
                if rewritten:
                    connection.execute(raise_revisions)
                if rewritten and not changed:
                    self._delete_traces(connection)
                self._stale |= rewritten.keys()
                changed += len(rewritten)
        with self.transaction() as connection:
            if facts := rewrite_facts(connection, change, rename or change):
                connection.execute(raise_revisions)
                self._delete_traces(connection)
        return changed + facts

    def rejudge(self, judge: Callable[[str, str, ToolResult], CallOutcome], rules: int) -> int:
        changed = 0
        for session_id, agent in self.fetch("SELECT id, agent FROM sessions WHERE rules <> ? ORDER BY pk", (rules,)):
            with self.transaction() as connection:
                try:
                    number = self._rejudge_session(session_id, partial(judge, agent))
                except BAD_SESSION as error:
                    log_skip(session_id, error)
                    number = 0
                connection.execute(
                    "UPDATE sessions SET rules = ?, revision = revision + ? WHERE id = ?",
                    (rules, int(number > 0), session_id),
                )
                changed += number
        return changed

    def _rejudge_session(self, session_id: str, judge: Callable[[str, ToolResult], CallOutcome]) -> int:
        """Judge every result of a session again. Returns how many outcomes changed."""
        tools: dict[str, str] = {}  # by call id, so far: an id may be used again
        outcomes: list[tuple[CallOutcome, bytes, int]] = []
        digests: list[tuple[bytes, bytes]] = []
        for _, row in read_rows(self.database, session_id, "body"):
            tools.update((call_id, name) for call_id, name, _ in row.calls)
            results = [to_result(result) for result in row.results]
            judged = [judge(tools.get(result.call_id, ""), result) for result in results]
            if judged != [result.outcome for result in results]:
                changed = (place for place, result in enumerate(results) if judged[place] != result.outcome)
                outcomes += [(judged[place], row.key, place) for place in changed]
                digests.append((judged_digest(row.digest, judged), row.key))
        place = "message = (SELECT pk FROM messages WHERE key = ?) AND position = ?"
        self.database.connection.executemany(f"UPDATE tool_results SET outcome = ? WHERE {place}", outcomes)
        self.database.connection.executemany("UPDATE messages SET digest = ? WHERE key = ?", digests)
        return len(outcomes)

    def scrub(self) -> None:
        """Remove all traces of deleted data: from the index, the tables of other packages and the file.

        The logs and backups of a server are not touched.
        """
        with self.transaction() as connection:
            self.index.optimize()
            self._delete_traces(connection)
        self.database.vacuum()

    def _delete_traces(self, connection: Connection) -> None:
        """Let the tables of other packages delete their traces of what is gone."""
        self.database.take_back()
        connection.execute("INSERT INTO scrubs (id) VALUES (1)")
        connection.execute("DELETE FROM scrubs")

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
            # A subagent's id begins with that of its parent; the user means the parent.
            if len(rows) > 1 and all(row[2].startswith(f"{rows[0][2]}/") for row in rows[1:]):
                rows = rows[:1]
        if not rows:
            raise SessionNotFound(f"no session has the id {session_id!r}; `warmstart sessions list` shows them")
        if len(rows) > 1:
            some = ", ".join(f"{row[0]} ({row[1]})" for row in rows[:3])
            raise AmbiguousId(f"{session_id!r} matches several sessions: {some}; give more of the id")
        return to_session(rows[0])

    def messages(self, session_id: str) -> Iterator[Message]:
        return (to_message(row) for _, row in read_rows(self.database, session_id, "body"))

    def compacted(self, limit: int) -> list[str]:
        """The sessions that were compacted by their agent, newest first."""
        rows = self.fetch(
            "SELECT s.id FROM sessions s JOIN messages m ON m.session = s.pk AND m.flags & 1 = 1 GROUP BY s.id "
            "ORDER BY max(m.at) DESC NULLS LAST, s.id LIMIT ?",
            (limit,),
        )
        return [row[0] for row in rows]

    def opened_with(self, text: str, *, within: int, since: float) -> dict[str, str]:
        """The sessions started since `since` whose user wrote `text` in one of the first `within` messages.

        Returns that message by session id.
        """
        rows = self.fetch(
            "SELECT s.id, decompress(t.body) FROM sessions s JOIN messages m ON m.session = s.pk "
            "JOIN texts t ON t.id = m.text WHERE m.role = 'user' AND m.seq <= ? "
            "AND replace(decompress(t.body), ?, '') <> decompress(t.body) "
            "AND coalesce(s.started_at, 1e18) >= ? ORDER BY s.pk, m.seq DESC",
            (within, text, since),
        )
        return dict(rows)

    # -- what sync needs

    def positions(self, paths: Iterable[str] | None = None) -> dict[str, Position]:
        query, connection = f"SELECT {_POSITION} FROM positions", self.database.connection
        with self.database.translate_errors():
            chosen = f"{query} WHERE path IN ({{}})"
            rows = iter(connection.execute(query)) if paths is None else select_in(connection, chosen, paths)
            return {row[0]: Position(*(*row[:6], msgspec.json.decode(decompress(row[6])), row[7])) for row in rows}

    def save_position(self, position: Position) -> int:
        state = clean(msgspec.json.encode(position.state).decode())
        place = (position.mark, position.offset, position.line)
        with self.transaction() as connection:
            row = connection.execute(
                f"INSERT INTO positions ({_POSITION}) VALUES (?, ?, ?, ?, ?, ?, compress(?), 1) "
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
        """The ids of the sessions that were deleted."""
        return frozenset(row[0] for row in self.fetch("SELECT id FROM deleted_sessions"))

    # Last, because below this line `list` is no longer the type.

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
    """The sessions of one tenant in a PostgreSQL database: `tenant`, or by default the role that logs in."""

    def __init__(self, url: str, *, tenant: str = "") -> None:
        from warmstart.storage.postgres import PostgresDatabase  # deferred: psycopg is an extra

        database = PostgresDatabase(url, MIGRATIONS, tenant=tenant)
        self.tenant = database.tenant
        about = f"PostgreSQL {database.version}, tenant {self.tenant}"
        super().__init__(database, PostgresTextIndex(database), about)


@contextmanager
def open_store(settings: Settings) -> Iterator[SQLSessionStore]:
    """Open the store in the settings, created and migrated if necessary, and close it afterwards."""
    store: SQLSessionStore
    if settings.store_url:
        store = PostgresSessionStore(settings.store_url, tenant=settings.store_tenant)
        store.database.copies = settings.home / COPIES
    else:
        store = SQLiteSessionStore(settings.store_path)
    try:
        yield store
    finally:
        store.close()
