"""Helpers for the SQL of all packages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sized
from functools import lru_cache
from itertools import count, islice
from typing import TypeVar

from warmstart.storage.database import Connection

T = TypeVar("T")

MAX_PARAMETERS = 500  # values in one IN list

# A quoted text, a cast, or a parameter in one of SQLite's forms.
_TOKEN = re.compile(r"'(?:[^']|'')*'|::|\?(\d*)|:([a-z_]\w*)|%")


def batches(items: Iterable[T], size: int = MAX_PARAMETERS) -> Iterator[list[T]]:
    """`items` in lists of at most `size`, short enough for an IN list."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


def placeholders(items: Sized) -> str:
    """A question mark for each item, for an IN list or VALUES."""
    return ", ".join("?" * len(items))


def next_ids(connection: Connection, table: str, column: str, *, session: int | None = None) -> Iterator[int]:
    """The numbers after the highest one in use, in the table or in a session. Call it inside a transaction."""
    where = "" if session is None else f" WHERE session = {session:d}"
    highest = connection.execute(f"SELECT coalesce(max({column}), 0) FROM {table}{where}").fetchone()[0]
    return count(int(highest) + 1)


@lru_cache(maxsize=1024)
def to_psycopg(sql: str) -> tuple[bytes, bool]:
    """The statement as psycopg wants it, and whether its parameters are numbered."""
    numbered = False

    def parameter(found: re.Match[str]) -> str:
        nonlocal numbered
        text, number, name = found[0], found[1], found[2]
        if text.startswith("'") or text == "%":
            return text.replace("%", "%%")
        numbered = numbered or bool(number)
        if number or name:
            return f"%({number or name})s"
        return "%s" if text == "?" else text

    # Every unique key begins with the tenant.
    text = _TOKEN.sub(parameter, sql).replace("ON CONFLICT (", "ON CONFLICT (tenant, ")
    return text.encode(), numbered
