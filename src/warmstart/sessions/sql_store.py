"""The session store in SQL that SQLite and PostgreSQL share.

What they do not share is named by a store of either kind: how texts are indexed and found, and how traces are removed.

The index over all texts holds their stems. It goes with the texts: a text is indexed and deleted in the transaction
that writes or forgets it. A store of an earlier layout starts with an empty index, which `fill_index` fills from the
newest text to the oldest; what is not in it yet has an id up to `index_state.pending`.
"""

from __future__ import annotations

import json
import re
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from math import log, log1p
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from warmstart.config import Settings
from warmstart.errors import AmbiguousId, SessionNotFound
from warmstart.sessions.append import Append, texts_of
from warmstart.sessions.bad_sessions import BAD_SESSION, log_skip
from warmstart.sessions.outcomes import Judge, rejudge_session
from warmstart.sessions.rewrite import exchange_text, forget_state, rewrite_facts
from warmstart.sessions.rows import SESSION_COLUMNS, encode, to_message, to_seconds, to_session, to_time
from warmstart.sessions.schema import MIGRATIONS
from warmstart.sessions.store import AgentStatistics, Appended, Filter, Match, Position, SessionSummary
from warmstart.sessions.text_index import PostgresTextIndex, SQLiteTextIndex, TextIndex
from warmstart.sessions.values import Message, Session, SessionOutcome, clean
from warmstart.storage.database import Connection, Database, Statements
from warmstart.storage.sql import batches, placeholders
from warmstart.storage.sqlite import SQLiteDatabase
from warmstart.text.words import stem_words, tokenize

if TYPE_CHECKING:
    from warmstart.storage.postgres import PostgresDatabase

_WORDS = re.compile(r"[^\W_]+").findall
_PAGE = 200  # messages read at a time

_COUNTS = """
    (SELECT count(*) FROM messages m WHERE m.session = s.pk) AS messages,
    (SELECT count(*) FROM messages m JOIN tool_calls c ON c.message = m.pk WHERE m.session = s.pk) AS calls,
    (SELECT count(*) FROM messages m JOIN tool_results r ON r.message = m.pk
        WHERE m.session = s.pk AND r.outcome = 'error') AS errors,
    (SELECT count(*) FROM messages m JOIN tool_results r ON r.message = m.pk
        WHERE m.session = s.pk AND r.outcome = 'rejected') AS rejections
"""
# A log seldom states a title; the first thing that the person asked serves.
_TITLE = """
    CASE WHEN s.title <> '' THEN s.title ELSE coalesce((
        SELECT substr(t.body, 1, 200) FROM messages m JOIN texts t ON t.id = m.text
        WHERE m.session = s.pk AND m.role = 'user' AND m.flags & 3 = 0 ORDER BY m.seq LIMIT 1), '') END
"""
_SESSION = ", ".join(f"s.{name.strip()}" for name in SESSION_COLUMNS.split(",")).replace("s.title", _TITLE)
_POSITIONS = 'SELECT path, agent, signature, mark, "offset", line, state, revision FROM positions'
# The messages that use any of some texts; {} is an IN list.
_USES = """
    SELECT used.text, s.id, m.native_id, m.role, m.at FROM (
        SELECT pk, text FROM messages WHERE text IN ({0})
        UNION SELECT pk, reasoning FROM messages WHERE reasoning IN ({0})
        UNION SELECT message, arguments FROM tool_calls WHERE arguments IN ({0})
        UNION SELECT message, text FROM tool_results WHERE text IN ({0})) used
    JOIN messages m ON m.pk = used.pk JOIN sessions s ON s.pk = m.session
"""
_RANKED = 200  # texts, the newest, that a search ranks
_LOOKED_AT = 2000  # texts, the newest, of which a search verifies that words stand side by side


_FILTERS = {
    "id": "s.id = :id",
    "agent": "s.agent = :agent",
    "project": "(s.project = :project OR substr(s.project, length(s.project) - length(:project)) = '/' || :project)",
    "since": "s.started_at >= :since",
    "until": "s.started_at < :until",
    "outcome": "s.outcome = :outcome",
    "parent_id": "s.parent_id = :parent_id",
}


