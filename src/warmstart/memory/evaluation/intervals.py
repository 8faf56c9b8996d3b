"""How far a share that was counted may be from the true one."""

from __future__ import annotations

from math import sqrt
from statistics import NormalDist
from typing import NamedTuple

LEVEL = 0.95
_Z = NormalDist().inv_cdf((1 + LEVEL) / 2)


class Interval(NamedTuple):
    """Where the true share lies, with a confidence of 95 %."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.low * 100:.0f}–{self.high * 100:.0f}%"


def wilson(hits: int, number: int) -> Interval | None:
    """Wilson's interval for so many hits of a number; nothing for none."""
    if not number:
        return None
    share = hits / number
    middle = share + _Z * _Z / (2 * number)
    half = _Z * sqrt(share * (1 - share) / number + _Z * _Z / (4 * number * number))
    scale = 1 + _Z * _Z / number
    return Interval((middle - half) / scale if hits else 0.0, (middle + half) / scale if hits < number else 1.0)
