"""Chat messages in the shape of OpenAI's API, and the two benchmarks that log in it (tau-bench and tau2).

Nobody owns this format, so it comes in many wrappings: a list of messages, an object with `messages`, lists and lines
of either. Its traps:

- A bare list does not name its session. The name is then the file's name with a digest of its path, and a message is
  its place in the list. Numbers and short names (`"id": 3`, `"id": "conv-1"`) occur in other files too, so the file's
  name is put before them. The same id again in one file is a later snapshot of the session; the same task and trial of
  tau-bench is another run.
- tau2 begins with hundreds of kilobytes about its tasks: the first 64 KB do not reach `simulations`.
- The standard does not say whether a call failed. tau2 adds `error`, tau-bench begins the text with `Error:`, tools
  that answer in JSON use `error`, `success` or `exit_code`, and frameworks have phrases for a tool that does not exist.
  A flag outweighs words, and an exit code outweighs both.
- Calls are `{id, function: {name, arguments: text}}`, `{id, name, arguments: object}` (tau2), or in the old shape one
  `function_call` without an id, which a message of role `function` answers.
- tau2 logs the token usage and the tool calls of the simulated user on the user's messages. The usage is dropped, and
  the calls stay there, so that they are not the agent's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from warmstart.sessions.readers.base import LogReader, Pair, Reading
from warmstart.sessions.readers.decoding import DECODE_ERRORS, Line, decode, read_document
from warmstart.sessions.readers.fields import (
    as_dict,
    as_int,
    as_list,
    as_str,
    as_text,
    as_time,
    from_json,
    joined,
    usage_of,
)
from warmstart.sessions.readers.transcript import Transcript
from warmstart.sessions.values import CallOutcome, Message, Role, Session, SessionOutcome, ToolCall, ToolResult, Usage

AGENT = "openai"
MIN_ID = 20  # characters of an id that is unique; UUIDs and the ids of providers are longer

_Fields = dict[str, Any]
_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
_BOM = b"\xef\xbb\xbf"
# Keys in the logs of other agents, which contain messages with roles too.
_FOREIGN = {"parts", "payload", "projectHash", "sessionId", "sessionID", "uuid"}
_REJECTED = re.compile(
    r"\s*(?:error:\s*)?(?:the )?user (?:has )?(?:denied|rejected|declined|(?:does not|doesn.t|did not|didn.t) want)\b",
    re.IGNORECASE,
)
FAILED = re.compile(
    r"\s*(?:Error:|Error executing\b|Traceback \(most recent call last\)|<tool_use_error>"
    r"|Tool '[^'\n]{0,200}' (?:does not exist|not found)\b|Unknown tool:)"
)
_EXIT = re.compile(r"\s*(?:Error: )?Exit code:? (-?\d{1,9})\b", re.IGNORECASE)


class Document(msgspec.Struct):
    """The outermost object of a file; its sessions stay raw."""

    info: msgspec.Raw = msgspec.Raw(b"null")
    simulations: msgspec.Raw = msgspec.Raw()


_DOCUMENT = msgspec.json.Decoder(Document)
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_OBJECT = msgspec.json.Decoder(_Fields)
_ANY = msgspec.json.Decoder(Any)


class OpenAIReader(LogReader):
    """Reads chat messages in OpenAI's shape, from the paths that the user names."""

    agent = AGENT

    def roots(self, env: Mapping[str, str], home: Path) -> list[Path]:
        return []

    def is_log(self, name: str) -> bool:
        return name.endswith((".json", ".jsonl"))

    def claims(self, path: Path, head: bytes) -> bool:
        text = head.removeprefix(_BOM).decode("utf-8", "replace").lstrip()
        if _is_in_lines(path, head):
            rows = [_peek(row.strip()) for row in text.split("\n")[:50] if row.strip()]
            return _is_chat(rows) or _all_but_last(rows, _is_record)
        value = _peek(text)
        if isinstance(value, list):
            return _is_chat(value) or _all_but_last(value, _is_record)
        return _is_record(value) or _is_tau2(value)

    def pairs(self, path: Path, reading: Reading) -> Iterator[Pair]:
        with path.open("rb") as file:
            head = file.read(64 * 1024)
        return _Lines(path, reading).pairs() if _is_in_lines(path, head) else _document_pairs(path, reading)

    def outcome_of(self, tool: str, result: ToolResult) -> CallOutcome:
        """`flag` means error."""
        return _outcome(_json_in(result.text), result.text, result.flag, result.exit_code)


