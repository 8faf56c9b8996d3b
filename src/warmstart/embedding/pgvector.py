"""Vectors in a PostgreSQL store, compared with pgvector, or bit by bit by the server where it has no pgvector.

A search scans the tenant's rows, which is exact, costs writes nothing and grows with the tenant, not with the server.
Large tenants can get an approximate index, which the same statement uses (see docs/scale.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial

import numpy as np

from warmstart.embedding.embedders import Matrix
from warmstart.embedding.vectors import Keys, Model, Quantized, Row, VectorStore
from warmstart.errors import StoreError
from warmstart.storage.database import Database


class PostgresVectors(VectorStore):
    """The vectors of one tenant in a PostgreSQL database."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self.name = f"the store {database.name!r}"
        self._run = partial(database.connection.execute, binary=True)  # type: ignore[call-arg]
        self._has_pgvector = self._find_pgvector()

    def _find_pgvector(self) -> bool:
        return bool(self._rows("SELECT to_regoperator('<~>(bit,bit)') IS NOT NULL")[0][0])

    def close(self) -> None:
        """The connection is the store's."""

    def reset(self, model: Model) -> None:
        super().reset(model)
        if not self._has_pgvector:
            with suppress(StoreError), self._db.transaction():  # not every role may
                self._run("SET LOCAL ROLE NONE")  # a superuser may, but not the role that it acts as
                self._run("CREATE EXTENSION IF NOT EXISTS vector")
            self._has_pgvector = self._find_pgvector()

    def _insert(self, rows: Sequence[Row]) -> None:
        self._db.connection.executemany(
            "INSERT INTO vectors (key, grp, hash, vector, bits) VALUES (?, ?, ?, ?, CAST(? AS BIT VARYING))",
            [
                (row.key, row.group, row.hash, row.vector.tobytes(), _bits(row.vector) if row.vector.any() else None)
                for row in rows
            ],
        )

    def _delete(self, keys: Sequence[int]) -> None:
        self._run("DELETE FROM vectors WHERE key = ANY(CAST(? AS BIGINT[]))", (list(keys),))

    def nearest(self, vector: Matrix, groups: Keys | None, limit: int, timeout: float | None) -> Keys:
        where = "" if groups is None else "AND grp = ANY(CAST(:groups AS BIGINT[])) "
        values = {} if groups is None else {"groups": groups.tolist()}
        size = len(vector)
        distance = f"CAST(bits AS BIT({size})) <~> CAST(:bits AS BIT({size}))"
        if not self._has_pgvector:
            distance = "bit_count(bits # CAST(:bits AS BIT VARYING))"
        rows = self._rows(
            f"SELECT key FROM vectors WHERE length(bits) = {size} {where}ORDER BY {distance}, key LIMIT :limit",
            {**values, "bits": _bits(vector), "limit": limit},
        )
        return np.fromiter((row[0] for row in rows), np.int64, len(rows))

    def _transaction(self) -> AbstractContextManager[object]:
        return self._db.transaction()  # locks out other writers of the tenant

    def _translate_errors(self) -> AbstractContextManager[None]:
        return self._db.translate_errors()


def _bits(vector: Matrix | Quantized) -> str:
    """Signs as PostgreSQL writes bits."""
    return ((vector > 0).astype(np.uint8) + ord("0")).tobytes().decode()
