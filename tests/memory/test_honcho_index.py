"""What the index knows of a session that is another one now, of what has expired, and for a copy."""

from __future__ import annotations

import time
from contextlib import closing

import pytest

from tests.memory.honcho_server import Wrong
from tests.memory.waiting import put_forward
from warmstart.memory.copying import copy_memory
from warmstart.memory.local import LocalBackend
from warmstart.memory.values import View


@pytest.mark.parametrize("before", [5, *(pytest.param(many, marks=pytest.mark.slow) for many in (20, 100)), 140])
@pytest.mark.parametrize("after", [3, 120, 260])
def test_a_restarted_session_is_read_from_the_beginning(server, opened, before, after):
    here, there = opened(server.url, "here"), opened(server.url, "there")
    for number in range(before):
        here.store("mara", f"old{number}", "v")
    assert here.flush()
    assert there.sync("mara")
    assert len(there.list_keys("mara")) == before
    here.forget_user("mara")
    assert here.flush()
    server.reap()
    for number in range(after):
        here.store("mara", f"new{number}", "v")
    assert here.flush()
    assert there.sync("mara")
    assert set(there.list_keys("mara")) == {f"new{number}" for number in range(after)}
    there.store("mara", "city", "Leer")
    assert there.flush()
    assert here.sync("mara")
    assert here.retrieve("mara", "city").value == "Leer"
    assert len(here.list_keys("mara")) == after + 1


def test_a_session_of_the_same_length_that_somebody_else_began_is_read(server, opened):
    here, there = opened(server.url, "here"), opened(server.url, "there")
    here.store("mara", "old", "v")
    assert here.flush()
    assert there.sync("mara")
    server.answer("DELETE", "/v3/workspaces/warmstart/sessions/warmstart-memory-mara", {}, None)
    server.reap()
    here.store("mara", "new", "v")
    assert here.flush()
    assert there.sync("mara")
    assert there.list_keys("mara") == ["new", "old"]


def test_what_honcho_does_not_let_be_read_is_not_read(server, opened, monkeypatch):
    here, there = opened(server.url, "here"), opened(server.url, "there")
    here.store("mara", "k", "v")
    assert here.flush()
    answer = server.answer

    def strict(method, path, query, body):
        if path.endswith("/messages/list"):
            raise Wrong(422, "not today")
        return answer(method, path, query, body)

    monkeypatch.setattr(server, "answer", strict)
    assert there.is_reachable()
    assert not there.sync("mara")
    assert not there.sync(None)


def test_reading_on_asks_for_one_page(server, opened):
    here, there = opened(server.url, "here"), opened(server.url, "there")
    for number in range(40):
        here.store("mara", f"k{number}", "v")
    assert here.flush()
    assert there.sync("mara")
    server.requests.clear()
    assert there.sync("mara")
    assert len(server.requests) == 1


def test_what_has_expired_is_erased_by_one_of_the_next_writes(server, opened, tmp_path, monkeypatch):
    here = opened(server.url, "here", send_scoped=True)
    here.store("mara", "gate", "Rosengarten")
    here.store("mara", "gate", "Taubenschlag", {"expires_at": time.time() + 1000, "source": "Heckenweg"})
    here.store("mara", "stays", "v")
    assert here.flush()
    put_forward(monkeypatch, 2000)
    here.store("mara", "other", "v")
    assert here.list_keys("mara") == ["other", "stays"]
    assert here.retrieve("mara", "gate") is None
    assert [version.value for version in here.history("mara", "gate")] == [None]
    assert here.flush()
    there = opened(server.url, "there")
    assert there.sync("mara")
    assert sorted(there.list_keys("mara")) == ["other", "stays"]
    here.close()
    there.close()
    for machine in ("here", "there"):
        kept = b"".join(path.read_bytes() for path in (tmp_path / machine).iterdir())
        assert not [word for word in (b"Taubenschlag", b"Heckenweg", b"Rosengarten") if word in kept]


def test_what_is_stored_after_it_expired_is_new(honcho, monkeypatch):
    honcho.store("u", "k", "one", {"expires_at": time.time() + 1000})
    put_forward(monkeypatch, 2000)
    honcho.store("u", "other", "v")
    honcho.store("u", "k", "two")
    assert honcho.flush()
    assert honcho.sync("u")
    assert [version.value for version in honcho.history("u", "k")] == ["two", None]
    assert honcho.retrieve("u", "k").created_at == honcho.retrieve("u", "k").updated_at


def test_a_copy_from_honcho_has_the_history_of_each_scope(honcho, tmp_path):
    scoped = {"scope": "project", "project": "web"}
    for value in ("ed", "vi", "Helix"):
        honcho.store("mara", "editor", value, {"session": f"s-{value}"})
        honcho.store("mara", "editor", f"{value} on the web", scoped)
    honcho.store("mara", "city", "Leer")
    honcho.delete("mara", "city")
    honcho.store("mara", "shell", "zsh")
    honcho.delete("mara", "shell")
    honcho.store("mara", "shell", "fish")
    with closing(LocalBackend(tmp_path / "there.db")) as there:
        copied = copy_memory(honcho, there)
        assert (copied.differences, copied.lost) == ([], [])
        assert (copied.entries, copied.versions, copied.deletions) == (3, 4, 2)
        for view in (None, View(), View(project="web")):
            seen, told = (each if view is None else each.at(view) for each in (there, honcho))
            for key in ("editor", "city", "shell"):
                assert seen.history("mara", key) == told.history("mara", key)
                assert seen.retrieve("mara", key) == told.retrieve("mara", key)
        again = copy_memory(honcho, there)
        assert (again.entries, again.present) == (0, 3)
