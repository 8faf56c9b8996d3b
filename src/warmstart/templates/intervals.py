"""How far counted shares may be from the true ones, with a confidence of 95 %. The unit is the session."""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

_Z = 1.959963984540054  # of the normal distribution, for 95 %; `statistics` knows it too and is slow to load


class Interval(NamedTuple):
    """Where the true share, or difference of shares, lies."""

    low: float
    high: float


def wilson(hits: int, number: int) -> Interval | None:
    """Wilson's interval for so many hits of a number; nothing for none."""
    if not number:
        return None
    share, bend = hits / number, _Z * _Z / number
    middle = share + bend / 2
    half = _Z * sqrt(share * (1 - share) / number + bend / (4 * number))
    low, high = (middle - half) / (1 + bend), (middle + half) / (1 + bend)
    return Interval(low if hits else 0.0, high if hits < number else 1.0)


def newcombe(hits: int, number: int, other_hits: int, other_number: int) -> Interval | None:
    """Newcombe's interval (his method 10) for the difference of two shares; nothing where either has no number."""
    one, other = wilson(hits, number), wilson(other_hits, other_number)
    if one is None or other is None:
        return None
    share, other_share = hits / number, other_hits / other_number
    difference = share - other_share
    below = sqrt((share - one.low) ** 2 + (other.high - other_share) ** 2)
    above = sqrt((one.high - share) ** 2 + (other_share - other.low) ** 2)
    return Interval(difference - below, difference + above)
