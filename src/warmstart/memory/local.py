"""Memory in the SQLite file of the store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from warmstart.config import Settings, ambient_settings
from warmstart.memory.ranking import Index
from warmstart.memory.schema import MIGRATIONS
from warmstart.memory.sql import Redacting, SQLBackend, redactor_of
from warmstart.storage.database import AnyDatabase
from warmstart.storage.sqlite import Database

_END = "\U0010ffff"
_HAVING = "SELECT rowid FROM memory_index WHERE memory_index MATCH ? AND rowid < ? ORDER BY rowid LIMIT ?"
_WAIT = 20  # milliseconds that bringing the index up to date waits for another writer


class LocalBackend(SQLBackend):
    """Memory in a SQLite file, by default in the one of the store. `redact` is what keeps secrets out, or False."""

    backend_name = "local (SQLite)"

    BATCH: ClassVar = 512
    CONTAINS: ClassVar = "{} LIKE :part ESCAPE '\\'"

    def __init__(self, db_path: Path | str | None = None, *, redact: Redacting = True) -> None:
        def opened() -> AnyDatabase:
            return Database(Path(db_path) if db_path is not None else ambient_settings().store_path, MIGRATIONS)

        super().__init__(opened, redact)

    @classmethod
    def configured(cls, settings: Settings) -> LocalBackend:
        """The backend that the user's settings describe."""
        return cls(settings.store_path, redact=redactor_of(settings))

    @property
    def _database(self) -> Database:
        database = self._held.database
        assert isinstance(database, Database)  # noqa: S101 - by `opened` above
        return database

    def _lookup(self, owner: int, newest: int) -> Index:
        return _Words(self._database, owner, newest)

    def _add(self, rows: Iterable[tuple[int, int, Iterable[str]]]) -> None:
        self._database.connection.executemany(
            "INSERT INTO memory_index (rowid, words) VALUES (?, ?)",
            ((-entry, " ".join(f"{owner}·{word}" for word in words)) for entry, owner, words in rows),
        )

    def _remove(self, ids: Sequence[int]) -> None:
        if ids:
            self._database.connection.executemany(
                "DELETE FROM memory_index WHERE rowid = ?", [(-entry,) for entry in ids]
            )

    @contextmanager
    def _thoroughly(self) -> Iterator[None]:
        run = self._database.connection.execute
        run("PRAGMA secure_delete = ON")  # what is removed is overwritten
        try:
            yield
        finally:
            run("PRAGMA secure_delete = OFF")

    @contextmanager
    def _at_once(self) -> Iterator[None]:
        run = self._database.connection.execute
        wait = run("PRAGMA busy_timeout").fetchone()[0]
        run(f"PRAGMA busy_timeout = {_WAIT}")
        try:
            yield
        finally:
            run(f"PRAGMA busy_timeout = {wait}")


class _Words:
    """Implements `Index`. Every word is kept with the number of its user, so that nobody else's are read.

    Ids are kept negative: the newest come first as FTS5 reads, which costs less than to read backwards.
    """

    def __init__(self, database: Database, owner: int, newest: int) -> None:
        self._newest = newest
        self._run = database.connection.execute
        self._mark = f"{owner}·"

    def having(self, words: Sequence[str], limit: int, *, newest: int = 0) -> list[int]:
        wanted = " AND ".join(f'"{self._mark}{word}"' for word in words)
        rows = self._run(_HAVING, (wanted, newest - self._newest if newest else 0, limit))
        return [-row[0] for row in rows]

    def beginning(self, letters: str, limit: int) -> list[str]:
        self._run("CREATE VIRTUAL TABLE IF NOT EXISTS temp.memory_terms USING fts5vocab (main, memory_index, row)")
        start = self._mark + letters
        rows = self._run(
            "SELECT term FROM temp.memory_terms WHERE term >= ? AND term < ? LIMIT ?", (start, start + _END, limit)
        )
        return [row[0][len(self._mark) :] for row in rows]
