"""Moving memories: JSON export and import, files of agents, and copies between backends, all through the interface."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import msgspec

from warmstart.errors import LogError
from warmstart.memory.backend import MemoryBackend, view_of
from warmstart.memory.entries import prepare
from warmstart.memory.files import Found
from warmstart.memory.values import SOURCE, MemoryEntry, Record
from warmstart.redact.redactor import Redactor
from warmstart.text.untrusted import find_injection

VERSION = 1


@dataclass(slots=True)
class Transfer:
    """The result of imports or a copy."""

    written: list[str] = field(default_factory=list)
    present: int = 0
    replaced: list[str] = field(default_factory=list)  # from an earlier import of the file, now deleted
    newer: list[str] = field(default_factory=list)  # in the target, and left alone
    refused: list[tuple[str, str]] = field(default_factory=list)  # key and reason
    entries: list[dict[str, Any]] = field(default_factory=list)  # what was written, without secrets


def to_json(backend: MemoryBackend, users: Iterable[str]) -> dict[str, Any]:
    """Everything about users, with history."""
    return {"version": VERSION, "users": {user: [asdict(each) for each in backend.dump(user)] for user in users}}


def from_json(text: str, user_id: str = "") -> dict[str, list[Record]]:
    """The records of an export by user, or all of them for `user_id`. Raises `LogError` if it is not one."""
    try:
        data = json.loads(text)
        if data["version"] != VERSION:
            raise LogError(f"this export has version {data['version']!r}, not {VERSION}; upgrade Warmstart")
        users = msgspec.convert(data["users"], dict[str, list[Record]])
    except (ValueError, KeyError, TypeError, RecursionError, msgspec.ValidationError) as error:
        raise LogError(f"this is not an export of `warmstart memory export` ({error!r:.80}); choose another") from error
    found: dict[str, list[Record]] = {}
    for name, records in users.items():
        user = user_id or name
        found.setdefault(user, []).extend(replace(each, entry=replace(each.entry, user_id=user)) for each in records)
    return found


def load_records(
    target: MemoryBackend,
    user_id: str,
    records: Sequence[Record],
    *,
    dry_run: bool = False,
    check: bool = False,
    into: Transfer | None = None,
) -> Transfer:
    """Store records unless the target has them, or something newer under the same key and scope.

    With `check`, text that must not be carried is refused. The result is added to `into`.
    """
    result = into or Transfer()
    there = {(record.entry.key, record.entry.place): record.entry for record in target.dump(user_id)}
    for record in records:
        entry = record.entry
        values = (entry.value, *(str(version.value) for version in record.history))
        if check and (reason := find_injection("\n".join((entry.key, *values)))):
            result.refused.append((entry.key, reason))
            continue
        other = there.get((entry.key, entry.place))
        if other is not None and (other.value, other.metadata) == (entry.value, entry.metadata):
            result.present += 1
        elif other is not None and other.updated_at > entry.updated_at:
            result.newer.append(entry.key)
        else:
            if not dry_run:
                target.load(record)
            result.written.append(entry.key)
    return result


def import_file(
    backend: MemoryBackend,
    user_id: str,
    source: str,
    found: Sequence[Found],
    redactor: Redactor,
    *,
    redacts: bool = True,
    dry_run: bool = False,
    into: Transfer | None = None,
) -> Transfer:
    """Store the entries of the file `source`, and delete those from an earlier import that it no longer has.

    `redacts` says whether the backend replaces secrets; the result never contains any. It is added to `into`.
    """
    result = into or Transfer()
    entries = (record.entry for record in backend.dump(user_id))
    before = {(entry.key, entry.place): entry for entry in entries if entry.metadata.get(SOURCE) == source}
    for each in found:
        if each.refused:
            result.refused.append((each.key, each.refused))
            continue
        prepared = prepare(each.key, each.value, each.metadata, view=None, redactor=redactor)
        metadata = json.loads(prepared.metadata) if prepared.metadata else {}
        new = MemoryEntry(prepared.key, prepared.value, user_id, metadata=metadata)
        old = before.pop((new.key, new.place), None)
        if old is not None and old.value == (new.value if redacts else each.value):
            result.present += 1
            continue
        result.written.append(new.key)
        result.entries.append({"key": new.key, "value": new.value, "metadata": metadata})
        if not dry_run:
            backend.store(user_id, each.key, each.value, each.metadata)
    for entry in before.values():
        result.replaced.append(entry.key)
        if not dry_run:
            backend.at(view_of(entry)).delete(user_id, entry.key)
    return result
