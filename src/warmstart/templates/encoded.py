"""What a text says once more when its encoding is undone: base64, hexadecimal, percent and character references, rot13.

Only what could hold a sentence is undone, each piece once, and only what comes out as text is given.
"""

from __future__ import annotations

import codecs
import html
import re
from base64 import b32decode, b64decode
from binascii import Error
from collections.abc import Iterator
from urllib.parse import unquote_plus

LARGEST = 1_000_000  # characters of encoded text that are undone, in all
_SHORTEST = 20  # signs of a run that could hold a sentence
# Runs are found in a text in which every sign that may stand in one is an `x`: a literal is found fastest.
_RUN = re.compile(b"x" * _SHORTEST + b"x*")
_OF_64 = bytes(120 if (chr(code).isalnum() and code < 128) or chr(code) in "+/_-" else 32 for code in range(256))
_OF_16 = bytes(120 if chr(code) in "0123456789abcdefABCDEF :" else 32 for code in range(256))
_BETWEEN = re.compile(r"[ :]")
_ESCAPED = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u\{?([0-9A-Fa-f]{4,5})\}?|([0-3][0-7]{2}))")
_PERCENT = re.compile(r"%[0-9A-Fa-f]{2}")
_REFERENCE = re.compile(r"&(?:#\w{1,7};?|[A-Za-z]{2,8};)")
_NEAR = 200  # characters to each side of something encoded that belong to it
_WRITTEN = bytes(range(32, 127)) + b"\t\n\r"


def undone(text: str) -> Iterator[str]:
    """The texts that are hidden in a text by an encoding."""
    if "%" in text:
        yield from map(unquote_plus, _around(_PERCENT, text))
    if "&" in text:
        yield from map(html.unescape, _around(_REFERENCE, text))
    if "\\" in text:
        yield from (_ESCAPED.sub(_character, part) for part in _around(_ESCAPED, text))
    yield from _pieces(text)


def _around(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    """The parts of a text that stand near what fits a pattern."""
    start = end = -1
    for found in pattern.finditer(text):
        if end >= 0 and found.start() - _NEAR > end:
            yield text[start:end]
            start = -1
        start = max(0, found.start() - _NEAR) if start < 0 else start
        end = found.end() + _NEAR
    if end >= 0:
        yield text[start:end]


def rotated(text: str) -> str:
    """The text with every letter moved by half the alphabet."""
    return codecs.encode(text, "rot13")


def _character(found: re.Match[str]) -> str:
    digits, base = (found[3], 8) if found[3] else (found[1] or found[2], 16)
    return chr(int(digits, base))


def _pieces(text: str) -> Iterator[str]:
    """What comes out of every run of signs that could be base64, base32 or hexadecimal."""
    left = LARGEST
    signs = text.encode("latin-1", "replace")
    for start, end in _joined(text, signs.translate(_OF_64)):
        piece = "".join(text[start:end].split())
        if piece.islower() or piece.isalpha():  # a name, a path, a hash
            continue
        left -= len(piece)
        if left < 0:
            return
        yield from _thirty_two(piece) if piece.isupper() else _sixty_four(piece)
    for found in _RUN.finditer(signs.translate(_OF_16)):
        digits = _BETWEEN.sub("", text[found.start() : found.end()])
        left -= len(digits)
        if left < 0:
            return
        yield from _read(bytes.fromhex(digits[: len(digits) // 2 * 2]))


def _joined(text: str, kinds: bytes) -> Iterator[tuple[int, int]]:
    """Where long runs stand in a text whose signs were replaced by their kinds; lines below each other are one."""
    start = end = -1
    for found in _RUN.finditer(kinds):
        if start >= 0 and (found.start() - end > 8 or text[end : found.start()].strip()):
            yield start, end
            start = -1
        start, end = (found.start() if start < 0 else start), found.end()
    if start >= 0:
        yield start, end


def _sixty_four(piece: str) -> Iterator[str]:
    piece = piece.replace("-", "+").replace("_", "/")
    tail = piece.rpartition("/")[2]  # of an address, whose slashes are no part of it
    for whole in (piece,) if tail == piece or len(tail) < _SHORTEST else (piece, tail):
        body = whole[:-1] if len(whole) % 4 == 1 else whole
        try:
            yield from _read(b64decode(body + "=" * (-len(body) % 4)))
        except (Error, ValueError):
            continue


def _thirty_two(piece: str) -> Iterator[str]:
    try:
        yield from _read(b32decode(piece + "=" * (-len(piece) % 8)))
    except (Error, ValueError):
        return


def _read(data: bytes) -> Iterator[str]:
    """The bytes as text, if nearly all of them are written characters; as PowerShell encodes it, too."""
    if len(data) < 8:
        return
    if data[1::2].count(0) > len(data) // 3:
        data = data[::2]
    strange = len(data.translate(None, _WRITTEN))
    if strange * 10 <= len(data):
        yield data.decode("utf-8", "replace")
    elif strange * 10 <= len(data) * 9:
        other = data.decode("utf-8", "ignore")
        if len(other.encode()) * 10 > len(data) * 9:
            yield other
