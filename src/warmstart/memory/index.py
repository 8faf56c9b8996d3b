"""The words of a user's entries in the database, and how the index catches up with what was written.

What it does not have yet is read beside it: no answer lacks what was written a moment ago.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from warmstart.memory.owners import Owner, numbers
from warmstart.memory.ranking import Text
from warmstart.memory.words import stems_of
from warmstart.storage.database import Connection
from warmstart.storage.sql import placeholders

PAGE = 2000  # entries that are put into the index in one write

# Ends an EXISTS that is to be looked up by key for each row. PostgreSQL makes no join of what has an offset; in a join
# it would read all entries of the tenant for each row, as long as it has no statistics of the tables.
ONE_BY_ONE = "LIMIT 1 OFFSET 0"

_END = "\U0010ffff"
_PART = 100  # words that are counted at once
_FAR = 500  # newest entries of the first of several words among which the others are looked for
_HAVING = "SELECT w.id FROM memory_words w WHERE w.owner = :owner AND w.word = {}"
_ALSO = (
    " AND EXISTS (SELECT 1 FROM memory_words o WHERE o.owner = :owner AND o.word = :w{} AND o.id = w.id "
    f"{ONE_BY_ONE})"
)
_SEEN = f" AND EXISTS (SELECT 1 FROM memories m WHERE m.id = w.id AND {{}} {ONE_BY_ONE})"
# From word to word, however many entries each has.
_BEGINNING = """
    WITH RECURSIVE begun (word) AS (
        SELECT (SELECT w.word FROM memory_words w WHERE w.owner = ?1 AND w.word >= ?2 AND w.word < ?3
                ORDER BY w.word LIMIT 1)
        UNION ALL
        SELECT (SELECT w.word FROM memory_words w WHERE w.owner = ?1 AND w.word > begun.word AND w.word < ?3
                ORDER BY w.word LIMIT 1)
        FROM begun WHERE begun.word IS NOT NULL
    )
    SELECT word FROM begun WHERE word IS NOT NULL LIMIT ?4
"""
_NEWEST = (
    "SELECT max(id) FROM (SELECT max(id) AS id FROM memories WHERE id BETWEEN ?1 AND ?2 "
    "UNION ALL SELECT max(id) FROM memory_history WHERE id BETWEEN ?1 AND ?2) n"
)
# What is new, and what was written over since; of each the number of its last write.
_FRESH = """
    SELECT m.id, m.key, m.value, m.metadata, m.id AS number FROM memories m
    WHERE m.id > :indexed AND m.id <= :last AND m.past <= m.id AND m.scope >= 0{seen}
    UNION ALL
    SELECT m.id, m.key, m.value, m.metadata, h.id FROM memory_history h
    JOIN memories m ON m.id = h.entry AND m.past = h.id WHERE h.id > :indexed AND h.id <= :last{seen}
    ORDER BY number LIMIT {limit}
