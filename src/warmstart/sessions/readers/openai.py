"""Chat messages in the format of OpenAI's API, and the two benchmarks that use it for their logs (tau-bench and tau2).

Nobody owns this format, so it is wrapped in many ways: a list of messages, an object with `messages`, lists and lines
of either. Its quirks:

- A bare list does not name its session. The id is then the file's name with a digest of its path, and a message is
  identified by its index in the list. Numbers and short ids (`"id": 3`, `"id": "conv-1"`) occur in other files too, so
  they are prefixed with the file's name. The same id again in one file is a later snapshot of the session; the same
  task and trial of tau-bench is another run.
- The API does not say whether a call failed. tau2 adds `error`, tau-bench begins the text with `Error:`, tools that
  answer in JSON use `error`, `success` or `exit_code`, and frameworks have phrases for a tool that does not exist. A
  flag overrides the text, and an exit code overrides both.
- Calls are `{id, function: {name, arguments: text}}` or `{id, name, arguments: object}` (tau2). A result names its call
  in `tool_call_id`, or in `id` (tau2).
- tau2 logs the token usage and the tool calls of the simulated user on the user's messages. The usage is dropped; the
  calls stay there, so that they do not count as the agent's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, get_args

import msgspec

from warmstart.sessions.readers.base import Pair, Reader, Reading
from warmstart.sessions.readers.content import as_text, from_json, joined, object_in
from warmstart.sessions.readers.fields import Fields, as_dict, as_int, as_list, as_str, as_time, usage_of
from warmstart.sessions.readers.transcript import (
    DECODE_ERRORS,
    MAX_DOCUMENT,
    MAX_LINE,
    OBJECT,
    Line,
    Transcript,
    decode,
)
from warmstart.sessions.values import CallOutcome, Message, Role, Session, SessionOutcome, ToolCall, ToolResult

MIN_ID = 20  # characters of an id that is unique; UUIDs and providers' ids are longer

_ROLES: dict[str, Role] = {role: role for role in get_args(Role)} | {"developer": "system"}
_BOM = b"\xef\xbb\xbf"
# Keys in the logs of other agents that also contain messages with roles.
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


_Document = dict[str, msgspec.Raw] | list[msgspec.Raw]  # sessions stay raw until they are read
_DOCUMENT = msgspec.json.Decoder(_Document)
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_ANY = msgspec.json.Decoder(Any)


class Chats(Transcript[Any]):
    """A file: a document with one or more sessions, or one message or session per line."""

    agent = "openai"
    decoder = OBJECT

    def __init__(self, path: Path, reading: Reading) -> None:
        super().__init__(path, reading)
        # The session id for a file that has none; it stays the same as long as the file is not moved.
        place = str(path.resolve()).encode("utf-8", "surrogateescape")
        stem = path.stem.encode("utf-8", "replace").decode()
        self.file_id = f"{stem}-{blake2b(place, digest_size=4).hexdigest()}"
        self.learn(id=self.file_id)

    def pairs(self) -> Iterator[Pair]:
        with self.path.open("rb") as file:
            head = file.read(64 * 1024)
        if _is_in_lines(self.path, head):
            return super().pairs()
        self.decoder = _DOCUMENT
        return self.document_pairs()

    def take(self, fields: Fields, line: Line) -> Iterator[Pair]:
        position: int = self.state.get("position", 0)
        if "messages" in fields or "traj" in fields:
            yield from self.take_session(fields, self.native_id_of(fields, position))
        elif message := self.message_of(fields, f"{self.file_id}#{position}"):
            if message.timestamp and "started" not in self.state:
                self.learn(started=message.timestamp.isoformat())
            yield replace(self.session, model=message.model, ended_at=message.timestamp), message
        self.state["position"] = position + 1

    def take_document(self, document: _Document) -> Iterator[Pair]:
        seen: set[str] = set()
        for index, record in _sessions(document):
            native_id = self.native_id_of(record, index)
            if native_id in seen and "traj" in record:
                native_id = f"{native_id}:{index}"
            seen.add(native_id)
            yield from self.take_session(record, native_id)

    def native_id_of(self, record: Fields, index: int | None) -> str:
        base = self.file_id
        for key in ("id", "session_id", "conversation_id"):
            if own := _id(record.get(key)):
                return own if len(own) >= MIN_ID and not own.isdigit() else f"{base}:{own}"
        if "traj" in record:
            return f"{base}:{as_text(record.get('task_id', index))}:{as_text(record.get('trial', 0))}"
        return base if index is None else f"{base}:{index}"

    def take_session(self, record: Fields, native_id: str) -> Iterator[Pair]:
        items = record.get("traj", record.get("messages"))
        if not isinstance(items, list):
            self.reading.skip("no messages")
            return
        model = as_str(record.get("model"))
        found = (self.message_of(item, f"{native_id}#{number}", model) for number, item in enumerate(items))
        messages = list(filter(None, found))
        session = self.session_of(record, native_id, messages)
        for message in messages or (None,):
            yield session, message

    def session_of(self, record: Fields, native_id: str, messages: list[Message]) -> Session:
        times = [message.timestamp for message in messages if message.timestamp]
        named_times = [as_time(record.get(key)) for key in ("start_time", "created", "created_at")]
        model = as_str(record.get("model")) or next((message.model for message in messages if message.model), "")
        session = replace(
            self.session_from({"id": native_id, "title": record.get("title"), "model": model}),
            started_at=next((time for time in named_times if time), min(times, default=None)),
            ended_at=as_time(record.get("end_time")) or max(times, default=None),
        )
        for reward in (record.get("reward"), as_dict(record.get("reward_info")).get("reward")):
            if "task_id" in record and reward is not None and as_int(reward) is not None:
                outcome: SessionOutcome = "success" if reward >= 1 else "failure"
                return replace(session, outcome=outcome, evidence=f"reward {float(reward)}", judge="log")
        return session

    @staticmethod
    def outcome_of(tool: str, result: ToolResult) -> CallOutcome:
        """`flag` means error."""
        return _outcome(object_in(result.text), result.text, result.flag, result.exit_code)

    def message_of(self, item: object, native_id: str, model: str = "") -> Message | None:
        """The message in `item`, or `None` if it is not one."""
        message = chat_message(item, native_id, model)
        if message is None:
            self.reading.skip(as_str(as_dict(item).get("role")) or "no role")
        return message


def chat_message(item: object, native_id: str, model: str = "") -> Message | None:
    """The message in an object in OpenAI's format, or `None` if it is not one."""
    fields = as_dict(item)
    role = _ROLES.get(as_str(fields.get("role")).lower())
    if role is None:
        return None
    times = (as_time(fields.get(key)) for key in ("timestamp", "created_at", "created"))
    time = next(filter(None, times), None)
    if role == "tool":
        return Message(native_id=native_id, role=role, tool_results=(_result(fields, native_id),), timestamp=time)
    is_model = role == "assistant"
    counts = as_dict(fields.get("usage")) if is_model else {}
    reasoning = as_dict(counts.get("completion_tokens_details")).get("reasoning_tokens")
    counts |= {"read": as_dict(counts.get("prompt_tokens_details")).get("cached_tokens"), "reasoning": reasoning}
    return Message(
        native_id=native_id,
        role=role,
        text=joined(fields.get("content")) or as_str(fields.get("refusal")),
        reasoning=joined(fields.get("reasoning") or fields.get("reasoning_content")),
        tool_calls=_calls(fields, native_id),
        timestamp=time,
        model=(as_str(fields.get("model")) or model) if is_model else "",
        usage=usage_of(counts, "prompt_tokens", "completion_tokens", "read", "", "reasoning", all_input=True),
    )


