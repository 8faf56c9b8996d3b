"""An evaluation leaves nothing behind, whatever happens to it, and touches nobody else."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import closing, nullcontext
from itertools import product
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from tests.memory.dictionary import DictBackend
from warmstart.errors import StoreUnreachable
from warmstart.memory import MemoryEntry
from warmstart.memory.evaluation import evaluate_backend
from warmstart.memory.evaluation.hooks import Hooks, hooks_of
from warmstart.memory.evaluation.visitors import Visitors
from warmstart.memory.local import LocalBackend


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """What is still there after deletion is not waited for as long as usual."""
    monkeypatch.setattr("warmstart.memory.evaluation.forgetting._PATIENCE", 0.05)


def evaluated(backend, **options):
    return evaluate_backend(backend, sizes=(10, 50), **options)


class WithoutHook(DictBackend):
    forget_user = None  # type: ignore[assignment]


def test_no_user_but_its_own_is_touched_and_nothing_is_left():
    for backend in (DictBackend(), WithoutHook()):
        backend.store("eval_user", "pref_editor", "ed")
        backend.store("mara", "coffee", "filter")
        hooks = hooks_of(backend) if type(backend) is DictBackend else Hooks()
        evaluated(backend, hooks=hooks)
        assert backend.users() == ["eval_user", "mara"]
        assert [
            len(backend.history(user, key)) for user, key in (("eval_user", "pref_editor"), ("mara", "coffee"))
        ] == [
            1,
            1,
        ]


def test_it_cleans_up_when_it_is_interrupted():
    class Interrupted(DictBackend):
        def query(self, user_id: str, query_text: str, limit: int = 10) -> list[MemoryEntry]:
            if "relevance" in user_id:
                raise KeyboardInterrupt
            return super().query(user_id, query_text, limit)

    backend = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        evaluated(backend)
    assert backend.data == {}


def test_an_interrupt_while_it_cleans_up_waits_until_that_is_done():
    class Impatient(DictBackend):
        pressed = 0

        def forget_user(self, user_id: str) -> int:
            self.pressed += 1
            if self.pressed == 1:
                raise KeyboardInterrupt
            return super().forget_user(user_id)

    backend = Impatient()
    visitors = Visitors(backend, hooks_of(backend), "eval_user")
    for name in ("one", "two", "three"):
        backend.store(visitors.new(name), "key", "value")
    with pytest.raises(KeyboardInterrupt):
        visitors.__exit__(None, None, None)
    assert backend.data == {}


def kept_in(path: Path) -> dict[str, list[Any]]:
    """All that a store's tables say of entries, by table; not the numbers of users, and where their entries begin."""
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'memor%'")
        names = [name for (name,) in found if name != "memory_users" and not name.startswith("memory_index_")]
        kept = {name: sorted(connection.execute(f"SELECT * FROM {name}").fetchall(), key=repr) for name in names}
        beginnings = connection.execute("SELECT * FROM memories WHERE scope < 0").fetchall()
    return kept | {"memories": [row for row in kept["memories"] if row not in beginnings]}


class Dying(LocalBackend):
    """Raises at one of its queries, and at all that is asked of it from then on."""

    error: BaseException = StoreUnreachable("the disk is gone")
    left = 0
    dead = False
    path = Path()

    def query(self, user_id: str, query_text: str, limit: int = 10) -> list[MemoryEntry]:
        self.left -= 1
        if not self.left:
            self.dead = True
            raise self.error
        return super().query(user_id, query_text, limit)

    def reopen(self) -> LocalBackend:
        return LocalBackend(self.path)

    def forget_user(self, user_id: str) -> int:
        if self.dead and isinstance(self.error, Exception):
            raise self.error
        return super().forget_user(user_id)


