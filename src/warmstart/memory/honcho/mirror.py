"""The local copy of what is at Honcho: the local backend's tables, an outbox, and how far each session was read.

A write goes to the tables and the outbox in one transaction. Of two changes of a key the later one wins, by the clock
of the machine that wrote it. The state of the circuit breaker is in the file too, so that all processes share it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Sequence
from dataclasses import asdict, replace
from itertools import takewhile
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple
from uuid import uuid4

from warmstart.errors import StoreError
from warmstart.memory.authors import NOTES, SCOPE, USER
from warmstart.memory.entries import Prepared, Row
from warmstart.memory.honcho.wire import Change, session_name
from warmstart.memory.local import LocalBackend
from warmstart.memory.sql import INSERT, MIGRATIONS, OR_UPDATE, Redacting, place_digest
from warmstart.memory.values import Rejected, digest
from warmstart.storage.database import Connection, migrations_of

Kind = Literal["message", "blank", "delete_session", "forget_user"]

_MAX_PAUSE = 30.0  # seconds that reads skip a server that failed
_TOLD = "told"  # the place of a forgotten user's tombstone once the other machines know

_MERGE = (
    f"{INSERT} VALUES (:user_id, :key, :place, :value, :metadata, :at, :at, :at, :expires_at) {OR_UPDATE} "
    "WHERE memory_entries.updated_at < excluded.updated_at"
)


class Parcel(NamedTuple):
    """A row of the outbox. `attempted_at` is set while no answer says whether it arrived."""

    seq: int
    kind: Kind
    change: Change
    attempted_at: float | None


class Position(NamedTuple):
    """How far a session was read, whether its end was ever reached, and when it was last looked at.

    `last` is the id of the last message that was read: another one in its place means another session.
    """

    seen: int = 0
    is_complete: bool = False
    pulled_at: float = 0.0
    last: str = ""


class Mirror(LocalBackend):
    """The local copy. `send_scoped` says whether entries with a scope or an expiry are sent."""

    MIGRATIONS: ClassVar = (*MIGRATIONS, *migrations_of("honcho", __file__))

    def __init__(self, path: Path, *, redact: Redacting, send_scoped: bool) -> None:
        super().__init__(path, redact=redact)
        self.send_scoped = send_scoped

    # -- writing

    def _store(self, user_id: str, prepared: Prepared) -> None:
        key, place, value, metadata, expires_at = prepared
        with self.writing() as connection:
            query = "SELECT updated_at, expires_at FROM memory_entries WHERE user_id = ? AND key = ? AND place = ?"
            before = connection.execute(query, (user_id, key, place)).fetchone()
            at = self._put(connection, user_id, prepared)
            change = Change("", user_id, place, key, value, at, expires_at, metadata, digest(key))
            if not self._is_sent(change):
                return
            if before and (before[1] is None) != (expires_at is None):  # the value before is in another session
                gone = replace(change, key="", value=None, at=before[0], expires_at=before[1], metadata="")
                self._post(connection, "message" if before[1] is None else "delete_session", gone)
            self._post(connection, "message", change)

    def _is_sent(self, change: Change) -> bool:
        """What an agent noted is sent unless the agent asked for a scope."""
        is_note = change.place.startswith(NOTES)
        scope = json.loads(change.metadata).get(SCOPE) if is_note and change.metadata else None
        is_scoped = scope not in (None, USER) if is_note else bool(change.place)
        return self.send_scoped or (not is_scoped and change.expires_at is None)

    def _remove(self, connection: Connection, user_id: str, rows: Sequence[Row], when: float = 0.0) -> None:
        when = when or time.time()
        super()._remove(connection, user_id, rows, when)
        for row in rows:
            gone = Change("", user_id, row.place, "", None, when, row.expires_at, key_digest=digest(row.key))
            connection.execute(
                "DELETE FROM mirror_outbox WHERE user_id = ? AND kind = 'message' AND attempted_at IS NULL "
                "AND json_extract(body, '$.key') = ? AND json_extract(body, '$.place') = ?",
                (user_id, row.key, row.place),
            )
            # It may have been sent before the setting changed.
            known = connection.execute("SELECT 1 FROM mirror_positions WHERE session = ?", (gone.session,)).fetchone()
            if known is None and not self._is_sent(replace(gone, metadata=row.metadata)):
                continue
            if row.expires_at is not None:
                self._post(connection, "delete_session", gone)
                if row.expires_at > when:  # other machines would keep it until then
                    self._post(connection, "message", replace(gone, expires_at=None))
            else:
                self._post(connection, "message", gone)
                self._post(connection, "blank", gone)

    def _forget(self, connection: Connection, user_id: str) -> int:
        at = time.time()
        found = super()._forget(connection, user_id)
        for table in ("mirror_outbox", "mirror_positions"):
            connection.execute(f"DELETE FROM {table} WHERE user_id = ?", (user_id,))
        self._bury(connection, user_id, "", "", at)
        self._post(connection, "forget_user", Change("", user_id, "", "", None, at))
        return found

    # -- merging what was read at Honcho

    def _merge(self, connection: Connection, changes: Sequence[Change], session: str) -> None:
        for change in changes:
            if self._is_deleted(connection, change):
                continue
            if change.value is not None:
                connection.execute(_MERGE, asdict(change))
            elif change.key_digest:
                self._merge_deletion(connection, change, session)
            else:
                self._merge_farewell(connection, change)
        self._expire(connection)

    def _merge_deletion(self, connection: Connection, change: Change, session: str) -> None:
        user, known = change.user_id, change.key_digest
        query = "SELECT id, key, place FROM memory_entries WHERE user_id = ? AND updated_at <= ?"
        gone = [
            (number, place)
            for number, key, place in connection.execute(query, (user, change.at)).fetchall()
            if digest(key) == known and session in (session_name(user, place), session_name(user, place, known))
        ]
        self._remove_rows(connection, [number for number, _ in gone])
        for place in {place for _, place in gone} or {change.place}:
            self._bury(connection, change.user_id, change.key_digest, place, change.at)

    def _merge_farewell(self, connection: Connection, change: Change) -> None:
        rows = connection.execute(
            "SELECT id FROM memory_entries WHERE user_id = ? AND updated_at <= ?", (change.user_id, change.at)
        ).fetchall()
        self._remove_rows(connection, [row[0] for row in rows])
        connection.execute(
            "DELETE FROM memory_tombstones WHERE owner = ? AND deleted_at <= ?", (digest(change.user_id), change.at)
        )
        connection.execute(
            "DELETE FROM mirror_outbox WHERE user_id = ? AND json_extract(body, '$.at') <= ?",
            (change.user_id, change.at),
        )
        self._bury(connection, change.user_id, "", _TOLD, change.at)

    def _is_deleted(self, connection: Connection, change: Change) -> bool:
        """Whether the value was deleted since; of a deletion, whether the user was forgotten since."""
        named = ("", "") if change.value is None else (change.key_digest, place_digest(change.place))
        row = connection.execute(
            "SELECT max(deleted_at) FROM memory_tombstones WHERE owner = ? AND (entry = '' OR (entry, place) = (?, ?))",
            (digest(change.user_id), *named),
        ).fetchone()
        return row[0] is not None and row[0] >= change.at

    def has_deleted(self, user_id: str) -> bool:
        """Whether any entry of a user was ever deleted, or all of them were."""
        return bool(self.fetch("SELECT 1 FROM memory_tombstones WHERE owner = ? LIMIT 1", (digest(user_id),)))

    # -- positions

    def position(self, session: str) -> Position:
        query = "SELECT seen, is_complete, pulled_at, last FROM mirror_positions WHERE session = ?"
        return next((Position(*row) for row in self.fetch(query, (session,))), Position())

    def sessions(self, user_id: str) -> list[str]:
        """The sessions of a user that were read before."""
        rows = self.fetch("SELECT session FROM mirror_positions WHERE user_id = ?", (user_id,))
        return [row[0] for row in rows]

    def drop(self, session: str) -> None:
        """Stop reading a session that no longer exists."""
        with self.writing() as connection:
            connection.execute("DELETE FROM mirror_positions WHERE session = ?", (session,))

    def advance(self, user_id: str, session: str, before: Position, changes: Sequence[Change], now: Position) -> None:
        """Store what was read and the new position, unless another process has read further in the meantime."""
        with self.writing() as connection:
            self._merge(connection, changes, session)
            connection.execute(
                "INSERT INTO mirror_positions (session, user_id, seen, is_complete, pulled_at, last) "
                "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (session) DO UPDATE SET seen = excluded.seen, "
                "is_complete = excluded.is_complete, pulled_at = excluded.pulled_at, last = excluded.last "
                "WHERE mirror_positions.seen = ? AND mirror_positions.last = ?",
                (session, user_id, now.seen, now.is_complete, time.time(), now.last, before.seen, before.last),
            )

    # -- the outbox

    def _post(self, connection: Connection, kind: Kind, change: Change) -> None:
        body = {name: value for name, value in asdict(change).items() if name not in ("id", "user_id")}
        connection.execute(
            "INSERT INTO mirror_outbox (user_id, kind, id, body) VALUES (?, ?, ?, ?)",
            (change.user_id, kind, uuid4().hex, json.dumps(body)),
        )

    def waiting(self) -> int:
        return int(self.fetch("SELECT count(*) FROM mirror_outbox WHERE rejected IS NULL")[0][0])

    def rejected(self) -> list[Rejected]:
        """The writes that Honcho rejected; they stay here."""
        query = (
            "SELECT user_id, coalesce(nullif(json_extract(body, '$.key'), ''), kind), rejected FROM mirror_outbox "
            "WHERE rejected IS NOT NULL ORDER BY seq"
        )
        return [Rejected(*row) for row in self.fetch(query)]

    def batch(self, limit: int, skip: Collection[str] = ()) -> list[Parcel]:
        """What to send next: messages of one session, in order, or one other job; without the sessions to skip."""
        rows = self.fetch(
            "SELECT seq, kind, user_id, id, body, attempted_at FROM mirror_outbox WHERE rejected IS NULL "
            f"ORDER BY seq LIMIT {limit * 10}"
        )
        parcels = [
            Parcel(seq, kind, _change(user_id, change_id, body), attempted_at)
            for seq, kind, user_id, change_id, body, attempted_at in rows
        ]
        sessions = [parcel.change.session for parcel in parcels if parcel.change.session not in skip]
        same = [parcel for parcel in parcels if parcel.change.session in sessions[:1]]
        return list(takewhile(lambda parcel: parcel.kind == "message", same))[:limit] or same[:1]

    def farewell(self, user_id: str) -> float | None:
        """When a user was forgotten, if no session that was begun since says so."""
        query = "SELECT max(deleted_at) FROM memory_tombstones WHERE owner = ? AND entry = '' AND place = ''"
        found: float | None = self.fetch(query, (digest(user_id),))[0][0]
        return found

    def claim(self, parcels: Sequence[Parcel]) -> list[Parcel]:
        """Mark these as attempted, before they are sent; drops those that may not be sent, and returns the others.

        What is deleted before this is not among them; what is deleted after it is followed by its deletion.
        """
        claimed = []
        with self.writing() as connection:
            for parcel in parcels:
                if parcel.change.value is not None and not self._is_sent(parcel.change):
                    connection.execute("DELETE FROM mirror_outbox WHERE seq = ?", (parcel.seq,))
                    continue
                note = "UPDATE mirror_outbox SET attempted_at = ? WHERE seq = ?"
                if connection.execute(note, (time.time(), parcel.seq)).rowcount:
                    claimed.append(parcel)
        return claimed

    def release(self, parcels: Sequence[Parcel]) -> None:
        """Unmark these: they did not arrive."""
        with self.writing() as connection:
            for parcel in parcels:
                connection.execute("UPDATE mirror_outbox SET attempted_at = NULL WHERE seq = ?", (parcel.seq,))

    def done(self, parcels: Sequence[Parcel], *, forgotten_at: float | None = None) -> None:
        """Remove what has arrived. `forgotten_at` is the time of a farewell that was sent with it."""
        with self.writing() as connection:
            for parcel in parcels:
                connection.execute("DELETE FROM mirror_outbox WHERE seq = ?", (parcel.seq,))
                if parcel.kind == "message":  # the session exists, read or not
                    connection.execute(
                        "INSERT INTO mirror_positions (session, user_id, seen, is_complete, pulled_at, last) "
                        "VALUES (?, ?, 0, 0, 0, '') ON CONFLICT (session) DO NOTHING",
                        (parcel.change.session, parcel.change.user_id),
                    )
                if forgotten_at is not None:
                    connection.execute(
                        "UPDATE memory_tombstones SET place = ? WHERE owner = ? AND entry = '' AND deleted_at = ?",
                        (place_digest(_TOLD), digest(parcel.change.user_id), forgotten_at),
                    )

    def reject(self, parcel: Parcel, reason: str) -> None:
        with self.writing() as connection:
            connection.execute("UPDATE mirror_outbox SET rejected = ? WHERE seq = ?", (reason[:500], parcel.seq))

    def retry(self) -> int:
        with self.writing() as connection:
            return connection.execute("UPDATE mirror_outbox SET rejected = NULL WHERE rejected IS NOT NULL").rowcount


class CircuitBreaker:
    """After a failure, reads skip Honcho for a while."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self._not_before = 0.0

    @property
    def is_closed(self) -> bool:
        """Whether Honcho answered when it was last asked."""
        return not self._open_until()

    def allows(self) -> bool:
        """Whether a read should ask Honcho. After each pause one read tries again."""
        now, until = time.time(), self._open_until()
        if not until:
            return True
        return until <= now and self._update(
            "UPDATE circuit_breaker SET until = ? + step WHERE until = ?", (now, until)
        )

    def failed(self) -> None:
        """Skip Honcho for a while, longer each time."""
        now = time.time()
        self._not_before = now + 1  # in case the update fails
        self._update(
            "INSERT INTO circuit_breaker (one, until, step) VALUES (1, :now + 1, 1) ON CONFLICT (one) DO UPDATE "
            "SET step = min(max(step * 2, 1), :most), until = :now + min(max(step * 2, 1), :most)",
            {"now": now, "most": _MAX_PAUSE},
        )

    def answered(self) -> None:
        """Ask Honcho again."""
        self._not_before = 0.0
        if self._open_until():
            self._update("UPDATE circuit_breaker SET until = 0, step = 0", ())

    def _open_until(self) -> float:
        rows = self._mirror.fetch("SELECT until FROM circuit_breaker")
        return max(rows[0][0] if rows else 0.0, self._not_before)

    def _update(self, statement: str, values: object) -> bool:
        """Write unless the file is locked; returns whether a row changed."""
        try:
            with self._mirror.quickly(), self._mirror.writing() as connection:
                return connection.execute(statement, values).rowcount > 0
        except StoreError:
            return False


def _change(user_id: str, id: str, body: str) -> Change:
    said: dict[str, Any] = {"place": "", "key": "", "value": None, **json.loads(body)}
    return Change(id, user_id, **{"key_digest": digest(said["key"]), **said})
