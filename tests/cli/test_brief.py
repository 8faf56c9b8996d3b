"""`warmstart brief` as a user runs it, on the sample sessions."""

from __future__ import annotations

import io
import json
import sys

import pytest
from tests.cli.conftest import Run

PROJECT = "/home/mara/tidewatch"

pytestmark = pytest.mark.usefixtures("synced")


def test_it_prints_the_text_that_a_session_gets_and_nothing_else(run: Run) -> None:
    code, out, err = run("brief", "--project", PROJECT)
    assert (code, err) == (0, "")
    assert out.startswith("[warmstart] ")
    assert out.endswith("[/warmstart]\n")
    assert "- `uv run pytest`, " in out
    assert "src/tidewatch/" in out
    assert run("brief", "--project", PROJECT).out == out


def test_json_has_the_text_its_tokens_and_the_sources_of_every_line(run: Run) -> None:
    found = json.loads(run("brief", "--project", PROJECT, "--budget", "120", "--json").out)
    assert found["text"].startswith("[warmstart] ")
    assert 0 < found["tokens"] <= 120
    lines = [line for section in found["sections"] for line in section["lines"]]
    assert lines
    assert all(line["why"] and line["sources"][0]["session_id"] for line in lines)


def test_explain_says_why_each_line_is_there(run: Run) -> None:
    out = run("brief", "--project", PROJECT, "--explain").out
    assert "    `uv run pytest` worked 4 times in 4 sessions, last 2026-09-21; `make check`" in out


def test_the_task_may_come_from_standard_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    typed = run("brief", "--project", PROJECT, "--task", "store the datum", "--budget", "100").out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"store the datum")))
    assert run("brief", "--project", PROJECT, "--task", "-", "--budget", "100").out == typed != ""


def test_a_project_without_sessions_gets_an_empty_brief_and_a_hint(run: Run) -> None:
    hint = "Nothing is known about this project yet; `warmstart sync` imports its sessions.\n"
    assert run("brief", "--project", "/nowhere/at/all") == (0, "", hint)


def test_a_budget_out_of_range_is_wrong_usage(run: Run) -> None:
    assert run("brief", "--budget", "5000").code == 2
