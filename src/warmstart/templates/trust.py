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
from warmstart.text.scanner import Scanner
from warmstart.text.untrusted import (
    REACH,
    drop_symbols,
    find_hidden,
    find_injection,
    fold_lookalikes,
    rules,
    simplify,
    space_words,
)

__all__ = ["cuts_in", "is_tool_name", "suspicious", "without_reminder"]

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
_WORDS = Scanner((*rules("orders"), *wording.WORDS, *languages.WORDS), REACH)
_SIGNS = Scanner((*rules("roles"), *rules("fetches"), *roles.HINTS, roles.REMEMBERED), REACH)
_NATIVE = Scanner(languages.NATIVE, REACH)


def suspicious(text: str) -> str | None:
    """Why a text from outside looks like an instruction or hides something; `None` where it does not."""
    text = _unescaped(text)
    return find_hidden(text) or _said(text, _DEPTH)


def cuts_in(text: str) -> str | None:
    """Why a text of anybody could be taken for another part of a conversation, or asks for what no session is to do.

    A person may well give orders, but not to ignore others, to run what is fetched, or to send secrets away.
    """
    return find_injection(_unescaped(text))


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


def _said(text: str, depth: int) -> str | None:
    """Why a text looks like an instruction: as it stands, without a disguise, or with its encoding undone."""
    small = simplify(text)
    if not small.isascii():
        if why := _NATIVE.first(small.encode("utf-8", "replace")):
            return why
        small = fold_lookalikes(small)
    data = small.encode("utf-8", "replace")
    if why := _SIGNS.first(data) or _WORDS.first(space_words(drop_symbols(small).encode("utf-8", "replace"))):
        return why
    if spread(data):
        return "has words with their letters apart"
    for other in undisguised(text, data):
        if why := _SIGNS.first(other) or _WORDS.first(space_words(other)):
            return f"{why}, in disguise"
    for inner in undone(text) if depth else ():
        if why := _said(inner, depth - 1):
            return f"{why}, in an encoding"
    return None
