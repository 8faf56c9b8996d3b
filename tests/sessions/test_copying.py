"""Copying a store in every direction, even when interrupted."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.postgres import Server
from tests.sessions.logs import turns, write
from warmstart.profile.profiler import profiled
from warmstart.sessions.copy import Copied, copy_store
from warmstart.sessions.sql_store import PostgresSessionStore, SQLiteSessionStore, SQLSessionStore
from warmstart.sessions.sync import path_sources, sync
from warmstart.testing.stores import CALLED, RESULTS, find_texts, said, session

PROGRAM = [sys.executable, "-c", "from warmstart.cli import main; main()"]


@pytest.fixture
def places(tmp_path: Path, postgres: Server) -> Iterator[dict[str, str]]:
    """Four empty stores, two of each kind."""
    with postgres.database() as one, postgres.database() as two:
        yield {
            "sqlite": str(tmp_path / "one.db"),
            "another sqlite": str(tmp_path / "two.db"),
            "postgres": postgres.url(one),
            "another postgres": postgres.url(two),
        }


@pytest.fixture(
    params=["sqlite to postgres", "postgres to sqlite", "sqlite to another sqlite", "postgres to another postgres"]
)
def ends(request: pytest.FixtureRequest, places: dict[str, str]) -> Iterator[tuple[SQLSessionStore, SQLSessionStore]]:
    source, target = request.param.split(" to ")
    with closing(opened(places[source])) as one, closing(opened(places[target])) as two:
        yield one, two
        assert one.database.integrity() == two.database.integrity() == []


def opened(place: str) -> SQLSessionStore:
    return PostgresSessionStore(place) if place.startswith("postgresql") else SQLiteSessionStore(place)


def content(store: SQLSessionStore) -> object:
    sessions = {
        row.session.native_id: (row.session, row[1:], tuple(store.messages(row.session.id))) for row in store.list()
    }
    return sessions, store.positions(), store.deleted()


def test_everything_is_copied_and_sync_continues_there(ends: tuple[SQLSessionStore, SQLSessionStore], tmp_path) -> None:
    source, target = ends
    logs = tmp_path / "logs"
    for number in range(3):
        write(logs, f"session {number}", turns(f"session {number}", range(120)))
    sync(source, path_sources([logs]))
    source.append(session(title="100 % 'odd'"), [said("m1", "the word is zanzibar"), CALLED, RESULTS])
    source.append(session("gone"), [said("g1", "gone for ever")])
    source.delete(session("gone").id)
    source.set_outcome(session().id, "success", "it works for me")
    source.rewrite(lambda text: text.replace("zanzibar", "X"))
    steps: list[tuple[int, int]] = []
    copied = copy_store(source, target, progress=lambda done, total: steps.append((done, total)))
    assert copied == Copied(sessions=4, messages=3 * 480 + 3, deleted=1, positions=3)
    assert steps[-1] == (1443, 1443)
    assert content(target) == content(source)
    assert find_texts(target, "word is X") == ["the word is X"]
    # What was redacted stays so, what was deleted stays away, and no log is read again.
    assert target.append(session(), [said("m1", "the word is zanzibar")]).unchanged == 1
    target.append(session("other"), [said("g1", "gone for ever"), said("o1", "x")])
    assert find_texts(target, "zanzibar") == find_texts(target, "gone") == []
    target.delete(session("other").id)
    report = sync(target, path_sources([logs]))
    assert [(tally.files, tally.unchanged) for tally in report.tallies.values()] == [(3, 3)]
    write(logs, "session 0", turns("session 0", range(121)))
    assert sync(target, path_sources([logs])).changed == 4


def test_a_second_copy_adds_only_what_is_new(ends: tuple[SQLSessionStore, SQLSessionStore]) -> None:
    source, target = ends
    source.append(session("a"), [said("a1", "one"), said("a2", "shared")])
    source.append(session("b"), [said("b1", "shared")])
    assert copy_store(source, target)[:3] == (2, 3, 0)
    assert copy_store(source, target)[:3] == (0, 0, 2)
    source.append(session("a"), [said("a2", "grown"), said("a3", "new")])
    source.append(session("a"), [said("a2", "shared")])
    source.append(session("c"), [said("c1", "three")])
    source.delete(session("b").id)
    assert copy_store(source, target) == Copied(sessions=2, messages=4, deleted=1)
    assert content(target) == content(source)


def test_a_profile_in_one_store_is_not_a_difference(ends: tuple[SQLSessionStore, SQLSessionStore]) -> None:
    source, target = ends
    source.append(session(), [said("m1", "Thanks, that works.")])
    copy_store(source, target)
    assert next(profiled(source)).session.outcome == "success"
    assert copy_store(source, target)[:3] == (0, 0, 1)
    assert copy_store(target, source)[:3] == (0, 0, 1)
    assert source.get(session().id).outcome == "success"


def test_data_only_in_the_target_is_left_alone_and_reported(ends: tuple[SQLSessionStore, SQLSessionStore]) -> None:
    source, target = ends
    source.append(session("a"), [said("a1", "one")])
    source.append(session("c"), [said("c1", "three")])
    copy_store(source, target)
    target.append(session("a"), [said("a2", "said there")])
    target.append(session("b"), [said("b1", "only there")])
    target.set_outcome(session("c").id, "failure")
    copied = copy_store(source, target)
    assert sorted(copied.differences) == sorted(
        f"{session(name).id} is different in the target and was left unchanged" for name in ("a", "c")
    )
    assert [message.text for message in target.messages(session("a").id)] == ["one", "said there"]
    assert target.get(session("c").id).outcome == "failure"
    assert [message.text for message in target.messages(session("b").id)] == ["only there"]
    source.append(session("d"), [said("b1", "only there")])
    assert (
        f"{session('d').id} has messages that belong to another session in the target"
        in copy_store(source, target).differences
    )


def test_copy_does_not_restore_sessions_deleted_in_the_target(ends: tuple[SQLSessionStore, SQLSessionStore]) -> None:
    source, target = ends
    source.append(session("a"), [said("a1", "one")])
    copy_store(source, target)
    target.delete(session("a").id)
    assert copy_store(source, target) == Copied(deleted=1)
    assert target.list() == []


@pytest.mark.parametrize("attempts", [2, pytest.param(6, marks=pytest.mark.slow)])
def test_a_copy_killed_at_random_points_is_completed_by_the_next(
    places: dict[str, str], tmp_path: Path, attempts: int
) -> None:
    logs = tmp_path / "logs"
    for number in range(40):
        write(logs, f"session {number}", turns(f"session {number}", range(60)))
    with closing(opened(places["sqlite"])) as source:
        sync(source, path_sources([logs]))
        wanted = content(source)
    dice = random.Random(20260901)
    for direction in (("sqlite", "postgres"), ("postgres", "another sqlite")):
        source_place, target_place = (places[name] for name in direction)
        command = [
            sys.executable,
            "-c",
            "from warmstart.cli import main; main()",
            "store",
            "copy",
            "--to",
            target_place,
        ]
        killed = 0
        with closing(opened(target_place)) as target:
            for _ in range(attempts):
                enough = len(target.list()) + dice.randint(1, 5)
                with subprocess.Popen(command, env=os.environ | {"WARMSTART_STORE": source_place}) as process:
                    while process.poll() is None and len(target.list()) < enough:
                        pass
                    process.kill()
                killed += process.returncode == -signal.SIGKILL
        assert killed
        ran = subprocess.run(
            command, env=os.environ | {"WARMSTART_STORE": source_place}, capture_output=True, text=True, check=False
        )
        assert (ran.returncode, ran.stderr) == (0, "")
        with closing(opened(target_place)) as target:
            assert content(target) == wanted
            assert target.database.integrity() == []
