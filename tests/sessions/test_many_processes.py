"""Several processes on one store, and processes that die: nothing lost, no duplicates, no error shown."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from tests.sessions.logs import encoded, name, turn, turns, write
from warmstart.sessions.sql_store import SQLiteSessionStore
from warmstart.sessions.sync import path_sources, sync
from warmstart.sessions.values import Session, session_id
from warmstart.testing.stores import find_texts, said

SYNC = [sys.executable, "-m", "warmstart", "sync", "--path"]

APPENDER = """
import sys
from warmstart.sessions.sql_store import SQLiteSessionStore
from warmstart.testing.stores import said, session

path, worker = sys.argv[1:]
store = SQLiteSessionStore(path)
for number in range(50):
    store.append(session("shared"), [said(f"{worker}/{number}", f"message {number} of {worker}")])
    store.append(session(f"own {worker}"), [said(f"own {worker}/{number}", f"note {number}")])
"""


def content(path: Path) -> dict[str, object]:
    """The content of a store, independent of the order of import."""
    with closing(SQLiteSessionStore(path)) as store:
        assert store.database.integrity() == []
        return {
            row.session.native_id: (row.session, row[1:], tuple(store.messages(row.session.id))) for row in store.list()
        }


def make_logs(folder: Path, sessions: int, length: int) -> None:
    """Sessions with errors; some continue in a second log that copies the first, under the same or a new name."""
    for number in range(sessions):
        seed, resumed = f"session {number}", f"session {number} resumed"
        lines = turns(seed, range(length))
        write(folder, seed, lines)
        if number % 4 == 0:
            copies = [line | {"sessionId": name(resumed)} for line in lines] if number % 8 == 0 else lines
            write(folder, resumed, copies + turns(resumed, range(1000, 1000 + length)))


@contextmanager
def running(commands: list[list[str]], home: Path) -> Iterator[list[subprocess.Popen[str]]]:
    env = os.environ | {"WARMSTART_HOME": str(home)}
    processes = [
        subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for command in commands
    ]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()
            process.stdout.close()  # type: ignore[union-attr]
            process.stderr.close()  # type: ignore[union-attr]


def test_eight_processes_sync_and_append_at_once(tmp_path: Path) -> None:
    home, logs = tmp_path / "home", tmp_path / "logs"
    make_logs(logs, 24, 12)
    commands = [[*SYNC, str(logs)] for _ in range(4)]
    commands += [[sys.executable, "-c", APPENDER, str(home / "warmstart.db"), str(worker)] for worker in range(4)]
    with running(commands, home) as processes:
        results = [process.communicate(timeout=180) for process in processes]
        assert [(process.returncode, errors) for process, (_, errors) in zip(processes, results, strict=True)] == [
            (0, "")
        ] * 8
    with closing(SQLiteSessionStore(tmp_path / "expected.db")) as expected:
        sync(expected, path_sources([logs]))
    found = content(home / "warmstart.db")
    shared = found.pop("shared")
    own = [found.pop(f"own {worker}") for worker in range(4)]
    assert found == content(tmp_path / "expected.db")
    assert sorted(message.native_id for message in shared[2]) == sorted(  # type: ignore[index]
        f"{worker}/{number}" for worker in range(4) for number in range(50)
    )
    assert [len(each[2]) for each in own] == [50] * 4  # type: ignore[index]


def test_a_log_written_to_while_it_is_read_is_complete_in_the_end(tmp_path: Path) -> None:
    home, logs = tmp_path / "home", tmp_path / "logs"
    path = write(logs, "live", [])
    written = 0
    with running([[*SYNC, str(logs)] for _ in range(3)], home) as processes, path.open("ab", buffering=0) as file:
        while alive := [process for process in processes if process.poll() is None]:
            data = encoded(turns("live", range(written, written + 3)))
            for start in range(0, len(data), 1000):
                file.write(data[start : start + 1000])
            written += 3
            with suppress(subprocess.TimeoutExpired):
                alive[0].wait(0.02)
        for process in processes:
            _, errors = process.communicate(timeout=180)
            assert (process.returncode, errors) == (0, "")
    with running([[*SYNC, str(logs)]], home) as (last,):
        _, errors = last.communicate(timeout=180)
        assert (last.returncode, errors) == (0, "")
    with closing(SQLiteSessionStore(home / "warmstart.db")) as store:
        texts = [message.text for message in store.messages(session_id("claude-code", name("live")))]
        requests = [text for text in texts if text.startswith("request")]
        assert len(texts) == 4 * written
        assert requests == [f"request {number} of live" for number in range(written)]


@pytest.mark.slow
def test_an_import_killed_at_random_points_is_completed_by_the_next(tmp_path: Path) -> None:
    home, logs = tmp_path / "home", tmp_path / "logs"
    make_logs(logs, 60, 100)
    for big in range(3):
        lines = [line for n in range(40) for line in turn(f"big {big}", n, text=f"{n} " + "tide and time " * 30_000)]
        write(logs, f"big {big}", lines)
    began = time.monotonic()
    with closing(SQLiteSessionStore(tmp_path / "expected.db")) as expected:
        sync(expected, path_sources([logs]))
    duration = time.monotonic() - began + 0.3
    wanted = content(tmp_path / "expected.db")
    dice = random.Random(20260901)
    killed, store, done = 0, home / "warmstart.db", True
    for attempt in range(50):
        if done:
            for file in home.glob("warmstart.db*"):
                file.unlink()
        began = time.monotonic()
        with running([[*SYNC, str(logs)]], home) as (process,):
            try:
                process.wait(timeout=dice.uniform(0.1, duration))
                # The machine has become faster than it was: aim at the time that an import takes now.
                duration, done = min(duration, max(0.5, time.monotonic() - began)) if done else duration, True
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                killed, done = killed + 1, False
        if store.exists():
            content(store)
        if attempt % 5 == 4:
            with running([[*SYNC, str(logs)]], home) as (process,):
                out, errors = process.communicate(timeout=180)
                assert (process.returncode, errors) == (0, ""), out
            assert content(store) == wanted
            done = True
    assert killed >= 25


def test_a_killed_writer_leaves_no_partial_batch(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    code = """
import os, signal, sys
from warmstart.sessions.sql_store import SQLiteSessionStore
from warmstart.testing.stores import said, session
store = SQLiteSessionStore(sys.argv[1])
store.append(session("kept"), [said("m1", "kept")])
with store.transaction():
    store.append(session("lost"), [said(f"m{n}", "lost " * 1000) for n in range(2, 2000)])
    os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    with closing(SQLiteSessionStore(path)) as store:
        assert store.database.integrity() == []
        assert [row.session.native_id for row in store.list()] == ["kept"]
        assert find_texts(store, "lost") == []
        store.append(Session(agent="tester", native_id="after"), [said("m9", "after")])
        assert len(store.list()) == 2
