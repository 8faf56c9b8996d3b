"""Memory on the PostgreSQL server of a shared store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from warmstart.config import Settings
from warmstart.errors import ConfigError
from warmstart.memory.ranking import Index
from warmstart.memory.schema import MIGRATIONS
from warmstart.memory.sql import Redacting, SQLBackend, redactor_of
from warmstart.storage.database import AnyDatabase, Connection

_END = "\U0010ffff"
_ADD = (
    "INSERT INTO memory_words (word, id) SELECT w.word, w.id FROM unnest(CAST(? AS TEXT[]), CAST(? AS BIGINT[])) "
    "AS w (word, id) ON CONFLICT DO NOTHING"
)


class PostgresBackend(SQLBackend):
    """Memory of one tenant in a PostgreSQL database. `tenant` is whom to act for, which takes a role that may."""

    backend_name = "postgres (shared)"

    BATCH: ClassVar = 1
    CONTAINS: ClassVar = "{} ILIKE :part"

    def __init__(self, url: str, *, tenant: str = "", redact: Redacting = True) -> None:
        def opened() -> AnyDatabase:
            from warmstart.storage.postgres import Database  # with psycopg, which comes with an extra

            return Database(url, MIGRATIONS, tenant=tenant)

        super().__init__(opened, redact)

    @classmethod
    def configured(cls, settings: Settings) -> PostgresBackend:
        """The backend that the user's settings describe. Raises `ConfigError` where the store is not on a server."""
        if not settings.store_url:
            raise ConfigError(
                f"the store {settings.store_name!r} is a file; for memory on PostgreSQL set store.url to postgresql://…"
            )
        return cls(settings.store_url, tenant=settings.store_tenant, redact=redactor_of(settings))

    def _lookup(self, owner: int, newest: int) -> Index:
        return _Words(self._held.database.connection, owner, newest)

    def _add(self, rows: Iterable[tuple[int, int, Iterable[str]]]) -> None:
        pairs = [(f"{owner}·{word}", entry) for entry, owner, words in rows for word in words]
        if pairs:
            self._held.database.connection.execute(_ADD, ([word for word, _ in pairs], [entry for _, entry in pairs]))

    def _remove(self, ids: Sequence[int]) -> None:
        if ids:
            self._held.database.connection.execute(
                "DELETE FROM memory_words WHERE id = ANY(CAST(? AS BIGINT[]))", (list(ids),)
            )


class _Words:
    """Implements `Index`."""

    def __init__(self, connection: Connection, owner: int, newest: int) -> None:
        self._newest = newest
        self._run = connection.execute
        self._mark = f"{owner}·"

    def having(self, words: Sequence[str], limit: int, *, newest: int = 0) -> list[int]:
        first, *others = (self._mark + word for word in words)
        also = "".join(
            f" AND EXISTS (SELECT 1 FROM memory_words o{place} WHERE o{place}.word = ? AND o{place}.id = w.id)"
            for place in range(len(others))
        )
        rows = self._run(
            f"SELECT w.id FROM memory_words w WHERE w.word = ?{also} AND w.id > ? ORDER BY w.id DESC LIMIT ?",
            (first, *others, self._newest - newest if newest else 0, limit),
        )
        return [row[0] for row in rows]

    def beginning(self, letters: str, limit: int) -> list[str]:
        start = self._mark + letters
        rows = self._run(
            "SELECT DISTINCT word FROM memory_words WHERE word >= ? AND word < ? ORDER BY word LIMIT ?",
            (start, start + _END, limit),
        )
        return [row[0][len(self._mark) :] for row in rows]
