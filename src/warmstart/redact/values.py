"""Does this value look like a secret, or like something that only stands where one would?"""

from __future__ import annotations

import math
import re
from functools import lru_cache

from warmstart.redact.rules import BIGRAMS, PASSWORD_NAMES, PATTERNS

_CLASSES = (("[a-z]", 26), ("[A-Z]", 26), ("[0-9]", 10))


@lru_cache(2048)
def is_placeholder(value: str) -> bool:
    """Whether a value says that a secret belongs here, instead of being one."""
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
    """Whether a value reads as random rather than put together from words."""
    return PATTERNS.hex.fullmatch(value) is not None or surprise(value) >= min_bits


@lru_cache(4096)
def surprise(value: str) -> float:
    """How many more bits a value takes when spelled as words than as random letters and digits.

    Words are spelled by the frequency of letter pairs. A separator between them costs nothing, and digits only cost
    where they begin.
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
    """Whether a value has letters, and digits or signs that names do not have."""
    return any(map(str.isalpha, value)) and any(c.isdigit() or (c not in "_.-:/" and not c.isalpha()) for c in value)


def is_token(value: str) -> bool:
    """Whether a value is one token without words in it."""
    if not PATTERNS.token.fullmatch(value):
        return len(value) >= 12 and has_letters_and_digits(value)
    return is_random(value) or (len(value) >= 12 and PATTERNS.mixed.search(value) is not None)


def is_noise(value: str) -> bool:
    """Whether a value is of letters, digits and many signs, as generated keys and salts are."""
    signs = sum(not c.isalnum() and c not in " _.-/" for c in value)
    if len(value) < 32 or not signs * 6 >= len(value) > value.count(" ") * 10 or PATTERNS.template.search(value):
        return False
    return len(set(value)) >= 20


def is_path(value: str, strict: bool) -> bool:
    """Whether this is a path; if `strict`, one slash between two words is not enough."""
    if strict and value[0] not in "/~." and value.count("/") < 2 and "." not in value:
        return False
    parts = re.split(r"[/\\.]", value)
    return bool(PATTERNS.path.fullmatch(value)) and not any(len(part) >= 12 and is_random(part, 10) for part in parts)
