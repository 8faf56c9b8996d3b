"""Chat messages in the OpenAI shape, and the two benchmarks that keep their runs in it (tau-bench and tau2).

Nobody owns this format, so it comes in many wrappings: a list of messages, an object with `messages`, lists and lines
of either. The traps:

- Nothing in a bare list names its session. The name is then made of the file's name and a digest of its path, and a
  message is its place in the list. Numbers and short names given as ids (`"id": 3`, `"id": "conv-1"`) are those of
  other sessions in other files too: the file's name goes before them.
- The same `"id"` again in one file is a later snapshot of the same session; a task and trial of tau-bench that comes
  again is another run.
- tau2 opens with hundreds of kilobytes about its tasks: the first 64 KB do not reach `simulations`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from warmstart.errors import LogError
from warmstart.sessions.readers.base import Line, Pair, Reading, lines
from warmstart.sessions.readers.chat import ROLES, Fields, Thread, named
from warmstart.sessions.readers.decoding import DECODE_ERRORS, decode, split_objects
from warmstart.sessions.readers.document import read_whole
from warmstart.sessions.readers.fields import as_dict, as_str, as_text, as_time, from_json
from warmstart.sessions.readers.walking import files_below
from warmstart.sessions.values import Message, Session, SessionOutcome

T = TypeVar("T")

AGENT = "openai"
_HEAD = 64 * 1024
_BOM = b"\xef\xbb\xbf"
# From this length on an id is taken to be like no other; UUIDs and the ids that providers give are longer.
_UNIQUE = 20

# Keys of other agents' logs, which hold messages with roles too.
_FOREIGN = {"parts", "payload", "projectHash", "sessionId", "sessionID", "uuid"}


class _Document(msgspec.Struct):
    """The outermost object of a file; its sessions stay undecoded bytes."""

    info: msgspec.Raw = msgspec.Raw(b"null")
    simulations: msgspec.Raw = msgspec.Raw()


_DOCUMENT = msgspec.json.Decoder(_Document)
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_OBJECT = msgspec.json.Decoder(dict[str, Any])
_ANY = msgspec.json.Decoder(Any)


class OpenAIReader:
    """Reads chat messages in the OpenAI shape, wherever the user points to."""

    agent = AGENT

    def roots(self, env: Mapping[str, str], home: Path) -> list[Path]:
        """None: these files have no home of their own."""
        return []

    def find(self, root: Path) -> Iterable[Path]:
        """The JSON and JSON-lines files below `root`, in the order of their names."""
        return files_below(root, lambda name: name.endswith((".json", ".jsonl")))

    def claims(self, path: Path, head: bytes) -> bool:
        """Whether the beginning holds chat messages, or the runs of tau-bench or tau2, and nothing else."""
        text = head.removeprefix(_BOM).decode("utf-8", "replace").lstrip()
        if _in_lines(path, head):
            rows = [_peek(row.strip()) for row in text.split("\n")[:50] if row.strip()]
            return _is_chat(rows) or _all_but_cut(rows, _is_record)
        value = _peek(text)
        if isinstance(value, list):
            return _is_chat(value) or _all_but_cut(value, _is_record)
        return _is_record(value) or _is_tau2(value)

    def read(self, path: Path, reading: Reading) -> Iterator[Pair]:
        """Stream the sessions of `path`: a document as a whole, lines from where they were left."""
        try:
            with path.open("rb") as file:
                in_lines = _in_lines(path, file.read(_HEAD))
            yield from (_from_lines if in_lines else _from_document)(path, reading)
        except OSError as error:
            raise LogError(
                f"cannot read {str(path)!r} ({error.strerror}): check that it exists and is yours"
            ) from error


def _in_lines(path: Path, head: bytes) -> bool:
    """Whether each line of the file is an object of its own."""
    first, _, rest = head.removeprefix(_BOM).lstrip().partition(b"\n")
    if not first.startswith(b"{") or first.strip() == b"{":
        return False
    if path.suffix == ".jsonl":
        return True
    fields = from_json(first)
    return isinstance(fields, dict) and (bool(rest.strip()) or "role" in fields)


# What a file holds, told from its beginning.

_SCAN = json.JSONDecoder().raw_decode
_BETWEEN = re.compile(r"[\s,:]*")


def _peek(text: str, at: int = 0, depth: int = 5) -> Any:
    """What there is of the value at `at`, which may be cut off: what is cut off inside it comes last, or as `None`."""
    try:
        return _SCAN(text, at)[0]
    except (ValueError, RecursionError):
        opening = text[at : at + 1]
    if depth == 0 or opening not in ("[", "{"):
        return None
    found: list[Any] = []
    at = _past(text, at + 1)
    while at < len(text) and text[at] not in "]}":
        try:
            value, at = _SCAN(text, at)
        except (ValueError, RecursionError):
            found.append(_peek(text, at, depth - 1))
            break
        found.append(value)
        at = _past(text, at)
    if opening == "[":
        return found
    return {key: value for key, value in zip(found[::2], found[1::2], strict=False) if isinstance(key, str)}


def _past(text: str, at: int) -> int:
    between = _BETWEEN.match(text, at)
    return between.end() if between else at


def _all_but_cut(values: list[Any], test: Callable[[Any], bool]) -> bool:
    # The last one may be cut off, and is then no witness, unless it is the only one.
    return bool(values) and all(test(value) for value in values[:-1] or values)


def _is_chat(values: object) -> bool:
    if not isinstance(values, list) or not values or not _is_message(values[0]):
        return False
    return _all_but_cut(values, lambda value: isinstance(as_dict(value).get("role"), str))


def _is_message(value: object) -> bool:
    fields = as_dict(value)
    if as_str(fields.get("role")) not in ROLES or fields.keys() & _FOREIGN:
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


# From bytes to the sessions of a file.


def _from_document(path: Path, reading: Reading) -> Iterator[Pair]:
    """Every session of one JSON document, always from its beginning: a document does not grow, it is replaced."""
    reading.offset = reading.line = 0
    data = read_whole(path)
    size, data = len(data), data.removeprefix(_BOM)
    base, seen = _stem(path), set[str]()
    if data.strip():
        try:
            for index, record in _records(data):
                native_id = _native_id(record, base, index)
                if native_id in seen and "traj" in record:
                    native_id = f"{native_id}:{index}"
                seen.add(native_id)
                yield from _conversation(record, native_id, path, reading)
        except DECODE_ERRORS as error:
            reading.fault(1, error)
            return
    reading.offset = size


def _records(data: bytes) -> Iterator[tuple[int | None, Fields]]:
    """The sessions of a document, decoded one at a time, numbered where there can be several."""
    shared: Fields = {}
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


def _from_lines(path: Path, reading: Reading) -> Iterator[Pair]:
    """One message, or one session, a line. The place to go on from moves only when all of a line was taken."""
    thread = Thread(_stem(path))
    thread.position, thread.waiting = reading.state.get("position", 0), reading.state.get("waiting", [])
    started = as_time(reading.state.get("started"))
    for line in lines(path, reading):
        objects = _objects(line, reading)
        if objects is None:
            return
        for fields in objects:
            if "messages" in fields or "traj" in fields:
                native_id = _native_id(fields, thread.native_id, thread.position)
                thread.position += 1
                yield from _conversation(fields, native_id, path, reading)
            elif message := thread.message(fields, reading):
                started = started or message.timestamp
                yield _so_far(thread, path, started, message), message
        reading.offset, reading.line = line.end, line.number
        reading.state |= {"position": thread.position, "waiting": thread.waiting}
        if started:
            reading.state["started"] = started.isoformat()


def _objects(line: Line, reading: Reading) -> list[Fields] | None:
    """The objects of a line: usually one; two after an interrupted write; `None` while it is still being written."""
    data = line.data.removeprefix(_BOM)
    try:
        return [decode(data, _OBJECT)]
    except DECODE_ERRORS as error:
        parts = split_objects(data)
        if len(parts) > 1:
            return _parted(parts, line, reading)
        if not data.endswith(b"\n") and not isinstance(error, msgspec.ValidationError):
            return None
        reading.fault_at(line.start, line.number, error)
        return []


def _parted(parts: list[bytes], line: Line, reading: Reading) -> list[Fields]:
    found: list[Fields] = []
    for part in parts:
        try:
            found.append(decode(part, _OBJECT))
        except DECODE_ERRORS as error:
            reading.fault_at(line.start, line.number, error)
    return found


def _so_far(thread: Thread, path: Path, started: datetime | None, message: Message) -> Session:
    return Session(
        agent=AGENT,
        native_id=thread.native_id,
        source=str(path),
        model=message.model,
        started_at=started,
        ended_at=message.timestamp,
    )


# One session.


def _conversation(record: Fields, native_id: str, path: Path, reading: Reading) -> Iterator[Pair]:
    found = record.get("traj", record.get("messages"))
    if not isinstance(found, list):
        reading.skip("no messages")
        return
    thread = Thread(native_id, model=as_str(record.get("model")))
    messages = [message for item in found if (message := thread.message(item, reading))]
    session = _session(record, native_id, path, messages)
    if not messages:
        yield session, None
    for message in messages:
        yield session, message


def _session(record: Fields, native_id: str, path: Path, messages: list[Message]) -> Session:
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


def _reward(record: Fields) -> float | None:
    for value in (record.get("reward"), as_dict(record.get("reward_info")).get("reward")):
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**53:
            return float(value)
    return None


def _native_id(record: Fields, base: str, index: int | None) -> str:
    for key in ("id", "session_id", "conversation_id"):
        if own := named(record.get(key)):
            return own if len(own) >= _UNIQUE and not own.isdigit() else f"{base}:{own}"
    if "traj" in record:
        return f"{base}:{as_text(record.get('task_id', index))}:{as_text(record.get('trial', 0))}"
    return base if index is None else f"{base}:{index}"


def _stem(path: Path) -> str:
    """A name for the session of a file that names none: the same as long as the file stays where it is."""
    place = str(path.resolve()).encode("utf-8", "surrogateescape")
    stem = path.stem.encode("utf-8", "replace").decode()
    return f"{stem}-{blake2b(place, digest_size=4).hexdigest()}"
