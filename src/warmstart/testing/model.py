"""A model endpoint on a loopback port that answers from a script.

It implements OpenAI's chat completions and responses, Anthropic's messages and Gemini's content, with and without
streaming, so that a test can drive a real agent without a network:

    with ScriptedModel([Reply(calls=[("shell", {"command": "make test"})]), Reply(text="All green.")]) as model:
        run_agent(base_url=f"{model.url}/v1")      # clients of Anthropic and Gemini take `model.url`
    assert "make test" in model.requests[1].text

Every request is recorded before it is answered.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Self

from warmstart.sessions.values import Usage

JSON = dict[str, Any]

USAGE = Usage(input=1_000, output=20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer of the model: reasoning, text, tool calls as (name, arguments), and the usage to report."""

    text: str = ""
    reasoning: str = ""
    calls: Sequence[tuple[str, JSON]] = ()
    usage: Usage = USAGE
    when: str = ""  # only for a request whose last user message contains this text
    repeat: bool = False  # for every such request, not just one


@dataclass(frozen=True, slots=True)
class Request:
    """What an agent sent. `body` is the JSON as received, `text` every string that the model would read."""

    path: str
    headers: dict[str, str]  # with lower-case names
    body: JSON

    @property
    def text(self) -> str:
        """The system text and the messages, one string per line, without the tool definitions."""
        keys = ("system", "instructions", "systemInstruction", "messages", "input", "contents")
        parts = (self.body.get(key) for key in keys)
        return "\n".join(text for part in parts for text in _strings(part))

    @property
    def last_user_text(self) -> str:
        """The last user message with text of its own, not counting tool results."""
        messages: Any = next((self.body[key] for key in ("messages", "input", "contents") if key in self.body), [])
        if isinstance(messages, str):
            return messages
        contents = (each.get("content", each.get("parts")) for each in reversed(messages) if each.get("role") == "user")
        return next((text for content in contents if (text := "\n".join(_words(content)))), "")

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of the tools that the agent offers."""
        offered = [each for tool in self.body.get("tools") or () for each in tool.get("functionDeclarations", (tool,))]
        return tuple(str(tool.get("function", tool).get("name", "")) for tool in offered)


Script = Callable[[Request], Reply]


@dataclass(slots=True)
class ScriptedModel:
    """A model that answers from a script: replies in order, or a function that gets the request.

    From a list, the first remaining reply whose `when` matches is used, and removed unless it repeats; if none matches,
    the model says "Done.". With `errand`, a request without tools (an agent's own errand, such as a title) gets that
    text and uses up no reply.
    """

    script: Script | Sequence[Reply] = ()
    errand: str | None = None
    requests: list[Request] = field(default_factory=list)
    url: str = ""
    _left: list[Reply] = field(default_factory=list)
    _numbers: dict[str, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _server: ThreadingHTTPServer | None = None
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._left = [] if callable(self.script) else list(self.script)
        self._server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"model": self}))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        return self

    def __exit__(self, *error: object) -> None:
        if self._server and self._thread:
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()

    def add(self, *replies: Reply) -> None:
        """Append replies to the script while the model is running."""
        with self._lock:
            self._left += replies

    def answer(self, request: Request) -> Reply:
        """Record a request and choose its reply."""
        with self._lock:
            self.requests.append(request)
            if self.errand is not None and not request.tools:
                return Reply(text=self.errand)
            if callable(self.script):
                return self.script(request)
            text = request.last_user_text
            reply = next((reply for reply in self._left if reply.when in text), None)
            if reply and not reply.repeat:
                self._left.remove(reply)
            return reply or Reply(text="Done.")

    def new_id(self, prefix: str) -> str:
        """The next id with this prefix: the same script gives the same ids."""
        with self._lock:
            number = self._numbers[prefix] = self._numbers.get(prefix, 0) + 1
        return f"{prefix}_scripted_{number:04d}"


class _Server(ThreadingHTTPServer):
    request_queue_size = 128  # with the default of 5, a busy machine resets connections


class _Handler(BaseHTTPRequestHandler):
    model: ClassVar[ScriptedModel]

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.end_headers()

    def do_GET(self) -> None:
        self._json({"object": "list", "data": [{"id": "scripted", "object": "model", "owned_by": "test"}]})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.partition("?")[0]
        if path.endswith("/count_tokens"):
            self._json({"input_tokens": len(body) // 4})
            return
        if path.endswith(":countTokens"):
            self._json({"totalTokens": len(body) // 4})
            return
        protocol = next((protocol for end, protocol in _PROTOCOLS.items() if path.endswith(end)), None)
        if protocol is None:
            self._json({"error": {"type": "not_found_error", "message": f"no {path} here"}}, 404)
            return
        create, stream = protocol
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(path, headers, json.loads(body))
        in_path = path.rpartition("/")[2].partition(":")[0]  # where Gemini has the model's name
        answer = create(self.model, str(request.body.get("model", in_path)), self.model.answer(request))
        if request.body.get("stream") or path.endswith(":streamGenerateContent"):
            self._stream(stream(answer))
        else:
            self._json(answer)

    def _stream(self, events: Iterator[JSON]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for event in events:
            name = f"event: {event['type']}\n" if "type" in event else ""
            self.wfile.write(f"{name}data: {json.dumps(event)}\n\n".encode())
        if event.get("object") == "chat.completion.chunk":
            self.wfile.write(b"data: [DONE]\n\n")

    def _json(self, payload: JSON, status: int = 200) -> None:
        body = json.dumps(payload).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Keep the test's output clean."""


def _create_message(model: ScriptedModel, name: str, reply: Reply) -> JSON:
    """An answer in Anthropic's Messages API."""
    content: list[JSON] = []
    if reply.reasoning:
        content.append({"type": "thinking", "thinking": reply.reasoning, "signature": "c2NyaXB0ZWQ="})
    if reply.text:
        content.append({"type": "text", "text": reply.text})
    for tool, arguments in reply.calls:
        content.append({"type": "tool_use", "id": model.new_id("toolu"), "name": tool, "input": arguments})
    usage = {
        "input_tokens": reply.usage.input,
        "output_tokens": reply.usage.output,
        "cache_read_input_tokens": reply.usage.cache_read,
        "cache_creation_input_tokens": reply.usage.cache_write,
    }
    reason = "tool_use" if reply.calls else "end_turn"
    frame = {"id": model.new_id("msg"), "type": "message", "role": "assistant", "model": name, "content": content}
    return {**frame, "stop_reason": reason, "stop_sequence": None, "usage": usage}


def _stream_message(message: JSON) -> Iterator[JSON]:
    yield {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}
    for index, block in enumerate(message["content"]):
        empty, deltas = _block_deltas(block)
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ending = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ending, "usage": message["usage"]}
    yield {"type": "message_stop"}


