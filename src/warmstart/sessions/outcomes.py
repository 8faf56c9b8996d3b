"""What a stored tool result comes to, by the rules of the reader that knows its agent.

A reader decides while it reads; `judge` decides the same again from what is stored, so that a better rule reaches old
sessions without their logs: `store.rejudge(judge, OUTCOME_RULES)`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from operator import itemgetter

from warmstart.sessions.rows import judged_digest, to_result
from warmstart.sessions.values import CallOutcome, ToolResult
from warmstart.storage.database import Connection, Database

# Raised whenever a reader decides differently than before.
OUTCOME_RULES = 2

Judge = Callable[[str, str, ToolResult], CallOutcome]


def judge(agent: str, tool: str, result: ToolResult) -> CallOutcome:
    """The outcome of a result of `tool` (empty where the call is not known); that of an unknown agent stands."""
    # Whoever opens a store needs the number above, but rarely the readers, which are slow to import.
    from warmstart.sessions.readers.registry import readers

    reader = readers().get(agent)
    return reader.outcome_of(tool, result) if reader else result.outcome


def rejudge_session(database: Database, session: int, agent: str, judge: Judge) -> int:
    """Decide every result of a session again; returns how many changed. Results are read one at a time."""
    connection = database.connection
    names = _Names(connection, session)
    # The plus keeps SQLite from beginning with the results, which it would have to sort.
    rows = database.stream(
        "SELECT m.seq, m.pk, m.digest, r.position, r.call_id, r.outcome, t.body, r.duration, r.flag, r.exit_code "
        "FROM messages m JOIN tool_results r ON r.message = +m.pk LEFT JOIN texts t ON t.id = r.text "
        "WHERE m.session = ? ORDER BY m.seq, r.position",
        (session,),
    )
    outcomes: list[tuple[CallOutcome, int, int]] = []
    digests: list[tuple[bytes, int]] = []
    for (seq, message, digest), results in groupby(rows, itemgetter(0, 1, 2)):
        names.read_up_to(seq)
        judged: list[CallOutcome] = []
        before = len(outcomes)
        for row in results:
            result = to_result(row[4:])
            judged.append(judge(agent, names.get(result.call_id, ""), result))
            if judged[-1] != result.outcome:
                outcomes.append((judged[-1], message, row[3]))
        if len(outcomes) > before:
            digests.append((judged_digest(digest, judged), message))
    connection.executemany("UPDATE tool_results SET outcome = ? WHERE message = ? AND position = ?", outcomes)
    connection.executemany("UPDATE messages SET digest = ? WHERE pk = ?", digests)
    return len(outcomes)


class _Names(dict[str, str]):
    """The tools of a session by the ids of their calls, as far as it was read: the same id may be given out again."""

    def __init__(self, connection: Connection, session: int) -> None:
        self._rows = connection.execute(
            "SELECT m.seq, c.call_id, c.name FROM messages m JOIN tool_calls c ON c.message = +m.pk "
            "WHERE m.session = ? ORDER BY m.seq, c.position",
            (session,),
        )
        self._next = self._rows.fetchone()

    def read_up_to(self, seq: int) -> None:
        while self._next is not None and self._next[0] <= seq:
            _, call_id, name = self._next
            self[call_id] = name
            self._next = self._rows.fetchone()