def _sessions(document: _Document) -> Iterator[tuple[int | None, Fields]]:
    """The sessions of a document, decoded one at a time, with their index if there can be several."""
    shared: Fields = {}
    if isinstance(document, list):
        items = document
        if items and "role" in as_dict(decode(items[0], _ANY)):
            yield None, {"messages": [decode(item, _ANY) for item in items]}
            return
    elif "simulations" in document:
        items = decode(document["simulations"], _ITEMS)
        info = decode(document.get("info", msgspec.Raw(b"null")), _ANY)
        shared["model"] = as_dict(as_dict(info).get("agent_info")).get("llm")
    else:
        yield None, {key: decode(value, _ANY) for key, value in document.items()}
        return
    for index, item in enumerate(items):
        yield index, shared | as_dict(decode(item, _ANY))


class OpenAIReader(Reader):
    """Reads chat messages in OpenAI's format, from the paths that the user names."""

    log = Chats
    suffixes = (".json", ".jsonl")
    has_system_prompt_of_vendor = False

    def claims(self, path: Path, head: bytes) -> bool:
        """Whether the first session of the file has messages in OpenAI's format."""
        if not head.removeprefix(_BOM).lstrip().startswith((b"{", b"[")):
            return False
        try:
            if _is_in_lines(path, head):
                with path.open("rb") as file:
                    rows = [file.readline(MAX_LINE) for _ in range(5)]
                found = [as_dict(from_json(row)) for row in rows if row.strip()]
                # The last line may be incomplete.
                has_roles = all(isinstance(each.get("role"), str) for each in found[:-1])
                return _is_record(found[0]) or (has_roles and _is_record({"messages": found}))
            if path.stat().st_size > MAX_DOCUMENT:
                return False
            return _is_record(next(_sessions(decode(path.read_bytes(), _DOCUMENT)))[1])
        except (*DECODE_ERRORS, OSError, LookupError, StopIteration):
            return False


