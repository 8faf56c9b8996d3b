"""Decisions that could not be recorded because another process kept the store locked: the next sync records them.

Hooks load this module, so it imports little.
"""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False  # `typing` itself takes milliseconds to load
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

RECORD = """
    INSERT INTO preflight_turns (session, host, project, at, event, reason, evidence, tokens, milliseconds)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_MAX_BYTES = 1_000_000  # the oldest rows matter least, but a full file takes no more


def add(home: str, row: Sequence[Any]) -> None:
    """Keep a row of `RECORD` for the next sync. Raises `OSError`."""
    os.makedirs(f"{home}/hosts", mode=0o700, exist_ok=True)
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
    with os.fdopen(os.open(f"{home}/hosts/outbox.jsonl", flags, 0o600), "ab") as file:
        if file.tell() < _MAX_BYTES:
            file.write(json.dumps(list(row)).encode() + b"\n")


def take(home: str) -> Iterator[list[Any]]:
    """Remove the rows from the file and return them."""
    path = f"{home}/hosts/outbox.jsonl"
    try:
        os.replace(path, f"{path}.taken")
    except FileNotFoundError:
        return
    with open(f"{path}.taken", "rb") as file:
        lines = file.read().splitlines()
    os.unlink(f"{path}.taken")
    for line in lines:
        try:
            yield json.loads(line)
        except ValueError:
            continue  # half a row, of a process that was killed
