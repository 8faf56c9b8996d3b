"""Helpers for the SQL of all packages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from itertools import count, islice
from typing import TypeVar

from warmstart.storage.database import Connection

T = TypeVar("T")

MAX_PARAMETERS = 500  # values in one IN list


def batches(items: Iterable[T], size: int = MAX_PARAMETERS) -> Iterator[list[T]]:
    """Split `items` into lists of at most `size`, short enough for an IN list."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


def placeholders(items: Sized) -> str:
    """A question mark for each item, for an IN list or VALUES."""
    return ", ".join("?" * len(items))


def next_ids(connection: Connection, table: str, column: str, *, session: int | None = None) -> Iterator[int]:
    """Yield unused ids, counting up from the highest in the table or session. Call it inside a transaction."""
    where = "" if session is None else f" WHERE session = {session:d}"
    highest = connection.execute(f"SELECT coalesce(max({column}), 0) FROM {table}{where}").fetchone()[0]
    return count(int(highest) + 1)
