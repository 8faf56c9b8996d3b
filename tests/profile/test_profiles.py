"""Profiles of stored sessions: made once, made again when something changed, and never outdated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from tests.profile.talks import asked, bash, did, talk
from warmstart.profile.profiler import Profiler, profiled, update
from warmstart.profile.store import SQLProfileStore
from warmstart.profile.values import Profile
from warmstart.sessions.sql_store import SQLiteSessionStore
from warmstart.sessions.store import Filter
from warmstart.sessions.values import Message, Session
from warmstart.testing.stores import at, said, session


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteSessionStore]:
    with closing(SQLiteSessionStore(tmp_path / "store.db")) as fresh:
        yield fresh


def fill(store: SQLiteSessionStore, *names: str) -> None:
    for number, name in enumerate(names):
        work = talk(asked(f"Go {name}", number), bash("pytest", "error", "boom", minutes=number + 0.1), bash("pytest"))
        store.append(session(name, agent="claude-code"), work)


def updated(store: SQLiteSessionStore, profiler: Profiler | None = None, **fields: object) -> int:
    chosen = Filter(**fields)  # type: ignore[arg-type]
    return update(store, SQLProfileStore(store), profiler or Profiler(), filter=chosen)


def test_a_session_is_profiled_once(store: SQLiteSessionStore) -> None:
    assert updated(store) == 0
    fill(store, "a", "b")
    assert (updated(store), updated(store)) == (2, 0)
    found = list(profiled(store))
    assert [each.session.native_id for each in found] == ["b", "a"]
    assert all(each.profile.markers.errors == 1 for each in found)
    assert updated(store) == 0


def test_what_is_kept_is_what_a_profiler_makes(store: SQLiteSessionStore) -> None:
    fill(store, "a")
    (found,) = profiled(store)
    made = Profiler().profile(store.get(found.session.id), list(store.messages(found.session.id)))
    assert found.profile == made


def test_a_session_that_grew_is_profiled_again(store: SQLiteSessionStore) -> None:
    fill(store, "a", "b")
    updated(store)
    store.append(session("a", agent="claude-code"), bash("make", "error", "boom", minutes=50))
    assert (updated(store), updated(store)) == (1, 0)
    assert {each.session.native_id: each.profile.markers.calls for each in profiled(store)} == {"a": 3, "b": 2}


def test_the_users_verdict_is_in_the_next_profile(store: SQLiteSessionStore) -> None:
    fill(store, "a", "b")
    updated(store)
    store.set_outcome(session("a", agent="claude-code").id, "failure", "it crashes")
    assert (updated(store), updated(store)) == (1, 0)
    verdicts = {each.session.native_id: each.profile.outcome for each in profiled(store)}
    assert verdicts["a"] == ("failure", "it crashes", "user")
    assert verdicts["b"].source != "user"


def test_another_table_of_tools_recomputes_them(store: SQLiteSessionStore) -> None:
    fill(store, "a")
    updated(store)
    own = Profiler({"Bash": "research"})
    assert (updated(store, own), updated(store, own)) == (1, 0)
    assert [each.profile.task_type for each in profiled(store, tools={"Bash": "research"})] == ["research"]
    assert [each.profile.task_type for each in profiled(store)] == ["code"]
    assert updated(store) == 0


def test_other_rules_recompute_them(store: SQLiteSessionStore) -> None:
    fill(store, "a")
    updated(store)
    later = Profiler()
    later.rules = "another version"
    assert (updated(store, later), updated(store, later)) == (1, 0)


def test_a_filter_chooses_what_is_made_and_given(store: SQLiteSessionStore) -> None:
    store.append(session("a", project="/w/tide"), [said("a1", "hello", 0)])
    store.append(session("b", project="/w/moon"), [said("b1", "hello", 60)])
    store.append(session("c", agent="other"), [said("c1", "hello", 120)])
    assert [each.session.native_id for each in profiled(store, filter=Filter(project="tide"))] == ["a"]
    assert updated(store, agent="tester") == 1
    assert [each.session.native_id for each in profiled(store, filter=Filter(since=at(30)))] == ["c", "b"]
    assert updated(store) == 0


def test_progress_is_reported_after_every_session(store: SQLiteSessionStore) -> None:
    told: list[tuple[int, int]] = []
    fill(store, "a", "b", "c")
    list(profiled(store, progress=lambda done, total: told.append((done, total))))
    assert told == [(1, 3), (2, 3), (3, 3)]
    list(profiled(store, progress=lambda done, total: told.append((done, total))))
    assert len(told) == 3


class Interrupting(Profiler):
    """A profiler during whose work another process does something to the store."""

    def __init__(self, path: Path, act: str) -> None:
        super().__init__()
        self._path, self._act = path, act

    def profile(self, session: Session, messages: Sequence[Message]) -> Profile:
        made = super().profile(session, messages)
        act, self._act = self._act, ""
        if act:
            with closing(SQLiteSessionStore(self._path)) as other:
                if act == "grow":
                    other.append(session, did("Read", {"file_path": "a.py"}, minutes=90))
                elif act == "delete others":
                    for row in other.list():
                        other.delete(row.session.id)
                else:
                    other.delete(session.id)
        return made


def test_what_grew_while_it_was_profiled_is_not_kept_outdated(store: SQLiteSessionStore) -> None:
    fill(store, "a", "b")
    assert updated(store, Interrupting(store.path, "grow")) == 2
    kept = SQLProfileStore(store)
    assert [each.session.native_id for each in kept.profiles(Profiler().rules)] == ["a"]
    assert updated(store) == 1
    assert {each.session.native_id: each.profile.markers.calls for each in profiled(store)} == {"a": 2, "b": 3}


@pytest.mark.parametrize(("act", "left"), [("delete", ["a"]), ("delete others", [])])
def test_what_was_deleted_meanwhile_is_left_out(store: SQLiteSessionStore, act: str, left: list[str]) -> None:
    fill(store, "a", "b")
    updated(store, Interrupting(store.path, act))
    assert [each.session.native_id for each in profiled(store)] == left


def test_a_stop_halfway_loses_only_what_was_not_written(store: SQLiteSessionStore) -> None:
    for number in range(51):
        store.append(session(f"s{number}"), talk(asked("Go", number)))

    class Stop(Exception):
        pass

    def stop(done: int, total: int) -> None:
        if done == 51:
            raise Stop

    with pytest.raises(Stop):
        list(profiled(store, progress=stop))
    assert updated(store) == 1
