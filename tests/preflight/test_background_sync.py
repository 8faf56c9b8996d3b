"""What hooks import in the background: each session once, and later what was missed."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import warmstart
from tests.preflight.test_hook import CODE, run_hook
from tests.sessions.logs import name, turn, write
from tests.waiting import wait_until

ENDED = {"session_id": "now", "hook_event_name": "SessionEnd"}


@pytest.fixture
def folder(home: Path) -> Path:
    """Where Claude Code keeps the logs of a project."""
    path = home / ".claude" / "projects" / "-home-mara-tidewatch"
    path.mkdir(parents=True)
    return path


def write_log(folder: Path, session: str) -> Path:
    return write(folder, session, turn(session, 1))


def end(log: Path) -> None:
    run_hook("SessionEnd", {**ENDED, "cwd": str(log.parent), "transcript_path": str(log)})


def imported(home: Path) -> list[str]:
    """The sessions in the store, once no import is running."""
    lock = home / ".warmstart" / "hosts" / "sync.lock"
    wait_until(lock.exists)
    wait_until(lambda: is_free(lock))
    if not (home / ".warmstart" / "warmstart.db").exists():
        return []
    with warmstart.open() as ws:
        return sorted(row.session.native_id for row in ws.sessions.list(project=None))


def is_free(lock: Path) -> bool:
    with lock.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def set_last_look(home: Path, seconds_ago: float) -> None:
    (home / ".warmstart" / "hosts" / "sync.lock").write_text(str(int(time.time() - seconds_ago)), encoding="utf-8")


def names(*sessions: str) -> list[str]:
    return sorted(map(name, sessions))


def test_once_a_day_what_was_missed_is_imported(home: Path, folder: Path) -> None:
    end(write_log(folder, "first"))
    wait_until(lambda: imported(home) == names("first"))
    write_log(folder, "missed")
    end(write_log(folder, "second"))
    wait_until(lambda: imported(home) == names("first", "second"))
    set_last_look(home, 90_000)
    end(write_log(folder, "third"))
    wait_until(lambda: imported(home) == names("first", "second", "third", "missed"))
    write_log(folder, "missed, too")
    end(write_log(folder, "fourth"))
    wait_until(lambda: name("fourth") in imported(home))
    assert name("missed, too") not in imported(home)  # that was today


def test_after_a_failure_what_was_missed_is_imported(home: Path, folder: Path) -> None:
    end(write_log(folder, "first"))
    wait_until(lambda: imported(home) == names("first"))
    config, lock = home / ".warmstart" / "config.toml", home / ".warmstart" / "hosts" / "sync.lock"
    config.write_text("[redact]\npatterns = { broken = '(' }\n", encoding="utf-8")
    end(write_log(folder, "second"))
    wait_until(lambda: lock.read_bytes() == b"" and is_free(lock))
    config.unlink()
    end(write_log(folder, "third"))
    wait_until(lambda: imported(home) == names("first", "second", "third"))


def test_a_lost_store_is_filled_again(home: Path, folder: Path) -> None:
    logs = [write_log(folder, f"session {number}") for number in range(4)]
    end(logs[0])
    wait_until(lambda: len(imported(home)) == 4)
    for path in (home / ".warmstart").glob("warmstart.db*"):
        path.unlink()
    end(logs[0])
    wait_until(lambda: len(imported(home)) == 4)


def test_a_home_that_could_not_be_written_to_is_caught_up_with(home: Path, folder: Path) -> None:
    end(write_log(folder, "first"))
    wait_until(lambda: imported(home) == names("first"))
    own = home / ".warmstart"
    own.rename(home / "moved")
    own.write_text("not a folder", encoding="utf-8")
    end(write_log(folder, "second"))
    own.unlink()
    shutil.rmtree(home / "moved")
    end(write_log(folder, "third"))
    wait_until(lambda: imported(home) == names("first", "second", "third"))


def test_eight_sessions_at_once_do_not_wait_for_each_other(home: Path, folder: Path, tmp_path: Path) -> None:
    (home / ".warmstart" / "hosts").mkdir(parents=True)
    logs = [write_log(folder, f"session {number}") for number in range(8)]
    lock = (home / ".warmstart" / "hosts" / "sync.lock").open("a")
    fcntl.flock(lock, fcntl.LOCK_EX)  # an import that takes long
    processes = []
    for event, more in (
        ("SessionStart", {"source": "startup"}),
        ("UserPromptSubmit", {"prompt": "what did the first request of session 3 say?"}),
        ("Stop", {}),
        ("SessionEnd", {}),
    ):
        for log in logs:
            data = {"session_id": log.stem, "cwd": str(tmp_path), "transcript_path": str(log), **more}
            command = [sys.executable, "-EPc", CODE, "hook", "claude-code", event]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            assert process.stdin is not None
            process.stdin.write(json.dumps(data).encode())
            process.stdin.close()
            processes.append(process)
    assert [process.wait(timeout=180) for process in processes] == [0] * 32  # while the other import still runs
    for process in processes:
        assert process.stdout is not None
        process.stdout.close()
    assert not (home / ".warmstart" / "warmstart.db").exists()
    lock.close()
    wait_until(lambda: imported(home) == names(*(f"session {number}" for number in range(8))), every=0.2)
    with warmstart.open() as ws:
        assert ws.store.fetch("SELECT count(*), count(DISTINCT native_id) FROM messages") == [(32, 32)]
