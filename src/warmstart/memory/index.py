"""The words of a user's entries in the database, and how the index catches up with what was written.

What it does not have yet is read beside it: no answer lacks what was written a moment ago.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from warmstart.memory.owners import Owner, numbers
from warmstart.memory.ranking import Text
from warmstart.memory.words import stems_of
from warmstart.storage.database import Connection

PAGE = 2000  # entries that are put into the index in one write

_END = "\U0010ffff"
_FAR = 500  # newest entries of the first of several words among which the others are looked for
_HAVING = "SELECT id FROM memory_words WHERE owner = ? AND word = ? ORDER BY id DESC"
_ALSO = " AND EXISTS (SELECT 1 FROM memory_words o WHERE o.owner = ? AND o.word = ? AND o.id = w.id)"
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
    WHERE m.id > ?1 AND m.id <= ?2 AND m.past <= m.id AND m.scope >= 0
    UNION ALL
    SELECT m.id, m.key, m.value, m.metadata, h.id FROM memory_history h
    JOIN memories m ON m.id = h.entry AND m.past = h.id WHERE h.id > ?1 AND h.id <= ?2
    ORDER BY number LIMIT ?3
"""


class WordIndex:
    """Implements `ranking.Index` for one user."""

    def __init__(self, connection: Connection, owner: Owner) -> None:
        self._run = connection.execute
        self._many = connection.executemany
        self._owner, self.indexed = owner
        self._first, self._last = numbers(owner.number)

    # -- asking

    def having(self, words: Sequence[str], limit: int) -> list[int]:
        # Limits are written out: a server that plans for any number would plan to read all entries of a word.
        first, *others = words
        if not others:
            return [row[0] for row in self._run(f"{_HAVING} LIMIT {limit}", (self._owner, first))]
        pairs = [value for word in others for value in (self._owner, word)]
        rows = self._run(
            f"SELECT w.id FROM ({_HAVING} LIMIT {_FAR}) w WHERE 1 = 1{_ALSO * len(others)} "
            f"ORDER BY w.id DESC LIMIT {limit}",
            (self._owner, first, *pairs),
        )
        return [row[0] for row in rows]

    def beginning(self, letters: str, limit: int) -> list[str]:
        return [row[0] for row in self._run(_BEGINNING, (self._owner, letters, letters + _END, limit))]

    # -- catching up

    def newest(self) -> int:
        """The number of the user's last write."""
        return int(self._run(_NEWEST, (self._first, self._last)).fetchone()[0])

    def fresh(self, limit: int = PAGE) -> list[Text]:
        """What the index does not have yet as it is now."""
        return [Text(*row[:4]) for row in self._run(_FRESH, (self.indexed, self._last, limit))]

    def catch_up(self) -> bool:
        """Put what is new into the index, in the order in which it was written; whether there is more to be done."""
        newest = self.newest()
        rows = self._run(_FRESH, (self.indexed, self._last, PAGE)).fetchall()
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
                places = ",".join("?" * len(words))
                self._run(
                    f"DELETE FROM memory_words WHERE owner = ? AND id = ? AND word IN ({places})",
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
