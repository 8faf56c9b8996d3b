"""Finding the words of a query in a text, and the part of a long text that has the most of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from warmstart.text.words import stem_words, tokenize

_WORD = re.compile(r"[^\W_]+")
_MAX_CHARACTERS = 50_000  # of a text that are searched
_MAX_MATCHES = 500


class Match(NamedTuple):
    """A word of the query in a text."""

    start: int
    end: int
    word: str


class Matcher:
    """Finds the words of a query in a text, in all their forms, and its names as they were typed."""

    def __init__(self, words: Iterable[str], names: Iterable[str] = ()) -> None:
        unique = list(dict.fromkeys(words))
        pairs = [(stem, word) for word in unique for stem in stem_words(tokenize(word))]
        self._words: Mapping[str, str] = dict(reversed(pairs))
        self._names = [name for name in dict.fromkeys(names) if not name.isalnum()]

    def find(self, text: str) -> list[Match]:
        """Every match in order; matches do not overlap."""
        text = text[:_MAX_CHARACTERS]
        lower = text.lower()
        found = [
            Match(at.start(), at.end(), name) for name in self._names for at in re.finditer(re.escape(name), lower)
        ]
        if len(lower) != len(text):  # a letter whose lower case is longer
            found = []
        words = list(_WORD.finditer(text))
        if text.isascii():
            stems: list[Iterable[str]] = [(stem,) for stem in stem_words([word[0].lower() for word in words])]
        else:
            stems = [stem_words(tokenize(word[0])) for word in words]
        for word, some in zip(words, stems, strict=True):
            if matched := next((self._words[stem] for stem in some if stem in self._words), ""):
                found.append(Match(word.start(), word.end(), matched))
        kept: list[Match] = []
        for match in sorted(found, key=lambda match: (match.start, -match.end)):
            if not kept or match.start >= kept[-1].end:
                kept.append(match)
        return kept

    def matched(self, text: str) -> tuple[str, ...]:
        """The words and names of the query that a text has, each once."""
        stems = set(stem_words(tokenize(text)))
        lower = text.lower()
        words = [word for stem, word in reversed([*self._words.items()]) if stem in stems]
        return tuple(dict.fromkeys([*words, *(name for name in self._names if name in lower)]))


def excerpt(text: str, matcher: Matcher, size: int) -> str:
    """At most `size` characters of a text, cut between words, with a mark where something is left out."""
    text = text.strip()
    if len(text) <= size:
        return text
    start = max(0, min(_densest(text, matcher, size) - size // 6, len(text) - size))
    end = start + size
    if start:
        space = re.compile(r"\s").search(text, start, min(len(text), start + 40))
        start = space.end() if space else start
    if end < len(text):
        end = max(text.rfind(" ", start, end), text.rfind("\n", start, end), end - 40)
    return f"{'… ' if start else ''}{text[start:end].strip()}{' …' if end < len(text) else ''}"


def _densest(text: str, matcher: Matcher, size: int) -> int:
    """The start of the stretch that has the most different words of the query."""
    found = matcher.find(text)[:_MAX_MATCHES]
    best, where, last = 0, 0, 0
    for number, match in enumerate(found):
        last = max(last, number)
        while last < len(found) and found[last].start < match.start + size * 2 // 3:
            last += 1
        different = len({other.word for other in found[number:last]})
        if different > best:
            best, where = different, match.start
    return where
