"""Where the vectors of a store are kept: beside its file, or in its database. Loads nothing before it is needed."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Literal, overload

from warmstart.errors import ConfigError, StoreCorrupt
from warmstart.sessions.sql import SQLSessionStore
from warmstart.storage.sqlite import Database as SQLiteDatabase

if TYPE_CHECKING:
    from warmstart.recall.vectors.index import VectorIndex


def vectors_path(store: SQLSessionStore) -> Path | None:
    """The file of the vectors of a store that is a file."""
    return vectors_beside(store.database.path) if isinstance(store.database, SQLiteDatabase) else None


def vectors_beside(store: Path) -> Path:
    """The file of the vectors for the file of a store."""
    return store.with_name(f"{store.stem}.vectors.db")


def has_vectors(store: SQLSessionStore) -> bool:
    """Whether there may be vectors: a quick look."""
    path = vectors_path(store)
    if path is not None:
        return path.exists()
    run = store.database.connection.execute
    with store.database.translated():
        there = run("SELECT to_regclass('vector_sets') IS NOT NULL").fetchone()[0]
        return there and run("SELECT 1 FROM vector_sets").fetchone() is not None


@overload
def open_vectors(store: SQLSessionStore, *, make: Literal[True]) -> VectorIndex: ...
@overload
def open_vectors(store: SQLSessionStore, *, make: Literal[False]) -> VectorIndex | None: ...
def open_vectors(store: SQLSessionStore, *, make: bool) -> VectorIndex | None:
    """The vectors of a store; with `make` a place for them where there is none."""
    if not make and not has_vectors(store):
        return None
    path = vectors_path(store)
    if path is not None:
        from warmstart.recall.vectors.sqlite_vec import SQLiteVectors

        return SQLiteVectors(path)
    from warmstart.recall.vectors.pgvector import PostgresVectors
    from warmstart.storage.postgres import Database as PostgresDatabase

    if not isinstance(store.database, PostgresDatabase):
        raise ConfigError(f"vectors need a store on SQLite or PostgreSQL, and this one is {store.name!r}")
    return PostgresVectors(store.database)


def forget_gone(store: SQLSessionStore) -> None:
    """Forget the vectors of sessions that were deleted; where a file can no longer be read, forget all of it."""
    try:
        index = open_vectors(store, make=False)
    except (ConfigError, StoreCorrupt):
        if (path := vectors_path(store)) is not None:
            for ending in ("", "-wal", "-shm"):
                path.with_name(path.name + ending).unlink(missing_ok=True)
        return
    if index is not None:
        from warmstart.recall.vectors.index import prune

        with closing(index):
            prune(store.database, index)
