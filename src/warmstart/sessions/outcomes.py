"""The outcome of a stored tool result, by the rules of the reader that knows its agent.

A reader judges while it reads; `judge` judges again from what is stored, so that a better rule reaches old sessions
without their logs: `store.rejudge(judge, OUTCOME_RULES)`.
"""

from __future__ import annotations

from collections.abc import Callable

from warmstart.sessions.schema import judged_digest, read_rows, to_result
from warmstart.sessions.values import CallOutcome, ToolResult
from warmstart.storage.database import Database

# Goes up whenever a reader judges differently than before.
OUTCOME_RULES = 2

Judge = Callable[[str, str, ToolResult], CallOutcome]


def judge(agent: str, tool: str, result: ToolResult) -> CallOutcome:
    """The outcome of a result of `tool` (empty where the call is not known); that of an unknown agent stands."""
    # Whoever opens a store needs the number above, but rarely the readers, which are slow to import.
    from warmstart.sessions.readers.registry import readers

    reader = readers().get(agent)
    return reader.outcome_of(tool, result) if reader else result.outcome


def rejudge_session(database: Database, session_id: str, agent: str, judge: Judge) -> int:
    """Judge every result of a session again; returns how many outcomes changed."""
    tools: dict[str, str] = {}  # by the ids of the calls so far, because an id may be used again
    outcomes: list[tuple[CallOutcome, bytes, int]] = []
    digests: list[tuple[bytes, bytes]] = []
    for _, row in read_rows(database, session_id, "body"):
        tools.update((call_id, name) for call_id, name, _ in row.calls)
        results = [to_result(result) for result in row.results]
        judged = [judge(agent, tools.get(result.call_id, ""), result) for result in results]
        if judged != [result.outcome for result in results]:
            changed = (place for place, result in enumerate(results) if judged[place] != result.outcome)
            outcomes += [(judged[place], row.key, place) for place in changed]
            digests.append((judged_digest(row.digest, judged), row.key))
    database.connection.executemany(
        "UPDATE tool_results SET outcome = ? WHERE message = (SELECT pk FROM messages WHERE key = ?) AND position = ?",
        outcomes,
    )
    database.connection.executemany("UPDATE messages SET digest = ? WHERE key = ?", digests)
    return len(outcomes)
