"""The frame on which readers are built: one pass over one log, from records to messages.

A reader subclasses `Transcript`, names the `decoder` of its records and says in `take` what one record means. The frame
does the rest: it reads lines, moves the place to continue from, keeps the session's facts and the start times of calls
in `Reading.state`, and counts what is skipped or malformed. `docs/sessions.md` shows a complete reader. A log that is
one JSON document goes through `take_document`; a reader of a database brings its own `pairs`.

The place to continue from moves past a line before its last pair is yielded. A consumer that stops at an earlier pair
of the line takes the line again, with the state as it is then. So `take` must give the same messages when it is called
twice; a generator that changes the state after its last `yield` does, and what `move` puts into the state is safe.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from warmstart.errors import LogError
from warmstart.sessions.projects import project_of
from warmstart.sessions.readers.base import Pair, Reading
from warmstart.sessions.readers.content import join_blocks
from warmstart.sessions.readers.decoding import DECODE_ERRORS, Line, decode, records
from warmstart.sessions.readers.fields import as_time
from warmstart.sessions.values import Message, Role, Session, ToolCall, ToolResult, Usage, session_id

R = TypeVar("R")

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
MAX_CALLS = 32
MAX_DOCUMENT = 512 * 1024 * 1024
STATE_FORMAT = 2  # raise it when a reader can no longer use what an earlier version put into the state


class OpenMessage(msgspec.Struct, kw_only=True):
    """A message of the assistant that spans several records, as far as they are read."""

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
    """One log while it is read."""

    agent: ClassVar[str]
    decoder: msgspec.json.Decoder[R]

    def __init__(self, path: Path, reading: Reading) -> None:
        if reading.state.get("format") != STATE_FORMAT:
            # Another version left this state: read the log from its start.
            reading.offset = reading.line = 0
            reading.state = {"format": STATE_FORMAT}
        self.path = path
        self.reading = reading
        self.state = reading.state
        self.native_id = ""  # of the current record, as is `time`
        self.time: datetime | None = None
        self._session: Session | None = None

    def take(self, record: R, line: Line) -> Iterable[Pair]:
        """The pairs of one record."""
        raise NotImplementedError

    def take_document(self, document: R) -> Iterable[Pair]:
        """The pairs of a log that is one document."""
        raise NotImplementedError

    def finish(self) -> Iterable[Pair]:
        """The pairs of what is still open at the end of the log."""
        return ()

    def move(self, line: Line) -> None:
        """Continue behind `line` the next time."""
        self.reading.offset, self.reading.line = line.end, line.number

    def pairs(self) -> Iterator[Pair]:
        """All pairs of the log from `reading` on."""
        for line, record in records(self.path, self.reading, self.decoder):
            last: Pair | None = None
            for pair in self.take(record, line):
                if last:
                    yield last
                last = pair
            self.move(line)
            if last:
                yield last
        yield from self.finish()

    def document_pairs(self) -> Iterator[Pair]:
        """All pairs of a log that is one JSON document. A changed document is read from its start, without a state."""
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
        """Note facts that are text. Those of the session are named as in `session`; others are a reader's own."""
        self.state.update({name: value for name, value in facts.items() if isinstance(value, str) and value})
        self._session = None

    def set_parent(self, native_id: str, kind: str) -> None:
        self.state["parent"] = [native_id, kind]
        self._session = None

    @property
    def session(self) -> Session:
        """The session as far as it is known."""
        if self._session is None:
            state = self.state
            parent: list[Any] = state.get("parent") or ["", None]
            self._session = Session(
                agent=self.agent,
                native_id=state["id"],
                project=project_of(state.get("cwd", "")),
                branch=state.get("branch", ""),
                model=state.get("model", ""),
                title=state.get("title", ""),
                version=state.get("version", ""),
                source=str(self.path),
                started_at=as_time(state.get("started")),
                ended_at=as_time(state.get("ended")),
                parent_id=session_id(self.agent, parent[0]) if parent[0] else None,
                parent_kind=parent[1],
            )
        return self._session

    def message(self, role: Role, text: str = "", **facts: Any) -> Message:
        """The message of the current record."""
        return Message(native_id=self.native_id, role=role, text=text, timestamp=self.time, **facts)

    def pair(self, message: Message) -> Pair:
        """A message of the session."""
        return replace(self.session, ended_at=message.timestamp), message

    def start_call(self, call_id: str) -> None:
        """Remember that a call started at the time of the current record."""
        if call_id and self.time:
            remember(self.state, "calls", call_id, self.time.timestamp(), MAX_CALLS)

    def with_duration(self, result: ToolResult) -> ToolResult:
        """The result with the seconds since its call started, if both times are known."""
        started = self.state.get("calls", {}).get(result.call_id)
        if started is None or self.time is None:
            return result
        return replace(result, duration=max(0.0, round(self.time.timestamp() - started, 3)))


def remember(state: dict[str, Any], name: str, key: str, value: Any, limit: int) -> None:
    """Put a value into the table `name` of the state; the oldest entries above `limit` are dropped."""
    table = state.setdefault(name, {})
    table.pop(key, None)
    table[key] = value
    while len(table) > limit:
        del table[next(iter(table))]


def id_in_name(name: str) -> str:
    """The UUID in the name of a file, or the name itself where there is none. The name need not be UTF-8."""
    name = name.encode("utf-8", "replace").decode()
    found = UUID.findall(name)
    return found[-1] if found else name
