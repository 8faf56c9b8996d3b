"""Keys made of the first words of a text. Hooks load this module, so it imports little."""

from __future__ import annotations

import re

_MAX_WORDS, _MAX_CHARACTERS = 6, 80


def make_key(text: str, section: str = "") -> str:
    """A key made of the first words of a text, after the heading it is under. Redact the text before."""
    words = f"{section} {' '.join(text.split()[:_MAX_WORDS])}".lower()
    if not words.isascii():
        import unicodedata

        plain = unicodedata.normalize("NFKD", words)
        words = "".join(letter for letter in plain if not unicodedata.combining(letter))
    return "_".join(re.findall(r"[^\W_]+", words))[:_MAX_CHARACTERS].rstrip("_") or "note"


def describe(key: str, value: str) -> str:
    """An entry as one text, without a key that only repeats the value."""
    return value if key == make_key(value) else f"{key}: {value}"
