from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from importlib.resources import files
from pathlib import Path

import pytest

from warmstart.sessions.outcomes import OUTCOME_RULES, judge
from warmstart.sessions.readers.registry import readers
from warmstart.sessions.sqlite import SQLiteSessionStore
from warmstart.sessions.sync import path_sources, sync
from warmstart.sessions.values import CallOutcome, ToolResult

SAMPLES = Path(str(files("warmstart"))) / "samples"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteSessionStore]:
    with closing(SQLiteSessionStore(tmp_path / "store.db")) as fresh:
        yield fresh


def judged(agent: str, tool: str = "", outcome: CallOutcome = "ok", **fields: object) -> CallOutcome:
    return judge(agent, tool, ToolResult(call_id="c", outcome=outcome, **fields))  # type: ignore[arg-type]


def test_judging_what_was_just_imported_changes_nothing(store: SQLiteSessionStore) -> None:
    sync(store, path_sources([SAMPLES]))
    assert store.rejudge(judge, OUTCOME_RULES) == 0
    assert store.rejudge(judge, OUTCOME_RULES + 1) == 0


@pytest.mark.slow
@pytest.mark.corpus
def test_judging_real_sessions_again_changes_nothing(store: SQLiteSessionStore, corpus: Path) -> None:
    sync(store, path_sources([corpus / name for name in ("sessions", "tau_bench", "tau2")]))
    assert store.rejudge(judge, OUTCOME_RULES + 1) == 0


@pytest.mark.parametrize("agent", readers())
def test_every_reader_has_a_rule(agent: str) -> None:
    failed = {
        "claude-code": {"flag": True},
        "codex": {"exit_code": 1},
        "gemini-cli": {"flag": True},
        "opencode": {"flag": True},
        "copilot-cli": {"flag": False},
        "hermes": {"text": "Error: boom"},
        "openai": {"text": "Error: boom"},
    }
    assert judged(agent, **failed[agent]) == "error"


@pytest.mark.parametrize("outcome", ["ok", "error", "rejected", "unknown"])
def test_the_outcome_of_an_unknown_agent_stands(outcome: CallOutcome) -> None:
    assert judged("nobody", "bash", outcome, text="Error: boom", flag=True, exit_code=1) == outcome


@pytest.mark.parametrize(
    ("agent", "tool", "outcome", "fields"),
    [
        ("copilot-cli", "bash", "rejected", {"flag": False, "text": "denied"}),
        ("copilot-cli", "bash", "unknown", {}),
        ("gemini-cli", "run_shell_command", "rejected", {"text": "[Operation Cancelled]"}),
        ("opencode", "bash", "rejected", {"flag": True, "text": "stopped"}),
        ("codex", "web_search", "unknown", {}),
        ("codex", "web_search", "error", {}),
        ("codex", "tool_search", "ok", {"text": '[{"name": "x", "description": "sets \\"isError\\": true"}]'}),
    ],
)
def test_what_only_the_log_said_stands(agent: str, tool: str, outcome: CallOutcome, fields: dict[str, object]) -> None:
    assert judged(agent, tool, outcome, **fields) == outcome


@pytest.mark.parametrize(
    ("agent", "tool", "fields", "outcome"),
    [
        ("claude-code", "Bash", {"flag": True, "text": "The user doesn't want to proceed with this"}, "rejected"),
        ("claude-code", "Bash", {"flag": True, "exit_code": 1, "text": "Exit code 1"}, "error"),
        ("claude-code", "Edit", {"text": "<tool_use_error>File has not been read yet"}, "error"),
        ("codex", "shell", {"text": "aborted by user after 3s"}, "rejected"),
        ("codex", "shell", {"text": "fine", "flag": False}, "error"),
        ("gemini-cli", "run_shell_command", {"flag": False, "text": "Output: x\nExit Code: 7"}, "error"),
        ("gemini-cli", "read_file", {"flag": False, "text": "Output: x\nExit Code: 7"}, "ok"),
        ("opencode", "bash", {"flag": False, "text": "<metadata>\nUser aborted the command\n</metadata>"}, "rejected"),
        ("opencode", "read", {"flag": False, "text": "<metadata>\nUser aborted the command\n</metadata>"}, "ok"),
        ("opencode", "bash", {"flag": False, "exit_code": 2}, "error"),
        ("hermes", "terminal", {"flag": False, "text": '{"error": "cut off'}, "error"),
        ("openai", "book", {"flag": False, "text": "Error: is what the page says"}, "ok"),
        ("openai", "book", {"flag": True, "text": "The user denied it"}, "rejected"),
    ],
)
def test_what_is_stored_is_decided_anew(agent: str, tool: str, fields: dict[str, object], outcome: CallOutcome) -> None:
    for before in ("ok", "error"):
        assert judged(agent, tool, before, **fields) == outcome


def test_opening_a_store_does_not_import_the_readers() -> None:
    code = "import sys, warmstart.sessions.sqlite; print([name for name in sys.modules if '.readers.' in name])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
