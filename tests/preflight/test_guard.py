"""Hooks that hang are not waited for again and again, and hooks that the user has paused do nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import warmstart
from tests.preflight.conftest import talk
from tests.preflight.test_hook import CODE, prompt, run_hook
from tests.waiting import wait_until
from warmstart.cli import main
from warmstart.hosts.guard import MAX_SECONDS, RETRY_SECONDS
from warmstart.hosts.hook import read_runs

ASKED = "compute the storm surge for harbours without a gauge"


@pytest.fixture
def warm(home: Path, project: Path) -> Path:
    """A home directory whose store knows two sessions of the project."""
    folder = home / ".warmstart"
    (folder / "hosts").mkdir(parents=True)
    (project / "src").mkdir()
    (project / "src" / "surge.py").touch()
    (folder / "config.toml").write_text("[context_preflight]\ndeadline_ms = 60000\n", encoding="utf-8")
    with warmstart.open(home=folder) as ws:
        for name in ("past-1", "past-2"):
            with ws.begin(name, project=str(project)) as run:
                talk(run, ASKED, ("edit", '{"path": "src/surge.py"}', "ok"))
    return folder


def markers(home: Path) -> list[Path]:
    return [path for path in (home / "hosts" / "running").glob("*") if path.name != "told"]


def hang(home: Path, event: str, age: float = MAX_SECONDS + 1) -> None:
    """A hook that hangs until its agent kills it; that was `age` seconds ago."""
    known = set(markers(home))
    command = [sys.executable, "-EPc", CODE, "hook", "claude-code", event]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as hung:  # it waits for its input
        wait_until(lambda: set(markers(home)) - known)
        hung.kill()
    (new,) = set(markers(home)) - known
    os.utime(new, (time.time() - age, time.time() - age))


def notice(event: str, project: Path) -> str:
    answer = run_hook(event, prompt(project, ASKED, source="startup")) or {}
    assert answer.keys() <= {"systemMessage"}
    return str(answer.get("systemMessage", ""))


def works(project: Path) -> bool:
    return "surge.py" in json.dumps(run_hook("UserPromptSubmit", prompt(project, session_id=os.urandom(4).hex())))


def test_a_run_leaves_nothing(warm: Path, project: Path) -> None:
    assert works(project)
    run_hook("UserPromptSubmit", b"no JSON")
    run_hook("../x", {})
    assert markers(warm) == []


def test_after_two_runs_that_hung_hooks_do_nothing_and_say_so_once(warm: Path, project: Path) -> None:
    hang(warm, "SessionStart")
    assert works(project)
    hang(warm, "UserPromptSubmit")
    assert run_hook("Stop", {"session_id": "now", "cwd": str(project), "transcript_path": "x"}) is None
    assert "doctor" in notice("UserPromptSubmit", project)
    assert notice("SessionStart", project) == ""
    assert len(markers(warm)) == 2


def test_a_run_that_ends_shows_that_hooks_are_healthy_again(warm: Path, project: Path) -> None:
    for _ in range(2):
        hang(warm, "UserPromptSubmit", age=RETRY_SECONDS + 1)
    run_hook("PostToolBatch", {"session_id": "now", "cwd": str(project)})
    assert len(markers(warm)) == 2  # another event says nothing about prompts
    hang(warm, "UserPromptSubmit")
    assert not works(project)
    for marker in markers(warm):
        os.utime(marker, (1, 1))
    assert works(project)
    assert markers(warm) == []


def test_runs_at_the_same_time_do_not_count_as_hung(warm: Path, project: Path) -> None:
    command = [sys.executable, "-EPc", CODE, "hook", "claude-code", "UserPromptSubmit"]
    running = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(8)]
    wait_until(lambda: len(markers(warm)) == 8)
    assert works(project)
    for number, process in enumerate(running):
        answer, _ = process.communicate(json.dumps(prompt(project, session_id=f"s{number}")).encode())
        assert b"surge.py" in answer
    assert markers(warm) == []


def test_doctor_names_the_runs_that_hung_and_clears_them(
    warm: Path, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        hang(warm, "UserPromptSubmit")
    assert not works(project)
    main(["doctor"])
    assert "2 runs took too long" in capsys.readouterr().out
    assert works(project)
    main(["doctor"])
    assert "took too long" not in capsys.readouterr().out


# -- pauses


@pytest.fixture
def paused(warm: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The home directory, with the project as the current one."""
    monkeypatch.chdir(project)
    yield warm
    main(["pause", "off"])
    assert works(project)
    assert not (warm / "paused.json").exists()


def test_a_paused_hook_does_nothing(paused: Path, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["pause", ""])
    assert capsys.readouterr().out == "Hooks are paused until `warmstart pause off`.\n"
    before = {path: path.stat().st_mtime_ns for path in paused.rglob("*") if path.is_file()}
    runs = len(read_runs(paused, "claude-code"))
    for event in ("SessionStart", "UserPromptSubmit", "Stop"):
        assert run_hook(event, prompt(project, source="startup", transcript_path=__file__)) is None
    assert run_hook("turn", prompt(project, message=ASKED, is_first=True), host="hermes") is None
    assert len(read_runs(paused, "claude-code")) == runs
    assert {path: path.stat().st_mtime_ns for path in paused.rglob("*") if path.is_file()} == before
    main(["doctor"])
    assert "paused" in capsys.readouterr().out


def test_a_pause_of_one_project_leaves_the_others_alone(paused: Path, project: Path, tmp_path: Path) -> None:
    (project / "deeper").mkdir()
    main(["pause", "--project", "1h"])
    assert run_hook("UserPromptSubmit", prompt(project)) is None
    assert run_hook("UserPromptSubmit", {**prompt(project), "cwd": str(project / "deeper")}) is None
    other = {"session_id": "o", "cwd": str(tmp_path), "source": "startup"}
    assert run_hook("SessionStart", other) is not None
    main(["pause", "2d"])
    main(["pause", "--project", "off"])
    assert run_hook("SessionStart", other) is None


def test_a_pause_ends_by_itself(paused: Path, project: Path) -> None:
    main(["pause", "30m"])
    (until,) = json.loads((paused / "paused.json").read_text()).values()
    assert 1700 < until - time.time() <= 1800
    (paused / "paused.json").write_text(json.dumps({"": time.time() - 1}), encoding="utf-8")
    assert works(project)


def test_a_damaged_pause_is_still_a_pause(paused: Path, project: Path) -> None:
    (paused / "paused.json").write_text("{", encoding="utf-8")
    assert run_hook("UserPromptSubmit", prompt(project)) is None


@pytest.mark.parametrize("words", [["0h"], ["1"], ["tomorrow"], ["999999d"]])
def test_a_pause_without_a_sensible_end_is_refused(words: list[str], warm: Path) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["pause", *words])
    assert not (warm / "paused.json").exists()