def where(filter: Filter) -> tuple[str, dict[str, object]]:
    """A filter as a condition on `sessions s`, and its parameters, among them `limit`."""
    wanted: dict[str, object] = {
        "id": clean(filter.id),
        "agent": clean(filter.agent),
        "project": clean(filter.project),
        "since": to_seconds(filter.since),
        "until": to_seconds(filter.until),
        "outcome": filter.outcome,
        "parent_id": filter.parent_id,
    }
    values = {name: value for name, value in wanted.items() if value not in (None, "")}
    condition = " AND ".join(_FILTERS[name] for name in values) or "true"
    return condition, {**values, "limit": filter.limit if filter.limit > 0 else 2**62}


class SQLSessionStore(ABC):
    """Sessions in a database. Implements `SessionStore` and what sync needs; for one thread."""

    def __init__(self, database: Database, index: TextIndex) -> None:
        self._db = database
        self._depth = 0
        self._stale: set[int] = set()
        self.index = index

    @property
    def name(self) -> str:
        """Where the store is: a path, or a URL without its password."""
        return self._db.name

    @property
    @abstractmethod
    def about(self) -> str:
        """What keeps the store, and for whom."""

    @property
    def database(self) -> Database:
        """The database and its connection, for other rooms that keep tables of their own in it."""
        return self._db

    def close(self) -> None:
        try:
            self._db.close()
        finally:
            self.index.close()

    @contextmanager
    def transaction(self, *, wait: bool = True) -> Iterator[Connection]:
        """One write, whole or not at all. The index is brought up to date once, at the end."""
        last: list[Statements] = []
        with self._db.transaction(chain.from_iterable(last), wait=wait) as connection:
            if self._depth:
                yield connection
                return
            self._depth, self._stale = 1, set()
            try:
                newest = connection.execute("SELECT coalesce(max(id), 0) FROM texts").fetchone()
                yield connection
                last.append(self.index.end_write(newest[0], self._stale))
            finally:
                self._depth = 0

    def integrity(self) -> list[str]:
        """What is wrong with the store; empty when all is well."""
        return self._db.integrity()

    def forget(self, texts: set[int]) -> None:
        """Let these texts go at the end of the transaction, as far as nothing uses them any more."""
        self._stale |= texts

    # -- writing

    def append(self, session: Session, messages: Iterable[Message] = ()) -> Appended:
        rows = list({row.key: row for row in (encode(session.agent, message) for message in messages)}.values())
        with self.transaction() as connection:
            append = Append(connection, session, rows)
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
            # Readers remember titles and unfinished messages.
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
        with self._db.translate_errors():
            last = self._db.connection.execute("SELECT coalesce(max(id), 0) FROM texts").fetchone()[0]
        for first in range(0, last, _PAGE):
            with self.transaction() as connection:
                page = connection.execute(
                    "SELECT id, body FROM texts WHERE id > ? AND id <= ?", (first, min(first + _PAGE, last))
                ).fetchall()
                rewritten = {old: new for old, body in page if (new := change(body)) != body}
                for old, new in rewritten.items():
                    exchange_text(connection, old, new)
                # Whatever was derived from a text must go with it, however little of this is done in the end.
                if rewritten:
                    connection.execute(raise_revisions)
                self._stale |= rewritten.keys()
                changed += len(rewritten)
        with self.transaction() as connection:
            if facts := rewrite_facts(connection, change, rename or change):
                connection.execute(raise_revisions)
        return changed + facts

    def rejudge(self, judge: Judge, rules: int) -> int:
        changed, session = 0, 0
        while session := self._judged_otherwise(session, rules):
            with self.transaction() as connection:
                found = connection.execute("SELECT agent, id FROM sessions WHERE pk = ?", (session,)).fetchone()
                if found is None:
                    continue  # another process deleted it
                try:
                    number = rejudge_session(self._db, session, found[0], judge)
                except BAD_SESSION as error:
                    log_skip(found[1], error)
                    number = 0
                connection.execute(
                    "UPDATE sessions SET rules = ?, revision = revision + ? WHERE pk = ?",
                    (rules, int(number > 0), session),
                )
                changed += number
        return changed

    def _judged_otherwise(self, after: int, rules: int) -> int:
        with self._db.translate_errors():
            row = self._db.connection.execute(
                "SELECT pk FROM sessions WHERE pk > ? AND rules <> ? ORDER BY pk LIMIT 1", (after, rules)
            ).fetchone()
        return int(row[0]) if row else 0

    def scrub(self) -> None:
        """Leave no trace of what was deleted: in the index, in the tables of other packages, in the file.

        What the logs and backups of a server hold is its administrator's.
        """
        with self.transaction() as connection:
            self.index.optimize()
            connection.execute("INSERT INTO scrubs (id) VALUES (1)")
            connection.execute("DELETE FROM scrubs")
        self._db.vacuum()

    # -- reading

    def get(self, session_id: str) -> Session:
        session_id = clean(session_id)
        with self._db.translate_errors():
            rows = self._db.connection.execute(
                f"SELECT {_SESSION} FROM sessions s WHERE s.id = ?1 OR s.native_id = ?1 LIMIT 2", (session_id,)
            ).fetchall()
            if not rows and session_id:
                rows = self._db.connection.execute(
                    f"SELECT {_SESSION} FROM sessions s WHERE substr(s.id, 1, length(?1)) = ?1 "
                    "OR substr(s.native_id, 1, length(?1)) = ?1 "
                    "ORDER BY coalesce(s.parent_kind, '') = 'subagent', s.started_at DESC LIMIT 4",
                    (session_id,),
                ).fetchall()
                # A subagent's id begins with that of its parent, which is the one meant.
                if len(rows) > 1 and all(row[2].startswith(f"{rows[0][2]}/") for row in rows[1:]):
                    rows = rows[:1]
        if not rows:
            raise SessionNotFound(f"no session has the id {session_id!r}; `warmstart sessions list` shows them")
        if len(rows) > 1:
            some = ", ".join(f"{row[0]} ({row[1]})" for row in rows[:3])
            raise AmbiguousId(f"{session_id!r} fits several sessions: {some}; give more of the id")
        return to_session(rows[0])

    def messages(self, session_id: str) -> Iterator[Message]:
        after = -1
        while True:
            with self._db.translate_errors():
                page = self._page(session_id, after)
            for _, message in page:
                yield message
            if len(page) < _PAGE:
                return
            after = page[-1][0]

    def _page(self, session_id: str, after: int) -> list[tuple[int, Message]]:
        run = self._db.connection.execute
        rows = run(
            "SELECT m.seq, m.pk, m.native_id, m.role, m.flags, m.at, m.model, m.origin, m.usage, t.body, r.body "
            "FROM sessions s JOIN messages m ON m.session = s.pk "
            "LEFT JOIN texts t ON t.id = m.text LEFT JOIN texts r ON r.id = m.reasoning "
            "WHERE s.id = ? AND m.seq > ? ORDER BY m.seq LIMIT ?",
            (session_id, after, _PAGE),
        ).fetchall()
        if not rows:
            return []
        calls: dict[int, list[Any]] = {}
        results: dict[int, list[Any]] = {}
        pks = [row[1] for row in rows]
        for row in run(
            "SELECT c.message, c.call_id, c.name, t.body FROM tool_calls c LEFT JOIN texts t ON t.id = c.arguments "
            f"WHERE c.message IN ({placeholders(pks)}) ORDER BY c.message, c.position",
            pks,
        ):
            calls.setdefault(row[0], []).append(row[1:])
        for row in run(
            "SELECT r.message, r.call_id, r.outcome, t.body, r.duration, r.flag, r.exit_code "
            "FROM tool_results r LEFT JOIN texts t ON t.id = r.text "
            f"WHERE r.message IN ({placeholders(pks)}) ORDER BY r.message, r.position",
            pks,
        ):
            results.setdefault(row[0], []).append(row[1:])
        return [(row[0], to_message(row[2:], calls.get(row[1], ()), results.get(row[1], ()))) for row in rows]

    def projects(self) -> list[str]:
        with self._db.translate_errors():
            rows = self._db.connection.execute("SELECT DISTINCT project FROM sessions ORDER BY project").fetchall()
        return [row[0] for row in rows]

    def statistics(self) -> list[AgentStatistics]:
        with self._db.translate_errors():
            rows = self._db.connection.execute(
                "SELECT agent, count(*), CAST(sum(messages) AS BIGINT), CAST(sum(calls) AS BIGINT), "
                "CAST(sum(errors) AS BIGINT), CAST(sum(rejections) AS BIGINT) "
                f"FROM (SELECT s.agent, {_COUNTS} FROM sessions s) counted GROUP BY agent ORDER BY agent"
            ).fetchall()
        return [AgentStatistics(*row) for row in rows]

    def search(self, text: str, *, limit: int = 20) -> list[Match]:
        query = _Query(clean(text))
        texts: list[tuple[float, int, str]] = []
        ranked = max(limit, _RANKED) if limit > 0 else 0
        for some in batches(self.index.find(query.stems, limit=_LOOKED_AT if query.phrases else ranked), _RANKED):
            with self._db.translate_errors():
                rows = self._db.connection.execute(
                    f"SELECT id, body FROM texts WHERE id IN ({placeholders(some)}) ORDER BY id DESC", some
                ).fetchall()
            texts += [(score, -number, body) for number, body in rows if (score := query.score(body)) is not None]
            if len(texts) >= ranked:
                break
        best = {-number: (score, body) for score, number, body in sorted(texts)[:limit]}
        found: list[Match] = []
        for some in batches(best):
            with self._db.translate_errors():
                rows = self._db.connection.execute(_USES.format(placeholders(some)), some * 4).fetchall()
            for number, session, message, role, at in rows:
                score, body = best[number]
                found.append(Match(session, message, role, to_time(at), body, score))
        found.sort(key=lambda match: (match.score, -(to_seconds(match.timestamp) or 0)))
        return found[:limit]

    @property
    def index_complete(self) -> bool:
        return self.index.is_complete

    def fill_index(self, progress: Callable[[int, int], None] | None = None) -> None:
        self.index.fill(progress)

    # -- what sync needs

    def positions(self) -> dict[str, Position]:
        with self._db.translate_errors():
            return {row[0]: _position(row) for row in self._db.connection.execute(_POSITIONS)}

    def revision(self, path: str) -> int:
        with self._db.translate_errors():
            row = self._db.connection.execute("SELECT revision FROM positions WHERE path = ?", (path,)).fetchone()
        return row[0] if row else 0

    def save_position(self, position: Position) -> int:
        with self.transaction() as connection:
            row = connection.execute(
                'INSERT INTO positions (path, agent, signature, mark, "offset", line, state, revision) '
                "VALUES (?, ?, ?, ?, ?, ?, ?, 1) ON CONFLICT (path) DO UPDATE SET agent = excluded.agent, "
                'signature = excluded.signature, mark = excluded.mark, "offset" = excluded."offset", '
                "line = excluded.line, state = excluded.state, revision = positions.revision + 1 RETURNING revision",
                (
                    position.path,
                    position.agent,
                    position.signature,
                    position.mark,
                    position.offset,
                    position.line,
                    clean(msgspec.json.encode(position.state).decode()),
                ),
            ).fetchone()
        return int(row[0])

    def map_projects(self, map: Callable[[str, str], str]) -> None:
        with self._db.translate_errors():
            rows = self._db.connection.execute(
                "SELECT DISTINCT project, source FROM sessions WHERE directory = '' AND project <> ''"
            ).fetchall()
        mapped = [(new, old, old, source) for old, source in rows if (new := map(old, source))]
        if mapped:
            with self.transaction() as connection:
                connection.executemany(
                    "UPDATE sessions SET project = ?, directory = ? "
                    "WHERE project = ? AND source = ? AND directory = ''",
                    [tuple(clean(each) for each in row) for row in mapped],
                )

    def deleted(self) -> frozenset[str]:
        with self._db.translate_errors():
            return frozenset(row[0] for row in self._db.connection.execute("SELECT id FROM deleted_sessions"))

    # Last, because from here on `list` is no longer the type.

    def list(self, filter: Filter = Filter()) -> list[SessionSummary]:  # noqa: B008 - Filter is frozen
        condition, values = where(filter)
        with self._db.translate_errors():
            # The sessions are chosen first, so that only those that are shown are counted.
            rows = self._db.connection.execute(
                f"SELECT {_SESSION}, {_COUNTS} FROM (SELECT * FROM sessions s WHERE {condition} "
                "ORDER BY s.started_at DESC NULLS LAST, s.id LIMIT :limit) s "
                "ORDER BY s.started_at DESC NULLS LAST, s.id",
                values,
            ).fetchall()
        return [SessionSummary(to_session(row[:-4]), *row[-4:]) for row in rows]


