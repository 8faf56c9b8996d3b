"""Search by meaning: which turns are near a query, and how that is added to their scores.

Turns near the query join those that have its words. All of them get a score for their similarity: its z-score among
them, times the standard deviation of the scores by words, times one weight.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isinf
from time import monotonic
from typing import Self

import numpy as np
from numpy.typing import NDArray

from warmstart.config import Settings
from warmstart.embedding.embedders import Embedder, Matrix, open_embedder
from warmstart.embedding.files import delete_vectors_file, has_vectors, open_vectors
from warmstart.embedding.vectors import Model, Progress, VectorStore, VectorUpdate, prune_vectors
from warmstart.errors import ConfigError, StoreCorrupt
from warmstart.recall.query import Query
from warmstart.recall.ranking import Turn, rarity
from warmstart.recall.search import Found, Scope, read_turns
from warmstart.sessions.indexed_store import IndexedStore
from warmstart.sessions.lookup import SessionLookup
from warmstart.text.words import split_words, stem_word, tokenize

WEIGHT = 0.4
MAX_NEAR = 50  # turns that are near the query
MAX_QUERY = 4000  # characters
MAX_TEXT = 4000  # characters of a turn that are embedded
TIMEOUT = 2.0  # seconds for an embedder if a search has no deadline

Floats = NDArray[np.float64]


class Turns:
    """The turns in the index as a `Source` of texts to embed; a group is a session."""

    def __init__(self, store: IndexedStore) -> None:
        self._db = store.database
        self._lookup = SessionLookup(store.database.connection)

    def stamps(self) -> Mapping[int, int]:
        rows = self._rows(
            "SELECT session, CAST(sum(hash & 4294967295) + count(*) AS BIGINT) FROM recall_turns "
            "GROUP BY session ORDER BY session DESC"
        )
        return dict(rows)

    def hashes(self, group: int) -> Mapping[int, int]:
        return dict(self._rows("SELECT id, hash FROM recall_turns WHERE session = ?", (group,)))

    def texts(self, keys: Sequence[int]) -> Mapping[int, str]:
        found: dict[int, str] = {}
        for key in keys:
            rows = self._rows("SELECT session, first_seq, last_seq FROM recall_turns WHERE id = ?", (key,))
            for place in rows:
                spoken = (text.body for text in self._lookup.passage(*place) if text.is_message)
                found[key] = "\n".join(spoken)[:MAX_TEXT]
        return found

    def _rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[int, ...]]:
        with self._db.translate_errors():
            return self._db.connection.execute(sql, values).fetchall()


class SemanticIndex:
    """The vectors of a store's turns, and the embedder that computes them."""

    def __init__(self, store: IndexedStore, vectors: VectorStore, embedder: Embedder, model: Model) -> None:
        self._db = store.database
        self._vectors = vectors
        self._model = model
        self._turns = Turns(store)
        self.embedder = embedder

    def update(self, progress: Progress | None = None) -> int:
        """Embed new turns and delete the vectors of deleted ones. Returns how many texts were embedded."""
        return VectorUpdate(self._vectors, self.embedder, self._model, self._turns).run(progress)

    def close(self) -> None:
        self._vectors.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(self, found: Found, query: Query, scope: Scope, deadline: float, *, alone: bool = False) -> None:
        """Add the turns near a query, and to every turn the score of its similarity; `alone` drops all others."""

        def weigh(words: Sequence[str]) -> Floats:
            stems = [next(map(stem_word, tokenize(word)), "") for word in words]
            return np.array([rarity(found.known.get(stem, 1), found.documents) for stem in stems])

        vector = self._embed(query.text, weigh, deadline)
        sessions = None if scope.sessions is None else np.array(sorted(scope.sessions), np.int64)
        left = deadline - monotonic()
        if vector is None or left <= 0 or (sessions is not None and not len(sessions)):
            return
        nearest = self._vectors.nearest(vector, sessions, MAX_NEAR, None if isinf(left) else left)
        known = {turn.id for turn in found.turns}
        more = [number for number in nearest.tolist() if number not in known]
        turns = [*found.turns, *read_turns(self._db.connection, found.terms, more, scope)]
        # If no word of the query occurs, require a higher similarity: something is always nearest.
        near = set(nearest.tolist())
        sure = 1 if alone or query.content & found.known.keys() else 2
        self._score(turns, vector, floor=sure * self.embedder.floor, alone=alone)
        found.turns = [turn for turn in turns if turn.components and (not alone or turn.id in near)]

    def _embed(self, text: str, weigh: Callable[[Sequence[str]], Floats], deadline: float) -> Matrix | None:
        """The query as a vector of length one. `weigh` gives the weight of each of its words."""
        words = split_words(text[:MAX_QUERY])
        if not words or self._vectors.model() != self._model:
            return None
        seconds = TIMEOUT if isinf(deadline) else deadline - monotonic()
        if self.embedder.additive:
            vector = weigh(words).astype(np.float32) @ self.embedder.embed(words, seconds)
        else:
            vector = self.embedder.embed([text[:MAX_QUERY]], seconds)[0]
        length = float(np.linalg.norm(vector))
        return np.asarray(vector / length, np.float32) if length else None

    def _score(self, turns: Sequence[Turn], vector: Matrix, *, floor: float, alone: bool) -> None:
        keys, vectors = self._vectors.vectors(np.array(sorted(turn.id for turn in turns), np.int64))
        if not len(keys) or vectors.shape[1] != len(vector):
            return
        similarity = dict(zip(keys.tolist(), _cosines(vectors, vector).tolist(), strict=True))
        scores = np.array([turn.score for turn in turns if turn.score])
        spread = float(scores.std()) if len(scores) > 1 else 1.0
        values = np.array([*similarity.values()])
        mean, deviation = float(values.mean()), max(float(values.std()), 1e-6)
        for turn in turns:
            cosine = similarity.get(turn.id)
            if cosine is None or (not turn.components and cosine < floor):
                continue
            if alone or not len(scores):
                turn.components = {"vectors": cosine}
            else:
                turn.components["vectors"] = WEIGHT * (spread or 1.0) * (cosine - mean) / deviation