# What a file contains, by its beginning

_scan = json.JSONDecoder().raw_decode
_BETWEEN = re.compile(r"[\s,:]*")


def _is_in_lines(path: Path, head: bytes) -> bool:
    """Whether each line of the file is an object of its own."""
    first, _, rest = head.removeprefix(_BOM).lstrip().partition(b"\n")
    if not first.startswith(b"{") or first.strip() == b"{":
        return False
    if path.suffix == ".jsonl":
        return True
    fields = from_json(first)
    return isinstance(fields, dict) and (bool(rest.strip()) or "role" in fields)


def _peek(text: str, at: int = 0, depth: int = 5) -> Any:
    """As much as there is of the JSON value at `at`, which may be cut off."""
    try:
        return _scan(text, at)[0]
    except (ValueError, RecursionError):
        opening = text[at : at + 1]
    if depth == 0 or opening not in ("[", "{"):
        return None
    found: list[Any] = []
    at = _skip_separators(text, at + 1)
    while at < len(text) and text[at] not in "]}":
        try:
            value, at = _scan(text, at)
        except (ValueError, RecursionError):
            found.append(_peek(text, at, depth - 1))
            break
        found.append(value)
        at = _skip_separators(text, at)
    if opening == "[":
        return found
    return {key: value for key, value in zip(found[::2], found[1::2], strict=False) if isinstance(key, str)}


def _skip_separators(text: str, at: int) -> int:
    between = _BETWEEN.match(text, at)
    return between.end() if between else at


def _all_but_last(values: list[Any], test: Callable[[Any], bool]) -> bool:
    """Whether the values pass; the last of several may be cut off and does not count."""
    return bool(values) and all(test(value) for value in values[:-1] or values)


def _is_chat(values: object) -> bool:
    if not isinstance(values, list) or not values or not _is_message(values[0]):
        return False
    return _all_but_last(values, lambda value: isinstance(as_dict(value).get("role"), str))


def _is_message(value: object) -> bool:
    fields = as_dict(value)
    if as_str(fields.get("role")) not in _ROLES or fields.keys() & _FOREIGN:
        return False
    if "content" in fields and isinstance(fields["content"], str | list | None):
        return True
    return isinstance(fields.get("tool_calls"), list) or isinstance(fields.get("function_call"), dict)


def _is_record(value: object) -> bool:
    fields = as_dict(value)
    if fields.keys() & _FOREIGN:
        return False
    return _is_chat(fields.get("messages")) or ("task_id" in fields and _is_chat(fields.get("traj")))


def _is_tau2(value: object) -> bool:
    fields = as_dict(value)
    parties = {"agent_info", "user_info"} <= as_dict(fields.get("info")).keys()
    return parties and not fields.keys().isdisjoint({"tasks", "simulations"})


# The sessions of a file


def _document_pairs(path: Path, reading: Reading) -> Iterator[Pair]:
    reading.offset = reading.line = 0
    data = read_document(path)
    size, data = len(data), data.removeprefix(_BOM)
    base, seen = _file_id(path), set[str]()
    if data.strip():
        try:
            for index, record in _document_records(data):
                native_id = _native_id(record, base, index)
                if native_id in seen and "traj" in record:
                    native_id = f"{native_id}:{index}"
                seen.add(native_id)
                yield from _session_pairs(record, native_id, path, reading)
        except DECODE_ERRORS as error:
            reading.report(1, error)
            return
    reading.offset = size


def _document_records(data: bytes) -> Iterator[tuple[int | None, _Fields]]:
    """The sessions of a document, decoded one at a time, with their index where there can be several."""
    shared: _Fields = {}
    if data.lstrip()[:1] == b"[":
        items = decode(data, _ITEMS)
        if items and "role" in as_dict(decode(items[0], _ANY)):
            yield None, {"messages": decode(data, _ANY)}
            return
    else:
        document = decode(data, _DOCUMENT)
        if not memoryview(document.simulations):
            yield None, decode(data, _OBJECT)
            return
        items = decode(document.simulations, _ITEMS)
        shared["model"] = as_dict(as_dict(decode(document.info, _ANY)).get("agent_info")).get("llm")
    for index, item in enumerate(items):
        yield index, shared | as_dict(decode(item, _ANY))


