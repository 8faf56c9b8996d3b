"""The MCP server, `warmstart mcp`: JSON-RPC over standard streams, one message a line.

A client waits for its servers before the first request, so the loop needs little more than `json`. A call runs in a
worker thread, which opens the store and loads what the tool needs, so it delays neither a ping nor another call. When
the client closes our input, running calls get a few seconds to answer.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Lock, Thread
from typing import Any, TypeGuard

from warmstart import __version__
from warmstart.hosts import hook_tool
from warmstart.mcp import Place, call, is_disabled, tables, tools

PROTOCOLS = ("2025-11-25", "2025-06-18")  # newest first
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND = -32700, -32600, -32601
INVALID_PARAMS, INTERNAL_ERROR = -32602, -32603
_MAX_WORKERS = 8
_ROOTS_SECONDS = 1.0
_EXIT_SECONDS = 2.0  # for running calls, after the client closed our input
_SESSION_VARIABLES = ("CLAUDE_CODE_SESSION_ID", "COPILOT_AGENT_SESSION_ID")
_CODEX_META = "x-codex-turn-metadata"
_MODEL_META = {"claudecode/toolUseId", _CODEX_META}  # what is with the call of a model, but not of a hook


def serve() -> None:
    """Serve on standard input and output until the client closes one of them."""
    try:
        Server(sys.stdin.buffer, _write).run()
    except (KeyboardInterrupt, OSError):
        return  # the client is gone


def _write(line: bytes) -> None:
    """Write to standard output without a buffer, which Python would flush again when it exits."""
    while line:
        line = line[os.write(1, line) :]


class Server:
    """One connection with a client."""

    def __init__(self, lines: Iterable[bytes], write: Callable[[bytes], None]) -> None:
        self._lines = lines
        self._write = write
        self._writing = Lock()
        self._client: dict[str, Any] = {}  # what it says about itself
        self._calls: SimpleQueue[tuple[int | str, str, dict[str, Any]] | None] = SimpleQueue()
        self._waiting: set[int | str] = set()  # the calls that need an answer
        self._workers: list[Thread] = []
        self._marker: Path | None = None  # while a client is connected that sends us hooks
        self._root = ""  # the first folder that the client offers
        self._roots_requests = 0
        self._roots_known = Event()

    def run(self) -> None:
        """Answer messages until there are no more."""
        try:
            for line in self._lines:
                if line.strip():
                    self._receive(line)
        finally:
            if self._marker:
                self._marker.unlink(missing_ok=True)
        deadline = time.monotonic() + _EXIT_SECONDS
        for _ in self._workers:
            self._calls.put(None)
        for worker in self._workers:
            worker.join(max(0, deadline - time.monotonic()))

    def _receive(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            self._fail(None, PARSE_ERROR, "this line is not JSON")
        else:
            self._dispatch(message)

    def _dispatch(self, message: Any) -> None:
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            self._fail(None, INVALID_REQUEST, "not a JSON-RPC 2.0 message; batches are not supported")
            return
        request: Any = message.get("id")
        method, params = message.get("method"), message.get("params") or {}
        if method is None and ("result" in message or "error" in message):
            self._take_roots(request, message.get("result"))
        elif "id" in message and not _is_id(request):
            self._fail(None, INVALID_REQUEST, "the id of a request must be a string or a whole number")
        elif not isinstance(method, str):
            self._fail(request, INVALID_REQUEST, "a request needs a method")
        elif "id" not in message:
            self._take_notification(method, params)
        elif not isinstance(params, dict) or not isinstance(params.get("arguments") or {}, dict):
            self._fail(request, INVALID_PARAMS, "params and arguments must be objects")
        elif method in _RESULTS:
            self._send({"id": request, "result": _RESULTS[method](self, params)})
        elif method in _CALLS:
            self._queue(request, method, params)
        else:
            self._fail(request, METHOD_NOT_FOUND, f"there is no method {method!r:.80}")

    def _send(self, message: dict[str, Any]) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        with self._writing:
            self._write(line)

    def _fail(self, request: Any, code: int, why: str) -> None:
        self._send({"id": request, "error": {"code": code, "message": why}})

    # -- answered at once

    def _initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        self._client = params
        if self._client_name.startswith(tuple(hook_tool.EVENTS)):
            self._marker = hook_tool.connect()
        wanted = params.get("protocolVersion")
        result: dict[str, Any] = {
            "protocolVersion": wanted if wanted in PROTOCOLS else PROTOCOLS[0],
            "capabilities": {"tools": {}, "prompts": {}},
            "serverInfo": {"name": "warmstart", "version": __version__},
        }
        return result if is_disabled() else {**result, "instructions": tables()["instructions"]}

    def _list_tools(self, params: dict[str, Any]) -> dict[str, Any]:
        known = {} if is_disabled() else tools()
        return {"tools": [_as_mcp_tool(name, tool) for name, tool in known.items()]}

    def _list_prompts(self, params: dict[str, Any]) -> dict[str, Any]:
        known = {} if is_disabled() else tables()["prompts"]
        return {"prompts": [_as_mcp_prompt(name, row) for name, row in known.items()]}

    def _take_notification(self, method: str, params: Any) -> None:
        if method == "notifications/cancelled" and isinstance(params, dict):
            request = params.get("requestId")
            if _is_id(request):
                self._waiting.discard(request)
        elif method in ("notifications/initialized", "notifications/roots/list_changed") and self._offers_roots:
            self._roots_requests += 1
            self._roots_known.clear()
            self._send({"id": f"roots-{self._roots_requests}", "method": "roots/list"})

    # -- answered by a worker

    def _queue(self, request: int | str, method: str, params: dict[str, Any]) -> None:
        self._waiting.add(request)
        self._calls.put((request, method, params))
        if len(self._workers) < _MAX_WORKERS:
            worker = Thread(target=self._work, daemon=True)
            worker.start()
            self._workers.append(worker)

    def _work(self) -> None:
        while queued := self._calls.get():
            request, method, params = queued
            if request not in self._waiting:
                continue  # cancelled
            try:
                answer = {"id": request, "result": _CALLS[method](self, params)}
            except Exception as error:  # the next call may work
                failure = {"code": INTERNAL_ERROR, "message": f"{method} failed ({type(error).__name__})"}
                answer = {"id": request, "error": failure}
            if request in self._waiting:
                self._waiting.discard(request)
                with suppress(OSError):  # the client is gone
                    self._send(answer)

    def _call_tool(self, params: dict[str, Any]) -> dict[str, Any]:
        name = str(params.get("name"))
        if name == hook_tool.NAME:
            is_hook = _MODEL_META.isdisjoint(params.get("_meta") or ())
            answer = hook_tool.answer_call(params.get("arguments") or {}) if is_hook else "{}"
            return {"content": [{"type": "text", "text": answer}], "isError": False}
        text, failed = self._run(name, params)
        return {"content": [{"type": "text", "text": text}], "isError": failed}

    def _get_prompt(self, params: dict[str, Any]) -> dict[str, Any]:
        row = tables()["prompts"].get(str(params.get("name")), {})
        text, _ = self._run(row.get("tool", ""), params)
        return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}

    def _run(self, tool: str, params: dict[str, Any]) -> tuple[str, bool]:
        place = Place(self._folder(), _session(params.get("_meta")), self._agent())
        return call(tool, params.get("arguments"), place)

    # -- who is calling, and from where

    def _folder(self) -> str:
        """The client's folder: as it says, else ours if that is a repository, else its first root."""
        from warmstart.sessions.projects import project_of

        if named := os.environ.get("CLAUDE_PROJECT_DIR"):
            return named
        try:
            current = os.getcwd()  # noqa: PTH109 - a string is needed
        except FileNotFoundError:
            current = ""
        if current and Path(project_of(current), ".git").exists():
            return current
        if self._offers_roots and not self._roots_known.wait(_ROOTS_SECONDS):
            self._roots_known.set()  # it does not answer, so the next call does not wait
        return self._root or current or str(Path.home())

    @property
    def _offers_roots(self) -> bool:
        capabilities = self._client.get("capabilities")
        return isinstance(capabilities, dict) and capabilities.get("roots") is not None

    def _take_roots(self, request: Any, result: Any) -> None:
        """Keep the first folder of the newest answer."""
        if request == f"roots-{self._roots_requests}":
            self._root = _first_folder(result)
            self._roots_known.set()

    def _agent(self) -> str:
        """The client's name as a host of ours, such as `codex` for `codex-mcp-client`; else as it says."""
        from warmstart.hosts.install import HOSTS

        name = self._client_name
        return next((host for host in HOSTS if host.removesuffix("-cli") in name), name)

    @property
    def _client_name(self) -> str:
        info = self._client.get("clientInfo")
        return str(info.get("name", "")).lower() if isinstance(info, dict) else ""


