"""Search by meaning: which lines are near a question, and what that adds to what words tell.

Vectors augment words. Lines that are near the question bring their sessions among those that are ranked, and each of
these gets the similarity of its best window, a message with its neighbours, as a score: so many standard deviations
above the others, in units of the spread of the scores by words, times a small weight.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Self

import numpy as np

from warmstart.config import Settings
from warmstart.errors import ConfigError
from warmstart.recall.engine import Numbers
from warmstart.recall.ranking import Floats, Ranked
from warmstart.recall.vectors.embedder import Embedder, Matrix
from warmstart.recall.vectors.index import BLOCK, Keeper, Made, Progress, VectorIndex
from warmstart.recall.vectors.named import open_embedder
from warmstart.recall.vectors.stores import open_vectors
from warmstart.sessions.sql import SQLSessionStore
from warmstart.storage.database import AnyDatabase

WEIGHT = 0.4
_NEAREST = 50  # groups of lines
_NEAR = 30  # of the parts that they are in
_BLOCKS = 150  # that are looked at
_WINDOWS = 3  # of a part that are new to what words found
_WORDS = re.compile(r"[^\W_]+")
_MOST_WORDS = 200
_CHARACTERS = 4000  # of a question


class _Windows(NamedTuple):
    """Windows around lines, in order, with their similarity to the question."""

    lines: Numbers
    similarity: Floats


class Near(NamedTuple):
    """A question as a vector, and the lines that are near it with their parts, nearest first."""

    question: Matrix = np.zeros(0, np.float32)
    lines: Numbers = np.zeros(0, np.int64)
    parts: Sequence[int] = ()

    def __bool__(self) -> bool:
        return len(self.question) > 0


class Meaning:
    """The vectors of a store, and the embedder that makes them."""

    def __init__(
        self, database: AnyDatabase, index: VectorIndex, embedder: Embedder, *, weight: float = WEIGHT
    ) -> None:
        self._index = index
        self._embedder = embedder
        self._weight = weight
        self._keeper = Keeper(database, index, embedder)

    @property
    def embedder(self) -> Embedder:
        return self._embedder

    def update(self, progress: Progress | None = None) -> int:
        """Embed what is new and forget what is gone; returns how many texts were embedded."""
        return self._keeper.update(progress)

    def close(self) -> None:
        self._index.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def near(
        self, text: str, weigh: Callable[[Sequence[str]], Floats], parts: Numbers | None, seconds: float | None
    ) -> Near:
        """What is near a question in these parts. `weigh` says how telling each of its words is."""
        end = None if seconds is None else time.monotonic() + seconds
        question = self._question(text[:_CHARACTERS], weigh, seconds)
        left = None if end is None else end - time.monotonic()
        if not question.any() or (left is not None and left <= 0):
            return Near()
        lines = self._index.nearest(question, parts, _NEAREST, left)
        few = list(dict.fromkeys((lines >> 16).tolist()))[:_NEAR]
        return Near(question, lines[np.isin(lines >> 16, few)], few)

    def _question(self, text: str, weigh: Callable[[Sequence[str]], Floats], seconds: float | None) -> Matrix:
        words = _WORDS.findall(text)[:_MOST_WORDS]
        if self._embedder.additive and words:
            vector = weigh(words).astype(np.float32) @ self._embedder.embed(words, seconds)
        else:
            vector = self._embedder.embed([text], seconds)[0]
        return np.asarray(vector / max(float(np.linalg.norm(vector)), 1e-9), np.float32)

    def add(self, ranked: Ranked, near: Near, *, alone: bool) -> Ranked:
        """What words found, and how similar that is to the question, and what else is; or what is, `alone`."""
        if alone:
            ranked = Ranked(np.zeros(0, np.int64), np.zeros(0))
        windows = self._windows(near.question, _blocks(ranked, near.lines))
        if not len(windows.lines):
            return ranked
        part = windows.lines >> 16
        first = np.flatnonzero(np.concatenate([[True], part[1:] != part[:-1]]))
        parts, best = part[first], np.maximum.reduceat(windows.similarity, first)
        middle, unit = 0.0, 1.0
        if not alone:
            spread = float(best.std())
            middle, unit = float(best.mean()), self._unit(ranked, parts) / spread if spread > 1e-6 else 0.0
        _add_windows(ranked, windows, unit * (windows.similarity - middle))
        ranked.add("vectors", parts, unit * (best - middle))
        return ranked

    def _unit(self, ranked: Ranked, parts: Numbers) -> float:
        """What one standard deviation of similarity is worth."""
        scores = np.zeros(len(parts))
        if len(ranked.parts):
            at = np.minimum(np.searchsorted(ranked.parts, parts), len(ranked.parts) - 1)
            scores = np.where(ranked.parts[at] == parts, ranked.scores[at], 0.0)
        return self._weight * (float(scores.std()) or 1.0)

    def _windows(self, question: Matrix, wanted: Sequence[tuple[int, int]]) -> _Windows:
        """All windows in these blocks."""
        blocks = self._index.blocks(wanted) if len(question) else []
        if not blocks:
            return _Windows(np.zeros(0, np.int64), np.zeros(0))
        lines = np.concatenate(
            [(block.part << 16 | block.first) + np.arange(len(block.hashes), dtype=np.int64) for block in blocks]
        )
        vectors = np.concatenate([block.vectors for block in blocks]).astype(np.float32)
        length = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
        alive = length > 0  # there is a vector for every line but those that are gone
        return _Windows(lines[alive], _similarity(lines, vectors, length, question)[alive])


def _similarity(lines: Numbers, vectors: Matrix, length: Matrix, question: Matrix) -> Floats:
    """Of each line with its neighbours: the cosine of the sum of their directions and the question's.

    The sums are never made; their products and lengths follow from those of lines, in half the time.
    """
    scale = 1 / np.maximum(length, 1e-9)
    own = (vectors @ question) * scale
    product, square = own.copy(), (length > 0).astype(np.float64)
    beside = lines[1:] - lines[:-1] == 1
    product[1:] += own[:-1] * beside
    product[:-1] += own[1:] * beside
    alive = square.copy()
    square[1:] += alive[:-1] * beside
    square[:-1] += alive[1:] * beside
    next_to = np.einsum("ij,ij->i", vectors[1:], vectors[:-1]) * scale[1:] * scale[:-1] * beside
    square[1:] += 2 * next_to
    square[:-1] += 2 * next_to
    across = np.einsum("ij,ij->i", vectors[2:], vectors[:-2]) * scale[2:] * scale[:-2]
    square[1:-1] += 2 * across * (beside[1:] & beside[:-1])
    return np.asarray(product / np.sqrt(np.maximum(square, 1e-9)), np.float64)


def _blocks(ranked: Ranked, near: Numbers) -> list[tuple[int, int]]:
    """The blocks that hold what words found, and what is near; of too many the best."""
    order = np.argsort(-ranked.window_score, kind="stable")
    by_words = (ranked.window_part << 16 | ranked.window_place)[order]
    half = dict.fromkeys(_block_of(near)[: _BLOCKS // 2])
    return sorted([*half, *(block for block in dict.fromkeys(_block_of(by_words)) if block not in half)][:_BLOCKS])


def _block_of(lines: Numbers) -> list[tuple[int, int]]:
    return list(dict.fromkeys(zip((lines >> 16).tolist(), ((lines & 0xFFFF) // BLOCK).tolist(), strict=True)))


def _add_windows(ranked: Ranked, windows: _Windows, scores: Floats) -> None:
    """Add the scores of windows to those that words found, and to these the best of each part that words did not."""
    part = windows.lines >> 16
    order = np.lexsort((-windows.similarity, part))
    starts = np.searchsorted(part, part)  # windows are sorted: where those of the same part begin
    best = order[np.arange(len(order)) - starts[order] < _WINDOWS]
    old = ranked.window_part << 16 | ranked.window_place
    lines = np.union1d(old, windows.lines[best])
    at = np.searchsorted(lines, old)
    total, own = np.zeros(len(lines)), np.full(len(lines), 1e-3)
    total[at], own[at] = ranked.window_score, ranked.own_score
    place = np.minimum(np.searchsorted(windows.lines, lines), len(windows.lines) - 1)
    total += np.where(windows.lines[place] == lines, scores[place], 0.0)
    ranked.window_part, ranked.window_place = lines >> 16, lines & 0xFFFF
    ranked.window_score, ranked.own_score = total, own


def open_meaning(store: SQLSessionStore, settings: Settings) -> Meaning | None:
    """The vectors of a store with the embedder that made them; nothing where there are none.

    Raises `ConfigError` where the embedder is not to be had here, or is now another one under the same name.
    """
    index = open_vectors(store, make=False)
    made = None if index is None else index.made()
    if index is None or made is None:
        return None
    try:
        embedder = open_embedder(made.asked, settings)
        if embedder.name != made.name:
            raise ConfigError(
                f"the vectors were made with {made.name!r}, and {made.asked!r} is now {embedder.name!r}; "
                f"run `warmstart recall index --embedder {made.asked}` to make them anew"
            )
    except BaseException:
        index.close()
        raise
    return Meaning(store.database, index, embedder)


def make_meaning(store: SQLSessionStore, settings: Settings, asked: str | Embedder) -> Meaning:
    """The vectors of a store by this embedder, one of your own or by its name; those of another one are forgotten."""
    embedder = open_embedder(asked, settings) if isinstance(asked, str) else asked
    made = Made(asked if isinstance(asked, str) else embedder.name, embedder.name, embedder.dimensions)
    index = open_vectors(store, make=True)
    if index.made() != made:
        index.begin(made)
    return Meaning(store.database, index, embedder)
