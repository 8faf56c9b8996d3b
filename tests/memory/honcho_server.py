"""A server that speaks Honcho's HTTP interface (v3, as server 3.0.12 answers the SDK 2.7), for tests.

It keeps everything in memory. What it does with a query, a filter and a page is what the real one does, read in its
source and tried on it: conclusions come nearest first, however far they are unless the query limits the distance;
messages are listed in the order they came; a batch is kept whole or not at all; what is in a session that was deleted
is shown until it is reaped, and nothing is added to it meanwhile. It can be slow, fail, refuse, drop an answer, and
die.
"""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

NAME = re.compile(r"^[a-zA-Z0-9_-]{1,512}$")
LONGEST = 25_000


class Wrong(Exception):
    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


@dataclass
class Workspace:
    peers: dict[str, dict] = field(default_factory=dict)
    sessions: dict[str, dict] = field(default_factory=dict)
    messages: dict[str, list[dict]] = field(default_factory=dict)
    conclusions: list[dict] = field(default_factory=list)


@dataclass
class Request:
    method: str
    path: str
    body: Any
    authorization: str | None


class HonchoServer(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.workspaces: dict[str, Workspace] = {}
        self.requests: list[Request] = []
        self.lock = threading.RLock()
        self.key = ""  # what it wants in Authorization, if anything
        self.failures: list[int] = []  # statuses to answer with, before doing anything
        self.failing = 0  # a status to answer everything with
        self.late_failures: list[int] = []  # statuses to answer with, after doing it
        self.instead: tuple[str, bytes] | None = None  # type and body of what answers in place of Honcho
        self.dropped = 0  # writes of messages to keep without an answer
        self.held = threading.Event()  # clear it to let writes of messages be kept and wait before the answer
        self.held.set()
        self.kept = threading.Event()  # a write of messages was kept
        self.going = threading.Event()  # clear it to let everything wait
        self.going.set()
        self.delay: Callable[[], object] = lambda: None
        self.has_embeddings = True
        self.says = ""  # what chat answers
        self.retry_after = ""
        self.pending = 0  # work units that the deriver has not done

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def messages(self, workspace: str = "warmstart") -> list[dict]:
        """All messages, in the order they came, session after session."""
        with self.lock:
            return [message for each in self.workspaces[workspace].messages.values() for message in each]

    def entries(self, workspace: str = "warmstart") -> list[str]:
        """The contents of all messages."""
        return [message["content"] for message in self.messages(workspace)] if workspace in self.workspaces else []

    def derive(self, workspace: str = "warmstart") -> None:
        """Conclude from every message what it says, as the real one does some time later.

        Also from those with reasoning off: the real deriver reads all messages of a session between those that it is
        to reason about.
        """
        with self.lock:
            space = self.workspaces[workspace]
            known = {each["content"] for each in space.conclusions}
            for message in self.messages(workspace):
                if message["content"] not in known:
                    space.conclusions.append(
                        _conclusion(message["content"], message["peer_id"], message["peer_id"], message["session_id"])
                    )

    def reap(self) -> None:
        """Delete the sessions that were to be deleted, as the real one does some time later."""
        with self.lock:
            for space in self.workspaces.values():
                for name in [name for name, session in space.sessions.items() if not session["is_active"]]:
                    del space.sessions[name], space.messages[name]
                    space.conclusions = [each for each in space.conclusions if each["session_id"] != name]

    # -- what it answers

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> tuple[int, Any]:
        parts = path.strip("/").split("/")
        if parts[0] != "v3" or parts[1] != "workspaces":
            raise Wrong(404, "Not Found")
        match method, parts[2:]:
            case "POST", []:
                status = 200 if body["id"] in self.workspaces else 201
                self.workspaces.setdefault(_named(body["id"]), Workspace())
                return status, {"id": body["id"], "metadata": {}, "configuration": {}, "created_at": _now()}
            case "POST", ["list"]:
                rows = [
                    {"id": name, "metadata": {}, "configuration": {}, "created_at": _now()} for name in self.workspaces
                ]
                return 200, _page(rows, query)
            case _, [name, *rest]:
                # One that is not there is empty, and made by the first write.
                space = self.workspaces.get(name) or Workspace()
                answer = self._inside(name, space, method, rest, query, body or {})
                if space.peers or space.sessions:
                    self.workspaces[name] = space
                return answer
        raise Wrong(405, "Method Not Allowed")

    def _inside(  # noqa: C901 - one line a route
        self, name: str, space: Workspace, method: str, path: list[str], query: dict[str, list[str]], body: Any
    ) -> tuple[int, Any]:
        match method, path:
            case "POST", ["peers"]:
                status = 200 if body["id"] in space.peers else 201
                return status, self._peer(name, space, _named(body["id"]), body)
            case "POST", ["peers", "list"]:
                return 200, _page(list(space.peers.values()), query)
            case "POST", ["peers", _, "chat"]:
                if not self.says:
                    raise Wrong(500, "An unexpected error occurred")
                assert 1 <= len(body["query"]) <= 10_000
                return 200, {"content": self.says}
            case "PUT", ["peers", peer, "card"]:
                self._peer(name, space, peer, {})["card"] = body["peer_card"]
                return 200, {"peer_card": body["peer_card"]}
            case "POST", ["sessions"]:
                status = 200 if body["id"] in space.sessions else 201
                session = self._session(name, space, _named(body["id"]), body.get("peers") or {})
                if body.get("metadata") is not None:
                    session["metadata"] = body["metadata"]
                return status, session
            case "POST", ["sessions", "list"]:
                rows = [row for row in space.sessions.values() if row["is_active"] and _fits(row, body)]
                return 200, _page(rows, query)
            case "DELETE", ["sessions", session]:
                if session not in space.sessions or not space.sessions[session]["is_active"]:
                    raise Wrong(404, f"Session {session} not found in workspace {name}")
                space.sessions[session]["is_active"] = False  # its messages stay until `reap`
                return 202, {"message": "Session deleted successfully"}
            case "POST", ["sessions", session, "messages"]:
                return 201, self._add(name, space, session, body["messages"])
            case "POST", ["sessions", session, "messages", "list"]:
                return 200, _page([row for row in space.messages.get(session, []) if _fits(row, body)], query)
            case (("GET" | "PUT"), ["sessions", session, "messages", id]):
                found = [message for message in space.messages.get(session, []) if message["id"] == id]
                if not found:
                    raise Wrong(404, "Message not found")
                if method == "PUT" and body.get("metadata") is not None:
                    found[0]["metadata"] = _metadata(body["metadata"])
                return 200, found[0]
            case "GET", ["queue", "status"]:
                left, self.pending = self.pending, max(self.pending - 1, 0)  # the deriver works on it
                counts = {"completed": 0, "in_progress": 0, "pending": left, "total": left}
                return 200, {f"{name}_work_units": number for name, number in counts.items()}
            case "POST", ["conclusions"]:
                self._embeds()
                made = [
                    _conclusion(each["content"], each["observer_id"], each["observed_id"], each.get("session_id"))
                    for each in body["conclusions"]
                ]
                space.conclusions += made
                return 201, made
            case "POST", ["conclusions", "list"]:
                return 200, _page([row for row in reversed(space.conclusions) if _fits(row, body)], query)
            case "POST", ["conclusions", "query"]:
                self._embeds()
                rows = [row for row in space.conclusions if _fits(row, body)]
                rows = _nearest(rows, body["query"], body.get("distance"))
                return 200, rows[: body["top_k"]]
            case "DELETE", ["conclusions", id]:
                before = len(space.conclusions)
                space.conclusions = [row for row in space.conclusions if row["id"] != id]
                if len(space.conclusions) == before:
                    raise Wrong(404, "Conclusion not found")
                return 204, None
        raise Wrong(404, "Not Found")

    def _embeds(self) -> None:
        if not self.has_embeddings:
            raise Wrong(422, "Query exceeds maximum token limit")  # as misleading as the real one

    def _peer(self, name: str, space: Workspace, id: str, body: Any) -> dict:
        return space.peers.setdefault(
            id, {"id": id, "workspace_id": name, "created_at": _now(), "metadata": body.get("metadata") or {}}
        )

    def _session(self, name: str, space: Workspace, id: str, peers: dict[str, Any]) -> dict:
        if not space.sessions.get(id, {"is_active": True})["is_active"]:
            raise Wrong(404, f"Session {id} not found in workspace {name}")
        for peer in peers:
            self._peer(name, space, _named(peer), {})
        space.messages.setdefault(id, [])
        row = {"id": id, "is_active": True, "workspace_id": name, "metadata": {}, "created_at": _now()}
        return space.sessions.setdefault(id, {**row, "configuration": {}})

    def _add(self, name: str, space: Workspace, session: str, messages: list[dict]) -> list[dict]:
        if not 1 <= len(messages) <= 100:
            raise Wrong(422, "messages: at least 1 and at most 100")
        for message in messages:
            if len(message["content"]) > LONGEST:
                raise Wrong(422, f"content: at most {LONGEST} characters")
            if "<|endoftext|>" in message["content"]:
                raise Wrong(422, "disallowed special token")
        self._session(name, space, _named(session), {message["peer_id"]: {} for message in messages})
        made = [
            {
                "id": uuid4().hex[:21],
                "content": message["content"].replace("\0", ""),
                "peer_id": message["peer_id"],
                "session_id": session,
                "workspace_id": name,
                "metadata": _metadata(message.get("metadata") or {}),
                "created_at": message.get("created_at") or _now(),
                "token_count": len(message["content"]) // 4,
                "configuration": message.get("configuration"),
            }
            for message in messages
        ]
        space.messages[session] += made
        return made


class _Handler(BaseHTTPRequestHandler):
    server: HonchoServer
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer in one piece
    disable_nagle_algorithm = True

    def _do(self) -> None:
        server = self.server
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = urlsplit(self.path)
        asked = json.loads(body) if body else None
        writes = self.command == "POST" and parts.path.endswith("/messages")
        with server.lock:
            server.requests.append(Request(self.command, parts.path, asked, self.headers["Authorization"]))
        server.going.wait(180)
        server.delay()
        status, answer = self._status(parts.path, parse_qs(parts.query), asked)
        if writes and status == 201:
            server.kept.set()
            server.held.wait(180)
            with server.lock:
                drop = server.dropped > 0
                server.dropped -= drop
            if drop:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
        if server.late_failures and writes:
            status, answer = server.late_failures.pop(0), {"detail": "An unexpected error occurred"}
        if status == 500:
            self.close_connection = True  # as uvicorn does after an error that nobody caught, without saying so
        kind, data = "application/json", b"" if answer is None else json.dumps(answer).encode()
        if server.instead is not None:
            status, kind, data = 200, *server.instead
        self.send_response(status)
        if status == 429 and server.retry_after:
            self.send_header("Retry-After", server.retry_after)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()

    def _status(self, path: str, query: dict[str, list[str]], asked: Any) -> tuple[int, Any]:
        server = self.server
        with server.lock:
            if server.failures or server.failing:
                return (server.failures.pop(0) if server.failures else server.failing), {"detail": "not now"}
            if server.key and self.headers["Authorization"] != f"Bearer {server.key}":
                return 401, {"detail": "Invalid JWT"}
            try:
                return server.answer(self.command, path, query, asked)
            except Wrong as wrong:
                return wrong.status, {"detail": str(wrong)}

    do_GET = do_POST = do_PUT = do_DELETE = _do  # noqa: N815

    def handle(self) -> None:
        with suppress(ConnectionError, ValueError):  # the client is gone
            super().handle()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def running(port: int = 0) -> Iterator[HonchoServer]:
    server = HonchoServer(port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.going.set()
        server.held.set()
        server.shutdown()
        server.server_close()
        thread.join()


def _named(id: str) -> str:
    if not NAME.match(id):
        raise Wrong(422, f"{id!r} does not match {NAME.pattern}")
    return id


def _now() -> str:
    return datetime.now(UTC).isoformat()


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", text.lower()))


def _nearest(rows: list[dict], query: str, distance: float | None) -> list[dict]:
    """By the number of words in common; those with none are 1.0 away, others nearer than any limit."""
    shared = {row["id"]: len(_words(row["content"]) & _words(query)) for row in rows}
    near = rows if distance is None else [row for row in rows if shared[row["id"]]]
    return sorted(near, key=lambda row: -shared[row["id"]])


def _metadata(data: dict) -> dict:
    if len(data) > 100:
        raise Wrong(422, "Metadata exceeds maximum of 100 top-level keys")
    return {name: value.replace("\0", "") if isinstance(value, str) else value for name, value in data.items()}


def _conclusion(content: str, observer: str, observed: str, session: str | None) -> dict:
    return {
        "id": uuid4().hex[:21],
        "content": content,
        "observer_id": observer,
        "observed_id": observed,
        "session_id": session,
        "level": "explicit",
        "source_ids": None,
        "times_derived": 1,
        "created_at": _now(),
    }


def _fits(row: dict, body: Any) -> bool:
    for column, wanted in ((body or {}).get("filters") or {}).items():
        if column == "metadata":
            for name, value in wanted.items():
                found = row["metadata"].get(name)
                if isinstance(value, dict) and "in" in value:
                    if str(found) not in [str(each) for each in value["in"]]:
                        return False
                elif found != value:
                    return False
        elif row.get(column) != wanted:
            return False
    return True


def _page(rows: list[dict], query: dict[str, list[str]]) -> dict:
    number, size = int(query.get("page", ["1"])[0]), int(query.get("size", ["50"])[0])
    if not 1 <= size <= 100 or number < 1:
        raise Wrong(422, "size: 1 to 100")
    if query.get("reverse") == ["true"]:
        rows.reverse()
    pages = (len(rows) + size - 1) // size
    found = rows[(number - 1) * size : number * size]
    return {"items": found, "total": len(rows), "page": number, "size": size, "pages": pages}
