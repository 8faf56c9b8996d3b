"""The inverted index: for each stem the documents that have it, on SQLite and on PostgreSQL."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from math import isinf
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from warmstart.storage.database import Database, Interrupted
from warmstart.storage.sql import batches
from warmstart.storage.sqlite import SQLiteDatabase

if TYPE_CHECKING:  # numpy takes a tenth of a second to load, and only a search needs it; psycopg is an extra
    import numpy as np
    from numpy.typing import NDArray

    from warmstart.storage.postgres import PostgresDatabase

Group = Literal["said", "did"]
GROUPS: tuple[Group, Group] = ("said", "did")
Ids: TypeAlias = "NDArray[np.int64]"

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


class TermIndex(Protocol):
    """The inverted index of one kind of database. Its writes belong inside a transaction."""

    def postings(self, stems: Mapping[Group, Sequence[str]], limit: int) -> dict[Group, list[Ids]]:
        """For each stem the first `limit` ids of the documents that have it, in order."""
        ...

    def add(self, documents: Mapping[Group, Sequence[tuple[int, str]]]) -> None:
        """Add documents: their ids, and their stems joined by spaces."""
        ...

    def count_terms(self) -> None:
        """Count again how many documents have each stem."""
        ...

    def clear(self) -> None:
        """Remove everything, and mark every session as changed."""
        ...

    def time_limit(self, deadline: float) -> AbstractContextManager[None]:
        """Interrupt statements that run past a time of `time.monotonic`, with `Interrupted`."""
        ...


def open_term_index(database: Database) -> TermIndex:
    """The inverted index of a database."""
    return SQLiteTermIndex(database) if isinstance(database, SQLiteDatabase) else PostgresTermIndex(database)  # type: ignore[arg-type]


class SQLiteTermIndex:
    """Two FTS5 tables without texts and positions, which hold our own stems."""

    def __init__(self, database: SQLiteDatabase) -> None:
        self._connection = database.connection

    def postings(self, stems: Mapping[Group, Sequence[str]], limit: int) -> dict[Group, list[Ids]]:
        import numpy as np

        found: dict[Group, list[Ids]] = {group: [] for group in stems}
        for group, some in stems.items():
            # One text of all ids is three times as fast as a row for each, and one statement as several.
            one = f"SELECT group_concat(rowid) FROM (SELECT rowid FROM {group} WHERE {group} MATCH ? LIMIT ?)"
            for batch in batches(some, _BATCH):
                values = [value for stem in batch for value in (f'"{stem}"', limit)]
                for (ids,) in self._connection.execute(" UNION ALL ".join([one] * len(batch)), values):
                    found[group].append(np.fromstring(ids or "", dtype=np.int64, sep=","))
        return found

    def add(self, documents: Mapping[Group, Sequence[tuple[int, str]]]) -> None:
        for group, rows in documents.items():
            self._connection.executemany(f"INSERT INTO {group} (rowid, stems) VALUES (?, ?)", rows)

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
    def time_limit(self, deadline: float) -> Iterator[None]:
        if isinf(deadline):
            yield
            return
        wait = self._connection.execute("PRAGMA busy_timeout").fetchone()[0]
        left = max(0, int((deadline - time.monotonic()) * 1000))
        self._connection.execute(f"PRAGMA busy_timeout = {left}")
        self._connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
        try:
            yield
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
                raise Interrupted from None
            raise
        finally:
            self._connection.set_progress_handler(None, 0)
            self._connection.execute(f"PRAGMA busy_timeout = {wait}")


class PostgresTermIndex:
    """Two tables with a GIN index over arrays of our own stems. Their functions are in SQL."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._connection = database.connection

    def postings(self, stems: Mapping[Group, Sequence[str]], limit: int) -> dict[Group, list[Ids]]:
        import numpy as np

        # The function numbers its rows with NULL; WITH ORDINALITY counts them.
        one = (
            "SELECT '{0}', number, ids FROM warmstart_recall_postings('{0}', CAST(? AS TEXT[]), ?) "
            "WITH ORDINALITY AS found (place, ids, number)"
        )
        rows = self._connection.execute(
            " UNION ALL ".join(one.format(group) for group in stems) + " ORDER BY 1, 2",
            [value for some in stems.values() for value in (list(some), limit)],
            binary=True,
        )
        found: dict[Group, list[Ids]] = {group: [] for group in stems}
        for group, _, ids in rows:
            found[group].append(np.array(ids, np.int64))
        return found

    def add(self, documents: Mapping[Group, Sequence[tuple[int, str]]]) -> None:
        for group, rows in documents.items():
            self._connection.execute(
                "SELECT warmstart_recall_add(?, CAST(? AS BIGINT[]), CAST(? AS TEXT[]))",
                (group, [row[0] for row in rows], [row[1] for row in rows]),
            )

    def count_terms(self) -> None:
        self._connection.execute("SELECT warmstart_recall_count()")

    def clear(self) -> None:
        self._connection.execute("SELECT warmstart_recall_clear()")

    def time_limit(self, deadline: float) -> AbstractContextManager[None]:
        return self._connection.limited(None if isinf(deadline) else max(0.0, deadline - time.monotonic()))
