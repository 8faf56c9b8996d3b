"""Deciding anew what the stored results of a session come to, when a reader has learned a better rule."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from operator import itemgetter

from warmstart.sessions.rows import judged_digest, to_result
from warmstart.sessions.values import CallOutcome, ToolResult
from warmstart.storage.database import AnyDatabase, Connection

Judge = Callable[[str, str, ToolResult], CallOutcome]


def rejudge_session(database: AnyDatabase, session: int, agent: str, judge: Judge) -> int:
    """Decide every result of a session anew; returns how many came out otherwise.

    Results go by one at a time; the names of the session's tools and what changed are held.
    """
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