def _is_in_lines(path: Path, head: bytes) -> bool:
    """Whether each line of the file is a separate object."""
    first, _, rest = head.removeprefix(_BOM).lstrip().partition(b"\n")
    if not first.startswith(b"{") or first.strip() == b"{":
        return False
    if path.suffix == ".jsonl":
        return True
    fields = from_json(first)
    return isinstance(fields, dict) and (bool(rest.strip()) or "role" in fields)


def _is_record(record: Fields) -> bool:
    """Whether a session has messages, judging by the first one."""
    items = record.get("traj" if "task_id" in record and "traj" in record else "messages")
    first = as_dict(items[0]) if isinstance(items, list) and items else {}
    has_content = "content" in first and isinstance(first["content"], str | list | None)
    is_message = as_str(first.get("role")) in _ROLES and (has_content or isinstance(first.get("tool_calls"), list))
    return is_message and not (first.keys() | record.keys()) & _FOREIGN


def _id(value: object) -> str:
    """An id as text, whether it is text or a number."""
    number = as_int(value)
    return as_str(value) if number is None else str(number)


def _calls(fields: Fields, native_id: str) -> tuple[ToolCall, ...]:
    calls: list[ToolCall] = []
    for index, call in enumerate(map(as_dict, as_list(fields.get("tool_calls")))):
        if call:
            body = as_dict(call.get("function")) or as_dict(call.get("custom")) or call
            arguments = as_text(body.get("arguments", body.get("input"))) or "{}"
            call_id = _id(call.get("id")) or f"{native_id}.{index}"
            calls.append(ToolCall(id=call_id, name=as_str(body.get("name")), arguments=arguments))
    return tuple(calls)


def _result(fields: Fields, native_id: str) -> ToolResult:
    call_id = _id(fields.get("tool_call_id")) or _id(fields.get("id")) or f"{native_id}.0"
    text = joined(fields.get("content"))
    body = object_in(text)
    error, code = fields.get("error", fields.get("is_error")), _exit_code(body, text)
    flag = (bool(error) or None) if isinstance(error, str) else error if isinstance(error, bool) else None
    flag = True if flag is None and fields.get("status") == "error" else flag
    outcome = _outcome(body, text, flag, code)
    return ToolResult(call_id=call_id, outcome=outcome, text=text, flag=flag, exit_code=code)


def _exit_code(body: Fields, text: str) -> int | None:
    for key in ("exit_code", "exitCode", "returncode"):
        if (code := as_int(body.get(key))) is not None:
            return code
    found = _EXIT.match(text)
    return int(found[1]) if found else None


def _outcome(body: Fields, text: str, flag: bool | None, exit_code: int | None) -> CallOutcome:
    error = body.get("error")
    if _REJECTED.match(text) or _REJECTED.match(as_str(error)):
        return "rejected"
    if exit_code:
        return "error"
    if flag is not None:
        return "error" if flag else "ok"
    failed = bool(error) or body.get("success") is False or FAILED.match(text) is not None
    return "error" if failed else "ok"
