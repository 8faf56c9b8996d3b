"""Whether a text of Honcho's repeats something that is no longer true.

Honcho draws conclusions in its own words, and keeps them when what they were drawn from is superseded or deleted. What
a value was about is remembered as digests of its words, so that a deleted value is known again without being kept.
A conclusion that is about it is not shown: rather one too few than one that is false.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from hashlib import blake2b
from typing import NamedTuple

from warmstart.memory.words import asked


class Retired(NamedTuple):
    """What a value was about: digests of its words, and of those that tell it from what is true now."""

    words: frozenset[str]
    telling: frozenset[str]


def telling(text: str) -> list[str]:
    """The words of a text that say something, and their parts, without their endings, each once."""
    return list(dict.fromkeys(part for word in asked(text) for part in word))


def words(text: str) -> frozenset[str]:
    """Digests of the words that say something."""
    return frozenset(blake2b(word.encode(), digest_size=6).hexdigest() for word in telling(text))


def retired(value: str, now: Collection[str]) -> Retired:
    """What a value was about that is no longer true, when these are the words of what is."""
    said = words(value)
    return Retired(said, said - frozenset(now) or said)


def is_stale(text: str, gone: Iterable[Retired]) -> bool:
    """Whether a text says what is no longer true: all that tells it, and half of the rest."""
    said = words(text)
    return any(each.telling and each.telling <= said and 2 * len(each.words & said) >= len(each.words) for each in gone)
