"""Whether text from outside may be carried: what a tool, a file, a page or an error said is never an instruction.

What is looked for are orders to a reader, signs that cut a conversation into parts, commands that run what they fetch,
and whatever hides such things: characters that nobody sees, letters that look like others, encodings. The price is that
a harmless sentence of the kind (`always run the tests` in somebody's README) is not carried either.
"""

from __future__ import annotations

import re
from functools import lru_cache

from warmstart.templates import languages, roles, wording
from warmstart.templates.disguises import spread, undisguised
from warmstart.templates.encoded import undone
from warmstart.templates.programs import Risk
from warmstart.templates.risks import risk
from warmstart.templates.scanning import Scan
from warmstart.templates.unseen import conceals, folded, plain, unseen, without_signs

__all__ = ["Risk", "cuts_in", "is_tool_name", "risk", "suspicious", "unseen", "without_reminder"]

_DEPTH = 2  # encodings within encodings that are undone
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:/-]{0,127}")
_FETCHES = re.compile(
    r"(?i)(?:run|exec|pipe|first|always).*(?:curl|wget)|(?:curl|wget).*(?:first|always|[_-](?:ba)?sh\b)"
)
# A sentence: `role_system_content_run_setup_first`.
_ORDERS = re.compile(
    r"(?i)(?<![a-z])(?:inst|system|assistant|always|remember|ignore|policy)[_-].*[_-](?:run|exec|execute|call|bash|policy)[_-]"
    r"|(?<![a-z])(?:run|exec|execute)[_-].*[_-]first(?![a-z])|(?:inst|system)[_-]+(?:run|exec|new)[_-]"
)
_MOST_WORDS = 9  # of a tool's own name
_ESCAPE = re.compile(r"\\{1,4}u([0-9a-fA-F]{4})")
_REMINDER = re.compile(r"\s*<system-reminder>(?:(?!<system-reminder>).)*</system-reminder>\s*\Z", re.DOTALL)
# Everything that is no letter or digit parts words; what is not ASCII stays.
_APART = bytes(code if chr(code).isalnum() or code > 127 else 32 for code in range(256))
_WORDS = Scan((*wording.WORDS, *languages.WORDS))
_SIGNS = Scan((*roles.PARTS, *roles.HINTS, *roles.FETCHED, roles.REMEMBERED))
_PARTS = Scan((*roles.PARTS, *roles.FETCHED))
_HARMFUL = Scan(wording.HARMFUL)
_NATIVE = Scan(languages.NATIVE)


def suspicious(text: str) -> str | None:
    """Why a text from outside looks like an instruction or hides something; `None` where it does not."""
    text = _unescaped(text)
    return _hides(text) or _said(text, _DEPTH)


def cuts_in(text: str) -> str | None:
    """Why a text of anybody could be taken for another part of a conversation, or asks for what no session is to do.

    A person may well give orders, but not to ignore others, to run what is fetched, or to send secrets away.
    """
    text = _unescaped(text)
    small = folded(plain(text))
    return (
        _hides(text)
        or _PARTS.first(small.encode("utf-8", "replace"))
        or _HARMFUL.first(_parted(without_signs(small).encode("utf-8", "replace")))
    )


@lru_cache(maxsize=1024)
def is_tool_name(name: str) -> bool:
    """Whether a name is one that a tool can have, and not a sentence."""
    if not _NAME.fullmatch(name) or _FETCHES.search(name) or _ORDERS.search(name):
        return False
    return len(re.split(r"[_-]+", name.rsplit("__", 1)[-1])) <= _MOST_WORDS and suspicious(name) is None


def without_reminder(text: str) -> str:
    """A result without the note that its host put behind it for its own model."""
    while text.rstrip().endswith("</system-reminder>") and (found := _REMINDER.search(text)):
        text = text[: found.start()]
    return text


def _unescaped(text: str) -> str:
    """The text with the characters that JSON writes as numbers."""
    if "\\u" not in text:
        return text
    units = _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)
    return units.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _hides(text: str) -> str | None:
    if unseen(text):
        return "has characters that nobody sees"
    return "has a part that a terminal hides" if conceals(text) else None


def _said(text: str, depth: int) -> str | None:
    """Why a text looks like an instruction: as it stands, without a disguise, or with its encoding undone."""
    small = plain(text)
    if not small.isascii():
        if why := _NATIVE.first(small.encode("utf-8", "replace")):
            return why
        small = folded(small)
    data = small.encode("utf-8", "replace")
    if why := _SIGNS.first(data) or _WORDS.first(_parted(without_signs(small).encode("utf-8", "replace"))):
        return why
    if spread(data):
        return "has words with their letters apart"
    for other in undisguised(text, data):
        if why := _SIGNS.first(other) or _WORDS.first(_parted(other)):
            return f"{why}, in disguise"
    for inner in undone(text) if depth else ():
        if why := _said(inner, depth - 1):
            return f"{why}, in an encoding"
    return None


def _parted(data: bytes) -> bytes:
    """The words with one space between them."""
    data = data.translate(_APART, b"'")
    for many in (16, 4, 2):
        data = data.replace(b" " * many, b" ")
    while b"  " in data:
        data = data.replace(b"  ", b" ")
    return data.strip()
