"""From bytes to JSON records: lines, whole documents, and JSON that is not quite JSON.

A JavaScript program that cuts a text inside an emoji writes half a surrogate pair, which strict decoders reject. Some
agents write numbers that no machine can hold, or bytes that are not UTF-8. An interrupted write leaves two objects on
one line. What can be repaired is repaired and decoded again.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from warmstart.sessions.readers.base import Reading

T = TypeVar("T")

DECODE_ERRORS = (msgspec.MsgspecError, RecursionError, UnicodeError, ValueError)
MAX_LINE = 64 * 1024 * 1024
MAX_WRONG_FIELDS = 20
_BUFFER = 256 * 1024
_SPACE = re.compile(r"\s*")
_WRONG_TYPE = re.compile(r"Expected .* - at `\$([\w.\[\]]+)`")


def decode(data: bytes | msgspec.Raw, decoder: msgspec.json.Decoder[T]) -> T:
    """Decode `data`, repaired if necessary. Raises one of `DECODE_ERRORS`.

    Fields have any type in a damaged log, or in one of a future version: a field of a wrong type counts as absent.
    """
    try:
        return decoder.decode(data)
    except DECODE_ERRORS as error:
        raw = bytes(data)
        if len(raw) > MAX_LINE:
            raise
        try:
            text = raw.decode("utf-8-sig", "replace")
            value = json.loads(text, parse_int=_number, parse_float=_number, parse_constant=lambda _: None)
            for _ in range(MAX_WRONG_FIELDS):
                text = json.dumps(value, ensure_ascii=False)
                try:
                    return decoder.decode(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
                except msgspec.ValidationError as problem:
                    _drop_field(value, str(problem))
        except (*DECODE_ERRORS, LookupError, TypeError):
            pass
        raise error  # what is wrong with the data, not with the repair


def _drop_field(value: Any, problem: str) -> None:
    """Drop the field that a `ValidationError` names. Raises `ValueError` if the record makes no sense without it."""
    found = _WRONG_TYPE.match(problem)
    if not found:
        raise ValueError(problem)
    *above, last = re.findall(r"\w+", found[1])
    for name in above:
        value = value[int(name)] if isinstance(value, list) else value[name]
    del value[int(last) if isinstance(value, list) else last]


def _number(digits: str) -> int | float | None:
    if not math.isfinite(value := float(digits)):
        return None
    return int(digits) if digits.lstrip("-").isdigit() else value


class Line(NamedTuple):
    """One line of a log: its number from 1, the byte where it starts, the byte after it, and its content."""

    number: int
    start: int
    end: int
    data: bytes


def records(path: Path, reading: Reading, decoder: msgspec.json.Decoder[T]) -> Iterator[tuple[Line, T]]:
    """The records of `path` from `reading` on, one per line.

    A line that cannot be decoded is reported and skipped, as is one above `MAX_LINE`. If the last one is incomplete,
    the agent is still writing it: it is left to the next reading. `reading` is not moved: the reader knows when it is
    safe to.
    """
    if not reading.offset:
        reading.state.pop("reported", None)  # it may be from another file of the same name
    with path.open("rb", buffering=_BUFFER) as file:
        number, start = reading.line, reading.offset
        file.seek(max(0, start - 1))
        # The line feed of the last line may have come later; or the reading ended between two records of one line.
        is_counted = bool(start) and file.read(1) not in (b"", b"\n")
        is_too_long = False
        while data := file.readline(MAX_LINE):
            number += not is_counted
            line = Line(number, start, start + len(data), data)
            start = line.end
            is_counted = not data.endswith(b"\n")
            if is_too_long or (is_counted and len(data) == MAX_LINE):
                is_too_long = is_counted
                reading.report(number, f"line longer than {MAX_LINE} bytes", once=True)
                continue
            try:
                record = decoder.decode(data)
            except DECODE_ERRORS:
                if not data.isspace():
                    yield from _recover(line, reading, decoder)
            else:
                yield line, record


def _recover(line: Line, reading: Reading, decoder: msgspec.json.Decoder[T]) -> Iterator[tuple[Line, T]]:
    """The records of a line that is not simply one: it needs repair, or an interrupted write left several on it."""
    start = line.start
    for data in split_objects(line.data) or [line.data]:
        part = Line(line.number, start, start + len(data), data)
        start = part.end
        try:
            record = decode(data, decoder)
        except DECODE_ERRORS as error:
            if line.data.endswith(b"\n") or isinstance(error, msgspec.ValidationError):
                reading.report(line.number, error, once=True)
        else:
            yield part, record


def split_objects(data: bytes) -> list[bytes]:
    """The JSON objects that follow each other in `data`; empty unless `data` consists of objects only."""
    scan = json.JSONDecoder().raw_decode
    parts: list[bytes] = []
    try:
        text = data.decode()
        at = 0
        while at < len(text):
            if text[at] != "{":
                return []
            _, stop = scan(text, at)
            space = _SPACE.match(text, stop)
            stop = space.end() if space else stop
            parts.append(text[at:stop].encode())
            at = stop
    except (ValueError, RecursionError):
        return []
    return parts
