"""What Codex' hooks get, on the events that version 0.169.0 sends, and what is installed."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.install.test_claude_code import Hook, context
from tests.install.test_install import tree, write
from warmstart.errors import ConfigError
from warmstart.hosts.codex import EVENTS, handle
from warmstart.hosts.files import ServerTable
from warmstart.hosts.install import Place, install, plan_install, plan_uninstall, status, uninstall

SESSION = "01a1e549-1ac5-71d0-b924-27cf43b3a38d"
LOG = f"/home/mara/.codex/sessions/2026/11/16/rollout-2026-11-16T16-55-35-{SESSION}.jsonl"
COMMON = {"session_id": SESSION, "transcript_path": LOG, "cwd": "/home/mara/x", "model": "gpt-5.2-codex"}
BASH = {
    "tool_name": "Bash",
    "tool_input": {"command": "yarn test"},
    "tool_response": "/bin/bash: line 1: yarn: command not found\n",
}
SERVER = {"command": "/opt/warm start/warmstart", "args": ["mcp"], "env": {"WARMSTART_HOME": "/home/mara/w"}}
FILE = ServerTable(Path("config.toml"), SERVER)


def asked(event: str, **data: Any) -> tuple[list[tuple[Any, ...]], Any]:
    hook = Hook()
    hook.host = "codex"
    answer = handle(event, {**COMMON, "hook_event_name": event, **data}, hook)  # type: ignore[arg-type]
    return hook.asked, answer


def test_a_new_session_gets_its_start_and_one_that_goes_on_gets_nothing():
    for source in ("startup", "clear"):
        calls, answer = asked("SessionStart", source=source)
        assert calls == [("start", SESSION, "/home/mara/x", "codex", "gpt-5.2-codex")]
        assert answer == context("SessionStart")
    assert asked("SessionStart", source="resume") == asked("SessionStart", source="fork") == ([], None)


def test_after_a_compaction_the_users_rules_come_back():
    calls, answer = asked("SessionStart", source="compact")
    assert calls == [("after_compaction", SESSION), ("note_after_compaction", LOG, "codex")]
    assert answer == context("SessionStart")


def test_a_prompt_gets_the_evidence_for_its_turn():
    calls, answer = asked("UserPromptSubmit", turn_id="t", prompt="Please do it now")
    assert calls == [("before_turn", SESSION, "/home/mara/x", "Please do it now")]
    assert answer == context("UserPromptSubmit")


def test_a_command_that_failed_gets_its_fix():
    calls, answer = asked("PostToolUse", **BASH)
    assert calls == [("after_tool", SESSION, "/home/mara/x", "Bash", {"command": "yarn test"}, BASH["tool_response"])]
    assert answer == context("PostToolUse")


def test_the_end_of_a_turn_and_of_a_session_is_imported():
    for event in ("Stop", "SessionEnd"):
        assert asked(event) == ([("sync", LOG)], None)


def test_a_subagent_starts_with_what_its_parent_got():
    calls, answer = asked("SubagentStart", agent_id="01a1e54d", agent_type="default")
    assert calls == [("start_subagent", "/home/mara/x", "codex")]
    assert answer == context("SubagentStart")


def test_subagents_and_unknown_events_get_nothing():
    for event in EVENTS.keys() - {"SubagentStart"}:
        assert asked(event, agent_id="01a1e54d", agent_type="default", source="startup", prompt="x") == ([], None)
    assert asked("PostToolUse", tool_name="apply_patch", tool_response="Done!") == ([], None)
    assert asked("PreToolUse", **BASH) == asked("PostToolUse", **{**BASH, "tool_response": [{}]}) == ([], None)
    for event in EVENTS:
        handle(event, {}, Hook())  # type: ignore[arg-type]


# -- config.toml

BEFORE = {
    "empty": "",
    "no newline at the end": 'model = "x"  # mine\n[analytics]\nenabled=false',
    "windows": 'model = "x"\r\n\r\n[tui]\r\ntheme = "dark"\r\n',
    "other servers": '[mcp_servers.a]\ncommand = "a"\n\n[projects."/x"]\ntrust_level = "trusted"\n',
    "an empty table": "[mcp_servers]\n",
}


def test_our_server_is_added_and_cut_out_to_the_byte(subtests):
    for name, before in BEFORE.items():
        with subtests.test(name):
            assert FILE.state(before) == "absent"
            edit = FILE.add(before)
            assert tomllib.loads(edit.text)["mcp_servers"]["warmstart"] == SERVER
            assert FILE.state(edit.text) == "current"
            ((at, length),) = edit.insertions
            assert edit.text[:at] + edit.text[at + length :] == before


def test_if_codex_has_changed_the_file_only_our_server_goes(subtests):
    for name, before in BEFORE.items():
        with subtests.test(name):
            edit = FILE.add(before)
            allowed = (
                "\n[mcp_servers.warmstart.tools.recall]\napproval_mode = 'approve'\n\n[hooks.state.'x:0:0']\nn = 1\n"
            )
            assert FILE.state(edit.text + allowed) == "current"
            left = FILE.remove(edit.text + allowed, set(edit.created))
            assert "warmstart" not in left
            data = tomllib.loads(left)
            assert data.pop("hooks") == {"state": {"x:0:0": {"n": 1}}}
            assert data == tomllib.loads(before)
            assert [line for line in before.splitlines() if line not in left.splitlines()] == []


def test_the_users_comments_around_our_server_stay():
    mine = '# my own note\n\n# the team\'s\n[mcp_servers.team]\ncommand = "team"\n'
    for before in ("", 'model = "x"\n', 'model = "x"\r\n'):
        edit = FILE.add(before)
        for between in ("", "\n[mcp_servers.warmstart.tools.recall]\nx = 1\n"):
            assert FILE.remove(edit.text + between + mine, set()) == before + mine


def test_a_server_of_the_users_with_our_name_stays():
    text = '[mcp_servers.warmstart]\ncommand = "my-own"\n'
    assert (FILE.state(text), FILE.add(text).text, FILE.remove(text, None)) == ("absent", text, text)
    assert FILE.conflicts(text) == ["mcp_servers.warmstart"]


def test_another_installation_is_outdated_and_an_odd_file_is_refused():
    assert ServerTable(FILE.path, {**SERVER, "command": "/old"}).state(FILE.add("").text) == "outdated"
    assert ServerTable(FILE.path, None).state(FILE.add("").text) == "outdated"
    assert ServerTable(FILE.path, None).add("a = 1\n").text == "a = 1\n"
    for text in ("mcp_servers = {a = {}}\n", "mcp_servers = 1\n", "a = \n"):
        with pytest.raises(ValueError, match=r"."):
            FILE.add(text)


# -- install and uninstall


@pytest.fixture
def place(home: Path) -> Place:
    return Place(home, {"PATH": os.environ["PATH"]})


def set_up(place: Place, home: Path) -> None:
    install(plan_install("codex", place, home), place, home)


def test_installing_and_uninstalling_leaves_the_bytes(place, home):
    write(home / ".codex" / "config.toml", BEFORE["no newline at the end"])
    write(home / ".codex" / "hooks.json", '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}}')
    before, kept = tree(home / ".codex"), home / ".warmstart"
    set_up(place, kept)
    hooks = json.loads((home / ".codex" / "hooks.json").read_text())["hooks"]
    assert {event: groups[0]["hooks"][0]["timeout"] for event, groups in hooks.items()} == EVENTS
    assert all(f" hook codex {event} || true" in groups[0]["hooks"][0]["command"] for event, groups in hooks.items())
    skill = (home / ".codex" / "skills" / "warm" / "SKILL.md").read_text()
    assert skill.startswith("---\nname: warm\ndescription: ")
    set_up(place, kept)
    uninstall(plan_uninstall("codex", place, kept), place, kept)
    assert tree(home / ".codex") == before


def test_the_user_is_sent_to_codex_until_every_hook_is_reviewed(place, home):
    kept = home / ".warmstart"
    assert status("codex", place, kept).pending == ""
    set_up(place, kept)
    assert "6 of 6 hooks" in status("codex", place, kept).pending
    config, hooks = home / ".codex" / "config.toml", home / ".codex" / "hooks.json"
    for event in ("session_start", "subagent_start", "user_prompt_submit", "post_tool_use", "stop", "session_end"):
        with config.open("a") as file:
            file.write(f'\n[hooks.state."{hooks}:{event}:0:0"]\ntrusted_hash = "sha256:1"\n')
    assert "hooks that have changed" in status("codex", place, kept).pending  # they have not run since
    write(kept / "hosts" / "codex.jsonl", json.dumps({"at": hooks.stat().st_mtime + 1, "event": "Stop", "ms": 1}))
    assert status("codex", place, kept).pending == ""
    assert "sha256:1" in config.read_text()
    uninstall(plan_uninstall("codex", place, kept), place, kept)
    assert "warmstart" not in config.read_text()


def test_a_file_that_is_no_toml_stays(place, home):
    write(home / ".codex" / "config.toml", "a = \n")
    with pytest.raises(ConfigError, match=r"config\.toml"):
        plan_install("codex", place, home / ".warmstart")
