"""The inverted index on SQLite: two FTS5 tables without texts and positions, which hold our own stems."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from warmstart.recall.documents import GROUPS, Group, Ids
from warmstart.storage.database import Interrupted
from warmstart.storage.sql import batches
from warmstart.storage.sqlite import SQLiteDatabase

_STEPS = 500  # of SQLite's virtual machine between two looks at the clock
_BATCH = 8  # stems in a statement, so that there are few different statements to prepare
_CLEAR = (
    "INSERT INTO said (said) VALUES ('delete-all')",
    "INSERT INTO did (did) VALUES ('delete-all')",
    "DELETE FROM said_terms",
    "DELETE FROM did_terms",
    "DELETE FROM recall_parts",
    "DELETE FROM recall_documents",
    "DELETE FROM recall_deleted",
    "UPDATE recall_state SET generation = generation + 1, cleared = generation + 1, "
    "documents = 0, deleted = 0, counted = 0",
    "INSERT INTO recall_stale (session) SELECT pk FROM sessions WHERE pk NOT IN (SELECT session FROM recall_stale)",
)


class SQLiteTermIndex:
    """Implements `TermIndex`."""

    def __init__(self, database: SQLiteDatabase) -> None:
        self._connection = database.connection

    def postings(self, stems: Mapping[Group, Sequence[str]], limit: int) -> dict[Group, list[Ids]]:
        return {group: self._postings(group, some, limit) for group, some in stems.items()}

    def _postings(self, group: Group, stems: Sequence[str], limit: int) -> list[Ids]:
        import numpy as np  # takes a tenth of a second to load, and only a search needs it

        # One text of all ids is three times as fast as a row for each, and one statement as several.
        one = f"SELECT group_concat(rowid) FROM (SELECT rowid FROM {group} WHERE {group} MATCH ? LIMIT ?)"
        found: list[Ids] = []
        for batch in batches(stems, _BATCH):
            values = [value for stem in batch for value in (f'"{stem}"', limit)]
            for (ids,) in self._connection.execute(" UNION ALL ".join([one] * len(batch)), values):
                found.append(np.fromstring(ids or "", dtype=np.int64, sep=","))
        return found

    def add(self, group: Group, documents: Iterable[tuple[int, str]]) -> None:
        self._connection.executemany(f"INSERT INTO {group} (rowid, stems) VALUES (?, ?)", documents)

    def count_terms(self) -> None:
        run = self._connection.execute
        for group in GROUPS:
            run(f"CREATE VIRTUAL TABLE IF NOT EXISTS temp.{group}_vocabulary USING fts5vocab (main, {group}, row)")
            run(f"DELETE FROM {group}_terms")
            # A stem of one document is as rare as a new one, and half of all stems are.
            run(f"INSERT INTO {group}_terms SELECT term, doc FROM temp.{group}_vocabulary WHERE doc > 1")

    def clear(self) -> None:
        for statement in _CLEAR:
            self._connection.execute(statement)

    @contextmanager
    def time_limit(self, seconds: float | None) -> Iterator[None]:
        if seconds is None:
            yield
            return
        end = time.monotonic() + seconds
        wait = self._connection.execute("PRAGMA busy_timeout").fetchone()[0]
        self._connection.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}")
        self._connection.set_progress_handler(lambda: time.monotonic() > end, _STEPS)
        try:
            yield
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
                raise Interrupted from None
            raise
        finally:
            self._connection.set_progress_handler(None, 0)
            self._connection.execute(f"PRAGMA busy_timeout = {wait}")