class SQLiteSessionStore(SQLSessionStore):
    """Sessions in one SQLite file."""

    _db: SQLiteDatabase

    def __init__(self, path: Path | str) -> None:
        database = SQLiteDatabase(Path(path), MIGRATIONS)
        super().__init__(database, SQLiteTextIndex(database))

    @property
    def path(self) -> Path:
        return self._db.path

    @property
    def about(self) -> str:
        return f"SQLite {sqlite3.sqlite_version}"


class PostgresSessionStore(SQLSessionStore):
    """The sessions of one tenant in a PostgreSQL database.

    `tenant` is whom to act for, if the role may; by default it is the role that the URL logs in.
    """

    _db: PostgresDatabase

    def __init__(self, url: str, *, tenant: str = "") -> None:
        from warmstart.storage.postgres import PostgresDatabase  # deferred: psycopg comes with an extra

        database = PostgresDatabase(url, MIGRATIONS, tenant=tenant)
        super().__init__(database, PostgresTextIndex(database))

    @property
    def tenant(self) -> str:
        return self._db.tenant

    @property
    def about(self) -> str:
        return f"PostgreSQL {self._db.version}, tenant {self.tenant}"


@contextmanager
def open_store(settings: Settings) -> Iterator[SQLSessionStore]:
    """The store that the settings name, created and migrated if need be, and closed afterwards."""
    store: SQLSessionStore
    if settings.store_url:
        store = PostgresSessionStore(settings.store_url, tenant=settings.store_tenant)
    else:
        store = SQLiteSessionStore(settings.store_path)
    try:
        yield store
    finally:
        store.close()


