"""One SQLite file as a store: private, in WAL mode, migrated when it is opened, safe for many processes.

A write takes the lock at the start (`BEGIN IMMEDIATE`), so that it never finds out halfway that another is in its way.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

from warmstart.errors import StoreBusy, StoreCorrupt, StoreError, StoreFull, StoreReadOnly
from warmstart.storage.compression import register
from warmstart.storage.database import BUSY_SECONDS, Connection, Database, Migration

APPLICATION_ID = 0x5741524D  # "WARM", in the file's header: marks our stores

_CORRUPT = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_READ_ONLY = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


class SQLiteDatabase(Database):
    """A connection to one store file, for one thread."""

    DIALECT: ClassVar = "sqlite"
    ERRORS: ClassVar = (sqlite3.Error, UnicodeDecodeError)
    connection: sqlite3.Connection

    def __init__(self, path: Path, migrations: Sequence[Migration], *, timeout: float = BUSY_SECONDS) -> None:
        super().__init__()
        self.path = path
        self.name = str(path)
        with self.translate_errors():
            _create_private(path)
            # Only one thread uses it at a time: see `transaction`.
            self.connection = sqlite3.connect(path, timeout=timeout, isolation_level=None, check_same_thread=False)
            try:
                self._configure(timeout)
                with suppress(PermissionError):  # `warmstart doctor` reports a file of another user
                    if stat.S_IMODE(path.stat().st_mode) & 0o077:
                        path.chmod(0o600)
                self.migrate(migrations)
            except BaseException:
                self.connection.close()
                raise

    def _configure(self, timeout: float) -> None:
        register(self.connection)
        run = self.connection.execute
        tables = run("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if tables and run("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            advice = "point WARMSTART_STORE at another file (nothing was changed)"
            raise StoreCorrupt(f"{self.name!r} is a database, but not a Warmstart store; {advice}")
        use_wal(run, timeout)
        run("PRAGMA synchronous = NORMAL")
        run("PRAGMA foreign_keys = ON")
        run("PRAGMA temp_store = MEMORY")
        run("PRAGMA cache_size = -32768")
        # A bulk import writes each index page many times; checkpointing every 4 MB would copy each of them out.
        run("PRAGMA wal_autocheckpoint = 8192")

    def _disconnect(self) -> None:
        self.connection.close()

    def integrity(self) -> list[str]:
        with self.translate_errors():
            found = [row[0] for row in self.connection.execute("PRAGMA integrity_check(20)") if row[0] != "ok"]
            orphans = self.connection.execute("PRAGMA foreign_key_check").fetchmany(20)
        return found + [f"row {row[1]} of {row[0]} refers to a missing row of {row[2]}" for row in orphans]

    def vacuum(self) -> None:
        """Rewrite the file without its free pages, and empty the write-ahead log."""
        with self.translate_errors():
            self.connection.execute("VACUUM")
            busy = self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        if busy:
            advice = "deleted data is still in its write-ahead log; end that process and try again"
            raise StoreBusy(f"another process is reading the store {self.name!r}; {advice}")

    # -- transactions and migrations

    def _begin(self) -> None:
        self.connection.execute("BEGIN IMMEDIATE")

    def _roll_back(self) -> None:
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")

    @contextmanager
    def _migrating(self) -> Iterator[Connection]:
        with self.transaction() as connection:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS migrations ("
                "name TEXT PRIMARY KEY, applied_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP) WITHOUT ROWID"
            )
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            yield connection

    def _has_migrations(self) -> bool:
        query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'migrations'"
        return self.connection.execute(query).fetchone() is not None

    def _run_script(self, script: str) -> None:
        # Not with `executescript`, which ends the transaction.
        statement = ""
        for piece in script.split(";"):
            statement += piece + ";"
            if sqlite3.complete_statement(statement):
                self.connection.execute(statement)
                statement = ""

    def _store_error(self, error: Exception) -> StoreError:
        code = _primary_code(error)
        # The error may quote a damaged schema; our functions fail only if a text is damaged.
        is_damaged = isinstance(error, UnicodeDecodeError) or "user-defined function" in str(error)
        if is_damaged or code in _CORRUPT:
            advice = "move it away and run `warmstart sync` to build a new one (it was not changed)"
            return StoreCorrupt(f"the store {self.name!r} is damaged or is not a store ({error}); {advice}")
        if code in _READ_ONLY:
            return _read_only(self.path)
        if code in _BUSY:
            return StoreBusy(f"another process is using the store {self.name!r}; try again when it is done")
        if code == sqlite3.SQLITE_FULL:
            return StoreFull(f"no space left for the store {self.name!r} ({error}); this write was rolled back")
        return StoreError(f"the store {self.name!r} failed: {error}")


def use_wal(run: Callable[[str], Any], timeout: float = BUSY_SECONDS) -> None:
    """Switch a file to WAL mode; `run` is the `execute` of a connection of sqlite3 or apsw.

    SQLite's busy timeout does not cover this statement: two processes that create the same file would deadlock, so
    SQLite fails one of them at once. That one tries again.
    """
    deadline = time.monotonic() + timeout
    while run("PRAGMA journal_mode").fetchone()[0] != "wal":
        try:
            run("PRAGMA journal_mode = WAL").fetchall()
        except Exception as error:
            if _primary_code(error) not in _BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _create_private(path: Path) -> None:
    """Create the file with mode 0600 before SQLite writes to it; -wal and -shm get the same mode."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError as error:
        raise StoreCorrupt(f"{str(path.parent)!r} is not a folder; point WARMSTART_HOME at one") from error
    except OSError as error:
        raise _read_only(path) from error
    if not path.is_file():
        raise StoreCorrupt(f"{str(path)!r} is not a file; point WARMSTART_STORE at a file")
    if not os.access(path, os.R_OK | os.W_OK):
        raise _read_only(path)


def _primary_code(error: Exception) -> int | None:
    """SQLite's result code without the extension, as sqlite3 or apsw reports it."""
    code = getattr(error, "sqlite_errorcode", getattr(error, "result", None))
    return None if code is None else code & 0xFF


def _read_only(path: Path) -> StoreReadOnly:
    advice = "check the permissions of its folder, or point WARMSTART_HOME at a folder of your own"
    return StoreReadOnly(f"cannot write the store {str(path)!r}; {advice}")
