"""Many writers and readers on one server: no error, nothing lost, no duplicates."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.sessions.logs import turns, write
from warmstart.sessions.sql_store import PostgresSessionStore, SQLiteSessionStore
from warmstart.sessions.sync import path_sources, sync
from warmstart.testing.stores import find_texts

WRITER = """
import sys, time
from warmstart.sessions.sql_store import PostgresSessionStore
from warmstart.testing.stores import said, session

url, worker, seconds = sys.argv[1:]
store = PostgresSessionStore(url)
print("ready", flush=True)
sys.stdin.readline()
end, number = time.monotonic() + float(seconds), 0
while time.monotonic() < end:
    store.append(session("shared"), [said(f"{worker}/{number}", f"message {number} of {worker}")])
    store.append(session(f"own {worker}"), [said(f"own {worker}/{number}", "the same note of all")])
    if number % 10 == 9:
        brief = session(f"brief {worker}/{number}")
        store.append(brief, [said(f"brief {worker}/{number}", f"soon gone {number}")])
        store.delete(brief.id)
    number += 1
print(number)
"""
READER = """
import sys, time
from warmstart.sessions.sql_store import PostgresSessionStore
from warmstart.testing.stores import find_texts, session

url, worker, seconds = sys.argv[1:]
store = PostgresSessionStore(url)
print("ready", flush=True)
sys.stdin.readline()
end, longest, seen = time.monotonic() + float(seconds), 0.0, 0
while time.monotonic() < end:
    find_texts(store, "note of all")
    store.list()
    now = sum(1 for _ in store.messages(session("shared").id))
    assert now >= seen, (now, seen)
    seen = now
print(seen)
"""


def hammered(url: str, seconds: float) -> list[int]:
    """How many rounds each of eight writers completed, with four concurrent readers."""
    scripts = [WRITER] * 8 + [READER] * 4
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script, url, str(number), str(seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number, script in enumerate(scripts)
    ]
    try:
        assert [process.stdout.readline() for process in processes] == ["ready\n"] * 12  # type: ignore[union-attr]
        for process in processes:
            process.stdin.write("go\n")  # type: ignore[union-attr]
            process.stdin.flush()  # type: ignore[union-attr]
        results = [process.communicate(timeout=seconds + 120) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert [errors for _, errors in results] == [""] * 12
    return [int(out) for out, _ in results[:8]]


def check(url: str, rounds: list[int]) -> None:
    with closing(PostgresSessionStore(url)) as store:
        sessions = {row.session.native_id: row.messages for row in store.list()}
        assert sessions == {"shared": sum(rounds), **{f"own {number}": made for number, made in enumerate(rounds)}}
        texts = store.database.connection.execute("SELECT count(*) FROM texts WHERE body = 'the same note of all'")
        assert texts.fetchone() == (1,)
        assert find_texts(store, "soon gone") == []
        assert store.database.integrity() == []


def test_eight_writers_and_four_readers(postgres_url: str) -> None:
    check(postgres_url, hammered(postgres_url, 0.5))


@pytest.mark.slow
def test_eight_writers_and_four_readers_for_a_minute(postgres_url: str) -> None:
    rounds = hammered(postgres_url, 60)
    assert min(rounds) > 0
    check(postgres_url, rounds)


def test_several_machines_import_the_same_logs_at_once(postgres_url: str, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    for number in range(12):
        write(logs, f"session {number}", turns(f"session {number}", range(12)))
    command = [sys.executable, "-m", "warmstart", "sync", "--path", str(logs)]
    processes = [
        subprocess.Popen(
            command,
            env=os.environ | {"WARMSTART_HOME": str(tmp_path / str(number)), "WARMSTART_STORE": postgres_url},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    results = [process.communicate(timeout=180) for process in processes]
    assert [(process.returncode, errors) for process, (_, errors) in zip(processes, results, strict=True)] == [
        (0, "")
    ] * 4
    with (
        closing(SQLiteSessionStore(tmp_path / "expected.db")) as expected,
        closing(PostgresSessionStore(postgres_url)) as store,
    ):
        sync(expected, path_sources([logs]))
        assert [(row, list(store.messages(row.session.id))) for row in store.list()] == [
            (row, list(expected.messages(row.session.id))) for row in expected.list()
        ]
