"""Where the vectors of a database are: in a file next to a SQLite store, or in the PostgreSQL database itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from warmstart.storage.database import Database, migrations_of
from warmstart.storage.sqlite import SQLiteDatabase

MIGRATIONS = migrations_of("embedding", __file__)

if TYPE_CHECKING:  # loads numpy, which a quick check does not need
    from warmstart.embedding.vectors import VectorStore


def vectors_path(database: Database) -> Path | None:
    """The vector file of a SQLite store; None for PostgreSQL."""
    path = database.path if isinstance(database, SQLiteDatabase) else None
    return path and path.with_name(f"{path.stem}.vectors.db")


def has_vectors(database: Database) -> bool:
    """Whether there may be vectors; a quick check."""
    path = vectors_path(database)
    if path is not None:
        return path.exists()
    with database.translate_errors():
        run = database.connection.execute
        exists = run("SELECT to_regclass('vector_models') IS NOT NULL").fetchone()[0]
        return exists and run("SELECT 1 FROM vector_models").fetchone() is not None


def open_vectors(database: Database) -> VectorStore:
    """The vectors of a database that has the tables of this package; creates the vector file of a SQLite store."""
    from warmstart.embedding.vectors import PostgresVectors, SQLiteVectors

    path = vectors_path(database)
    return PostgresVectors(database) if path is None else SQLiteVectors(path)


def delete_vectors_file(database: Database) -> None:
    """Delete the vector file of a SQLite store; the vectors can be recomputed from the texts."""
    if (path := vectors_path(database)) is not None:
        for ending in ("", "-wal", "-shm"):
            path.with_name(path.name + ending).unlink(missing_ok=True)
