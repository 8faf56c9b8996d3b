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
from warmstart.errors import ConfigError, StoreCorrupt
from warmstart.recall.engine import Numbers
from warmstart.recall.ranking import Floats, Ranked
from warmstart.recall.vectors.embedder import Embedder, Matrix
from warmstart.recall.vectors.index import BLOCK, Keeper, Made, Progress, VectorIndex
from warmstart.recall.vectors.named import open_embedder
from warmstart.recall.vectors.stores import forget_gone, open_vectors
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
_PATIENCE = 2.0  # seconds for an embedder to answer where there is no deadline


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

    def within(self, parts: Numbers) -> Near:
        """What of it is in these parts."""
        lines = self.lines[np.isin(self.lines >> 16, parts)]
        return Near(self.question, lines, list(dict.fromkeys((lines >> 16).tolist())))


class Meaning:
    """The vectors of a store, and the embedder that makes them."""

    def __init__(
        self, database: AnyDatabase, index: VectorIndex, embedder: Embedder, made: Made, *, weight: float = WEIGHT
    ) -> None:
        self._index = index
        self._embedder = embedder
        self._made = made
        self._weight = weight
        self._keeper = Keeper(database, index, embedder, made)

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
        words = _WORDS.findall(text[:_CHARACTERS])[:_MOST_WORDS]
        if not words or self._index.made() != self._made:
            return Near()
        question = self._question(text[:_CHARACTERS], words, weigh, _PATIENCE if seconds is None else seconds)
        left = None if end is None else end - time.monotonic()
        if not question.any() or (left is not None and left <= 0):
            return Near()
        lines = self._index.nearest(question, parts, _NEAREST, left)
        few = list(dict.fromkeys((lines >> 16).tolist()))[:_NEAR]
        return Near(question, lines[np.isin(lines >> 16, few)], few)

    def _question(
        self, text: str, words: Sequence[str], weigh: Callable[[Sequence[str]], Floats], seconds: float
    ) -> Matrix:
        if self._embedder.additive:
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
        worth = best if alone else self._worth(ranked, parts, best)
        # What words did not find must be near in earnest: something is always the nearest.
        kept = np.isin(parts, ranked.parts) | ((best >= self._embedder.floor) & (worth > 0))
        _add_windows(ranked, windows, parts[kept])
        ranked.add("vectors", parts[kept], worth[kept])
        return ranked

    def _worth(self, ranked: Ranked, parts: Numbers, similarity: Floats) -> Floats:
        """What the similarity of parts is worth: so many standard deviations, in units of the scores by words."""
        scores = np.zeros(len(parts))
        if len(ranked.parts):
            at = np.minimum(np.searchsorted(ranked.parts, parts), len(ranked.parts) - 1)
            scores = np.where(ranked.parts[at] == parts, ranked.scores[at], 0.0)
        unit = self._weight * (float(scores.std()) or 1.0)
        spread = float(similarity.std())
        return unit * (similarity - similarity.mean()) / spread if spread > 1e-6 else unit * similarity

    def _windows(self, question: Matrix, wanted: Sequence[tuple[int, int]]) -> _Windows:
        """All windows in these blocks."""
        blocks = self._index.blocks(wanted) if len(question) else []
        blocks = [block for block in blocks if block.vectors.shape[1] == len(question)]
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


def _add_windows(ranked: Ranked, windows: _Windows, parts: Numbers) -> None:
    """In parts where words found no window, take the nearest: which passage to show is for words to say first."""
    part = windows.lines >> 16
    new = np.isin(part, parts) & ~np.isin(part, ranked.window_part)
    lines, similarity, part = windows.lines[new], windows.similarity[new], part[new]
    order = np.lexsort((-similarity, part))
    rank = np.arange(len(order)) - np.searchsorted(part, part[order])
    best = np.sort(order[rank < _WINDOWS])
    both = np.concatenate([ranked.window_part << 16 | ranked.window_place, lines[best]])
    again = np.argsort(both, kind="stable")
    score = np.concatenate([ranked.window_score, np.maximum(similarity[best], 1e-3)])[again]
    own = np.concatenate([ranked.own_score, np.full(len(best), 1e-3)])[again]
    ranked.show(both[again], score, own)


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
    return Meaning(store.database, index, embedder, made)


def make_meaning(store: SQLSessionStore, settings: Settings, asked: str | Embedder) -> Meaning:
    """The vectors of a store by this embedder, one of your own or by its name; those of another one are forgotten."""
    embedder = open_embedder(asked, settings) if isinstance(asked, str) else asked
    made = Made(asked if isinstance(asked, str) else embedder.name, embedder.name, embedder.dimensions)
    try:
        index = open_vectors(store, make=True)
    except StoreCorrupt:
        forget_gone(store)  # all of it, and nothing is lost: it is made from the sessions
        index = open_vectors(store, make=True)
    if index.made() != made:
        index.begin(made)
    return Meaning(store.database, index, embedder, made)