def _cosines(vectors: NDArray[np.int8], query: Matrix) -> Floats:
    unit = vectors.astype(np.float32)
    return np.asarray((unit @ query) / np.maximum(np.linalg.norm(unit, axis=1), 1e-9), np.float64)


def open_semantic_index(store: IndexedStore, settings: Settings) -> SemanticIndex | None:
    """The vectors of a store with the embedder that computed them; `None` if there are none.

    Raises `ConfigError` if that embedder is not available, or its name now refers to another one.
    """
    if not has_vectors(store.database):
        return None
    vectors = open_vectors(store.database)
    try:
        model = vectors.model()
        if model is None:
            vectors.close()
            return None
        embedder = open_embedder(model.requested, settings)
        if embedder.name != model.name:
            raise ConfigError(
                f"the vectors were computed with {model.name!r}, but {model.requested!r} is now {embedder.name!r}; "
                f"run `warmstart recall index --embedder {model.requested}` to recompute them"
            )
    except BaseException:
        vectors.close()
        raise
    return SemanticIndex(store, vectors, embedder, model)


def create_semantic_index(store: IndexedStore, settings: Settings, embedder: str | Embedder) -> SemanticIndex:
    """The vectors of a store for this embedder, or the one with this name; deletes those of another one."""
    opened = open_embedder(embedder, settings) if isinstance(embedder, str) else embedder
    model = Model(embedder if isinstance(embedder, str) else opened.name, opened.name, opened.dimensions)
    try:
        vectors = open_vectors(store.database)
    except StoreCorrupt:
        delete_vectors_file(store.database)
        vectors = open_vectors(store.database)
    if vectors.model() != model:
        vectors.reset(model)
    return SemanticIndex(store, vectors, opened, model)


def delete_old_vectors(store: IndexedStore) -> None:
    """Delete the vectors of deleted sessions; if the file is damaged, delete all of it."""
    if not has_vectors(store.database):
        return
    try:
        vectors = open_vectors(store.database)
    except (ConfigError, StoreCorrupt):
        delete_vectors_file(store.database)
        return
    try:
        prune_vectors(vectors, Turns(store))
    finally:
        vectors.close()
