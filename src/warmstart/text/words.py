"""The one tokenizer and the one stemmer, so that every index and every query agree.

Words are runs of letters and digits; everything else, including the underscore, separates them. Case and accents are
ignored. Scripts without spaces between words (Chinese, Japanese, Korean, Thai and others) are split into character
bigrams. Stems are cut at 64 characters: longer words are data, and can still be found by their beginning.
"""

from __future__ import annotations

import re
import unicodedata
from _thread import allocate_lock  # `threading` takes milliseconds to load
from functools import cache, lru_cache

from warmstart.text.irregular import BASES

TYPE_CHECKING = False  # `typing` itself takes milliseconds to load
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Find = Callable[[str], Any]

MAX_WORD = 64
_MIN_STEMMED, _MAX_STEMMED = 3, 30  # letters; Porter would turn `s` into nothing and `is` into `i`
_MAX_CACHED = 200_000

_UNSPACED = (
    "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3041-\u30fa\u30fc-\u30ff"
    "\u3100-\u318f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003134f"
)
_RANGES = tuple((_UNSPACED[at], _UNSPACED[at + 2]) for at in range(0, len(_UNSPACED), 3))
_ASCII = bytes(range(128))
_LOWER = bytes(ord(chr(byte).lower()) if byte < 128 and chr(byte).isalnum() else ord(" ") for byte in range(256))
_ASCII_WORDS = re.compile("[A-Za-z0-9]+").findall
_WORDS = re.compile(r"[^\W_]+").findall
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+").findall

_STOPWORDS = """
    a about above after again all also am an and any are aren as at be because been before being below between both but
    by can could couldn d did didn do does doesn doing don done down during each else few for from further get give had
    hadn has hasn have haven having he her here hers him his how i if in into is isn it its just know let ll m may me
    might mine more most must my no nor not of off on once onto or other our ours out over own please re remember s said
    same say shall she should shouldn so some such t tell than that the their theirs them then there these they this
    those through to too under until up us used ve very was wasn we were weren what when where which while who whom
    whose why will with won would wouldn yes you your yours
"""
STOPWORDS = frozenset(_STOPWORDS.split())


_ACCENTS = re.compile("[\u0300-\u036f]+")


@cache
def _mixed_words() -> Find:
    """Splits text with scripts without spaces. Compiling the pattern takes longer than a search."""
    return re.compile(rf"[{_UNSPACED}]+|[^\W_{_UNSPACED}]+").findall


def tokenize(text: str) -> list[str]:
    """The words of a text in order, in lower case and without accents."""
    if text.isascii() or not any(map(_is_letter, _other_characters(text))):
        data = text.encode(errors="replace")
        return data.translate(_LOWER).decode("ascii").split()  # drops dashes, arrows and emoji
    words: list[str] = []
    for word in split_words(text):
        words += (word,) if word.isascii() else _fold(word)
    return list(map(str.lower, words))


def _other_characters(text: str) -> set[str]:
    """The characters of a text that are not ASCII."""
    return set(text.encode(errors="replace").translate(None, _ASCII).decode())


def _is_letter(character: str) -> bool:
    return character.isalnum() or "\u0300" <= character <= "\u036f" or _is_unspaced(character)


@lru_cache(maxsize=10_000)
def _is_unspaced(character: str) -> bool:
    return any(first <= character <= last for first, last in _RANGES)


def split_words(text: str) -> list[str]:
    """The words of a text as written; a run of a script without spaces is one word."""
    text = text if text.isascii() else _normalize(text)
    if text.isascii():
        return _ASCII_WORDS(text)
    return _mixed_words()(text) if any(map(_is_unspaced, _other_characters(text))) else _WORDS(text)


def _normalize(text: str) -> str:
    for character in _other_characters(text):
        if not _is_letter(character):
            text = text.replace(character, " ")  # without dashes, quotes and so on most English is ASCII
    return text if text.isascii() else _ACCENTS.sub("", unicodedata.normalize("NFKC", text))


@lru_cache(maxsize=10_000)
def _fold(word: str) -> tuple[str, ...]:
    if _is_unspaced(word[0]):
        return tuple(word[at : at + 2] for at in range(len(word) - 1)) or (word,)
    letters = unicodedata.normalize("NFD", word.lower())
    return ("".join(letter for letter in letters if not unicodedata.combining(letter)),)


def identifier_parts(word: str) -> list[str]:
    """The parts of a name such as `camelCase` or `python3`, in lower case; none for a plain word."""
    if not word.isascii() or (word.isalpha() and (word.islower() or word.istitle())):
        return []
    parts = _PARTS(word)
    if len(parts) < 2:
        return []
    return [part.lower()[:MAX_WORD] for part in parts if len(part) > 1 or part.isdigit()]


class _Stems(dict[str, str]):
    """A cache of stems. The lock is there because PyStemmer's objects must not be shared between threads."""

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._porter: Any = None

    def __missing__(self, word: str) -> str:
        stem = word[:MAX_WORD]
        if _MIN_STEMMED <= len(word) <= _MAX_STEMMED and word.isascii() and word.isalpha():
            with self._lock:
                if self._porter is None:
                    from Stemmer import Stemmer  # deferred: a hook that stems nothing need not load it

                    self._porter = Stemmer("porter", 0)
                stem = self._porter.stemWord(word)
        if len(self) >= _MAX_CACHED:
            self.clear()
        if len(word) <= MAX_WORD:
            self[word] = stem
        return stem


stem_word = _Stems().__getitem__  # a word without its English ending; one that is not English is unchanged


def root_word(word: str) -> str:
    """The stem of a word's base form: `bought`, `buys` and `buying` give `buy`."""
    return stem_word(BASES.get(word, word))


def distinct_stems(text: str) -> str:
    """The distinct stems of a text, in any order, separated by spaces."""
    return " ".join(map(stem_word, set(tokenize(text))))


def topic_terms(text: str) -> list[str]:
    """What a text is about: the roots of its words and of the parts of its identifiers, without stopwords."""
    words: list[str] = []
    for word in split_words(text):
        if word.isascii():
            words += identifier_parts(word) or (word.lower(),)
        else:
            words += tokenize(word)
    return [root_word(word) for word in words if len(word) > 1 and word not in STOPWORDS]