def test_nothing_is_left_in_the_tables_and_nobody_else_is_touched(tmp_path, subtests):
    for error, left in product([StoreUnreachable("the disk is gone"), KeyboardInterrupt()], [0, 2, 100, 203, 300]):
        with subtests.test(error=error, left=left):
            path = Path(mkdtemp(dir=tmp_path)) / "store.db"
            with closing(LocalBackend(path)) as mine:
                for value in ("ed", "vi"):
                    mine.store("eval_user", "pref_editor", value)
                mine.store("eval_user", "coffee", "none")
                mine.delete("eval_user", "coffee")
                mine.store("mara", "pref_editor", "Helix")
                mine.query("mara", "editor")
            before = kept_in(path)
            with closing(Dying(path)) as backend:
                backend.path, backend.left, backend.error = path, left, error
                stopped = (
                    pytest.raises(KeyboardInterrupt) if left and isinstance(error, KeyboardInterrupt) else nullcontext()
                )
                with stopped:
                    found = evaluate_backend(backend, sizes=(10,))
                    assert not any("could not be removed" in note for note in found.notes)
            assert kept_in(path) == before


def test_what_a_killed_evaluation_left_is_removed_by_one_of_the_next_day():
    backend = DictBackend()
    old, new = f"{int(time.time()) - 100_000:x}", f"{int(time.time()) - 3_600:x}"
    abandoned = f"eval_user-{old}-0123456789ab-score"
    alive = [
        "eval_user",
        f"eval_user-{new}-0123456789ab-score",
        f"eval_user-{old}-0123456789ab",
        f"eval_user-{old}-someone",
        f"other-{old}-0123456789ab-score",
    ]
    for user in (abandoned, *alive):
        backend.store(user, "key", "value")
    evaluate_backend(backend, sizes=(1,))
    assert backend.users() == sorted(alive)


KILLED = """
import sys
from warmstart.memory.evaluation.hooks import hooks_of
from warmstart.memory.evaluation.visitors import Visitors
from warmstart.memory.local import LocalBackend
backend = LocalBackend(sys.argv[1])
visitors = Visitors(backend, hooks_of(backend), "eval_user")
backend.store(visitors.new("score"), "key", "value")
print("written", flush=True)
sys.stdin.read()
"""


def test_what_a_killed_evaluation_left_is_removed_by_the_next_and_a_living_one_is_not_touched(tmp_path):
    path = tmp_path / "store.db"
    running = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert running.stdout.readline() == "written\n"
        with closing(LocalBackend(path)) as backend:
            [left] = backend.users()
            elsewhere = f"eval_user-{int(time.time()):x}-00000000-{running.pid}-0123456789ab-score"
            backend.store(elsewhere, "key", "value")
            evaluate_backend(backend, sizes=(1,))
            assert backend.users() == sorted([left, elsewhere])
            running.kill()
            running.wait()
            evaluate_backend(backend, sizes=(1,))
            assert backend.users() == [elsewhere]
    finally:
        running.kill()
        running.communicate()


def test_what_cannot_be_removed_is_said():
    class Sticky(WithoutHook):
        def delete(self, user_id: str, key: str) -> bool:
            return False

    found = evaluate_backend(Sticky(), sizes=(10,), hooks=Hooks(), seconds=0.0)
    (said,) = (note for note in found.notes if "could not be removed" in note)
    assert "their users are called eval_user-" in said


def test_marks_that_stay_in_a_history_are_said():
    noted = [note for note in evaluated(DictBackend(), hooks=Hooks()).notes if "its history still tells" in note]
    assert len(noted) == 1
    assert evaluated(DictBackend()).notes == ()


def test_two_runs_never_share_a_user():
    seen = []

    class Watched(DictBackend):
        def store(self, user_id: str, key: str, value: str, metadata: Mapping[str, Any] | None = None) -> bool:
            seen.append(user_id)
            return super().store(user_id, key, value, metadata)

    evaluate_backend(Watched(), sizes=(1,))
    first = set(seen)
    seen.clear()
    evaluate_backend(Watched(), "someone", sizes=(1,))
    assert all(user.startswith("eval_user-") for user in first)
    assert all(user.startswith("someone-") for user in seen)
    assert not first & set(seen)