def _block_deltas(block: JSON) -> tuple[JSON, list[JSON]]:
    """A block as it is streamed: first empty, then the deltas."""
    if block["type"] == "text":
        return {**block, "text": ""}, [{"type": "text_delta", "text": block["text"]}]
    if block["type"] == "thinking":
        signed = {"type": "signature_delta", "signature": block["signature"]}
        deltas = [{"type": "thinking_delta", "thinking": block["thinking"]}, signed]
        return {**block, "thinking": "", "signature": ""}, deltas
    return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]


def _create_completion(model: ScriptedModel, name: str, reply: Reply) -> JSON:
    """An answer in OpenAI's chat completions."""
    message: JSON = {"role": "assistant", "content": reply.text or None}
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    if reply.calls:
        message["tool_calls"] = [
            {"id": model.new_id("call"), "type": "function", "function": {"name": tool, "arguments": json.dumps(given)}}
            for tool, given in reply.calls
        ]
    prompt = _prompt_tokens(reply.usage)
    usage = {
        "prompt_tokens": prompt,
        "completion_tokens": reply.usage.output,
        "total_tokens": prompt + reply.usage.output,
        "prompt_tokens_details": {"cached_tokens": reply.usage.cache_read},
        "completion_tokens_details": {"reasoning_tokens": reply.usage.reasoning},
    }
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if reply.calls else "stop"}
    frame = {"id": model.new_id("chatcmpl"), "object": "chat.completion", "created": 1_750_000_000, "model": name}
    return {**frame, "choices": [choice], "usage": usage}


