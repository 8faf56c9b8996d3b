"""What Honcho refuses: for good only what is to blame itself, and never without a way back."""

from __future__ import annotations

from tests.memory.honcho_server import Wrong
from tests.memory.waiting import wait_until


def test_a_status_that_passes_costs_no_write(fresh_honcho, subtests):
    for status in [301, 307, 400, 402, 405, 407, 408, 409, 413, 418, 422]:
        with subtests.test(status=status), fresh_honcho() as (server, opened):
            server.failing = status
            backend = opened(server.url)
            for number in range(5):
                backend.store("u", f"a_{number}", "v")
            backend.store("ben", "k", "v")
            wait_until(lambda: backend.status().error)  # noqa: B023 - it is called at once
            assert not backend.flush(0.2)
            assert backend.status().refused == ()
            assert backend.status().waiting == 6
            server.failing = 0
            assert backend.flush(20)
            assert server.entries() == [*(f"a_{number}: v" for number in range(5)), "k: v"]


def test_a_batch_that_is_too_large_is_sent_one_by_one(server, opened, monkeypatch):
    add = server._add

    def small(name, space, session, messages):
        if len(messages) > 1:
            raise Wrong(413, "Request Entity Too Large")
        return add(name, space, session, messages)

    monkeypatch.setattr(server, "_add", small)
    backend = opened(server.url)
    for number in range(5):
        backend.store("u", f"a_{number}", "v")
    assert backend.flush(20)
    assert server.entries() == [f"a_{number}: v" for number in range(5)]
    assert backend.status().refused == ()


def test_what_was_refused_can_be_sent_again(server, opened, monkeypatch):
    add = server._add

    def strict(name, space, session, messages):
        raise Wrong(422, "not today")

    monkeypatch.setattr(server, "_add", strict)
    backend = opened(server.url)
    backend.store("u", "city", "Oldenburg")
    assert backend.flush(20)
    assert [key for _, key, _ in backend.status().refused] == ["city"]
    monkeypatch.setattr(server, "_add", add)
    assert backend.retry() == 1
    assert backend.flush(20)
    assert backend.status().refused == ()
    assert server.entries() == ["city: Oldenburg"]
    assert backend.retry() == 0
