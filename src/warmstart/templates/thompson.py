"""How likely each template is to be chosen: mostly what has worked, now and then another.

Thompson sampling chooses a template as often as it is the best by what is known of all of them. How often that is can
be worked out, so nothing is sampled but the choice itself: from the very probabilities that are logged.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from math import exp, log
from typing import NamedTuple

_CELLS = 64
_MIDDLES = [(cell + 0.5) / _CELLS for cell in range(_CELLS)]
_LOGS = [(log(place), log(1 - place)) for place in _MIDDLES]
_MAX_SESSIONS = 200.0  # that count: the distant past does not outweigh a change for ever
# The probability below which one rate is not better than the other. It is asked at every review: of 80 simulated
# templates without any effect, a dozen reviews retired 8 at 0.025 and 4 at 0.005.
_UNLIKELY = 0.005
MIN_OUTCOMES = 8  # known outcomes before harm or benefit can be measured
_TINY = 1e-6


class Belief(NamedTuple):
    """What is known of a success rate: a Beta distribution."""

    a: float
    b: float

    @property
    def mean(self) -> float:
        return self.a / (self.a + self.b)


EVEN = Belief(1.0, 1.0)


def belief(successes: int, failures: int, prior: Belief = EVEN, *, weight: float = 2.0) -> Belief:
    """What is known of a success rate after these outcomes; before them the prior, worth `weight` sessions."""
    a, b = weight * prior.mean + successes, weight * (1 - prior.mean) + failures
    scale = min(1.0, _MAX_SESSIONS / (a + b))
    return Belief(a * scale, b * scale)


def does_harm(successes: int, failures: int, cold: Belief) -> bool:
    """Whether a template has almost certainly done worse than a cold start on the same kind of task."""
    return successes + failures >= MIN_OUTCOMES and better(belief(successes, failures, cold), cold) < _UNLIKELY


def helps(successes: int, failures: int, cold: Belief) -> bool:
    """Whether a template has almost certainly done better than a cold start on the same kind of task."""
    return successes + failures >= MIN_OUTCOMES and better(cold, belief(successes, failures, cold)) < _UNLIKELY


def odds(beliefs: Sequence[Belief], fits: Sequence[float], *, floor: float) -> list[float]:
    """The probability of each to be chosen.

    They are weighted by how well they fit; the share `floor` goes to all alike, so that each is tried sometimes.
    """
    best = being_best(tuple(beliefs), tuple(fits))
    return [(1 - floor) * share + floor / len(best) for share in best]


@lru_cache(maxsize=1024)
def being_best(beliefs: tuple[Belief, ...], fits: tuple[float, ...]) -> tuple[float, ...]:
    """How probable it is for each that its rate times its fit is the highest."""
    if len(beliefs) < 2:
        return (1.0,) * len(beliefs)
    tables = [_Table(each) for each in beliefs]
    shares = []
    for one, (table, fit) in enumerate(zip(tables, fits, strict=True)):
        others = [(other, fit / fits[number]) for number, other in enumerate(tables) if number != one]
        total = 0.0
        for middle, mass in zip(_MIDDLES, table.masses, strict=True):
            if mass > _TINY:
                for other, ratio in others:
                    mass *= other.below(middle * ratio)
                total += mass
        shares.append(total)
    whole = sum(shares)
    return tuple(share / whole for share in shares)


def better(one: Belief, other: Belief) -> float:
    """How probable it is that one rate is higher than another."""
    return being_best((one, other), (1.0, 1.0))[0]


class _Table:
    """A Beta distribution in cells of equal width."""

    def __init__(self, known: Belief) -> None:
        heights = [(known.a - 1) * left + (known.b - 1) * right for left, right in _LOGS]
        highest = max(heights)
        masses = [exp(height - highest) for height in heights]
        whole = sum(masses)
        self.masses = [mass / whole for mass in masses]
        self._below = [0.0, *accumulate(self.masses)]

    def below(self, place: float) -> float:
        """The probability of a lower rate."""
        if place >= 1.0:
            return 1.0
        cell, rest = divmod(place * _CELLS, 1.0)
        return self._below[int(cell)] + self.masses[int(cell)] * rest