class _Lines(Transcript[_Fields]):
    """A file with one message, or one session, per line."""

    agent = AGENT
    decoder = _OBJECT

    def __init__(self, path: Path, reading: Reading) -> None:
        super().__init__(path, reading)
        self.thread = _Thread(_file_id(path))
        self.thread.position, self.thread.waiting = self.state.get("position", 0), self.state.get("waiting", [])
        self.started: str = self.state.get("started", "")

    def take(self, fields: _Fields, line: Line) -> Iterator[Pair]:
        if "messages" in fields or "traj" in fields:
            native_id = _native_id(fields, self.thread.native_id, self.thread.position)
            self.thread.position += 1
            yield from _session_pairs(fields, native_id, self.path, self.reading)
        elif message := self.thread.message(fields, self.reading):
            self.started = self.started or (message.timestamp.isoformat() if message.timestamp else "")
            session = Session(
                agent=AGENT,
                native_id=self.thread.native_id,
                source=str(self.path),
                model=message.model,
                started_at=as_time(self.started),
                ended_at=message.timestamp,
            )
            yield session, message

    def move(self, line: Line) -> None:
        super().move(line)
        self.state |= {"position": self.thread.position, "waiting": self.thread.waiting}
        if self.started:
            self.state["started"] = self.started


def _session_pairs(record: _Fields, native_id: str, path: Path, reading: Reading) -> Iterator[Pair]:
    listed = record.get("traj", record.get("messages"))
    if not isinstance(listed, list):
        reading.skip("no messages")
        return
    thread = _Thread(native_id, model=as_str(record.get("model")))
    messages = [message for item in listed if (message := thread.message(item, reading))]
    session = _session(record, native_id, path, messages)
    if not messages:
        yield session, None
    for message in messages:
        yield session, message


def _session(record: _Fields, native_id: str, path: Path, messages: list[Message]) -> Session:
    times = [message.timestamp for message in messages if message.timestamp]
    named_times = [as_time(record.get(key)) for key in ("start_time", "created", "created_at")]
    session = Session(
        agent=AGENT,
        native_id=native_id,
        source=str(path),
        model=as_str(record.get("model")) or next((message.model for message in messages if message.model), ""),
        title=as_str(record.get("title")),
        started_at=next((time for time in named_times if time), min(times, default=None)),
        ended_at=as_time(record.get("end_time")) or max(times, default=None),
    )
    reward = _reward(record) if "task_id" in record else None
    if reward is None:
        return session
    outcome: SessionOutcome = "success" if reward >= 1 else "failure"
    return replace(session, outcome=outcome, evidence=f"reward {reward}", judge="log")


def _reward(record: _Fields) -> float | None:
    for value in (record.get("reward"), as_dict(record.get("reward_info")).get("reward")):
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**53:
            return float(value)
    return None


def _native_id(record: _Fields, base: str, index: int | None) -> str:
    for key in ("id", "session_id", "conversation_id"):
        if own := _id(record.get(key)):
            return own if len(own) >= MIN_ID and not own.isdigit() else f"{base}:{own}"
    if "traj" in record:
        return f"{base}:{as_text(record.get('task_id', index))}:{as_text(record.get('trial', 0))}"
    return base if index is None else f"{base}:{index}"


def _file_id(path: Path) -> str:
    """The name of the session of a file that names none; it stays the same while the file is not moved."""
    place = str(path.resolve()).encode("utf-8", "surrogateescape")
    stem = path.stem.encode("utf-8", "replace").decode()
    return f"{stem}-{blake2b(place, digest_size=4).hexdigest()}"


def _id(value: object) -> str:
    """An id as text, whether it is text or a number."""
    number = as_int(value)
    return as_str(value) if number is None else str(number)


# Messages


