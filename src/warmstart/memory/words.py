"""The stems of what is remembered: a name like `camelCase` or `python3` is found as a whole and by its parts."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from warmstart.text.words import STOPWORDS, identifier_parts, split_words, stem_words, tokenize

_MAX_WORDS = 2000  # of one text


@lru_cache(maxsize=100_000)
def _word_stems(word: str) -> tuple[str, ...]:
    return tuple(stem_words(tokenize(word) + identifier_parts(word)))


def stems(text: str) -> list[str]:
    """The stems of a text in order."""
    return [stem for word in split_words(text)[:_MAX_WORDS] for stem in _word_stems(word)]


def stems_of(texts: Iterable[str]) -> list[list[str]]:
    """The stems of each text in order."""
    return [stems(text) for text in texts]


def asked(text: str) -> list[tuple[str, ...]]:
    """The words of a question that matter, each once and with its parts; all words where none matters."""
    words = split_words(text)[:_MAX_WORDS]
    telling = [word for word in words if word.lower() not in STOPWORDS] or words
    found: list[tuple[str, ...]] = []
    for word in dict.fromkeys(telling):
        if word.isascii():
            found.append(_word_stems(word))
        else:  # of a script without spaces each pair is a word
            found += [(stem,) for stem in _word_stems(word)]
    return list({word[0]: word for word in reversed(found)}.values())[::-1]


def is_sentence(text: str) -> bool:
    """Whether it has words that only a sentence needs."""
    return any(word.lower() in STOPWORDS for word in split_words(text)[:_MAX_WORDS])
