"""How sessions and their messages are ranked: BM25 over arrays of document ids.

A session scores by BM25 over all of it, field by field, where a term counts by the number of documents that have it.
The messages of the best sessions score by BM25 over windows of a message and its two neighbours; the log-sum-exp of
these is added to the score of the session, so that one good window counts most and several count more.
`bench/recall.py` shows what each part is worth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from warmstart.recall.corpus_stats import Floats, Scope
from warmstart.recall.documents import DELETED, FIELD, FIRST, LENGTHS, PART, POSITION, SAID, Ids

K1, B = 1.2, 0.75
MAX_TERMS = 60  # of a query that are looked up; six bits hold their numbers
_FIELD = 15 << FIELD
_POSITIONS = 17  # bits for the position of a window
_POSITION = (1 << _POSITIONS) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """The weights of the parts of a score, and the budgets that bound the time of a search."""

    said: float = 0.5
    did: float = 0.4
    windows: float = 1.0
    neighbours: bool = True
    date: float = 3.0
    postings: int = 2000  # document ids that are read, of what was said and of what was done
    sessions: int = 20  # whose windows are scored


class Postings(NamedTuple):
    """The documents that have each term; those of the term `i` where `term == i`."""

    ids: Ids
    term: Ids
    counts: Ids  # by term: how many documents in scope have it

    @classmethod
    def join(cls, found: Sequence[Ids], exists: Callable[[Ids], NDArray[np.bool_]], known: Sequence[int]) -> Postings:
        """Postings of several terms, without those that `exists` denies.

        `known` is how many documents have each term where not all of them were read.
        """
        sizes = [len(ids) for ids in found]
        ids = np.concatenate(found) if found else np.zeros(0, np.int64)
        term = np.repeat(np.arange(len(found)), sizes)
        kept = exists(ids)
        if not kept.all():
            ids, term = ids[kept], term[kept]
        counts = np.bincount(term, minlength=len(found))
        more = np.maximum(0, np.array(known, np.int64) - np.array(sizes, np.int64))
        return cls(ids, term, counts + more)


EMPTY = Postings(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64))


@dataclass(slots=True)
class Ranked:
    """Parts with their scores, and the windows of the best ones; a window goes by its message, `part << 16 | position`.

    `own` is what the message itself contributes to its window; 0 where only its neighbours have a term.
    """

    parts: Ids = field(default_factory=lambda: np.zeros(0, np.int64))
    scores: Floats = field(default_factory=lambda: np.zeros(0))
    components: dict[str, Floats] = field(default_factory=dict)
    windows: Ids = field(default_factory=lambda: np.zeros(0, np.int64))
    window_scores: Floats = field(default_factory=lambda: np.zeros(0))
    own: Floats = field(default_factory=lambda: np.zeros(0))

    def add(self, name: str, parts: Ids, scores: Floats) -> None:
        """Add to the scores of some parts, each given once and in order; others may be new."""
        if not len(self.parts):
            self.parts, self.scores, self.components = parts, scores, {name: scores}
            return
        union = self.parts
        at = np.minimum(np.searchsorted(union, parts), len(union) - 1)
        if not np.array_equal(union[at], parts):
            union = np.union1d(self.parts, parts)
            at, old = np.searchsorted(union, parts), np.searchsorted(union, self.parts)
            self.components = {key: _spread(values, old, len(union)) for key, values in self.components.items()}
            self.scores = _spread(self.scores, old, len(union))
            self.parts = union
        self.components[name] = _spread(scores, at, len(union))
        self.scores = self.scores + self.components[name]


def _spread(values: Floats, places: Ids, size: int) -> Floats:
    spread = np.zeros(size)
    spread[places] = values
    return spread


def rank(
    said: Postings,
    did: Postings,
    scope: Scope,
    lengths: Callable[[Sequence[int]], Mapping[int, bytes]],
    weights: Weights,
    also: Sequence[int] = (),
) -> Ranked:
    """Rank the parts that have any of the terms.

    `lengths` gives the length classes of the documents of some parts; the windows of the parts `also` are scored
    however these rank.
    """
    ranked = Ranked()
    for name, group, weight in (("said", said, weights.said), ("did", did, weights.did)):
        if len(group.ids):
            ranked.add(name, *_by_part(group, scope, weight))
    if len(said.ids) and weights.windows:
        best = ranked.parts
        if len(best) > weights.sessions:
            top = np.argpartition(-ranked.scores, weights.sessions)[: weights.sessions]
            best = np.union1d(best[top], np.array(also, np.int64))
        _by_window(ranked, said, scope, best, lengths(best.tolist()), weights)
    return ranked


def _by_part(group: Postings, scope: Scope, weight: float) -> tuple[Ids, Floats]:
    """BM25 of whole parts, field by field."""
    keys = (group.ids >> PART << 10) | ((group.ids & _FIELD) << 2) | group.term  # part, four bits of field, six of term
    keys.sort()
    ends = _ends(keys)
    count = _sizes(ends)
    key = keys[ends]
    slot, part = key & 1023, key >> 10
    having = np.bincount(slot)
    idf = np.log(1 + (scope.parts - having + 0.5) / (having + 0.5)) * (weight * (K1 + 1))
    mean = np.maximum(1.0, scope.words / max(1, scope.parts))
    which = slot >> 6
    norm = K1 * (1 - B) + (K1 * B / mean)[which] * scope.by_part[part, which]
    scores = idf[slot] * count / (count + norm)
    ends = _ends(part)
    return part[ends], np.add.reduceat(scores, _starts(ends))


def _ends(values: Ids) -> Ids:
    """Where, in sorted numbers, each run of equal ones ends; `np.unique` takes several times as long."""
    last = np.empty(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=last[:-1])
    last[-1:] = True
    return last.nonzero()[0]


def _starts(ends: Ids) -> Ids:
    starts = np.zeros_like(ends)
    np.add(ends[:-1], 1, out=starts[1:])
    return starts


def _sizes(ends: Ids) -> Ids:
    sizes = ends + 1
    sizes[1:] -= sizes[:-1].copy()
    return sizes


_WORDS = np.zeros(256)
_WORDS[: len(LENGTHS)] = LENGTHS
_SEPARATOR = bytes([DELETED])  # between parts, so that windows end where parts do


def _by_window(
    ranked: Ranked, said: Postings, scope: Scope, best: Ids, lengths: Mapping[int, bytes], weights: Weights
) -> None:
    """BM25 of the windows around every message that has a term, or whose neighbour has one."""
    all_lengths = [lengths.get(part, b"") for part in best.tolist()]
    classes = np.frombuffer(_SEPARATOR.join((b"", *all_lengths, b"")), np.uint8)
    sizes = np.fromiter(map(len, all_lengths), np.int64, len(best))
    start = np.cumsum(sizes + 1) - sizes  # of each part in `classes`
    at, position, term = _within(said, best, sizes, len(scope.by_part))

    # A cell is a term in a window; its last bit says that the message in the middle has the term.
    cells = ((at << _POSITIONS | position + 1) << 6 | term) << 1
    cells = np.concatenate((cells | 1, cells + 128, cells - 128)) if weights.neighbours else cells | 1
    cells.sort()
    ends = _ends(cells >> 1)
    tf = _sizes(ends)
    cells = cells[ends]
    middle = cells >> 7
    where = start[middle >> _POSITIONS] + (middle & _POSITION) - 1
    kept = classes[where] != DELETED
    cells, middle, where, tf = cells[kept], middle[kept], where[kept], tf[kept]
    if not len(cells):
        return

    reach = 3 if weights.neighbours else 1
    idf = _window_idf(said.counts, max(1, scope.said), reach)[cells >> 1 & 63]
    words = _WORDS[classes[where]]
    if weights.neighbours:
        words = words + _WORDS[classes[where - 1]] + _WORDS[classes[where + 1]]
    mean = max(1.0, float(scope.words[:SAID].sum()) / max(1, scope.said))
    mean *= 0.9  # the first and the last message of a session have one neighbour only
    norm = K1 * (1 - B) + words * (K1 * B / (mean * reach))
    ends = _ends(middle)
    starts = _starts(ends)
    middle = middle[ends]
    ranked.window_scores = np.add.reduceat(idf * tf * (K1 + 1) / (tf + norm), starts)
    ranked.own = np.add.reduceat(idf * (cells & 1), starts)
    part = best[middle >> _POSITIONS]
    ranked.windows = part << 16 | (middle & _POSITION) - 1

    ends = _ends(part)
    starts = _starts(ends)
    top = np.maximum.reduceat(ranked.window_scores, starts)
    excess = np.exp(ranked.window_scores - np.repeat(top, _sizes(ends)))
    ranked.add("windows", part[ends], weights.windows * (top + np.log(np.add.reduceat(excess, starts))))


def _within(said: Postings, best: Ids, sizes: Ids, parts: int) -> tuple[Ids, Ids, Ids]:
    """The postings in the best parts: which of these each is in, its position, and its term."""
    number = np.zeros(parts, np.int64)
    number[best] = np.arange(1, len(best) + 1)
    at = number[said.ids >> PART]
    inside = at.nonzero()[0]
    at = at[inside] - 1
    position = (said.ids[inside] >> POSITION & 0xFFFF) - FIRST
    known = position < sizes[at]  # otherwise another process has just added it
    return at[known], position[known], said.term[inside][known]


def _window_idf(counts: Ids, documents: int, reach: int) -> Floats:
    having = documents * (1 - (1 - np.minimum(counts, documents) / (documents + 1)) ** reach)
    idf: Floats = np.maximum(np.log((documents - having + 0.5) / (having + 0.5)), 1e-6)
    return idf


class SessionScore(NamedTuple):
    """The score of a session, and what it is made of."""

    score: float
    components: Mapping[str, float]


def rank_sessions(
    ranked: Ranked, session_of: Ids, more: Mapping[str, Mapping[int, float]], limit: int
) -> dict[int, SessionScore]:
    """The best sessions, best first; of equal ones the newest.

    A session of several parts has the score of its best one. `more` is what else counts for a session, by name.
    """
    sessions = session_of[ranked.parts]
    places = np.arange(len(sessions))
    if len(places) > limit:
        others = np.fromiter({session for scores in more.values() for session in scores}, np.int64)
        top = np.argpartition(-ranked.scores, limit)[:limit]
        places = np.union1d(top, np.isin(sessions, others).nonzero()[0])
    found: dict[int, dict[str, float]] = {}
    for place in places[np.argsort(ranked.scores[places], kind="stable")].tolist():  # the best part last
        found[sessions.item(place)] = {name: values.item(place) for name, values in ranked.components.items()}
    for name, scores in more.items():
        for session, score in scores.items():
            found.setdefault(session, {})[name] = score
    totals = {session: sum(components.values()) for session, components in found.items()}
    order = sorted(totals, key=lambda session: (-round(totals[session], 9), -session))[:limit]
    return {
        session: SessionScore(
            totals[session], {name: round(value, 3) for name, value in found[session].items() if value}
        )
        for session in order
    }
