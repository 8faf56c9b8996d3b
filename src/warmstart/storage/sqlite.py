"""One SQLite file as a store: private, in WAL mode, migrated on opening, safe for many processes.

A write happens inside `transaction()`, which takes the write lock at once (`BEGIN IMMEDIATE`), so that two processes
never discover halfway through that they cannot both commit. SQLite's errors leave this module as our own.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from warmstart.errors import StoreBusy, StoreCorrupt, StoreError, StoreFull, StoreReadOnly
from warmstart.storage.database import AnyDatabase, Connection, Migration

APPLICATION_ID = 0x5741524D  # "WARM", in the file's header: tells our stores from other SQLite files
BUSY_SECONDS = 120.0

_CORRUPT = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_READ_ONLY = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


class Database(AnyDatabase):
    """A connection to one store file, for one thread."""

    connection: sqlite3.Connection

    def __init__(self, path: Path, migrations: Sequence[Migration], *, timeout: float = BUSY_SECONDS) -> None:
        super().__init__()
        self.path = path
        self.name = str(path)
        with self.translated():
            _create_private(path)
            # Only one thread uses it at a time: see `transaction`.
            self.connection = sqlite3.connect(path, timeout=timeout, isolation_level=None, check_same_thread=False)
            try:
                self._configure()
                _tighten(path)
                self.migrate(migrations)
            except BaseException:
                self.connection.close()
                raise

    def _disconnect(self) -> None:
        self.connection.close()

    def stream(self, sql: str, parameters: Sequence[object] = ()) -> Iterator[Any]:
        return self.connection.execute(sql, parameters)

    def _begin(self) -> None:
        self.connection.execute("BEGIN IMMEDIATE")

    def _roll_back(self) -> None:
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")

    @contextmanager
    def _own_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise _translation(self.path, error) from error
        except UnicodeDecodeError as error:
            # SQLite quotes a damaged schema in its complaint, and Python fails to decode that.
            raise StoreCorrupt(_corrupt(self.path, "its schema is unreadable")) from error

    def integrity(self) -> list[str]:
        """What `PRAGMA integrity_check` and the foreign keys find wrong; empty when all is well."""
        with self.translated():
            found = [row[0] for row in self.connection.execute("PRAGMA integrity_check(20)") if row[0] != "ok"]
            orphans = self.connection.execute("PRAGMA foreign_key_check").fetchmany(20)
        return found + [f"row {row[1]} of {row[0]} points to a missing row of {row[2]}" for row in orphans]

    def vacuum(self) -> None:
        """Rewrite the file without its free pages, and empty the write-ahead log."""
        with self.translated():
            self.connection.execute("VACUUM")
            busy = self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        if busy:
            raise StoreBusy(
                f"another process reads the store {str(self.path)!r}, so its old pages are still there; "
                "end that process and do this again"
            )

    @contextmanager
    def _migrating(self) -> Iterator[Connection]:
        with self.transaction() as connection:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS migrations ("
                "name TEXT PRIMARY KEY, applied_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP) WITHOUT ROWID"
            )
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            yield connection

    def _is_migrated(self) -> bool:
        found = self.connection.execute(
            "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'migrations'"
        ).fetchone()
        return bool(found[0])

    def _apply(self, migration: Migration) -> None:
        migration.apply(self.connection)

    def _configure(self) -> None:
        run = self.connection.execute
        tables = run("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if tables and run("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            raise StoreCorrupt(
                f"{str(self.path)!r} is a database, but not a Warmstart store; "
                "point WARMSTART_STORE at another file (nothing was changed)"
            )
        if run("PRAGMA journal_mode").fetchone()[0] != "wal":
            run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = NORMAL")
        run("PRAGMA foreign_keys = ON")
        run("PRAGMA temp_store = MEMORY")
        run("PRAGMA cache_size = -32768")
        # A bulk import writes each index page many times; checkpointing every 4 MB would copy each of them out.
        run("PRAGMA wal_autocheckpoint = 8192")


def _create_private(path: Path) -> None:
    """Make a new file readable by its owner alone before SQLite writes to it; -wal and -shm take over its mode."""
    try:
        if not path.parent.is_dir():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        if path.is_dir():
            raise StoreCorrupt(f"{str(path)!r} is a folder, not a store; point WARMSTART_STORE at a file")
        if not path.is_file():
            raise StoreCorrupt(f"{str(path)!r} is no file that could be a store; point WARMSTART_STORE at another one")
        if not os.access(path, os.R_OK | os.W_OK):
            raise StoreReadOnly(_read_only(path))
    except FileExistsError as error:
        raise StoreCorrupt(f"{str(path.parent)!r} is not a folder; point WARMSTART_HOME at one") from error
    except OSError as error:
        raise StoreReadOnly(_read_only(path)) from error


def _tighten(path: Path) -> None:
    """Close a store that others can read. It is known to be ours by now."""
    with suppress(PermissionError):  # the owner is someone else, who decides; `warmstart doctor` reports it
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            path.chmod(0o600)


def _translation(path: Path, error: sqlite3.Error) -> StoreError:
    code = getattr(error, "sqlite_errorcode", None)
    primary = code & 0xFF if code is not None else None
    name = str(path)
    if primary in _CORRUPT:
        return StoreCorrupt(_corrupt(path, error))
    if primary in _READ_ONLY:
        return StoreReadOnly(_read_only(path))
    if primary in _BUSY:
        return StoreBusy(f"the store {name!r} is held by another process; try again when it is done")
    if primary == sqlite3.SQLITE_FULL:
        return StoreFull(f"no room on the disk for the store {name!r} ({error}); nothing of this write was kept")
    if primary == sqlite3.SQLITE_IOERR:
        return StoreError(f"the disk under the store {name!r} failed ({error}); check it (the store was left as it is)")
    return StoreError(f"the store {name!r} failed: {error}")


def _corrupt(path: Path, reason: object) -> str:
    return (
        f"the store {str(path)!r} is damaged or is not a store ({reason}); "
        "move it away and run `warmstart sync` to build a new one (it was left as it is)"
    )


def _read_only(path: Path) -> str:
    return (
        f"cannot write the store {str(path)!r}; check the permissions of its folder, "
        "or point WARMSTART_HOME at a folder of your own"
    )
