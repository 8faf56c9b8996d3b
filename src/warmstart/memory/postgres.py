"""Memory on the PostgreSQL server of a shared store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from warmstart.config import COPIES, Settings
from warmstart.errors import ConfigError
from warmstart.memory.search import WordIndex
from warmstart.memory.sql import MIGRATIONS, Redacting, SQLBackend
from warmstart.storage.database import Connection, Database


class _GIN(WordIndex):
    """A table with a GIN index, accessible only through functions of the database."""

    def add(self, connection: Connection, rows: Sequence[tuple[int, str]]) -> None:
        ids, texts = [row[0] for row in rows], [row[1] for row in rows]
        connection.execute("SELECT warmstart_memory_add(CAST(? AS BIGINT[]), CAST(? AS TEXT[]))", (ids, texts))

    def remove(self, connection: Connection, ids: Sequence[int]) -> None:
        connection.execute("SELECT warmstart_memory_remove(CAST(? AS BIGINT[]))", (list(ids),))

    def find(self, connection: Connection, every: Sequence[str], some: Sequence[str], limit: int) -> list[int]:
        rows = connection.execute(
            "SELECT id FROM warmstart_memory_find(CAST(? AS TEXT[]), CAST(? AS TEXT[]), ?)",
            (list(every), list(some), limit),
        ).fetchall()
        return [row[0] for row in rows]


class PostgresBackend(SQLBackend):
    """Memory of one tenant in a PostgreSQL database, by default that of the settings.

    Only roles that may act for others can name a `tenant`. Raises `ConfigError` if the configured store is a file.

    The server overwrites deleted rows at its next VACUUM; its log and its backups are out of our reach.
    """

    backend_name = "postgres (shared)"

    GREATEST: ClassVar = "greatest"
    CONTAINS: ClassVar = "strpos(lower({}), lower(:part)) > 0"
    _words: ClassVar = _GIN()

    def __init__(
        self, url: str = "", *, tenant: str = "", redact: Redacting = None, settings: Settings | None = None
    ) -> None:
        if settings is not None and not url:
            url, tenant = settings.store_url, settings.store_tenant
            if not url:
                advice = "for memory on PostgreSQL set store.url to postgresql://…"
                raise ConfigError(f"the store {settings.store_name!r} is a file; {advice}")
        super().__init__(redact, settings)
        self._url, self._tenant = url, tenant
        self._copies = settings.home / COPIES if settings else None

    def _open_database(self) -> Database:
        from warmstart.storage.postgres import PostgresDatabase  # with psycopg, which is an extra

        database = PostgresDatabase(self._url, MIGRATIONS, tenant=self._tenant)
        database.copies = self._copies
        return database

    def forget_user(self, user_id: str, *, vacuum: bool = True) -> int:
        return super().forget_user(user_id, vacuum=False)  # the server vacuums by itself, for all tenants
