"""Copying memory between backends: nothing lost, and it can be done again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.memory.dictionary import DictBackend
from warmstart.memory import MemoryEntry
from warmstart.memory.copying import copy_memory
from warmstart.memory.local import LocalBackend


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


@pytest.fixture(params=["local", "dictionary"])
def target(request, tmp_path):
    backend = LocalBackend(tmp_path / "target.db") if request.param == "local" else DictBackend()
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


def test_one_user_can_be_chosen(source, target):
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


@pytest.mark.parametrize("writes", range(5))
def test_an_interrupted_copy_is_completed_by_the_next(writes):
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


def test_what_the_other_knows_newer_is_left_alone_and_named(source, target):
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
    assert [version.value for version in target.history("mara", "secretly")] == ["likes tea"]
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


def test_a_backend_that_can_take_over_times_does():
    class Restoring(DictBackend):
        taken: list[tuple[MemoryEntry, int]]

        def restore(self, entry, versions):
            self.taken = [*getattr(self, "taken", []), (entry, len(versions))]
            return self.store(entry.user_id, entry.key, entry.value, entry.metadata)

    source = DictBackend()
    source.store("mara", "editor", "VS Code")
    source.store("mara", "editor", "Helix")
    target = Restoring()
    assert copy_memory(source, target).versions == 1
    ((entry, versions),) = target.taken
    assert (entry.created_at, versions) == (source.retrieve("mara", "editor").created_at, 1)
