"""A model endpoint that speaks Anthropic's Messages API on a loopback port and says what a test tells it to say.

Requests consume the script in the order in which they come. A request that asks for a summary of the conversation is an
errand of the agent's own and always gets the same text. Every request is kept.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.hosts.loopback import listening


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer of the model: a thought, words, and calls of tools as (name, input)."""

    thought: str = ""
    text: str = ""
    calls: Sequence[tuple[str, dict[str, Any]]] = ()


@dataclass(slots=True)
class ScriptedModel:
    """What the endpoint will say, and what it was asked."""

    replies: list[Reply]
    summary: str = "<summary>A plain summary of what was done.</summary>"
    requests: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""
    _turns: int = 0
    _messages: int = 0
    _calls: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, request: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
        """The id of the answer to one request, and its content."""
        with self._lock:
            self.requests.append(request)
            self._messages += 1
            identity = f"msg_scripted_{self._messages:04d}"
            asked = [message for message in request["messages"] if message["role"] == "user"]
            if "create a detailed summary" in json.dumps(asked[-1:]):
                return identity, [{"type": "text", "text": self.summary}]
            reply = self.replies[self._turns] if self._turns < len(self.replies) else Reply(text="Done.")
            self._turns += 1
            calls = [self._call(name, given) for name, given in reply.calls]
        thought = [{"type": "thinking", "thinking": reply.thought, "signature": "c2NyaXB0ZWQ="}]
        words = [{"type": "text", "text": reply.text}]
        return identity, thought * bool(reply.thought) + words * bool(reply.text) + calls

    def _call(self, name: str, given: dict[str, Any]) -> dict[str, Any]:
        self._calls += 1
        return {"type": "tool_use", "id": f"toolu_scripted_{self._calls:04d}", "name": name, "input": given}


@contextmanager
def serving(model: ScriptedModel) -> Iterator[ScriptedModel]:
    """Serve `model` on a free port until the block ends; `model.url` is the base URL to configure."""
    with listening(type("Handler", (_Handler,), {"model": model})) as url:
        model.url = url
        yield model


class _Handler(BaseHTTPRequestHandler):
    model: ScriptedModel

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.end_headers()

    def do_GET(self) -> None:
        self._json({})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.partition("?")[0]
        if path.endswith("/count_tokens"):
            self._json({"input_tokens": 1_000})
            return
        if not path.endswith("/v1/messages"):
            self._json({})
            return
        request = json.loads(body)
        identity, content = self.model.answer(request)
        reason = "tool_use" if content and content[-1]["type"] == "tool_use" else "end_turn"
        message = {
            "id": identity,
            "type": "message",
            "role": "assistant",
            "model": request["model"],
            "content": content,
            "stop_reason": reason,
            "stop_sequence": None,
            "usage": {
                "input_tokens": 1_000,
                "output_tokens": 20,
                "cache_read_input_tokens": 300,
                "cache_creation_input_tokens": 40,
            },
        }
        if request.get("stream"):
            self._stream(message)
        else:
            self._json(message, {"request-id": f"req_{identity}"})

    def _stream(self, message: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("request-id", f"req_{message['id']}")
        self.end_headers()
        opening = {**message, "content": [], "stop_reason": None}
        self._event({"type": "message_start", "message": opening})
        for index, block in enumerate(message["content"]):
            empty, deltas = _pieces(block)
            self._event({"type": "content_block_start", "index": index, "content_block": empty})
            for delta in deltas:
                self._event({"type": "content_block_delta", "index": index, "delta": delta})
            self._event({"type": "content_block_stop", "index": index})
        ending = {"stop_reason": message["stop_reason"], "stop_sequence": None}
        self._event({"type": "message_delta", "delta": ending, "usage": message["usage"]})
        self._event({"type": "message_stop"})

    def _event(self, event: dict[str, Any]) -> None:
        self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        self.wfile.flush()

    def _json(self, payload: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        body = json.dumps(payload).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Keep the test's output clean."""


def _pieces(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A block as it is streamed: empty at first, and what is added to it."""
    if block["type"] == "text":
        return {**block, "text": ""}, [{"type": "text_delta", "text": block["text"]}]
    if block["type"] == "thinking":
        signed = {"type": "signature_delta", "signature": block["signature"]}
        deltas = [{"type": "thinking_delta", "thinking": block["thinking"]}, signed]
        return {**block, "thinking": "", "signature": ""}, deltas
    return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
