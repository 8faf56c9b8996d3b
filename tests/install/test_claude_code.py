"""What Claude Code's hooks get, on the events that versions 2.1.197 and 2.1.327 send."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from warmstart.hosts.claude_code import EVENTS, handle
from warmstart.sessions.marks import END, MARK

SESSION = "c38cc6ef-599d-47b7-92ef-ab01396cea86"
COMMON = {
    "session_id": SESSION,
    "transcript_path": "/home/mara/.claude/projects/x/c38cc6ef.jsonl",
    "cwd": "/home/mara/x",
}
TURN = {"prompt_id": "711ae8ad-ba7f-437e-89f2-22adf81b4059", "permission_mode": "default"}
WORKING = {**TURN, "effort": {"level": "medium"}}
FAILED = {
    "tool_name": "Bash",
    "tool_input": {"command": 'sh -c "echo oops >&2; exit 3"', "description": "run"},
    "tool_use_id": "toolu_scr_0003_0",
    "error": "Exit code 3\noops",
    "is_interrupt": False,
    "duration_ms": 85,
}
BASH = {
    "tool_name": "Bash",
    "tool_input": {"command": "echo one-ok", "description": "run"},
    "tool_use_id": "toolu_scr_0002_0",
    "tool_response": "one-ok",
}
EDIT = {
    "tool_name": "Edit",
    "tool_input": {"file_path": "/home/mara/x/a.py", "old_string": "a", "new_string": "b"},
    "tool_use_id": "toolu_scr_0004_0",
    "tool_response": "String to replace not found in file.",
}
RESUMED = {
    "seconds_since_last_response": 6,
    "context_tokens": 1360,
    "prompt_cache_likely_expired": False,
    "estimated_cache_write_usd": 0.0068,
}
SUBAGENT = {"agent_id": "afc0168603bc471b0", "agent_type": "general-purpose"}
SUMMARY = "<summary>The work: files listed, one failure, one edit.</summary>"


class Hook:
    """Records what an adapter asks for, and answers everything."""

    host = "claude-code"

    def __init__(self, answer: str | None = "TEXT", rule: str = "", notice: str = "") -> None:
        self.answer = answer
        self.notice = notice
        self.rules = f"{MARK}\n- {rule}\n{END}" if rule else ""
        self.asked: list[tuple[Any, ...]] = []

    def before_turn(self, *arguments: str) -> str | None:
        self.asked.append(("before_turn", *arguments))
        return self.answer

    def after_tool(self, *arguments: Any) -> str | None:
        self.asked.append(("after_tool", *arguments))
        return self.answer

    def start(self, *arguments: str) -> str:
        self.asked.append(("start", *arguments))
        return self.answer or ""

    def start_subagent(self, *arguments: str) -> str:
        self.asked.append(("start_subagent", *arguments))
        return self.answer or ""

    def constraints(self, *arguments: str) -> str:
        self.asked.append(("constraints", *arguments))
        return self.rules

    def note_after_compaction(self, *arguments: str) -> str:
        self.asked.append(("note_after_compaction", *arguments))
        return self.answer or ""

    def after_compaction(self, *arguments: str) -> None:
        self.asked.append(("after_compaction", *arguments))

    def sync(self, *arguments: str) -> None:
        self.asked.append(("sync", *arguments))


def asked(event: str, /, *, rule: str = "", **data: Any) -> tuple[list[tuple[Any, ...]], Any]:
    hook = Hook(rule=rule)
    answer = handle(event, {**COMMON, "hook_event_name": event, **data}, hook)  # type: ignore[arg-type]
    return hook.asked, answer


def context(event: str, text: str = "TEXT") -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}


@pytest.fixture(autouse=True)
def outside_of_claude_code(monkeypatch):
    monkeypatch.delenv("CLAUDE_PROJECT_DIR", raising=False)


def test_a_new_session_gets_its_start():
    for source in ("startup", "clear"):
        calls, answer = asked("SessionStart", source=source)
        assert calls == [("start", SESSION, "/home/mara/x", "claude-code", "")]
        assert answer == context("SessionStart")


def test_a_session_that_goes_on_gets_nothing_new():
    assert asked("SessionStart", source="resume") == ([], None)
    assert asked("SessionStart", source="resume", **RESUMED) == ([], None)
    assert asked("SessionStart", source="fork", **RESUMED) == ([], None)


def test_a_prompt_gets_the_evidence_for_its_turn():
    calls, answer = asked("UserPromptSubmit", **TURN, prompt="Please do it now")
    assert calls == [("before_turn", SESSION, "/home/mara/x", "Please do it now")]
    assert answer == context("UserPromptSubmit")


def test_the_news_of_a_background_task_is_no_prompt():
    assert asked("UserPromptSubmit", **TURN, prompt="<task-notification>\n<task-id>afc01686</task-id>") == ([], None)


def test_the_project_is_where_claude_code_was_started(monkeypatch):
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", "/home/mara/project")
    calls, _ = asked("UserPromptSubmit", **TURN, prompt="Where?")
    assert calls[0][2] == "/home/mara/project"


def test_a_failing_call_gets_its_fix():
    calls, answer = asked("PostToolUseFailure", **WORKING, **FAILED)
    assert calls == [("after_tool", SESSION, "/home/mara/x", "Bash", FAILED["tool_input"], "Exit code 3\noops")]
    assert answer == context("PostToolUseFailure")
    assert asked("PostToolUseFailure", **WORKING, **{**FAILED, "is_interrupt": True}) == ([], None)


def test_a_batch_is_asked_for_failures_that_have_no_event_of_their_own():
    assert asked("PostToolBatch", **WORKING, tool_calls=[EDIT]) == ([], None)
    calls, answer = asked("PostToolBatch", **WORKING, tool_calls=[BASH, EDIT, BASH])
    assert calls[0] == ("after_tool", SESSION, "/home/mara/x", "Bash", BASH["tool_input"], BASH["tool_response"])
    assert answer == context("PostToolBatch", "TEXT\n\nTEXT")
    odd = {**BASH, "tool_response": [{"type": "text", "text": "x"}]}
    assert asked("PostToolBatch", **WORKING, tool_calls=[odd]) == ([], None)


def test_a_compaction_that_may_not_happen_forgets_nothing():
    for data in (
        {"trigger": "manual", "custom_instructions": "keep"},
        {"trigger": "auto", "custom_instructions": None},
    ):
        calls, answer = asked("PreCompact", **data)
        assert calls == [("constraints", COMMON["transcript_path"], "claude-code")]
        assert answer is None


def test_after_a_compaction_things_may_be_said_again():
    calls, answer = asked("SessionStart", source="compact", model="claude-opus-5-5")
    assert calls[0] == ("after_compaction", SESSION)
    assert calls[1] == ("note_after_compaction", COMMON["transcript_path"], "claude-code")
    assert answer == context("SessionStart")
    assert asked("PostCompact", trigger="auto", compact_summary=SUMMARY) == ([("after_compaction", SESSION)], None)


def test_the_users_rules_are_asked_for_in_the_summary_verbatim():
    rule = "Never touch migrations by hand."
    _, text = asked("PreCompact", rule=rule, trigger="auto", custom_instructions=None)
    assert rule in text
    assert MARK in text


def test_the_end_of_a_turn_and_of_a_session_is_imported_without_a_word():
    last = {"stop_hook_active": False, "last_assistant_message": "DONE.", "background_tasks": [], "session_crons": []}
    imported = [("sync", COMMON["transcript_path"])]
    assert asked("Stop", **WORKING, **last) == (imported, None)
    for reason in ("other", "clear"):
        assert asked("SessionEnd", reason=reason) == (imported, None)


def test_a_subagent_starts_with_what_its_parent_got():
    calls, answer = asked("SubagentStart", **WORKING, **SUBAGENT)
    assert [call[0] for call in calls] == ["start_subagent"]
    assert answer == {"hookSpecificOutput": {"hookEventName": "SubagentStart", "additionalContext": "TEXT"}}


def test_nothing_is_done_in_subagents_or_for_unknown_events():
    for event in {*EVENTS, "SubagentStop", "PreToolUse"} - {"SubagentStart"}:
        assert asked(event, **WORKING, **FAILED, **SUBAGENT, prompt="x", source="startup") == ([], None)
    for event in ("SubagentStop", "PreToolUse", "PostToolUse", "PermissionRequest", "Notification", ""):
        assert asked(event, **WORKING, **BASH) == ([], None)


def test_an_event_without_its_fields_is_no_error():
    for event in EVENTS:
        for answer in ("TEXT", None):
            handle(event, {}, Hook(answer))  # type: ignore[arg-type]
    assert handle("UserPromptSubmit", {**COMMON, "prompt": "x"}, Hook(None)) is None  # type: ignore[arg-type]


def test_a_notice_is_for_the_user_alone():
    told = {"systemMessage": "Warmstart noted it."}
    for answer, more in (("TEXT", context("UserPromptSubmit")), (None, {})):
        hook = Hook(answer, notice="Warmstart noted it.")
        assert handle("UserPromptSubmit", {**COMMON, "prompt": "x"}, hook) == {**told, **more}  # type: ignore[arg-type]


def test_the_adapter_loads_nothing_heavy():
    code = "import sys, warmstart.hosts.claude_code, warmstart.hosts.hook; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"dataclasses", "pathlib", "typing", "click", "msgspec", "numpy", "subprocess"} & set(modules)
