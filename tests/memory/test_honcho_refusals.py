"""What Honcho refuses: for good only what is to blame itself, and never without a way back."""

from __future__ import annotations

import pytest

from tests.memory.honcho_server import Wrong
from tests.waiting import wait_until
from warmstart.errors import StoreError
from warmstart.memory.backend import Delivery


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
            assert backend.status().rejected == ()
            assert backend.status().waiting == 6
            server.failing = 0
            assert backend.flush(180)
            assert server.entries() == [*(f"a_{number}: v" for number in range(5)), "k: v"]


@pytest.fixture
def refuse(server, monkeypatch):
    """Has the server refuse messages of which something holds, from now on."""
    add = server._add

    def refuse(status, is_wrong):
        def picky(name, space, session, messages):
            if is_wrong(messages):
                raise Wrong(status, "not today")
            return add(name, space, session, messages)

        monkeypatch.setattr(server, "_add", picky)

    return refuse


def test_one_that_is_refused_does_not_stop_the_others(server, opened, refuse):
    refuse(422, lambda messages: any("forbidden" in message["content"] for message in messages))
    backend = opened(server.url)
    for number in range(10):
        backend.store("u", f"a_{number}", "forbidden" if number == 4 else "v")
    assert backend.flush(180)
    assert server.entries() == [f"a_{number}: v" for number in range(10) if number != 4]
    [(user, key, reason)] = backend.status().rejected
    assert (user, key) == ("u", "a_4")
    assert "not today" in reason
    assert backend.retrieve("u", "a_4").value == "forbidden"


def test_a_batch_that_is_too_large_is_sent_one_by_one(server, opened, refuse):
    refuse(413, lambda messages: len(messages) > 1)
    backend = opened(server.url)
    for number in range(5):
        backend.store("u", f"a_{number}", "v")
    assert backend.flush(180)
    assert server.entries() == [f"a_{number}: v" for number in range(5)]
    assert backend.status().rejected == ()


def test_what_was_refused_can_be_sent_again(server, opened, refuse):
    refuse(422, bool)
    backend = opened(server.url)
    backend.store("u", "city", "Oldenburg")
    assert backend.flush(180)
    assert [key for _, key, _ in backend.status().rejected] == ["city"]
    refuse(422, lambda messages: False)
    assert backend.retry() == 1
    assert backend.flush(180)
    assert backend.status().rejected == ()
    assert server.entries() == ["city: Oldenburg"]
    assert backend.retry() == 0


def test_a_refused_deletion_of_what_was_refused_is_an_error(server, opened, refuse):
    refuse(422, bool)
    backend = opened(server.url)
    backend.store("u", "city", "Oldenburg")
    assert backend.flush(180)
    delivery = Delivery(backend)
    assert backend.delete("u", "city")
    with pytest.raises(StoreError, match="not today"):
        delivery.finish(20)
