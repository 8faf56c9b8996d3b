"""Which Honcho it is: what was given, else what the settings say; and whether it is Honcho that answers."""

from __future__ import annotations

from contextlib import closing

from warmstart.memory.honcho import HonchoBackend
from warmstart.memory.honcho.wire import PRODUCTION


def test_with_nothing_given_it_is_what_the_settings_say(server, home, monkeypatch):
    monkeypatch.setenv("HONCHO_API_KEY", "k-1")
    with closing(HonchoBackend()) as backend:
        assert (backend.base_url, backend.problem) == (PRODUCTION, "")
    monkeypatch.setenv("HONCHO_URL", server.url)
    monkeypatch.setenv("HONCHO_WORKSPACE_ID", "mine")
    with closing(HonchoBackend()) as backend:
        assert backend.store("u", "k", "v")
        assert backend.flush()
    assert server.entries("mine") == ["k: v"]
    assert {request.authorization for request in server.requests} == {"Bearer k-1"}
    assert [path.suffix for path in (home / ".warmstart").glob("honcho-*.db")] == [".db"]


def test_what_is_given_is_not_mixed_with_the_settings(home, monkeypatch):
    monkeypatch.setenv("HONCHO_API_KEY", "k-1")
    assert "not configured" in HonchoBackend(api_key="", base_url="").problem
    assert "needs a key" in HonchoBackend(base_url=PRODUCTION).problem


def test_whatever_else_answers_is_not_honcho(server, opened, subtests):
    for kind, body in (
        ("text/html", b"<!doctype html><title>Sign in</title>"),
        ("application/json", b'{"status": "ok"}'),
        ("application/json", b"[]"),
        ("text/plain", b""),
    ):
        with subtests.test(kind=kind, body=body):
            server.instead = (kind, body)
            assert not opened(server.url).is_reachable()
