"""Vector stores, next to a SQLite store or in a PostgreSQL one, and how they are kept up to date.

A row has a key (the caller's number for the text), a group (texts that change together) and the hash of its text. The
vector is quantized to eight bits per dimension; its signs, one bit each, make a search fast. A group has a stamp, which
is written with its last row: an interrupted update resumes where it stopped, and a text whose hash is known is not
embedded again, whatever its key.
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from warmstart.embedding.embedders import Embedder, Matrix
from warmstart.errors import ConfigError, StoreBusy, StoreCorrupt, StoreError, StoreFull, StoreReadOnly, StoreTooNew
from warmstart.storage.database import Database, batches, placeholders
from warmstart.storage.sqlite import use_wal

Keys: TypeAlias = NDArray[np.int64]
Quantized: TypeAlias = NDArray[np.int8]
Progress = Callable[[int, int], None]

_BATCH = 1024  # texts embedded and written at a time
_FILE_VERSION = 2
_OLD_TABLES = {"made", "parts", "blocks"}  # of version 1
_STEPS = 2000  # instructions of SQLite's virtual machine between two checks of the clock
_REMEDY = "delete it and run `warmstart recall index --embedder …`"


class Model(NamedTuple):
    """The model of the vectors: the embedder as the user named it, its own name, and its dimensions."""

    requested: str
    name: str
    dimensions: int


class Row(NamedTuple):
    key: int
    group: int
    hash: int
    vector: Quantized


class VectorStore(ABC):
    """Vectors of one model, in SQL that SQLite and PostgreSQL share."""

    name: str
    _run: Callable[..., Any]

    def model(self) -> Model | None:
        """The model of the vectors; `None` if there are none."""
        rows = self._rows("SELECT requested, name, dimensions FROM vector_models")
        return Model(*rows[0]) if rows else None

    def reset(self, model: Model) -> None:
        """Delete all vectors, and accept only those of this model from now on."""
        with self._transaction():
            for table in ("vector_models", "vector_stamps", "vectors"):
                self._run(f"DELETE FROM {table}")
            self._run("INSERT INTO vector_models (requested, name, dimensions) VALUES (?, ?, ?)", model)

    def stamps(self) -> dict[int, int]:
        """The stamp of every complete group."""
        return dict(self._rows("SELECT grp, stamp FROM vector_stamps"))

    def groups(self) -> set[int]:
        """Every group, complete or not."""
        return {group for group, _ in self._rows("SELECT DISTINCT grp, 0 FROM vectors")} | self.stamps().keys()

    def hashes(self, group: int) -> dict[int, int]:
        """The hash of every key in a group."""
        return dict(self._rows("SELECT key, hash FROM vectors WHERE grp = ?", (group,)))

    def by_hash(self, hashes: Iterable[int]) -> dict[int, Quantized]:
        """The vectors that are stored for these hashes."""
        return {digest: np.frombuffer(vector, np.int8) for digest, vector in self._where("hash", hashes)}

    def cosines(self, keys: Sequence[int], vector: Matrix) -> dict[int, float]:
        """The cosine between a vector of length one and each of these keys that has one."""
        rows = dict(self._where("key", keys))
        found = np.frombuffer(b"".join(rows.values()), np.int8).astype(np.float32)
        if len(found) != len(rows) * len(vector):
            return {}
        vectors = found.reshape(len(rows), len(vector))
        values = (vectors @ vector) / np.maximum(np.linalg.norm(vectors, axis=1), 1e-9)
        return dict(zip(rows, values.tolist(), strict=True))

    def write(
        self, model: Model, rows: Sequence[Row], stamps: Mapping[int, int], keys: Sequence[int], groups: Iterable[int]
    ) -> None:
        """Insert or replace rows, stamp complete groups, and delete `keys` and whole `groups`, atomically.

        Raises `StoreError` if the stored vectors now belong to another model.
        """
        with self._transaction():
            if (found := self.model()) != model:
                now = "no vectors" if found is None else f"vectors of {found.name}"
                raise StoreError(f"{self.name} now has {now} instead of {model.name}; run `warmstart recall index`")
            deleted = [key for group in groups for key in self.hashes(group)]
            self._delete([*deleted, *keys, *(row.key for row in rows)])
            self._insert(rows)
            for group in {*groups, *stamps}:
                self._run("DELETE FROM vector_stamps WHERE grp = ?", (group,))
            for group, stamp in stamps.items():
                self._run("INSERT INTO vector_stamps (grp, stamp) VALUES (?, ?)", (group, stamp))

    def _where(self, column: str, values: Iterable[int]) -> list[tuple[int, bytes]]:
        sql = f"SELECT {column}, vector FROM vectors WHERE {column} IN "
        return [row for batch in batches(values) for row in self._rows(f"{sql}({placeholders(batch)})", batch)]

    def _rows(self, statement: str, parameters: Any = ()) -> list[Any]:
        with self._translate_errors():
            return list(self._run(statement, parameters))

    @abstractmethod
    def nearest(self, vector: Matrix, groups: Keys | None, limit: int, timeout: float | None) -> Keys:
        """The keys of the nearest vectors, nearest first; none if time runs out. Most stores compare only the signs."""

    @abstractmethod
    def close(self) -> None: ...
    @abstractmethod
    def _insert(self, rows: Sequence[Row]) -> None: ...
    @abstractmethod
    def _delete(self, keys: Sequence[int]) -> None: ...
    @abstractmethod
    def _transaction(self) -> AbstractContextManager[object]: ...
    @abstractmethod
    def _translate_errors(self) -> AbstractContextManager[None]: ...


def quantize(vectors: Matrix) -> Quantized:
    """Vectors as integers from -127 to 127; only their directions are kept."""
    largest = np.maximum(np.abs(vectors).max(axis=1, keepdims=True, initial=0.0), 1e-12)
    return np.asarray(np.rint(vectors * (127 / largest)), np.int8)


class SQLiteVectors(VectorStore):
    """Vectors in a separate SQLite file, searched with sqlite-vec.

    Many Python builds cannot load extensions, so the file is opened through apsw, which bundles its own SQLite. Two
    SQLite libraries in one process must not open the same file (closing it in one drops the locks of the other), so the
    vectors are not in the store. The file can be deleted at any time; `warmstart recall index` recreates it.
    """

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
            use_wal(self._run)
            self._run("PRAGMA synchronous = NORMAL; PRAGMA secure_delete = ON")
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
        if groups is None:
            sql = "SELECT rowid FROM signs WHERE bits MATCH vec_bit(:bits) AND k = :limit ORDER BY distance"
        else:  # a condition makes sqlite-vec several times slower than it is to compare the vectors themselves
            sql = (
                "SELECT key FROM vectors WHERE grp IN (SELECT value FROM json_each(:groups)) "
                "ORDER BY vec_distance_cosine(vec_int8(vector), vec_int8(:vector)) NULLS LAST LIMIT :limit"
            )
        values = {
            "bits": np.packbits(vector > 0).tobytes(),
            "vector": quantize(vector[np.newaxis]).tobytes(),
            "groups": "[]" if groups is None else str(groups.tolist()),
            "limit": limit,
        }
        found: list[tuple[int]] = []
        with self._translate_errors(), self._time_limit(timeout):
            found += self._run(sql, values).fetchall()
        return np.fromiter((row[0] for row in found), np.int64, len(found))

    def write(self, *arguments: Any) -> None:
        super().write(*arguments)
        if arguments[-1]:  # groups were deleted, but are still in the write-ahead log
            self._rows("PRAGMA wal_checkpoint(TRUNCATE)")

    def check(self) -> str:
        """The first problem that SQLite finds in the file; empty if there is none."""
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
                raise StoreError(f"{self.name} has another program's tables; move it away")
            for table in ("signs", *_OLD_TABLES):
                self._run(f"DROP TABLE IF EXISTS {table}")
            self._run(Path(__file__).with_name("vectors_file.sql").read_text(encoding="utf-8"))

    def _is_current(self) -> bool:
        version = int(self._run("PRAGMA user_version").fetchone()[0])
        if version > _FILE_VERSION:
            raise StoreTooNew(f"a newer Warmstart created {self.name}; upgrade Warmstart, or move the file away")
        return version == _FILE_VERSION

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._translate_errors(), self._connection:
            yield

    @contextmanager
    def _time_limit(self, seconds: float | None) -> Iterator[None]:
        """Interrupt statements that run longer; they return nothing."""
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


class PostgresVectors(VectorStore):
    """The vectors of one tenant in a PostgreSQL store, compared with pgvector, or with plain SQL if that is missing.

    A search scans the tenant's rows: it is exact, does not slow down writes, and its cost grows with the tenant, not
    with the server. Large tenants can get an approximate index, which the same statement uses (see docs/scale.md).
    """

    def __init__(self, database: Database) -> None:
        self._db = database
        self.name = f"the store {database.name!r}"
        self._run = partial(database.connection.execute, binary=True)  # type: ignore[call-arg]
        self._has_pgvector = self._find_pgvector()

    def _find_pgvector(self) -> bool:
        return bool(self._rows("SELECT to_regoperator('<~>(bit,bit)') IS NOT NULL")[0][0])

    def close(self) -> None:
        """Do nothing: the connection belongs to the store."""

    def reset(self, model: Model) -> None:
        super().reset(model)
        if not self._has_pgvector:
            with suppress(StoreError), self._db.transaction():  # not every role has the right
                self._run("SET LOCAL ROLE NONE")  # a superuser has it, but not the role that it acts as
                self._run("CREATE EXTENSION IF NOT EXISTS vector")
            self._has_pgvector = self._find_pgvector()

    def _insert(self, rows: Sequence[Row]) -> None:
        self._db.connection.executemany(
            "INSERT INTO vectors (key, grp, hash, vector, bits) VALUES (?, ?, ?, ?, CAST(? AS BIT VARYING))",
            [
                (row.key, row.group, row.hash, row.vector.tobytes(), _bits(row.vector) if row.vector.any() else None)
                for row in rows
            ],
        )

    def _delete(self, keys: Sequence[int]) -> None:
        self._run("DELETE FROM vectors WHERE key = ANY(CAST(? AS BIGINT[]))", (list(keys),))

    def nearest(self, vector: Matrix, groups: Keys | None, limit: int, timeout: float | None) -> Keys:
        where = "" if groups is None else "AND grp = ANY(CAST(:groups AS BIGINT[])) "
        values = {} if groups is None else {"groups": groups.tolist()}
        size = len(vector)
        distance = f"CAST(bits AS BIT({size})) <~> CAST(:bits AS BIT({size}))"
        if not self._has_pgvector:
            distance = "bit_count(bits # CAST(:bits AS BIT VARYING))"
        rows = self._rows(
            f"SELECT key FROM vectors WHERE length(bits) = {size} {where}ORDER BY {distance}, key LIMIT :limit",
            {**values, "bits": _bits(vector), "limit": limit},
        )
        return np.fromiter((row[0] for row in rows), np.int64, len(rows))

    def _transaction(self) -> AbstractContextManager[object]:
        return self._db.transaction()  # locks out other writers of the tenant

    def _translate_errors(self) -> AbstractContextManager[None]:
        return self._db.translate_errors()


def _bits(vector: Matrix | Quantized) -> str:
    """The signs of a vector as a PostgreSQL bit string."""
    return ((vector > 0).astype(np.uint8) + ord("0")).tobytes().decode()


class Source(Protocol):
    """The texts to embed, by key, in groups. The stamp of a group changes with its texts."""

    def stamps(self) -> Mapping[int, int]: ...
    def texts(self, group: int) -> Mapping[int, str]: ...


def prune_vectors(store: VectorStore, source: Source) -> None:
    """Delete the vectors of groups that no longer exist."""
    model, gone = store.model(), sorted(store.groups() - source.stamps().keys())
    if model is not None and gone:
        store.write(model, (), {}, (), gone)


class VectorUpdate:
    """Brings a vector store up to date with its source."""

    def __init__(self, store: VectorStore, embedder: Embedder, model: Model, source: Source) -> None:
        self._store, self._embedder, self._model, self._source = store, embedder, model, source
        self._pending: list[tuple[int, int, int, str]] = []  # key, group, hash, text
        self._old: list[int] = []
        self._stamps: dict[int, int] = {}
        self._embedded = 0

    def run(self, progress: Progress | None = None) -> int:
        """Embed new texts and delete the vectors of old ones. Returns how many texts were embedded."""
        current, known = self._source.stamps(), self._store.stamps()
        changed = [group for group, stamp in current.items() if known.get(group) != stamp]
        for done, group in enumerate(changed):
            stored, texts = self._store.hashes(group), self._source.texts(group)
            self._old += stored.keys() - texts.keys()
            for key, text in texts.items():
                digest = _hash(text)
                if stored.get(key) != digest:
                    self._pending.append((key, group, digest, text))
                if len(self._pending) >= _BATCH:
                    self._flush()
            self._stamps[group] = current[group]
            if progress is not None:
                progress(done, len(changed))
        self._flush()
        prune_vectors(self._store, self._source)  # last, because a moved text finds its vector by its hash
        return self._embedded

    def _flush(self) -> None:
        if not (self._pending or self._old or self._stamps):
            return
        vectors = self._store.by_hash({digest for _, _, digest, _ in self._pending})
        new = {digest: text for _, _, digest, text in self._pending if digest not in vectors}
        if new:
            vectors.update(zip(new, quantize(self._embedder.embed(list(new.values()))), strict=True))
            self._embedded += len(new)
        rows = [Row(key, group, digest, vectors[digest]) for key, group, digest, _ in self._pending]
        self._store.write(self._model, rows, self._stamps, self._old, ())
        self._pending, self._old, self._stamps = [], [], {}


def _hash(text: str) -> int:
    """The hash of a text as an integer that databases can hold."""
    digest = blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)
