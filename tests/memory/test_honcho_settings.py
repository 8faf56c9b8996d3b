"""Which Honcho it is: what was given, else what the settings say; and whether it is Honcho that answers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

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


@contextmanager
def answering(body: bytes, kind: str) -> Iterator[str]:
    """A server that answers everything with this, and with 200."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as web:
        thread = threading.Thread(target=web.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{web.server_port}"
        web.shutdown()
        thread.join()


def test_whatever_else_answers_is_not_honcho(opened, subtests):
    cases = [
        (b"<!doctype html><title>Sign in</title>", "text/html"),
        (b'{"status": "ok"}', "application/json"),
        (b"[]", "application/json"),
        (b"", "text/plain"),
    ]
    for body, kind in cases:
        with subtests.test(body=body, kind=kind), answering(body, kind) as url:
            assert not opened(url).is_reachable()
