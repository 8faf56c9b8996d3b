"""The real Copilot CLI: compactions, subagents, and which session our MCP server belongs to."""

from __future__ import annotations

from tests.hosts.clients import MARKS, Copilot
from tests.hosts.scenario import ours, work_once
from warmstart.testing.model import Reply

pytestmark = MARKS

SUMMARY = Reply(when="create a detailed summary", text="They talked about tides.")
START = "`yarn test` fails"


def test_the_start_is_there_once_after_a_compaction(copilot: Copilot) -> None:
    copilot.install()
    work_once(copilot)
    session = copilot.ask("Let us work on the tide gauge.").session_id
    copilot.resume(session, "What about the storm table?")
    copilot.model.add(SUMMARY)
    copilot.resume(session, "/compact")
    for prompt in ("Go on, please.", "And again."):
        text = copilot.resume(session, prompt).requests[0].text
        assert "They talked about tides." in text
        assert text.count(START) == 1


def test_a_subagent_gets_nothing(copilot: Copilot) -> None:
    copilot.install()
    task = {"description": "look", "prompt": "Look around and report.", "agent_type": "general-purpose", "name": "a"}
    copilot.model.add(Reply(when="send somebody", calls=[("task", {**task, "mode": "sync"})]))
    turn = copilot.ask("Please send somebody.")
    child = [request for request in turn.requests if "Look around" in request.last_user_text]
    assert child
    assert all(ours(request) == "" for request in child)


def test_our_server_knows_the_session_that_calls_it(copilot: Copilot) -> None:
    copilot.install()
    copilot.model.add(Reply(when="hand over", calls=[("warmstart-handoff_packet", {})]))
    turn = copilot.ask("Please hand over. Never touch vendor/.", "--allow-tool", "warmstart")
    assert turn.session_id in turn.requests[-1].text
    assert "Never touch vendor/." in ours(turn.requests[-1])
