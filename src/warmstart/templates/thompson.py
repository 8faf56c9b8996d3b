"""The probability of choosing each template: mostly one that has worked, now and then another.

Thompson sampling chooses a template with the probability that it is the best one, given what is known of all of them.
That probability is computed numerically, so that only the final draw is random, with exactly the probabilities logged.
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
_MAX_SESSIONS = 200.0  # that count, so that the distant past cannot outweigh a change forever
# The probability below which one rate is taken to be no better than the other. It is tested at every review: of 80
# simulated templates without any effect, a dozen reviews retired 8 at 0.025 and 4 at 0.005.
_UNLIKELY = 0.005
MIN_OUTCOMES = 8  # known outcomes before harm or benefit can be measured
_TINY = 1e-6


class Belief(NamedTuple):
    """What is known about a success rate: a Beta distribution."""

    a: float
    b: float

    @property
    def mean(self) -> float:
        return self.a / (self.a + self.b)


EVEN = Belief(1.0, 1.0)


def belief(successes: int, failures: int, prior: Belief = EVEN, *, weight: float = 2.0) -> Belief:
    """The posterior of a success rate after these outcomes; the prior counts as `weight` sessions."""
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
    """The probability of choosing each template.

    They are weighted by how well they fit; the share `floor` is split evenly, so that each is tried now and then.
    """
    best = being_best(tuple(beliefs), tuple(fits))
    return [(1 - floor) * share + floor / len(best) for share in best]


@lru_cache(maxsize=1024)
def being_best(beliefs: tuple[Belief, ...], fits: tuple[float, ...]) -> tuple[float, ...]:
    """For each template, the probability that its rate times its fit is the highest."""
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
    """The probability that one rate is higher than another."""
    return being_best((one, other), (1.0, 1.0))[0]


class _Table:
    """A Beta distribution, discretized into cells of equal width."""

    def __init__(self, known: Belief) -> None:
        heights = [(known.a - 1) * left + (known.b - 1) * right for left, right in _LOGS]
        highest = max(heights)
        masses = [exp(height - highest) for height in heights]
        whole = sum(masses)
        self.masses = [mass / whole for mass in masses]
        self._below = [0.0, *accumulate(self.masses)]

    def below(self, place: float) -> float:
        """The probability that the rate is lower."""
        if place >= 1.0:
            return 1.0
        cell, rest = divmod(place * _CELLS, 1.0)
        return self._below[int(cell)] + self.masses[int(cell)] * rest
