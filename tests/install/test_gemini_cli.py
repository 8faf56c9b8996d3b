"""What Gemini CLI's hooks get, on the events that version 0.61.0 sends, and what is installed."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.install.test_claude_code import Hook
from warmstart.hosts.gemini_cli import EVENTS, files, handle
from warmstart.hosts.install import Place, install, plan_install, plan_uninstall, uninstall
from warmstart.hosts.json_text import parse

SESSION = "03691ab3-483c-486d-a0db-fd0cff1e8d6a"
COMMON = {"session_id": SESSION, "cwd": "/home/mara/x", "timestamp": "2026-11-16T16:58:13.761Z"}
ADDED = "<hook_context>[warmstart] Notes.\n[/warmstart]</hook_context>\n\n"


@pytest.fixture(autouse=True)
def no_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GEMINI_PROJECT_DIR", raising=False)


def answer(event: str, hook: Hook, **fields: Any) -> Any:
    return handle(event, {**COMMON, "hook_event_name": event, **fields}, hook)  # type: ignore[arg-type]


def context(event: str, text: str = "TEXT") -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}


def test_a_session_starts_warm(monkeypatch: pytest.MonkeyPatch) -> None:
    hook = Hook()
    assert answer("SessionStart", hook, source="startup") == context("SessionStart")
    assert hook.asked == [("start", SESSION, "/home/mara/x", "gemini-cli")]
    monkeypatch.setenv("GEMINI_PROJECT_DIR", "/home/mara")
    answer("SessionStart", hook, source="clear")
    assert hook.asked[-1] == ("start", SESSION, "/home/mara", "gemini-cli")


def test_a_resumed_session_is_told_again_what_it_forgot() -> None:
    hook = Hook()
    assert answer("SessionStart", hook, source="resume") == context("SessionStart")
    assert [asked[0] for asked in hook.asked] == ["after_compaction", "start"]


PROMPTS = [
    ("Which port?", "Which port?"),
    (f"{ADDED}Which port?", "Which port?"),
    (f"{ADDED}<hook_context>of another</hook_context>\n\nWhich port?", "Which port?"),
    ("What does <hook_context> mean?", "What does <hook_context> mean?"),
]


@pytest.mark.parametrize(("prompt", "typed"), PROMPTS)
def test_a_prompt_gets_evidence_for_what_was_typed(prompt: str, typed: str) -> None:
    hook = Hook()
    assert answer("BeforeAgent", hook, prompt=prompt) == context("BeforeAgent")
    assert hook.asked == [("before_turn", SESSION, "/home/mara/x", typed)]


def test_a_command_that_fails_gets_its_fix() -> None:
    hook = Hook()
    output = "<untrusted_context>\nOutput: oops\nExit Code: 3\nProcess Group PGID: 7636\n</untrusted_context>"
    call = {"tool_name": "run_shell_command", "tool_input": {"command": "yarn test"}}
    assert answer("AfterTool", hook, **call, tool_response={"llmContent": output}) == context("AfterTool")
    assert hook.asked == [("after_tool", SESSION, "/home/mara/x", *call.values(), output)]
    assert answer("AfterTool", hook, tool_name="read_file", tool_response={"llmContent": output}) is None


def test_where_nothing_is_known_nothing_is_said() -> None:
    hook = Hook(answer=None)
    assert answer("SessionStart", hook, source="startup") is None
    assert answer("BeforeAgent", hook, prompt="Which port?") is None
    assert answer("BeforeAgent", Hook(), prompt=ADDED) is None


def test_the_end_of_a_turn_imports_every_file_of_the_session(tmp_path: Path) -> None:
    names = ("session-2026-11-16T16-58-03691ab3.jsonl", "session-2026-11-16T17-01-03691ab3.jsonl", "session-x-f.jsonl")
    for name in names:
        (tmp_path / name).touch()
    (tmp_path / SESSION).mkdir()
    for event in ("AfterAgent", "SessionEnd"):
        hook = Hook()
        assert answer(event, hook, transcript_path=str(tmp_path / names[1])) is None
        assert hook.asked == [("sync", *(str(tmp_path / name) for name in (names[1], SESSION, names[0])))]
    assert answer("SessionEnd", Hook()) is None


SETTINGS = """\
{
    // mine
    "theme":   "dark",
    "hooks": {"BeforeAgent": [{"hooks": [{"type": "command", "command": "true"}]}]},
}
"""


def test_installing_adds_hooks_a_server_and_a_command_and_undoing_it_restores_the_bytes(tmp_path: Path) -> None:
    folder, home = tmp_path / ".gemini", tmp_path / ".warmstart"
    folder.mkdir()
    settings = folder / "settings.json"
    settings.write_text(SETTINGS)
    place = Place(tmp_path, {})
    install(plan_install("gemini-cli", place, home), place, home)
    assert plan_install("gemini-cli", place, home).changes == []
    text = settings.read_text()
    data: Any = parse(text).value
    assert "// mine" in text
    assert data["mcpServers"]["warmstart"]["args"][-1] == "mcp"
    assert "trust" not in data["mcpServers"]["warmstart"]  # only the user may decide that
    for event, timeout in EVENTS.items():
        (hook,) = data["hooks"][event][0]["hooks"]
        assert data["hooks"][event][0].get("matcher") == ("run_shell_command" if event == "AfterTool" else None)
        assert hook["timeout"] == timeout >= 1_000  # milliseconds
        assert hook["command"].endswith(f" hook gemini-cli {event} || true")
    command = tomllib.loads((folder / "commands" / "warm" / "recall.toml").read_text())
    assert "recall {{args}}}" in command["prompt"]
    assert "!{" in command["prompt"]
    uninstall(plan_uninstall("gemini-cli", place, home), place, home)
    assert settings.read_text() == SETTINGS
    assert [path.name for path in folder.iterdir()] == ["settings.json"]


def test_a_home_of_its_own_is_kept(tmp_path: Path) -> None:
    settings, *_ = files(Place(tmp_path, {"WARMSTART_HOME": "/w", "GEMINI_CLI_HOME": "/g"}))
    assert settings.path == Path("/g/.gemini/settings.json")
    assert json.loads(settings.add("").text)["mcpServers"]["warmstart"]["env"] == {"WARMSTART_HOME": "/w"}
