"""The telling part of a text: where most of the words that were asked for stand together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_WORD = re.compile(r"[^\W_]+")
_HEAD = 3  # letters that a word must share with another to be taken for the same
_ENDING = 4  # letters by which it may be longer
_LOOKED_AT = 50_000  # characters of a long text
_ASCII = "".join(chr(number).lower() if chr(number).isalnum() else " " for number in range(128))


class Found(NamedTuple):
    """A word in a text that was asked for."""

    start: int
    end: int
    word: str  # as it was asked for


class Marker:
    """Finds the words that were asked for in a text, with other endings too, and what was typed exactly."""

    def __init__(self, words: Iterable[str], exact: Iterable[str] = ()) -> None:
        self._starts: dict[str, str] = {}
        self._whole: dict[str, str] = {}
        self._typed = [each for each in exact if not each.isalnum()]
        for word in words:
            if not word.isascii():
                self._typed.append(word)  # may be a part of a run without spaces
            elif len(word) < _HEAD or not word.isalpha():
                self._whole[word] = word
            else:
                self._starts[word[: _kept(word)]] = word
        self._heads = {word[:_HEAD] for word in (*self._starts, *self._whole)}
        self._lengths = sorted({len(start) for start in self._starts}, reverse=True)

    def find(self, text: str) -> Iterator[Found]:
        """Every such word in the order in which they stand; they do not overlap."""
        small = text[:_LOOKED_AT].lower()
        if len(small) != min(len(text), _LOOKED_AT):  # a letter that has a longer small form
            small = text[:_LOOKED_AT]
        found = [Found(start, start + len(typed), typed) for typed in self._typed for start in _places(small, typed)]
        words = ((m, self._asked(m[0])) for m in _WORD.finditer(small) if m[0][:_HEAD] in self._heads)
        found += [Found(match.start(), match.end(), word) for match, word in words if word]
        end = 0
        for each in sorted(found, key=lambda each: (each.start, -each.end)):
            if each.start >= end:
                end = each.end
                yield each

    def matched(self, text: str) -> tuple[str, ...]:
        """The words in a text that were asked for, each once, in the order in which they first stand."""
        if self._typed or not text.isascii() or len(text) > _LOOKED_AT:
            return tuple(dict.fromkeys(each.word for each in self.find(text)))
        words = dict.fromkeys(text.translate(_ASCII).split())
        asked = (self._asked(word) for word in words if word[:_HEAD] in self._heads)
        return tuple(dict.fromkeys(word for word in asked if word))

    def _asked(self, word: str) -> str:
        if word in self._whole:
            return self._whole[word]
        for length in self._lengths:
            asked = self._starts.get(word[:length])
            if asked and len(word) >= length and len(word) <= len(asked) + _ENDING:
                return asked
        return ""


def _kept(word: str) -> int:
    """How many letters of a word an ending leaves alone: `tries` and `trying` are one word."""
    if len(word) > 6:
        return len(word) - 3
    return len(word) - 1 if len(word) > 4 else len(word)


def _places(text: str, part: str) -> Iterator[int]:
    start = text.find(part)
    while start >= 0:
        yield start
        start = text.find(part, start + len(part))


def excerpt(text: str, marker: Marker, size: int) -> str:
    """At most `size` characters of a text and two marks of what was left out, cut between words."""
    text = text.strip()
    if len(text) <= size:
        return text
    start = max(0, min(_densest(text, marker, size) - size // 6, len(text) - size))
    end = start + size
    if start:
        start = _next_word(text, start)
    if end < len(text):
        end = max(text.rfind(" ", start, end), text.rfind("\n", start, end), end - 40)
    return f"{'… ' if start else ''}{text[start:end].strip()}{' …' if end < len(text) else ''}"


def _densest(text: str, marker: Marker, size: int) -> int:
    """Where a stretch of this size begins that holds the most different words."""
    found = list(marker.find(text))[:500]
    best, where, last = 0, 0, 0
    for number, each in enumerate(found):
        last = max(last, number)
        while last < len(found) and found[last].start < each.start + size * 2 // 3:
            last += 1
        kinds = len({other.word for other in found[number:last]})
        if kinds > best:
            best, where = kinds, each.start
    return where


def _next_word(text: str, start: int) -> int:
    """The beginning of the next word, if one begins nearby."""
    found = re.compile(r"\s").search(text, start, min(len(text), start + 40))
    return found.end() if found else start
