"""The tables in rules.toml, and what a rule finds."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from warmstart.text.scanner import Rule

_TABLES = tomllib.loads(Path(__file__).with_name("rules.toml").read_text(encoding="utf-8"))

# Bits by the letter before (1 to 26, 0 for none) and the letter after (0 to 25, 26 for none).
BIGRAMS: list[list[float]] = [[(ord(c) - 48) / 2 for c in row] for row in _TABLES["bigrams"]]
PASSWORD_NAMES = frozenset(_TABLES["names"]["passwords"])
SECRET_NAMES = frozenset(_TABLES["names"]["secrets"])
COMMON_NAMES = frozenset(_TABLES["names"]["common"])
SHORT_NAMES = frozenset(_TABLES["names"]["short"])
ENCODED_KEYS: list[str] = _TABLES["encoded_keys"]
CONTEXTS: dict[str, list[tuple[str, list[str], int]]] = _TABLES["contexts"]
ESCAPES: dict[str, list[tuple[str, str]]] = _TABLES["escapes"]


class Span(NamedTuple):
    """Where a secret stands and what kind it is."""

    start: int
    end: int
    kind: str


Find = Callable[[str, int], Iterable[Span]]  # what it finds in a text where a keyword stands


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
# With how many characters before its keyword a key may begin, and with how many a rule reads ahead.
SHAPES: list[tuple[Rule, list[int]]] = [(_rule(row), (row[3:] or [[0]])[0]) for row in _TABLES["shapes"]]
PLACES: list[tuple[Rule, int]] = [(_rule(row, re.IGNORECASE), (row[3:] or [440])[0]) for row in _TABLES["places"]]
