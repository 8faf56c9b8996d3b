"""Rank turns: BM25 over a turn and its neighbours, plus what the rest of its session adds.

A short turn ("yes, do that") says little by itself, so it borrows the terms of its neighbours at a lower weight. Its
session is scored as one document, field by field, with the rarity of a term among the sessions that are searched.
Dates and exact names are added by the search. `bench/recall.py` shows what each constant contributes.
"""

from __future__ import annotations

from math import log

TYPE_CHECKING = False  # `typing` itself takes milliseconds to load, and a hook ranks too
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

FIELDS = ("asked", "said", "thought", "did")
TURN_FIELDS = (1.0, 1.0, 0.3, 0.3)  # weights of the fields in the score of a turn
SESSION_FIELDS = (1.0, 1.0, 1.0, 0.5)  # and in the score of its session
K1 = 1.2
TURN_B, SESSION_B = 0.4, 0.75
NEIGHBOURS = 0.4  # weight of the terms of the turns before and after
SHORT = 200  # words; longer turns borrow nothing
SESSION = 0.7  # weight of the session
DATES = 4.0  # weight of a date in the query
NAMES = 1.0  # weight of a name that a turn has exactly as it was typed
MAX_DATED_ONLY = 30  # sessions that match a date of the query but no word


class Turn:
    """A turn that has some terms of a query. `counts` are its occurrences of each term, by field.

    `components` are the parts of its `score`; `share` is the part of the query that it has, weighted by rarity.
    """

    __slots__ = (
        *("components", "counts", "first_seq", "frequencies", "id", "last_seq", "lengths", "number", "session"),
        *("session_lengths", "share"),
    )

    def __init__(
        self,
        id: int,  # noqa: A002 - the name of the column
        place: tuple[int, int, int, int],
        lengths: Sequence[int],
        session_lengths: Sequence[int],
        counts: Mapping[int, bytes],
    ) -> None:
        self.id = id
        self.session, self.number, self.first_seq, self.last_seq = place
        self.lengths = lengths
        self.session_lengths = session_lengths
        self.counts = counts
        self.frequencies: dict[int, float] = {}
        self.components: dict[str, float] = {}
        self.share = 0.0

    @property
    def score(self) -> float:
        return sum(self.components.values())


class Averages:
    """The mean number of words in the fields of a turn, and of a session."""

    __slots__ = ("session", "turn")

    def __init__(self, turns: int, sessions: int, words: Sequence[int]) -> None:
        self.turn = [count / max(1, turns) for count in words]
        self.session = [count / max(1, sessions) for count in words]


def rarity(having: int, documents: int) -> float:
    """How much a term says if `having` of all documents have it."""
    return log(1 + (documents - min(having, documents) + 0.5) / (having + 0.5))


def rank(turns: Sequence[Turn], rarities: Sequence[float], averages: Averages, sessions: int) -> list[Turn]:
    """The turns, best first; of equal ones, the one indexed last. `sessions` is the number of sessions searched."""
    _score_turns(turns, rarities, averages)
    _score_sessions(turns, averages, sessions)
    total = sum(rarities) or 1.0
    for turn in turns:
        turn.share = sum(rarities[term] for term in turn.counts) / total
    return in_order(turns)


def in_order(turns: Iterable[Turn]) -> list[Turn]:
    """Turns by their scores, which are rounded so that both databases give the same order."""
    return sorted(turns, key=lambda turn: (-round(turn.score, 9), -turn.id))


def _score_turns(turns: Sequence[Turn], rarities: Sequence[float], averages: Averages) -> None:
    places = {(turn.session, turn.number): turn for turn in turns}
    mean = max(1.0, _weighted(averages.turn))
    sizes: dict[int, float] = {}
    for turn in turns:
        turn.frequencies = {term: _weighted(counts) for term, counts in turn.counts.items()}
        sizes[turn.id] = _weighted(turn.lengths)
    for turn in turns:
        frequencies, size = turn.frequencies, sizes[turn.id]
        if size < SHORT and NEIGHBOURS:
            before = places.get((turn.session, turn.number - 1))
            after = places.get((turn.session, turn.number + 1))
            frequencies = dict(frequencies)
            for neighbour in (before, after):
                if neighbour is not None:
                    size += NEIGHBOURS * sizes[neighbour.id]
                    for term, frequency in neighbour.frequencies.items():
                        frequencies[term] = frequencies.get(term, 0.0) + NEIGHBOURS * frequency
        norm = K1 * (1 - TURN_B + TURN_B * size / mean)
        score = 0.0
        for term, frequency in frequencies.items():
            score += rarities[term] * frequency * (K1 + 1) / (frequency + norm)
        turn.components["turn"] = score


def _weighted(counts: Sequence[float]) -> float:
    asked, said, thought, did = TURN_FIELDS
    return asked * counts[0] + said * counts[1] + thought * counts[2] + did * counts[3]


def _score_sessions(turns: Sequence[Turn], averages: Averages, sessions: int) -> None:
    """Add to every turn the score of its session, as far as these turns show it."""
    if not SESSION:
        return
    counts: dict[int, dict[int, list[int]]] = {}
    lengths: dict[int, Sequence[int]] = {}
    for turn in turns:
        lengths[turn.session] = turn.session_lengths
        session = counts.setdefault(turn.session, {})
        for term, by_field in turn.counts.items():
            summed = session.setdefault(term, [0, 0, 0, 0])
            for field, count in enumerate(by_field):
                summed[field] += count
    having: dict[int, int] = {}
    for session in counts.values():
        for term in session:
            having[term] = having.get(term, 0) + 1
    scores: dict[int, float] = {}
    for number, session in counts.items():
        score = 0.0
        for field, weight in enumerate(SESSION_FIELDS):
            relative = lengths[number][field] / max(1.0, averages.session[field])
            norm = K1 * (1 - SESSION_B + SESSION_B * relative)
            for term, by_field in session.items():
                if count := by_field[field]:
                    score += weight * rarity(having[term], sessions) * count * (K1 + 1) / (count + norm)
        scores[number] = SESSION * score
    for turn in turns:
        turn.components["session"] = scores[turn.session]
