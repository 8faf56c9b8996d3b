"""Which rows of Hermes' `messages` table are copies of earlier ones.

Compaction writes the part of the conversation that it keeps once more, under new row ids: into the same session, or
into a child session if Hermes is set to rotate. A branch starts with a copy of its parent. Nothing marks the copies,
and the words alone cannot distinguish a copy from a person who really says "go" twice. Times can:

- a message that Hermes had loaded from the database is written with its old time: same time, same words;
- a message of the running process gets the time of the compaction, one microsecond after the row before. Rows that
  Hermes writes as things happen are never so close. Rows of such a burst are copies if the conversation had them
  before, except that the last may be the prompt that triggered the compaction: it is a copy only if it was also the
  last message before;
- that prompt may be written again after the burst, with a time of its own;
- a branch is copied row by row without its times, all at once, before anything else happens in it.

Every question is answered by an index or in a bounded range of rows, so nothing is kept between rows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import NamedTuple

from warmstart.sessions.readers.hermes.rows import COLUMNS, SUMMARY_OPENINGS, TASKS_OPENING, Body, Row, text_of

_TICK = 1.3e-6  # a burst adds a microsecond per row; a double is exact to a quarter of one
MAX_BURST = 2_000  # rows
MAX_DISTANCE = 20_000  # rows between a copy and its original: far more than a context window has
MAX_WALK = 500  # rows
MAX_BRANCHES = 256
_BRANCH_GAP = 0.5  # seconds
_BLANKS = " \t\r\n"

_VISIBLE = "(COALESCE(active, 1) <> 0 OR COALESCE(compacted, 0) <> 0)"
_ALIKE = """role = :role AND (
    (:call <> '' AND tool_call_id = :call)
    OR (:calls <> '' AND instr(tool_calls, :calls) > 0)
    OR (:call = '' AND :calls = '' AND (content = :raw OR trim(content, :blanks) IN (:text, :shot)))
)"""


class Burst(NamedTuple):
    """Rows that one compaction wrote with its own time; `last` is the last one that is not Hermes' own text."""

    session: str
    first: int
    last: int
    end: int


