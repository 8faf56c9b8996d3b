"""A question taken apart: its words, and what in it is typed exactly as it stands in a file or an error."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from warmstart.recall.engine import Engine, Word
from warmstart.recall.preparing import STOPWORDS, asked
from warmstart.sessions.values import clean

_MOST = 20_000  # characters of a long question that are looked at
_LEAST = 300
_A_SECOND = 700_000  # of them are looked at in a second, of other than ASCII a tenth
_WORDS = 400  # different ones
_LONGEST = 100  # letters of a word; longer ones are data
_EXACT = 4
_QUOTED = re.compile(r'`([^`\n]{3,120})`|"([^"\n]{3,120})"')
_TYPED = re.compile(r"[^\s\"'`“”‘’(),;<>\[\]{}|!?*…—]{3,200}")
_JOINED = re.compile(r"[^\W_][-._/\\:@+=~#$%&]+[^\W_]|^(?:--?|#|\.|/|~/|\$|@)[^\W_]")
_CODE = re.compile(r"^(?=.*[A-Z])[A-Z0-9_]{4,}$|^(?=.*\d)(?=.*[A-Za-z])[A-Za-z0-9_]{4,}$|_")


class Exact(NamedTuple):
    """Something to be found as it was typed, and the words that it consists of for the index."""

    text: str
    words: tuple[Word, ...]


class Query(NamedTuple):
    """What is asked for."""

    text: str
    words: tuple[Word, ...]
    exact: tuple[Exact, ...]


def parse(text: str, engine: Engine, seconds: float | None = None) -> Query:
    """Take a question apart. Whatever was typed, this gives something, be it nothing to look for.

    Of a long one the beginning and the end are looked at; with `seconds`, as much as can be in about that time.
    """
    most = _MOST
    if seconds is not None:
        pace = _A_SECOND if text.isascii() else _A_SECOND / 10
        most = min(_MOST, max(_LEAST, int(seconds * pace)))
    if len(text) > most:
        text = f"{text[: most * 4 // 5]} {text[-most // 5 :]}"
    text = clean(text)
    found = {word.stem: word for word in engine.words(asked(text)) if len(word.word) <= _LONGEST}
    told = [word for word in found.values() if word.word not in STOPWORDS]
    words = (told or list(found.values()))[:_WORDS]
    return Query(text, tuple(words), tuple(_exact(text, engine)))


def _exact(text: str, engine: Engine) -> list[Exact]:
    found: dict[str, Exact] = {}
    quoted = (first or second for first, second in _QUOTED.findall(text))
    typed = (word.rstrip(".:,") if word[0] in "./" else word.strip(".:,/") for word in _TYPED.findall(text))
    for candidate in [*quoted, *(word for word in typed if _is_name(word))]:
        key = candidate.strip().lower()
        if key and key not in found:
            words = engine.words(candidate)
            if words and not all(word.word in STOPWORDS for word in words):
                found[key] = Exact(key, tuple(words[:20]))
        if len(found) >= _EXACT:
            break
    return list(found.values())


def _is_name(word: str) -> bool:
    if word.isalpha() and not word.isupper():  # most words, and neither pattern would find something
        return False
    return bool(_JOINED.search(word) or _CODE.search(word))


def rarest(words: Sequence[Word], frequencies: dict[str, int], budget: int, most: int) -> list[Word]:
    """The words by rising frequency while all their lines together stay within the budget.

    At least one is known to stand somewhere, if any does: a word that was mistyped must not keep out all others.
    """
    chosen: list[Word] = []
    used, known = 0, False
    for word in sorted(words, key=lambda word: frequencies.get(word.stem, 1)):
        used += frequencies.get(word.stem, 1)
        if len(chosen) >= most or (known and used > budget):
            break
        chosen.append(word)
        known = known or word.stem in frequencies
    return chosen
