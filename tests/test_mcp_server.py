"""The MCP server's protocol, line by line."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import warmstart

COMMAND = [sys.executable, "-m", "warmstart", "mcp"]
PING = {"id": "p", "method": "ping"}
HELLO = {"id": 0, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}}}

# What is sent, and the answers: an id with `True` for a result or the code of an error.
MESSAGES: tuple[tuple[object, list[tuple[object, object]]], ...] = (
    (PING, [("p", True)]),
    ({"id": 7, "method": "tools/list", "params": {"cursor": None}}, [(7, True)]),
    ({"id": 7, "method": "prompts/list"}, [(7, True)]),
    ({"id": 7, "method": "ping", "params": None}, [(7, True)]),
    ({"id": 7, "method": "server/discover"}, [(7, -32601)]),
    ({"id": 7, "method": "resources/list"}, [(7, -32601)]),
    ({"id": 7, "method": "logging/setLevel", "params": {"level": "debug"}}, [(7, -32601)]),
    ({"method": "notifications/initialized"}, []),
    ({"method": "notifications/cancelled", "params": {"requestId": 99}}, []),
    ({"method": "notifications/cancelled", "params": {"requestId": []}}, []),
    ({"method": "notifications/cancelled", "params": []}, []),
    ({"method": "notifications/roots/list_changed"}, []),
    ({"method": "notifications/nobody/knows"}, []),
    ({"method": "tools/call", "params": {"name": "recall"}}, []),
    ({"id": 99, "result": {}}, []),
    ({"id": 99, "error": {"code": -32601, "message": "no"}}, []),
    ({"id": 7, "method": 7}, [(7, -32600)]),
    ({"id": 7}, [(7, -32600)]),
    ({}, [(None, -32600)]),
    ({"id": None, "method": "ping"}, [(None, -32600)]),
    ({"id": True, "method": "ping"}, [(None, -32600)]),
    ({"id": {}, "method": "ping"}, [(None, -32600)]),
    ({"id": 7, "method": "ping", "jsonrpc": "1.0"}, [(None, -32600)]),
    ({"id": 7, "method": "tools/call", "params": [1]}, [(7, -32602)]),
    ({"id": 7, "method": "tools/call", "params": {"name": "recall", "arguments": ["tides"]}}, [(7, -32602)]),
    ({"id": 7, "method": "tools/call"}, [(7, True)]),
    ([{"jsonrpc": "2.0", **PING}], [(None, -32600)]),
    ("ping", [(None, -32600)]),
    (b"{", [(None, -32700)]),
    (b"\xff\xfe{", [(None, -32700)]),
    (b"[" * 100_000, [(None, -32700)]),
    (b"", []),
    (b" \t", []),
)


class Connection:
    """A running server."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin
        assert process.stdout
        self.process, self.stdin, self.stdout = process, process.stdin, process.stdout

    def send(self, *messages: object) -> None:
        for message in messages:
            if isinstance(message, dict):
                message = {"jsonrpc": "2.0", **message}
            line = message if isinstance(message, bytes) else json.dumps(message).encode()
            self.stdin.write(line + b"\n")
        self.stdin.flush()

    def receive(self) -> dict[str, Any]:
        return dict(json.loads(self.stdout.readline()))

    def receive_rest(self) -> list[dict[str, Any]]:
        self.stdin.close()
        return [json.loads(line) for line in self.stdout]


@contextmanager
def running(cwd: Path | None = None, **env: str) -> Iterator[Connection]:
    pipe = subprocess.PIPE
    environment = {"HOME": os.environ["HOME"], "PATH": os.environ["PATH"], **env}
    with subprocess.Popen(COMMAND, stdin=pipe, stdout=pipe, stderr=pipe, cwd=cwd, env=environment) as process:
        try:
            yield Connection(process)
        finally:
            process.kill()


def recall(number: int, query: str = "tides") -> dict[str, Any]:
    return {"id": number, "method": "tools/call", "params": {"name": "recall", "arguments": {"query": query}}}


