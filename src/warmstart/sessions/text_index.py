"""The index over all texts of a store: which texts contain which stems.

It has neither positions nor counts, so it is small and quick to write; phrases are verified on the text. A write
indexes the texts it adds and removes those it deletes, in its own transaction.

A store with an earlier schema starts with an empty index. `fill` backfills it from the newest text to the oldest; texts
up to the id `index_state.pending` are not indexed yet.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import ClassVar

from warmstart.sessions.tables import TEXT_USES
from warmstart.storage.database import Database, Statement, batches, placeholders
from warmstart.text.words import distinct_stems

_BATCH_CHARACTERS = 400_000  # characters of stems per statement
_BATCH_TEXTS = 500  # texts per transaction during a backfill

_UNUSED = " AND ".join(f"NOT EXISTS (SELECT 1 FROM {table} WHERE {text} = t.id)" for table, _, text in TEXT_USES)

Progress = Callable[[int, int], None]


class TextIndex(ABC):
    """Finds texts by their stems, in one database."""

    ADD: ClassVar[str]  # its parameter is a JSON object: stems by text id
    REMOVE: ClassVar[str]  # its parameters are a text's id and the stems it was added with

    def __init__(self, database: Database) -> None:
        self._db = database

    @property
    def is_complete(self) -> bool:
        """Whether all texts are in the index."""
        with self._db.translate_errors():
            return not self._pending()

    def find(self, stems: Collection[str], *, every: bool = True, limit: int) -> list[int]:
        """The ids of the texts that contain every (or any) of these stems, newest first."""
        if not stems or limit < 1:
            return []
        with self._db.translate_errors():
            return self._find(list(stems), every, limit)

    def fill(self, progress: Progress | None = None) -> None:
        """Index the texts that are not in the index yet, newest first.

        If it is interrupted, the next call resumes. Several processes may fill the same index.
        """
        if self.is_complete:
            return
        with self._db.translate_errors():
            total = self._db.connection.execute(
                "SELECT count(*) FROM texts WHERE id <= ?", (self._pending(),)
            ).fetchone()[0]
        done = 0
        while True:
            with self._db.transaction() as connection:
                pending = self._pending()  # another process may be filling it too
                if not pending:
                    return
                rows = connection.execute(
                    "SELECT id FROM texts WHERE id <= ? ORDER BY id DESC LIMIT ?", (pending, _BATCH_TEXTS)
                ).fetchall()
                first = rows[-1][0] if rows else 1
                for statement in self.add(first, pending):
                    connection.execute(*statement)
                connection.execute("UPDATE index_state SET pending = ?", (first - 1,))
            done = min(done + len(rows), total)
            if progress:
                progress(done, total)

    def remove(self, stale: Iterable[int], first: int, last: int) -> None:
        """Delete those of the stale texts that are no longer used; `first` to `last` are the indexed ids."""
        connection = self._db.connection
        for some in batches(sorted(stale)):
            unused = connection.execute(
                f"SELECT id, decompress(body) FROM texts t WHERE id IN ({placeholders(some)}) AND {_UNUSED}", some
            ).fetchall()
            if self.REMOVE:
                indexed = [(each, distinct_stems(body)) for each, body in unused if first <= each <= last]
                connection.executemany(self.REMOVE, indexed)
            connection.executemany("DELETE FROM texts WHERE id = ?", [(text[0],) for text in unused])

    def add(
        self, first: int, last: int = 2**62, stems: Mapping[int, str] = MappingProxyType({})
    ) -> Iterator[Statement]:
        """The statements that index the texts with these ids; `stems` has those that are already stemmed."""
        import msgspec  # deferred: a search does not need it

        batch: dict[int, str] = {}
        size = 0
        for (number,) in self._db.connection.execute(
            "SELECT id FROM texts WHERE id >= ? AND id <= ? ORDER BY id", (first, last)
        ):
            if (stemmed := stems.get(number)) is None:
                (body,) = self._db.connection.execute(
                    "SELECT decompress(body) FROM texts WHERE id = ?", (number,)
                ).fetchone()
                stemmed = distinct_stems(body)
            batch[number] = stemmed
            size += len(stemmed)
            if size >= _BATCH_CHARACTERS:
                yield self.ADD, (msgspec.json.encode(batch).decode(),)
                batch, size = {}, 0
        if batch:
            yield self.ADD, (msgspec.json.encode(batch).decode(),)

    def _pending(self) -> int:
        row = self._db.connection.execute("SELECT coalesce(max(pending), 0) FROM index_state").fetchone()
        return int(row[0])

    # -- what the dialects implement

    @abstractmethod
    def optimize(self) -> None:
        """Erase all traces of what was removed. Call it inside a transaction."""

    @abstractmethod
    def _find(self, stems: list[str], every: bool, limit: int) -> list[int]: ...


class SQLiteTextIndex(TextIndex):
    """A contentless FTS5 table."""

    # One statement for a whole batch, so that other threads run while FTS5 works.
    ADD = "INSERT INTO texts_index (rowid, stems) SELECT CAST(key AS INTEGER), value FROM json_each(?)"
    REMOVE = "INSERT INTO texts_index (texts_index, rowid, stems) VALUES ('delete', ?, ?)"

    def optimize(self) -> None:
        self._db.connection.execute("INSERT INTO texts_index (texts_index) VALUES ('optimize')")

    def _find(self, stems: list[str], every: bool, limit: int) -> list[int]:
        query = (" AND " if every else " OR ").join(f'"{stem}"' for stem in stems)
        rows = self._db.connection.execute(
            "SELECT rowid FROM texts_index WHERE texts_index MATCH ? ORDER BY rowid DESC LIMIT ?", (query, limit)
        )
        return [row[0] for row in rows]


class PostgresTextIndex(TextIndex):
    """Arrays of stems with a GIN index, accessed through functions that see only the rows of the caller's tenant."""

    ADD = (
        "SELECT warmstart_index(array_agg(CAST(key AS BIGINT)), array_agg(value)) FROM json_each_text(CAST(? AS JSON))"
    )
    REMOVE = ""  # deleting a text deletes its row in the index

    def optimize(self) -> None:
        pass  # VACUUM does that

    def _find(self, stems: list[str], every: bool, limit: int) -> list[int]:
        rows = self._db.connection.execute(
            "SELECT id FROM warmstart_texts(CAST(? AS TEXT[]), CAST(? AS BOOLEAN), ?)", (stems, every, limit)
        )
        return [row[0] for row in rows]
