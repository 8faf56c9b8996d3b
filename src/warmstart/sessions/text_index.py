"""The index over all texts of a store: which texts hold which stems.

It knows neither places nor counts, so it is small and quick to write; what stands side by side is verified on the
text. It changes with the texts: a write indexes the texts it adds and removes those it deletes, in its own transaction.

A store of an earlier layout starts with an empty index. `fill` indexes its texts from the newest to the oldest; those
up to the id `index_state.pending` are still to come.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import MappingProxyType

import msgspec

from warmstart.storage.database import Database, Statement, Statements
from warmstart.storage.sql import batches, placeholders
from warmstart.text.words import distinct_stems

_BATCH_CHARACTERS = 1_000_000  # stemmed and indexed by one statement
_BATCH_TEXTS = 500  # indexed by one transaction while an empty index is filled

_UNUSED = """
    NOT EXISTS (SELECT 1 FROM messages WHERE text = t.id)
    AND NOT EXISTS (SELECT 1 FROM messages WHERE reasoning = t.id)
    AND NOT EXISTS (SELECT 1 FROM tool_calls WHERE arguments = t.id)
    AND NOT EXISTS (SELECT 1 FROM tool_results WHERE text = t.id)
"""

Progress = Callable[[int, int], None]
Stemmed = list[tuple[int, str]]  # ids of texts, and their stems separated by spaces


class TextIndex(ABC):
    """Finds texts by their stems, in one database."""

    def __init__(self, database: Database) -> None:
        self._db = database

    @property
    def is_complete(self) -> bool:
        """Whether all texts are in the index."""
        with self._db.translate_errors():
            return not self._pending()

    def find(self, stems: Collection[str], *, every: bool = True, limit: int) -> list[int]:
        """The ids of the texts that hold every (or any) of these stems, newest first."""
        if not stems or limit < 1:
            return []
        with self._db.translate_errors():
            return self._find(list(stems), every, limit)

    def fill(self, progress: Progress | None = None) -> None:
        """Index the texts that are not in the index yet, in batches, newest first. The next call resumes."""
        if self.is_complete:
            return
        with self._db.translate_errors():
            total = self._db.connection.execute(
                "SELECT count(*) FROM texts WHERE id <= ?", (self._pending(),)
            ).fetchone()[0]
        done = 0
        while True:
            with self._db.transaction() as connection:
                pending = self._pending()  # another process may fill it as well
                if not pending:
                    return
                rows = connection.execute(
                    "SELECT id FROM texts WHERE id <= ? ORDER BY id DESC LIMIT ?", (pending, _BATCH_TEXTS)
                ).fetchall()
                first = rows[-1][0] if rows else 1
                for batch in self._stemmed(first, pending):
                    connection.execute(*self._add(batch))
                connection.execute("UPDATE index_state SET pending = ?", (first - 1,))
            done = min(done + len(rows), total)
            if progress:
                progress(done, total)

    def end_write(self, newest: int, stale: Iterable[int], stems: Mapping[str, str]) -> Statements:
        """The statements that end a write: delete the stale texts that nothing uses, and index those after `newest`.

        `stems` are those of texts that are stemmed already.
        """
        pending = self._pending()
        for some in batches(sorted(stale)):
            unused = self._db.connection.execute(
                f"SELECT id, body FROM texts t WHERE id IN ({placeholders(some)}) AND {_UNUSED}", some
            ).fetchall()
            if indexed := [(each, distinct_stems(body)) for each, body in unused if pending < each <= newest]:
                yield from self._remove(indexed)
            yield "DELETE FROM texts WHERE id = ?", [(text[0],) for text in unused]
        for batch in self._stemmed(max(newest, pending) + 1, stems=stems):
            yield self._add(batch)

    def _stemmed(
        self, first: int, last: int = 2**62, stems: Mapping[str, str] = MappingProxyType({})
    ) -> Iterator[Stemmed]:
        """The stems of the texts with these ids, in batches of about `_BATCH_CHARACTERS` of text."""
        batch: Stemmed = []
        size = 0
        for number, body in self._db.connection.execute(
            "SELECT id, body FROM texts WHERE id >= ? AND id <= ? ORDER BY id", (first, last)
        ):
            batch.append((number, stems.get(body) or distinct_stems(body)))
            size += len(body)
            if size >= _BATCH_CHARACTERS:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    def _pending(self) -> int:
        row = self._db.connection.execute("SELECT coalesce(max(pending), 0) FROM index_state").fetchone()
        return int(row[0])

    # -- what differs

    @abstractmethod
    def optimize(self) -> None:
        """Leave no trace of what was removed. Call it inside a transaction."""

    @abstractmethod
    def _find(self, stems: list[str], every: bool, limit: int) -> list[int]: ...

    @abstractmethod
    def _add(self, texts: Stemmed) -> Statement: ...

    @abstractmethod
    def _remove(self, texts: Stemmed) -> Statements: ...


class SQLiteTextIndex(TextIndex):
    """An FTS5 table without content."""

    def optimize(self) -> None:
        self._db.connection.execute("INSERT INTO texts_index (texts_index) VALUES ('optimize')")

    def _find(self, stems: list[str], every: bool, limit: int) -> list[int]:
        query = (" AND " if every else " OR ").join(f'"{stem}"' for stem in stems)
        rows = self._db.connection.execute(
            "SELECT rowid FROM texts_index WHERE texts_index MATCH ? ORDER BY rowid DESC LIMIT ?", (query, limit)
        )
        return [row[0] for row in rows]

    def _add(self, texts: Stemmed) -> Statement:
        # One statement for all of them, so that other threads run while FTS5 works.
        return (
            "INSERT INTO texts_index (rowid, stems) SELECT CAST(key AS INTEGER), value FROM json_each(?)",
            (msgspec.json.encode(dict(texts)).decode(),),
        )

    def _remove(self, texts: Stemmed) -> Statements:
        # FTS5 must be given the same stems again.
        yield "INSERT INTO texts_index (texts_index, rowid, stems) VALUES ('delete', ?, ?)", list(texts)


class PostgresTextIndex(TextIndex):
    """Arrays of stems under a GIN index, reached through functions that see the rows of the caller's tenant alone."""

    def optimize(self) -> None:
        pass  # the server's VACUUM does that

    def _find(self, stems: list[str], every: bool, limit: int) -> list[int]:
        rows = self._db.connection.execute(
            "SELECT id FROM warmstart_texts(CAST(? AS TEXT[]), CAST(? AS BOOLEAN), ?)", (stems, every, limit)
        )
        return [row[0] for row in rows]

    def _add(self, texts: Stemmed) -> Statement:
        ids, stems = [text[0] for text in texts], [text[1] for text in texts]
        return "SELECT warmstart_index(CAST(? AS BIGINT[]), CAST(? AS TEXT[]))", (ids, stems)

    def _remove(self, texts: Stemmed) -> Statements:
        return ()  # a row of the index goes with its text
