"""Stores of vectors, and how one is kept up to date.

A row has a key (the caller's number for the text), a group (texts that change together) and the hash of its text. The
vector is quantized to eight bits per dimension; its signs, one bit each, make a search fast. A group has a stamp, which
is written with its last row: an update that was interrupted continues where it stopped, and a text whose hash is known
is not embedded again, whatever its key.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from warmstart.embedding.embedders import Embedder, Matrix
from warmstart.errors import StoreError
from warmstart.storage.sql import batches, placeholders

Keys: TypeAlias = NDArray[np.int64]
Quantized: TypeAlias = NDArray[np.int8]
Progress = Callable[[int, int], None]

_BATCH = 1024  # texts that are embedded and written together


class Model(NamedTuple):
    """What made the vectors: the embedder as the user named it, its own name, and its dimensions."""

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
        """What made the vectors; None if there are none."""
        rows = self._rows("SELECT requested, name, dimensions FROM vector_models")
        return Model(*rows[0]) if rows else None

    def reset(self, model: Model) -> None:
        """Delete all vectors, and accept those of this model from now on."""
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

    def vectors(self, keys: Keys) -> tuple[Keys, Quantized]:
        """The vectors of these keys as far as they exist, in the order of their keys."""
        rows = dict(sorted(self._where("key", keys.tolist())))
        found = np.frombuffer(b"".join(rows.values()), np.int8)
        return np.array([*rows], np.int64), found.reshape(max(1, len(rows)), -1)

    def write(
        self, model: Model, rows: Sequence[Row], stamps: Mapping[int, int], keys: Sequence[int], groups: Iterable[int]
    ) -> None:
        """Insert or replace rows, stamp groups that are now complete, delete `keys` and whole `groups`; atomically.

        Raises `StoreError` if the stored vectors are of another model by now.
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
        """The keys whose signs differ least from the vector's, nearest first; none if time runs out."""

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


class Source(Protocol):
    """The texts whose vectors are kept: the stamps of groups, the hashes of a group's texts by key, texts by key."""

    def stamps(self) -> Mapping[int, int]: ...
    def hashes(self, group: int) -> Mapping[int, int]: ...
    def texts(self, keys: Sequence[int]) -> Mapping[int, str]: ...


def prune_vectors(store: VectorStore, source: Source) -> None:
    """Delete the vectors of groups that are gone."""
    model, gone = store.model(), sorted(store.groups() - source.stamps().keys())
    if model is not None and gone:
        store.write(model, (), {}, (), gone)


class VectorUpdate:
    """Brings a vector store up to date with its source."""

    def __init__(self, store: VectorStore, embedder: Embedder, model: Model, source: Source) -> None:
        self._store, self._embedder, self._model, self._source = store, embedder, model, source
        self._pending: list[tuple[int, int, int]] = []  # key, group, hash
        self._old: list[int] = []
        self._stamps: dict[int, int] = {}
        self._embedded = 0

    def run(self, progress: Progress | None = None) -> int:
        """Embed new texts and delete the vectors of old ones; returns how many texts were embedded."""
        current, known = self._source.stamps(), self._store.stamps()
        changed = [group for group, stamp in current.items() if known.get(group) != stamp]
        for done, group in enumerate(changed):
            stored, wanted = self._store.hashes(group), self._source.hashes(group)
            self._old += stored.keys() - wanted.keys()
            for key, digest in wanted.items():
                if stored.get(key) != digest:
                    self._pending.append((key, group, digest))
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
        vectors = self._store.by_hash({digest for _, _, digest in self._pending})
        new = {digest: key for key, _, digest in self._pending if digest not in vectors}
        if new:
            texts = self._source.texts(list(new.values()))
            new = {digest: key for digest, key in new.items() if key in texts}
            made = quantize(self._embedder.embed([texts[key] for key in new.values()]))
            vectors.update(zip(new, made, strict=True))
            self._embedded += len(new)
        rows = [Row(key, group, digest, vectors[digest]) for key, group, digest in self._pending if digest in vectors]
        self._store.write(self._model, rows, self._stamps, self._old, ())
        self._pending, self._old, self._stamps = [], [], {}
