"""Names in a text that mean exactly what was typed: files, flags, error codes, identifiers, and what is quoted."""

from __future__ import annotations

import re
from typing import NamedTuple

from warmstart.text.words import MAX_WORD, STOPWORDS, identifier_parts, root_word, split_words, tokenize

MAX_NAMES = 4
_MAX_IDENTIFIER = 40  # letters; longer mixed-case words are data
_QUOTED = re.compile(r'`([^`\n]{3,120})`|"([^"\n]{3,120})"')
_TYPED = re.compile(r"[^\s\"'`“”‘’(),;<>\[\]{}|!?*…—]{3,200}")
_JOINED = re.compile(r"[^\W_][-._/\\:@+=~#$%&]+[^\W_]|^(?:--?|#|\.|/|~/|\$|@)[^\W_]")
_CODE = re.compile(r"^(?=.*[A-Z])[A-Z0-9_]{4,}$|^(?=.*\d)(?=.*[A-Za-z])[A-Za-z0-9_]{4,}$|_")
_MIXED_CASE = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2}[A-Z0-9]*[a-z]|[0-9][a-z]")


class Name(NamedTuple):
    """A name in lower case, and the stems of its words."""

    text: str
    stems: tuple[str, ...]


def name_parts(text: str) -> list[str]:
    """The parts of names such as `readConfigFile`."""
    if text.isascii() and not _MIXED_CASE.search(text):
        return []
    parts: list[str] = []
    for word in dict.fromkeys(split_words(text)):
        plain = word.islower() or word.isupper() or word.istitle() or word.isdigit()
        if not plain and len(word) <= _MAX_IDENTIFIER:
            parts += identifier_parts(word)
    return parts


def find_names(text: str) -> tuple[Name, ...]:
    """The names in a text, at most `MAX_NAMES`."""
    found: dict[str, Name] = {}
    quoted = [first or second for first, second in _QUOTED.findall(text)]
    typed = [word.rstrip(".:,") if word[0] in "./" else word.strip(".:,/") for word in _TYPED.findall(text)]
    for candidate in [*quoted, *(word for word in typed if _JOINED.search(word) or _CODE.search(word))]:
        key = candidate.strip().lower()
        if key and key not in found:
            words = tokenize(candidate)
            if words and not all(word in STOPWORDS or len(word) >= MAX_WORD for word in words):
                found[key] = Name(key, tuple(map(root_word, words[:20])))
        if len(found) >= MAX_NAMES:
            break
    return tuple(found.values())
