"""The log of versions, and what it makes of a key.

A version is added once, by its id, wherever it comes from. Of the versions of a key the one that was written last is
what the key is worth, by the clock of who wrote it; `entries` holds it for reading.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from warmstart.memory.honcho.wire import Record
from warmstart.memory.values import SESSION, SOURCE, Version
from warmstart.memory.words import stems
from warmstart.storage.database import Connection

_EXPIRED_AT_ONCE = 500  # keys that one write erases


class _Line(NamedTuple):
    """A version, as far as it takes to decide what its key is worth."""

    id: str
    value: str
    at: float
    expires_at: float | None
    metadata: str
    deleted: bool


def after(run: Connection, user_id: str, place: str, key: str) -> float:
    """Now, but after every version of this key, whatever the clock of who wrote it."""
    last = run.execute(
        "SELECT max(at) FROM versions WHERE user_id = ? AND place = ? AND key = ?", (user_id, place, key)
    ).fetchone()[0]
    return max(time.time(), (last or 0.0) + 1e-6)


def apply(run: Connection, record: Record) -> None:
    """Add a version to the log, and make its key be worth what was written last."""
    same = (record.user_id, record.place, record.key)
    tail = (record.value, record.at, record.expires_at, record.metadata, record.message_id, record.value is None)
    new = run.execute(
        "INSERT INTO versions (id, user_id, place, key, value, at, expires_at, metadata, message_id, deleted)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING RETURNING 1",
        (record.id, *same, *tail),
    ).fetchone()
    if not new:
        if record.message_id:
            run.execute("UPDATE versions SET message_id = ? WHERE id = ?", (record.message_id, record.id))
        return
    lines = _lines(run, record, same)
    if lines[-1].deleted:
        _erase_former(run, same, lines[-1].id)
        run.execute("DELETE FROM entries WHERE user_id = ? AND place = ? AND key = ?", same)
    else:
        _put(run, same, lines)


def _lines(run: Connection, record: Record, same: tuple[str, str, str]) -> list[_Line]:
    """The versions of a key, oldest first; of a value that is the newest, only it and the one before it."""
    select = (
        "SELECT id, value, at, expires_at, metadata, deleted FROM versions WHERE user_id = ? AND place = ? AND key = ?"
    )
    if record.value is not None:
        rows = run.execute(f"{select} ORDER BY at DESC, id DESC LIMIT 2", same).fetchall()
        if rows[0][0] == record.id:
            return [_Line(*row) for row in reversed(rows)]
    return [_Line(*row) for row in run.execute(f"{select} ORDER BY at, id", same)]


def _put(run: Connection, same: tuple[str, str, str], lines: Sequence[_Line]) -> None:
    head = lines[-1]
    there = run.execute(
        "SELECT created_at FROM entries WHERE user_id = ? AND place = ? AND key = ? AND version = ?",
        (*same, lines[0].id),
    ).fetchone()
    born = _born(lines)
    if there and born == lines[0].at:  # which went on from what was before it
        born = there[0]
    run.execute(
        "INSERT INTO entries (user_id, place, key, version, value, metadata, created_at, updated_at, expires_at,"
        " key_words, value_words, metadata_words) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (user_id, place, key) DO UPDATE SET version = excluded.version, value = excluded.value,"
        " metadata = excluded.metadata, created_at = excluded.created_at, updated_at = excluded.updated_at,"
        " expires_at = excluded.expires_at, value_words = excluded.value_words,"
        " metadata_words = excluded.metadata_words",
        (
            *same,
            head.id,
            head.value,
            head.metadata,
            born,
            head.at,
            head.expires_at,
            *(" ".join(stems(text)) for text in (same[2], head.value, head.metadata)),
        ),
    )


def _born(lines: Sequence[_Line]) -> float:
    """Since when there is a key without interruption."""
    later = lines[-1]
    for earlier in reversed(lines[:-1]):
        if earlier.deleted or (earlier.expires_at is not None and earlier.expires_at <= later.at):
            break
        later = earlier
    return later.at


def _erase_former(run: Connection, same: tuple[str, str, str], deletion: str) -> None:
    """Let go of the values of a key that was deleted."""
    others = "WHERE user_id = ? AND place = ? AND key = ? AND id != ? AND NOT deleted"
    run.execute(  # what has not been sent of it is never sent
        "DELETE FROM outbox WHERE attempted_at IS NULL AND kind = 'message'"
        f" AND version IN (SELECT id FROM versions {others})",
        (*same, deletion),
    )
    run.execute(f"UPDATE versions SET value = NULL, metadata = '' {others}", (*same, deletion))


def expire(run: Connection) -> None:
    """Erase what has expired, with what it was before. That there was something, and until when, stays."""
    rows = run.execute(
        "SELECT user_id, place, key, version FROM entries WHERE expires_at <= ? ORDER BY expires_at LIMIT ?",
        (time.time(), _EXPIRED_AT_ONCE),
    ).fetchall()
    for *same, version in rows:
        run.execute("DELETE FROM entries WHERE user_id = ? AND place = ? AND key = ?", same)
        run.execute("UPDATE versions SET value = '', metadata = '' WHERE id = ?", (version,))
        run.execute(
            "UPDATE versions SET value = NULL, metadata = ''"
            " WHERE user_id = ? AND place = ? AND key = ? AND id != ? AND NOT deleted",
            (*same, version),
        )


def told(rows: Sequence[Any], now: float) -> list[Version]:
    """The history of a key in one place, oldest first. The same value written again goes on."""
    found: list[Version] = []
    ends: float | None = None
    for value, at, expires_at, metadata in rows:
        if ends is not None and ends <= at:  # it had expired: all that is left is that it was there
            found = [Version(None, ends, at)]
        elif found and value is not None and found[-1].value == value:
            ends = expires_at
            continue
        elif found:
            last = found.pop()
            found.append(Version(last.value, last.since, at, last.session, last.source))
        said = json.loads(metadata) if metadata else {}
        found.append(Version(value, at, None, str(said.get(SESSION) or ""), str(said.get(SOURCE) or "")))
        ends = expires_at
    return [Version(None, ends, None)] if ends is not None and ends <= now else found
