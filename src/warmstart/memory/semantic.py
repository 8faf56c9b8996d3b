"""Search by meaning: the vectors of entries, and how near they are to a question.

Vectors are stored with the name of their embedder and the time of the entry; only those of the current embedder are
compared, so two embedders never mix.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from functools import cache
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart.config import Settings
from warmstart.embedding.embedders import OFFLINE, Embedder, Matrix, open_embedder
from warmstart.embedding.files import has_vectors, open_vectors
from warmstart.embedding.vectors import Quantized, quantize
from warmstart.errors import WarmstartError
from warmstart.memory.search import Similarity
from warmstart.storage.database import Database

NEAREST = 40  # entries that are candidates because of their meaning
_COMPARED = 8000  # vectors whose cosines are computed; with 4000, 3 % of the nearest among 100,000 are missed
_TIMEOUT = 2.0  # seconds for an embedding service
_PAUSE = 60.0  # seconds before a service that failed is asked again
_BATCH = 64
_UPDATE_SECONDS = 2.0  # that a query spends on new entries; the next one continues
_CHECK_SECONDS = 60.0  # between two checks of all entries, for those that another process has indexed
_SURE = 0.11  # above an embedder's floor, a text answers a question


def open_semantic_index(database: Database, settings: Settings, embedder: str) -> SemanticIndex | None:
    """The vectors of a store, by the embedder that recall uses there, or else by this one; None if that fails."""
    try:
        if has_vectors(database):
            with closing(open_vectors(database)) as vectors:
                model = vectors.model()
            embedder = model.requested if model else embedder
        is_offline = embedder in OFFLINE
        return SemanticIndex(database, _open_offline(embedder) if is_offline else open_embedder(embedder, settings))
    except WarmstartError:
        return None


@cache
def _open_offline(name: str) -> Embedder:
    return OFFLINE[name]()  # slow to load, and the same for every store


class SemanticIndex:
    """The vectors of one store, cached for the users that were asked about."""

    def __init__(self, database: Database, embedder: Embedder) -> None:
        self._db = database
        self._embedder = embedder
        self._users: dict[str, _Vectors] = {}
        self._checked: dict[str, float] = {}
        self._paused_until = 0.0

    def update(self, user_id: str) -> None:
        """Embed what is new."""
        began = monotonic()
        everything = began >= self._checked.get(user_id, -_CHECK_SECONDS) + _CHECK_SECONDS
        while rows := self._pending(user_id, everything=everything):
            if monotonic() > began + _UPDATE_SECONDS:
                return
            vectors = self._embed([f"{key.replace('_', ' ')}: {value}" for _, _, key, value in rows], None)
            if vectors is None:
                return
            self._write([(number, at) for number, at, _, _ in rows], vectors)
        if everything:
            self._checked[user_id] = began

    def near(self, user_id: str, text: str) -> Near | None:
        """How near the entries of a user are to a text; None if the embedder does not answer."""
        made = self._embed([text], _TIMEOUT)
        if made is None or not made[0].any():
            return None
        vectors = self._users.setdefault(user_id, _Vectors(len(made[0])))
        vectors.refresh(self._db, user_id, self._embedder.name)
        return Near(vectors, made[0], self._embedder.floor + _SURE)

    def _embed(self, texts: Sequence[str], timeout: float | None) -> Matrix | None:
        """The vectors of texts; None while the embedder does not answer."""
        if monotonic() < self._paused_until:
            return None
        try:
            return self._embedder.embed(texts, timeout)
        except WarmstartError:
            self._paused_until = monotonic() + _PAUSE
            return None

    def _pending(self, user_id: str, *, everything: bool) -> list[Any]:
        """Entries of a user whose current value has no vector by this embedder."""
        return self._db.connection.execute(
            "SELECT e.id, e.updated_at, e.key, e.value FROM memory_entries e WHERE e.user_id = ? AND NOT EXISTS "
            "(SELECT 1 FROM memory_vectors v WHERE v.id = e.id AND v.model = ? AND v.updated_at = e.updated_at) "
            f"{'' if everything else 'AND e.is_indexed = 0 '}LIMIT {_BATCH}",
            (user_id, self._embedder.name),
        ).fetchall()

    def _write(self, stamps: Sequence[tuple[int, float]], vectors: Matrix) -> None:
        with self._db.transaction() as connection:
            for (number, at), vector in zip(stamps, quantize(vectors), strict=True):
                connection.execute("DELETE FROM memory_vectors WHERE id = ?", (number,))
                connection.execute(
                    "INSERT INTO memory_vectors (id, model, vector, updated_at) SELECT e.id, ?, ?, ? "
                    "FROM memory_entries e WHERE e.id = ?",
                    (self._embedder.name, vector.tobytes(), at, number),
                )


class _Vectors:
    """The quantized vectors of a user's entries, read on first use and kept up to date.

    Their lengths are precomputed, and their signs as bits: 64 dimensions to a row, one column per vector.
    """

    def __init__(self, dimensions: int) -> None:
        self.ids: list[int] = []
        self.places: dict[int, int] = {}  # of each id, in the list and the arrays
        self.numbers = np.zeros((0, dimensions), np.int8)
        self.lengths = np.zeros(0, np.float32)
        self.signs = _signs(self.numbers)
        self._seq = 0

    def refresh(self, database: Database, user_id: str, model: str) -> None:
        rows = database.connection.execute(
            # The order of a CROSS JOIN keeps SQLite from reading all entries of the user.
            "SELECT v.seq, v.id, v.vector FROM memory_vectors v CROSS JOIN memory_entries e "
            "WHERE v.seq > ? AND v.model = ? AND e.id = v.id AND e.user_id = ? ORDER BY v.seq",
            (self._seq, model, user_id),
        ).fetchall()
        if not rows:
            return
        self._seq = rows[-1][0]
        places = [self.places.setdefault(row[1], len(self.places)) for row in rows]
        more = len(self.places) - len(self.ids)
        self.ids = list(self.places)
        self.numbers = np.pad(self.numbers, ((0, more), (0, 0)))
        self.lengths = np.pad(self.lengths, (0, more))
        self.signs = np.pad(self.signs, ((0, 0), (0, more)))
        self.numbers[places] = new = np.array([np.frombuffer(row[2], np.int8) for row in rows])
        self.lengths[places] = np.maximum(np.linalg.norm(new.astype(np.float32), axis=1), 1e-9)
        self.signs[:, places] = _signs(new)


class Near:
    """How near a user's entries are to a text."""

    def __init__(self, vectors: _Vectors, text: Matrix, floor: float) -> None:
        self._vectors, self._text, self._floor = vectors, text, floor

    def nearest(self) -> list[int]:
        """The ids of the nearest entries. Of many, only those with the most signs in common are compared."""
        vectors = self._vectors
        places = np.arange(len(vectors.ids))
        if len(places) > _COMPARED:
            differing = np.bitwise_count(vectors.signs ^ _signs(self._text[None])).sum(axis=0, dtype=np.uint16)
            most = np.searchsorted(np.cumsum(np.bincount(differing)), _COMPARED)
            places = np.flatnonzero(differing <= most)
        if len(places) > NEAREST:
            places = places[np.argpartition(-self._cosines(places), NEAREST)[:NEAREST]]
        return [vectors.ids[place] for place in places]

    def similarity(self, ids: Sequence[int]) -> Similarity | None:
        """The cosines of entries; None while one of them has no vector, because the others would always be nearer."""
        places = np.array([self._vectors.places.get(each, -1) for each in ids], int)
        if (places < 0).any():
            return None
        return Similarity(dict(zip(ids, self._cosines(places).tolist(), strict=True)), self._floor)

    def _cosines(self, places: NDArray[np.int64]) -> Matrix:
        """From 0 to 1."""
        # Not as a matrix product, whose threads wait for each other on a busy machine.
        products = np.einsum("ij,j->i", self._vectors.numbers[places].astype(np.float32), self._text)
        cosines: Matrix = products / (self._vectors.lengths[places] * np.linalg.norm(self._text))
        return np.maximum(cosines, 0.0, dtype=np.float32)


def _signs(vectors: Matrix | Quantized) -> NDArray[np.uint64]:
    """The signs of vectors as bits, a column per vector."""
    bits = np.pad(vectors > 0, ((0, 0), (0, -vectors.shape[1] % 64)))
    return np.ascontiguousarray(np.packbits(bits, axis=1).view(np.uint64).T)
