"""Changing texts that are stored already, when a better rule of redaction reaches old rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from warmstart.sessions.rows import encode_text
from warmstart.storage.database import Connection

_NAMES = (
    *(("sessions", column) for column in ("native_id", "project", "directory", "branch", "model", "version", "source")),
    *(("messages", column) for column in ("native_id", "model", "origin")),
    *(("tool_calls", column) for column in ("call_id", "name")),
    ("tool_results", "call_id"),
)


def exchange_text(connection: Connection, old: int, body: str) -> None:
    """Let everything that uses the text `old` use `body` instead; `old` itself is left to be forgotten."""
    new = _text_id(connection, body)
    for table, column in (
        ("messages", "text"),
        ("messages", "reasoning"),
        ("tool_calls", "arguments"),
        ("tool_results", "text"),
    ):
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE {column} = ?", (new, old))


def _text_id(connection: Connection, body: str) -> int | None:
    text = encode_text(body)
    if text is None:
        return None
    connection.execute(
        "INSERT INTO texts (id, hash, body) SELECT coalesce(max(id), 0) + 1, ?, ? FROM texts WHERE true "
        "ON CONFLICT (hash) DO NOTHING",
        text,
    )
    row = connection.execute("SELECT id FROM texts WHERE hash = ?", (text.hash,)).fetchone()
    return int(row[0])


def rewrite_facts(connection: Connection, change: Callable[[str], str], rename: Callable[[str], str]) -> int:
    """Apply `change` to what is said outside of messages, and `rename` to names; returns how many changed.

    A reader's state that would change is forgotten instead: it has to match what its log says next.
    """
    changed = 0
    said = (("sessions", "title"), ("sessions", "evidence"))
    for table, column in (*said, *_NAMES):
        apply = change if (table, column) in said else rename
        for (text,) in connection.execute(f"SELECT DISTINCT {column} FROM {table}").fetchall():
            if (new := apply(text)) != text:
                connection.execute(f"UPDATE {table} SET {column} = ? WHERE {column} = ?", (new, text))
                changed += 1
    for path, state in connection.execute("SELECT path, state FROM positions").fetchall():
        new = rename(path)
        if new != path:
            connection.execute("DELETE FROM positions WHERE path = ?", (new,))
            connection.execute("UPDATE positions SET path = ? WHERE path = ?", (new, path))
        texts = "\n".join(strings_in(json.loads(state)))
        if forget := change(texts) != texts:
            forget_state(connection, new)
        changed += forget or new != path
    return changed


def forget_state(connection: Connection, path: str) -> None:
    """Forget what a reader remembers of a log; the log is read from its start if it ever grows."""
    connection.execute(
        "UPDATE positions SET state = '{}', mark = '', \"offset\" = 0, line = 0, revision = revision + 1 "
        "WHERE path = ?",
        (path,),
    )


def strings_in(value: Any) -> Iterator[str]:
    """Every string in a JSON value. Those of a list also come joined, because they may be the blocks of one text."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        yield "".join(each for each in value if isinstance(each, str))
        for each in value:
            yield from strings_in(each)
    elif isinstance(value, dict):
        yield from value
        for each in value.values():
            yield from strings_in(each)