_RESULTS: dict[str, Callable[[Server, dict[str, Any]], dict[str, Any]]] = {
    "initialize": Server._initialize,
    "ping": lambda server, params: {},
    "tools/list": Server._list_tools,
    "prompts/list": Server._list_prompts,
}
_CALLS = {"tools/call": Server._call_tool, "prompts/get": Server._get_prompt}


def _is_id(request: object) -> TypeGuard[int | str]:
    return isinstance(request, int | str) and not isinstance(request, bool)


def _as_mcp_tool(name: str, tool: dict[str, Any]) -> dict[str, Any]:
    reads_only = name != "memory_backend"
    schema = {
        "type": "object",
        "properties": tool["properties"],
        "required": tool["required"],
        "additionalProperties": False,
    }
    hints = {"readOnlyHint": reads_only, "destructiveHint": not reads_only, "openWorldHint": False}
    return {"name": name, "description": tool["description"], "inputSchema": schema, "annotations": hints}


def _as_mcp_prompt(name: str, row: dict[str, Any]) -> dict[str, Any]:
    properties = tools()[row["tool"]]["properties"]
    arguments = [
        {"name": argument, "description": properties[argument]["description"], "required": False}
        for argument in row["arguments"]
    ]
    return {"name": name, "description": row["description"], "arguments": arguments}


def _first_folder(result: object) -> str:
    """The first folder of this machine in an answer to `roots/list`."""
    from urllib.parse import unquote, urlsplit

    roots = result.get("roots") if isinstance(result, dict) else ()
    for root in roots if isinstance(roots, list) else ():
        parts = urlsplit(str(root.get("uri"))) if isinstance(root, dict) else None
        if parts and parts.scheme == "file" and Path(unquote(parts.path)).is_dir():
            return unquote(parts.path)
    return ""


def _session(meta: Any) -> str:
    """The client's own id of the calling session, so that recall does not return what was just said."""
    for variable in _SESSION_VARIABLES:
        if named := os.environ.get(variable):
            return named
    turn = meta.get(_CODEX_META) if isinstance(meta, dict) else None
    return str(turn.get("session_id") or "") if isinstance(turn, dict) else ""
