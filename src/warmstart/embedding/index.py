"""The vectors of a database together with the embedder that computed them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import NamedTuple

import numpy as np

from warmstart.config import Settings
from warmstart.embedding.embedders import Embedder, Matrix, open_embedder
from warmstart.embedding.files import delete_vectors_file, has_vectors, open_vectors
from warmstart.embedding.vectors import Model, Progress, Source, VectorStore, VectorUpdate, prune_vectors
from warmstart.errors import ConfigError, StoreCorrupt
from warmstart.storage.database import Database


class VectorIndex(NamedTuple):
    """The vectors, their model, and its embedder."""

    vectors: VectorStore
    model: Model
    embedder: Embedder

    def update(self, source: Source, progress: Progress | None = None) -> int:
        """Embed new texts and delete the vectors of deleted ones. Returns how many texts were embedded."""
        return VectorUpdate(self.vectors, self.embedder, self.model, source).run(progress)

    def embed(self, text: str, weights: Mapping[str, float], seconds: float) -> Matrix | None:
        """A text as a vector of length one. Its words count by their weights, if the embedder adds up words."""
        if not weights or seconds <= 0 or self.vectors.model() != self.model:
            return None  # nothing to embed, no time, or another process has changed the embedder
        if self.embedder.additive:
            vector = np.array([*weights.values()], np.float32) @ self.embedder.embed([*weights], seconds)
        else:
            vector = self.embedder.embed([text], seconds)[0]
        length = float(np.linalg.norm(vector))
        return np.asarray(vector / length, np.float32) if length else None


def open_vector_index(database: Database, settings: Settings) -> VectorIndex | None:
    """The vectors of a database with the embedder that computed them; `None` if there are none.

    Raises `ConfigError` if that embedder is not available, or its name now refers to another one.
    """
    if not has_vectors(database):
        return None
    vectors = open_vectors(database)
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
    return VectorIndex(vectors, model, embedder)


def create_vector_index(database: Database, settings: Settings, embedder: str | Embedder) -> VectorIndex:
    """The vectors of a database for this embedder, or the one with this name; deletes those of another one."""
    opened = open_embedder(embedder, settings) if isinstance(embedder, str) else embedder
    model = Model(embedder if isinstance(embedder, str) else opened.name, opened.name, opened.dimensions)
    try:
        vectors = open_vectors(database)
    except StoreCorrupt:
        delete_vectors_file(database)
        vectors = open_vectors(database)
    if vectors.model() != model:
        vectors.reset(model)
    return VectorIndex(vectors, model, opened)


def prune_vector_index(database: Database, source: Source) -> None:
    """Delete the vectors of deleted texts; if the file is damaged, delete all of it."""
    if not has_vectors(database):
        return
    try:
        vectors = open_vectors(database)
    except (ConfigError, StoreCorrupt):
        delete_vectors_file(database)
        return
    with closing(vectors):
        prune_vectors(vectors, source)
