"""A sync with nothing new compares sizes and times, and ends; whatever may be new is looked at."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Run

import warmstart
from warmstart.storage.outbox import put_row

NOTHING_NEW = "0 logs read, 7 unchanged, in 0.0 s.\n"
MAX_MODULES = 110  # `python -c pass` has about 60, a sync 290


@pytest.fixture(autouse=True)
def settled(run: Run, histories: Path) -> Path:
    """The home after a first sync, with folders that did not change within the last seconds."""
    make_older(histories)
    assert run("sync").code == 0
    return histories


def make_older(home: Path) -> None:
    for folder in (home / ".claude", home / ".codex", home / ".gemini"):
        for path in (folder, *folder.rglob("*")):
            os.utime(path, (1_700_000_000, 1_700_000_000))


def loaded_modules(*arguments: object) -> tuple[set[str], str]:
    """The modules that a command loads in a new process, and what it prints."""
    code = "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr))"
    code += "; from warmstart.cli import main; main()"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return set(done.stderr.split()), done.stdout


def is_settled(*arguments: object) -> bool:
    modules, _ = loaded_modules("sync", *arguments)
    return "click" not in modules


def test_a_sync_with_nothing_new_loads_next_to_nothing() -> None:
    modules, text = loaded_modules("sync")
    assert text == NOTHING_NEW
    assert len(modules) < MAX_MODULES
    assert modules.isdisjoint({"click", "msgspec", "typing", "pathlib", "warmstart.app", "warmstart.config"})


def test_so_does_the_sync_of_one_log(settled: Path) -> None:
    log = next((settled / ".codex").rglob("*.jsonl"))
    modules, text = loaded_modules("sync", "--format", "codex", "--path", log)
    assert text == "0 logs read, 1 unchanged, in 0.0 s.\n"
    assert len(modules) < MAX_MODULES
    assert not is_settled("--format", "claude-code", "--path", log)
    other = shutil.copy(log, settled / "rollout-copy.jsonl")
    assert not is_settled("--format", "codex", "--path", other)


@pytest.mark.parametrize("words", [["--help"], ["--version"]])
def test_help_and_version_load_next_to_nothing(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert len(loaded_modules(*words)[0]) < MAX_MODULES


def test_help_is_the_same_on_any_terminal(run: Run, terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    by_click = run("--help").out
    monkeypatch.delenv("COLUMNS")
    assert run("--help").out == by_click, "run `make docs`"
    assert terminal("--help", columns=100)[1].replace("\r", "") == by_click
    assert max(map(len, terminal("--help", columns=60)[1].splitlines())) <= 60


def test_a_log_in_a_new_folder_is_found(run: Run, settled: Path) -> None:
    log = next((settled / ".claude" / "projects").rglob("*.jsonl"))
    folder = settled / ".claude" / "projects" / "-new"
    folder.mkdir()
    (folder / "other.jsonl").write_bytes(log.read_bytes())
    assert "1 log read, 7 unchanged" in run("sync").out


def test_a_log_that_grew_is_read(run: Run, settled: Path) -> None:
    log = next((settled / ".codex").rglob("*.jsonl"))
    with log.open("a", encoding="utf-8") as file:
        file.write("\n")
    assert "1 log read, 6 unchanged" in run("sync").out
    assert run("sync").out == NOTHING_NEW
    assert is_settled()


def test_a_folder_that_just_changed_is_listed_again(run: Run, settled: Path) -> None:
    os.utime(settled / ".claude" / "projects")
    assert run("sync").code == 0
    assert not is_settled()


def test_another_agents_folder_is_looked_at(
    run: Run, settled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_settled()
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    assert "6 unchanged" in run("sync").out
    monkeypatch.delenv("CODEX_HOME")
    (settled / ".pi" / "agent" / "sessions").mkdir(parents=True)
    assert not is_settled()


def test_other_settings_are_followed(settled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = settled / ".warmstart" / "config.toml"
    config.write_text("[redact]\nallow = ['storm']\n", encoding="utf-8")
    assert not is_settled()
    assert is_settled()
    monkeypatch.setenv("WARMSTART_STORE", str(settled / "other.db"))
    _, text = loaded_modules("sync")
    assert "7 logs read, 0 unchanged" in text


def test_what_other_programs_did_to_the_store_is_followed_up(run: Run, settled: Path) -> None:
    with warmstart.open() as ws:
        first, *_ = ws.sessions.list(project=None)
        with ws.begin("live", task="count the gauges") as live:
            live.record({"role": "assistant", "content": "There are nine."})
    assert not is_settled()
    assert is_settled()
    with warmstart.open() as ws:
        assert ws.recall("how many gauges", project=None)
    assert run("sessions", "delete", first.id, "--yes").code == 0
    assert not is_settled()
    assert is_settled()


def test_what_waits_in_the_outbox_is_delivered(settled: Path) -> None:
    put_row(str(settled / ".warmstart"), [])
    assert not is_settled()


def test_a_lost_store_is_filled_again(settled: Path) -> None:
    (settled / ".warmstart" / "warmstart.db").unlink()
    _, text = loaded_modules("sync")
    assert "7 logs read, 0 unchanged" in text


def test_a_damaged_snapshot_is_no_problem(settled: Path) -> None:
    path = settled / ".warmstart" / "sync.json"
    for damage in (b"", b"[]", b"{}", b'{"logs": 3}', b"\xff"):
        path.write_bytes(damage)
        assert not is_settled()
        assert is_settled()


def test_a_program_with_its_own_store_does_not_answer_for_the_others(settled: Path, tmp_path: Path) -> None:
    with warmstart.open(tmp_path / "own.db") as ws:
        ws.sync()
    (settled / ".warmstart" / "warmstart.db").unlink()
    _, text = loaded_modules("sync")
    assert "7 logs read, 0 unchanged" in text


def test_the_snapshot_is_private_and_holds_no_values_of_variables(
    run: Run, settled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARMSTART_EMBEDDINGS_KEY", "a-secret-of-mine")
    assert run("sync").code == 0
    path = settled / ".warmstart" / "sync.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert b"a-secret-of-mine" not in path.read_bytes()