class _Thread:
    """The messages of one session: the next position, and the calls (id and name) that wait for a result."""

    def __init__(self, native_id: str, model: str = "") -> None:
        self.native_id = native_id
        self.model = model
        self.position = 0
        self.waiting: list[list[str]] = []

    def message(self, item: object, reading: Reading) -> Message | None:
        """The next message, or `None` if the item is not one; it counts as a position either way."""
        native_id = f"{self.native_id}#{self.position}"
        self.position += 1
        fields = as_dict(item)
        role = _ROLES.get(as_str(fields.get("role")).lower())
        if role is None:
            reading.skip(as_str(fields.get("role")) or "no role")
            return None
        times = (as_time(fields.get(key)) for key in ("timestamp", "created_at", "created"))
        time = next(filter(None, times), None)
        if role == "tool":
            return Message(
                native_id=native_id, role=role, tool_results=(self.result(fields, native_id),), timestamp=time
            )
        calls = _calls(fields, native_id)
        if calls:
            self.waiting = [[call.id, call.name] for call in calls]
        is_model = role == "assistant"
        return Message(
            native_id=native_id,
            role=role,
            text=_content(fields.get("content")) or as_str(fields.get("refusal")),
            reasoning=joined(fields.get("reasoning") or fields.get("reasoning_content")),
            tool_calls=calls,
            timestamp=time,
            model=(as_str(fields.get("model")) or self.model) if is_model else "",
            usage=_usage(as_dict(fields.get("usage"))) if is_model else None,
        )

    def result(self, fields: _Fields, native_id: str) -> ToolResult:
        call_id = _id(fields.get("tool_call_id")) or self.answered_call(fields) or f"{native_id}.0"
        self.waiting = [call for call in self.waiting if call[0] != call_id]
        text = _content(fields.get("content"))
        body = _json_in(text)
        flag, code = _flag(fields), _exit_code(body, text)
        outcome = _outcome(body, text, flag, code)
        return ToolResult(call_id=call_id, outcome=outcome, text=text, flag=flag, exit_code=code)

    def answered_call(self, fields: _Fields) -> str:
        """The call that a result without `tool_call_id` answers: the one it names, else the first that waits."""
        own, name = _id(fields.get("id")), as_str(fields.get("name"))
        waiting = [call_id for call_id, _ in self.waiting]
        if own and (own in waiting or not waiting):
            return own
        by_name = [call_id for call_id, called in self.waiting if name and called == name]
        return next(iter(by_name or waiting), "")


def _usage(counts: _Fields) -> Usage | None:
    """The API counts cached tokens as input too."""
    read = as_int(as_dict(counts.get("prompt_tokens_details")).get("cached_tokens")) or 0
    return usage_of(
        input=(as_int(counts.get("prompt_tokens")) or 0) - read,
        output=counts.get("completion_tokens"),
        cache_read=read,
        reasoning=as_dict(counts.get("completion_tokens_details")).get("reasoning_tokens"),
    )


def _content(value: object) -> str:
    return joined(value) if isinstance(value, list) else as_text(value)


def _calls(fields: _Fields, native_id: str) -> tuple[ToolCall, ...]:
    calls: list[ToolCall] = []
    for index, item in enumerate([*as_list(fields.get("tool_calls")), fields.get("function_call")]):
        if call := as_dict(item):
            body = as_dict(call.get("function")) or as_dict(call.get("custom")) or call
            arguments = as_text(body.get("arguments", body.get("input"))) or "{}"
            call_id = _id(call.get("id")) or f"{native_id}.{index}"
            calls.append(ToolCall(id=call_id, name=as_str(body.get("name")), arguments=arguments))
    return tuple(calls)


# Outcomes


def _json_in(text: str) -> _Fields:
    return as_dict(from_json(text)) if text.lstrip()[:1] == "{" else {}


def _flag(fields: _Fields) -> bool | None:
    for key in ("error", "is_error"):
        value = fields.get(key)
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value:
            return True
    return True if fields.get("status") == "error" else None


def _exit_code(body: _Fields, text: str) -> int | None:
    for key in ("exit_code", "exitCode", "returncode"):
        if (code := as_int(body.get(key))) is not None:
            return code
    found = _EXIT.match(text)
    return int(found[1]) if found else None


def _outcome(body: _Fields, text: str, flag: bool | None, exit_code: int | None) -> CallOutcome:
    error = body.get("error")
    if _REJECTED.match(text) or _REJECTED.match(as_str(error)):
        return "rejected"
    if exit_code:
        return "error"
    if flag is not None:
        return "error" if flag else "ok"
    failed = bool(error) or body.get("success") is False or FAILED.match(text) is not None
    return "error" if failed else "ok"