"""


class Seen(NamedTuple):
    """Which entries count: a condition on `m`, the entries, and what it takes."""

    condition: str
    given: Mapping[str, Any]


class WordIndex:
    """Implements `ranking.Index` for one user; with `seen` as if there were no other entries than those."""

    def __init__(self, connection: Connection, owner: Owner, seen: Seen | None = None) -> None:
        self._run = connection.execute
        self._many = connection.executemany
        self._owner, self.indexed = owner
        self._first, self._last = numbers(owner.number)
        self._having = _HAVING + (_SEEN.format(seen.condition) if seen else "")
        self._fresh = f" AND {seen.condition}" if seen else ""
        self._given = {"owner": owner.number, **(seen.given if seen else {})}

    # -- asking

    def having(self, words: Sequence[str], limit: int) -> list[int]:
        # Limits are written out: a server that plans for any number would plan to read all entries of a word.
        given = {**self._given, **{f"w{number}": word for number, word in enumerate(words)}}
        sql = f"{self._having.format(':w0')} ORDER BY w.id DESC LIMIT {limit if len(words) == 1 else max(_FAR, limit)}"
        if len(words) > 1:
            also = "".join(map(_ALSO.format, range(1, len(words))))
            sql = f"SELECT w.id FROM ({sql}) w WHERE 1 = 1{also} ORDER BY w.id DESC LIMIT {limit}"
        return [row[0] for row in self._run(sql, given)]

    def numbers_of(self, words: Sequence[str], most: int) -> dict[str, int]:
        found: dict[str, int] = {}
        for start in range(0, len(words), _PART):
            some = words[start : start + _PART]
            rows = self._run(
                f"WITH asked (word) AS (VALUES {', '.join(f'(:w{number})' for number in range(len(some)))}) "
                f"SELECT a.word, (SELECT count(*) FROM ({self._having.format('a.word')} LIMIT {most}) n) FROM asked a",
                {**self._given, **{f"w{number}": word for number, word in enumerate(some)}},
            )
            found.update((word, number) for word, number in rows if number)
        return found

    def beginning(self, letters: str, limit: int) -> list[str]:
        return [row[0] for row in self._run(_BEGINNING, (self._owner, letters, letters + _END, limit))]

    # -- catching up

    def newest(self) -> int:
        """The number of the user's last write."""
        return int(self._run(_NEWEST, (self._first, self._last)).fetchone()[0])

    def fresh(self, limit: int = PAGE) -> list[Text]:
        """What the index does not have yet as it is now."""
        given = {**self._given, "indexed": self.indexed, "last": self._last}
        return [Text(*row[:4]) for row in self._run(_FRESH.format(seen=self._fresh, limit=limit), given)]

    def catch_up(self) -> bool:
        """Put what is new into the index, in the order in which it was written; whether there is more to be done."""
        newest = self.newest()
        given = {"indexed": self.indexed, "last": self._last}
        rows = self._run(_FRESH.format(seen="", limit=PAGE), given).fetchall()
        more = len(rows) == PAGE
        if rows:
            words = stems_of(f"{key} {value} {metadata}" for _, key, value, metadata, _ in rows)
            moved = [(row[4], row[0]) for row in rows if row[4] != row[0]]
            self.remove([before for _, before in moved])
            for number, before in moved:
                self._run("UPDATE memories SET id = ? WHERE id = ?", (number, before))
            self._add([(row[4], list(dict.fromkeys(some))) for row, some in zip(rows, words, strict=True)])
        self.indexed = rows[-1][4] if more else newest
        self._run("UPDATE memory_users SET indexed = ? WHERE number = ?", (self.indexed, self._owner))
        return more

    def remove(self, entries: Iterable[int]) -> None:
        """Take entries out, where they are in it."""
        for entry in entries:
            row = self._run("SELECT words FROM memory_indexed WHERE id = ?", (entry,)).fetchone()
            if row is None:
                continue
            words = row[0].split()
            if words:
                self._run(
                    f"DELETE FROM memory_words WHERE owner = ? AND id = ? AND word IN ({placeholders(words)})",
                    (self._owner, entry, *words),
                )
            self._run("DELETE FROM memory_indexed WHERE id = ?", (entry,))

    def _add(self, rows: Sequence[tuple[int, list[str]]]) -> None:
        pairs = sorted((word, entry) for entry, words in rows for word in words)
        self._add_words([word for word, _ in pairs], [entry for _, entry in pairs])
        self._many(
            "INSERT INTO memory_indexed (id, words) VALUES (?, ?)", [(entry, " ".join(words)) for entry, words in rows]
        )

    def _add_words(self, words: Sequence[str], entries: Sequence[int]) -> None:
        owners = [self._owner] * len(words)
        self._many(
            "INSERT INTO memory_words (owner, word, id) VALUES (?, ?, ?)", zip(owners, words, entries, strict=True)
        )