class _Query:
    """What a person searches for: every word, and the parts of a word such as `tides.py` side by side."""

    def __init__(self, text: str) -> None:
        words = tokenize(text)
        self.stems = dict(zip(stem_words(words), words, strict=True))
        # Most stems are how their words begin.
        self._counted = [stem if word.startswith(stem) else word for stem, word in self.stems.items()]
        parts = (_WORDS(word.lower()) for word in text.split() if len(tokenize(word)) > 1)
        self.phrases = [re.compile(r"[\W_]+".join(map(re.escape, words))) for words in parts]

    def score(self, body: str) -> float | None:
        """How well a text that holds all stems fits, the lower the better; nothing if it lacks a phrase.

        The more often the words occur and the shorter the text, the better. How rare a word is does not count: every
        text that is compared holds every word.
        """
        body = body.lower()
        if not all(phrase.search(body) for phrase in self.phrases):
            return None
        return -sum(log1p(body.count(each)) for each in self._counted) / log(2 + len(body))


def _position(row: Sequence[Any]) -> Position:
    path, agent, signature, mark, offset, line, state, revision = row
    return Position(
        path=path,
        agent=agent,
        signature=signature,
        mark=mark,
        offset=offset,
        line=line,
        state=json.loads(state),
        revision=revision,
    )
