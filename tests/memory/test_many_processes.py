"""Eight processes at once, and processes that are killed: nothing is lost, doubled or stale."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from warmstart.memory.local import LocalBackend
from warmstart.memory.postgres import PostgresBackend
from warmstart.memory.sql import SQLBackend

OPEN = """
import sys
from warmstart.memory.local import LocalBackend
from warmstart.memory.postgres import PostgresBackend

place, worker, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
backend = PostgresBackend(place) if place.startswith("postgresql:") else LocalBackend(place)
"""
WRITER = f"""{OPEN}
for number in range(count):
    backend.store("mara", f"own {{worker}} {{number}}", f"value {{number}} of worker{{worker}}")
    backend.store("mara", "shared", f"{{worker}} {{number}}")
    backend.store("mara", f"brief {{worker}}", "soon gone")
    assert backend.delete("mara", f"brief {{worker}}")
    if number % 5 == 0:
        assert backend.query("mara", f"worker{{worker}}")
"""
TALKER = f"""{OPEN}
for number in range(count):
    backend.store("mara", f"own {{worker}} {{number}}", f"value {{number}} of worker{{worker}}")
    print(number, flush=True)
    if number % 7 == 0:
        backend.query("mara", "value")
"""


def opened(place: str) -> SQLBackend:
    return PostgresBackend(place) if place.startswith("postgresql:") else LocalBackend(place)


@pytest.fixture(params=["local", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "local":
        return str(tmp_path / "memory.db")
    return str(request.getfixturevalue("postgres_url"))


def begun(script: str, place: str, worker: int, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, place, str(worker), str(count)]
    return subprocess.Popen(command, env=dict(os.environ), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_eight_processes_write_and_ask_at_once(place: str) -> None:
    count = 25
    processes = [begun(WRITER, place, worker, count) for worker in range(8)]
    for process in processes:
        _, errors = process.communicate(timeout=180)
        assert (process.returncode, errors) == (0, "")
    with closing(opened(place)) as backend:
        keys = backend.list_keys("mara")
        expected = {f"own {worker} {number}" for worker in range(8) for number in range(count)} | {"shared"}
        assert len(keys) == len(set(keys))
        assert set(keys) == expected
        for worker in range(8):
            found = backend.query("mara", f"worker{worker}", limit=100)
            assert {entry.key for entry in found} == {f"own {worker} {number}" for number in range(count)}
        assert len(backend.history("mara", "shared")) == 8 * count


@pytest.mark.parametrize("rounds", [4, pytest.param(40, marks=pytest.mark.slow)])
def test_a_process_killed_at_random_points_loses_and_doubles_nothing(place: str, rounds: int) -> None:
    moments = random.Random(rounds)
    promised: set[str] = set()
    for worker in range(rounds):
        process = begun(TALKER, place, worker, 100_000)
        assert process.stdout is not None
        assert process.stderr is not None
        last = -1
        for _ in range(moments.randint(1, 150)):
            last = int(process.stdout.readline())
        process.kill()
        rest = process.stdout.read().split()
        last = int(rest[-1]) if rest else last
        process.wait()
        process.stdout.close()
        process.stderr.close()
        promised |= {f"own {worker} {number}" for number in range(last + 1)}
    with closing(opened(place)) as backend:
        keys = backend.list_keys("mara")
        assert len(keys) == len(set(keys))
        assert promised <= set(keys)
        # At most the one write that nobody heard of any more.
        assert len(set(keys) - promised) <= rounds
        for key in random.Random(1).sample(sorted(promised), 20):
            _, worker, number = key.split()
            assert backend.query("mara", f"value {number} worker{worker}")[0].key == key
        assert backend._held.database.integrity() == []
