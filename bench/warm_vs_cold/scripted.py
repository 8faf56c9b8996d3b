"""A model that follows a script, for a dry run of the experiment: it solves only the file tasks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


def answer(messages: list[dict[str, Any]]) -> str:
    """The next answer: a call as JSON in a code fence, as small models write it."""
    request = next(str(each["content"]) for each in reversed(messages) if each["role"] == "user")
    results = [str(each["content"]) for each in messages if each["role"] == "tool"]
    last = results[-1] if messages[-1]["role"] == "tool" else ""
    if found := re.search(r"Set (\w+) to (\w+) in (etc/\w+\.conf)", request):
        key, new, path = found.groups()
        path = f"/{path}"
        if last.startswith("["):
            old = re.search(rf"{key} = (\w+)", last)
            return call("edit_file", path=path, old=f"{key} = {old[1] if old else ''}", new=f"{key} = {new}")
        if last.endswith("strict: ok"):
            return call("return_answer", answer="done")
        if last == "ok":
            return call("check_file", path=path, level="strict")
        return call("read_file", path=path)
    return call("return_answer", answer="I do not know")


def call(name: str, **arguments: object) -> str:
    return "```json\n" + json.dumps({"name": name, "arguments": arguments}) + "\n```"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        message = {"role": "assistant", "content": answer(body["messages"])}
        usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
        reply = {"id": "x", "object": "chat.completion", "created": 0, "model": "scripted", "usage": usage}
        reply["choices"] = [{"index": 0, "message": message, "finish_reason": "stop"}]
        data = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def scripted_model(port: int) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", port), _Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.shutdown()
        server.server_close()
