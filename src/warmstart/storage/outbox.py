"""The outbox: rows that a process could not write because another one held the store. The next sync writes them.

It is a file in `$WARMSTART_HOME` with one JSON array per line: the values of a row of `preflight_turns`. Hooks load
this module, so it imports next to nothing.
"""

from __future__ import annotations

import os
from fcntl import LOCK_EX, flock
from json import dumps, loads

TYPE_CHECKING = False  # `typing` itself takes milliseconds to load
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from typing import Any, BinaryIO

    from warmstart.storage.database import Connection

    Row = Sequence[Any]

RECORD = """
    INSERT INTO preflight_turns (session, host, project, at, event, reason, evidence, tokens, milliseconds)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
NAMES = ("outbox.sending.jsonl", "outbox.jsonl")  # the first is being written to the store, or was when a sync died


def record(connection: Connection, limit: AbstractContextManager[object], home: str, row: Row) -> None:
    """Write a row within a time limit, or put it into the outbox if the store cannot take it now."""
    try:
        with limit:
            connection.execute(RECORD, row)
    except Exception:
        try:
            put_row(home, row)
        except OSError:
            return  # nothing can be recorded, so it may be shown again


def put_row(home: str, row: Row) -> None:
    """Add a row. Raises `OSError` if it cannot be written."""
    with _open(home, NAMES[1]) as file:
        file.write(dumps(row).encode() + b"\n")


def read_rows(home: str) -> list[Row]:
    """The rows that wait for a sync, oldest first."""
    rows: list[Row] = []
    for name in NAMES:
        for line in _read(f"{home}/{name}").splitlines():
            try:
                rows.append(loads(line))
            except ValueError:
                continue  # damaged
    return rows


def deliver(home: str, write: Callable[[Sequence[Row]], None]) -> None:
    """Write the rows with `write`, which may meet some again after a crash, and empty the outbox."""
    if not any(_read(f"{home}/{name}") for name in NAMES):
        return
    sending, waiting = NAMES
    with _open(home, waiting) as file:
        file.seek(0)
        with _open(home, sending) as copy:
            copy.write(file.read())
        file.truncate(0)
    write(read_rows(home))
    os.unlink(f"{home}/{sending}")


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""  # nothing is waiting


def _open(home: str, name: str) -> BinaryIO:
    """A private file to append to, locked until it is closed."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    file: BinaryIO = os.fdopen(os.open(f"{home}/{name}", flags, 0o600), "a+b")
    flock(file, LOCK_EX)
    return file
