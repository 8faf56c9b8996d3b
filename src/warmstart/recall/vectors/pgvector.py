"""Vectors in a PostgreSQL store, searched with pgvector; where the server has none, with what it has itself.

A tenant's signs are compared one by one, which is exact, costs nothing to keep up and grows with the tenant, not with
the server. An approximate index makes every write many times as dear; whoever has tenants large enough for it can add
one, and the same statement uses it (see docs/scale.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from warmstart.errors import StoreError
from warmstart.recall.engine import Numbers
from warmstart.recall.vectors.embedder import Matrix
from warmstart.recall.vectors.index import FEW, Block, Made, groups, nearest_of, other_embedder, signs
from warmstart.storage.postgres import Database

_ALL = ("vector_sets", "vector_parts", "vector_blocks", "vector_signs")


class PostgresVectors:
    """Implements `VectorIndex`."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._run = database.connection.execute
        self._extended = self._is_extended()

    def _is_extended(self) -> bool:
        with self._db.translated():
            return self._run("SELECT to_regoperator('<~>(bit,bit)') IS NOT NULL").fetchone()[0]  # type: ignore[no-any-return]

    def close(self) -> None:
        """The connection is the store's."""

    def made(self) -> Made | None:
        with self._db.translated():
            row = self._run("SELECT asked, name, dimensions FROM vector_sets").fetchone()
        return Made(*row) if row else None

    def begin(self, made: Made) -> None:
        with self._db.transaction():
            for table in _ALL:
                self._run(f"DELETE FROM {table}")
            self._run("INSERT INTO vector_sets (id, asked, name, dimensions) VALUES (1, ?, ?, ?)", made)
        if not self._extended:
            with suppress(StoreError), self._db.transaction():  # whoever may, does; the others do without
                self._run("SET LOCAL ROLE NONE")  # a superuser may, and the role that it acts as may not
                self._run("CREATE EXTENSION IF NOT EXISTS vector")
            self._extended = self._is_extended()

    def stamps(self) -> dict[int, int]:
        with self._db.translated():
            return dict(self._run("SELECT part, stamp FROM vector_parts").fetchall())

    def parts(self) -> set[int]:
        with self._db.translated():
            rows = self._run("SELECT part FROM vector_parts UNION SELECT part FROM vector_blocks").fetchall()
        return {row[0] for row in rows}

    def hashes(self, parts: Sequence[int]) -> Iterator[tuple[int, int, Numbers]]:
        with self._db.translated():
            rows = self._run(
                "SELECT part, number, hashes FROM vector_blocks WHERE part = ANY(CAST(? AS BIGINT[]))", (list(parts),)
            ).fetchall()
        yield from ((part, number, np.frombuffer(hashes, "<i8").astype(np.int64)) for part, number, hashes in rows)

    def blocks(self, wanted: Sequence[tuple[int, int]]) -> list[Block]:
        with self._db.translated():
            rows = self._run(
                "SELECT b.part, b.number, b.hashes, b.vectors FROM vector_blocks b "
                "JOIN unnest(CAST(? AS BIGINT[]), CAST(? AS BIGINT[])) AS w (part, number) "
                "ON b.part = w.part AND b.number = w.number ORDER BY b.part, b.number",
                ([part for part, _ in wanted], [number for _, number in wanted]),
                binary=True,
            ).fetchall()
        return [_block(*row) for row in rows]

    def write(self, made: Made, blocks: Sequence[Block], stamps: Mapping[int, int], gone: Sequence[int]) -> None:
        with self._db.transaction() as connection:  # which has the tenant to itself
            if (now := self.made()) != made:
                raise other_embedder(f"the store {self._db.name!r}", made, now)
            connection.executemany(
                "INSERT INTO vector_blocks (part, number, signs, hashes, vectors) VALUES (?, ?, ?, ?, ?) ON CONFLICT "
                "(part, number) DO UPDATE SET signs = excluded.signs, hashes = excluded.hashes, "
                "vectors = excluded.vectors",
                [
                    (b.part, b.number, groups(b)[1].tobytes(), b.hashes.astype("<i8").tobytes(), b.vectors.tobytes())
                    for b in blocks
                ],
            )
            for block in blocks:
                self._write_signs(block)
            connection.executemany(
                "INSERT INTO vector_parts (part, stamp) VALUES (?, ?) ON CONFLICT (part) "
                "DO UPDATE SET stamp = excluded.stamp",
                list(stamps.items()),
            )
            if gone:
                self._run("DELETE FROM vector_parts WHERE part = ANY(CAST(? AS BIGINT[]))", (list(gone),))
                self._run("DELETE FROM vector_blocks WHERE part = ANY(CAST(? AS BIGINT[]))", (list(gone),))
                self._run("DELETE FROM vector_signs WHERE line >> 16 = ANY(CAST(? AS BIGINT[]))", (list(gone),))

    def _write_signs(self, block: Block) -> None:
        first = block.part << 16 | block.first
        self._run("DELETE FROM vector_signs WHERE line >= ? AND line < ?", (first, first + len(block.hashes)))
        lines, held = groups(block)
        alive = held.any(axis=1)
        self._run(
            "INSERT INTO vector_signs (line, dimensions, bits) SELECT line, ?, CAST(bits AS BIT VARYING) "
            "FROM unnest(CAST(? AS BIGINT[]), CAST(? AS TEXT[])) AS new (line, bits)",
            (
                block.vectors.shape[1],
                lines[alive].tolist(),
                [_written(bits, block.vectors.shape[1]) for bits in held[alive]],
            ),
        )

    def nearest(self, vector: Matrix, parts: Numbers | None, most: int, seconds: float | None) -> Numbers:
        if parts is not None and len(parts) <= FEW:
            with self._db.translated():
                held = self._run(
                    "SELECT part, number, signs FROM vector_blocks WHERE part = ANY(CAST(? AS BIGINT[]))",
                    (parts.tolist(),),
                    binary=True,
                )
                return nearest_of(held, vector, most)
        where = "" if parts is None else "AND line >> 16 = ANY(CAST(:parts AS BIGINT[])) "
        size = len(vector)
        distance = f"CAST(bits AS BIT({size})) <~> CAST(:bits AS BIT({size}))"
        if not self._extended:
            distance = "bit_count(bits # CAST(:bits AS BIT VARYING))"
        with self._db.translated():
            rows = self._run(
                f"SELECT line FROM vector_signs WHERE dimensions = {size} {where}ORDER BY {distance} LIMIT :most",
                {
                    "bits": _written(signs(vector), size),
                    "most": most,
                    **({} if parts is None else {"parts": parts.tolist()}),
                },
            ).fetchall()
        return np.fromiter((row[0] for row in rows), np.int64, len(rows))


def _block(part: int, number: int, hashes: bytes, vectors: bytes) -> Block:
    keys = np.frombuffer(hashes, "<i8").astype(np.int64)
    return Block(part, number, keys, np.frombuffer(vectors, np.int8).reshape(len(keys), -1))


def _written(bits: NDArray[np.uint8], size: int) -> str:
    """Bits as PostgreSQL writes them."""
    return (np.unpackbits(bits, count=size) + ord("0")).tobytes().decode()
