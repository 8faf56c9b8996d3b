"""The index over all texts: deleted text cannot be found, and an empty index is filled in steps."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import PROGRAM
from warmstart.sessions import text_index
from warmstart.sessions.sql_store import SQLiteSessionStore, SQLSessionStore
from warmstart.testing.stores import said, session

FILL = """
import sys
from warmstart.sessions import text_index
from warmstart.sessions.sql_store import SQLiteSessionStore
text_index._BATCH_TEXTS = 20
SQLiteSessionStore(sys.argv[1]).index.fill(lambda done, total: print(done, flush=True))
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store of 300 texts with an empty index, as after an upgrade."""
    path = tmp_path / "store.db"
    with closing(SQLiteSessionStore(path)) as store:
        store.append(session(), [said(f"m{number}", f"tide number {number}") for number in range(300)])
        empty_index(store)
    return path


def empty_index(store: SQLSessionStore) -> None:
    with store.transaction() as connection:
        connection.execute("INSERT INTO texts_index (texts_index) VALUES ('delete-all')")
        connection.execute("INSERT INTO index_state (pending) SELECT max(id) FROM texts")


def ids(store: SQLSessionStore, *stems: str) -> list[int]:
    return store.index.find(stems, limit=1000)


def test_all_or_any_of_some_stems_are_found_newest_first(tmp_path: Path) -> None:
    with closing(SQLiteSessionStore(tmp_path / "store.db")) as store:
        store.append(session(), [said("m1", "high tides"), said("m2", "the tide"), said("m3", "a harbour")])
        assert store.index.find(["tide"], limit=9) == [2, 1]
        assert store.index.find(["tide", "high"], limit=9) == [1]
        assert store.index.find(["tide", "harbour"], every=False, limit=2) == [3, 2]
        assert store.index.find(["tides"], limit=9) == store.index.find([], limit=9) == []


def test_filling_an_empty_index_is_resumed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_index, "_BATCH_TEXTS", 50)
    with closing(SQLiteSessionStore(path)) as store:
        assert not store.index.is_complete

        def stop(done: int, total: int) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            store.index.fill(stop)
        found = ids(store, "tide")
        assert found[0] == 300
        assert 0 < len(found) < 300
        # What is deleted or added meanwhile is indexed as ever.
        store.append(session("new"), [said("n1", "the newest tide")])
        store.append(session(), [said("m299", "harbour"), said("m0", "pier")])
        assert ids(store, "tide") == [301, *found[1:]]
        steps: list[tuple[int, int]] = []
        store.index.fill(lambda done, total: steps.append((done, total)))
        assert len(steps) > 2
        assert steps[-1][0] == steps[-1][1]
        assert store.index.is_complete
        assert len(ids(store, "tide")) == 299
        assert store.database.integrity() == []
        store.delete(session().id)
        assert ids(store, "tide") == [301]


def test_a_new_text_with_an_id_that_is_still_to_be_indexed_is_indexed_once(tmp_path: Path) -> None:
    with closing(SQLiteSessionStore(tmp_path / "store.db")) as store:
        store.append(session("a"), [said("a1", "tide"), said("a2", "harbour")])
        empty_index(store)
        store.delete(session("a").id)
        store.append(session("b"), [said("b1", "tide")])
        assert ids(store, "tide") == []
        store.index.fill()
        assert ids(store, "tide") == [1]
        store.delete(session("b").id)
        assert ids(store, "tide") == []


def test_several_processes_fill_an_index_and_one_is_killed(path: Path) -> None:
    command = [sys.executable, "-c", FILL, str(path)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    assert processes[0].stdout is not None
    processes[0].stdout.readline()
    processes[0].kill()
    said = [process.communicate(timeout=180)[1] for process in processes]
    assert [process.returncode for process in processes[1:]] == [0, 0], said
    with closing(SQLiteSessionStore(path)) as store:
        assert store.index.is_complete
        assert len(ids(store, "tide")) == 300
        store.delete(session().id)
        assert ids(store, "tide") == []


def test_sync_fills_the_index_and_recall_warns_until_then(path: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "WARMSTART_HOME": str(tmp_path), "WARMSTART_STORE": str(path), "HOME": str(tmp_path)}
    ask = [*PROGRAM, "recall", "tide", "--all-projects"]
    said = subprocess.run(ask, env=environment, capture_output=True, text=True, check=True)
    assert "run `warmstart sync`" in said.stderr
    with closing(SQLiteSessionStore(path)) as store:
        assert not store.index.is_complete
    subprocess.run([*PROGRAM, "sync"], env=environment, capture_output=True, check=True)
    with closing(SQLiteSessionStore(path)) as store:
        assert store.index.is_complete
    said = subprocess.run(ask, env=environment, capture_output=True, text=True, check=True)
    assert "warmstart sync" not in said.stderr
