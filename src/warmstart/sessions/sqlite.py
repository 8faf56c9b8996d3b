"""The session store on SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from warmstart.sessions.schema import MIGRATIONS
from warmstart.sessions.sql import SQLSessionStore
from warmstart.storage.database import Statements
from warmstart.storage.sqlite import Database


class SQLiteSessionStore(SQLSessionStore):
    """Sessions in one SQLite file."""

    FOUND: ClassVar = "SELECT rowid AS id, rank FROM texts_index WHERE texts_index MATCH ?1 ORDER BY rank LIMIT ?2"

    _db: Database

    def __init__(self, path: Path | str) -> None:
        super().__init__(Database(Path(path), MIGRATIONS))

    @property
    def path(self) -> Path:
        return self._db.path

    @property
    def about(self) -> str:
        return f"SQLite {sqlite3.sqlite_version}"

    def scrub(self) -> None:
        """Leave no trace of what was deleted in the file: merge the index, rewrite the file, empty its log."""
        with self.transaction() as connection:
            connection.execute("INSERT INTO texts_index (texts_index) VALUES ('optimize')")
            connection.execute("INSERT INTO scrubs (id) VALUES (1)")
            connection.execute("DELETE FROM scrubs")
        self._db.vacuum()

    def _index(self, newest: int) -> Statements:
        return [
            ("INSERT INTO texts_index (rowid, body) SELECT id, body FROM texts WHERE id > ? ORDER BY id", (newest,))
        ]

    def _query(self, words: Sequence[str]) -> str:
        return " ".join('"' + word.replace('"', '""') + '"' for word in words)
