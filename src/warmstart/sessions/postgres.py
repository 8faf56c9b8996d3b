"""The session store on PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from warmstart.sessions.schema import MIGRATIONS
from warmstart.sessions.sql import SQLSessionStore
from warmstart.storage.postgres import Database


class PostgresSessionStore(SQLSessionStore):
    """The sessions of one tenant in a PostgreSQL database.

    `tenant` is whom to act for, which takes a role that may; by default it is the role that the URL logs in.
    """

    INDEX: ClassVar = "SELECT warmstart_index(?)"
    FOUND: ClassVar = "SELECT id, rank FROM warmstart_found(?1, ?2)"

    _db: Database

    def __init__(self, url: str, *, tenant: str = "") -> None:
        super().__init__(Database(url, MIGRATIONS, tenant=tenant))

    @property
    def tenant(self) -> str:
        return self._db.tenant

    @property
    def server(self) -> str:
        """What the server is, with its version."""
        return f"PostgreSQL {self._db.version}"

    def scrub(self) -> None:
        """Free the room of what was deleted. What logs and backups of the server hold is its administrator's."""
        self._db.vacuum(("texts", "texts_index", "messages", "tool_calls", "tool_results", "sessions"))

    def _query(self, words: Sequence[str]) -> list[str]:
        return list(words)
