"""The index of turns: which turn has which stem, made by the database and kept in sync with the sessions.

Triggers record which sessions changed, and keep the index, the number of turns that have each stem and the totals in
step with `recall_turns`. An update reads a few changed sessions at a time under the write lock, so that several
processes share the work; turns whose texts did not change are not touched. Deleting a session deletes its turns from
the index in the same transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from warmstart.embedding.files import MIGRATIONS as VECTOR_MIGRATIONS
from warmstart.errors import StoreError
from warmstart.recall.ranking import FIELDS
from warmstart.recall.turns import Section, read_terms, split
from warmstart.sessions.indexed_store import IndexedStore
from warmstart.sessions.lookup import SessionLookup
from warmstart.sessions.skip import CONTENT_ERRORS, log_skip
from warmstart.storage.database import Connection, batches, migrations_of, next_ids

MIGRATIONS = migrations_of("recall", __file__)

Progress = Callable[[int, int], None]

_BATCH_SESSIONS, _BATCH_TURNS = 50, 1000  # per write
_BATCH_ROWS = 40  # per statement
_TURN_COLUMNS = ("id", "session", "number", "first_seq", "last_seq", "hash", *FIELDS, "terms", "counts")
_INSERT_TURNS = f"INSERT INTO recall_turns ({', '.join(_TURN_COLUMNS)}) VALUES "
_ONE_TURN = f"({', '.join('?' * len(_TURN_COLUMNS))})"
_SUMS = ", ".join(f"coalesce(sum({field}), 0)" for field in FIELDS)
_COUNT_TURNS = (
    f"UPDATE recall_sessions SET (turns, {', '.join(FIELDS)}) = "
    f"(SELECT count(*), {_SUMS} FROM recall_turns WHERE session = ?1) WHERE session = ?1"
)
_ADD_SESSION = (
    f"INSERT INTO recall_sessions (session, turns, {', '.join(FIELDS)}) VALUES (?, 0, 0, 0, 0, 0) "
    "ON CONFLICT (session) DO NOTHING"
)
_MERGE = "INSERT INTO recall_index (recall_index, rank) VALUES ('merge', 10000)"  # pages at most
_MARK_ALL = (
    "INSERT INTO recall_stale (session) SELECT pk FROM sessions WHERE pk NOT IN (SELECT session FROM recall_stale)"
)


class Index:
    """The index of the sessions in one store."""

    def __init__(self, store: IndexedStore) -> None:
        self._db = store.database
        self._db.migrate((*VECTOR_MIGRATIONS, *MIGRATIONS))
        self._lookup = SessionLookup(self._db.connection)

    def pending(self) -> int:
        """The number of sessions that changed since they were indexed."""
        with self._db.translate_errors():
            return int(self._db.connection.execute("SELECT count(*) FROM recall_stale").fetchone()[0])

    def update(self, progress: Progress | None = None) -> int:
        """Index new and changed sessions. Returns how many there were. Safe for many processes at once."""
        total = count = self.pending()
        done = 0
        while count:
            with self._db.transaction() as connection:
                count = self._index_batch(connection)
            done += count
            if progress is not None:
                progress(done, max(done, total))
        if done and self._db.DIALECT == "sqlite":
            # A search looks every term up in each segment of the index. Another process may be writing.
            with suppress(StoreError), self._db.translate_errors():
                self._db.connection.execute(_MERGE)
        return done

    def rebuild(self, progress: Progress | None = None) -> int:
        """Rebuild the index from the sessions. Returns how many there are."""
        with self._db.transaction() as connection:
            connection.execute("DELETE FROM recall_sessions")
            connection.execute(_MARK_ALL)
        return self.update(progress)

    def _index_batch(self, connection: Connection) -> int:
        """Index some of the changed sessions. Returns how many."""
        sessions = connection.execute(
            "SELECT session FROM recall_stale ORDER BY session LIMIT ?", (_BATCH_SESSIONS,)
        ).fetchall()
        done = turns = 0
        for (session,) in sessions:
            try:
                turns += self._index_session(connection, session)
            except CONTENT_ERRORS as error:  # its turns stay as they were
                log_skip(f"number {session}", error)
            connection.execute("DELETE FROM recall_stale WHERE session = ?", (session,))
            done += 1
            if turns > _BATCH_TURNS:
                break
        return done

    def _index_session(self, connection: Connection, session: int) -> int:
        """Replace the turns of a session that changed. Returns how many there were."""
        content = self._lookup.content(session)
        rows = connection.execute("SELECT number, hash, id FROM recall_turns WHERE session = ?", (session,))
        known = {(number, digest): turn for number, digest, turn in rows.fetchall()}
        changed: list[tuple[int, int, Section]] = []
        for number, section in enumerate(split(content.title, content.branch, content.texts)):
            digest = section.hash(content.project)
            if known.pop((number, digest), None) is None:
                changed.append((number, digest, section))
        if not changed and not known:
            return 0
        # Nothing is written before all is read: a session that cannot be read must stay as it was.
        ids = next_ids(connection, "recall_turns", "id")
        new: list[tuple[Any, ...]] = []
        for number, digest, section in changed:
            bodies = self._lookup.bodies({text.text for text in section.texts})
            terms = read_terms(section, bodies, content.project)
            place = (next(ids), session, number, section.first_seq, section.last_seq, digest)
            new.append((*place, *terms.lengths, terms.stems, terms.counts))
        connection.execute(_ADD_SESSION, (session,))
        connection.executemany("DELETE FROM recall_turns WHERE id = ?", [(turn,) for turn in known.values()])
        for batch in batches(new, _BATCH_ROWS):
            values = [value for row in batch for value in row]
            connection.execute(_INSERT_TURNS + ", ".join([_ONE_TURN] * len(batch)), values)
        connection.execute(_COUNT_TURNS, (session,))
        return len(new)
