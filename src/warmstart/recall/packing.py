"""A line of the index as one number, so that ranking needs no look at any other table.

From the left: the number of the part of a session, the place of the line in it, its field, and a class of its length.
Places begin at 2, so that neighbours of neighbours still have numbers of the same part.
"""

from __future__ import annotations

from math import log2

FIELDS = ("user", "assistant", "reasoning", "edits", "commands", "lookups")
SAID = 2  # the first fields are what was said, the others what was done

PLACES = 65_000  # lines of a kind in a part; a longer session has several parts
PART, PLACE, FIELD = 24, 8, 4
FIRST = 2
GONE = 255  # in the lengths of a part: this line was removed

_CHARACTERS = 5.0  # of a word, with the space behind it
LENGTHS = tuple(2 ** (size / 2) for size in range(16))  # words in a line of each class


def words_in(text: str) -> float:
    """About how many words a text has; counting them would cost as much as indexing them."""
    return max(1.0, len(text) / _CHARACTERS)


def length_class(words: float) -> int:
    """The class of a line's length: half a power of two, and no further than 181 words."""
    return min(15, int(2 * log2(max(words, 1.0))))


def pack(part: int, place: int, field: int, length: int) -> int:
    """The number of a line."""
    return part << PART | (place + FIRST) << PLACE | field << FIELD | length
