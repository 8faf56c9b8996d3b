"""Copying memory between backends: nothing lost, and it can be done again."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing, contextmanager
from itertools import product
from typing import Any

import pytest

from tests.memory.dictionary import DictBackend
from warmstart.memory.copying import copy_memory
from warmstart.memory.local import LocalBackend
from warmstart.memory.restoring import archive_of
from warmstart.memory.values import View


@pytest.fixture
def source(tmp_path):
    backend = LocalBackend(tmp_path / "source.db")
    backend.store("mara", "editor", "VS Code", {"session": "s1"})
    backend.store("mara", "editor", "Helix", {"session": "s2"})
    backend.store("mara", "shell", "fish")
    backend.store("mara", "test", "make check", {"scope": "project", "project": "/tides"})
    backend.store("mara", "test", "tox", {"scope": "project", "project": "/moon"})
    backend.store("jonas", "editor", "WebStorm")
    yield backend
    backend.close()


def test_everything_goes_over_with_its_history(source, tmp_path):
    target = LocalBackend(tmp_path / "target.db")
    told = []
    copied = copy_memory(source, target, progress=lambda done, total: told.append((done, total)))
    assert (copied.users, copied.entries, copied.present, copied.versions) == (2, 5, 0, 1)
    assert copied.differences == []
    assert told[-1] == (5, 5)
    assert target.users() == ["jonas", "mara"]
    assert [version.value for version in target.history("mara", "editor")] == ["Helix", "VS Code"]
    assert [version.session for version in target.history("mara", "editor")] == ["s2", "s1"]
    assert target.list_keys("mara") == source.list_keys("mara")
    assert sorted(entry.value for entry in target.query("mara", "", 10)) == ["Helix", "fish", "make check", "tox"]
    target.close()


def test_copying_again_writes_nothing(source, tmp_path):
    target = LocalBackend(tmp_path / "target.db")
    copy_memory(source, target)
    again = copy_memory(source, target)
    assert (again.entries, again.present, again.versions, again.differences) == (0, 5, 0, [])
    assert len(target.history("mara", "editor")) == 2
    source.store("mara", "shell", "zsh")
    third = copy_memory(source, target)
    assert (third.entries, third.present) == (1, 4)
    assert target.retrieve("mara", "shell").value == "zsh"
    target.close()


def test_one_user_can_be_chosen(source, tmp_path, subtests):
    for open_target in (DictBackend, lambda: LocalBackend(tmp_path / "target.db")):
        with subtests.test(target=open_target), closing(open_target()) as target:
            copied = copy_memory(source, target, users=["jonas"])
            assert (copied.users, copied.entries) == (1, 1)
            assert target.users() == ["jonas"]


class Breaks(DictBackend):
    left = 2

    def store(self, user_id: str, key: str, value: str, metadata: Mapping[str, Any] | None = None) -> bool:
        if self.left == 0:
            raise KeyboardInterrupt
        self.left -= 1
        return super().store(user_id, key, value, metadata)


def test_an_interrupted_copy_is_completed_by_the_next(subtests):
    for writes in range(5):
        with subtests.test(writes=writes):
            source = DictBackend()
            for value in ("one", "two", "three"):
                source.store("mara", "count", value)
            source.store("mara", "shell", "fish")
            target = Breaks()
            target.left = writes
            if writes < 4:
                with pytest.raises(KeyboardInterrupt):
                    copy_memory(source, target)
            target.left = 100
            copied = copy_memory(source, target)
            assert copied.differences == []
            assert [version.value for version in target.history("mara", "count")] == ["three", "two", "one"]
            assert len(target.history("mara", "shell")) == 1


def test_what_the_other_knows_newer_is_left_alone_and_named(source, tmp_path, subtests):
    for open_target in (DictBackend, lambda: LocalBackend(tmp_path / "target.db")):
        with subtests.test(target=open_target), closing(open_target()) as target:
            target.store("mara", "shell", "nushell")
            copied = copy_memory(source, target, users=["mara"])
            assert copied.newer == ["mara: shell"]
            assert "mara: shell has another value" not in copied.differences
            assert target.retrieve("mara", "shell").value == "nushell"


def test_what_was_deleted_stays_so(source, tmp_path):
    source.store("mara", "secretly", "likes decaf")
    source.delete("mara", "secretly")
    source.store("mara", "secretly", "likes tea")
    target = LocalBackend(tmp_path / "target.db")
    copy_memory(source, target)
    assert [version.value for version in target.history("mara", "secretly")] == ["likes tea", None]
    target.close()


def test_a_copy_that_is_not_the_same_says_so(source):
    class Forgetful(DictBackend):
        def store(self, user_id: str, key: str, value: str, metadata: Mapping[str, Any] | None = None) -> bool:
            return key == "shell" or super().store(user_id, key, value.upper(), metadata)

    copied = copy_memory(source, Forgetful(), users=["mara"])
    assert "mara: shell is missing" in copied.differences
    assert "mara: editor has another value" in copied.differences


def test_scopes_that_the_other_does_not_know_are_missed_in_the_end(source):
    assert copy_memory(source, DictBackend(), users=["mara"]).differences == ["mara: test is missing"]


# -- nothing lost, where both are in SQL


def memory_of(backend):
    """All that a backend tells, in its own words."""
    archive = archive_of(backend)
    assert archive is not None
    return {user: archive.archive(user) for user in archive.archived_users()}


def fill(backend):
    """Something of everything, with times long ago."""
    tides, moon = {"scope": "project", "project": "/tides"}, {"scope": "project", "project": "/moon"}
    backend.store("mara", "editor", "VS Code", {"session": "s1", "source": "chat"})
    backend.store("mara", "editor", "Helix", {"session": "s2"})
    backend.store("mara", "editor", "Helix", {"session": "s3", "tags": ["a", {"deep": 1.5}], "none": None})
    for metadata in (None, tides, moon, {"scope": "agent", "agent": "codex"}):
        for value in ("make", "tox", "nox"):
            backend.store("mara", "test", f"{value} for {metadata}", metadata)
    backend.delete("mara", "gone before")
    for key in ("decaf", "tea"):
        backend.store("mara", key, "a lot of it")
        backend.delete("mara", key)
    backend.store("mara", "tea", "never mind", tides)
    backend.at(View(project="/tides")).delete("mara", "tea")
    backend.store("mara", "tea", "green")
    backend.store("mara", "lasting", "for a while", {"expires_at": time.time() + 3600})
    backend.store("mara", "over", "expired", {"expires_at": time.time() - 1})
    backend.store("jonas", "ünïcode \U0001f980", "東京\n  spaces ")
    backend.store("gone", "key", "value")
    backend.delete("gone", "key")


def age(run):
    """Put all times into the past, so that no time of today is right by chance."""
    run("UPDATE memories SET created_at = created_at - 1e6, updated_at = updated_at - 1e6, since = since - 1e6")
    run("UPDATE memory_history SET since = since - 1e6, until = until - 1e6")


PAIRS = [("local", "postgres"), ("postgres", "local"), ("local", "local")]


@pytest.fixture
def filled(fresh):
    """Opens two memories, of which the first has something of everything."""

    @contextmanager
    def open_pair(source, target):
        with fresh(source) as here, fresh(target) as there:
            fill(here)
            age(here._held.database.connection.execute)
            yield here, there

    return open_pair


def test_nothing_is_lost_between_local_and_postgres(filled, subtests):
    for source, target in PAIRS:
        with subtests.test(source=source, target=target), filled(source, target) as (here, there):
            copied = copy_memory(here, there)
            assert (copied.differences, copied.lost, copied.newer, copied.undeleted) == ([], [], [], [])
            assert (copied.users, copied.entries, copied.versions, copied.deletions) == (3, 8, 9, 5)
            assert memory_of(there) == memory_of(here)
            assert there.list_keys("mara") == here.list_keys("mara")
            here.expire()
            for key in ("editor", "test", "decaf", "tea", "over", "lasting"):
                assert there.history("mara", key) == here.history("mara", key), key
            for view in (View(), View(project="/tides"), View(project="/moon"), View(agent="codex")):
                assert there.at(view).retrieve("mara", "test") == here.at(view).retrieve("mara", "test")
            assert [entry.key for entry in there.query("mara", "green tea")] == ["tea"]
            assert there.retrieve("mara", "editor").created_at < time.time() - 9e5


def test_copying_there_and_back_changes_nothing(filled, subtests):
    for source, target in PAIRS:
        with subtests.test(source=source, target=target), filled(source, target) as (here, there):
            before = memory_of(here)
            copy_memory(here, there)
            for one, other in ((here, there), (there, here), (here, there)):
                again = copy_memory(one, other)
                assert (again.entries, again.present, again.versions, again.deletions) == (0, 8, 0, 0)
            assert memory_of(here) == memory_of(there) == before
            here.store("mara", "editor", "ed")
            there.store("mara", "shell", "fish")
            copy_memory(here, there)
            assert [version.value for version in there.history("mara", "editor")] == ["ed", "Helix", "VS Code"]
            assert there.history("mara", "editor") == here.history("mara", "editor")
            assert there.retrieve("mara", "shell").value == "fish"
            assert there.query("mara", "ed")[0].value == "ed"


def test_an_interrupted_copy_between_stores_is_completed(filled, subtests):
    for (source, target), after in product(PAIRS, range(0, 12, 3)):
        with subtests.test(source=source, target=target, after=after), filled(source, target) as (here, there):

            def stop(done, total, after=after):
                if done > after:
                    raise KeyboardInterrupt

            with pytest.raises(KeyboardInterrupt):
                copy_memory(here, there, progress=stop)
            assert copy_memory(here, there).differences == []
            assert memory_of(there) == memory_of(here)


def test_histories_of_both_are_joined_and_nothing_that_is_newer_is_touched(filled, subtests):
    for source, target in PAIRS:
        with subtests.test(source=source, target=target), filled(source, target) as (here, there):
            here.store("mara", "city", "Oslo")
            age(here._held.database.connection.execute)
            there.store("mara", "city", "Bergen")
            age(there._held.database.connection.execute)
            here.store("mara", "city", "Porto")
            there.store("mara", "lasting", "for ever")
            copied = copy_memory(here, there, users=["mara"])
            assert (copied.newer, copied.differences) == (["mara: lasting"], [])
            assert [version.value for version in there.history("mara", "city")] == ["Porto", "Bergen", "Oslo"]
            assert there.retrieve("mara", "lasting").value == "for ever"
            copy_memory(here, there, users=["mara"])
            assert len(there.history("mara", "city")) == 3


def test_what_was_deleted_here_and_is_still_there_is_named(filled, subtests):
    for source, target in PAIRS:
        with subtests.test(source=source, target=target), filled(source, target) as (here, there):
            copy_memory(here, there)
            here.delete("mara", "lasting")
            copied = copy_memory(here, there)
            assert copied.undeleted == ["mara: lasting"]
            assert there.retrieve("mara", "lasting") is not None
            there.delete("mara", "lasting")
            there.store("mara", "lasting", "anew")
            assert copy_memory(here, there).newer == ["mara: lasting"]


def test_secrets_do_not_come_in_with_a_history(tmp_path):
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    with (
        closing(LocalBackend(tmp_path / "open.db", redact=False)) as here,
        closing(LocalBackend(tmp_path / "safe.db")) as there,
    ):
        here.store("mara", "note", f"the token is {token}", {"session": f"s {token}", "source": f"mail with {token}"})
        here.store("mara", "note", "there is none")
        here.store("mara", f"of {token}", "v", {"login": token, "scope": "project", "project": "web"})
        copied = copy_memory(here, there)
        assert (copied.entries, copied.differences) == (2, [])
        assert copy_memory(here, there).present == 2
        told = there.history("mara", "note")
        assert len(told) == 2
        assert (told[1].session[:2], told[1].source[:10]) == ("s ", "mail with ")
        assert token not in str(told)
        there.close()
        assert token.encode() not in (tmp_path / "safe.db").read_bytes()


def test_secrets_are_compared_as_the_other_keeps_them(tmp_path, honcho):
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    with (
        closing(LocalBackend(tmp_path / "open.db", redact=False)) as here,
        closing(LocalBackend(tmp_path / "open too.db", redact=False)) as open_too,
    ):
        here.store("mara", "note", f"the token is {token}", {"source": token})
        for there in (honcho, DictBackend()):
            assert copy_memory(here, there).differences == []
            assert copy_memory(here, there).present == 1
            assert token not in str(there.retrieve("mara", "note"))
        assert copy_memory(here, open_too).differences == []
        assert token in open_too.retrieve("mara", "note").value


# -- what others cannot hold


def test_what_a_copy_loses_is_said_one_line_each(tmp_path):
    with closing(LocalBackend(tmp_path / "here.db")) as here:
        fill(here)
        age(here._held.database.connection.execute)
        copied = copy_memory(here, DictBackend(), users=["mara"])
    assert copied.lost == [
        "4 deletions: nothing tells there that something was deleted, or when",
        "9 values that held before: their times are those of the copy",
        "the times of 4 entries: they are those of the copy",
    ]


def test_what_goes_to_honcho_and_what_it_loses(tmp_path, honcho):
    with closing(LocalBackend(tmp_path / "here.db")) as here:
        fill(here)
        age(here._held.database.connection.execute)
        copied = copy_memory(here, honcho)
        assert copied.differences == []
        assert (copied.entries, copied.versions) == (8, 9)
        assert [line.partition(":")[0] for line in copied.lost] == [
            "5 deletions",
            "9 values that held before",
            "the times of 8 entries",
        ]
        again = copy_memory(here, honcho)
        assert (again.entries, again.present, again.newer) == (0, 8, [])
        with closing(LocalBackend(tmp_path / "back.db")) as back:
            returned = copy_memory(honcho, back)
            assert returned.differences == []
            assert back.users() == here.users()
            assert {entry.value for entry in back.query("mara", "")} == {
                entry.value for entry in here.query("mara", "")
            }
            assert [line.partition(":")[0] for line in returned.lost] == []
            assert back.retrieve("mara", "editor") == honcho.retrieve("mara", "editor")
