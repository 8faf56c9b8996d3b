"""Embedders of the library sentence-transformers, by the name or the folder of a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from warmstart.errors import ConfigError
from warmstart.recall.vectors.embedder import TRANSFORMERS, Matrix

_CHARACTERS = 8000  # of a text; a model reads less


class TransformersEmbedder:
    """Implements `Embedder`."""

    additive = False
    local = True
    floor = 0.25

    def __init__(self, model: str) -> None:
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as missing:
            raise ConfigError(
                f"the embedder {TRANSFORMERS}{model} needs a library: pip install sentence-transformers"
            ) from missing
        try:
            self._model: Any = SentenceTransformer(model)
        except (OSError, ValueError) as error:
            reason = str(error).strip().splitlines()[0]
            raise ConfigError(
                f"the model {model!r} cannot be loaded ({reason}); give its name or its folder"
            ) from error
        self.name = TRANSFORMERS + model
        self.dimensions = int(self._model.get_sentence_embedding_dimension())

    def embed(self, texts: Sequence[str], seconds: float | None = None) -> Matrix:
        if not texts:
            return np.zeros((0, self.dimensions), np.float32)
        shown = [text[:_CHARACTERS] for text in texts]
        return np.asarray(self._model.encode(shown, show_progress_bar=False), np.float32)
