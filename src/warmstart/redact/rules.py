"""The tables in rules.toml, and the tests that tell a secret from something that only looks like one."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from warmstart.text.scanner import Rule

_TABLES = tomllib.loads(Path(__file__).with_name("rules.toml").read_text(encoding="utf-8"))

# The cost in bits of a letter (0 to 25, 26 for the end of a word) after another (1 to 26, 0 for the start).
BIGRAMS: list[list[float]] = [[(ord(c) - 48) / 2 for c in row] for row in _TABLES["bigrams"]]
PASSWORD_NAMES = frozenset(_TABLES["names"]["passwords"])
SECRET_NAMES = frozenset(_TABLES["names"]["secrets"])
COMMON_NAMES = frozenset(_TABLES["names"]["common"])
SHORT_NAMES = frozenset(_TABLES["names"]["short"])
ENCODED_KEYS: list[str] = _TABLES["encoded_keys"]
CONTEXTS: dict[str, list[tuple[str, list[str], int]]] = _TABLES["contexts"]
ESCAPES: dict[str, list[tuple[str, str]]] = _TABLES["escapes"]


class Span(NamedTuple):
    """The position and kind of a secret."""

    start: int
    end: int
    kind: str


Find = Callable[[str, int], Iterable[Span]]  # from a text and the position of a keyword to findings


class _Patterns:
    """The regular expressions in rules.toml by their names, each compiled when it is first used."""

    def __getattr__(self, name: str) -> re.Pattern[str]:
        pattern = re.compile("".join(_TABLES["patterns"][name]))
        setattr(self, name, pattern)
        return pattern


def _rule(row: list[Any], flags: int = 0) -> Rule:
    kind, keywords, pattern = row[:3]
    for name, meaning in _TABLES["macros"].items():
        pattern = pattern.replace(f"{{{name}}}", meaning)
    return Rule(tuple(keywords), pattern, kind, flags)


PATTERNS = _Patterns()
# With each shape, how many characters before its keyword the key may begin; with each place, how far it reads ahead.
SHAPES: list[tuple[Rule, list[int]]] = [(_rule(row), (row[3:] or [[0]])[0]) for row in _TABLES["shapes"]]
PLACES: list[tuple[Rule, int]] = [(_rule(row, re.IGNORECASE), (row[3:] or [440])[0]) for row in _TABLES["places"]]

_CLASSES = (("[a-z]", 26), ("[A-Z]", 26), ("[0-9]", 10))


@lru_cache(2048)
def is_placeholder(value: str) -> bool:
    """Whether a value is a placeholder for a secret, such as `<your-key>`."""
    if PATTERNS.run.search(value) or PATTERNS.wrapped.match(value) or "EXAMPLE" in value:
        return True
    lower = value.lower()
    if PATTERNS.placeholder.search(lower) or lower.startswith("test") or lower in PASSWORD_NAMES:
        return True
    short = len(value) < (32 if re.fullmatch(r"[0-9a-f]+", lower) else 40)
    if short and ("1234567890" in value or len(PATTERNS.filler.sub("", value)) * 3 < len(value)):
        return True
    return len(set(lower)) <= min(4, len(lower) // 2)


def is_random(value: str, min_bits: float = 7.0) -> bool:
    """Whether a value looks random, rather than built from words."""
    return PATTERNS.hex.fullmatch(value) is not None or surprise(value) >= min_bits


@lru_cache(4096)
def surprise(value: str) -> float:
    """How many more bits it takes to encode a value as words than as random letters and digits.

    The cost of words comes from bigram frequencies. Separators cost nothing, and a run of digits costs two bits.
    """
    words = 0.0
    for part in PATTERNS.word_part.findall(value):
        if part[0].isdigit():
            words += 2
            continue
        words += 2.5
        before = 0
        for letter in part.lower():
            after = ord(letter) - 97
            words += BIGRAMS[before][after]
            before = after + 1
        words += BIGRAMS[before][26]
    size = sum(size for pattern, size in _CLASSES if re.search(pattern, value))
    letters = sum((c.isalnum() and not c.isdigit()) or c in "_-." for c in value)
    return words - letters * math.log2(size) if size else 0.0


def has_letters_and_digits(value: str) -> bool:
    return any(map(str.isdigit, value)) and any(map(str.isalpha, value))


def is_mixed(value: str) -> bool:
    """Whether a value has letters, and digits or punctuation that identifiers do not have."""
    return any(map(str.isalpha, value)) and any(c.isdigit() or (c not in "_.-:/" and not c.isalpha()) for c in value)


def is_token(value: str) -> bool:
    """Whether a value is one token without words in it."""
    if not PATTERNS.token.fullmatch(value):
        return len(value) >= 12 and has_letters_and_digits(value)
    return is_random(value) or (len(value) >= 12 and PATTERNS.mixed.search(value) is not None)


def is_noise(value: str) -> bool:
    """Whether a value has letters, digits and much punctuation, like generated keys and salts."""
    punctuation = sum(not c.isalnum() and c not in " _.-/" for c in value)
    if len(value) < 32 or not punctuation * 6 >= len(value) > value.count(" ") * 10 or PATTERNS.template.search(value):
        return False
    return len(set(value)) >= 20


def is_path(value: str, strict: bool) -> bool:
    """Whether this is a path; if `strict`, one slash between two words is not enough."""
    if strict and value[0] not in "/~." and value.count("/") < 2 and "." not in value:
        return False
    parts = re.split(r"[/\\.]", value)
    return bool(PATTERNS.path.fullmatch(value)) and not any(len(part) >= 12 and is_random(part, 10) for part in parts)
