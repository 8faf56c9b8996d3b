"""Many processes at once, and processes that are killed: nothing is lost, doubled or stale."""

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
from warmstart.memory.search import index_text
from warmstart.memory.sql import _COLUMNS, Row, SQLBackend, _with_former
from warmstart.memory.values import Version

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
    backend.store("mara", f"own {{worker}} {{number}}", f"value w{{worker}}n{{number}}")
    backend.store("mara", "shared", f"{{worker}} {{number}}")
    backend.store("mara", f"brief {{worker}}", "soon gone")
    backend.delete("mara", f"brief {{worker}}")
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


def everything(backend: SQLBackend) -> dict[str, str]:
    """All entries by key, none of which may be there twice: not for a question, and not in the tables."""
    entries = backend.query("mara", "", limit=100_000)
    found = {entry.key: entry.value for entry in entries}
    assert len(entries) == len(found)
    assert set(backend.list_keys("mara")) == set(found)
    run = backend._opened.database.connection.execute
    assert run("SELECT count(*) FROM memory_entries").fetchone()[0] == len(found)
    return found


def assert_index_fits(backend: SQLBackend) -> None:
    """What is indexed are entries that are there, each with its own words and findable by them."""
    connection = backend._opened.database.connection
    run = connection.execute
    rows = [Row(*row) for row in run(f"SELECT {_COLUMNS} FROM memory_entries e WHERE is_indexed = 1").fetchall()]
    searched = _with_former(connection, rows)
    stems = {row.id: index_text(row.user_id, row.place, row.text).split() for row in searched}
    if isinstance(backend, LocalBackend):
        indexed = {number: set(text.split()) for number, text in run("SELECT id, stems FROM memory_index").fetchall()}
        assert indexed.keys() <= {row[0] for row in run("SELECT id FROM memory_entries").fetchall()}
        assert {number: set(words) for number, words in stems.items()} == {number: indexed[number] for number in stems}
        run("INSERT INTO memory_text (memory_text) VALUES ('integrity-check')")
    for number in list(stems)[:20]:
        assert number in backend._words.find(connection, stems[number][:3], [], 10_000)


def assert_chain_holds(versions: list[Version]) -> None:
    """Each value held until the next one came."""
    assert versions[0].until is None
    assert [version.since for version in versions[:-1]] == [version.until for version in versions[1:]]


@pytest.mark.parametrize("workers", [3, pytest.param(8, marks=pytest.mark.slow)])
def test_several_processes_write_and_ask_at_once(place: str, workers: int) -> None:
    count = 25
    processes = [begun(WRITER, place, worker, count) for worker in range(workers)]
    for process in processes:
        _, errors = process.communicate(timeout=180)
        assert (process.returncode, errors) == (0, "")
    with closing(opened(place)) as backend:
        found = everything(backend)
        shared = found.pop("shared")
        assert found == {
            f"own {worker} {number}": f"value {number} of worker{worker}"
            for worker in range(workers)
            for number in range(count)
        }
        for worker in range(workers):
            answers = backend.query("mara", f"worker{worker}", limit=100)
            assert len(answers) == count
            assert {entry.key for entry in answers} == {f"own {worker} {number}" for number in range(count)}
        versions = backend.history("mara", "shared")
        assert versions[0].value == shared
        said = [tuple(map(int, str(version.value).split())) for version in reversed(versions)]
        assert sorted(said) == [(worker, number) for worker in range(workers) for number in range(count)]
        for worker in range(workers):
            assert [number for each, number in said if each == worker] == list(range(count))
        assert_chain_holds(versions)
        assert_index_fits(backend)


@pytest.mark.parametrize("rounds", [2, pytest.param(40, marks=pytest.mark.slow)])
def test_a_process_killed_at_random_points_loses_and_doubles_nothing(place: str, rounds: int) -> None:
    moments = random.Random(rounds)
    promised: dict[str, str] = {}
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
        promised |= {f"own {worker} {number}": f"value w{worker}n{number}" for number in range(last + 1)}
    with closing(opened(place)) as backend:
        found = everything(backend)
        assert promised.items() <= found.items()
        # At most what the last round of each had begun, of which nobody heard any more.
        unheard = {key for key in found.keys() - promised.keys() if key.startswith("own")}
        assert len(unheard) <= rounds
        assert len([key for key in found if key.startswith("brief")]) <= rounds
        for key in random.Random(1).sample(sorted(promised), 20):
            assert backend.query("mara", promised[key])[0].key == key
        versions = backend.history("mara", "shared")
        said = [str(version.value) for version in versions]
        assert len(said) == len(set(said))
        heard = {key.removeprefix("own ") for key in promised}
        assert heard <= set(said) <= heard | {key.removeprefix("own ") for key in unheard}
        assert_chain_holds(versions)
        assert_index_fits(backend)
        assert backend._opened.database.integrity() == []
