"""JSON as agents write it, which is not always JSON.

A program in JavaScript that cuts a text in the middle of an emoji writes half a surrogate pair; a strict decoder takes
that for damage, or even for the end of the data. Some write numbers that no machine holds, or bytes that are no UTF-8,
and an interrupted write leaves two objects on one line. What can be mended is mended and decoded again.
"""

from __future__ import annotations

import json
import math
import re
from typing import TypeVar

import msgspec

T = TypeVar("T")

DECODE_ERRORS = (msgspec.MsgspecError, RecursionError, UnicodeError, ValueError)
_MAX_MENDED = 64 * 1024 * 1024
_SPACE = re.compile(r"\s*")


def decode(data: bytes | msgspec.Raw, decoder: msgspec.json.Decoder[T]) -> T:
    """What `data` holds, mended where it must be. Raises one of `DECODE_ERRORS`."""
    try:
        return decoder.decode(data)
    except DECODE_ERRORS as error:
        raw = bytes(data)
        if len(raw) > _MAX_MENDED:
            raise
        try:
            return decoder.decode(_mended(raw))
        except DECODE_ERRORS:
            raise error from None  # what is wrong with the data itself, not with the attempt to mend it


def _mended(data: bytes) -> bytes:
    """The same JSON without half surrogates, bytes that are no UTF-8 and numbers that no machine holds."""
    value = json.loads(
        data.decode("utf-8", "replace"), parse_int=_number, parse_float=_number, parse_constant=lambda _: None
    )
    text = json.dumps(value, ensure_ascii=False)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def _number(digits: str) -> int | float | None:
    value = float(digits)
    if not math.isfinite(value):
        return None
    return int(digits) if digits.lstrip("-").isdigit() else value


def split_objects(data: bytes) -> list[bytes]:
    """The JSON objects that stand one after another in `data`; empty unless all of it is made of them."""
    scan = json.JSONDecoder().raw_decode
    parts: list[bytes] = []
    try:
        text = data.decode().strip()
        at = 0
        while at < len(text):
            if text[at] != "{":
                return []
            _, stop = scan(text, at)
            parts.append(text[at:stop].encode())
            space = _SPACE.match(text, stop)
            at = space.end() if space else stop
    except (ValueError, RecursionError):
        return []
    return parts
