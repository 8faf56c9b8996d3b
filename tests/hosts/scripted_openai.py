"""A model endpoint that speaks OpenAI's chat API on a loopback port and says what a test tells it to say.

Requests that offer tools are the agent's own turns and consume the script in order, where a reply `to` somebody waits
for the conversation that opens with these words; requests without tools are an agent's side errands (a title, a summary
of the conversation) and always get the same text. Every request is kept.
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
    """One answer of the model: words, or calls of tools as (name, arguments), and the prompt size it claims.

    `cached_tokens` of the prompt come from a cache.
    """

    text: str = ""
    calls: Sequence[tuple[str, dict[str, Any]]] = ()
    prompt_tokens: int = 1_000
    cached_tokens: int = 0
    to: str = ""


@dataclass(slots=True)
class ScriptedModel:
    """What the endpoint will say, and what it was asked."""

    replies: list[Reply]
    errand: str = "A plain summary of what was done."
    requests: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""
    _calls: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, request: dict[str, Any]) -> tuple[dict[str, Any], str, Reply]:
        """The message, the finish reason and the scripted reply for one request."""
        with self._lock:
            self.requests.append(request)
            if not request.get("tools"):
                return {"role": "assistant", "content": self.errand}, "stop", Reply(prompt_tokens=500)
            opening = next((str(each["content"]) for each in request["messages"] if each["role"] == "user"), "")
            reply = next((reply for reply in self.replies if reply.to in opening), None)
            if reply is None:
                reply = Reply(text="Done.")
            else:
                self.replies.remove(reply)
            calls = [self._call(index, name, arguments) for index, (name, arguments) in enumerate(reply.calls)]
        message: dict[str, Any] = {"role": "assistant", "content": reply.text}
        if calls:
            message["tool_calls"] = calls
        return message, "tool_calls" if calls else "stop", reply

    def _call(self, index: int, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        self._calls += 1
        function = {"name": name, "arguments": json.dumps(arguments)}
        return {"index": index, "id": f"call_scripted_{self._calls}", "type": "function", "function": function}


@contextmanager
def serving(model: ScriptedModel) -> Iterator[ScriptedModel]:
    """Serve `model` on a free port until the block ends; `model.url` is the base URL to configure."""
    with listening(type("Handler", (_Handler,), {"model": model})) as url:
        model.url = f"{url}/v1"
        yield model


class _Handler(BaseHTTPRequestHandler):
    model: ScriptedModel

    def do_GET(self) -> None:
        self._json({"object": "list", "data": [{"id": "scripted", "object": "model", "owned_by": "test"}]})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if not self.path.endswith("/chat/completions"):
            self._json({})
            return
        request = json.loads(body)
        message, reason, reply = self.model.answer(request)
        tokens = reply.prompt_tokens
        usage = {
            "prompt_tokens": tokens,
            "completion_tokens": 20,
            "total_tokens": tokens + 20,
            "prompt_tokens_details": {"cached_tokens": reply.cached_tokens},
        }
        frame = {"id": "chatcmpl-scripted", "created": 1_750_000_000, "model": "scripted"}
        if request.get("stream"):
            self._stream(frame, message, reason, usage)
            return
        choice = {"index": 0, "message": message, "finish_reason": reason}
        self._json({**frame, "object": "chat.completion", "choices": [choice], "usage": usage})

    def _stream(self, frame: dict[str, Any], message: dict[str, Any], reason: str, usage: dict[str, Any]) -> None:
        frame = {**frame, "object": "chat.completion.chunk"}
        chunks = [
            {**frame, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
            {**frame, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
            {**frame, "choices": [], "usage": usage},
        ]
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for chunk in chunks:
            self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        self.wfile.write(b"data: [DONE]\n\n")

    def _json(self, payload: dict[str, Any]) -> None:
        body = json.dumps(payload).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Keep the test's output clean."""
