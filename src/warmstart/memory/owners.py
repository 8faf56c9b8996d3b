"""The numbers that stand for users in the tables of memory."""

from __future__ import annotations

from typing import NamedTuple

from warmstart.memory.schema import BITS
from warmstart.sessions.values import clean
from warmstart.storage.database import Connection

_FIND = "SELECT number, indexed FROM memory_users WHERE user_id = ?"


class Owner(NamedTuple):
    """A user by his number, and up to which of his writes the index knows them."""

    number: int
    indexed: int


class Owners:
    """Who has which number. What was once found is remembered, and may have been forgotten since by another process."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def find(self, connection: Connection, user_id: str) -> Owner | None:
        """A user as he is known now."""
        row = connection.execute(_FIND, (clean(user_id),)).fetchone()
        if row is None:
            self.known.pop(user_id, None)
            return None
        self.known[user_id] = row[0]
        return Owner(*row)

    def number(self, connection: Connection, user_id: str) -> int:
        """The number of a user, who gets one where he has none."""
        found = self.find(connection, user_id)
        if found is not None:
            return found.number
        number = int(connection.execute("SELECT coalesce(max(number), 0) + 1 FROM memory_users").fetchone()[0])
        first = number << BITS
        connection.execute(
            "INSERT INTO memory_users (number, user_id, indexed) VALUES (?, ?, ?)", (number, clean(user_id), first)
        )
        connection.execute(
            "INSERT INTO memories (id, owner, key, scope, place, value, created_at, updated_at, since, metadata) "
            "VALUES (?, ?, '', -1, '', '', 0, 0, 0, '')",
            (first, number),
        )
        return number  # not remembered before it is certain: this write may yet fail

    def changed(self, connection: Connection, user_id: str) -> bool:
        """Whether a user has another number than was remembered, or none any more."""
        before = self.known.get(user_id)
        found = self.find(connection, user_id)
        return before is not None and before != (found.number if found else None)

    def forget(self, connection: Connection, user_id: str, number: int) -> None:
        """Forget who had a number. The highest stays, without a name, so that no number is given twice."""
        self.known.pop(user_id, None)
        connection.execute("UPDATE memory_users SET user_id = NULL, indexed = 0 WHERE number = ?", (number,))
        connection.execute(
            "DELETE FROM memory_users WHERE user_id IS NULL AND number < (SELECT max(number) FROM memory_users)"
        )


def numbers(owner: int) -> tuple[int, int]:
    """The first and the last number that a user's writes may have."""
    return owner << BITS, (owner + 1 << BITS) - 1
