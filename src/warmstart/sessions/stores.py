"""Opening the store that the settings name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from warmstart.config import Settings
from warmstart.sessions.sql import SQLSessionStore
from warmstart.sessions.sqlite import SQLiteSessionStore


@contextmanager
def open_store(settings: Settings) -> Iterator[SQLSessionStore]:
    """The session store, made and migrated if need be, and closed afterwards."""
    store = _opened(settings)
    try:
        yield store
    finally:
        store.close()


def _opened(settings: Settings) -> SQLSessionStore:
    if not settings.store_url:
        return SQLiteSessionStore(settings.store_path)
    from warmstart.sessions.postgres import PostgresSessionStore  # with psycopg, which comes with an extra

    return PostgresSessionStore(settings.store_url, tenant=settings.store_tenant)
