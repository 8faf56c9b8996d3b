"""The session store in SQL that SQLite and PostgreSQL share.

What they do not share is named by a store of either kind: how texts are indexed and found, and how traces are removed.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, ClassVar

import msgspec

from warmstart.errors import AmbiguousId, SessionNotFound
from warmstart.sessions.appending import Append, marks, texts_of
from warmstart.sessions.filtering import where
from warmstart.sessions.rejudging import Judge, rejudge_session
from warmstart.sessions.rewriting import exchange_text, rewrite_facts
from warmstart.sessions.rows import SESSION_COLUMNS, encode, to_message, to_session, to_time
from warmstart.sessions.store import AgentStatistics, Appended, Filter, Match, Position, SessionSummary
from warmstart.sessions.values import Message, Session, SessionOutcome, clean
from warmstart.storage.database import AnyDatabase, Connection, Statements

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
_FORGET = """
    DELETE FROM texts WHERE id = ?1
        AND NOT EXISTS (SELECT 1 FROM messages WHERE text = ?1)
        AND NOT EXISTS (SELECT 1 FROM messages WHERE reasoning = ?1)
        AND NOT EXISTS (SELECT 1 FROM tool_calls WHERE arguments = ?1)
        AND NOT EXISTS (SELECT 1 FROM tool_results WHERE text = ?1)
