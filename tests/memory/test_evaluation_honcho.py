"""An evaluation of a backend whose memories are on a server: what did not arrive there was not stored."""

from __future__ import annotations

import pytest

from tests.memory.honcho_server import Wrong, free_port
from warmstart.memory.evaluation import evaluate_backend, evaluate_backends


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr("warmstart.memory.evaluation.forgetting._PATIENCE", 0.05)


def test_a_server_that_is_away_is_no_memory(opened):
    url = f"http://127.0.0.1:{free_port()}"
    backend = opened(url)
    found = evaluate_backend(backend, sizes=(10,), seconds=3)
    assert (found.score, found.is_available, found.verdict) == (0, False, "not recommended")
    assert found.notes == ("not available", f"its server {url} does not answer")
    assert backend.status().waiting == 0
    report = evaluate_backends([backend], sizes=(10,), seconds=3)
    assert report.recommendation.startswith("No backend can be recommended")


def test_what_does_not_arrive_is_not_stored(server, opened, monkeypatch):
    def full(name, space, session, messages):
        raise Wrong(503, "no room")

    def gone_then() -> None:
        asked = server.requests[-1]
        if asked.path.endswith("/sessions/list") and "warmstart_user" in str(asked.body):  # to forget a user
            server.failing = 503

    monkeypatch.setattr(server, "_add", full)
    server.delay = gone_then
    found = evaluate_backend(opened(server.url), sizes=(10,), seconds=1)
    assert (found.points.store, found.points.latency) == (0, 0)
    assert "what it is given did not arrive at its server within 1 s" in found.notes
    assert any("still wait for its server" in note for note in found.notes)


def test_what_stays_at_the_server_is_said(server, opened):
    found = evaluate_backend(opened(server.url), sizes=(10,), seconds=30)
    assert (found.points.store, found.points.retrieve, found.points.query, found.points.privacy) == (15, 15, 10, 5)
    assert "its server keeps the text of 5 entries that were deleted" in found.notes
    assert any("keeps that there were such peers" in note for note in found.notes)
    assert not any("still wait" in note or "could not be removed" in note for note in found.notes)
    assert found.cost.calls > 10
    assert found.cost.bytes > 10_000
    server.reap()
    assert server.entries() == []
