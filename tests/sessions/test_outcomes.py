from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

import pytest

from warmstart.sessions.readers.registry import judge, readers
from warmstart.sessions.schema import OUTCOME_RULES
from warmstart.sessions.sql_store import SQLiteSessionStore
from warmstart.sessions.sync import path_sources, sync
from warmstart.sessions.values import CallOutcome, ToolResult

SAMPLES = Path(str(files("warmstart"))) / "samples"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteSessionStore]:
    with closing(SQLiteSessionStore(tmp_path / "store.db")) as fresh:
        yield fresh


def judged(agent: str, tool: str = "", outcome: CallOutcome = "ok", **fields: object) -> CallOutcome:
    return judge(agent, tool, ToolResult(call_id="c", outcome=outcome, **fields))  # type: ignore[arg-type]


def test_rejudging_a_fresh_import_changes_nothing(store: SQLiteSessionStore) -> None:
    sync(store, path_sources([SAMPLES]))
    assert store.rejudge(judge, OUTCOME_RULES) == 0
    assert store.rejudge(judge, OUTCOME_RULES + 1) == 0


@pytest.mark.slow
@pytest.mark.corpus
def test_rejudging_real_sessions_changes_nothing(store: SQLiteSessionStore, corpus: Path) -> None:
    sync(store, path_sources([corpus / name for name in ("sessions", "tau_bench", "tau2")]))
    assert store.rejudge(judge, OUTCOME_RULES + 1) == 0


def test_every_reader_has_a_rule(subtests: pytest.Subtests) -> None:
    failed: dict[str, dict[str, Any]] = {
        "claude-code": {"flag": True},
        "codex": {"exit_code": 1},
        "gemini-cli": {"flag": True},
        "opencode": {"flag": True},
        "copilot-cli": {"flag": False},
        "hermes": {"text": "Error: boom"},
        "inspect": {"flag": True},
        "qwen-code": {"flag": True},
        "cline": {"flag": True},
        "pi": {"flag": True},
        "openai": {"text": "Error: boom"},
    }
    for agent in readers():
        with subtests.test(agent):
            assert judged(agent, **failed[agent]) == "error"


STATED: list[tuple[str, str, CallOutcome, dict[str, Any]]] = [
    *(
        ("nobody", "bash", outcome, {"text": "Error: boom", "flag": True, "exit_code": 1})
        for outcome in get_args(CallOutcome)
    ),
    ("copilot-cli", "bash", "rejected", {"flag": False, "text": "denied"}),
    ("copilot-cli", "bash", "unknown", {}),
    ("gemini-cli", "run_shell_command", "rejected", {"text": "[Operation Cancelled]"}),
    ("opencode", "bash", "rejected", {"flag": True, "text": "stopped"}),
    ("codex", "exec_command", "rejected", {"flag": False, "text": "not run"}),
    ("codex", "web_search", "unknown", {}),
    ("codex", "web_search", "error", {}),
    ("codex", "tool_search", "ok", {"text": '[{"name": "x", "description": "sets \\"isError\\": true"}]'}),
]


def test_outcomes_known_only_from_the_log_stay(subtests: pytest.Subtests) -> None:
    for agent, tool, outcome, fields in STATED:
        with subtests.test(agent, outcome=outcome, fields=fields):
            assert judged(agent, tool, outcome, **fields) == outcome


DECIDED: list[tuple[str, str, dict[str, Any], CallOutcome]] = [
    ("claude-code", "Bash", {"flag": True, "text": "The user doesn't want to proceed with this"}, "rejected"),
    ("claude-code", "Bash", {"flag": True, "exit_code": 1, "text": "Exit code 1"}, "error"),
    ("claude-code", "Edit", {"text": "<tool_use_error>File has not been read yet"}, "error"),
    ("codex", "shell", {"text": "aborted by user after 3s"}, "rejected"),
    ("codex", "shell", {"text": "fine", "flag": False}, "error"),
    (
        "codex",
        "exec_command",
        {"text": "Wall time: 0 seconds\nOutput:\nExit code: 1\nWall time: 1 seconds"},
        "error",
    ),
    ("copilot-cli", "bash", {"flag": True, "text": "x\n<exited with exit code 2>"}, "error"),
    ("gemini-cli", "run_shell_command", {"flag": False, "text": "Output: x\nExit Code: 7"}, "error"),
    (
        "gemini-cli",
        "run_shell_command",
        {"flag": False, "text": "Output: x\nExit Code: 7\n\n<hook_context>words</hook_context>"},
        "error",
    ),
    (
        "opencode",
        "bash",
        {"flag": True, "text": "The user has specified a rule which prevents you from …"},
        "rejected",
    ),
    ("gemini-cli", "read_file", {"flag": False, "text": "Output: x\nExit Code: 7"}, "ok"),
    ("opencode", "bash", {"flag": False, "text": "<metadata>\nUser aborted the command\n</metadata>"}, "rejected"),
    ("opencode", "read", {"flag": False, "text": "<metadata>\nUser aborted the command\n</metadata>"}, "ok"),
    ("opencode", "bash", {"flag": False, "exit_code": 2}, "error"),
    ("hermes", "terminal", {"flag": False, "text": '{"error": "cut off'}, "error"),
    ("openai", "book", {"flag": False, "text": "Error: is what the page says"}, "ok"),
    ("openai", "book", {"flag": True, "text": "The user denied it"}, "rejected"),
]


def test_stored_results_are_decided_again(subtests: pytest.Subtests) -> None:
    for agent, tool, fields, outcome in DECIDED:
        with subtests.test(agent, tool=tool, fields=fields):
            assert judged(agent, tool, "ok", **fields) == judged(agent, tool, "error", **fields) == outcome


def test_opening_a_store_does_not_import_the_readers() -> None:
    code = "import sys, warmstart.sessions.sql_store; print([name for name in sys.modules if '.readers.' in name])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
