"""Rank sessions and their messages: BM25 over arrays of document ids.

A session is scored by BM25 over all of it, field by field; the term frequency is the number of its documents that have
the term. The messages of the best sessions are scored by BM25 over windows of a message and its two neighbours. The
log-sum-exp of the window scores is added to the session's score, so that the best window counts most, and several count
more. `bench/recall.py` shows what each part contributes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from time import monotonic
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from warmstart.recall.index import COLUMNS, DELETED, FIELD, FIELDS, FIRST, LENGTHS, PART, POSITION, SAID, Ids, State
from warmstart.storage.database import Database, Interrupted

K1, B = 1.2, 0.75
_FIELD = 15 << FIELD
_POSITIONS = 17  # bits for the position of a window
_POSITION = (1 << _POSITIONS) - 1
_WORDS = np.zeros(256)  # by length class
_WORDS[: len(LENGTHS)] = LENGTHS
_SEPARATOR = bytes([DELETED])  # between parts, so that windows do not cross parts
_BATCH_PARTS, _BATCH_DELETED, _BATCH_WRITES = 250, 4000, 8  # read between two checks of the clock
_MAX_WRITES = 4000  # after which everything is reloaded
_ROW = 3 + len(FIELDS)

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """The weights of the components of a score, and the budgets that bound the time of a search."""

    said: float = 0.5
    did: float = 0.4
    windows: float = 1.0
    date: float = 3.0
    postings: int = 2000  # document ids to read, each for what was said and what was done
    sessions: int = 20  # sessions whose windows are scored


# -- the corpus


class Scope(NamedTuple):
    """What a search covers, and the statistics that BM25 needs."""

    is_all: bool
    allowed: NDArray[np.bool_]  # by part: whether it is searched
    parts: int
    said: int  # documents that were said
    words: Floats  # by field, in all parts
    by_part: Floats  # words by part and field


class Postings(NamedTuple):
    """The documents that have each term; those of term `i` are the ones where `term == i`."""

    ids: Ids = np.zeros(0, np.int64)
    term: Ids = np.zeros(0, np.int64)
    counts: Ids = np.zeros(0, np.int64)  # by term: how many documents in scope have it


class CorpusStats:
    """The lengths of all parts of the index, in memory and in sync with the index.

    Loading them takes a while in a large store. If time runs out, what was loaded is kept, and the next search resumes
    there.
    """

    everything: Scope
    has_did: bool  # whether anything that was done is indexed

    def __init__(self, database: Database) -> None:
        self._run = database.connection.execute
        self._clear(0, 0)

    def _clear(self, parts: int, generation: int) -> None:
        self.session: Ids = np.zeros(parts + 1, np.int64)  # by part; 0 if there is no such part
        self.deleted: Ids = np.zeros(0, np.int64)
        self._said: Ids = np.zeros(parts + 1, np.int64)
        self._words: Floats = np.zeros((parts + 1, len(FIELDS)))
        self.lengths: dict[int, bytes] = {}  # by part: the length classes of its documents
        self._read_up_to = {"generation": generation, "number": 0}
        self._complete = False

    def refresh(self, state: State, deadline: float) -> None:
        """Load what has changed since the last time. Raises `Interrupted` at the deadline."""
        generation = self._read_up_to["generation"]
        if self._complete and state.generation == generation:
            return
        if state.cleared > generation or state.generation > generation + _MAX_WRITES:
            self._clear(state.parts, state.generation)
        # Every existing part once; afterwards those that were written since.
        ranges = (
            (column, first, min(first + size, end))
            for column, end, size in (
                ("generation", state.generation, _BATCH_WRITES),
                ("number", state.parts, _BATCH_PARTS),
            )
            for first in range(self._read_up_to[column], end, size)
        )
        for column, first, last in ranges:
            if monotonic() > deadline:
                raise Interrupted
            rows = self._run(
                f"SELECT lengths, number, session, said, {COLUMNS} FROM recall_parts "
                f"WHERE {column} > ? AND {column} <= ?",
                (first, last),
            ).fetchall()
            found = np.fromiter(chain.from_iterable(row[1:] for row in rows), np.float64).reshape(-1, _ROW)
            numbers = found[:, 0].astype(np.int64)
            more = int(numbers.max(initial=0)) + 1 - len(self.session)
            if more > 0:
                self.session = np.concatenate([self.session, np.zeros(more, np.int64)])
                self._said = np.concatenate([self._said, np.zeros(more, np.int64)])
                self._words = np.concatenate([self._words, np.zeros((more, len(FIELDS)))])
            self.session[numbers] = found[:, 1].astype(np.int64)
            self._said[numbers] = found[:, 2].astype(np.int64)
            self._words[numbers] = found[:, 3:]
            self.lengths.update((row[1], row[0]) for row in rows)
            self._read_up_to[column] = last
        if not self._complete:
            self._read_deleted(deadline)
        exists = self.session > 0
        said, words = int(self._said.sum()), self._words.sum(axis=0)
        self.everything = Scope(True, exists, int(np.count_nonzero(exists)), said, words, self._words)
        self.has_did = bool(words[SAID:].any())

    def _read_deleted(self, deadline: float) -> None:
        while not self._complete:
            if monotonic() > deadline:
                raise Interrupted
            rows = self._run(
                "SELECT id FROM recall_deleted WHERE id > ? ORDER BY id LIMIT ?",
                (int(self.deleted[-1]) if len(self.deleted) else 0, _BATCH_DELETED),
            )
            more = np.fromiter((row[0] for row in rows), np.int64)
            self.deleted = np.concatenate([self.deleted, more])
            self._complete = len(more) < _BATCH_DELETED

    def scope(self, sessions: Sequence[int]) -> Scope:
        """The statistics of these sessions."""
        selected = np.zeros(max(int(self.session.max()), *sessions, 0) + 1, bool)
        selected[list(sessions)] = True
        allowed = selected[self.session] & (self.session > 0)
        words = self._words[allowed].sum(axis=0)
        return Scope(False, allowed, int(allowed.sum()), int(self._said[allowed].sum()), words, self._words)

    def join(self, found: Sequence[Ids], known: Sequence[int], scope: Scope) -> Postings:
        """The postings of several terms that are in scope and not deleted.

        `known` is the document frequency of each term, for terms whose postings were not all read.
        """
        sizes = [len(ids) for ids in found]
        ids = np.concatenate(found) if found else np.zeros(0, np.int64)
        term = np.repeat(np.arange(len(found)), sizes)
        part = np.minimum(ids >> PART, len(scope.allowed) - 1)
        mask = scope.allowed[part]
        mask &= part == ids >> PART  # otherwise another process has just added it
        if len(self.deleted):
            at = np.minimum(np.searchsorted(self.deleted, ids), len(self.deleted) - 1)
            mask &= self.deleted[at] != ids
        if not mask.all():
            ids, term = ids[mask], term[mask]
        counts = np.bincount(term, minlength=len(found))
        return Postings(ids, term, counts + np.maximum(0, np.array(known, np.int64) - np.array(sizes, np.int64)))


# -- scores


@dataclass(slots=True)
class Ranked:
    """Parts with their scores, and the windows of the best ones. A window's id is its message, `part << 16 | position`.

    `own` is what the message itself contributes to its window; 0 if only its neighbours have a term.
    """

    parts: Ids = field(default_factory=lambda: np.zeros(0, np.int64))
    scores: Floats = field(default_factory=lambda: np.zeros(0))
    components: dict[str, Floats] = field(default_factory=dict)
    windows: Ids = field(default_factory=lambda: np.zeros(0, np.int64))
    window_scores: Floats = field(default_factory=lambda: np.zeros(0))
    own: Floats = field(default_factory=lambda: np.zeros(0))

    def add(self, name: str, parts: Ids, scores: Floats) -> None:
        """Add to the scores of some parts, which are sorted and unique; some may be new."""
        if not len(self.parts):
            self.parts, self.scores, self.components = parts, scores, {name: scores}
            return
        at = np.minimum(np.searchsorted(self.parts, parts), len(self.parts) - 1)
        if not np.array_equal(self.parts[at], parts):
            self._extend(np.union1d(self.parts, parts))
            at = np.searchsorted(self.parts, parts)
        self.components[name] = added = np.zeros(len(self.parts))
        added[at] = scores
        self.scores = self.scores + added

    def _extend(self, parts: Ids) -> None:
        at = np.searchsorted(parts, self.parts)

        def spread(values: Floats) -> Floats:
            wider = np.zeros(len(parts))
            wider[at] = values
            return wider

        self.components = {name: spread(values) for name, values in self.components.items()}
        self.parts, self.scores = parts, spread(self.scores)


def rank(
    said: Postings,
    did: Postings,
    scope: Scope,
    lengths: Mapping[int, bytes],
    weights: Weights,
    also: Sequence[int] = (),
) -> Ranked:
    """Rank the parts that have any of the terms: BM25 field by field, and the windows of the best ones.

    `lengths` are the length classes of the documents of each part; the windows of the parts in `also` are scored
    whatever their rank.
    """
    ranked = Ranked()
    mean = np.maximum(1.0, scope.words / max(1, scope.parts))
    for name, group, weight in (("said", said, weights.said), ("did", did, weights.did)):
        if not len(group.ids):
            continue
        # The part, four bits for the field, six for the term.
        keys = (group.ids >> PART << 10) | ((group.ids & _FIELD) << 2) | group.term
        keys.sort()
        starts, count = _runs(keys)
        key = keys[starts]
        slot, part = key & 1023, key >> 10
        having = np.bincount(slot)
        idf = np.log(1 + (scope.parts - having + 0.5) / (having + 0.5)) * (weight * (K1 + 1))
        which = slot >> 6
        norm = K1 * (1 - B) + (K1 * B / mean)[which] * scope.by_part[part, which]
        starts, _ = _runs(part)
        ranked.add(name, part[starts], np.add.reduceat(idf[slot] * count / (count + norm), starts))
    if len(said.ids) and weights.windows:
        best = ranked.parts
        if len(best) > weights.sessions:
            top = np.argpartition(-ranked.scores, weights.sessions)[: weights.sessions]
            best = np.union1d(best[top], np.array(also, np.int64))
        _rank_windows(ranked, said, scope, best, lengths, weights.windows)
    return ranked


def _runs(values: Ids) -> tuple[Ids, Ids]:
    """The starts and sizes of runs of equal numbers; several times as fast as `np.unique`."""
    is_first = np.empty(len(values), np.bool_)
    is_first[:1] = True
    np.not_equal(values[1:], values[:-1], out=is_first[1:])
    starts = is_first.nonzero()[0]
    sizes = np.empty_like(starts)
    np.subtract(starts[1:], starts[:-1], out=sizes[:-1])
    sizes[-1:] = len(values) - starts[-1:]
    return starts, sizes


def _rank_windows(
    ranked: Ranked, said: Postings, scope: Scope, best: Ids, lengths: Mapping[int, bytes], weight: float
) -> None:
    """BM25 of the windows around every message that has a term, or whose neighbour has one."""
    all_lengths = [lengths.get(part, b"") for part in best.tolist()]
    classes = np.frombuffer(_SEPARATOR.join((b"", *all_lengths, b"")), np.uint8)
    sizes = np.fromiter(map(len, all_lengths), np.int64, len(best))
    start = np.cumsum(sizes + 1) - sizes  # of each part in `classes`

    # The postings in the best parts: for each, the index of its part, its position, and its term.
    number = np.zeros(len(scope.by_part), np.int64)
    number[best] = np.arange(1, len(best) + 1)
    at = number[said.ids >> PART]
    inside = at.nonzero()[0]
    at = at[inside] - 1
    position = (said.ids[inside] >> POSITION & 0xFFFF) - FIRST
    known = position < sizes[at]  # otherwise another process has just added it
    at, position, term = at[known], position[known], said.term[inside][known]

    # A cell is a term in a window; its last bit is set if the message in the middle has the term.
    cells = ((at << _POSITIONS | position + 1) << 6 | term) << 1
    cells = np.concatenate((cells | 1, cells + 128, cells - 128))
    cells.sort()
    starts, tf = _runs(cells >> 1)
    cells = cells[starts + tf - 1]
    middle = cells >> 7
    where = start[middle >> _POSITIONS] + (middle & _POSITION) - 1
    mask = classes[where] != DELETED
    cells, middle, where, tf = cells[mask], middle[mask], where[mask], tf[mask]
    if not len(cells):
        return

    documents = max(1, scope.said)
    having = documents * (1 - (1 - np.minimum(said.counts, documents) / (documents + 1)) ** 3)  # a term in a window
    idf = np.maximum(np.log((documents - having + 0.5) / (having + 0.5)), 1e-6)[cells >> 1 & 63]
    words = _WORDS[classes[where]] + _WORDS[classes[where - 1]] + _WORDS[classes[where + 1]]
    mean = max(1.0, float(scope.words[:SAID].sum()) / documents)
    mean *= 0.9  # the first and the last message of a session have only one neighbour
    norm = K1 * (1 - B) + words * (K1 * B / (mean * 3))
    starts, _ = _runs(middle)
    middle = middle[starts]
    ranked.window_scores = np.add.reduceat(idf * tf * (K1 + 1) / (tf + norm), starts)
    ranked.own = np.add.reduceat(idf * (cells & 1), starts)
    part = best[middle >> _POSITIONS]
    ranked.windows = part << 16 | (middle & _POSITION) - 1

    starts, sizes = _runs(part)
    top = np.maximum.reduceat(ranked.window_scores, starts)
    excess = np.exp(ranked.window_scores - np.repeat(top, sizes))
    ranked.add("windows", part[starts], weight * (top + np.log(np.add.reduceat(excess, starts))))


class SessionScore(NamedTuple):
    """The score of a session, and its components."""

    score: float
    components: Mapping[str, float]


def rank_sessions(
    ranked: Ranked, session_of: Ids, more: Mapping[str, Mapping[int, float]], limit: int
) -> dict[int, SessionScore]:
    """The best sessions, best first; ties go to the newest.

    A session with several parts has the score of its best one. `more` has other components of a session's score, by
    name.
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
