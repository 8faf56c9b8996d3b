"""A store with the index over its texts: what a search needs of it. `SQLSessionStore` adds the sessions themselves.

`warmstart recall` opens only this, because loading what writes sessions takes longer than the search.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from warmstart.config import Settings
from warmstart.sessions.tables import MIGRATIONS
from warmstart.sessions.text_index import PostgresTextIndex, SQLiteTextIndex, TextIndex
from warmstart.storage.database import Database
from warmstart.storage.sqlite import SQLiteDatabase


class IndexedStore:
    """A database with the tables of sessions, for one thread. Other packages have their own tables in `database`."""

    def __init__(self, database: Database, index: TextIndex) -> None:
        self.database = database
        self.index = index

    def close(self) -> None:
        self.database.close()

    def fetch(self, sql: str, parameters: Any = ()) -> list[Any]:
        """The rows of a query."""
        with self.database.translate_errors():
            return self.database.connection.execute(sql, parameters).fetchall()

    def projects(self) -> list[str]:
        return [row[0] for row in self.fetch("SELECT DISTINCT project FROM sessions ORDER BY project")]


@contextmanager
def open_indexed_store(settings: Settings) -> Iterator[IndexedStore]:
    """Open the store in the settings for a search, created and migrated if necessary, and close it afterwards."""
    if settings.store_url:
        from warmstart.storage.postgres import PostgresDatabase  # deferred: psycopg is an extra

        server = PostgresDatabase(settings.store_url, MIGRATIONS, tenant=settings.store_tenant)
        store = IndexedStore(server, PostgresTextIndex(server))
    else:
        file = SQLiteDatabase(settings.store_path, MIGRATIONS)
        store = IndexedStore(file, SQLiteTextIndex(file))
    try:
        yield store
    finally:
        store.close()
