"""Keeping vectors in step with the index of words.

There is a vector for every line that was said, kept as small numbers in blocks of neighbouring lines. For every few
lines there are the signs of their sum, one bit each, by which what is near a question is found.

A part of the index has a stamp, which changes whenever its lines do, and which is written when all of its blocks are.
So a run that was interrupted goes on where it was, and a line whose text was embedded before keeps its vector, wherever
it moved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from warmstart.errors import StoreError
from warmstart.recall.engine import Numbers
from warmstart.recall.packing import FIRST, PLACE, SAID
from warmstart.recall.vectors.embedder import Embedder, Matrix
from warmstart.storage.database import AnyDatabase

Small: TypeAlias = NDArray[np.int8]
Progress = Callable[[int, int], None]

BLOCK = 64  # lines
GROUP = 4  # lines that are found together
FEW = 500  # parts up to which it is quicker to read what they have than to search all
_ONES = np.array([number.bit_count() for number in range(256)], np.uint8)
_AT_ONCE = 1024  # lines that are embedded, and written, together


class Block(NamedTuple):
    """The vectors of up to `BLOCK` lines of a part; `hashes` are those of their texts, 0 where a line is gone."""

    part: int
    number: int
    hashes: Numbers
    vectors: Small

    @property
    def first(self) -> int:
        """The place of the first line."""
        return self.number * BLOCK


class Made(NamedTuple):
    """What a set of vectors was made with: the embedder as the user named it, its own name, and the dimensions."""

    asked: str
    name: str
    dimensions: int


class VectorIndex(Protocol):
    """Where vectors are kept. A line is named by `part << 16 | place`."""

    def made(self) -> Made | None:
        """What the vectors were made with; nothing where there are none."""
        ...

    def begin(self, made: Made) -> None:
        """Forget all vectors, and take those of this embedder from now on."""
        ...

    def stamps(self) -> dict[int, int]:
        """The stamp of every part that is wholly in."""
        ...

    def parts(self) -> set[int]:
        """Every part of which something is in."""
        ...

    def hashes(self, parts: Sequence[int]) -> Iterator[tuple[int, int, Numbers]]:
        """The part, number and hashes of every block of these parts."""
        ...

    def blocks(self, wanted: Sequence[tuple[int, int]]) -> list[Block]:
        """The blocks of these parts and numbers that are in, in order."""
        ...

    def write(self, made: Made, blocks: Sequence[Block], stamps: Mapping[int, int], gone: Sequence[int]) -> None:
        """Put in blocks and the stamps of parts that are now whole, and take out parts; all of it or nothing.

        Where the vectors are no longer those that were `made`, because another embedder has taken over, it is an error.
        """
        ...

    def nearest(self, vector: Matrix, parts: Numbers | None, most: int, seconds: float | None) -> Numbers:
        """The groups whose signs differ least from the vector's, in these parts only; none if time ran out.

        A group is named by its first line.
        """
        ...

    def close(self) -> None: ...


def other_embedder(name: str, made: Made, now: Made | None) -> StoreError:
    """What to say where another embedder has taken over."""
    taken = "no vectors" if now is None else f"those of {now.name}"
    return StoreError(f"{name} has now {taken}, and not those of {made.name}; run `warmstart recall index` again")


def quantised(vectors: Matrix) -> Small:
    """Vectors as numbers from -127 to 127; only directions are kept."""
    largest = np.maximum(np.abs(vectors).max(axis=1, keepdims=True, initial=0.0), 1e-12)
    small: Small = np.rint(vectors * (127 / largest)).astype(np.int8)
    return small


def signs(vectors: Matrix) -> NDArray[np.uint8]:
    """A bit for each number, set where it is more than zero."""
    return np.packbits(vectors > 0, axis=-1)


def groups(block: Block) -> tuple[Numbers, NDArray[np.uint8]]:
    """The groups of lines of a block, and the signs of the sums of the directions of their lines; none where all is."""
    vectors = block.vectors.astype(np.float32)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    first = np.arange(0, len(vectors), GROUP)
    return (block.part << 16 | block.first) + first, signs(np.add.reduceat(vectors, first))


def nearest_of(rows: Iterable[tuple[int, int, bytes]], vector: Matrix, most: int) -> Numbers:
    """The nearest groups among those of some blocks: the part and number of each, and the signs of its groups."""
    asked = signs(vector)
    lines: list[Numbers] = []
    found: list[bytes] = []
    for part, number, held in rows:
        first = part << 16 | number * BLOCK
        lines.append(np.arange(first, first + GROUP * (len(held) // len(asked)), GROUP, dtype=np.int64))
        found.append(held)
    if not found:
        return np.zeros(0, np.int64)
    held_bits = np.frombuffer(b"".join(found), np.uint8).reshape(-1, len(asked))
    distance = _ONES[held_bits ^ asked].sum(axis=1, dtype=np.int64)
    distance[~held_bits.any(axis=1)] = 2**40  # all of its lines are gone
    order = np.argsort(distance, kind="stable")[:most]
    near: Numbers = np.concatenate(lines)[order[distance[order] < 2**40]]
    return near


class Keeper:
    """Brings the vectors of an index up to date."""

    def __init__(self, database: AnyDatabase, index: VectorIndex, embedder: Embedder, made: Made) -> None:
        self._db = database
        self._index = index
        self._made = made
        self._embedder = embedder

    def update(self, progress: Progress | None = None) -> int:
        """Embed what is new, and forget what is gone; returns how many texts were embedded."""
        wanted, known = _wanted(self._db), self._index.stamps()
        changed = [part for part, stamp in wanted.items() if known.get(part) != stamp]
        gone = sorted(self._index.parts() - wanted.keys())
        old = _Old(self._index, [*gone, *changed])
        embedded = waiting = 0
        blocks: list[_Draft] = []
        whole: dict[int, int] = {}
        for done, part in enumerate(changed):
            for draft in self._drafts(part):
                if not old.has(draft):
                    blocks.append(draft)
                    waiting += len(draft.hashes)
                if waiting >= _AT_ONCE:
                    embedded += self._write(blocks, whole, old)
                    blocks, whole, waiting = [], {}, 0
            whole[part] = wanted[part]
            if progress is not None:
                progress(done, len(changed))
        embedded += self._write(blocks, whole, old)
        if gone:
            self._index.write(self._made, (), {}, gone)
        return embedded

    def _drafts(self, part: int) -> Iterator[_Draft]:
        with self._db.translated():
            rows = self._db.connection.execute(
                "SELECT line, hash FROM recall_lines WHERE part = ? ORDER BY line", (part,)
            ).fetchall()
        said = [((line >> PLACE) - FIRST, key) for line, key in rows if (line >> 4 & 15) < SAID]
        if not said:
            return
        hashes = np.zeros(said[-1][0] + 1, np.int64)
        for place, key in said:
            hashes[place] = key
        for number, first in enumerate(range(0, len(hashes), BLOCK)):
            yield _Draft(part, number, hashes[first : first + BLOCK])

    def _write(self, drafts: Sequence[_Draft], whole: Mapping[int, int], old: _Old) -> int:
        """Embed what blocks lack, and write them; returns how many texts that took."""
        if not drafts:
            if whole:
                self._index.write(self._made, (), whole, ())
            return 0
        needed = np.unique(np.concatenate([draft.hashes for draft in drafts]))
        vectors = old.vectors(needed[needed != 0])
        texts = self._texts(
            [draft for draft in drafts if not vectors.keys() >= set(draft.hashes[draft.hashes != 0].tolist())]
        )
        new = {key: text for key, text in texts.items() if key not in vectors}
        if new:
            vectors |= zip(new, quantised(self._embedder.embed(list(new.values()))), strict=True)
        nothing = np.zeros(self._embedder.dimensions, np.int8)
        blocks = [
            Block(*draft, np.stack([vectors.get(key, nothing) for key in draft.hashes.tolist()])) for draft in drafts
        ]
        self._index.write(self._made, blocks, whole, ())
        return len(new)

    def _texts(self, drafts: Iterable[_Draft]) -> dict[int, str]:
        """By hash: the texts of blocks."""
        found: dict[int, str] = {}
        with self._db.translated():
            for draft in drafts:
                first = (draft.number * BLOCK + FIRST) << PLACE
                found.update(
                    self._db.connection.execute(
                        "SELECT l.hash, t.body FROM recall_lines l JOIN messages m ON m.pk = l.message "
                        "JOIN texts t ON t.id = m.text WHERE l.part = ? AND l.line >= ? AND l.line < ?",
                        (draft.part, first, first + (BLOCK << PLACE)),
                    )
                )
        return found


class _Draft(NamedTuple):
    """A block that has no vectors yet."""

    part: int
    number: int
    hashes: Numbers


class _Old:
    """The vectors of some parts, by the hashes of their texts."""

    def __init__(self, index: VectorIndex, parts: Sequence[int]) -> None:
        self._index = index
        self._blocks = {(part, number): hashes for part, number, hashes in index.hashes(parts)}
        keys = list(self._blocks)
        hashes = np.concatenate([self._blocks[key] for key in keys] or [np.zeros(0, np.int64)])
        owner = np.repeat(np.arange(len(keys)), [len(self._blocks[key]) for key in keys])
        order = np.argsort(hashes, kind="stable")
        self._keys, self._hashes, self._owner = keys, hashes[order], owner[order]

    def has(self, draft: _Draft) -> bool:
        """Whether this block is there as it should be."""
        hashes = self._blocks.get((draft.part, draft.number))
        return hashes is not None and np.array_equal(hashes, draft.hashes)

    def vectors(self, wanted: Numbers) -> dict[int, Small]:
        if not len(self._hashes) or not len(wanted):
            return {}
        at = np.minimum(np.searchsorted(self._hashes, wanted), len(self._hashes) - 1)
        found = self._hashes[at] == wanted
        blocks = self._index.blocks(sorted({self._keys[owner] for owner in self._owner[at[found]].tolist()}))
        asked = set(wanted[found].tolist())
        return {
            key: vector
            for block in blocks
            for key, vector in zip(block.hashes.tolist(), block.vectors, strict=True)
            if key in asked
        }


def prune(database: AnyDatabase, index: VectorIndex) -> None:
    """Forget the vectors of what is gone."""
    made = index.made()
    gone = sorted(index.parts() - _wanted(database).keys())
    if made is not None and gone:
        index.write(made, (), {}, gone)


def _wanted(database: AnyDatabase) -> dict[int, int]:
    """The stamp that every part should have, the newest first."""
    with database.translated():
        rows = database.connection.execute(
            "SELECT number, session, generation, lengths FROM recall_parts ORDER BY number DESC"
        ).fetchall()
    return {row[0]: _stamp(*row) for row in rows}


def _stamp(part: int, session: int, generation: int, lengths: bytes) -> int:
    """A number that stands for the lines of a part."""
    told = f"{part} {session} {generation} ".encode() + bytes(lengths)
    return int.from_bytes(blake2b(told, digest_size=8).digest(), "big", signed=True)
