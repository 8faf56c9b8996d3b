"""The inverted index on PostgreSQL: two tables with a GIN index over our own stems. Their functions are in SQL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager

from warmstart.recall.documents import Group, Ids
from warmstart.storage.postgres import PostgresDatabase


class PostgresTermIndex:
    """Implements `TermIndex`."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._connection = database.connection

    def postings(self, stems: Mapping[Group, Sequence[str]], limit: int) -> dict[Group, list[Ids]]:
        import numpy as np  # takes a tenth of a second to load, and only a search needs it

        one = "SELECT {0}, place, ids FROM warmstart_recall_postings('{1}', CAST(? AS TEXT[]), ?)"
        rows = self._connection.execute(
            " UNION ALL ".join(one.format(number, group) for number, group in enumerate(stems)) + " ORDER BY 1, 2",
            [value for some in stems.values() for value in (list(some), limit)],
            binary=True,
        ).fetchall()
        found: dict[Group, list[Ids]] = {group: [] for group in stems}
        for number, _, ids in rows:
            found[list(stems)[number]].append(np.array(ids, np.int64))
        return found

    def add(self, group: Group, documents: Iterable[tuple[int, str]]) -> None:
        if rows := list(documents):
            ids, stems = zip(*rows, strict=True)
            self._connection.execute(
                "SELECT warmstart_recall_add(?, CAST(? AS BIGINT[]), CAST(? AS TEXT[]))",
                (group, list(ids), list(stems)),
            )

    def count_terms(self) -> None:
        self._connection.execute("SELECT warmstart_recall_count()")

    def clear(self) -> None:
        self._connection.execute("SELECT warmstart_recall_clear()")

    def time_limit(self, seconds: float | None) -> AbstractContextManager[None]:
        return self._connection.limited(seconds)
