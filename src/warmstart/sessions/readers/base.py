"""The contract of a reader, and what every reader of a line-based log shares.

A reader turns one log (a file or a database) into a stream of `(Session, Message)` pairs. The session is what is known
of it so far; the pair `(Session, None)` states facts without a message, such as a title that comes last.

Readers stream and can be continued. `Reading` carries the place to go on from, and the invariant that makes sync safe
against a crash is: reading again from `reading.offset` and `reading.state`, as they stand after a pair was yielded,
yields every message not yielded before. It may repeat some; stores ignore repeats.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol, TypeVar

import msgspec

from warmstart.sessions.readers.decoding import DECODE_ERRORS, decode, split_objects
from warmstart.sessions.readers.fields import as_int
from warmstart.sessions.values import Message, Session

T = TypeVar("T")

MAX_LINE = 64 * 1024 * 1024
MAX_REPORTED = 20
_BUFFER = 256 * 1024
# In the state of a reading: where the last line starts that was reported.
_FAULTY = "faulty"

Pair = tuple[Session, Message | None]


class Malformed(NamedTuple):
    """A place in a log that could not be understood."""

    path: str
    line: int
    reason: str


@dataclass(slots=True)
class Reading:
    """Where a log was left, and what was passed over on the way. `state` holds whatever msgspec can write as JSON."""

    path: Path
    offset: int = 0
    line: int = 0
    state: dict[str, Any] = field(default_factory=dict)
    skipped: Counter[str] = field(default_factory=Counter)
    malformed: int = 0
    problems: list[Malformed] = field(default_factory=list)

    def skip(self, kind: object) -> None:
        """Count something that is known not to be a message, or not known at all."""
        self.skipped[str(kind)[:40]] += 1

    def fault(self, line: int, reason: object) -> None:
        """Count something that cannot be understood; the first few are kept word for word."""
        self.malformed += 1
        if len(self.problems) < MAX_REPORTED:
            self.problems.append(Malformed(str(self.path), line, " ".join(str(reason).split())[:160]))

    def fault_at(self, start: int, line: int, reason: object) -> None:
        """Like `fault`, once for the line at byte `start`: lines after the last one understood are read again."""
        seen = as_int(self.state.get(_FAULTY))
        if seen is None or start > seen:
            self.state[_FAULTY] = start
            self.fault(line, reason)


class Reader(Protocol):
    """Knows one agent's logs: where they are, how they look, and how the agent says that a call failed."""

    @property
    def agent(self) -> str:
        """The name of the agent and of the format, e.g. `claude-code`."""
        ...

    def roots(self, env: Mapping[str, str], home: Path) -> list[Path]:
        """The folders (or files) where this agent keeps its history, existing or not."""
        ...

    def find(self, root: Path) -> Iterable[Path]:
        """The logs below `root`, which may itself be a log. Only names are looked at, nothing is opened.

        Folders are followed through links. One that cannot be listed is given itself, as if it were a log, so that
        whoever opens it next learns why.
        """
        ...

    def claims(self, path: Path, head: bytes) -> bool:
        """Whether the file that begins with `head` (up to 64 KB) is a log of this agent."""
        ...

    def read(self, path: Path, reading: Reading) -> Iterator[Pair]:
        """Stream what `path` holds from `reading` on. Raises `LogError` when it cannot be read at all."""
        ...


class Line(NamedTuple):
    """One line of a log: its number from 1, the byte where it starts, the byte after it, and what it holds."""

    number: int
    start: int
    end: int
    data: bytes


def lines(path: Path, reading: Reading) -> Iterator[Line]:
    """The complete lines of `path` from `reading` on, at most `MAX_LINE` bytes each.

    The last line comes without its line feed while the agent is still writing; `decoded` decides whether it is whole.
    Blank lines are passed over. `reading` is not moved: the reader knows up to where it is safe to forget.
    """
    if not reading.offset:
        reading.state.pop(_FAULTY, None)  # it may be of another file, of which nothing was read
    with path.open("rb", buffering=_BUFFER) as file:
        number, start = reading.line, reading.offset
        counted = _in_line(file, start)
        while data := file.readline(MAX_LINE):
            number += not counted
            counted = False
            end = start + len(data)
            if len(data) == MAX_LINE and not data.endswith(b"\n"):
                end = _to_line_end(file, end)
                reading.fault_at(start, number, f"line longer than {MAX_LINE} bytes")
            elif not data.isspace():
                yield Line(number, start, end, data)
            start = end


def _in_line(file: BinaryIO, offset: int) -> bool:
    """Go to `offset`; whether it is in a line already counted, which was read before its line feed was written."""
    file.seek(max(0, offset - 1))
    return bool(offset) and file.read(1) not in (b"", b"\n")


def _to_line_end(file: BinaryIO, end: int) -> int:
    while data := file.readline(MAX_LINE):
        end += len(data)
        if data.endswith(b"\n"):
            break
    return end


def decoded(path: Path, reading: Reading, decoder: msgspec.json.Decoder[T]) -> Iterator[tuple[Line, T]]:
    """Every line of `path` decoded; what cannot be is reported and passed over.

    Two objects that an interrupted write left on one line are both read, each as a line with the bytes of its own; of
    such a line the first fault is reported. An incomplete last line ends the stream without a report: the agent is
    still writing it, and it is read next time.
    """
    for line in lines(path, reading):
        try:
            yield line, decode(line.data, decoder)
        except DECODE_ERRORS as error:
            parts = split_objects(line.data)
            if len(parts) < 2:
                if not line.data.endswith(b"\n") and not isinstance(error, msgspec.ValidationError):
                    return
                reading.fault_at(line.start, line.number, error)
                continue
            for part in parts:
                try:
                    yield line._replace(data=part), decode(part, decoder)
                except DECODE_ERRORS as inner:
                    reading.fault_at(line.start, line.number, inner)
