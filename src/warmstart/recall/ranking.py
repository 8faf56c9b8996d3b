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
TERMS = 60  # of a question that are looked up at most; six bits hold their numbers
_FIELD = 15 << FIELD
_PLACES = 17  # bits for the place of a window
_PLACE = (1 << _PLACES) - 1


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
    runs: dict[int, slice] = field(default_factory=dict)  # by part: where its windows are

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

    def show(self, windows: Numbers, scores: Floats, own: Floats) -> None:
        """Have these windows, each named by `part << 16 | place`, in order."""
        self.window_part, self.window_place = windows >> 16, windows & 0xFFFF
        self.window_score, self.own_score = scores, own
        ends = _ends(self.window_part)
        starts = _starts(ends)
        parts = self.window_part[ends].tolist()
        self.runs = dict(zip(parts, map(slice, starts.tolist(), (ends + 1).tolist()), strict=True))


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
    lines = group.lines
    keys = (lines >> PART << 10) | ((lines & _FIELD) << 2) | group.term  # the part, four bits of field, six of term
    keys.sort()
    ends = _ends(keys)
    count = _lengths(ends)
    key = keys[ends]
    slot, part = key & 1023, key >> 10
    holding = np.bincount(slot)
    idf = np.log(1 + (scope.parts - holding + 0.5) / (holding + 0.5)) * (weight * (K1 + 1))
    mean = np.maximum(1.0, scope.words / max(1, scope.parts))
    which = slot >> 6
    norm = K1 * (1 - B) + (K1 * B / mean)[which] * scope.by_part[part, which]
    scores = idf[slot] * count / (count + norm)
    ends = _ends(part)
    return part[ends], np.add.reduceat(scores, _starts(ends))


def _ends(values: Numbers) -> Numbers:
    """Where, in sorted numbers, the last of each that are equal stands; `np.unique` takes several times as long."""
    last = np.empty(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=last[:-1])
    last[-1:] = True
    return last.nonzero()[0]


def _starts(ends: Numbers) -> Numbers:
    starts = np.zeros_like(ends)
    np.add(ends[:-1], 1, out=starts[1:])
    return starts


def _lengths(ends: Numbers) -> Numbers:
    lengths = ends + 1
    lengths[1:] -= lengths[:-1].copy()
    return lengths


_SIZES = np.zeros(256)
_SIZES[: len(LENGTHS)] = LENGTHS
_SEPARATOR = bytes([GONE])  # between parts, so that windows end where parts do


def _by_window(
    ranked: Ranked, said: Postings, scope: Scope, best: Numbers, lengths: Mapping[int, bytes], weights: Weights
) -> None:
    """BM25 of windows in the best parts: every message that holds a term, or has a neighbour that does, is a centre."""
    all_lengths = [lengths.get(part, b"") for part in best.tolist()]
    classes = np.frombuffer(_SEPARATOR.join((b"", *all_lengths, b"")), np.uint8)
    room = np.fromiter(map(len, all_lengths), np.int64, len(best))
    start = np.cumsum(room + 1) - room  # of each part in `classes`
    at, place, term = _within(said, best, room, len(scope.by_part))
    if not len(at):
        return

    # A cell is a term in a window; its last bit says that the centre itself holds the term.
    cells = ((at << _PLACES | place + 1) << 6 | term) << 1
    if weights.neighbours:
        cells = np.concatenate((cells | 1, cells + 128, cells - 128))
    else:
        cells |= 1
    cells.sort()
    ends = _ends(cells >> 1)
    tf = _lengths(ends)
    cells = cells[ends]
    centre = cells >> 7
    where = start[centre >> _PLACES] + (centre & _PLACE) - 1
    around = classes[where]
    if len(gone := (around == GONE).nonzero()[0]):
        keep = np.delete(np.arange(len(cells)), gone)
        cells, centre, where, around, tf = cells[keep], centre[keep], where[keep], around[keep], tf[keep]
        if not len(cells):
            return

    reach = 3 if weights.neighbours else 1
    idf = _window_idf(said.found, max(1, scope.lines), reach)[cells >> 1 & 63]
    window = _SIZES[around]
    if weights.neighbours:
        window = window + _SIZES[classes[where - 1]] + _SIZES[classes[where + 1]]
    mean = max(1.0, float(scope.words[:SAID].sum()) / max(1, scope.lines))
    norm = K1 * (1 - B) + window * (K1 * B / (mean * 0.9 * reach))
    ends = _ends(centre)
    starts = _starts(ends)
    centre = centre[ends]
    score = np.add.reduceat(idf * tf * (K1 + 1) / (tf + norm), starts)
    ranked.own_score = np.add.reduceat(idf * (cells & 1), starts)
    ranked.window_score = score
    ranked.window_place = (centre & _PLACE) - 1
    of_part = centre >> _PLACES
    ranked.window_part = best[of_part]

    ends = _ends(of_part)
    starts = _starts(ends)
    top = np.maximum.reduceat(score, starts)
    sums = top + np.log(np.add.reduceat(np.exp(score - np.repeat(top, _lengths(ends))), starts))
    parts = ranked.window_part[ends]
    ranked.add("windows", parts, weights.windows * sums)
    ranked.runs = dict(zip(parts.tolist(), map(slice, starts.tolist(), (ends + 1).tolist()), strict=True))


def _within(said: Postings, best: Numbers, room: Numbers, parts: int) -> tuple[Numbers, Numbers, Numbers]:
    """The lines of the best parts: which of these each is of, its place, and its term."""
    number = np.zeros(parts, np.int64)
    number[best] = np.arange(1, len(best) + 1)
    at = number[said.lines >> PART]
    inside = at.nonzero()[0]
    at = at[inside] - 1
    place = (said.lines[inside] >> PLACE & 0xFFFF) - FIRST
    term = said.term[inside]
    known = place < room[at]  # otherwise another process has just added it
    return (at, place, term) if known.all() else (at[known], place[known], term[known])


def _window_idf(found: Numbers, lines: int, reach: int) -> Floats:
    holding = lines * (1 - (1 - np.minimum(found, lines) / (lines + 1)) ** reach)
    idf: Floats = np.maximum(np.log((lines - holding + 0.5) / (holding + 0.5)), 1e-6)
    return idf


EMPTY = Postings(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64))
