"""Entries as they were elsewhere, told and taken over by the backends in SQL: what a copy needs."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import msgspec

from warmstart.memory.backend import MemoryBackend
from warmstart.memory.entries import Given, prepared
from warmstart.memory.kept import Archives, Kept, Outcome, Place, Tells, without_secrets
from warmstart.memory.owners import Owner, numbers
from warmstart.memory.reading import PAST, _provenance
from warmstart.memory.sql import SQLBackend, _Row
from warmstart.memory.values import SCOPES, SESSION, SOURCE, MemoryEntry, Version
from warmstart.redact.redactor import Redactor
from warmstart.sessions.values import clean
from warmstart.storage.database import Connection

_DECODE = msgspec.json.Decoder().decode
_ENCODE = msgspec.json.Encoder().encode


def archive_of(backend: MemoryBackend) -> Archives | None:
    """How to have this backend take over what was kept elsewhere, if there is a way."""
    if isinstance(backend, Archives):
        return backend
    return _SQLArchive(backend) if isinstance(backend, SQLBackend) else None


def told_by(backend: MemoryBackend) -> Tells | None:
    """How to tell all that this backend keeps, if there is a way."""
    return backend if isinstance(backend, Tells) else archive_of(backend)


def redactor_of(backend: MemoryBackend) -> Redactor | None:
    """What keeps secrets out of a backend; the shipped rules where it does not say, and nothing where it has none."""
    if isinstance(backend, SQLBackend):
        return backend._held.redactor
    own = getattr(backend, "redactor", None)
    return own if isinstance(own, Redactor) else Redactor()


class _SQLArchive:
    """Implements `Archives` over the tables of a backend in SQL."""

    def __init__(self, backend: SQLBackend) -> None:
        self._backend = backend
        self._held = backend._held

    def archived_users(self) -> list[str]:
        with self._held.lock, self._held.database.translate_errors():
            rows = self._held.database.connection.execute(
                "SELECT u.user_id FROM memory_users u WHERE u.user_id IS NOT NULL "
                "AND (EXISTS (SELECT 1 FROM memories m WHERE m.owner = u.number AND m.scope >= 0) "
                "OR EXISTS (SELECT 1 FROM memory_deletions d WHERE d.owner = u.number)) ORDER BY u.user_id"
            ).fetchall()
        return [row[0] for row in rows]

    def archive(self, user_id: str) -> list[Kept]:
        with self._held.lock, self._held.database.translate_errors():
            connection = self._held.database.connection
            owner = self._held.owners.find(connection, user_id)
            if owner is None:
                return []
            found = connection.execute(
                f"SELECT {_THERE} FROM memories WHERE owner = ? AND scope >= 0 ORDER BY {_LAST}", (owner.number,)
            )
            rows = [_There(*row) for row in found.fetchall()]
            told = _histories(connection, owner.number)
            deletions = _deletions(connection, "owner = ?", (owner.number,))
        now = time.time()
        gone, kept = [], []
        for row in rows:
            deleted = deletions.pop(row.spot, [])
            if row.expires_at is not None and row.expires_at <= now:
                gone.append(Kept(user_id, _place(*row.spot), None, (), (*deleted, row.expires_at)))
                continue
            said = _DECODE(row.metadata) if row.metadata else {}
            entry = MemoryEntry(row.key, row.value, user_id, row.created_at, row.updated_at, said)
            former = tuple(_chain(told, row.past))
            kept.append(Kept(user_id, _place(*row.spot), entry, former, tuple(deleted)))
        gone += [Kept(user_id, _place(*spot), None, (), tuple(deleted)) for spot, deleted in deletions.items()]
        return [*sorted(gone, key=lambda each: each.place), *kept]

    def restore(self, kept: Kept) -> Outcome:
        held, backend = self._held, self._backend
        with held.lock:
            with held.database.transaction() as connection:
                outcome = self._restore(connection, kept)
            if outcome == "written" and kept.entry is not None:
                held.fresh += 1
                if held.fresh >= backend.BATCH > 1:
                    backend._bring_up_to_date(kept.user_id)
        return outcome

    def _restore(self, connection: Connection, kept: Kept) -> Outcome:
        self._backend._expire(connection)
        owner = self._held.owners.number(connection, kept.user_id)
        if kept.entry is None:
            return self._mark(connection, owner, kept)
        given = prepared(kept.place.key, kept.entry.value, kept.entry.metadata, view=None, redactor=self._held.redactor)
        former = list(without_secrets(kept, self._held.redactor).former)
        there = self._there(connection, owner, given[:3])
        said = (given.value, given.metadata)
        if there and (there.value, there.metadata) != said and there.updated_at > kept.entry.updated_at:
            return "newer"
        outcome = self._join(connection, owner, _Arriving(kept.entry, given, former, kept.deletions), there)
        found = self._held.owners.find(connection, kept.user_id)
        while outcome == "written" and self._backend.BATCH == 1 and found:
            if not self._backend._index(connection, found).catch_up():
                break
        return outcome

    def _there(self, connection: Connection, owner: int, spot: _Spot) -> _There | None:
        found = connection.execute(f"SELECT {_THERE} FROM memories WHERE {_WHERE}", (owner, *spot)).fetchone()
        return _There(*found) if found else None

    def _join(self, connection: Connection, owner: int, arriving: _Arriving, there: _There | None) -> Outcome:
        """Put an entry and its history together with what is there, which may be the same already."""
        entry, given, former, deletions = arriving
        spot = given[:3]
        told = _former(connection, there.past) if there else []
        gone = _deletions(connection, _WHERE, (owner, *spot)).get(spot, [])
        since = (former[-1].until if former else None) or entry.created_at
        created, updated = entry.created_at, entry.updated_at
        over = [*told, *former]
        if there is not None:
            created = min(created, there.created_at)
            if there.value == given.value:
                since, updated = min(since, there.since), max(updated, there.updated_at)
            elif there.value not in {version.value for version in former}:
                over.append(Version(there.value, there.since, since, *_provenance(there.metadata)))
        over = sorted({(each.value, each.since): each for each in over}.values(), key=lambda each: each.since)
        deleted = sorted({*gone, *deletions})
        if there is not None and (told, gone) == (over, deleted):
            same = (there.value, there.metadata, there.created_at, there.updated_at)
            if same == (given.value, given.metadata, created, updated):
                return "present"
        if there is not None:
            self._backend._forget(connection, owner, _Row(there.id, *spot, there.expires_at, there.past), 0.0)
        _put_deletions(connection, owner, spot, deleted)
        self._put(connection, owner, given, (created, updated, since), over)
        return "written"

    def _put(self, connection: Connection, owner: int, given: Given, times: _Times, former: list[Version]) -> None:
        """Write an entry after what it was before, with a number for each as if they had been written one by one."""
        first = self._backend._index(connection, Owner(owner, 0)).newest() + 1
        for place, each in enumerate(former, 1):
            said = {name: value for name, value in ((SESSION, each.session), (SOURCE, each.source)) if value}
            connection.execute(
                "INSERT INTO memory_history (id, entry, prior, value, since, until, metadata) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    first + place,
                    first,
                    first + place - 1 if place > 1 else 0,
                    each.value,
                    each.since,
                    each.until,
                    _ENCODE(said).decode() if said else "",
                ),
            )
        connection.execute(
            "INSERT INTO memories (id, owner, key, scope, place, value, created_at, updated_at, since, expires_at, "
            "metadata, past) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (first, owner, *given[:4], *times, given.expires_at, given.metadata, first + len(former) if former else 0),
        )

    def _mark(self, connection: Connection, owner: int, kept: Kept) -> Outcome:
        key, scope, place = kept.place
        redactor = self._held.redactor
        kept_as = prepared(key, "", None, view=None, redactor=redactor).key
        spot = (kept_as, SCOPES.index(scope), redactor.clean(clean(place)) if redactor else clean(place))
        there = self._there(connection, owner, spot)
        if there is not None:
            return "newer" if there.updated_at > (kept.deleted or 0.0) else "undeleted"
        gone = _deletions(connection, _WHERE, (owner, *spot)).get(spot, [])
        deleted = sorted({*gone, *kept.deletions})
        if deleted == gone:
            return "present"
        _put_deletions(connection, owner, spot, deleted)
        return "written"


_Spot = tuple[str, int, str]  # key, number of the scope, place
_Times = tuple[float, float, float]  # created, updated, since
_THERE = "id, key, scope, place, value, created_at, updated_at, since, expires_at, metadata, past"
_LAST = "CASE WHEN past > id THEN past ELSE id END"  # the number of the last write
_WHERE = "owner = ? AND key = ? AND scope = ? AND place = ?"


class _There(NamedTuple):
    """An entry that is there."""

    id: int
    key: str
    scope: int
    place: str
    value: str
    created_at: float
    updated_at: float
    since: float
    expires_at: float | None
    metadata: str
    past: int

    @property
    def spot(self) -> _Spot:
        return self.key, self.scope, self.place


class _Arriving(NamedTuple):
    entry: MemoryEntry
    given: Given
    former: list[Version]
    deletions: tuple[float, ...]


def _histories(connection: Connection, owner: int) -> dict[int, tuple[int, Version]]:
    """Former values of a user by their numbers, and the number of the one before each."""
    rows = connection.execute(
        "SELECT id, prior, value, since, until, metadata FROM memory_history WHERE id BETWEEN ? AND ?", numbers(owner)
    ).fetchall()
    return {row[0]: (row[1], Version(row[2], row[3], row[4], *_provenance(row[5]))) for row in rows}


def _former(connection: Connection, past: int) -> list[Version]:
    rows = connection.execute(
        f"{PAST} SELECT h.value, h.since, h.until, h.metadata FROM past JOIN memory_history h ON h.id = past.id "
        "ORDER BY h.id",
        (past,),
    ).fetchall()
    return [Version(value, since, until, *_provenance(said)) for value, since, until, said in rows]


def _chain(told: dict[int, tuple[int, Version]], past: int) -> list[Version]:
    """What an entry was before, the oldest first."""
    versions = []
    while past in told:
        past, version = told[past]
        versions.append(version)
    return versions[::-1]


def _deletions(connection: Connection, where: str, values: tuple[Any, ...]) -> dict[_Spot, list[float]]:
    rows = connection.execute(
        f"SELECT key, scope, place, deleted_at FROM memory_deletions WHERE {where} ORDER BY deleted_at", values
    ).fetchall()
    found: dict[_Spot, list[float]] = {}
    for key, scope, place, deleted_at in rows:
        found.setdefault((key, scope, place), []).append(deleted_at)
    return found


def _put_deletions(connection: Connection, owner: int, spot: _Spot, deleted: list[float]) -> None:
    connection.execute(f"DELETE FROM memory_deletions WHERE {_WHERE}", (owner, *spot))
    for when in deleted:
        connection.execute(
            "INSERT INTO memory_deletions (owner, key, scope, place, deleted_at) VALUES (?, ?, ?, ?, ?)",
            (owner, *spot, when),
        )


def _place(key: str, scope: int, place: str) -> Place:
    return Place(key, SCOPES[scope], place)
