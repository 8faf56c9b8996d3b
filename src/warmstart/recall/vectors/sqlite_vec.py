"""Vectors beside a SQLite store: a file of its own, searched with sqlite-vec.

Many Pythons are built without loading of extensions, so the file is opened through apsw, which brings a SQLite of its
own. Two SQLites in one process must not open the same file: closing it in one would drop the locks of the other. And so
the vectors are not in the store. The file can be deleted at any time; `warmstart recall index` makes it anew.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from warmstart.errors import ConfigError, StoreBusy, StoreCorrupt, StoreError, StoreFull, StoreReadOnly
from warmstart.recall.engine import Numbers
from warmstart.recall.vectors.embedder import Matrix
from warmstart.recall.vectors.index import FEW, Block, Made, groups, nearest_of, other_embedder, signs

_VERSION = 1
_BUSY = 60_000  # milliseconds
_STEPS = 2000  # of SQLite's machine between two looks at the clock
_TABLES = f"""
    CREATE TABLE made (asked TEXT NOT NULL, name TEXT NOT NULL, dimensions INTEGER NOT NULL);
    CREATE TABLE parts (part INTEGER PRIMARY KEY, stamp INTEGER NOT NULL);
    CREATE TABLE blocks (
        part INTEGER NOT NULL, number INTEGER NOT NULL, signs BLOB NOT NULL, hashes BLOB NOT NULL,
        vectors BLOB NOT NULL,
        PRIMARY KEY (part, number)
    );
    PRAGMA user_version = {_VERSION};
