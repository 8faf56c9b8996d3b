"""What `warmstart preflight report` says about the turns of agents, on both stores."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.preflight.conftest import Session, talk
from warmstart import Run, Warmstart
from warmstart.memory import MemoryEntry
from warmstart.preflight.report import report
from warmstart.sessions.values import Message, ToolCall, ToolResult
from warmstart.tokens import count

READ = ("read", '{"path": "src/gauges.py"}', "one line of a gauge")
EDIT = ("edit", '{"path": "src/surge.py"}', "ok")
MEMORIES = [
    MemoryEntry("port", "5433", "default", 1.0),
    MemoryEntry("review", "Pull request 337 waits for review by Mara", "default", 1.0),
    MemoryEntry("later", "draw a map", "default", 4e9),
]


def test_a_report_counts_turns_and_what_they_used(ws: Warmstart, project: Path, session: Session) -> None:
    session("past", "compute the storm surge for harbours without a gauge", READ, EDIT)
    question = "the storm surge is wrong for the northern harbours"
    with ws.begin("now", project=str(project), host="test") as run:
        assert run.before_turn(question)
        talk(run, question, READ, READ, EDIT)
        assert run.before_turn("yes") is None
    found = report(ws.store, project=str(project))
    assert (found.turns, found.injected) == (2, 1)
    assert found.reasons == {"done before": 1, "fast path": 1}
    assert found.tokens > 0
    assert (found.used, found.used_of) == (1, 1)
    assert (found.known_lookups, found.sessions) == (1, 1)  # the second time that it reads the file
    assert 0 < found.known_lookup_tokens < 20
    assert found.calls_with == (3, 1)


def turn(ws: Warmstart, run: Run, hours: int, asked: str, *calls: tuple[str, str, str]) -> bool:
    """A turn so many hours ago, as a host has it. Returns whether it got an overlay."""
    is_shown = run.before_turn(asked) is not None
    at = datetime.now(UTC) - timedelta(hours=hours)
    with ws.store.transaction() as connection:
        connection.execute("UPDATE preflight_turns SET at = ? WHERE at > ?", (at.timestamp(), at.timestamp()))
    run.record(Message(native_id=f"{hours}-asked", role="user", text=asked, timestamp=at))
    for number, (tool, arguments, output) in enumerate(calls):
        call = ToolCall(id=f"{hours}-{number}", name=tool, arguments=arguments)
        result = ToolResult(call_id=call.id, outcome="ok", text=output)
        run.record(Message(native_id=f"{call.id}-call", role="assistant", tool_calls=(call,), timestamp=at))
        run.record(Message(native_id=f"{call.id}-result", role="tool", tool_results=(result,), timestamp=at))
    return is_shown


def test_a_report_compares_corrections(ws: Warmstart, project: Path, session: Session) -> None:
    session("past", "compute the storm surge for harbours without a gauge", EDIT)
    with ws.begin("now", project=str(project), host="test") as run:
        assert turn(ws, run, 4, "the storm surge is wrong for the northern harbours", EDIT)
        assert not turn(ws, run, 3, "No, that's wrong. I asked for the northern harbours.", EDIT)
        assert not turn(ws, run, 2, "now the tide table", READ)
        assert not turn(ws, run, 1, "and the map", READ)
    found = report(ws.store, project=str(project))
    assert (found.corrections_with, found.corrections_without) == ((1, 1), (0, 3))


def test_a_report_counts_lookups_of_what_was_known(ws: Warmstart, project: Path, session: Session) -> None:
    past = session("past", "compute the storm surge for harbours without a gauge", EDIT)
    named = f"2026-11-17 user, session {past}: compute the storm surge"
    known = {
        "recall": named,
        "memory_backend": '{"success": true, "value": "Pull request 337 waits for review by Mara"}',
        "memory_query": '{"success": true, "key": "port", "value": "5433"}',
        "read": "337: Pull request 337 waits for review, by Mara.",
    }
    other = {
        "read": "5433 gauges",
        "recall": "2026-11-16 user, session 0123456789abcdef: draw a map",
        "edit": named,
    }
    with ws.begin("now", project=str(project), host="test") as run:
        turn(ws, run, 9, "dredge the quay", ("recall", '{"query": "surge"}', named))  # before the overlay named it
        assert turn(ws, run, 8, "the storm surge is wrong for the northern harbours, as last time")
        for calls in (known, other):
            talk(run, "go on", *((tool, json.dumps({"query": text}), text) for tool, text in calls.items()))
    found = report(ws.store, project=str(project), memories=MEMORIES)
    assert found.known_lookups == len(known)
    assert found.known_lookup_tokens == sum(map(count, known.values()))
    assert report(ws.store, project=str(project)).known_lookups == 1  # only what the overlay named


def test_a_report_has_the_time_of_first_turns(ws: Warmstart, project: Path) -> None:
    for name in ("one", "two"):
        with ws.begin(name, project=str(project), host="test") as run:
            run.before_turn("add a storm table")
            run.before_turn("yes")
    found = report(ws.store, project=str(project))
    rows = ws.store.fetch("SELECT session, milliseconds FROM preflight_turns ORDER BY id DESC")
    first = sorted(dict(rows).values())  # the earlier row of each session is the last one here
    assert (found.first_turn_p50_ms, found.first_turn_p95_ms) == tuple(first)
    assert found.turns == 4


def test_a_report_keeps_to_its_project(ws: Warmstart, project: Path, tmp_path: Path) -> None:
    ws.begin("now", project=str(project), host="test").before_turn("add a storm table")
    assert report(ws.store, project=str(tmp_path)).turns == 0
    assert report(ws.store).turns == 1