class Copies:
    """Distinguishes copies from originals; `source` is the SQL of a table with the columns of `Row`."""

    def __init__(self, connection: sqlite3.Connection, source: str) -> None:
        self._connection = connection
        self._source = source
        self._burst = Burst("", 0, 0, 0)
        self._branches: dict[str, int] = {}

    def covers(self, row: Row, body: Body, lineage: tuple[str, ...], *, forked: bool) -> bool:
        """Whether the message of `row` is in an earlier row of its lineage.

        `lineage` is the row's session, its parent, and so on; `forked` means that the session began with a copy of its
        parent.
        """
        if not isinstance(row.timestamp, int | float):
            return False
        if self.repeats(row, body, lineage):
            return True
        plain = row.role != "tool" and not body.calls
        burst = self._burst_of(row)
        if burst is not None:
            if plain and row.id == burst.last:
                return self._follows(row, body, lineage, burst.first)
            return self._exists(_like(row, body), lineage, before=burst.first, recent=True)
        if forked and row.id <= self._branch_end(lineage[0]):
            return self._exists(_like(row, body), lineage[1:], before=row.id)
        return plain and row.role == "user" and self._follows(row, body, lineage, row.id)

    def repeats(self, row: Row, body: Body, lineage: tuple[str, ...]) -> bool:
        """Whether an earlier row has the same time and content."""
        return self._exists(_like(row, body), lineage, before=row.id, at=row.timestamp)

    def _exists(
        self,
        like: dict[str, object],
        lineage: tuple[str, ...],
        *,
        before: int,
        at: float | None = None,
        recent: bool = False,
    ) -> bool:
        # The plus keeps SQLite off the index of sessions, so that it walks back from `before` and stops early.
        column = "+session_id" if recent else "session_id"
        clauses = [f"{column} IN ({_names(lineage)})", "id < :before", _VISIBLE, _ALIKE]
        if at is not None:
            clauses.append("timestamp = :at")
        if recent:
            clauses.append("id > :floor")
        order = " ORDER BY id DESC" if recent else ""
        query = f"SELECT 1 FROM {self._source} WHERE {' AND '.join(clauses)}{order} LIMIT 1"
        values = {**like, **_values(lineage), "before": before, "at": at, "floor": before - MAX_DISTANCE}
        return self._connection.execute(query, values).fetchone() is not None

    def _burst_of(self, row: Row) -> Burst | None:
        known = self._burst
        if known.session == row.session_id and known.first <= row.id <= known.end:
            return known
        query = f"""SELECT id, timestamp, substr(content, 1, 80) FROM {self._source}
            WHERE session_id = ? AND timestamp BETWEEN ? AND ? AND id BETWEEN ? AND ?"""
        reach = MAX_BURST * _TICK
        found = self._connection.execute(
            query,
            (row.session_id, row.timestamp - reach, row.timestamp + reach, row.id - MAX_BURST, row.id + MAX_BURST),
        )
        linked = [(row.id, row.content)]
        for other, moment, head in found:
            steps = other - row.id
            if steps and 0 < (moment - row.timestamp) / steps <= _TICK:
                linked.append((other, head))
        if len(linked) < 2:
            return None
        said = [number for number, head in linked if not _machine_made(head)]
        ids = [number for number, _ in linked]
        self._burst = Burst(row.session_id, min(ids), max(said, default=max(ids)), max(ids))
        return self._burst

    def _follows(self, row: Row, body: Body, lineage: tuple[str, ...], before: int) -> bool:
        """Whether `row` repeats the last thing said before a compaction that ends right before it."""
        for steps, other in enumerate(self._backwards(lineage, before)):
            if _machine_made(other.content) or self._carried_over(other, lineage):
                continue
            same = other.role == row.role and text_of(other.content).strip() == body.text.strip()
            return (
                same and not other.tool_calls and (before != row.id or steps > 0 or self._burst_of(other) is not None)
            )
        return False

    def _backwards(self, lineage: tuple[str, ...], before: int) -> Iterator[Row]:
        query = f"""SELECT id, {", ".join(COLUMNS)} FROM {self._source}
            WHERE +session_id IN ({_names(lineage)}) AND id < :before AND id > :floor AND {_VISIBLE}
            ORDER BY id DESC LIMIT {MAX_WALK}"""
        values = {**_values(lineage), "before": before, "floor": before - MAX_DISTANCE}
        return (Row(*cells) for cells in self._connection.execute(query, values))

    def _carried_over(self, row: Row, lineage: tuple[str, ...]) -> bool:
        query = f"""SELECT 1 FROM {self._source}
            WHERE session_id IN ({_names(lineage)}) AND timestamp = :at AND id < :before AND role = :role LIMIT 1"""
        values = {**_values(lineage), "at": row.timestamp, "before": row.id, "role": row.role}
        return self._connection.execute(query, values).fetchone() is not None

    def _branch_end(self, session: str) -> int:
        """The last of the rows that were written at once when the session began."""
        if session in self._branches:
            return self._branches[session]
        query = f"SELECT id, timestamp FROM {self._source} WHERE session_id = ? ORDER BY id LIMIT {MAX_BURST}"
        end, clock = 0, None
        for number, moment in self._connection.execute(query, (session,)):
            if not isinstance(moment, int | float) or (clock is not None and not 0 <= moment - clock <= _BRANCH_GAP):
                break
            end, clock = number, moment
        if len(self._branches) >= MAX_BRANCHES:
            self._branches.clear()
        self._branches[session] = end
        return end


def _like(row: Row, body: Body) -> dict[str, object]:
    """The parameters of `_ALIKE`. Compaction stores images in full; before it they are a word."""
    text = body.text.strip(_BLANKS)
    return {
        "role": row.role,
        "call": row.tool_call_id if row.role == "tool" and isinstance(row.tool_call_id, str) else "",
        "calls": f'"{body.calls[0].id}"' if body.calls and body.calls[0].id else "",
        "raw": body.text if body.summary else row.content,
        "text": text,
        "shot": text.replace("[image]", "[screenshot]"),
        "blanks": _BLANKS,
    }


def _names(lineage: tuple[str, ...]) -> str:
    return ", ".join(f":s{index}" for index in range(len(lineage))) or "NULL"


def _values(lineage: tuple[str, ...]) -> dict[str, object]:
    return {f"s{index}": session for index, session in enumerate(lineage)}


def _machine_made(content: object) -> bool:
    return isinstance(content, str) and content.lstrip().startswith((*SUMMARY_OPENINGS, TASKS_OPENING))
