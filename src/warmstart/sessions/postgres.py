"""The session store on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from warmstart.sessions.schema import MIGRATIONS
from warmstart.sessions.sql import SQLSessionStore
from warmstart.sessions.words import Stems, words_of
from warmstart.storage.database import Statement, Statements
from warmstart.storage.postgres import Database

_INDEX = "SELECT warmstart_index(CAST(? AS BIGINT[]), CAST(? AS TEXT[]))"
_AT_ONCE = 500_000  # characters whose words are sent together


class PostgresSessionStore(SQLSessionStore):
    """The sessions of one tenant in a PostgreSQL database.

    `tenant` is whom to act for, which takes a role that may; by default it is the role that the URL logs in.
    """

    FOUND: ClassVar = "SELECT id, rank FROM warmstart_found(?1, ?2)"

    _db: Database

    def __init__(self, url: str, *, tenant: str = "") -> None:
        super().__init__(Database(url, MIGRATIONS, tenant=tenant))
        self._stems = stems(self._db)

    @property
    def tenant(self) -> str:
        return self._db.tenant

    @property
    def about(self) -> str:
        return f"PostgreSQL {self._db.version}, tenant {self.tenant}"

    def scrub(self) -> None:
        """Free the room of what was deleted. What logs and backups of the server hold is its administrator's."""
        with self.transaction() as connection:
            connection.execute("INSERT INTO scrubs (id) VALUES (1)")
            connection.execute("DELETE FROM scrubs")
        self._db.vacuum()

    def _index(self, newest: int) -> Statements:
        page: list[tuple[int, list[str]]] = []
        characters = 0
        for number, body in self._db.stream("SELECT id, body FROM texts WHERE id > ? ORDER BY id", (newest,)):
            page.append((number, words_of(body)))
            characters += len(body)
            if characters > _AT_ONCE:
                yield self._indexed(page)
                page, characters = [], 0
        yield self._indexed(page)

    def _indexed(self, page: Sequence[tuple[int, list[str]]]) -> Statement:
        self._stems.learn(words for _, words in page)
        vectors = [self._stems.vector(words) for _, words in page]
        return _INDEX, ([number for number, _ in page], vectors)

    def _query(self, words: Sequence[str]) -> str:
        return self._stems.query(words)


def stems(database: Database) -> Stems:
    """Words without their endings, as the server's dictionary takes them off."""

    def stem(words: Sequence[str]) -> Iterable[tuple[str, str]]:
        return database.connection.execute(
            # Of a word that its list leaves out, the dictionary gives nothing.
            "SELECT word, coalesce((ts_lexize('english_stem', word))[1], word) FROM unnest(CAST(? AS TEXT[])) AS word",
            (list(words),),
        )

    return Stems(stem)
