"""The frame on which readers of line-based logs are built: one pass over one log, from records to messages.

A reader subclasses `Transcript`, names the `decoder` of its records and says in `take` what one record means. The frame
does the rest: it reads lines, moves the place to continue from, keeps the session's facts and the start times of calls
in `Reading.state`, and counts what is skipped or malformed. `docs/sessions.md` shows a complete reader.

The place to continue from moves past a line before its last pair is yielded. A consumer that stops at an earlier pair
of the line takes the line again, with the state as it is then. So `take` must give the same messages when it is called
twice; a generator that changes the state after its last `yield` does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from warmstart.sessions.projects import project_of
from warmstart.sessions.readers.base import Pair, Reading
from warmstart.sessions.readers.decoding import Line, hold_last, records
from warmstart.sessions.readers.fields import as_time
from warmstart.sessions.values import Message, Role, Session, ToolResult, session_id

R = TypeVar("R")

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
MAX_CALLS = 32


class Transcript(Generic[R]):
    """One log while it is read."""

    agent: ClassVar[str]
    decoder: msgspec.json.Decoder[R]

    def __init__(self, path: Path, reading: Reading) -> None:
        self.path = path
        self.reading = reading
        self.state = reading.state
        self.native_id = ""  # of the current record, as is `time`
        self.time: datetime | None = None
        self._session: Session | None = None

    def take(self, record: R, line: Line) -> Iterable[Pair]:
        """The pairs of one record."""
        raise NotImplementedError

    def finish(self) -> Iterable[Pair]:
        """The pairs of what is still open at the end of the log."""
        return ()

    def move(self, line: Line) -> None:
        """Continue behind `line` the next time."""
        self.reading.offset, self.reading.line = line.end, line.number

    def pairs(self) -> Iterator[Pair]:
        """All pairs of the log from `reading` on."""
        for found in records(self.path, self.reading, self.decoder):
            line, record = found[0]
            if len(found) == 1:
                yield from hold_last(self.take(record, line), partial(self.move, line))
            else:
                yield from self._take_all(found)
        yield from self.finish()

    def _take_all(self, found: list[tuple[Line, R]]) -> Iterator[Pair]:
        """The pairs of records that share a line. Until all are yielded, the state is the one from before the line."""
        self.reading.state = msgspec.json.decode(msgspec.json.encode(self.state))

        def finish() -> None:
            self.reading.state = self.state
            self.move(found[0][0])

        yield from hold_last((pair for line, record in found for pair in self.take(record, line)), finish)

    # The session

    def learn(self, **facts: object) -> None:
        """Note facts of the session (`id`, `cwd`, `branch`, `model`, `title`, `version`, `started`) that are text."""
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

    # Calls and their results

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
