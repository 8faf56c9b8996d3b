"""Changing texts that are stored already, when a better rule of redaction reaches old rows."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from typing import Any

from warmstart.sessions.rows import encode_text


def exchange_text(connection: sqlite3.Connection, old: int, body: str) -> None:
    """Let everything that uses the text `old` use `body` instead; `old` itself is left to be forgotten."""
    new = _text_id(connection, body)
    for table, column in (
        ("messages", "text"),
        ("messages", "reasoning"),
        ("tool_calls", "arguments"),
        ("tool_results", "text"),
    ):
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE {column} = ?", (new, old))


def _text_id(connection: sqlite3.Connection, body: str) -> int | None:
    text = encode_text(body)
    if text is None:
        return None
    connection.execute("INSERT INTO texts (hash, body) VALUES (?, ?) ON CONFLICT (hash) DO NOTHING", text)
    row = connection.execute("SELECT id FROM texts WHERE hash = ?", (text.hash,)).fetchone()
    return int(row[0])


def rewrite_facts(connection: sqlite3.Connection, change: Callable[[str], str]) -> int:
    """Apply a change to what is said outside of messages: titles, evidence, and what readers remember."""
    changed = 0
    for pk, title, evidence in connection.execute("SELECT pk, title, evidence FROM sessions").fetchall():
        new = (change(title), change(evidence))
        if new != (title, evidence):
            connection.execute("UPDATE sessions SET title = ?, evidence = ? WHERE pk = ?", (*new, pk))
            changed += 1
    for path, state in connection.execute("SELECT path, state FROM positions").fetchall():
        before = json.loads(state)
        after = map_strings(before, change)
        if after != before:
            connection.execute("UPDATE positions SET state = ? WHERE path = ?", (json.dumps(after), path))
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
