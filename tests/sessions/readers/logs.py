"""What the tests of line-based readers share: writing a log, reading on where a reading was left, comparing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from warmstart.sessions.readers.base import Reading
from warmstart.sessions.sql_store import SQLiteSessionStore
from warmstart.sessions.sync import path_sources, sync
from warmstart.sessions.values import Message, Session


def write(path: Path, records: Iterable[dict[str, Any]]) -> bytes:
    """Write a log, a record a line, and give back its bytes."""
    data = b"".join(json.dumps(record, ensure_ascii=False).encode() + b"\n" for record in records)
    path.write_bytes(data)
    return data


def cuts(data: bytes, step: int) -> list[int]:
    """Where a log may be cut: all around the end of each line, and at every so many bytes of it."""
    ends = [place for place, byte in enumerate(data) if byte == ord("\n")]
    around = {place for end in ends for place in range(end - 2, end + 4)}
    return sorted(place for place in around | set(range(0, len(data), step)) if place < len(data))


def continued(path: Path, reading: Reading) -> Reading:
    """A reading that goes on where another was left, after its state has been in a store."""
    return Reading(path, reading.offset, reading.line, msgspec.json.decode(msgspec.json.encode(reading.state)))


def latest(pairs: Iterable[tuple[Session, Message | None]]) -> dict[str, tuple[str, Message]]:
    """The last word on each message, and the session it is in."""
    return {message.native_id: (session.id, message) for session, message in pairs if message}


@contextmanager
def imported(store: Path, *logs: Path) -> Iterator[SQLiteSessionStore]:
    """A store at `store` into which these logs were synced."""
    with closing(SQLiteSessionStore(store)) as opened:
        sync(opened, path_sources(logs))
        yield opened