"""


class SQLSessionStore(ABC):
    """Sessions in a database. Implements `SessionStore` and what sync needs; for one thread."""

    # Gives id and rank (the lower the better) of at most ?2 texts that fit the query ?1, best first.
    FOUND: ClassVar[str]

    def __init__(self, database: AnyDatabase) -> None:
        self._db = database
        self._depth = 0
        self._stale: set[int] = set()

    @property
    def name(self) -> str:
        """Where the store is: a path, or a URL without its password."""
        return self._db.name

    @property
    @abstractmethod
    def about(self) -> str:
        """What keeps the store, and for whom."""

    @property
    def database(self) -> AnyDatabase:
        """The database and its connection, for other rooms that keep tables of their own in it."""
        return self._db

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def transaction(self, *, wait: bool = True) -> Iterator[Connection]:
        """One write, whole or not at all. The index is brought up to date once, at the end.

        FTS5 collects in memory and writes out at every savepoint, and SQLite makes one for many a statement: texts that
        were indexed as they come would cost twice as much.
        """
        last: list[Statements] = []
        with self._db.transaction(chain.from_iterable(last), wait=wait) as connection:
            if self._depth:
                yield connection
                return
            self._depth, self._stale = 1, set()
            try:
                newest = connection.execute("SELECT coalesce(max(id), 0) FROM texts").fetchone()
                yield connection
                last += [self._index(newest[0]), [(_FORGET, [(text,) for text in self._stale])]]
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
            # Readers remember titles and unfinished messages; the log will be read anew if it ever grows.
            connection.execute(
                "UPDATE positions SET state = '{}', mark = '', \"offset\" = 0, line = 0, revision = revision + 1 "
                "WHERE path = ?",
                (source,),
            )
            connection.execute("DELETE FROM sessions WHERE pk = ?", (pk,))
            children = connection.execute(
                "SELECT id FROM sessions WHERE parent_id = ? AND parent_kind = 'subagent'", (session_id,)
            ).fetchall()
            for (child,) in children:
                self.delete(child)
        return True

    def rewrite(self, change: Callable[[str], str]) -> int:
        changed = 0
        raise_revisions = "UPDATE sessions SET revision = revision + 1"
        with self._db.translated():
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
            if facts := rewrite_facts(connection, change):
                connection.execute(raise_revisions)
        return changed + facts

    def rejudge(self, judge: Judge, rules: int) -> int:
        changed, session = 0, 0
        while session := self._judged_otherwise(session, rules):
            with self.transaction() as connection:
                found = connection.execute("SELECT agent FROM sessions WHERE pk = ?", (session,)).fetchone()
                if found is None:
                    continue  # another process deleted it
                number = rejudge_session(self._db, session, found[0], judge)
                connection.execute(
                    "UPDATE sessions SET rules = ?, revision = revision + ? WHERE pk = ?",
                    (rules, int(number > 0), session),
                )
                changed += number
        return changed

    def _judged_otherwise(self, after: int, rules: int) -> int:
        with self._db.translated():
            row = self._db.connection.execute(
                "SELECT pk FROM sessions WHERE pk > ? AND rules <> ? ORDER BY pk LIMIT 1", (after, rules)
            ).fetchone()
        return int(row[0]) if row else 0

    @abstractmethod
    def scrub(self) -> None:
        """Leave as little trace of what was deleted as the database allows."""

    # -- reading

    def get(self, session_id: str) -> Session:
        session_id = clean(session_id)
        with self._db.translated():
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
            with self._db.translated():
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
            f"WHERE c.message IN ({marks(pks)}) ORDER BY c.message, c.position",
            pks,
        ):
            calls.setdefault(row[0], []).append(row[1:])
        for row in run(
            "SELECT r.message, r.call_id, r.outcome, t.body, r.duration, r.flag, r.exit_code "
            "FROM tool_results r LEFT JOIN texts t ON t.id = r.text "
            f"WHERE r.message IN ({marks(pks)}) ORDER BY r.message, r.position",
            pks,
        ):
            results.setdefault(row[0], []).append(row[1:])
        return [(row[0], to_message(row[2:], calls.get(row[1], ()), results.get(row[1], ()))) for row in rows]

    def statistics(self) -> list[AgentStatistics]:
        with self._db.translated():
            rows = self._db.connection.execute(
                "SELECT agent, count(*), CAST(sum(messages) AS BIGINT), CAST(sum(calls) AS BIGINT), "
                "CAST(sum(errors) AS BIGINT), CAST(sum(rejections) AS BIGINT) "
                f"FROM (SELECT s.agent, {_COUNTS} FROM sessions s) counted GROUP BY agent ORDER BY agent"
            ).fetchall()
        return [AgentStatistics(*row) for row in rows]

    def search(self, text: str, *, limit: int = 20) -> list[Match]:
        words = clean(text).split()
        with self._db.translated():
            query = self._query(words) if limit > 0 else ""
            if not query:
                return []
            rows = self._db.connection.execute(
                f"""
                WITH found AS ({self.FOUND}),
                     used AS (
                         SELECT m.pk, f.id, f.rank FROM found f JOIN messages m ON m.text = f.id
                         UNION SELECT m.pk, f.id, f.rank FROM found f JOIN messages m ON m.reasoning = f.id
                         UNION SELECT c.message, f.id, f.rank FROM found f JOIN tool_calls c ON c.arguments = f.id
                         UNION SELECT r.message, f.id, f.rank FROM found f JOIN tool_results r ON r.text = f.id)
                SELECT s.id, m.native_id, m.role, m.at, t.body, u.rank
                FROM used u JOIN messages m ON m.pk = u.pk JOIN sessions s ON s.pk = m.session
                JOIN texts t ON t.id = u.id ORDER BY u.rank, m.at DESC LIMIT ?2
                """,
                (query, limit),
            ).fetchall()
        return [Match(row[0], row[1], row[2], to_time(row[3]), row[4], row[5]) for row in rows]

    @abstractmethod
    def _query(self, words: Sequence[str]) -> str:
        """What was asked for in the form that `FOUND` wants it; empty if it has no word at all."""

    @abstractmethod
    def _index(self, newest: int) -> Statements:
        """What puts the texts after `newest` into the index."""

    # -- what sync needs

    def positions(self) -> dict[str, Position]:
        with self._db.translated():
            return {row[0]: _position(row) for row in self._db.connection.execute(_POSITIONS)}

    def revision(self, path: str) -> int:
        with self._db.translated():
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

    def deleted(self) -> frozenset[str]:
        with self._db.translated():
            return frozenset(row[0] for row in self._db.connection.execute("SELECT id FROM deleted_sessions"))

    # Last, because from here on `list` is no longer the type.

    def list(self, filter: Filter = Filter()) -> list[SessionSummary]:  # noqa: B008 - Filter is frozen
        condition, values = where(filter)
        with self._db.translated():
            # The sessions are chosen first, so that only those that are shown are counted.
            rows = self._db.connection.execute(
                f"SELECT {_SESSION}, {_COUNTS} FROM (SELECT * FROM sessions s WHERE {condition} "
                "ORDER BY s.started_at DESC NULLS LAST, s.id LIMIT :limit) s "
                "ORDER BY s.started_at DESC NULLS LAST, s.id",
                values,
            ).fetchall()
        return [SessionSummary(to_session(row[:-4]), *row[-4:]) for row in rows]


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