"""


class SQLiteVectors:
    """Implements `VectorIndex`."""

    def __init__(self, path: Path) -> None:
        try:
            import apsw
            import sqlite_vec
        except ImportError as missing:
            raise ConfigError(f"search by meaning needs {missing.name}: pip install 'warmstart[vectors]'") from missing
        self._apsw = apsw
        self._path = path
        with self._translated():
            with suppress(FileExistsError):
                os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
            self._connection: Any = apsw.Connection(str(path))
            self._run: Any = self._connection.execute
            self._connection.set_busy_timeout(_BUSY)
            self._connection.enable_load_extension(True)
            self._connection.load_extension(sqlite_vec.loadable_path())
            self._connection.enable_load_extension(False)
            self._run("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA secure_delete = ON")
            self._prepare()

    def close(self) -> None:
        self._connection.close()

    def made(self) -> Made | None:
        with self._translated():
            row = self._run("SELECT asked, name, dimensions FROM made").fetchone()
        return Made(*row) if row else None

    def begin(self, made: Made) -> None:
        with self._writing():
            for table in ("made", "parts", "blocks"):
                self._run(f"DELETE FROM {table}")
            self._run("DROP TABLE IF EXISTS signs")
            bits = f"bits BIT[{_bits(made.dimensions)}]"
            self._run(f"CREATE VIRTUAL TABLE signs USING vec0 (part INTEGER, {bits}, chunk_size=1024)")
            self._run("INSERT INTO made VALUES (?, ?, ?)", made)

    def stamps(self) -> dict[int, int]:
        with self._translated():
            return dict(self._run("SELECT part, stamp FROM parts"))

    def parts(self) -> set[int]:
        with self._translated():
            return {row[0] for row in self._run("SELECT part FROM parts UNION SELECT part FROM blocks")}

    def hashes(self, parts: Sequence[int]) -> Iterator[tuple[int, int, Numbers]]:
        with self._translated():
            for part in parts:
                for number, hashes in self._run("SELECT number, hashes FROM blocks WHERE part = ?", (part,)):
                    yield part, number, np.frombuffer(hashes, np.int64)

    def blocks(self, wanted: Sequence[tuple[int, int]]) -> list[Block]:
        found: list[Block] = []
        with self._translated():
            for part, group in groupby(wanted, key=lambda each: each[0]):
                numbers = [number for _, number in group]
                marks = ", ".join("?" * len(numbers))
                rows = self._run(
                    f"SELECT number, hashes, vectors FROM blocks WHERE part = ? AND number IN ({marks}) "
                    "ORDER BY number",
                    (part, *numbers),
                )
                for number, hashes, vectors in rows:
                    keys = np.frombuffer(hashes, np.int64)
                    found.append(Block(part, number, keys, np.frombuffer(vectors, np.int8).reshape(len(keys), -1)))
        return found

    def write(self, made: Made, blocks: Sequence[Block], stamps: Mapping[int, int], gone: Sequence[int]) -> None:
        with self._writing():
            if (now := self.made()) != made:
                raise other_embedder(f"the file {str(self._path)!r}", made, now)
            for block in blocks:
                lines, held = groups(block)
                self._run(
                    "INSERT OR REPLACE INTO blocks VALUES (?, ?, ?, ?, ?)",
                    (block.part, block.number, held.tobytes(), block.hashes.tobytes(), block.vectors.tobytes()),
                )
                first = block.part << 16 | block.first
                self._forget(first, first + len(block.hashes))
                self._connection.executemany(
                    "INSERT INTO signs (rowid, part, bits) VALUES (?, ?, vec_bit(?))",
                    (
                        (line, block.part, bits.tobytes())
                        for line, bits in zip(lines.tolist(), held, strict=True)
                        if bits.any()
                    ),
                )
            self._connection.executemany("INSERT OR REPLACE INTO parts VALUES (?, ?)", stamps.items())
            for part in gone:
                self._run("DELETE FROM parts WHERE part = ?", (part,))
                self._run("DELETE FROM blocks WHERE part = ?", (part,))
                self._forget(part << 16, (part + 1) << 16)
        if gone:  # what was deleted is still in the log
            with self._translated():
                self._run("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _forget(self, first: int, last: int) -> None:
        lines = self._run("SELECT rowid FROM signs_rowids WHERE rowid >= ? AND rowid < ?", (first, last)).fetchall()
        self._connection.executemany("DELETE FROM signs WHERE rowid = ?", lines)

    def nearest(self, vector: Matrix, parts: Numbers | None, most: int, seconds: float | None) -> Numbers:
        if parts is not None and len(parts) <= FEW:
            with self._translated():
                marks = ", ".join("?" * len(parts))
                rows = self._run(f"SELECT part, number, signs FROM blocks WHERE part IN ({marks})", parts.tolist())
                return nearest_of(rows, vector, most)
        where = "" if parts is None else "AND part IN (SELECT value FROM json_each(:parts))"
        values = {} if parts is None else {"parts": str(parts.tolist())}
        found: list[tuple[int]] = []
        with self._translated(), self._limited(seconds):
            found += self._run(
                f"SELECT rowid FROM signs WHERE bits MATCH vec_bit(:bits) AND k = :most {where} ORDER BY distance",
                {**values, "bits": signs(vector).tobytes(), "most": most},
            ).fetchall()
        return np.fromiter((row[0] for row in found), np.int64, len(found))

    # -- the file

    def damage(self) -> str:
        """What SQLite finds wrong with the file; nothing where all is well."""
        with self._translated():
            found = str(self._run("PRAGMA quick_check(1)").fetchone()[0])
        return "" if found == "ok" else found

    def _prepare(self) -> None:
        version = self._run("PRAGMA user_version").fetchone()[0]
        if version == _VERSION:
            return
        with self._writing():
            version = self._run("PRAGMA user_version").fetchone()[0]
            if version == _VERSION:  # another process was faster
                return
            # Vectors of another version are made anew; anything else is not ours to touch.
            tables = {row[0] for row in self._run("SELECT name FROM sqlite_schema WHERE type = 'table'")}
            if tables and not {"made", "blocks"} <= tables:
                raise StoreError(f"{str(self._path)!r} holds another program's tables; move it away")
            for table in tables:
                self._run(f"DROP TABLE {table}")
            self._run(_TABLES)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._translated():
            self._run("BEGIN IMMEDIATE")
            try:
                yield
                self._run("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._run("ROLLBACK")
                raise

    @contextmanager
    def _limited(self, seconds: float | None) -> Iterator[None]:
        """Let nothing run for longer; what is interrupted gives nothing."""
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
    def _translated(self) -> Iterator[None]:
        apsw, name = self._apsw, str(self._path)
        try:
            yield
        except OSError as error:
            raise StoreReadOnly(f"cannot write the vectors {name!r} ({error.strerror})") from error
        except (apsw.BusyError, apsw.LockedError) as error:
            raise StoreBusy(f"the vectors {name!r} are held by another process; try again when it is done") from error
        except (apsw.NotADBError, apsw.CorruptError) as error:
            raise StoreCorrupt(
                f"the vectors {name!r} are damaged; delete that file and run `warmstart recall index --embedder …`"
            ) from error
        except apsw.FullError as error:
            raise StoreFull(f"no room for the vectors {name!r}; nothing of this write was kept") from error
        except (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError) as error:
            raise StoreReadOnly(f"cannot write the vectors {name!r} ({error}); check the permissions there") from error
        except apsw.Error as error:
            raise StoreError(f"the vectors {name!r} failed: {error}") from error


def _bits(dimensions: int) -> int:
    """As many bits as make whole bytes."""
    return -(-dimensions // 8) * 8
