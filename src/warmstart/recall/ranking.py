"""How sessions and their messages are ranked: a few formulas over arrays of line numbers.

A session's score has three parts. BM25 over the whole session, for each field by itself, where a word counts by the
number of lines that hold it. BM25 over windows of a message and its neighbours, for the best sessions of the first part
only, summed as log-sum-exp, so that one good window counts most and several count more. And closeness to the dates that
the question names. The numbers were found on two sets of questions; `bench/recall.py` shows what each part is worth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from warmstart.recall.engine import Numbers
from warmstart.recall.packing import FIELD, FIRST, GONE, LENGTHS, PART, PLACE, SAID

Floats = NDArray[np.float64]

K1, B = 1.2, 0.75
TERMS = 60  # of a question that are looked up at most


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """What counts how much."""

    said: float = 0.5  # a session's BM25 for what the user said, and for what the assistant said
    did: float = 0.4  # the same for each of the other fields
    windows: float = 1.0
    neighbours: bool = True
    date: float = 3.0
    shortlist: int = 20  # sessions whose windows are looked at
    small: int = 20_000  # lines up to which a store is small
    shortlist_small: int = 60


class Postings(NamedTuple):
    """The lines that hold each term; those of the term `i` where `term == i`."""

    lines: Numbers
    term: Numbers
    found: Numbers  # by term: in how many lines of the scope it stands

    @classmethod
    def of(cls, found: Sequence[Numbers], known: Sequence[int]) -> Postings:
        """`known` is in how many lines a term stands, where that is more than were fetched."""
        sizes = [len(lines) for lines in found]
        lines = np.concatenate(found) if found else np.zeros(0, np.int64)
        counts = np.array([max(size, more) for size, more in zip(sizes, known, strict=True)], np.int64)
        return cls(lines, np.repeat(np.arange(len(found)), sizes), counts)

    def only(self, chosen: NDArray[np.bool_], *, counts: bool) -> Postings:
        """Some of the lines; with `counts` a term is as frequent as its lines that are left."""
        lines, term = self.lines[chosen], self.term[chosen]
        left = np.bincount(term, minlength=len(self.found))
        return Postings(lines, term, left if counts else np.where(left > 0, self.found, 0))


class Scope(NamedTuple):
    """What is searched: the counts that the formulas need."""

    parts: int
    lines: int  # that were said
    words: Floats  # by field, in all parts
    by_part: Floats  # words by part and field


@dataclass(slots=True)
class Ranked:
    """Parts with their scores, and the messages of the best ones with theirs; places are those of the lines."""

    parts: Numbers
    scores: Floats
    pieces: dict[str, Floats] = field(default_factory=dict)
    window_part: Numbers = field(default_factory=lambda: np.zeros(0, np.int64))
    window_place: Numbers = field(default_factory=lambda: np.zeros(0, np.int64))
    window_score: Floats = field(default_factory=lambda: np.zeros(0))
    own_score: Floats = field(default_factory=lambda: np.zeros(0))

    def add(self, name: str, parts: Numbers, scores: Floats) -> None:
        """Add to the scores of some parts, each named once and in order; others may be new."""
        if not len(self.parts):
            self.parts, self.scores, self.pieces = parts, scores, {name: scores}
            return
        union = self.parts
        at = np.minimum(np.searchsorted(union, parts), len(union) - 1)
        if not np.array_equal(union[at], parts):
            union = np.union1d(self.parts, parts)
            at, old = np.searchsorted(union, parts), np.searchsorted(union, self.parts)
            self.pieces = {key: _spread(values, old, len(union)) for key, values in self.pieces.items()}
            self.parts, self.scores = union, _spread(self.scores, old, len(union))
        self.pieces[name] = _spread(scores, at, len(union))
        self.scores = self.scores + self.pieces[name]


def _spread(values: Floats, places: Numbers, room: int) -> Floats:
    wide = np.zeros(room)
    wide[places] = values
    return wide


def rank(
    said: Postings,
    did: Postings,
    scope: Scope,
    lengths: Callable[[Sequence[int]], Mapping[int, bytes]],
    weights: Weights,
    also: Sequence[int] = (),
) -> Ranked:
    """Rank the parts that hold any of the terms.

    `lengths` gives the classes of length of the lines of some parts; `also` are parts whose windows are looked at
    however their whole ranks.
    """
    ranked = Ranked(np.zeros(0, np.int64), np.zeros(0))
    for name, group, weight in (("said", said, weights.said), ("did", did, weights.did)):
        if len(group.lines):
            ranked.add(name, *_by_session(group, scope, weight))
    if len(said.lines) and weights.windows:
        most = weights.shortlist_small if scope.lines <= weights.small else weights.shortlist
        best = ranked.parts
        if len(best) > most:
            best = np.union1d(best[np.argpartition(-ranked.scores, most)[:most]], np.array(also, np.int64))
        _by_window(ranked, said, scope, best, lengths(best.tolist()), weights)
    return ranked


def _by_session(group: Postings, scope: Scope, weight: float) -> tuple[Numbers, Floats]:
    """BM25 of whole parts, field by field."""
    fields = group.lines >> FIELD & 15
    key, count = np.unique(((group.lines >> PART) * 16 + fields) * 64 + group.term, return_counts=True)
    slot = key & 1023
    part = key >> 10
    holding = np.bincount(slot, minlength=1024)[slot]
    mean = np.maximum(1.0, scope.words / max(1, scope.parts))
    which = slot >> 6
    norm = K1 * (1 - B + B * scope.by_part[part, which] / mean[which])
    idf = np.log(1 + (scope.parts - holding + 0.5) / (holding + 0.5))
    scores = weight * idf * (K1 + 1) * count / (count + norm)
    parts, place = np.unique(part, return_inverse=True)
    return parts, np.bincount(place, scores).astype(np.float64)


_LENGTHS = np.zeros(256)
_LENGTHS[: len(LENGTHS)] = LENGTHS


def _by_window(
    ranked: Ranked, said: Postings, scope: Scope, best: Numbers, lengths: Mapping[int, bytes], weights: Weights
) -> None:
    """BM25 of windows in the best parts: every message that holds a term, or has a neighbour that does, is a centre."""
    lines_in = [len(lengths.get(part, b"")) for part in best.tolist()]
    start = np.concatenate([[0], np.cumsum(lines_in)])
    classes = np.frombuffer(b"".join(lengths.get(part, b"") for part in best.tolist()), np.uint8)
    owner = np.repeat(np.arange(len(best)), lines_in)

    part = said.lines >> PART
    at = np.minimum(np.searchsorted(best, part), len(best) - 1)
    place = (said.lines >> PLACE & 0xFFFF) - FIRST
    inside = (best[at] == part) & (place < np.diff(start)[at])
    at, place, term = at[inside], place[inside], said.term[inside]
    if not len(at):
        return
    place = place + start[at]
    centres, of_term = [place], [term]
    size = _LENGTHS[classes]
    window = size.copy()
    if weights.neighbours and len(size) > 1:
        same = owner[1:] == owner[:-1]
        window[1:] += size[:-1] * same
        window[:-1] += size[1:] * same
        for step, fits in ((1, place + 1 < start[at + 1]), (-1, place - 1 >= start[at])):
            centres.append(place[fits] + step)
            of_term.append(term[fits])
    centre, index = np.unique(np.concatenate(centres), return_inverse=True)
    terms = len(said.found)
    tf = np.bincount(index * terms + np.concatenate(of_term), minlength=len(centre) * terms).reshape(-1, terms)

    reach = 3 if weights.neighbours else 1
    lines = max(1, scope.lines)
    holding = lines * (1 - (1 - np.minimum(said.found, lines) / (lines + 1)) ** reach)
    idf = np.maximum(np.log((lines - holding + 0.5) / (holding + 0.5)), 1e-6)
    mean = max(1.0, scope.words[:SAID].sum() / lines)
    norm = K1 * (1 - B + B * window[centre] / (mean * 0.9 * reach))
    score = (tf * (K1 + 1) / (tf + norm[:, None])) @ idf
    own: Floats = np.bincount(index[: len(place)], idf[term], len(centre)).astype(np.float64)
    alive = classes[centre] != GONE
    if not alive.all():
        centre, score, own = centre[alive], score[alive], own[alive]
    if not len(centre):
        return

    of_part = owner[centre]  # centres are sorted: those of a part follow each other
    first = np.flatnonzero(np.concatenate([[True], of_part[1:] != of_part[:-1]]))
    top = np.maximum.reduceat(score, first)
    run = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(score))))
    sums = top + np.log(np.add.reduceat(np.exp(score - top[run]), first))
    ranked.add("windows", best[of_part[first]], weights.windows * sums)
    ranked.window_part = best[of_part]
    ranked.window_place = centre - start[of_part]
    ranked.window_score = score
    ranked.own_score = own


EMPTY = Postings(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64))
