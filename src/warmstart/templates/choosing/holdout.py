"""Chance that can be repeated: which template is drawn, and which sessions start cold so that effect stays measurable.

A session's id decides, so that a start that is tried again comes out the same; with a seed the seed decides too. Only
without either is it chance. Each question has a number of its own: whether a session is held out has nothing to do with
what it would have started from.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from itertools import accumulate
from secrets import randbits
from typing import Literal

_BITS = 53
_ALL = float(1 << _BITS)

Question = Literal["holdout", "template"]


def drawn(question: Question, session: str, seed: int | None) -> float:
    """A number from 0 up to but not including 1."""
    if not session and seed is None:
        return randbits(_BITS) / _ALL
    said = f"{question}\0{'' if seed is None else seed}\0{session}"
    number = int.from_bytes(blake2b(said.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
    return (number >> 64 - _BITS) / _ALL


def is_held_out(share: float, session: str, seed: int | None = None) -> bool:
    """Whether a session is one of the share that starts cold."""
    return drawn("holdout", session, seed) < share


def pick(odds: Sequence[float], number: float) -> int:
    """The place of the share that a number falls into; the shares sum to 1."""
    return next((place for place, reached in enumerate(accumulate(odds)) if number < reached), len(odds) - 1)
