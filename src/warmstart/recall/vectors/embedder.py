"""What turns texts into vectors, and how a user names it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Matrix: TypeAlias = NDArray[np.float32]

DEFAULT = "wordllama"
TRANSFORMERS = "sentence-transformers:"
ENDPOINT = "openai:"


class Embedder(Protocol):
    """Gives texts vectors, so that similar meaning has a similar direction.

    Vectors are kept under `name`: another name means other vectors, which never mix. `additive` means that the vector
    of a text is about the sum of those of its words, so that the words of a question can be weighed. `local` means that
    no text leaves this process. Texts whose similarity, at most 1, is below `floor` have nothing to do with each other.
    """

    @property
    def name(self) -> str: ...
    @property
    def dimensions(self) -> int: ...
    @property
    def additive(self) -> bool: ...
    @property
    def local(self) -> bool: ...
    @property
    def floor(self) -> float: ...

    def embed(self, texts: Sequence[str], seconds: float | None = None) -> Matrix:
        """A row for each text, of any length; all zeros for a text that says nothing.

        A service that does not answer within so many seconds is given up with `EmbedderError`.
        """
        ...
