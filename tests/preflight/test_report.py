"""What `warmstart preflight report` says about the turns of agents, on both stores."""

from __future__ import annotations

from pathlib import Path

from tests.preflight.conftest import Session, talk
from warmstart import Warmstart
from warmstart.preflight.report import report

READ = ("read", '{"path": "src/gauges.py"}', "one line of a gauge")
EDIT = ("edit", '{"path": "src/surge.py"}', "ok")


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
    assert (found.repeated_calls, found.sessions) == (1, 1)
    assert 0 < found.repeated_tokens < 20
    assert found.calls_with == (3, 1)


def test_a_report_keeps_to_its_project(ws: Warmstart, project: Path, tmp_path: Path) -> None:
    ws.begin("now", project=str(project), host="test").before_turn("add a storm table")
    assert report(ws.store, project=str(tmp_path)).turns == 0
    assert report(ws.store).turns == 1
