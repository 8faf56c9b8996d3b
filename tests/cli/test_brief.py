"""`warmstart brief` as a user runs it, on the sample sessions."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.cli.test_sync_unchanged import MAX_MODULES, loaded_modules
from tests.preflight.conftest import talk

import warmstart

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


def test_the_stored_brief_is_printed_at_once_and_is_the_same(run: Run, tmp_path: Path) -> None:
    project = tmp_path / "tides"
    (project / "src").mkdir(parents=True)
    (project / "src" / "surge.py").touch()
    with warmstart.open() as ws:
        for number in range(2):
            with ws.begin(f"past-{number}", project=str(project)) as live:
                talk(live, "compute the storm surge", ("edit", '{"path": "src/surge.py"}', "ok"))
    built = run("brief", "--project", project).out
    assert "surge.py" in built
    modules, text = loaded_modules("brief", "--project", project)
    assert text == built
    assert len(modules) < MAX_MODULES
    (project / "src" / "surge.py").unlink()
    built = run("brief", "--project", project, "--budget", "199").out
    assert "surge.py" not in built + loaded_modules("brief", "--project", project)[1]
    run("memory", "set", "tide_tables", "The tide tables are from 2026.")
    assert "tide tables are from 2026" in loaded_modules("brief", "--project", project)[1]
    for session in ("past-0", "past-1"):
        assert run("sessions", "delete", session, "--yes").code == 0
    assert "surge" not in run("brief", "--project", project).out


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
