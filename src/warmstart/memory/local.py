"""Memory in the SQLite file of the store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from warmstart.config import Settings, ambient_settings
from warmstart.errors import StoreError
from warmstart.memory.held import Redacting, redactor_of
from warmstart.memory.schema import MIGRATIONS
from warmstart.memory.sql import SQLBackend
from warmstart.storage.database import Database
from warmstart.storage.sqlite import SQLiteDatabase

_HOLDS = "instr(memory_folded({}), :part) > 0"
_WAIT = 20  # milliseconds that bringing the index up to date, or emptying the log, waits for others


class LocalBackend(SQLBackend):
    """Memory in a SQLite file, by default in the one of the store. `redact` is what keeps secrets out, or False.

    What is deleted is overwritten in the file, and the write-ahead log, which holds older pages, is emptied. As long
    as another process reads or writes just then, the log keeps them: until the next time that something is forgotten
    or put into the index here, this backend is closed, or the last process closes the store.
    """

    backend_name = "local (SQLite)"

    BATCH: ClassVar = 2048
    GREATEST: ClassVar = "max"
    CONTAINS: ClassVar = "{} LIKE :part ESCAPE '\\'"

    def __init__(self, db_path: Path | str | None = None, *, redact: Redacting = True) -> None:
        def opened() -> Database:
            path = ambient_settings().store_path if db_path is None else Path(db_path)
            database = SQLiteDatabase(path, MIGRATIONS)
            # Also while nothing is deleted: pages that are divided or written over keep no copy of what they had.
            database.connection.execute("PRAGMA secure_delete = ON")
            database.connection.create_function("memory_folded", 1, str.casefold, deterministic=True)
            return database

        super().__init__(opened, redact)

    @classmethod
    def configured(cls, settings: Settings) -> LocalBackend:
        """The backend that the user's settings describe."""
        return cls(settings.store_path, redact=redactor_of(settings))

    def close(self) -> None:
        with self._held.lock:
            try:
                if self._held.is_open:
                    self._sweep()
            finally:
                super().close()

    def _contains(self, text: str) -> tuple[str, str]:
        if text.isascii():
            return super()._contains(text)
        return _HOLDS, text.casefold()  # SQLite knows the capitals of ASCII alone

    def _write_at_once(self, row: tuple[Any, ...]) -> bool:
        database = self._held.database
        if not isinstance(database, SQLiteDatabase) or database.connection.in_transaction:
            return False
        try:  # a statement by itself is a write of its own
            return bool(database.connection.execute(self._insert, row).rowcount)
        except Exception:
            with database.translate_errors():
                raise

    def _sweep(self) -> None:
        if not self._held.traces:
            return
        try:
            with self._held.database.translate_errors(), self._at_once():
                busy = self._held.database.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        except StoreError:  # what is forgotten is forgotten; a full disk keeps its older pages for now
            return
        self._held.traces = bool(busy)

    def files(self) -> tuple[Path, ...]:
        """The files that hold what is remembered, as far as they are there."""
        database = self._held.database
        path = database.path if isinstance(database, SQLiteDatabase) else Path(database.name)
        return tuple(file for end in ("", "-wal") if (file := Path(f"{path}{end}")).exists())

    @contextmanager
    def _at_once(self) -> Iterator[None]:
        run = self._held.database.connection.execute
        wait = run("PRAGMA busy_timeout").fetchone()[0]
        run(f"PRAGMA busy_timeout = {_WAIT}")
        try:
            yield
        finally:
            run(f"PRAGMA busy_timeout = {wait}")
