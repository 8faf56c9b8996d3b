"""The words of a text as PostgreSQL's index holds them, made here so that both stores find the same.

As in SQLite's index: letters and digits make words, whatever is between them divides; capitals and accents do not
count, English endings neither, and there are no words that are left out. PostgreSQL's own parser would take `tides.py`
for the name of a host and `<error>` for a tag, and takes about twice as long.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from operator import add

_FIND = re.compile(r"[^\W_]+").findall
_ASCII = {place: chr(place).lower() if chr(place).isalnum() else " " for place in range(128)}

_LONGEST = 255  # letters of a word; longer ones are data
_STEMMED = 30  # letters of a word that may have an English ending
_ROOM = 1_000_000  # bytes of words and places that a vector holds; of a longer text the first part is indexed
_PLACES = 16_383  # a vector counts no further
_KNOWN = 200_000  # words that are remembered

_PLACE = [f":{place} " for place in range(1, _PLACES)]
_FAR = f":{_PLACES} "


def words_of(text: str) -> list[str]:
    """The words of a text in order, in small letters."""
    words = text.translate(_ASCII).split() if text.isascii() else _FIND(text.lower())
    if words and max(map(len, words)) > _LONGEST:
        words = [word for word in words if len(word) <= _LONGEST]
    if len(text) > _ROOM // 8:
        sizes = accumulate(len(word.encode()) + 6 for word in words)
        words = words[: sum(size < _ROOM for size in sizes)]
    return words


class Stems:
    """Words without accents and English endings. `stem` takes the endings off many words at once."""

    def __init__(self, stem: Callable[[Sequence[str]], Iterable[tuple[str, str]]]) -> None:
        self._stem = stem
        self._known: dict[str, str] = {}

    def learn(self, texts: Iterable[Sequence[str]]) -> None:
        """Make the words of these texts known, with one question."""
        if len(self._known) > _KNOWN:
            self._known.clear()
        new = set[str]().union(*texts) - self._known.keys()
        plain = {word: word if word.isascii() else _without_accents(word) for word in new}
        self._known.update(plain)
        asked = {word for word in plain.values() if word.isascii() and word.isalpha() and len(word) <= _STEMMED}
        stems = dict(self._stem(sorted(asked)) if asked else ())
        self._known.update((word, stems[kept]) for word, kept in plain.items() if kept in stems)

    def vector(self, words: Sequence[str]) -> str:
        """The words of a text that were learned, in the form of a `tsvector` with their places."""
        known = self._known
        stems = [known[word] for word in words]
        far = "".join(stem + _FAR for stem in stems[len(_PLACE) :])
        return "".join(map(add, stems, _PLACE)) + far

    def query(self, asked: Iterable[str]) -> str:
        """What a person asks for, in the form of a `tsquery`: every word, and the parts of each side by side."""
        parts = [words_of(word) for word in asked]
        self.learn(parts)
        return " & ".join(f"({' <-> '.join(self._known[word] for word in words)})" for words in parts if words)


def _without_accents(word: str) -> str:
    return "".join(letter for letter in unicodedata.normalize("NFD", word) if not unicodedata.combining(letter))
