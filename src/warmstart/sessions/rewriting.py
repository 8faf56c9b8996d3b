"""Changing texts that are stored already, when a better rule of redaction reaches old rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from warmstart.sessions.rows import encode_text
from warmstart.storage.database import Connection


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


def rewrite_facts(connection: Connection, change: Callable[[str], str]) -> int:
    """Apply a change to what is said outside of messages: titles, evidence, places, and what readers remember."""
    changed = 0
    columns = ("title", "evidence", "project", "branch", "source")
    for pk, *before in connection.execute(f"SELECT pk, {', '.join(columns)} FROM sessions").fetchall():
        after = [change(text) for text in before]
        if after != before:
            assigned = ", ".join(f"{column} = ?" for column in columns)
            connection.execute(f"UPDATE sessions SET {assigned} WHERE pk = ?", (*after, pk))
            changed += 1
    for path, state in connection.execute("SELECT path, state FROM positions").fetchall():
        kept = json.loads(state)
        rewritten = map_strings(kept, change)
        if rewritten != kept:
            connection.execute("UPDATE positions SET state = ? WHERE path = ?", (json.dumps(rewritten), path))
            changed += 1
    return changed


def map_strings(value: Any, change: Callable[[str], str]) -> Any:
    """A value of JSON with a change applied to every string in it, except to the names of fields."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [map_strings(each, change) for each in value]
    if isinstance(value, dict):
        return {key: map_strings(each, change) for key, each in value.items()}
    return value


def strings_in(value: Any) -> Iterator[str]:
    """Every string in a value of JSON, except the names of fields."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from strings_in(each)
