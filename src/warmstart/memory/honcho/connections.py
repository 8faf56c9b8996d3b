"""The connections to the index: who reads waits for nobody who writes, here or in another process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from warmstart.errors import StoreBusy
from warmstart.memory.honcho.tables import MIGRATIONS
from warmstart.storage.database import BUSY_SECONDS, Connection
from warmstart.storage.sqlite import SQLiteDatabase


class Connections:
    """One to read, one to write, and one that writes only when it can do so at once; for many threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._writer = _Access(path)
        self._reader = _Access(path)
        self._passing = _Access(path, timeout=0.0)

    def close(self) -> None:
        for access in (self._writer, self._reader, self._passing):
            access.close()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        with self._reader.lock, self._reader.database.translate_errors():
            yield self._reader.database.connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        with self._writer.lock, self._writer.database.transaction() as connection:
            yield connection

    def in_passing(self, statement: str, parameters: object = ()) -> bool:
        """Write something that is not worth waiting for; whether a row was changed."""
        try:
            with self._passing.lock, self._passing.database.transaction() as run:
                run.execute(statement, parameters)
                return bool(run.execute("SELECT changes()").fetchone()[0])
        except StoreBusy:
            return False


class _Access:
    """A connection, and the lock of those who use it."""

    def __init__(self, path: Path, *, timeout: float = BUSY_SECONDS) -> None:
        self.lock = threading.RLock()
        self.database = SQLiteDatabase(path, MIGRATIONS, timeout=timeout or BUSY_SECONDS)
        self.database.connection.execute("PRAGMA secure_delete = ON")  # what is deleted is not left on free pages
        if not timeout:
            self.database.connection.execute("PRAGMA busy_timeout = 0")

    def close(self) -> None:
        with self.lock:
            self.database.close()