@contextmanager
def blocked_call(home: Path) -> Iterator[tuple[Connection, sqlite3.Connection]]:
    """A server whose call 1 waits for the store, which this connection locks until it is closed."""
    with warmstart.open() as ws:
        ws.memory.set("port", "The database has port 5433")
    lock = sqlite3.connect(home / ".warmstart" / "warmstart.db", isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    arguments = {"action": "store", "key": "port", "value": "It has port 5434"}
    with running() as server:
        server.send({"id": 1, "method": "tools/call", "params": {"name": "memory_backend", "arguments": arguments}})
        yield server, lock
    lock.close()


def test_each_message_gets_its_answer(subtests) -> None:
    with running() as server:
        for message, answers in MESSAGES:
            with subtests.test(str(message)[:80]):
                server.send(message, {"id": "end", "method": "ping"})
                received = []
                while "end" not in [answer["id"] for answer in received] or len(received) <= len(answers):
                    received.append(server.receive())
                found = [
                    (answer["id"], "result" in answer or answer["error"]["code"])
                    for answer in received
                    if answer["id"] != "end"
                ]
                assert found == answers
        assert server.receive_rest() == []
        assert server.process.wait() == 0


@pytest.mark.parametrize(
    ("asked", "answered"),
    [("2025-06-18", "2025-06-18"), ("2025-11-25", "2025-11-25"), ("2027-01-01", "2025-11-25"), (None, "2025-11-25")],
)
def test_the_protocol_is_the_clients_if_we_know_it(asked, answered) -> None:
    with running() as server:
        server.send({"id": 1, "method": "initialize", "params": {"protocolVersion": asked}})
        result = server.receive()["result"]
    assert result["protocolVersion"] == answered
    assert result["serverInfo"] == {"name": "warmstart", "version": warmstart.__version__}
    assert result["capabilities"] == {"tools": {}, "prompts": {}}


def test_a_call_that_hangs_delays_nothing_else(home) -> None:
    with blocked_call(home) as (server, lock):
        server.send(PING, recall(2))
        assert [server.receive()["id"], server.receive()["id"]] == ["p", 2]
        lock.close()
        assert server.receive()["id"] == 1


def test_a_cancelled_call_gets_no_answer(home) -> None:
    with blocked_call(home) as (server, lock):
        server.send({"method": "notifications/cancelled", "params": {"requestId": 1, "reason": "enough"}}, PING)
        assert server.receive()["id"] == "p"
        lock.close()
        server.send(recall(2))
        assert server.receive()["id"] == 2
        assert server.receive_rest() == []


def test_a_running_call_is_answered_after_the_client_closed_our_input(home) -> None:
    with blocked_call(home) as (server, lock):
        server.stdin.close()
        lock.close()
        assert [answer["id"] for answer in server.receive_rest()] == [1]
        assert server.process.wait() == 0


def test_a_call_that_hangs_does_not_keep_the_server(home) -> None:
    with blocked_call(home) as (server, _):
        assert server.receive_rest() == []
        assert server.process.wait() == 0


def test_more_calls_than_workers_are_all_answered(home) -> None:
    with running() as server:
        server.send(*(recall(number) for number in range(30)))
        assert {answer["id"] for answer in server.receive_rest()} == set(range(30))


def test_a_client_that_is_gone_ends_the_server() -> None:
    with running() as server:
        server.send(PING)
        server.receive()
        server.stdout.close()
        server.send(PING)
        assert server.process.wait() == 0
        assert server.process.stderr
        assert server.process.stderr.read() == b""


def test_a_line_of_ten_megabytes_is_read() -> None:
    with running() as server:
        server.send({"id": 1, "method": "ping", "params": {"x": "é" * 1_700_000}}, recall(2, "tide " * 2_000_000))
        assert server.receive() == {"jsonrpc": "2.0", "id": 1, "result": {}}
        assert server.receive()["id"] == 2


def test_roots_are_asked_for_again_when_they_change(tmp_path, home) -> None:
    folders = [tmp_path / "first", tmp_path / "second stage"]
    for folder in folders:
        (folder / ".git").mkdir(parents=True)
    config = home / ".warmstart" / "config.toml"
    config.parent.mkdir()
    config.write_text(f"[hosts]\nexclude = ['{folders[1]}']\n")
    hello = {**HELLO, "params": {"capabilities": {"roots": {"listChanged": True}}}}
    with running(tmp_path) as server:

        def offer(folder: Path) -> None:
            request = server.receive()
            assert request["method"] == "roots/list"
            server.send({"id": request["id"], "result": {"roots": [{"uri": "http://x"}, {"uri": folder.as_uri()}]}})

        server.send(hello, {"method": "notifications/initialized"})
        assert server.receive()["id"] == 0
        offer(folders[0])
        server.send(recall(1))
        assert "Nothing found" in str(server.receive())
        server.send({"method": "notifications/roots/list_changed"})
        offer(folders[1])
        server.send(recall(2))
        assert "switched off in this folder" in str(server.receive())


def test_a_client_that_keeps_its_roots_to_itself_is_served(tmp_path) -> None:
    hello = {**HELLO, "params": {"capabilities": {"roots": {}}}}
    with running(tmp_path) as server:
        server.send(hello, {"method": "notifications/initialized"})
        assert server.receive()["id"] == 0
        roots = server.receive()
        server.send(recall(1))
        assert "Nothing found" in str(server.receive())
        server.send({"id": roots["id"], "error": {"code": -32601, "message": "no"}}, recall(2))
        assert "Nothing found" in str(server.receive())


def test_listing_the_tools_loads_little() -> None:
    script = f"""
import json, sys
from warmstart.mcp_server import Server
messages = {[HELLO, {"id": 1, "method": "tools/list"}]}
Server([json.dumps({{"jsonrpc": "2.0", **message}}).encode() for message in messages], lambda line: None).run()
print(*(name for name in sys.modules if name.split(".")[0] not in sys.stdlib_module_names))
print(len(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    ours, count = done.stdout.splitlines()
    loaded = {name for name in ours.split() if name.startswith("warmstart")}
    assert loaded == {
        "warmstart",
        *(f"warmstart.{name}" for name in ("errors", "hosts", "hosts.hook_tool", "mcp", "mcp_server")),
    }
    assert int(count) < 120
    for heavy in ("asyncio", "click", "email", "importlib.metadata", "sqlite3"):
        assert heavy not in done.stdout
