"""Memory in SQL, for SQLite and PostgreSQL alike: what differs is how much is put off, and what it takes to forget.

A write is one transaction, and on SQLite close to a bare statement: the index is brought up to date in batches, by
whoever writes or asks next.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar, NamedTuple

from warmstart.errors import StoreError
from warmstart.memory.entries import Given, check_text, check_user, prepared
from warmstart.memory.index import Seen, WordIndex
from warmstart.memory.owners import Owner, numbers
from warmstart.memory.reading import PAST, SQLReading, fits
from warmstart.memory.schema import BITS
from warmstart.storage.database import Connection

# The number of a user's next write, of whom ?1 is the highest number that a write may have. Of one who was forgotten it
# is in somebody else's range, which is refused.
_NEXT = (
    "{greatest}((SELECT max(id) FROM memories WHERE id <= ?1), "
    "coalesce((SELECT max(id) FROM memory_history WHERE id <= ?1), 0)) + 1"
)
# Writes nothing over the same value, nor over one whose time is over. What it writes over, a trigger keeps as history.
# Who waited for the file wrote after those before, whatever his clock said when he came.
_WRITE = (
    "INSERT INTO memories (id, owner, key, scope, place, value, created_at, updated_at, since, expires_at, metadata) "
    f"VALUES ({_NEXT}, ?2, ?3, ?4, ?5, ?6, ?7, ?7, ?7, ?8, ?9) ON CONFLICT (owner, key, scope, place) DO UPDATE SET "
    "past = excluded.id, value = excluded.value, updated_at = {greatest}(excluded.updated_at, memories.updated_at), "
    "since = {greatest}(excluded.since, memories.since), "
    "expires_at = excluded.expires_at, metadata = excluded.metadata WHERE memories.value <> excluded.value "
    "AND (memories.expires_at IS NULL OR memories.expires_at > excluded.updated_at)"
)
_SAY_AGAIN = f"UPDATE memories SET id = {_NEXT}, updated_at = ?2, expires_at = ?3, metadata = ?4 WHERE id = ?5"
_MOVE_START = "UPDATE memories SET id = ? WHERE owner = ? AND key = '' AND scope = -1 AND place = '' AND id < ?"


class _Row(NamedTuple):
    """An entry that is there, as far as it takes to forget it."""

    id: int
    key: str
    scope: int
    place: str
    expires_at: float | None
    past: int


_ROW = "id, key, scope, place, expires_at, past"


class SQLBackend(SQLReading):
    """Memory in the database of a store."""

    BATCH: ClassVar[int]  # entries that are written before they are put into the index
    GREATEST: ClassVar[str]  # the function that gives the greatest of its arguments

    _insert: ClassVar[str]
    _say_again: ClassVar[str]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._insert = _WRITE.format(greatest=cls.GREATEST)
        cls._say_again = _SAY_AGAIN.format(greatest=cls.GREATEST)

    def store(self, user_id: str, key: str, value: str, metadata: Mapping[str, Any] | None = None) -> bool:
        held = self._held
        check_user(user_id)
        given = prepared(key, value, metadata, view=self._view, redactor=held.redactor)
        with held.lock:
            try:
                owner = held.owners.known.get(user_id)
                if owner is None or not self._write_at_once(_written(owner, given)):
                    with held.database.transaction() as connection:
                        self._write(connection, user_id, given)
            except StoreError:
                # Another process may have forgotten the user, whose number is nobody's since.
                with held.database.translate_errors():
                    if not held.owners.changed(held.database.connection, user_id):
                        raise
                with held.database.transaction() as connection:
                    self._write(connection, user_id, given)
            held.fresh += 1
            if held.fresh >= self.BATCH > 1:
                self._bring_up_to_date(user_id)
        return True

    def _write_at_once(self, row: tuple[Any, ...]) -> bool:
        """Write a row in a single statement, where that is possible; says whether it was."""
        return False

    def _write(self, connection: Connection, user_id: str, given: Given) -> None:
        owners = self._held.owners
        owner = owners.known.get(user_id) or owners.number(connection, user_id)
        row = _written(owner, given)
        if not connection.execute(self._insert, row).rowcount:
            self._write_again(connection, owner, row)
        if self.BATCH == 1:
            found = owners.find(connection, user_id)
            while found and self._index(connection, found).catch_up():
                pass

    def _write_again(self, connection: Connection, owner: int, written: tuple[Any, ...]) -> None:
        """Write over an entry of the same value, which is only said again, or over one whose time is over."""
        last, _, key, scope, place, _, now, expires_at, metadata = written
        found = connection.execute(
            f"SELECT {_ROW} FROM memories WHERE owner = ? AND key = ? AND scope = ? AND place = ?",
            (owner, key, scope, place),
        ).fetchone()
        row = _Row(*found)
        if row.expires_at is not None and row.expires_at <= now:
            self._forget(connection, owner, row, row.expires_at)
            connection.execute(self._insert, written)
            return
        self._index(connection, Owner(owner, 0)).remove([row.id])
        connection.execute(self._say_again, (last, now, expires_at, metadata, row.id))

    # -- forgetting

    def delete(self, user_id: str, key: str) -> bool:
        held = self._held
        check_text("a user's id", user_id)
        check_text("a key", key)
        with held.lock:
            with held.database.transaction() as connection:
                owner = held.owners.find(connection, user_id)
                if owner is None:
                    return False
                rows = self._rows(connection, owner.number, key)
                now = time.time()
                for row in rows:
                    self._forget(connection, owner.number, row, now)
            self._sweep()
        return any(row.expires_at is None or row.expires_at > now for row in rows)

    def _rows(self, connection: Connection, owner: int, key: str) -> list[_Row]:
        """What `delete` is to forget: from a view the entry that is seen, otherwise the key in all scopes."""
        for name in self._names(key):
            found = connection.execute(
                f"SELECT {_ROW} FROM memories WHERE owner = ? AND key = ? AND scope >= 0", (owner, name)
            )
            rows = [_Row(*row) for row in found]
            view = self._here
            if view is not None:
                fitting = [row for row in rows if fits(row.scope, row.place, view)]
                rows = [max(fitting, key=lambda row: row.scope)] if fitting else []
            if rows:
                return rows
        return []

    def _forget(self, connection: Connection, owner: int, row: _Row, when: float) -> None:
        """Remove an entry with all that it ever was; that it was there and until when is all that stays."""
        self._held.traces = True
        self._index(connection, Owner(owner, 0)).remove([row.id])
        connection.execute("DELETE FROM memories WHERE id = ?", (row.id,))
        former = [found[0] for found in connection.execute(f"{PAST} SELECT id FROM past", (row.past,)).fetchall()]
        connection.executemany("DELETE FROM memory_history WHERE id = ?", [(each,) for each in former])
        # No number is ever given twice: the index would take the new entry for the old one.
        newest = max(row.id, row.past)
        connection.execute(_MOVE_START, (newest, owner, newest))
        connection.execute(
            "INSERT INTO memory_deletions (owner, key, scope, place, deleted_at) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT DO NOTHING",
            (owner, row.key, row.scope, row.place, when),
        )

    def forget_user(self, user_id: str) -> int:
        """Remove all that there is of a user, in all scopes, and who he was; how many entries there were."""
        held = self._held
        check_text("a user's id", user_id)
        with held.lock:
            with held.database.transaction() as connection:
                owner = held.owners.find(connection, user_id)
                if owner is None:
                    return 0
                held.traces = True
                entries = connection.execute(
                    "SELECT count(*) FROM memories WHERE id BETWEEN ? AND ? AND scope >= 0", numbers(owner.number)
                ).fetchone()[0]
                for table in ("memories", "memory_history", "memory_indexed"):
                    connection.execute(f"DELETE FROM {table} WHERE id BETWEEN ? AND ?", numbers(owner.number))
                for table in ("memory_words", "memory_deletions"):
                    connection.execute(f"DELETE FROM {table} WHERE owner = ?", (owner.number,))
                held.owners.forget(connection, user_id, owner.number)
            self._sweep()
        return int(entries)

    def expire(self) -> None:
        """Remove what has expired. It is not returned before that either; writes do this now and then."""
        with self._held.lock:
            with self._held.database.transaction() as connection:
                self._expire(connection)
            self._sweep()

    def _expire(self, connection: Connection) -> None:
        now = time.time()
        rows = connection.execute(
            f"SELECT owner, {_ROW} FROM memories WHERE expires_at <= ? ORDER BY expires_at LIMIT 500", (now,)
        ).fetchall()
        for owner, *row in rows:
            entry = _Row(*row)
            self._forget(connection, owner, entry, entry.expires_at or now)

    # -- the index

    def _bring_up_to_date(self, user_id: str) -> None:
        with self._held.database.translate_errors():
            owner = self._held.owners.find(self._held.database.connection, user_id)
        if owner is not None:
            self._caught_up(owner)

    def _caught_up(self, owner: Owner) -> Owner:
        database = self._held.database
        try:
            more = True
            while more:
                with self._at_once(), database.transaction() as connection:
                    # Another process may have done it, or have forgotten the user.
                    found = connection.execute(
                        "SELECT number, indexed FROM memory_users WHERE number = ? AND user_id IS NOT NULL",
                        (owner.number,),
                    ).fetchone()
                    if found is None:
                        return owner
                    index = self._index(connection, Owner(*found))
                    more = index.catch_up()
                    self._expire(connection)
                    owner = Owner(owner.number, index.indexed)
        except StoreError:  # others write, or the disk is full: what is behind is read beside the index
            return owner
        self._held.fresh = 0
        self._sweep()
        return owner

    # -- what differs

    def _index(self, connection: Connection, owner: Owner, seen: Seen | None = None) -> WordIndex:
        return WordIndex(connection, owner, seen)

    def _sweep(self) -> None:
        """Remove what older copies there may be of what was forgotten."""
        self._held.traces = False

    def _at_once(self) -> AbstractContextManager[object]:
        """In which a write does not wait for others."""
        return nullcontext()


def _written(owner: int, given: Given) -> tuple[Any, ...]:
    """What `_WRITE` takes."""
    key, scope, place, value, expires_at, metadata = given
    return (owner + 1 << BITS) - 1, owner, key, scope, place, value, time.time(), expires_at, metadata
