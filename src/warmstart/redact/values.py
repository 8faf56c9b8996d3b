"""Does this value look like a secret, or like something that only stands where one would?"""

from __future__ import annotations

import math
import re
from collections import Counter

REPLACEMENT = re.compile(r"\[redacted:[a-z0-9-]{1,40}:[0-9a-f]{4}\]")

_RUN = re.compile(r"([xX*•_#?-])\1{3,}|\.{3}|…")
_FILLER = re.compile(r"([0-9A-Za-z])\1{7,}|0?123456(?:7890?)?|abcdef(?:gh)?")
_MASKED = re.compile(r"[xX]{5}|\*{3}|\.{3}|PUT_YOUR|DUMMY|(?i:your[-_])")
_PLACEHOLDER = re.compile(
    r"(?:^|[^a-z])(?:your|example|sample|placeholder|dummy|changeme|change-me|change_me|fake|foo|bar|baz|todo|"
    r"insert|replace|redacted|masked|hidden|none|null|undefined|true|false|xxx|secret-?here|goes-?here|here)(?:[^a-z]|$)"
)
_WRAPPED = re.compile(
    r"[<{\[(].*|[$%](?=[$\w{(]).*|&lt;.*|.*[<({\[][\w .,:$'-]*[>})\]]+$|.*<[a-zA-Z].*"
    r"|.*\$\{[\w.: -]*(?:\}|$).*|.*\{\{[^{}]*(?:\}\}|$).*"
)
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_HEX = re.compile(r"[0-9a-f]+", re.IGNORECASE)
_ORDERED = "0123456789abcdefghijklmnopqrstuvwxyz"


def is_placeholder(value: str) -> bool:
    """Whether a value says that a secret belongs here, instead of being one."""
    if REPLACEMENT.search(value) or _RUN.search(value) or _WRAPPED.match(value):
        return True
    lower = value.lower()
    if _PLACEHOLDER.search(lower) or lower.startswith("test"):
        return True
    short = len(value) < (32 if _HEX.fullmatch(value) else 40)
    if short and ("1234567890" in value or len(_FILLER.sub("", value)) * 3 < len(value)):
        return True
    return len(set(lower)) <= 4 or lower in _ORDERED or lower in _ORDERED * 2


def is_dummy(key: str) -> bool:
    """Whether a key of a known shape is one that a manual would show: mostly `x`, or Amazon's own examples."""
    return bool(_MASKED.search(key)) or (key.endswith("EXAMPLE") and key.startswith(("AKIA", "ASIA")))


def is_uuid(value: str) -> bool:
    return _UUID.fullmatch(value) is not None


def entropy(value: str) -> float:
    """Bits a character, by the frequency of the value's own characters."""
    length = len(value)
    return -sum(count / length * math.log2(count / length) for count in Counter(value).values()) if length else 0.0
