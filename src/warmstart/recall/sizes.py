"""How large everything in the index is: what ranking must know of every part, held in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from warmstart.recall.engine import Numbers
from warmstart.recall.index import COLUMNS, State
from warmstart.recall.packing import FIELDS
from warmstart.sessions.appending import chunks, marks
from warmstart.storage.database import AnyDatabase


class Sizes:
    """Sizes by the number of a part, kept in step with the index."""

    def __init__(self, database: AnyDatabase) -> None:
        self._db = database
        self._generation = 0
        self._forget()

    def _forget(self) -> None:
        self.session: Numbers = np.zeros(1, np.int64)  # by the number of the part; 0: there is no such part
        self.said: Numbers = np.zeros(1, np.int64)
        self.words: NDArray[np.float64] = np.zeros((1, len(FIELDS)))
        self.dead: Numbers = np.zeros(0, np.int64)
        self.totals: NDArray[np.float64] = np.zeros(len(FIELDS))
        self._lengths: dict[int, bytes] = {}
        self.parts = self.lines = 0

    def refresh(self, state: State) -> None:
        """Read what changed since the last time."""
        if state.generation == self._generation:
            return
        since = self._generation
        if state.emptied > since:
            self._forget()
            since = 0
            dead = self._db.connection.execute("SELECT line FROM recall_dead ORDER BY line")
            self.dead = np.fromiter((row[0] for row in dead), np.int64)
        rows = self._db.connection.execute(
            f"SELECT number, session, said, {COLUMNS} FROM recall_parts WHERE generation > ?", (since,)
        ).fetchall()
        if rows:
            self._put(np.array(rows, np.float64))
        self._generation = state.generation

    def lengths(self, parts: Sequence[int]) -> Mapping[int, bytes]:
        """For each of these parts, and for others, the classes of length of its lines; they stay in memory."""
        for some in chunks([part for part in parts if part not in self._lengths]):
            self._lengths.update(
                self._db.connection.execute(
                    f"SELECT number, lengths FROM recall_parts WHERE number IN ({marks(some)})", some
                )
            )
        return self._lengths

    def _put(self, rows: NDArray[np.float64]) -> None:
        numbers = rows[:, 0].astype(np.int64)
        if self._lengths:
            for number in numbers.tolist():
                self._lengths.pop(number, None)
        room = max(int(numbers.max()) + 1, len(self.session))
        if room > len(self.session):
            more = room - len(self.session)
            self.session = np.concatenate([self.session, np.zeros(more, np.int64)])
            self.said = np.concatenate([self.said, np.zeros(more, np.int64)])
            self.words = np.concatenate([self.words, np.zeros((more, len(FIELDS)))])
        self.session[numbers] = rows[:, 1].astype(np.int64)
        self.said[numbers] = rows[:, 2].astype(np.int64)
        self.words[numbers] = rows[:, 3:]
        self.totals = self.words.sum(axis=0)
        self.parts, self.lines = int((self.session > 0).sum()), int(self.said.sum())
