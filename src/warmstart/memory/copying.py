"""Moving memory from one backend to another, whichever kinds they are.

Entries go over one after the other, the oldest first, each with the values it had before: a backend that remembers them
has them as history afterwards, with the times of the copy unless it can take over the true ones (`Restores`). A copy
that was interrupted is completed by the next. What the other backend has and this one does not, or knows newer, is
never touched; it is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from warmstart.memory.backend import MemoryBackend
from warmstart.memory.values import AGENT, PROJECT, SCOPE, SESSION, SOURCE, MemoryEntry, Version, View

_ALL = 1_000_000  # entries of one user

Progress = Callable[[int, int], None]


@runtime_checkable
class Restores(Protocol):
    """Can take over an entry as it was elsewhere, with its times and its history."""

    def restore(self, entry: MemoryEntry, versions: Sequence[Version]) -> bool:
        """Keep the entry in place of what is there; `versions` are what it was before, the oldest first."""


@dataclass(slots=True)
class CopiedMemory:
    """What a copy came to."""

    users: int = 0
    entries: int = 0  # that were written
    present: int = 0  # that were there already
    versions: int = 0  # former values that were written
    newer: list[str] = field(default_factory=list)  # that the other backend knows newer, which were left alone
    differences: list[str] = field(default_factory=list)


def copy_memory(
    source: MemoryBackend,
    target: MemoryBackend,
    *,
    users: Sequence[str] = (),
    progress: Progress | None = None,
) -> CopiedMemory:
    """Copy the entries of these users, or of all that the source can tell, and compare both in the end."""
    copied = CopiedMemory()
    found = {user: _entries(source, user) for user in users or source.users()}
    total = sum(map(len, found.values()))
    done = 0
    for user, entries in found.items():
        copied.users += 1
        there = {_place(entry): entry for entry in _entries(target, user)}
        alone = _keys_in_one_scope(entries)
        for entry in sorted(entries, key=lambda entry: entry.updated_at):
            versions = _former(source, entry) if entry.key in alone else []
            _copy(target, entry, versions, there.get(_place(entry)), copied)
            done += 1
            if progress is not None:
                progress(done, total)
    for user, entries in found.items():
        _compare(target, user, entries, copied)
    return copied


def _entries(backend: MemoryBackend, user: str) -> list[MemoryEntry]:
    """All entries of a user in all scopes; by their keys where a backend has no list of the newest."""
    found = {_place(entry): entry for entry in backend.query(user, "", limit=_ALL)}
    known = {entry.key for entry in found.values()}
    for key in backend.list_keys(user):
        if key not in known and (entry := backend.retrieve(user, key)) is not None:
            found[_place(entry)] = entry
    return [entry for entry in found.values() if entry.user_id in ("", user)]


def _place(entry: MemoryEntry) -> tuple[str, str, str]:
    """What tells an entry from the others of a user: its key, and whose it is in which scope."""
    scope = str(entry.metadata.get(SCOPE) or "user")
    return entry.key, scope, str(entry.metadata.get(scope, "")) if scope != "user" else ""


def _keys_in_one_scope(entries: Sequence[MemoryEntry]) -> set[str]:
    """Keys whose history is that of one entry; of the others a history does not say whose it is."""
    counts: dict[str, int] = {}
    for entry in entries:
        counts[entry.key] = counts.get(entry.key, 0) + 1
    return {key for key, count in counts.items() if count == 1}


def _view(entry: MemoryEntry) -> View:
    return View(project=str(entry.metadata.get(PROJECT) or ""), agent=str(entry.metadata.get(AGENT) or ""))


def _former(source: MemoryBackend, entry: MemoryEntry) -> list[Version]:
    """What an entry was before, the oldest first; from the last deletion on, as what was deleted is to stay so."""
    scoped = entry.metadata.get(SCOPE) not in (None, "user")
    seen = source.at(_view(entry)) if scoped else source
    versions: list[Version] = []
    for version in seen.history(entry.user_id, entry.key):
        if version.value is None:
            break
        if version.until is not None:
            versions.append(version)
    return versions[::-1]


def _copy(
    target: MemoryBackend,
    entry: MemoryEntry,
    versions: Sequence[Version],
    there: MemoryEntry | None,
    copied: CopiedMemory,
) -> None:
    values = [version.value for version in versions]
    begin = 0
    if there is not None:
        if _same(there, entry):
            copied.present += 1
            return
        if there.value in values:
            begin = values.index(there.value) + 1  # a copy that was interrupted
        elif there.value != entry.value and there.updated_at > entry.updated_at:
            copied.newer.append(f"{entry.user_id}: {entry.key}")
            return
        else:
            begin = len(versions)  # the history there is its own
    if isinstance(target, Restores):
        target.restore(entry, versions[begin:])
        copied.versions += len(versions) - begin
    else:
        copied.versions += _replay(target, entry, versions[begin:])
    copied.entries += 1


def _replay(target: MemoryBackend, entry: MemoryEntry, versions: Sequence[Version]) -> int:
    place = {name: entry.metadata[name] for name in (SCOPE, PROJECT, AGENT) if name in entry.metadata}
    for version in versions:
        provenance = {SESSION: version.session, SOURCE: version.source}
        metadata: dict[str, Any] = {**place, **{name: value for name, value in provenance.items() if value}}
        target.store(entry.user_id, entry.key, str(version.value), metadata or None)
    target.store(entry.user_id, entry.key, entry.value, entry.metadata or None)
    return len(versions)


def _same(one: MemoryEntry, other: MemoryEntry) -> bool:
    return one.value == other.value and one.metadata == other.metadata


def _compare(target: MemoryBackend, user: str, entries: Sequence[MemoryEntry], copied: CopiedMemory) -> None:
    there = {_place(entry): entry for entry in _entries(target, user)}
    for entry in entries:
        name = f"{user}: {entry.key}"
        if name in copied.newer:
            continue
        other = there.get(_place(entry))
        if other is None:
            copied.differences.append(f"{name} is missing")
        elif other.value != entry.value:
            copied.differences.append(f"{name} has another value")
        elif other.metadata != entry.metadata:
            copied.differences.append(f"{name} has other metadata")
