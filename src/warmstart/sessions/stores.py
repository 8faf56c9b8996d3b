"""Opening the store that the settings name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from warmstart.config import Settings
from warmstart.sessions.sqlite import SQLiteSessionStore


@contextmanager
def open_store(settings: Settings) -> Iterator[SQLiteSessionStore]:
    """The session store, made and migrated if need be, and closed afterwards."""
    store = SQLiteSessionStore(settings.store_path)
    try:
        yield store
    finally:
        store.close()
