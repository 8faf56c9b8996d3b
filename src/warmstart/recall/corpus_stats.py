"""Corpus statistics: how long every part of the index is, kept in memory and in step with the index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from warmstart.recall.deadline import Deadline
from warmstart.recall.documents import FIELDS, PART, SAID, Ids
from warmstart.recall.index import COLUMNS, State
from warmstart.storage.database import Database
from warmstart.storage.sql import batches, placeholders

_BATCH_PARTS, _BATCH_DELETED, _BATCH_WRITES = 250, 4000, 8  # read between two looks at the clock
_MAX_WRITES = 4000  # after which everything is read again
_ROW = 3 + len(FIELDS)

Floats = NDArray[np.float64]


class Scope(NamedTuple):
    """What a search covers, and the counts that BM25 needs of it."""

    allowed: Any  # by part: whether it is searched; None for all
    parts: int
    said: int  # documents that were said
    words: Floats  # by field, in all parts
    by_part: Floats  # words by part and field


class CorpusStats:
    """Sizes by part.

    Reading all of them takes a while in a large store. What was read when time ran out is kept, and the next search
    continues there.
    """

    def __init__(self, database: Database) -> None:
        self._db = database
        self._generation = 0
        self._reset(0)

    def _reset(self, parts: int) -> None:
        self.session: Ids = np.zeros(parts + 1, np.int64)  # by part; 0 where there is none
        self.said: Ids = np.zeros(parts + 1, np.int64)
        self.words: Floats = np.zeros((parts + 1, len(FIELDS)))
        self.deleted: Ids = np.zeros(0, np.int64)
        self._parts_read = 0
        self._complete = False
        self._lengths: dict[int, bytes] = {}
        self._add_up()

    def _add_up(self) -> None:
        self.totals: Floats = self.words.sum(axis=0)
        self.parts, self.documents = int(np.count_nonzero(self.session)), int(self.said.sum())

    @property
    def has_did(self) -> bool:
        """Whether anything but speech is indexed."""
        return bool(self.totals[SAID:].any())

    def refresh(self, state: State, deadline: Deadline) -> None:
        """Read what changed since the last time."""
        if self._complete and state.generation == self._generation:
            return
        if state.cleared > self._generation or state.generation > self._generation + _MAX_WRITES:
            self._reset(state.parts)
            self._generation = state.generation
        if not self._complete:
            self._read_all(state, deadline)
        while self._generation < state.generation:
            deadline.check()
            last = min(self._generation + _BATCH_WRITES, state.generation)
            self._read("generation > ? AND generation <= ?", self._generation, last)
            self._generation = last
        self._add_up()

    def _read_all(self, state: State, deadline: Deadline) -> None:
        while self._parts_read < state.parts:
            deadline.check()
            self._read("number > ? AND number <= ?", self._parts_read, self._parts_read + _BATCH_PARTS)
            self._parts_read += _BATCH_PARTS
        while True:
            deadline.check()
            rows = self._db.connection.execute(
                "SELECT id FROM recall_deleted WHERE id > ? ORDER BY id LIMIT ?",
                (int(self.deleted[-1]) if len(self.deleted) else 0, _BATCH_DELETED),
            )
            more = np.fromiter((row[0] for row in rows), np.int64)
            self.deleted = np.concatenate([self.deleted, more])
            if len(more) < _BATCH_DELETED:
                break
        self._complete = True

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
        for number in numbers.tolist() if self._lengths else ():
            self._lengths.pop(number, None)

    def lengths(self, parts: Sequence[int]) -> Mapping[int, bytes]:
        """For each of these parts, and for others, the length classes of its documents; they stay in memory."""
        for batch in batches(part for part in parts if part not in self._lengths):
            self._lengths.update(
                self._db.connection.execute(
                    f"SELECT number, lengths FROM recall_parts WHERE number IN ({placeholders(batch)})", batch
                )
            )
        return self._lengths

    def scope(self, sessions: Sequence[int] | None) -> Scope:
        """The statistics of these sessions, or of all."""
        if sessions is None:
            return Scope(None, self.parts, self.documents, self.totals, self.words)
        chosen = np.zeros(max(int(self.session.max()), *sessions, 0) + 1, bool)
        chosen[list(sessions)] = True
        allowed = chosen[self.session] & (self.session > 0)
        words = self.words[allowed].sum(axis=0)
        return Scope(allowed, int(allowed.sum()), int(self.said[allowed].sum()), words, self.words)

    def exists(self, ids: Ids, allowed: Any) -> Any:
        """Which of these documents are in scope and not deleted."""
        part = np.minimum(ids >> PART, len(self.session) - 1)
        found = self.session[part] > 0 if allowed is None else allowed[part]
        found &= part == ids >> PART  # otherwise another process has just added it
        if len(self.deleted):
            at = np.minimum(np.searchsorted(self.deleted, ids), len(self.deleted) - 1)
            found &= self.deleted[at] != ids
        return found
