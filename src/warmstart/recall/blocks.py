"""Stems and the numbers of their lines, packed into blocks that a database keeps as rows.

A row for every word would be larger than the text. So a segment, which is what one write added or what several became,
is a list of blocks in the order of their stems. A block holds some stems with all their lines, or, where a stem has
many, nothing but lines of that one. To find a stem is to find the last block that does not begin after it.

Before it is compressed, a block is: how many stems it has and how long they are together, the stems divided by ends of
lines, how many lines each has, and the lines, eight bytes each.
"""

from __future__ import annotations

import struct
import sys
import zlib
from array import array
from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

LONGEST = 400  # bytes of a stem; nobody asks for longer ones
PIECE = 2000  # lines in one block of a stem that has many

_BLOCK = 3000  # bytes of a block, before it is compressed
_MANY = 300  # lines with which a stem has blocks of its own
_HEAD = struct.Struct("<HI")
_FAST = 1  # a higher level of zlib saves little here

Stem = tuple[str, bytes]  # with its lines


class Block(NamedTuple):
    """A row to be. `lines` is how many the stem `first` has in the segment if the block is its own, and else 0."""

    first: str
    place: int  # among the blocks of a stem that has several
    lines: int
    data: bytes


def packed(lines: array[int]) -> bytes:
    """Lines as blocks hold them."""
    return _swapped(lines).tobytes()


def unpacked(data: bytes) -> array[int]:
    """The lines that were packed."""
    return _swapped(array("q", data))


def _swapped(lines: array[int]) -> array[int]:
    """Lines in the order of bytes that all machines share."""
    if sys.byteorder == "big":
        lines = lines[:]
        lines.byteswap()
    return lines


def blocks_of(stems: Iterable[Stem]) -> Iterator[Block]:
    """The blocks of stems that come in order."""
    waiting: list[tuple[bytes, bytes]] = []
    size = 0
    for stem, lines in stems:
        name = stem.encode()
        if len(name) > LONGEST:
            continue
        many = len(lines) > 8 * _MANY
        if waiting and (many or size + len(name) + len(lines) > _BLOCK):
            yield _shared(waiting)
            waiting, size = [], 0
        if many:
            for place, start in enumerate(range(0, len(lines), 8 * PIECE)):
                data = zlib.compress(lines[start : start + 8 * PIECE], _FAST)
                yield Block(stem, place, len(lines) // 8, data)
        else:
            waiting.append((name, lines))
            size += len(name) + len(lines) + 3
    if waiting:
        yield _shared(waiting)


def _shared(stems: list[tuple[bytes, bytes]]) -> Block:
    names = b"\n".join(name for name, _ in stems)
    counts = struct.pack(f"<{len(stems)}H", *(len(lines) // 8 for _, lines in stems))
    data = b"".join((_HEAD.pack(len(stems), len(names)), names, counts, *(lines for _, lines in stems)))
    return Block(stems[0][0].decode(), 0, 0, zlib.compress(data, _FAST))


def find(data: bytes, stems: Iterable[str]) -> Iterator[Stem]:
    """Those of these stems that a shared block holds."""
    raw, names, counts, start = _opened(data)
    places = {name: place for place, name in enumerate(names)}
    for stem in stems:
        if (place := places.get(stem.encode())) is not None:
            first = start + 8 * sum(counts[:place])
            yield stem, raw[first : first + 8 * counts[place]]


def stems_of(blocks: Iterable[Block]) -> Iterator[Stem]:
    """What blocks were made of; they come in order, and so do the stems, one with many lines in several pieces."""
    for block in blocks:
        if block.lines:
            yield block.first, zlib.decompress(block.data)
            continue
        raw, names, counts, start = _opened(block.data)
        for name, count in zip(names, counts, strict=True):
            yield name.decode(), raw[start : start + 8 * count]
            start += 8 * count


def merged(segments: Iterable[Iterable[Stem]]) -> Iterator[Stem]:
    """Several segments as one; the lines of the first come first."""
    for stem, found in groupby(merge(*segments, key=itemgetter(0)), itemgetter(0)):
        yield stem, b"".join(lines for _, lines in found)


def _opened(data: bytes) -> tuple[bytes, list[bytes], tuple[int, ...], int]:
    raw = zlib.decompress(data)
    number, length = _HEAD.unpack_from(raw)
    end = _HEAD.size + length
    counts = struct.unpack_from(f"<{number}H", raw, end)
    return raw, raw[_HEAD.size : end].split(b"\n"), counts, end + 2 * number
