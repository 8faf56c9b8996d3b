"""Memory on the PostgreSQL server of a shared store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from warmstart.config import Settings
from warmstart.errors import ConfigError
from warmstart.memory.held import Redacting, redactor_of
from warmstart.memory.index import Seen, WordIndex
from warmstart.memory.owners import Owner
from warmstart.memory.schema import MIGRATIONS
from warmstart.memory.sql import SQLBackend
from warmstart.storage.database import Connection, Database

_ADD = (
    "INSERT INTO memory_words (owner, word, id) SELECT ?, w.word, w.id "
    "FROM unnest(CAST(? AS TEXT[]), CAST(? AS BIGINT[])) AS w (word, id)"
)


class PostgresBackend(SQLBackend):
    """Memory of one tenant in a PostgreSQL database. `tenant` is whom to act for, which takes a role that may.

    What is deleted is gone for everyone who asks. The server overwrites it in its files when it next vacuums the
    tables, which it does by itself now and then, and lets go of it in its log and its backups as it is set up to.
    """

    backend_name = "postgres (shared)"

    BATCH: ClassVar = 1
    GREATEST: ClassVar = "greatest"
    CONTAINS: ClassVar = "{} ILIKE :part"

    def __init__(self, url: str, *, tenant: str = "", redact: Redacting = True) -> None:
        def opened() -> Database:
            from warmstart.storage.postgres import PostgresDatabase  # with psycopg, which comes with an extra

            return PostgresDatabase(url, MIGRATIONS, tenant=tenant)

        super().__init__(opened, redact)

    @classmethod
    def configured(cls, settings: Settings) -> PostgresBackend:
        """The backend that the user's settings describe. Raises `ConfigError` where the store is not on a server."""
        if not settings.store_url:
            raise ConfigError(
                f"the store {settings.store_name!r} is a file; for memory on PostgreSQL set store.url to postgresql://…"
            )
        return cls(settings.store_url, tenant=settings.store_tenant, redact=redactor_of(settings))

    def _index(self, connection: Connection, owner: Owner, seen: Seen | None = None) -> WordIndex:
        return _Words(connection, owner, seen)


class _Words(WordIndex):
    """Many words at once, in one statement."""

    def _add_words(self, words: Sequence[str], entries: Sequence[int]) -> None:
        self._run(_ADD, (self._owner, words, entries))
