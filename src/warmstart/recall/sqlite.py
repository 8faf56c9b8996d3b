"""The word index on SQLite: two FTS5 tables and what FTS5 itself says about words."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar

from warmstart.recall.dividing import Divider
from warmstart.recall.engine import GROUPS, Group, Interrupted, Numbers, Word
from warmstart.recall.schema import EMPTY, MIGRATIONS
from warmstart.sessions.appending import chunks, marks
from warmstart.storage.database import Migration
from warmstart.storage.sqlite import Database

_STEPS = 500  # of SQLite's machine between two looks at the clock
_AT_ONCE = 8  # words in a statement, so that there are few different ones to prepare


class SQLiteEngine:
    """Implements `Engine`."""

    MIGRATIONS: ClassVar[Sequence[Migration]] = MIGRATIONS
    TEXTS: ClassVar = "SELECT rowid AS id FROM texts_index WHERE texts_index MATCH :query ORDER BY rowid DESC"
    NEWEST: ClassVar = ""
    HOLDS: ClassVar = "instr(lower(t.body), :holds) > 0"

    def __init__(self, database: Database) -> None:
        self._connection = database.connection
        self._divider = Divider()

    def words(self, text: str) -> list[Word]:
        return self._divider.words(text)

    def frequencies(self, group: Group, stems: Sequence[str]) -> dict[str, int]:
        found: dict[str, int] = {}
        for some in chunks(list(stems)):
            found.update(
                self._connection.execute(f"SELECT term, lines FROM {group}_terms WHERE term IN ({marks(some)})", some)
            )
        return found

    def postings(self, group: Group, words: Sequence[Word], limit: int) -> list[Numbers]:
        import numpy as np  # takes a tenth of a second to load, and only a search needs it

        # One text of all numbers is three times as fast as a row for each, and one statement as several.
        one = f"SELECT group_concat(rowid) FROM (SELECT rowid FROM {group} WHERE {group} MATCH ? LIMIT ?)"
        found: list[Numbers] = []
        for start in range(0, len(words), _AT_ONCE):
            some = words[start : start + _AT_ONCE]
            values = [value for word in some for value in (f'"{word.word}"', limit)]
            for (numbers,) in self._connection.execute(" UNION ALL ".join([one] * len(some)), values):
                found.append(np.fromstring(numbers or "", dtype=np.int64, sep=","))
        return found

    def phrase(self, words: Sequence[Word]) -> str:
        return '"' + " ".join(word.word for word in words) + '"'

    def all_of(self, words: Sequence[Word]) -> str:
        return " AND ".join(f'"{word.word}"' for word in words)

    def any_of(self, words: Sequence[Word]) -> str:
        return " OR ".join(f'"{word.word}"' for word in words)

    def add(self, group: Group, lines: Iterable[tuple[int, str]]) -> None:
        self._connection.executemany(f"INSERT INTO {group} (rowid, body) VALUES (?, ?)", lines)

    def count(self) -> None:
        run = self._connection.execute
        for group in GROUPS:
            run(f"CREATE VIRTUAL TABLE IF NOT EXISTS temp.{group}_vocabulary USING fts5vocab (main, {group}, row)")
            run(f"DELETE FROM {group}_terms")
            # A word that stands in one line is as rare as a new one, and half of all words are.
            run(f"INSERT INTO {group}_terms (term, lines) SELECT term, doc FROM temp.{group}_vocabulary WHERE doc > 1")

    def purge(self) -> bool:
        return False  # FTS5 would need their texts

    def empty(self) -> None:
        for statement in EMPTY:
            self._connection.execute(statement)

    @contextmanager
    def limited(self, seconds: float | None) -> Iterator[None]:
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
