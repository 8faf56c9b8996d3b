"""How large everything in the index is: what ranking must know of every part, held in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from warmstart.recall.deadline import Deadline
from warmstart.recall.engine import Numbers
from warmstart.recall.index import COLUMNS, State
from warmstart.recall.packing import FIELDS
from warmstart.sessions.appending import chunks, marks
from warmstart.storage.database import AnyDatabase

_AT_ONCE = 250  # parts that are read between two looks at the clock
_DEAD = 4000  # dead lines
_WRITES = 8  # into the index
_TOO_MANY = 4000  # writes after which everything is read again
_ROW = 3 + len(FIELDS)


class Sizes:
    """Sizes by the number of a part, kept in step with the index.

    In a large store it takes a while to read them all. What was read when the time was over is kept, and the next
    search goes on from there.
    """

    def __init__(self, database: AnyDatabase) -> None:
        self._db = database
        self._generation = 0
        self._forget(0)

    def _forget(self, parts: int) -> None:
        self.session: Numbers = np.zeros(parts + 1, np.int64)  # by the number of the part; 0: there is no such part
        self.said: Numbers = np.zeros(parts + 1, np.int64)
        self.words: NDArray[np.float64] = np.zeros((parts + 1, len(FIELDS)))
        self.dead: Numbers = np.zeros(0, np.int64)
        self._read_parts = 0
        self._has_read = False
        self._lengths: dict[int, bytes] = {}
        self._sum()

    def refresh(self, state: State, deadline: Deadline) -> None:
        """Read what changed since the last time."""
        if self._has_read and state.generation == self._generation:
            return
        if state.emptied > self._generation or state.generation > self._generation + _TOO_MANY:
            self._forget(state.part)
            self._generation = state.generation
        if not self._has_read:
            self._read_all(state, deadline)
        while self._generation < state.generation:
            deadline.check()
            last = min(self._generation + _WRITES, state.generation)
            self._read("generation > ? AND generation <= ?", self._generation, last)
            self._generation = last
        self._sum()

    def _read_all(self, state: State, deadline: Deadline) -> None:
        while self._read_parts < state.part:
            deadline.check()
            self._read("number > ? AND number <= ?", self._read_parts, self._read_parts + _AT_ONCE)
            self._read_parts += _AT_ONCE
        while True:
            deadline.check()
            rows = self._db.connection.execute(
                "SELECT line FROM recall_dead WHERE line > ? ORDER BY line LIMIT ?",
                (int(self.dead[-1]) if len(self.dead) else 0, _DEAD),
            )
            more = np.fromiter((row[0] for row in rows), np.int64)
            self.dead = np.concatenate([self.dead, more])
            if len(more) < _DEAD:
                break
        self._has_read = True

    def _read(self, condition: str, first: int, last: int) -> None:
        rows = self._db.connection.execute(
            f"SELECT number, session, said, {COLUMNS} FROM recall_parts WHERE {condition}", (first, last)
        )
        found = np.fromiter(chain.from_iterable(rows), np.float64).reshape(-1, _ROW)
        if not len(found):
            return
        numbers = found[:, 0].astype(np.int64)
        more = int(numbers.max()) + 1 - len(self.session)
        if more > 0:
            self.session = np.concatenate([self.session, np.zeros(more, np.int64)])
            self.said = np.concatenate([self.said, np.zeros(more, np.int64)])
            self.words = np.concatenate([self.words, np.zeros((more, len(FIELDS)))])
        self.session[numbers] = found[:, 1].astype(np.int64)
        self.said[numbers] = found[:, 2].astype(np.int64)
        self.words[numbers] = found[:, 3:]
        if self._lengths:
            for number in numbers.tolist():
                self._lengths.pop(number, None)

    def _sum(self) -> None:
        self.totals: NDArray[np.float64] = self.words.sum(axis=0)
        self.parts, self.lines = int(np.count_nonzero(self.session)), int(self.said.sum())

    def lengths(self, parts: Sequence[int]) -> Mapping[int, bytes]:
        """For each of these parts, and for others, the classes of length of its lines; they stay in memory."""
        for some in chunks([part for part in parts if part not in self._lengths]):
            self._lengths.update(
                self._db.connection.execute(
                    f"SELECT number, lengths FROM recall_parts WHERE number IN ({marks(some)})", some
                )
            )
        return self._lengths
