"""What Copilot CLI's hooks get, on the events that version 1.0.102 sends, and what is installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import warmstart
from tests.install.test_claude_code import Hook
from tests.install.test_install import tree, write
from tests.waiting import wait_until
from warmstart.hosts import hook as real
from warmstart.hosts.copilot_cli import EVENTS, handle
from warmstart.hosts.install import Place, install, plan_install, plan_uninstall, uninstall
from warmstart.sessions.values import session_id

SESSION = "21c10d61-744d-40fa-8e95-c575a746c939"
COMMON = {"sessionId": SESSION, "timestamp": 1794849273401, "cwd": "/home/mara/x"}
STARTED = ("start", SESSION, "/home/mara/x", "copilot-cli")


class NotingHook(Hook):
    """Remembers what was noted last."""

    last = ""

    def note(self, session: str, event: str) -> None:
        self.last = event

    def last_note(self, session: str) -> str:
        return self.last

    def after_compaction(self, session: str) -> None:
        self.last = "compaction"


def send(hook: NotingHook, event: str, **data: Any) -> tuple[list[str], Any]:
    """What the adapter asked for, and its answer."""
    before = len(hook.asked)
    answer = handle(event, {**COMMON, **data}, hook)  # type: ignore[arg-type]
    return [call[0] for call in hook.asked[before:]], answer


def test_every_process_of_a_session_gets_the_start_which_is_no_part_of_the_conversation():
    hook = NotingHook()
    for source in ("new", "resume", "resume"):
        assert send(hook, "sessionStart", source=source, initialPrompt="x") == (
            ["start"],
            {"additionalContext": "TEXT"},
        )
    assert hook.asked == [STARTED] * 3


def test_a_prompt_gets_the_evidence_for_its_turn():
    hook = NotingHook()
    assert send(hook, "userPromptSubmitted", prompt="Please") == (["before_turn"], {"additionalContext": "TEXT"})
    assert hook.asked == [("before_turn", SESSION, "/home/mara/x", "Please")]
    hook.answer = None
    assert send(hook, "userPromptSubmitted", prompt="Please") == (["before_turn"], None)


def test_after_a_compaction_the_next_prompt_brings_the_start_back_once():
    hook = NotingHook()
    send(hook, "sessionStart", source="new")
    assert send(hook, "preCompact", trigger="auto", customInstructions="") == ([], None)
    both = {"additionalContext": "TEXT\n\nTEXT"}
    assert send(hook, "userPromptSubmitted", prompt="Go on") == (["start", "before_turn"], both)
    assert send(hook, "userPromptSubmitted", prompt="Go on")[0] == ["before_turn"]
    # It is a part of the conversation now.
    assert send(hook, "sessionStart", source="resume") == ([], None)
    # If a new process comes between, the start is no part of the conversation.
    send(hook, "preCompact", trigger="manual")
    assert send(hook, "sessionStart", source="resume")[0] == ["start"]
    assert send(hook, "userPromptSubmitted", prompt="Go on")[0] == ["before_turn"]


def test_a_command_that_fails_gets_its_fix():
    hook = NotingHook()
    result = {"resultType": "success", "textResultForLlm": "oops\n<shellId: 1 completed with exit code 3>"}
    call = {"toolName": "bash", "toolArgs": {"command": "yarn test"}, "toolResult": result}
    assert send(hook, "postToolUse", **call) == (["after_tool"], {"additionalContext": "TEXT"})
    assert hook.asked[-1][3:] == ("bash", {"command": "yarn test"}, result["textResultForLlm"])
    assert send(hook, "postToolUse", **{**call, "toolName": "edit"}) == ([], None)


def test_the_end_of_a_turn_is_imported():
    hook = NotingHook()
    assert send(hook, "agentStop", transcriptPath="/x/events.jsonl", stopReason="end_turn") == (["sync"], None)


def test_a_log_that_is_written_after_the_turn_is_imported(home: Path):
    log = home / ".copilot" / "session-state" / SESSION / "events.jsonl"
    log.parent.mkdir(parents=True)
    data = json.dumps({**COMMON, "cwd": str(home), "transcriptPath": str(log)})
    line = [sys.executable, "-EPc", real.CODE, "hook", "copilot-cli", "agentStop"]
    subprocess.run(line, input=data, text=True, check=True, timeout=180)
    wait_until((home / ".warmstart" / "hosts").is_dir)  # the process that imports creates it, then waits for the log
    assert not (home / ".warmstart" / "warmstart.db").exists()
    said = {"type": "user.message", "id": "u1", "timestamp": "2026-11-16T17:14:33.401Z", "parentId": None}
    complete = log.with_name("complete")
    complete.write_text(json.dumps({**said, "data": {"content": "raise the harbour wall"}}) + "\n")
    complete.rename(log)
    wait_until(lambda: "raise the harbour wall" in texts_of(SESSION), every=0.2)


def texts_of(session: str) -> list[str]:
    with warmstart.open() as ws:
        return [message.text for message in ws.store.messages(session_id("copilot-cli", session))]


def test_subagents_and_unknown_events_get_nothing():
    child = {"agentId": "d88bfadd", "agentType": "general-purpose", "parentAgentId": SESSION}
    for event in EVENTS:
        assert send(NotingHook(), event, **child, prompt="x", transcriptPath="/x", source="new") == ([], None)
    assert send(NotingHook(), "postToolUseFailure", toolName="bash") == ([], None)
    for event in EVENTS:
        handle(event, {}, NotingHook())  # type: ignore[arg-type]


def test_notes_are_kept_in_the_store(home: Path):
    with warmstart.open() as ws:
        ws.sync([Path(warmstart.__file__).parent / "samples"])
    hook = real.Hook("copilot-cli", {"WARMSTART_HOME": str(home / ".warmstart")})
    assert hook.last_note(SESSION) == ""
    for event in ("start", "compaction", "restart"):
        hook.note(SESSION, event)
        assert hook.last_note(SESSION) == event
    assert hook.last_note("another") == ""
    hook.before_turn(SESSION, "/home/mara/tidewatch", "Which port?")
    assert hook.last_note(SESSION) == "restart"
    hook._open().close()  # otherwise the end of its process does that


def test_installing_and_uninstalling_leaves_the_bytes(home: Path):
    write(home / ".copilot" / "mcp-config.json", '{"mcpServers": {\n\t"mine": {"command": "x"}}}')
    before, kept, place = (
        tree(home / ".copilot"),
        home / ".warmstart",
        Place(home, {"PATH": os.environ["PATH"]}),
    )
    install(plan_install("copilot-cli", place, kept), place, kept)
    hooks = json.loads((home / ".copilot" / "hooks" / "warmstart.json").read_text())["hooks"]
    assert {event: hook["timeoutSec"] for event, (hook,) in hooks.items()} == EVENTS
    assert all(hook["bash"].endswith(f" hook copilot-cli {event} || true") for event, (hook,) in hooks.items())
    servers = json.loads((home / ".copilot" / "mcp-config.json").read_text())["mcpServers"]
    assert (servers["warmstart"]["tools"], servers["mine"]) == (["*"], {"command": "x"})
    assert plan_install("copilot-cli", place, kept).changes == []
    uninstall(plan_uninstall("copilot-cli", place, kept), place, kept)
    assert tree(home / ".copilot") == before
