"""Memory in the SQLite file of the store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ClassVar

from warmstart.config import Settings, ambient_settings
from warmstart.errors import StoreError
from warmstart.memory.entries import Prepared
from warmstart.memory.search import WordIndex
from warmstart.memory.sql import MIGRATIONS, Redacting, SQLBackend, _values
from warmstart.storage.database import Connection, Database, Migration, batches
from warmstart.storage.sqlite import SQLiteDatabase

_WAIT = 20  # milliseconds that an index update or a checkpoint waits for other processes


class _FTS5(WordIndex):
    """A full-text index, and a table of stems, which FTS5 needs to remove an entry."""

    def add(self, connection: Connection, rows: Sequence[tuple[int, str]]) -> None:
        connection.executemany("INSERT INTO memory_index (id, stems) VALUES (?, ?)", rows)
        connection.executemany("INSERT INTO memory_text (rowid, stems) VALUES (?, ?)", rows)

    def remove(self, connection: Connection, ids: Sequence[int]) -> None:
        for some in batches(ids):
            where = f"WHERE id IN ({', '.join(map(str, some))})"
            connection.execute(
                "INSERT INTO memory_text (memory_text, rowid, stems) "
                f"SELECT 'delete', id, stems FROM memory_index {where}"
            )
            connection.execute(f"DELETE FROM memory_index {where}")

    def find(self, connection: Connection, every: Sequence[str], some: Sequence[str], limit: int) -> list[int]:
        query = " AND ".join(f'"{stem}"' for stem in every)
        if some:
            query += " AND (" + " OR ".join(f'"{stem}"' for stem in some) + ")"
        rows = connection.execute(
            "SELECT rowid FROM memory_text WHERE memory_text MATCH ? ORDER BY rowid DESC LIMIT ?", (query, limit)
        )
        return [row[0] for row in rows]

    def compact(self, database: Database) -> None:
        with database.transaction() as connection:
            connection.execute("INSERT INTO memory_text (memory_text) VALUES ('optimize')")


class LocalBackend(SQLBackend):
    """Memory in a SQLite file, by default that of the store.

    Deleted text is overwritten in the tables at once. Its words stay in segments of the index until `vacuum`, which
    `forget_user` also calls.
    """

    backend_name = "local (SQLite)"

    GREATEST: ClassVar = "max"
    CONTAINS: ClassVar = "instr(memory_folded({}), memory_folded(:part)) > 0"  # SQLite folds the case of ASCII only
    MIGRATIONS: ClassVar[tuple[Migration, ...]] = MIGRATIONS
    _words: ClassVar = _FTS5()

    def __init__(
        self, db_path: Path | str | None = None, *, redact: Redacting = None, settings: Settings | None = None
    ) -> None:
        super().__init__(redact, settings)
        self.path = Path(db_path or (settings or ambient_settings()).store_path)

    def _open_database(self) -> Database:
        database = SQLiteDatabase(self.path, self.MIGRATIONS)
        database.connection.execute("PRAGMA secure_delete = ON")
        database.connection.create_function("memory_folded", 1, str.casefold, deterministic=True)
        return database

    def _store(self, user_id: str, prepared: Prepared) -> None:
        database = self._opened.database
        if not database.is_writing:
            try:  # a single statement is a transaction
                if database.connection.execute(self._write, _values(user_id, prepared)).rowcount:
                    return
            except Exception:
                with database.translate_errors():
                    raise
        super()._store(user_id, prepared)

    def _sweep(self) -> None:
        if not self._opened.has_traces:
            return
        with suppress(StoreError), self._opened.database.translate_errors(), self.quickly():
            busy = self._opened.database.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            self._opened.has_traces = bool(busy)

    @contextmanager
    def quickly(self) -> Iterator[None]:
        run = self._opened.database.connection.execute
        wait = run("PRAGMA busy_timeout").fetchone()[0]
        run(f"PRAGMA busy_timeout = {_WAIT}")
        try:
            yield
        finally:
            run(f"PRAGMA busy_timeout = {wait}")
