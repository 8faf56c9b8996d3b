"""From bytes to JSON records: lines, whole documents, and JSON that is not quite JSON.

A JavaScript program that cuts a text inside an emoji writes half a surrogate pair, which strict decoders reject. Some
agents write numbers that no machine can hold, or bytes that are not UTF-8. An interrupted write leaves two objects on
one line. What can be repaired is repaired and decoded again.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar

import msgspec

from warmstart.errors import LogError
from warmstart.sessions.readers.base import Reading

T = TypeVar("T")

DECODE_ERRORS = (msgspec.MsgspecError, RecursionError, UnicodeError, ValueError)
MAX_LINE = 64 * 1024 * 1024
MAX_DOCUMENT = 512 * 1024 * 1024
_BUFFER = 256 * 1024
_SPACE = re.compile(r"\s*")


def decode(data: bytes | msgspec.Raw, decoder: msgspec.json.Decoder[T]) -> T:
    """Decode `data`, repaired if necessary. Raises one of `DECODE_ERRORS`."""
    try:
        return decoder.decode(data)
    except DECODE_ERRORS as error:
        raw = bytes(data)
        if len(raw) > MAX_LINE:
            raise
        try:
            return decoder.decode(_repair(raw))
        except DECODE_ERRORS:
            raise error from None  # what is wrong with the data, not with the repair


def _repair(data: bytes) -> bytes:
    """The same JSON without half surrogates, bytes that are not UTF-8 and numbers that are too large."""
    value = json.loads(
        data.decode("utf-8-sig", "replace"), parse_int=_number, parse_float=_number, parse_constant=lambda _: None
    )
    text = json.dumps(value, ensure_ascii=False)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def _number(digits: str) -> int | float | None:
    value = float(digits)
    if not math.isfinite(value):
        return None
    return int(digits) if digits.lstrip("-").isdigit() else value


def split_objects(data: bytes) -> list[bytes]:
    """The JSON objects that follow each other in `data`; empty unless `data` consists of objects only."""
    scan = json.JSONDecoder().raw_decode
    parts: list[bytes] = []
    try:
        text = data.decode("utf-8-sig").strip()
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


class Line(NamedTuple):
    """One line of a log: its number from 1, the byte where it starts, the byte after it, and its content."""

    number: int
    start: int
    end: int
    data: bytes


def lines(path: Path, reading: Reading) -> Iterator[Line]:
    """The lines of `path` from `reading` on that are not blank, at most `MAX_LINE` bytes each.

    The last one has no line feed while the agent is still writing it; `records` decides whether it is complete.
    `reading` is not moved: the reader knows when it is safe to.
    """
    if not reading.offset:
        reading.state.pop("faulty", None)  # it may be from another file of the same name
    with path.open("rb", buffering=_BUFFER) as file:
        number, start = reading.line, reading.offset
        counted = _seek(file, start)
        while data := file.readline(MAX_LINE):
            number += not counted
            counted = False
            end = start + len(data)
            if len(data) == MAX_LINE and not data.endswith(b"\n"):
                end = _skip_line(file, end)
                reading.report(number, f"line longer than {MAX_LINE} bytes", start=start)
            elif not data.isspace():
                yield Line(number, start, end, data)
            start = end


def _seek(file: BinaryIO, offset: int) -> bool:
    """Go to `offset`; whether it is inside a line that was counted before its line feed was written."""
    file.seek(max(0, offset - 1))
    return bool(offset) and file.read(1) not in (b"", b"\n")


def _skip_line(file: BinaryIO, end: int) -> int:
    while data := file.readline(MAX_LINE):
        end += len(data)
        if data.endswith(b"\n"):
            break
    return end


def records(path: Path, reading: Reading, decoder: msgspec.json.Decoder[T]) -> Iterator[list[tuple[Line, T]]]:
    """The records of `path`, line by line: usually one per line, several after an interrupted write.

    Records that share a line come each with its own bytes as the line's data. What cannot be decoded is reported and
    skipped. An incomplete last line ends the stream without a report: the agent is still writing it, and the next
    reading gets it.
    """
    for line in lines(path, reading):
        try:
            yield [(line, decode(line.data, decoder))]
        except DECODE_ERRORS as error:
            parts = split_objects(line.data)
            if len(parts) < 2:
                if not line.data.endswith(b"\n") and not isinstance(error, msgspec.ValidationError):
                    return
                reading.report(line.number, error, start=line.start)
            elif found := list(_decode_parts(parts, line, reading, decoder)):
                yield found


def _decode_parts(
    parts: list[bytes], line: Line, reading: Reading, decoder: msgspec.json.Decoder[T]
) -> Iterator[tuple[Line, T]]:
    for part in parts:
        try:
            yield line._replace(data=part), decode(part, decoder)
        except DECODE_ERRORS as error:
            reading.report(line.number, error, start=line.start)


def read_document(path: Path) -> bytes:
    """The bytes of a log that is one JSON document. Raises `LogError` if it is too large for memory.

    A changed document is read again from its start, so `Reading.offset` is either 0 or the size of the file.
    """
    size = path.stat().st_size
    if size > MAX_DOCUMENT:
        limit = MAX_DOCUMENT // (1024 * 1024)
        raise LogError(f"{str(path)!r} is {size} bytes long, above the limit of {limit} MB for one document; split it")
    return path.read_bytes()


def load_document(path: Path, reading: Reading, decoder: msgspec.json.Decoder[T]) -> tuple[T, int] | None:
    """The document in `path` with its size; `None`, with a report, if it is broken or still being written."""
    data = read_document(path)
    try:
        return decode(data, decoder), len(data)
    except DECODE_ERRORS as error:
        reading.report(1, error)
        return None


def hold_last(items: Iterable[T], finish: Callable[[], None]) -> Iterator[T]:
    """Every item, with `finish` called before the last one is yielded (or at the end, if there is none)."""
    held: list[T] = []
    for item in items:
        if held:
            yield held.pop()
        held.append(item)
    finish()
    yield from held
