"""Hooks that the MCP server answers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import warmstart
from tests.preflight.conftest import talk
from tests.test_mcp_server import Connection, running
from warmstart.hosts.claude_code import EVENTS as EVENTS_OF_CLAUDE
from warmstart.hosts.claude_code import HOST
from warmstart.hosts.hook_tool import EVENTS
from warmstart.hosts.install import Place, install, plan_install, plan_uninstall, status, uninstall

PROMPT = "how did we run the unit tests of the harbour last time?"
FAILED = ("bash", '{"command": "npm run test"}', "exit code 1\nnpm error Missing script: test")
WORKED = ("bash", '{"command": "npm run test:unit"}', "14 passed")
FAILURE = {"tool_name": "Bash", "tool_input": {"command": "npm run test"}, "error": FAILED[2]}


@pytest.fixture
def place(home: Path) -> Place:
    return Place(home, {"PATH": str(home / "bin")})


@pytest.fixture
def project(home: Path) -> Path:
    """A repository with a known mistake and its fix."""
    folder = home / "harbour"
    (folder / ".git").mkdir(parents=True)
    with warmstart.open() as ws:
        for name in ("past-1", "past-2"):
            with ws.begin(name, project=str(folder)) as run:
                talk(run, "run the unit tests of the harbour", FAILED, WORKED, reply="The harbour has 14 tests.")
    (home / ".warmstart" / "config.toml").write_text("context_preflight.deadline_ms = 60000\n")
    return folder


def pretend(home: Path, version: str) -> None:
    """Install an agent that prints this version."""
    program = home / "bin" / "claude"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/sh\necho '{version}'\n")
    program.chmod(0o755)


def set_up(place: Place) -> dict[str, list[dict[str, str]]]:
    """Install; returns the hooks by event."""
    kept = place.home / ".warmstart"
    install(plan_install(HOST, place, kept), place, kept)
    groups = json.loads((place.home / ".claude" / "settings.json").read_text())["hooks"]
    return {event: hooks for event, ((hooks,),) in ((event, [g.values() for g in groups[event]]) for event in groups)}


def call(server: Connection, meta: object = None, **arguments: object) -> str:
    """The text of the tool."""
    params = {"name": "hook", "arguments": {"host": HOST, **arguments}, **({"_meta": meta} if meta else {})}
    server.send({"id": 1, "method": "tools/call", "params": params})
    return str(server.receive()["result"]["content"][0]["text"])


def run_command(line: str, event: dict[str, object]) -> str:
    done = subprocess.run(["sh", "-c", line], input=json.dumps(event), capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout


def text_of(answer: str) -> str:
    """What the model gets, without what names the session."""
    return re.sub("otes [0-9a-f]{8}", "otes", json.loads(answer)["hookSpecificOutput"]["additionalContext"])


@pytest.mark.parametrize(
    ("version", "types"),
    [
        ("2.1.118 (Claude Code)", {"command", "mcp_tool"}),
        ("3.0.0", {"command", "mcp_tool"}),
        ("2.1.117 (Claude Code)", {"command"}),
        ("2.0.300 (Claude Code)", {"command"}),
        ("no version", {"command"}),
    ],
)
def test_only_versions_that_can_call_a_server_are_told_to(place, home, version, types) -> None:
    pretend(home, version)
    hooks = set_up(place)
    for event, installed in hooks.items():
        assert {hook["type"] for hook in installed} == (types if event in EVENTS[HOST] else {"command"})


def test_a_server_of_the_user_gets_no_hooks(place, home) -> None:
    pretend(home, "2.1.327")
    (home / ".claude.json").write_text('{"mcpServers": {"warmstart": {"command": "./mine"}}}')
    assert [len(hooks) for hooks in set_up(place).values()] == [1] * len(EVENTS_OF_CLAUDE)


def test_another_version_makes_the_installation_outdated(place, home) -> None:
    kept = home / ".warmstart"
    settings = home / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text('{"model": "opus"}')
    for version in ("2.1.100", "2.1.327", "2.1.100"):
        pretend(home, version)
        set_up(place)
        assert ("mcp_tool" in settings.read_text()) is (version == "2.1.327")
        assert status(HOST, place, kept).outdated is False
    pretend(home, "2.1.327")
    assert status(HOST, place, kept).outdated is True
    set_up(place)
    uninstall(plan_uninstall(HOST, place, kept), place, kept)
    assert settings.read_text() == '{"model": "opus"}'


def test_the_server_says_what_the_command_says(place, home, project, subtests) -> None:
    pretend(home, "2.1.327")
    hooks = set_up(place)
    # What Claude Code fills in: text as it is, everything else as JSON.
    filled = FAILURE | {"tool_input": json.dumps(FAILURE["tool_input"]), "is_interrupt": "false"}
    calls = [{"tool_name": "Bash", "tool_input": FAILURE["tool_input"], "tool_response": FAILURE["error"]}]
    cases = (
        ("UserPromptSubmit", {"prompt": PROMPT}, {"prompt": PROMPT}),
        ("PostToolUseFailure", FAILURE, filled),
        ("PostToolBatch", {"tool_calls": calls}, {"tool_calls": json.dumps(calls)}),
    )
    marker = home / ".warmstart" / "hosts" / f"server.{os.getpid()}"
    for event, data, arguments in cases:
        with subtests.test(event):
            command, tool = hooks[event]
            assert set(tool["input"]) >= set(arguments)
            alone = run_command(command["command"], {"session_id": f"{event} 1", "cwd": str(project), **data})
            with running() as server:
                server.send({"id": 0, "method": "initialize", "params": {"clientInfo": {"name": HOST}}})
                server.receive()
                assert marker.exists()
                assert run_command(command["command"], {"session_id": "x", "cwd": str(project), **data}) == ""
                served = call(server, event=event, session_id=f"{event} 2", cwd=str(project), **arguments)
                assert server.receive_rest() == []
            assert text_of(served) == text_of(alone)
            assert ("14 tests" if event == "UserPromptSubmit" else "npm run test:unit") in text_of(served)
            assert not marker.exists()


def test_a_model_and_other_events_get_nothing(project) -> None:
    ask = {"event": "UserPromptSubmit", "session_id": "x", "prompt": PROMPT, "cwd": str(project)}
    with running() as server:
        server.send({"id": 0, "method": "tools/list"})
        assert '"hook"' not in json.dumps(server.receive())
        assert call(server, {"claudecode/toolUseId": "toolu_1"}, **ask) == "{}"
        assert call(server, **ask | {"event": "Stop", "transcript_path": "/etc/passwd"}) == "{}"
        assert call(server, **ask | {"host": "nobody"}) == "{}"
        assert call(server, **ask | {"agent_id": "subagent"}) == "{}"
        assert call(server, event="PostToolBatch", tool_calls="[{") == "{}"
        assert call(server, event="PostToolUseFailure", tool_input=7) == "{}"
        assert "14 tests" in text_of(call(server, {"progressToken": 1}, **ask))


def test_the_marker_of_an_agent_that_is_gone_is_removed(home) -> None:
    folder = home / ".warmstart" / "hosts"
    folder.mkdir(parents=True)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    old = folder / f"server.{gone.pid}"
    old.touch()
    with running() as server:
        server.send({"id": 0, "method": "initialize", "params": {"clientInfo": {"name": "other"}}})
        server.receive()
        assert [path.name for path in folder.iterdir()] == [old.name]
        server.send({"id": 0, "method": "initialize", "params": {"clientInfo": {"name": HOST}}})
        server.receive()
        assert [path.name for path in folder.iterdir()] == [f"server.{os.getpid()}"]
