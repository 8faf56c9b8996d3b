"""The base class of readers: one pass over one log, from bytes to messages.

A reader subclasses `Transcript`, sets the `decoder` of its records and converts one record in `take`. The base class
does the rest: it reads lines, advances the position to resume from, keeps what is known about the session and the start
times of calls in `Reading.state`, and counts what is skipped or malformed. `docs/sessions.md` shows a complete reader.
A log that is one JSON document goes through `take_document`; a reader of a database overrides `pairs`.

The position moves past a line before the line's last pair is yielded. A consumer that stops at an earlier pair reads
the line again, with the state as it is then. So `take` must give the same messages when it is called twice; a generator
that changes the state after its last `yield` does.

Not all JSON in logs is valid. A JavaScript program that cuts a text inside an emoji writes a lone surrogate, which
strict decoders reject. Some agents write numbers that are out of range, or bytes that are not UTF-8. An interrupted
write leaves two objects on one line. What can be repaired is repaired and decoded again.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import msgspec

from warmstart.errors import LogError
from warmstart.sessions.projects import project_of
from warmstart.sessions.readers.base import Pair, Reading
from warmstart.sessions.readers.content import as_json, join_blocks
from warmstart.sessions.readers.fields import Fields, as_dict, as_list, as_str, as_time
from warmstart.sessions.values import CallOutcome, Message, Role, Session, ToolCall, ToolResult, Usage, session_id

R = TypeVar("R")
T = TypeVar("T")
OBJECT = msgspec.json.Decoder(Fields)

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
MAX_CALLS = 32
MAX_DOCUMENT = 512 * 1024 * 1024
STATE_FORMAT = 3  # increment it when a reader can no longer use the state of an earlier version
DECODE_ERRORS = (msgspec.MsgspecError, RecursionError, UnicodeError, ValueError)
MAX_LINE = 64 * 1024 * 1024
MAX_WRONG_FIELDS = 20
_BUFFER = 256 * 1024
_SPACE = re.compile(r"\s*")
_WRONG_TYPE = re.compile(r"(?:Expected|Invalid) .* - at `\$([\w.\[\]]+)`")


# -- from bytes to records


def decode(data: bytes | msgspec.Raw, decoder: msgspec.json.Decoder[T]) -> T:
    """Decode `data`, repaired if necessary. Raises one of `DECODE_ERRORS`.

    In a damaged log, or one of a future version, a field can have any type: one of the wrong type counts as absent.
    """
    try:
        return decoder.decode(data)
    except DECODE_ERRORS as error:
        raw = bytes(data)
        if len(raw) > MAX_LINE:
            raise
        try:
            text = raw.decode("utf-8-sig", "replace")
            value = json.loads(text, parse_int=_number, parse_float=_number, parse_constant=lambda _: None)
            for _ in range(MAX_WRONG_FIELDS):
                text = json.dumps(value, ensure_ascii=False)
                try:
                    return decoder.decode(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
                except msgspec.ValidationError as problem:
                    _drop_field(value, str(problem))
        except (*DECODE_ERRORS, LookupError, TypeError):
            pass
        raise error  # the problem with the data, not with the repair


def _drop_field(value: Any, problem: str) -> None:
    """Drop the field that a `ValidationError` names. Raises `ValueError` if the record makes no sense without it."""
    found = _WRONG_TYPE.match(problem)
    if not found:
        raise ValueError(problem)
    *above, last = re.findall(r"\w+", found[1])
    for name in above:
        value = value[int(name)] if isinstance(value, list) else value[name]
    del value[int(last) if isinstance(value, list) else last]


def _number(digits: str) -> int | float | None:
    if not math.isfinite(value := float(digits)):
        return None
    return int(digits) if digits.lstrip("-").isdigit() else value


class Line(NamedTuple):
    """One line of a log: its number (from 1), the offsets of its start and end in bytes, and its content."""

    number: int
    start: int
    end: int
    data: bytes


def _recover(line: Line, reading: Reading, decoder: msgspec.json.Decoder[T]) -> Iterator[tuple[Line, T]]:
    """The records of a line that cannot be decoded: it needs repair, or an interrupted write left several on it."""
    start = line.start
    for data in [] if line.data.isspace() else split_objects(line.data) or [line.data]:
        part = Line(line.number, start, start + len(data), data)
        start = part.end
        try:
            record = decode(data, decoder)
        except DECODE_ERRORS as error:
            if line.data.endswith(b"\n") or isinstance(error, msgspec.ValidationError):
                reading.report(line.number, error, once=True)
        else:
            yield part, record


def split_objects(data: bytes) -> list[bytes]:
    """The consecutive JSON objects in `data`; empty unless `data` consists of objects only."""
    scan = json.JSONDecoder().raw_decode
    parts: list[bytes] = []
    try:
        text = data.decode()
        at = 0
        while at < len(text):
            if text[at] != "{":
                return []
            _, stop = scan(text, at)
            space = _SPACE.match(text, stop)
            stop = space.end() if space else stop
            parts.append(text[at:stop].encode())
            at = stop
    except (ValueError, RecursionError):
        return []
    return parts


# -- from records to messages


class OpenMessage(msgspec.Struct, kw_only=True):
    """An assistant message that spans several records, as far as they have been read."""

    native_id: str
    timestamp: datetime | None
    origin: str = ""
    model: str = ""
    texts: list[str] = []
    reasoning: list[str] = []
    calls: list[ToolCall] = []
    usage: Usage | None = None

    def message(self, **facts: Any) -> Message:
        return Message(
            native_id=self.native_id,
            role="assistant",
            text=join_blocks("\n\n", self.texts),
            reasoning=join_blocks("\n\n", self.reasoning),
            tool_calls=tuple(self.calls),
            timestamp=self.timestamp,
            model=self.model,
            usage=self.usage,
            origin=self.origin,
            **facts,
        )


class Transcript(Generic[R]):
    """One log while it is being read."""

    agent: ClassVar[str]
    decoder: msgspec.json.Decoder[R]
    open: Any = None  # messages that are not complete yet
    origin: str = ""  # the session that wrote the current record, if it is another one

    def __init__(self, path: Path, reading: Reading) -> None:
        if reading.state.get("format") != STATE_FORMAT:
            # Another version wrote this state: read the log from its start.
            reading.offset = reading.line = 0
            reading.state = {"format": STATE_FORMAT}
        self.path = path
        self.source = str(path).encode("utf-8", "replace").decode()  # the state is JSON
        self.reading = reading
        self.state = reading.state
        self.native_id = ""  # of the current record, as is `time`
        self.time: datetime | None = None
        self.unfinished = False  # while it is set, the position to resume from does not move
        self._session: Session | None = None

    def take(self, record: R, line: Line) -> Iterable[Pair]:
        """The pairs of one record."""
        raise NotImplementedError

    def take_document(self, document: R) -> Iterable[Pair]:
        """The pairs of a log that is one document."""
        raise NotImplementedError

    def finish(self) -> Iterable[Pair]:
        """The pairs of what is still `open` at the end of the log."""
        raise NotImplementedError

    def decode_payload(self, payload: msgspec.Raw, line: Line) -> Fields | None:
        """The object in a record's raw payload; `None` if it is malformed, which is reported."""
        try:
            return decode(payload, OBJECT)
        except DECODE_ERRORS as error:
            self.reading.report(line.number, error, once=True)
            return None

    def pairs(self) -> Iterator[Pair]:
        """All pairs of the log from `reading` on.

        A line that cannot be decoded or is longer than `MAX_LINE` is reported and skipped. If the last one is
        incomplete, the agent is still writing it: it is left for the next reading.
        """
        reading = self.reading
        if not reading.offset:
            reading.state.pop("reported", None)  # it may be about another file with the same name
        with self.path.open("rb", buffering=_BUFFER) as file:
            number, start = reading.line, reading.offset
            file.seek(max(0, start - 1))
            # The newline of the last line may have come later, or the reading ended between two records of one line.
            is_counted = bool(start) and file.read(1) not in (b"", b"\n")
            is_too_long = False
            while data := file.readline(MAX_LINE):
                number += not is_counted
                line = Line(number, start, start + len(data), data)
                start = line.end
                is_counted = not data.endswith(b"\n")
                if is_too_long or (is_counted and len(data) == MAX_LINE):
                    is_too_long = is_counted
                    reading.report(number, f"line longer than {MAX_LINE} bytes", once=True)
                    continue
                found: Iterable[tuple[Line, R]]
                try:
                    found = [(line, self.decoder.decode(data))]
                except DECODE_ERRORS:
                    found = _recover(line, reading, self.decoder)
                for part, record in found:
                    last: Pair | None = None
                    for pair in self.take(record, part):
                        if last:
                            yield last
                        last = pair
                    if not self.unfinished:
                        reading.offset, reading.line = part.end, part.number
                    if last:
                        yield last
                if is_counted:
                    break  # the agent is still writing this line, and may complete it at any moment
        if self.open:
            yield from self.finish()

    def document_pairs(self) -> Iterator[Pair]:
        """All pairs of a log that is one JSON document. A changed document is read from its start, without state."""
        self.reading.offset = self.reading.line = 0
        self.state = {}
        size = self.path.stat().st_size
        if size > MAX_DOCUMENT:
            limit = f"the limit of {MAX_DOCUMENT // 1024**2} MB for one document"
            raise LogError(f"{str(self.path)!r} is {size} bytes long, above {limit}; split it")
        data = self.path.read_bytes()
        try:
            if data and not data.isspace():
                yield from self.take_document(decode(data, self.decoder))
        except DECODE_ERRORS as error:  # it is damaged, or still being written
            self.reading.report(1, error)
        else:
            self.reading.offset = len(data)

    def learn(self, **facts: object) -> None:
        """Add non-empty strings to the state. `session_from` reads some of the names; others are a reader's own."""
        self.state.update({name: value for name, value in facts.items() if isinstance(value, str) and value})
        self._session = None

    def set_parent(self, native_id: str, kind: str) -> None:
        self.state["parent"] = [native_id, kind]
        self._session = None

    @property
    def session(self) -> Session:
        """The session, as far as it is known."""
        if self._session is None:
            self._session = self.session_from(self.state)
        return self._session

    def session_from(self, facts: Mapping[str, Any]) -> Session:
        """A session of this log, named after the file if `id` is missing. A value of a wrong type counts as absent."""
        parent, kind = facts.get("parent") or ("", None)
        return Session(
            agent=self.agent,
            native_id=as_str(facts.get("id")) or id_in_name(self.path.stem),
            project=project_of(as_str(facts.get("cwd"))),
            branch=as_str(facts.get("branch")),
            model=as_str(facts.get("model")),
            title=as_str(facts.get("title")),
            version=as_str(facts.get("version")),
            source=self.source,
            started_at=as_time(facts.get("started")),
            ended_at=as_time(facts.get("ended")),
            parent_id=session_id(self.agent, parent) if parent else None,
            parent_kind=kind if parent else None,
        )

    def message(self, role: Role, text: str = "", **facts: Any) -> Message:
        """The message of the current record."""
        facts.setdefault("origin", self.origin)
        return Message(native_id=self.native_id, role=role, text=text, timestamp=self.time, **facts)

    def pair(self, message: Message) -> Pair:
        """A message with its session."""
        return replace(self.session, ended_at=message.timestamp), message

    def answer(self, content: object, call: str, arguments: str, **facts: Any) -> Message:
        """The assistant message of the current record, from a list of blocks.

        A block has `text`, `thinking`, or the type `call` with `id`, `name` and the field that `arguments` names.
        """
        blocks = list(map(as_dict, as_list(content)))
        calls = [
            ToolCall(
                id=as_str(block.get("id")) or f"{self.native_id}#{number}",
                name=as_str(block.get("name")),
                arguments=as_json(block.get(arguments) or {}),
            )
            for number, block in enumerate(blocks)
            if block.get("type") == call
        ]
        for each in calls:
            self.start_call(each.id)
        text, thoughts = (
            join_blocks("\n\n", (as_str(block.get(name)) for block in blocks)) for name in ("text", "thinking")
        )
        return self.message("assistant", text, reasoning=thoughts, tool_calls=tuple(calls), **facts)

    def result(
        self,
        call_id: str,
        text: str,
        *,
        tool: str = "",
        refused: bool = False,
        flag: bool | None = None,
        exit_code: int | None = None,
        ms: float | None = None,
    ) -> ToolResult:
        """The result of a call that took `ms` milliseconds, by default the time since it started.

        `refused` means that a field of the log says so, not the text of the result.
        """
        result = ToolResult(
            call_id=call_id,
            outcome="rejected" if refused else "unknown",
            text=text,
            duration=self.seconds_since(call_id) if ms is None else ms / 1000,
            flag=flag,
            exit_code=exit_code,
        )
        return replace(result, outcome=self.outcome_of(tool, result))

    @staticmethod
    def outcome_of(tool: str, result: ToolResult) -> CallOutcome:
        """The outcome of a result by the current rules, when it is read and when it is rejudged. `flag` means error.

        A call that was `rejected` by a field of the log stays so, because the field is not stored.
        """
        return call_outcome(result, result.outcome == "rejected")

    def pair_unless_empty(self, message: Message | None) -> list[Pair]:
        """The pair of a message, unless it is empty: the provider failed, or the user interrupted it."""
        if message and not (message.text or message.reasoning or message.tool_calls or message.tool_results):
            self.reading.skip("empty message")
            return []
        return [self.pair(message)] if message else []

    def start_call(self, call_id: str) -> None:
        """Remember that a call started at the time of the current record."""
        if call_id and self.time:
            remember(self.state, "calls", call_id, self.time.timestamp(), MAX_CALLS)

    def seconds_since(self, call_id: str) -> float | None:
        """The seconds since a call started, if both times are known."""
        started: float | None = self.state.get("calls", {}).get(call_id)
        if started is None or self.time is None:
            return None
        return max(0.0, round(self.time.timestamp() - started, 3))


def call_outcome(result: ToolResult, refused: bool) -> CallOutcome:
    """The outcome of a call whose `flag` means error."""
    if refused:
        return "rejected"
    return "error" if result.flag or result.exit_code else "ok"


def remember(state: dict[str, Any], name: str, key: str, value: Any, limit: int) -> None:
    """Add a value to the table `name` of the state, and drop its oldest entries above `limit`."""
    table = state.setdefault(name, {})
    table.pop(key, None)
    table[key] = value
    while len(table) > limit:
        del table[next(iter(table))]


def id_in_name(name: str) -> str:
    """The UUID in the name of a file, or the name itself if there is none. The name need not be UTF-8."""
    name = name.encode("utf-8", "replace").decode()
    found = UUID.findall(name)
    return found[-1] if found else name
