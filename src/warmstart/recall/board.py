"""The sessions of a search with their scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

import numpy as np

from warmstart.recall.engine import Numbers
from warmstart.recall.exact import Hit
from warmstart.recall.ranking import Floats, Ranked


class Board:
    """Scores by session: of a long one that of its best part."""

    def __init__(self, ranked: Ranked, session_of: Numbers) -> None:
        self._ranked = ranked
        self._of = session_of[ranked.parts]  # the session of each part
        self._best = _best_parts(self._of, ranked.scores)
        self._more: dict[str, Mapping[int, float]] = {}
        self._places: dict[int, int] = {}  # of the best parts of the best sessions

    def __len__(self) -> int:
        return len(self._best)

    @property
    def least(self) -> float:
        """The lowest score of any session."""
        return float(self._ranked.scores.min()) if len(self) else 1.0

    def add(self, name: str, scores: Mapping[int, float]) -> None:
        """Add to the scores of some sessions; none of them is negative."""
        if scores:
            self._more[name] = scores

    def best(self, most: int) -> dict[int, float]:
        """The best sessions with their scores, best first; of equal ones the last that came."""
        top = self._ranked.scores[self._best]
        some = _top(top, most)
        if self._more:
            more = np.fromiter(set(chain(*self._more.values())), np.int64)
            some = np.union1d(some, np.isin(self._of[self._best], more).nonzero()[0])
        places = self._best[some]
        sessions = self._of[places].tolist()
        self._places = dict(zip(sessions, places.tolist(), strict=True))
        scores = dict(zip(sessions, top[some].tolist(), strict=True))
        for added in self._more.values():
            for session, score in added.items():
                scores[session] = scores.get(session, 0.0) + score
        named = np.fromiter(scores.keys(), np.int64, len(scores))
        values = np.fromiter(scores.values(), np.float64, len(scores))
        order = np.lexsort((-named, -np.round(values, 9)))[:most]
        return dict(zip(named[order].tolist(), values[order].tolist(), strict=True))

    def pieces(self, session: int) -> dict[str, float]:
        """What the score of one of the best sessions is made of."""
        found: dict[str, float] = {}
        if (place := self._places.get(session)) is not None:
            found = {name: values.item(place) for name, values in self._ranked.pieces.items()}
        found |= {name: scores[session] for name, scores in self._more.items() if session in scores}
        return {name: round(value, 3) for name, value in found.items() if value}

    def parts(self, session: int) -> list[int]:
        """The parts of one of the best sessions that hold something."""
        if session not in self._places:
            return []
        if len(self._best) == len(self._of):  # every session has one part
            return [self._ranked.parts.item(self._places[session])]
        parts: list[int] = self._ranked.parts[self._of == session].tolist()
        return parts


def _best_parts(session_of: Numbers, scores: Floats) -> Numbers:
    """The places of the best part of each session."""
    ordered = np.sort(session_of)
    if not (ordered[1:] == ordered[:-1]).any():  # as it is but for very long sessions
        return np.arange(len(ordered))
    order = np.lexsort((scores, session_of))
    last = np.append(ordered[1:] != ordered[:-1], True)
    best: Numbers = order[last]
    return best


def _top(scores: Floats, most: int) -> Any:
    return np.argpartition(-scores, most)[:most] if len(scores) > most else np.arange(len(scores))


def strongest(hits: Iterable[Hit]) -> dict[int, float]:
    """By session: the best use of everything that was typed exactly."""
    best: dict[tuple[int, str], float] = {}
    for hit in hits:
        key = (hit.session, hit.what)
        best[key] = max(best.get(key, 0.0), hit.score)
    sums: dict[int, float] = {}
    for (session, _), score in best.items():
        sums[session] = sums.get(session, 0.0) + score
    return sums
