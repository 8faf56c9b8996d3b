"""Semantic search: which messages are near a query in meaning, and how that is added to the lexical ranking.

Messages near the query add their sessions to those that are ranked. Each ranked session gets a score for the similarity
of its best window (a message with its neighbours): its z-score among the ranked sessions, times the standard deviation
of the lexical scores, times a small weight.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isinf
from time import monotonic
from typing import NamedTuple, Self

import numpy as np

from warmstart.config import Settings
from warmstart.embedding.embedders import Embedder, Matrix, open_embedder
from warmstart.embedding.files import delete_vectors_file, has_vectors, open_vectors
from warmstart.embedding.vectors import Model, Progress, VectorStore, VectorUpdate, prune_vectors
from warmstart.errors import ConfigError, StoreCorrupt
from warmstart.recall.index import FIELD, FIRST, POSITION, SAID, Ids
from warmstart.recall.ranking import Floats, Ranked
from warmstart.sessions.lookup import SessionLookup
from warmstart.sessions.sql_store import SQLSessionStore
from warmstart.text.words import split_words

WEIGHT = 0.4
MAX_NEAR = 50  # messages that are near the query
MAX_VECTORS = 1000  # that are compared with the query
MAX_WINDOWS = 3  # per session in which no message has a word of the query
MAX_QUERY = 4000  # characters
TIMEOUT = 2.0  # seconds for an embedder if a search has no deadline


class Near(NamedTuple):
    """A query as a vector, and the messages near it, nearest first, each as `part << 16 | position`."""

    vector: Matrix = np.zeros(0, np.float32)
    messages: Ids = np.zeros(0, np.int64)

    @property
    def parts(self) -> list[int]:
        return list(dict.fromkeys((self.messages >> 16).tolist()))


class Messages:
    """The messages in the index as a `Source` of texts to embed; a group is a part of the index."""

    def __init__(self, store: SQLSessionStore) -> None:
        self._db = store.database
        self._lookup = SessionLookup(store.database.connection)

    def stamps(self) -> Mapping[int, int]:
        with self._db.translate_errors():
            rows = self._db.connection.execute(
                "SELECT number, session, generation FROM recall_parts ORDER BY number DESC"
            ).fetchall()
        return {part: session << 32 | generation for part, session, generation in rows}

    def hashes(self, group: int) -> Mapping[int, int]:
        return {key: digest for key, _, digest in self._documents(group)}

    def texts(self, keys: Sequence[int]) -> Mapping[int, str]:
        wanted = set(keys)
        messages = {
            message: key
            for part in sorted({key >> 16 for key in keys})
            for key, message, _ in self._documents(part)
            if key in wanted
        }
        with self._db.translate_errors():
            found = self._lookup.messages(messages)
        return {messages[message]: stored.body for message, stored in found.items()}

    def _documents(self, part: int) -> list[tuple[int, int, int]]:
        with self._db.translate_errors():
            rows = self._db.connection.execute(
                "SELECT id, message, hash FROM recall_documents WHERE part = ? ORDER BY id", (part,)
            ).fetchall()
        return [
            (part << 16 | (document >> POSITION) - FIRST, message, digest)
            for document, message, digest in rows
            if (document >> FIELD & 15) < SAID
        ]


class SemanticIndex:
    """The vectors of a store's messages, and the embedder that computes them."""

    def __init__(self, store: SQLSessionStore, vectors: VectorStore, embedder: Embedder, model: Model) -> None:
        self._vectors = vectors
        self._model = model
        self._messages = Messages(store)
        self.embedder = embedder

    def update(self, progress: Progress | None = None) -> int:
        """Embed new messages and delete the vectors of deleted ones. Returns how many texts were embedded."""
        return VectorUpdate(self._vectors, self.embedder, self._model, self._messages).run(progress)

    def close(self) -> None:
        self._vectors.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def near(self, text: str, weigh: Callable[[Sequence[str]], Floats], parts: Ids | None, deadline: float) -> Near:
        """The messages of these parts that are near a query. `weigh` gives the weight of each of its words."""
        words = split_words(text[:MAX_QUERY])
        if not words or self._vectors.model() != self._model:
            return Near()
        seconds = TIMEOUT if isinf(deadline) else deadline - monotonic()
        if self.embedder.additive:
            vector = weigh(words).astype(np.float32) @ self.embedder.embed(words, seconds)
        else:
            vector = self.embedder.embed([text[:MAX_QUERY]], seconds)[0]
        left = deadline - monotonic()
        if not vector.any() or left <= 0:
            return Near()
        vector = np.asarray(vector / np.linalg.norm(vector), np.float32)
        return Near(vector, self._vectors.nearest(vector, parts, MAX_NEAR, None if isinf(left) else left))

    def add(self, ranked: Ranked, near: Near, *, floor: float) -> Ranked:
        """Add the similarity of sessions to their scores; those without lexical matches need at least `floor`."""
        windows, similarity = self._similarity(ranked, near)
        if not len(windows):
            return ranked
        part = windows >> 16
        first = np.flatnonzero(np.concatenate([[True], part[1:] != part[:-1]]))
        parts, best = part[first], np.maximum.reduceat(similarity, first)
        scores = self._scale(ranked, parts, best)
        mask = np.isin(parts, ranked.parts) | ((best >= floor) & (scores > 0))
        _add_windows(ranked, windows, similarity, parts[mask])
        ranked.add("vectors", parts[mask], scores[mask])
        return ranked

    def _scale(self, ranked: Ranked, parts: Ids, similarity: Floats) -> Floats:
        """The similarity of parts on the scale of the lexical scores; unchanged if there are none."""
        if not len(ranked.parts):
            return similarity
        at = np.minimum(np.searchsorted(ranked.parts, parts), len(ranked.parts) - 1)
        scores = np.where(ranked.parts[at] == parts, ranked.scores[at], 0.0)
        unit = WEIGHT * (float(scores.std()) or 1.0)
        spread = float(similarity.std())
        return unit * (similarity - similarity.mean()) / spread if spread > 1e-6 else unit * similarity

    def _similarity(self, ranked: Ranked, near: Near) -> tuple[Ids, Floats]:
        """The best lexical windows and all near ones, in order, each with its cosine similarity to the query."""
        by_words = ranked.windows[np.argsort(-ranked.window_scores, kind="stable")]
        wanted = np.concatenate([near.messages, by_words])[: MAX_VECTORS // 3]
        keys, vectors = self._vectors.vectors(np.unique(np.concatenate([wanted, wanted - 1, wanted + 1])))
        if not len(keys) or vectors.shape[1] != len(near.vector):
            return np.zeros(0, np.int64), np.zeros(0)
        unit = vectors.astype(np.float32)
        length = np.linalg.norm(unit, axis=1, keepdims=True)
        unit /= np.maximum(length, 1e-9)
        window = unit.copy()
        adjacent = (np.diff(keys) == 1)[:, None]
        window[1:] += unit[:-1] * adjacent
        window[:-1] += unit[1:] * adjacent
        similarity = (window @ near.vector) / np.maximum(np.linalg.norm(window, axis=1), 1e-9)
        mask = (length[:, 0] > 0) & np.isin(keys, wanted)
        return keys[mask], similarity[mask].astype(np.float64)


def _add_windows(ranked: Ranked, windows: Ids, similarity: Floats, parts: Ids) -> None:
    """Add the nearest windows of parts without lexical ones; in other parts, words decide which passage is shown."""
    part = windows >> 16
    new = np.isin(part, parts) & ~np.isin(part, ranked.windows >> 16)
    windows, similarity, part = windows[new], similarity[new], part[new]
    order = np.lexsort((-similarity, part))
    place = np.arange(len(order)) - np.searchsorted(part, part[order])
    best = order[place < MAX_WINDOWS]
    small = np.maximum(similarity[best], 1e-3)
    ranked.windows = np.concatenate([ranked.windows, windows[best]])
    ranked.window_scores = np.concatenate([ranked.window_scores, small])
    ranked.own = np.concatenate([ranked.own, np.full(len(best), 1e-3)])


def open_semantic_index(store: SQLSessionStore, settings: Settings) -> SemanticIndex | None:
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


def create_semantic_index(store: SQLSessionStore, settings: Settings, embedder: str | Embedder) -> SemanticIndex:
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


def delete_old_vectors(store: SQLSessionStore) -> None:
    """Delete the vectors of deleted sessions; if the file is damaged, delete all of it."""
    if not has_vectors(store.database):
        return
    try:
        vectors = open_vectors(store.database)
    except (ConfigError, StoreCorrupt):
        delete_vectors_file(store.database)
        return
    try:
        prune_vectors(vectors, Messages(store))
    finally:
        vectors.close()
