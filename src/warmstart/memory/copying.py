"""Moving memory from one backend to another, whichever kinds they are.

Where one can tell all that it keeps (`Tells`, as all of ours do) and the other can take it over (`Archives`, as those
in SQL do), everything goes over as it was: the times, the values before, what was deleted, in every scope. Elsewhere
entries go over one after the other, each after the values it had before, and what that loses is said. Secrets that the
other would not keep are replaced before anything is written and compared. What the other backend has and this one does
not, or knows newer, is never touched; it is reported. A copy that was interrupted is completed by the next, and doing
it twice changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from warmstart.memory.backend import MemoryBackend
from warmstart.memory.kept import Archives, Kept, Outcome, Place, place_of, without_secrets
from warmstart.memory.restoring import archive_of, redactor_of, told_by
from warmstart.memory.values import AGENT, EXPIRES_AT, PROJECT, SCOPE, SESSION, SOURCE, MemoryEntry, Version, View

_ALL = 1_000_000  # entries of one user
_SAME_TIME = 0.001  # seconds

Progress = Callable[[int, int], None]


@dataclass(slots=True)
class CopiedMemory:
    """What a copy came to."""

    users: int = 0
    entries: int = 0  # that were written
    present: int = 0  # that were there already
    versions: int = 0  # former values that were written
    deletions: int = 0  # that were written: that there was something, and until when
    newer: list[str] = field(default_factory=list)  # that the other backend knows newer, which were left alone
    undeleted: list[str] = field(default_factory=list)  # that were deleted here and are still there
    lost: list[str] = field(default_factory=list)  # what the other backend cannot hold, or this one cannot tell
    differences: list[str] = field(default_factory=list)


def copy_memory(
    source: MemoryBackend,
    target: MemoryBackend,
    *,
    users: Sequence[str] = (),
    progress: Progress | None = None,
) -> CopiedMemory:
    """Copy what is kept of these users, or of all that the source can tell, and compare both in the end."""
    copied = CopiedMemory()
    losses: Counter[str] = Counter()
    telling, taking, redactor = told_by(source), archive_of(target), redactor_of(target)
    chosen = users or (telling.archived_users() if telling else source.users())
    found = {
        user: [
            without_secrets(kept, redactor)
            for kept in (telling.archive(user) if telling else _told(source, user, losses))
        ]
        for user in chosen
    }
    total = sum(map(len, found.values()))
    done = 0
    left: set[tuple[str, Place]] = set()  # alone
    for user, all_kept in found.items():
        copied.users += 1
        replaying = None if taking else _Replaying(target, user, losses)
        for kept in all_kept:
            outcome = taking.restore(kept) if taking else replaying.write(kept) if replaying else "present"
            _count(copied, kept, outcome)
            if outcome == "newer":
                left.add((user, kept.place))
            done += 1
            if progress is not None:
                progress(done, total)
    for user, all_kept in found.items():
        copied_here = [kept for kept in all_kept if kept.entry is not None and (user, kept.place) not in left]
        _compare(target, taking, user, copied_here, copied, losses)
    copied.lost = [_said(kind, count) for kind, count in losses.items() if count]
    return copied


# -- what there is


def _told(source: MemoryBackend, user: str, losses: Counter[str]) -> list[Kept]:
    """What a backend tells by its contract, the oldest first."""
    entries = sorted(_entries(source, user), key=lambda entry: entry.updated_at)
    counts = Counter(entry.key for entry in entries)
    kept = []
    for entry in entries:
        history = _history(source, entry) if counts[entry.key] == 1 else []
        losses["scopes"] += counts[entry.key] > 1 and bool(source.history(user, entry.key))
        deleted = tuple(version.since for version in history if version.value is None)
        former = tuple(version for version in history if version.value is not None)
        kept.append(Kept(user, place_of(entry), entry, former, deleted))
    return kept


def _entries(backend: MemoryBackend, user: str) -> list[MemoryEntry]:
    """All entries of a user in all scopes; by their keys where a backend has no list of the newest."""
    found = {place_of(entry): entry for entry in backend.query(user, "", limit=_ALL)}
    known = {entry.key for entry in found.values()}
    for key in backend.list_keys(user):
        if key not in known and (entry := backend.retrieve(user, key)) is not None:
            found[place_of(entry)] = entry
    return [entry for entry in found.values() if entry.user_id in ("", user)]


def _history(source: MemoryBackend, entry: MemoryEntry) -> list[Version]:
    """What an entry was before, the oldest first; from the last deletion on, as what was deleted is to stay so."""
    scoped = entry.metadata.get(SCOPE) not in (None, "user")
    view = View(project=str(entry.metadata.get(PROJECT) or ""), agent=str(entry.metadata.get(AGENT) or ""))
    seen = source.at(view) if scoped else source
    versions: list[Version] = []
    for version in seen.history(entry.user_id, entry.key):
        if version.value is None:
            versions.append(version)
            break
        if version.until is not None:
            versions.append(version)
    return versions[::-1]


# -- writing it by the contract


class _Replaying:
    """Writes what was kept of a user into a backend that can only be told one value after the other."""

    def __init__(self, target: MemoryBackend, user: str, losses: Counter[str]) -> None:
        self._target = target
        self._there = {place_of(entry): entry for entry in _entries(target, user)}
        self._losses = losses

    def write(self, kept: Kept) -> Outcome:
        there = self._there.get(kept.place)
        self._losses["deletions"] += len(kept.deletions)
        if kept.entry is None:
            return "present" if there is None else "undeleted"
        begin = 0
        values = [version.value for version in kept.former]
        if there is not None:
            if (there.value, there.metadata) == (kept.entry.value, kept.entry.metadata):
                return "present"
            if there.value in values:
                begin = values.index(there.value) + 1  # a copy that was interrupted
            elif there.updated_at > kept.entry.updated_at:
                return "newer"
            else:
                begin = len(values)  # the history there is its own
        self._losses["former"] += len(values) - begin
        for version in kept.former[begin:]:
            self._store(kept, str(version.value), _metadata(kept, version))
        self._store(kept, kept.entry.value, kept.entry.metadata)
        return "written"

    def _store(self, kept: Kept, value: str, metadata: dict[str, Any]) -> None:
        self._target.store(kept.user_id, kept.place.key, value, metadata or None)


def _metadata(kept: Kept, version: Version) -> dict[str, Any]:
    """That of a former value, which is for nobody else and for no longer than the entry."""
    place, entry = kept.place, kept.entry
    scope = {} if place.scope == "user" else {SCOPE: place.scope, place.scope: place.place}
    if entry and entry.metadata.get(EXPIRES_AT) is not None:
        scope[EXPIRES_AT] = entry.metadata[EXPIRES_AT]
    return {**scope, **{name: said for name, said in ((SESSION, version.session), (SOURCE, version.source)) if said}}


# -- what it came to


def _count(copied: CopiedMemory, kept: Kept, outcome: Outcome) -> None:
    name = f"{kept.user_id}: {kept.place.key}"
    if outcome == "newer":
        copied.newer.append(name)
    elif outcome == "undeleted":
        copied.undeleted.append(name)
    elif kept.entry is None:
        copied.deletions += len(kept.deletions) if outcome == "written" else 0
    elif outcome == "present":
        copied.present += 1
    else:
        copied.entries += 1
        copied.versions += len(kept.former)
        copied.deletions += len(kept.deletions)


def _compare(
    target: MemoryBackend,
    taking: Archives | None,
    user: str,
    all_kept: Sequence[Kept],
    copied: CopiedMemory,
    losses: Counter[str],
) -> None:
    there = {place_of(entry): entry for entry in _entries(target, user)}
    told = {kept.place: kept for kept in taking.archive(user)} if taking else {}
    for kept in all_kept:
        name, entry = f"{user}: {kept.place.key}", kept.entry
        other = there.get(kept.place)
        if entry is None or other is None:
            copied.differences.append(f"{name} is missing")
        elif other.value != entry.value:
            copied.differences.append(f"{name} has another value")
        elif other.metadata != entry.metadata:
            copied.differences.append(f"{name} has other metadata")
        elif taking and not _values(kept) <= _values(told.get(kept.place)):
            copied.differences.append(f"{name} has another history")
        else:
            times = (entry.created_at - other.created_at, entry.updated_at - other.updated_at)
            losses["times"] += max(map(abs, times)) > _SAME_TIME


def _values(kept: Kept | None) -> set[tuple[str | None, float]]:
    return {(version.value, version.since) for version in kept.former} if kept else set()


def _said(kind: str, count: int) -> str:
    things = {
        "times": ("the times of {} entries", "they are those of the copy"),
        "former": ("{} values that held before", "their times are those of the copy"),
        "deletions": ("{} deletions", "nothing tells there that something was deleted, or when"),
        "scopes": (
            "the former values of {} entries",
            "their key has entries in several scopes, and nothing tells whose",
        ),
    }
    what, why = things[kind]
    return f"{what.format(count)}: {why}"
