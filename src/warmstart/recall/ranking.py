"""Rank turns: BM25 over a turn, plus BM25 over its session.

Each field of a long turn is scored for itself, so a term that is in the request and in the reply counts twice. A short
turn ("yes, do that") says little by itself, so its fields are scored together, and it borrows the terms of its
neighbours at a lower weight. Its session is scored as one document, field by field, with the rarity of a term among the
sessions that are searched. Dates and exact names are added by the search. `bench/recall.py` shows what each part
contributes.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain
from math import log
from operator import add, attrgetter

TYPE_CHECKING = False  # `typing` itself takes milliseconds to load, and a hook ranks too
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

FIELDS = ("asked", "said", "thought", "did")
WEIGHTS = (1.0, 1.0, 0.5, 0.5)  # of the fields
K1 = 1.2
B = 0.75  # how much a long field counts less
SHORT = 200  # words; the fields of shorter turns are scored together, with their neighbours
SHORT_B = 0.4
NEIGHBOURS = 0.4  # weight of the terms of the turns before and after a short one; squared for the next but one
SESSION = 0.7  # weight of the session
DATES = 4.0  # weight of a date in the query
NAMES = 1.0  # weight of a name that a turn has exactly as it was typed
ANSWER = 0.2  # weight, as a share of the best score, of what the query asks for: a number, a date, a path, a name


class Turn:
    """A turn that has some terms of a query. `counts` are its occurrences of each term, by field.

    `components` are the parts of its `score`. `share` is for the caller: how much of the query the turn has.
    """

    __slots__ = (
        *("components", "counts", "first_seq", "id", "last_seq", "lengths", "number", "session"),
        *("score", "session_lengths", "share"),
    )

    def __init__(self, row: Sequence[Any], counts: Mapping[int, bytes]) -> None:
        self.id, self.session, self.number, self.first_seq, self.last_seq = row[:5]
        self.lengths, self.session_lengths = row[5:9], row[9:13]
        self.counts = counts
        self.components: dict[str, float] = {}
        self.score = 0.0
        self.share = 0.0

    def add(self, component: str, value: float) -> None:
        """Add a part to the score."""
        self.components[component] = self.components.get(component, 0.0) + value
        self.score += value


def rarity(having: int, documents: int) -> float:
    """How much a term says if `having` of all documents have it."""
    return log(1 + (documents - min(having, documents) + 0.5) / (having + 0.5))


def rank(
    turns: Sequence[Turn],
    rarities: Sequence[float],
    means: Sequence[float],
    session_means: Sequence[float],
    sessions: int,
) -> list[Turn]:
    """The turns, best first; of equal ones, the one indexed last.

    The means are the numbers of words in the fields of a turn and of a session. `sessions` is the number of sessions
    searched.
    """
    _score_turns(turns, rarities, means)
    _score_sessions(turns, session_means, sessions)
    return in_order(turns)


def in_order(turns: Iterable[Turn]) -> list[Turn]:
    """Turns by their scores; of equal ones, the one indexed last comes first."""
    return sorted(turns, key=attrgetter("score", "id"), reverse=True)


def _score_turns(turns: Sequence[Turn], rarities: Sequence[float], means: Sequence[float]) -> None:
    places = {(turn.session, turn.number): turn for turn in turns}
    mean = _sum_fields(means)
    for turn in turns:
        words = _sum_fields(turn.lengths)
        if words >= SHORT:
            turn.add("turn", _score_fields(turn.counts, turn.lengths, means, rarities))
            continue
        frequencies = {term: _sum_fields(counts) for term, counts in turn.counts.items()}
        for distance in (-1, 1, -2, 2):
            neighbour = places.get((turn.session, turn.number + distance))
            if neighbour is not None:
                weight = NEIGHBOURS ** abs(distance)
                words += weight * _sum_fields(neighbour.lengths)
                for term, counts in neighbour.counts.items():
                    frequencies[term] = frequencies.get(term, 0.0) + weight * _sum_fields(counts)
        norm = K1 * (1 - SHORT_B + SHORT_B * words / mean)
        score = 0.0
        for term, frequency in frequencies.items():
            score += rarities[term] * frequency * (K1 + 1) / (frequency + norm)
        turn.add("turn", score)


def _score_sessions(turns: Sequence[Turn], means: Sequence[float], sessions: int) -> None:
    """Add to every turn the score of its session, as far as these turns show it."""
    groups: dict[int, list[Turn]] = {}
    for turn in turns:
        groups.setdefault(turn.session, []).append(turn)
    totals = {session: _add_counts(group) for session, group in groups.items()}
    having = Counter(chain.from_iterable(totals.values()))
    rarities = {term: rarity(count, sessions) for term, count in having.items()}
    for session, group in groups.items():
        score = SESSION * _score_fields(totals[session], group[0].session_lengths, means, rarities)
        for turn in group:
            turn.add("session", score)


def _add_counts(turns: Sequence[Turn]) -> dict[int, Sequence[int]]:
    counts: dict[int, Sequence[int]] = dict(turns[0].counts)
    for turn in turns[1:]:
        for term, by_field in turn.counts.items():
            counts[term] = tuple(map(add, counts[term], by_field)) if term in counts else by_field
    return counts


def _score_fields(
    counts: Mapping[int, Sequence[int]],
    lengths: Sequence[int],
    means: Sequence[float],
    rarities: Mapping[int, float] | Sequence[float],
) -> float:
    """BM25 of every field by itself, added by their weights."""
    score = 0.0
    for term, by_field in counts.items():
        for field, count in enumerate(by_field):
            if count:
                norm = K1 * (1 - B + B * lengths[field] / means[field])
                score += rarities[term] * WEIGHTS[field] * count * (K1 + 1) / (count + norm)
    return score


def _sum_fields(counts: Sequence[float]) -> float:
    asked, said, thought, did = WEIGHTS
    return asked * counts[0] + said * counts[1] + thought * counts[2] + did * counts[3]
