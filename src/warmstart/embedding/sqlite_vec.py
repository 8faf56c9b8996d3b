"""Vectors beside a SQLite store: a file of its own, searched with sqlite-vec.

Many Pythons are built without loadable extensions, so the file is opened through apsw, which brings its own SQLite. Two
SQLites in one process must not open the same file (closing it in one drops the locks of the other), which is why the
vectors are not in the store. The file can be deleted at any time; `warmstart recall index` makes it again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from warmstart.embedding.embedders import Matrix
from warmstart.embedding.vectors import Keys, Model, Row, VectorStore
from warmstart.errors import ConfigError, StoreBusy, StoreCorrupt, StoreError, StoreFull, StoreReadOnly, StoreTooNew

_VERSION = 2
_STEPS = 2000  # of SQLite's virtual machine between two looks at the clock
_REMEDY = "delete it and run `warmstart recall index --embedder …`"
_OLD_TABLES = {"made", "parts", "blocks"}  # of version 1


class SQLiteVectors(VectorStore):
    """Vectors in a SQLite file."""

    def __init__(self, path: Path) -> None:
        try:
            import apsw
            import sqlite_vec
        except ImportError as missing:
            raise ConfigError(f"semantic search needs {missing.name}: pip install 'warmstart[vectors]'") from missing
        self._apsw = apsw
        self.name = f"the file {str(path)!r}"
        with self._translate_errors():
            with suppress(FileExistsError):
                os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
            self._connection: Any = apsw.Connection(str(path))
            self._run = self._connection.execute
            self._connection.set_busy_timeout(60_000)  # milliseconds
            self._connection.transaction_mode = "IMMEDIATE"
            self._connection.enable_load_extension(True)
            self._connection.load_extension(sqlite_vec.loadable_path())
            self._connection.enable_load_extension(False)
            self._run("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA secure_delete = ON")
            self._create_tables()

    def close(self) -> None:
        self._connection.close()

    def reset(self, model: Model) -> None:
        with self._transaction():
            super().reset(model)
            self._run("DROP TABLE IF EXISTS signs")
            bits = -(-model.dimensions // 8) * 8  # whole bytes
            self._run(f"CREATE VIRTUAL TABLE signs USING vec0 (grp INTEGER, bits BIT[{bits}], chunk_size=1024)")

    def _insert(self, rows: Sequence[Row]) -> None:
        self._connection.executemany(
            "INSERT INTO vectors (key, grp, hash, vector) VALUES (?, ?, ?, ?)",
            ((row.key, row.group, row.hash, row.vector.tobytes()) for row in rows),
        )
        self._connection.executemany(
            "INSERT INTO signs (rowid, grp, bits) VALUES (?, ?, vec_bit(?))",
            ((row.key, row.group, np.packbits(row.vector > 0).tobytes()) for row in rows if row.vector.any()),
        )

    def _delete(self, keys: Sequence[int]) -> None:
        for table, column in (("signs", "rowid"), ("vectors", "key")):
            self._connection.executemany(f"DELETE FROM {table} WHERE {column} = ?", ((key,) for key in keys))

    def nearest(self, vector: Matrix, groups: Keys | None, limit: int, timeout: float | None) -> Keys:
        where = "" if groups is None else "AND grp IN (SELECT value FROM json_each(:groups))"
        values = {} if groups is None else {"groups": str(groups.tolist())}
        found: list[tuple[int]] = []
        with self._translate_errors(), self._time_limit(timeout):
            found += self._run(
                f"SELECT rowid FROM signs WHERE bits MATCH vec_bit(:bits) AND k = :limit {where} ORDER BY distance",
                {**values, "bits": np.packbits(vector > 0).tobytes(), "limit": limit},
            ).fetchall()
        return np.fromiter((row[0] for row in found), np.int64, len(found))

    def write(self, *arguments: Any) -> None:
        super().write(*arguments)
        if arguments[-1]:  # groups were deleted, which the log still holds
            self._rows("PRAGMA wal_checkpoint(TRUNCATE)")

    def check(self) -> str:
        """What SQLite finds wrong with the file; empty if all is well."""
        found = str(self._rows("PRAGMA quick_check(1)")[0][0])
        return "" if found == "ok" else found

    def _create_tables(self) -> None:
        if self._is_current():
            return
        with self._transaction():
            if self._is_current():  # another process was faster
                return
            tables = {row[0] for row in self._run("SELECT name FROM sqlite_schema WHERE type = 'table'")}
            if tables and not tables >= _OLD_TABLES:
                raise StoreError(f"{self.name} holds another program's tables; move it away")
            for table in ("signs", *_OLD_TABLES):
                self._run(f"DROP TABLE IF EXISTS {table}")
            self._run(Path(__file__).with_name("vectors_file.sql").read_text(encoding="utf-8"))

    def _is_current(self) -> bool:
        version = int(self._run("PRAGMA user_version").fetchone()[0])
        if version > _VERSION:
            raise StoreTooNew(f"a newer Warmstart made {self.name}; upgrade Warmstart, or move the file away")
        return version == _VERSION

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._translate_errors(), self._connection:
            yield

    @contextmanager
    def _time_limit(self, seconds: float | None) -> Iterator[None]:
        """Interrupt statements that run longer; they give nothing."""
        if seconds is None:
            yield
            return
        end = time.monotonic() + seconds
        self._connection.set_progress_handler(lambda: time.monotonic() > end, _STEPS)
        try:
            with suppress(self._apsw.InterruptError):
                yield
        finally:
            self._connection.set_progress_handler(None)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        apsw = self._apsw
        try:
            yield
        except OSError as error:
            raise StoreReadOnly(f"cannot write {self.name} ({error.strerror})") from error
        except apsw.Error as error:
            kinds: tuple[tuple[Any, type[StoreError], str], ...] = (
                ((apsw.BusyError, apsw.LockedError), StoreBusy, "another process is writing it; try again later"),
                ((apsw.NotADBError, apsw.CorruptError), StoreCorrupt, f"it is damaged; {_REMEDY}"),
                (apsw.FullError, StoreFull, "the disk is full; nothing was written"),
                ((apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError), StoreReadOnly, "it is read-only"),
            )
            kind, reason = next((some[1:] for some in kinds if isinstance(error, some[0])), (StoreError, str(error)))
            raise kind(f"{self.name} failed: {reason}") from error
