"""The telling part of a text: where most of the words that were asked for stand together."""

from __future__ import annotations

import re
from collections.abc import Iterable

_SHORTEST = 4  # letters that a word must share with its stem to be taken for the same


def pattern(words: Iterable[str]) -> re.Pattern[str] | None:
    """What finds these words in a text, with other endings too."""
    starts = sorted({_start(word) for word in words if word}, key=len, reverse=True)
    if not starts:
        return None
    return re.compile("|".join(starts), re.IGNORECASE)


def _start(word: str) -> str:
    if not word.isascii():
        return re.escape(word)
    if not word.isalnum():
        return re.escape(word)
    if len(word) <= _SHORTEST or not word.isalpha():
        return rf"(?<![^\W_]){re.escape(word)}(?![^\W_])"
    kept = max(_SHORTEST, len(word) - 3) if len(word) > 6 else len(word) - 1
    return rf"(?<![^\W_]){re.escape(word[:kept])}[^\W_]*"


def excerpt(text: str, words: re.Pattern[str] | None, size: int) -> str:
    """At most `size` characters of a text and two marks of what was left out, cut between words."""
    text = text.strip()
    if len(text) <= size:
        return text
    first = _densest(text, words, size) if words is not None else 0
    start = max(0, min(first - size // 6, len(text) - size))
    end = start + size
    if start:
        start = _next_space(text, start)
    if end < len(text):
        end = max(text.rfind(" ", start, end), text.rfind("\n", start, end), end - 40)
    cut = text[start:end].strip()
    return f"{'… ' if start else ''}{cut}{' …' if end < len(text) else ''}"


def _densest(text: str, words: re.Pattern[str], size: int) -> int:
    """Where a stretch of this size begins that holds the most different words."""
    found = [(match.start(), match[0].lower()[:5]) for match in words.finditer(text)][:500]
    best, where, last = 0, 0, 0
    for number, (start, _) in enumerate(found):
        last = max(last, number)
        while last < len(found) and found[last][0] < start + size * 2 // 3:
            last += 1
        kinds = len({word for _, word in found[number:last]})
        if kinds > best:
            best, where = kinds, start
    return where


def _next_space(text: str, start: int) -> int:
    """The beginning of the next word, if one begins nearby."""
    found = re.compile(r"\s").search(text, start, min(len(text), start + 40))
    return found.end() if found else start