def _stream_completion(completion: JSON) -> Iterator[JSON]:
    frame = {key: completion[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    choice = completion["choices"][0]
    calls = [{"index": index, **call} for index, call in enumerate(choice["message"].get("tool_calls", ()))]
    delta = {**choice["message"], "tool_calls": calls} if calls else choice["message"]
    yield {**frame, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**frame, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]}
    yield {**frame, "choices": [], "usage": completion["usage"]}


def _create_response(model: ScriptedModel, name: str, reply: Reply) -> JSON:
    """An answer in OpenAI's responses."""
    output: list[JSON] = []
    if reply.reasoning:
        summary = [{"type": "summary_text", "text": reply.reasoning}]
        output.append({"type": "reasoning", "id": model.new_id("rs"), "summary": summary})
    if reply.text:
        text = {"type": "output_text", "text": reply.text, "annotations": []}
        message = {"type": "message", "id": model.new_id("msg"), "role": "assistant", "content": [text]}
        output.append({**message, "status": "completed"})
    for tool, given in reply.calls:
        namespace, _, short = tool.rpartition(".")  # for instance that of an MCP server
        call = {"type": "function_call", "id": model.new_id("fc"), "call_id": model.new_id("call"), "name": short}
        call |= {"namespace": namespace} if namespace else {}
        output.append({**call, "arguments": json.dumps(given), "status": "completed"})
    prompt = _prompt_tokens(reply.usage)
    usage = {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": reply.usage.cache_read},
        "output_tokens": reply.usage.output,
        "output_tokens_details": {"reasoning_tokens": reply.usage.reasoning},
        "total_tokens": prompt + reply.usage.output,
    }
    frame = {"id": model.new_id("resp"), "object": "response", "created_at": 1_750_000_000, "model": name}
    settings = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    return {**frame, **settings, "status": "completed", "output": output, "usage": usage}


def _stream_response(response: JSON) -> Iterator[JSON]:
    for number, event in enumerate(_response_events(response)):
        yield {**event, "sequence_number": number}


def _response_events(response: JSON) -> Iterator[JSON]:
    yield {"type": "response.created", "response": {**response, "status": "in_progress", "output": [], "usage": None}}
    for index, item in enumerate(response["output"]):
        here = {"output_index": index}
        place = {**here, "item_id": item["id"]}
        if item["type"] == "message":
            text = {**place, "content_index": 0}
            part = item["content"][0]
            opened = {**item, "content": [], "status": "in_progress"}
            yield {"type": "response.output_item.added", **here, "item": opened}
            yield {"type": "response.content_part.added", **text, "part": {**part, "text": ""}}
            yield {"type": "response.output_text.delta", **text, "delta": part["text"]}
            yield {"type": "response.output_text.done", **text, "text": part["text"]}
            yield {"type": "response.content_part.done", **text, "part": part}
        elif item["type"] == "function_call":
            opened = {**item, "arguments": "", "status": "in_progress"}
            yield {"type": "response.output_item.added", **here, "item": opened}
            yield {"type": "response.function_call_arguments.delta", **place, "delta": item["arguments"]}
            yield {"type": "response.function_call_arguments.done", **place, "arguments": item["arguments"]}
        else:
            yield {"type": "response.output_item.added", **here, "item": {**item, "summary": []}}
        yield {"type": "response.output_item.done", **here, "item": item}
    yield {"type": "response.completed", "response": response}


def _create_content(model: ScriptedModel, name: str, reply: Reply) -> JSON:
    """An answer in Gemini's API."""
    parts: list[JSON] = []
    if reply.reasoning:
        parts.append({"text": reply.reasoning, "thought": True})
    if reply.text:
        parts.append({"text": reply.text})
    parts += [
        {"functionCall": {"id": model.new_id("call"), "name": tool, "args": given}} for tool, given in reply.calls
    ]
    prompt, usage = _prompt_tokens(reply.usage), reply.usage
    counts = {
        "promptTokenCount": prompt,
        "cachedContentTokenCount": usage.cache_read,
        "candidatesTokenCount": usage.output - usage.reasoning,
        "thoughtsTokenCount": usage.reasoning,
        "totalTokenCount": prompt + usage.output,
    }
    candidate = {"index": 0, "content": {"role": "model", "parts": parts}, "finishReason": "STOP"}
    return {
        "candidates": [candidate],
        "usageMetadata": counts,
        "modelVersion": name,
        "responseId": model.new_id("resp"),
    }


def _stream_content(answer: JSON) -> Iterator[JSON]:
    (candidate,) = answer["candidates"]
    *first, last = candidate["content"]["parts"] or [{"text": ""}]
    for part in first:
        yield {**answer, "candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}}]}
    yield {**answer, "candidates": [{**candidate, "content": {"role": "model", "parts": [last]}}]}


def _prompt_tokens(usage: Usage) -> int:
    """The prompt tokens as OpenAI and Google count them: including cached ones."""
    return usage.input + usage.cache_read + usage.cache_write


# How each path creates an answer, and how it streams one.
_PROTOCOLS: dict[str, tuple[Callable[[ScriptedModel, str, Reply], JSON], Callable[[JSON], Iterator[JSON]]]] = {
    "/messages": (_create_message, _stream_message),
    "/chat/completions": (_create_completion, _stream_completion),
    "/responses": (_create_response, _stream_response),
    ":generateContent": (_create_content, _stream_content),
    ":streamGenerateContent": (_create_content, _stream_content),
}


def _words(content: Any) -> Iterator[str]:
    """The text of a message's content: a string, or the text parts of a list."""
    if isinstance(content, str):
        yield content
    for part in content if isinstance(content, list) else ():
        if isinstance(part.get("text"), str):
            yield part["text"]


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _strings(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from _strings(each)
