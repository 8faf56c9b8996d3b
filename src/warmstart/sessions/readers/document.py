"""Logs that are one JSON document: read as a whole, or not at all.

A document has no line to continue from, so a changed one is read again from the start and `Reading.offset` has only two
values: 0 before, the size of the file once all of it was read. A document that ends in the middle is one that its agent
is writing at this moment: one fault, no pair, and offset 0, so that the next reading starts anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from warmstart.errors import LogError
from warmstart.sessions.readers.base import Reading
from warmstart.sessions.readers.decoding import DECODE_ERRORS, decode

T = TypeVar("T")

MAX_DOCUMENT = 512 * 1024 * 1024


def read_whole(path: Path) -> bytes:
    """The bytes of a document. Raises `LogError` for one that is too large to be held."""
    size = path.stat().st_size
    if size > MAX_DOCUMENT:
        limit = MAX_DOCUMENT // (1024 * 1024)
        raise LogError(f"{str(path)!r} has {size} bytes, more than the {limit} MB that one document may have; split it")
    return path.read_bytes()


def load(path: Path, reading: Reading, decoder: msgspec.json.Decoder[T]) -> tuple[T, int] | None:
    """The document in `path` with its size, or `None` with one fault when it is broken or not yet whole."""
    data = read_whole(path)
    try:
        return decode(data, decoder), len(data)
    except DECODE_ERRORS as error:
        reading.fault(1, error)
        return None


def ending(items: Iterable[T], finish: Callable[[], None]) -> Iterator[T]:
    """Every item, with `finish` called before the last one is handed out (or at the end, if there is none)."""
    held: list[T] = []
    for item in items:
        if held:
            yield held.pop()
        held.append(item)
    finish()
    yield from held
