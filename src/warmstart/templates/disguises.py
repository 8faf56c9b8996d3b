"""What a text could say when a disguise is taken off: letters apart, moved or backwards, digits for letters, humps.

A disguise is taken off only where a word that is worth hiding shows through it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from warmstart.templates.encoded import rotated
from warmstart.text.scanner import Keywords
from warmstart.text.untrusted import fold_lookalikes, simplify

_SHORT = 256  # characters of a text in which names are taken apart: a name, an address, hardly code
_STRONG = ("curl", "wget", "always", "ignore", "remember", "previous", "instruct", "system", "assistant", "execute")
_SAID = ("always run", "always use", "ignore previous", "ignore all", "ignore the", "remember", "curl ", "from now on")
_BETWEEN = (" ", ".", "-", "_", "*", "  ", "/", "+", "\n", " . ", "~", " - ", ",", ", ")
_DIGITS = bytes.maketrans(b"013457$@!", b"oieastsai")
# Signs that a shell takes away from within a word: `cu''rl`, `c\\url`, `cu$@rl`.
_QUOTES = re.compile(rb"(?<=[a-z])(?:\x27\x27|\x22\x22|\$@|\$\*|\\|`\x27)(?=[a-z])")
_TAG = re.compile(
    rb"</?(?:b|i|u|em|strong|code|span|p|br|div|a|font|mark|small|sub|sup|td|li|tt|kbd)(?:\s[^<>]{0,80})?/?>"
)
_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_APART = Keywords(sign.join(word) for word in _STRONG for sign in _BETWEEN)
_MOVED = Keywords(rotated(said) for said in _SAID)
_BACKWARDS = Keywords(said[::-1] for said in _SAID if " " in said.strip())
_WORTH = Keywords(_STRONG)


def spread(data: bytes) -> bool:
    """Whether a word stands there with its letters apart, as in `c u r l`."""
    return bool(_APART.find_bytes(data))


def undisguised(text: str, data: bytes) -> Iterator[bytes]:
    """A text, `data` in small letters, as it is without each disguise that it seems to wear."""
    if _MOVED.find_bytes(data):
        yield rotated(data.decode("utf-8", "replace")).encode()
    if _BACKWARDS.find_bytes(data):
        yield data.decode("utf-8", "replace")[::-1].encode()
    letters = data.translate(_DIGITS)
    if letters != data and any(data[start:end] != letters[start:end] for _, start, end in _WORTH.find_bytes(letters)):
        yield letters
    if _TAG.search(data):
        yield _TAG.sub(b" ", data)
    if _QUOTES.search(data):
        yield _QUOTES.sub(b"", data)
    if len(text) <= _SHORT and _HUMPS.search(text):
        yield fold_lookalikes(simplify(_HUMPS.sub(" ", text))).encode("utf-8", "replace")
