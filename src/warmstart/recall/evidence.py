"""What recall returns: passages, where they are from, and the words of the query in them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from warmstart.sessions.values import Role
from warmstart.text.words import stem_words, tokenize

_WORD = re.compile(r"[^\W_]+")
_SPACE = re.compile(r"\s")
_MAX_CHARACTERS = 50_000  # of a text that are searched
_MAX_MATCHES = 500
_MAX_WORD = 40  # characters by which an excerpt gets shorter so that it begins and ends with a word


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A passage of a past session. Higher scores are better; they compare within one search only.

    `text` is the relevant part of the message `message_ids[0]`, which `role` wrote at `date`. After a request
    follow the beginning of the reply, whose message is the second, and the commands that were run for it, each after
    `$`.
    `matched` are the words of the query that the passage has; `components` is what the score of its session is made of.
    """

    session_id: str
    native_id: str
    agent: str
    project: str
    date: datetime | None
    role: Role
    score: float
    text: str
    message_ids: tuple[str, ...]
    matched: tuple[str, ...] = ()
    terms: tuple[str, ...] = ()
    components: Mapping[str, float] = field(default_factory=dict)


class Match(NamedTuple):
    """A word of the query in a text."""

    start: int
    end: int
    word: str


class Matcher(NamedTuple):
    """Finds the words of a query in a text, in all their forms, and its names as they were typed."""

    words: Mapping[str, str]  # by stem
    names: tuple[str, ...] = ()  # those that are not words

    @classmethod
    def of(cls, words: Iterable[str], names: Iterable[str] = ()) -> Matcher:
        """A matcher for these words and names."""
        by_stem: dict[str, str] = {}
        for word in words:
            for stem in stem_words(tokenize(word)):
                by_stem.setdefault(stem, word)
        return cls(by_stem, tuple(name for name in dict.fromkeys(names) if not name.isalnum()))

    def find(self, text: str) -> list[Match]:
        """Every match in order; matches do not overlap."""
        text = text[:_MAX_CHARACTERS]
        lower = text.lower()
        found: list[Match] = []
        if len(lower) == len(text):  # otherwise it has a letter whose lower case is longer
            for name in self.names:
                found += (Match(at.start(), at.end(), name) for at in re.finditer(re.escape(name), lower))
        words = list(_WORD.finditer(text))
        if text.isascii():
            stems: list[Iterable[str]] = [(stem,) for stem in stem_words([word[0].lower() for word in words])]
        else:
            stems = [stem_words(tokenize(word[0])) for word in words]
        for word, some in zip(words, stems, strict=True):
            if matched := next((self.words[stem] for stem in some if stem in self.words), ""):
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
        words = [word for stem, word in self.words.items() if stem in stems]
        return tuple(dict.fromkeys([*words, *(name for name in self.names if name in lower)]))

    def excerpt(self, text: str, size: int) -> str:
        """At most `size` characters of a text where most matches are, with a mark where something is left out."""
        text = text.strip()
        if len(text) <= size:
            return text
        start = max(0, min(self._densest(text, size) - size // 6, len(text) - size))
        end = start + size
        if start:
            space = _SPACE.search(text, start, min(len(text), start + _MAX_WORD))
            start = space.end() if space else start
        if end < len(text):
            end = max(text.rfind(" ", start, end), text.rfind("\n", start, end), end - _MAX_WORD)
        return f"{'… ' if start else ''}{text[start:end].strip()}{' …' if end < len(text) else ''}"

    def _densest(self, text: str, size: int) -> int:
        """The start of the stretch that has the most different words of the query."""
        found = self.find(text)[:_MAX_MATCHES]
        best, where, last = 0, 0, 0
        for number, match in enumerate(found):
            last = max(last, number)
            while last < len(found) and found[last].start < match.start + size * 2 // 3:
                last += 1
            different = len({other.word for other in found[number:last]})
            if different > best:
                best, where = different, match.start
        return where
