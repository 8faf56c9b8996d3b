"""Hooks that Claude Code sends to our MCP server instead of starting a process."""

from __future__ import annotations

import json

from tests.hosts.clients import MARKS, ClaudeCode
from tests.hosts.scenario import PORT, QUESTION, ours, work_once
from warmstart.hosts.hook_tool import EVENTS
from warmstart.testing.model import Reply, Request

pytestmark = MARKS

NO_SERVER = ("--strict-mcp-config",)


def evidence(request: Request) -> list[str]:
    """The lines of the overlay that come from the first session."""
    return [line for line in ours(request).splitlines() if PORT in line]


def test_the_server_answers_and_without_it_the_command_says_the_same(claude: ClaudeCode) -> None:
    claude.install()
    work_once(claude)
    started = claude.home / "started"
    settings = claude.home / ".claude" / "settings.json"
    data = json.loads(settings.read_text())
    for event in EVENTS[claude.name]:
        ((command, tool),) = (group["hooks"] for group in data["hooks"][event])
        assert tool["type"] == "mcp_tool"
        condition, separator, line = command["command"].partition(" ] || ")
        command["command"] = f"{condition}{separator}{{ echo {event} >> {started}; {line}; }}"
    settings.write_text(json.dumps(data))

    claude.model.add(Reply(calls=[claude.shell("yarn test")]), Reply(text="Done."))
    served = claude.ask(QUESTION)
    assert not started.exists()
    assert "mcp__warmstart__recall" in served.requests[0].tools
    assert "mcp__warmstart__hook" not in served.requests[0].tools
    claude.model.add(Reply(calls=[claude.shell("yarn test")]), Reply(text="Done."))
    alone = claude.ask(QUESTION, *NO_SERVER)
    assert set(started.read_text().split()) == set(EVENTS[claude.name])

    assert evidence(served.requests[0]) == evidence(alone.requests[0])
    assert len(evidence(served.requests[0])) == 1
    fix = "`yarn test` failed here (command not found); `make test` worked instead"
    assert served.requests[1].text.count(fix) == 1
    assert list((claude.home / ".warmstart" / "hosts").glob("server.*")) == []


def test_a_model_that_calls_the_tool_gets_nothing(claude: ClaudeCode) -> None:
    claude.install()
    work_once(claude)
    call = {"host": claude.name, "event": "UserPromptSubmit", "session_id": "x", "prompt": QUESTION}
    claude.model.add(Reply(calls=[("mcp__warmstart__hook", call)]), Reply(text="Done."))
    turn = claude.ask("What is new?", "--allowedTools", "mcp__warmstart__hook")
    assert PORT not in turn.requests[1].text
