"""Entries as they were elsewhere, with their times, their former values and what was deleted: what a copy needs.

`Archives` is what a backend may offer besides the contract. For those in SQL it is done here, by `archive_of`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import msgspec

from warmstart.memory.backend import MemoryBackend
from warmstart.memory.entries import Given, prepared
from warmstart.memory.sql import _BITS, _HISTORY, _INSERT, _ROW, SQLBackend, _provenance, _Row
from warmstart.memory.values import SCOPE, SCOPES, MemoryEntry, Scope, Version
from warmstart.sessions.values import clean
from warmstart.storage.database import Connection

Outcome = Literal["written", "present", "newer", "undeleted"]

_DECODE = msgspec.json.Decoder().decode


class Place(NamedTuple):
    """What tells an entry from the others of a user: its key, and whose it is in which scope."""

    key: str
    scope: Scope
    place: str


@dataclass(frozen=True, slots=True)
class Kept:
    """All that is kept of a place. `former` are values that are over, the oldest first, `deleted` is when it last was.

    Without an entry only that it was deleted is known.
    """

    user_id: str
    place: Place
    entry: MemoryEntry | None
    former: tuple[Version, ...] = ()
    deleted: float | None = None


@runtime_checkable
class Archives(Protocol):
    """Can tell all that it keeps, and take it over as it was elsewhere."""

    def archived_users(self) -> list[str]:
        """Whoever has entries, or had some that were deleted."""

    def archive(self, user_id: str) -> list[Kept]:
        """All that is kept of a user, in the order in which it was written."""

    def restore(self, kept: Kept) -> Outcome:
        """Keep this as well, with its times. What was there becomes history, unless it is newer: then it stays."""


def archive_of(backend: MemoryBackend) -> Archives | None:
    """How to tell all that this backend keeps, if there is a way."""
    if isinstance(backend, Archives):
        return backend
    return _SQLArchive(backend) if isinstance(backend, SQLBackend) else None


def place_of(entry: MemoryEntry) -> Place:
    """Where an entry belongs."""
    said = entry.metadata.get(SCOPE)
    scope: Scope = said if said in SCOPES else "user"
    return Place(entry.key, scope, str(entry.metadata.get(scope, "")) if scope != "user" else "")


class _SQLArchive:
    """Implements `Archives` over the tables of a backend in SQL."""

    def __init__(self, backend: SQLBackend) -> None:
        self._backend = backend
        self._held = backend._held

    def archived_users(self) -> list[str]:
        with self._held.lock, self._held.database.translated():
            rows = self._held.database.connection.execute(
                "SELECT u.user_id FROM memory_users u WHERE EXISTS (SELECT 1 FROM memories m WHERE m.owner = u.number "
                "AND m.scope >= 0) OR EXISTS (SELECT 1 FROM memory_history h WHERE h.owner = u.number) "
                "ORDER BY u.user_id"
            ).fetchall()
        return [row[0] for row in rows]

    def archive(self, user_id: str) -> list[Kept]:
        with self._held.lock, self._held.database.translated():
            connection = self._held.database.connection
            owner = self._backend._owner(user_id)
            rows = connection.execute(
                f"SELECT {_ENTRY} FROM memories WHERE owner = ? AND scope >= 0 ORDER BY id", (owner,)
            ).fetchall()
            told = _histories(connection, "owner = ?", (owner,))
        now = time.time()
        gone, kept = [], []
        for *spot, expires_at, value, created_at, updated_at, metadata in rows:
            place = _place(*spot)
            former, deleted = told.pop((spot[0], spot[1], spot[2]), _History([], None))
            if expires_at is not None and expires_at <= now:
                gone.append(Kept(user_id, place, None, (), expires_at))
                continue
            said = _DECODE(metadata) if metadata else {}
            entry = MemoryEntry(place.key, value, user_id, created_at, updated_at, said)
            kept.append(Kept(user_id, place, entry, tuple(former), deleted))
        gone += [Kept(user_id, _place(*spot), None, (), history.deleted) for spot, history in told.items()]
        return [*sorted((each for each in gone if each.deleted is not None), key=lambda each: each.place), *kept]

    def restore(self, kept: Kept) -> Outcome:
        held, backend = self._held, self._backend
        with held.lock:
            owner, outcome = held.database.write(lambda connection: self._restore(connection, kept))
            if outcome == "written" and kept.entry is not None:
                held.fresh += 1
                if held.fresh >= backend.BATCH > 1:
                    backend._bring_up_to_date(owner)
        return outcome

    def _restore(self, connection: Connection, kept: Kept) -> tuple[int, Outcome]:
        self._backend._expire(connection)
        owner = self._backend._owner(kept.user_id, new=True)
        if kept.entry is None:
            return owner, self._mark(connection, owner, kept)
        redactor = self._held.redactor
        given = prepared(kept.place.key, kept.entry.value, kept.entry.metadata, view=None, redactor=redactor)
        former = [
            replace(each, value=prepared(given.key, str(each.value), None, view=None, redactor=redactor).value)
            for each in kept.former
        ]
        there = self._there(connection, owner, given[:3])
        said = (given.value, given.metadata)
        if there and (there.value, there.row.metadata) != said and there.updated_at > kept.entry.updated_at:
            return owner, "newer"
        outcome = self._join(connection, owner, _Arriving(kept.entry, given, former, kept.deleted), there)
        if outcome == "written" and self._backend.BATCH == 1:
            self._backend._index(owner)
        return owner, outcome

    def _there(self, connection: Connection, owner: int, spot: _Spot) -> _There | None:
        found = connection.execute(f"SELECT {_ROW}, updated_at FROM memories WHERE {_WHERE}", (owner, *spot)).fetchone()
        return _There(_Row(*found[:-1]), found[-1]) if found else None

    def _join(self, connection: Connection, owner: int, arriving: _Arriving, there: _There | None) -> Outcome:
        """Put an entry and its history together with what is there, which may be the same already."""
        entry, given, former, deleted = arriving
        spot = given[:3]
        told = _histories(connection, _WHERE, (owner, *spot)).get(spot, _History([], None))
        since = (former[-1].until if former else None) or entry.created_at
        created, updated = entry.created_at, entry.updated_at
        over = [*told.former, *former]
        if there is not None:
            created = min(created, there.row.created_at)
            if there.value == given.value:
                since, updated = min(since, there.row.since), max(updated, there.updated_at)
            elif there.value not in {version.value for version in former}:
                over.append(Version(there.value, there.row.since, since, *_provenance(there.row.metadata)))
        over = sorted({(each.value, each.since): each for each in over}.values(), key=lambda each: each.since)
        deleted = max((when for when in (deleted, told.deleted) if when is not None), default=None)
        if there is not None and (told.former, told.deleted) == (over, deleted):
            row = there.row
            if (row.value, row.metadata, row.created_at, there.updated_at) == (
                given.value,
                given.metadata,
                created,
                updated,
            ):
                return "present"
        if there is not None:
            self._backend._forget(connection, owner, there.row, entry.updated_at)
        _tell(connection, owner, spot, over, deleted)
        times = (created, updated, since, given.expires_at)
        last = (owner + 1 << _BITS) - 1
        connection.execute(_INSERT, (last, owner, *spot, given.value, *times, given.metadata))
        return "written"

    def _mark(self, connection: Connection, owner: int, kept: Kept) -> Outcome:
        key, scope, place = kept.place
        spot = (prepared(key, "", None, view=None, redactor=self._held.redactor).key, SCOPES.index(scope), clean(place))
        there = self._there(connection, owner, spot)
        deleted = kept.deleted or 0.0
        if there is not None:
            return "newer" if there.updated_at > deleted else "undeleted"
        told = _histories(connection, _WHERE, (owner, *spot)).get(spot)
        if told is not None and told.deleted is not None and told.deleted >= deleted:
            return "present"
        _tell(connection, owner, spot, [], deleted)
        return "written"


_Spot = tuple[str, int, str]  # key, number of the scope, place
_ENTRY = "key, scope, place, expires_at, value, created_at, updated_at, metadata"
_WHERE = "owner = ? AND key = ? AND scope = ? AND place = ?"


class _There(NamedTuple):
    """An entry that is there."""

    row: _Row
    updated_at: float

    @property
    def value(self) -> str:
        return self.row.value


class _Arriving(NamedTuple):
    entry: MemoryEntry
    given: Given
    former: list[Version]
    deleted: float | None


class _History(NamedTuple):
    former: list[Version]  # the oldest first
    deleted: float | None


def _histories(connection: Connection, where: str, values: tuple[Any, ...]) -> dict[_Spot, _History]:
    rows = connection.execute(
        f"SELECT key, scope, place, value, since, until, session, source FROM memory_history WHERE {where} "
        "ORDER BY since",
        values,
    ).fetchall()
    found: dict[_Spot, _History] = {}
    for key, scope, place, *version in rows:
        told = found.setdefault((key, scope, place), _History([], None))
        if version[0] is None:
            found[key, scope, place] = told._replace(deleted=version[1])
        else:
            told.former.append(Version(*version))
    return found


def _tell(connection: Connection, owner: int, spot: _Spot, former: list[Version], deleted: float | None) -> None:
    """Write the history of a place anew. Its numbers are below 0, where no entry's is."""
    connection.execute(f"DELETE FROM memory_history WHERE {_WHERE}", (owner, *spot))
    lowest = connection.execute(
        "SELECT min(entry) FROM memory_history WHERE owner = ? AND key = ?", (owner, spot[0])
    ).fetchone()[0]
    number = min(lowest or 0, 0)
    versions = [*([Version(None, deleted, None)] if deleted is not None else []), *former]
    for place, each in enumerate(versions, 1):
        told = (each.value, each.since, each.until, each.session, each.source)
        connection.execute(_HISTORY, (owner, *spot, number - place, *told))


def _place(key: str, scope: int, place: str) -> Place:
    return Place(key, SCOPES[scope], place)
