"""What is on its way to Honcho: messages and errands, in order, until they have arrived."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from warmstart.memory.honcho.connections import Connections
from warmstart.memory.honcho.wire import Record
from warmstart.storage.database import Connection

Kind = Literal["message", "forget", "forget_user"]


@dataclass(frozen=True, slots=True)
class Forgetting:
    """What became of a deleted key at Honcho, or with no `key` of a whole user. `done` when Honcho was asked."""

    user_id: str
    key: str | None
    at: float
    done: bool
    messages: int  # whose text it keeps

    def __str__(self) -> str:
        what = f"everything of {self.user_id!r}" if self.key is None else repr(self.key)
        if not self.done:
            return f"{what} is hidden here; Honcho has not been asked to delete anything yet"
        if self.key is None:
            return (
                f"{what} is hidden; Honcho deletes the messages and what it concluded from them when it comes to it, "
                "and keeps the peer, its card and what it concluded elsewhere"
            )
        if not self.messages:
            return f"{what} is hidden"
        texts = _counted(self.messages, "message")
        return (
            f"{what} is hidden, but Honcho keeps the text of {texts} and what it concluded: it cannot delete one alone"
        )


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


class Parcel(NamedTuple):
    """Something of the outbox. `attempted_at` when it was sent without an answer that says whether it arrived."""

    seq: int
    user_id: str
    kind: Kind
    version: str
    payload: str
    attempted_at: float | None


def post(run: Connection, user_id: str, kind: Kind, version: str, payload: str = "") -> None:
    run.execute(
        "INSERT INTO outbox (user_id, kind, version, payload) VALUES (?, ?, ?, ?)", (user_id, kind, version, payload)
    )


class Outbox:
    """The rows of what is to be sent."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def waiting(self) -> int:
        with self._connections.reading() as run:
            return int(run.execute("SELECT count(*) FROM outbox WHERE refused IS NULL").fetchone()[0])

    def refused(self) -> list[tuple[str, str, str]]:
        """User, key and reason of what Honcho will not take; it is kept here."""
        with self._connections.reading() as run:
            return run.execute(
                "SELECT o.user_id, coalesce(v.key, o.kind), o.refused FROM outbox o LEFT JOIN versions v"
                " ON v.id = o.version WHERE o.refused IS NOT NULL ORDER BY o.seq"
            ).fetchall()

    def batch(self, limit: int, aside: Sequence[str] = ()) -> list[Parcel]:
        """What is to be sent next: messages of one user, in order, or one errand; nothing of those set aside."""
        with self._connections.reading() as run:
            rows = run.execute(
                "SELECT seq, user_id, kind, version, payload, attempted_at FROM outbox WHERE refused IS NULL"
                " AND user_id = (SELECT user_id FROM outbox WHERE refused IS NULL"
                " AND user_id NOT IN (SELECT value FROM json_each(?)) ORDER BY seq LIMIT 1)"
                " ORDER BY seq LIMIT ?",
                (json.dumps(aside), limit),
            ).fetchall()
        parcels = [Parcel(*row) for row in rows]
        errand = next((place for place, parcel in enumerate(parcels) if parcel.kind != "message"), len(parcels))
        return parcels[: max(errand, 1)]

    def records(self, ids: Sequence[str]) -> list[Record]:
        """These versions, without those whose values are gone since."""
        with self._connections.reading() as run:
            rows = run.execute(
                "SELECT id, user_id, place, key, value, at, expires_at, metadata, message_id FROM versions"
                " WHERE id IN (SELECT value FROM json_each(?)) AND (deleted OR value IS NOT NULL)",
                (json.dumps(ids),),
            ).fetchall()
        return [Record(*row) for row in rows]

    def attempt(self, parcels: Sequence[Parcel]) -> None:
        """Note, before sending, that these may arrive."""
        with self._connections.writing() as run:
            run.executemany(
                "UPDATE outbox SET attempted_at = ? WHERE seq = ?", [(time.time(), parcel.seq) for parcel in parcels]
            )

    def unattempt(self, parcels: Sequence[Parcel]) -> None:
        """Note that these did not arrive."""
        with self._connections.writing() as run:
            run.executemany("UPDATE outbox SET attempted_at = NULL WHERE seq = ?", [(each.seq,) for each in parcels])

    def arrived(self, parcels: Sequence[Parcel], message_ids: Sequence[str], *, farewell: float | None = None) -> None:
        with self._connections.writing() as run:
            if farewell is not None:
                user = parcels[0].user_id
                run.execute("UPDATE forgotten_users SET told = 1 WHERE user_id = ? AND at = ?", (user, farewell))
            for parcel, message_id in zip(parcels, message_ids, strict=True):
                run.execute("UPDATE versions SET message_id = ? WHERE id = ?", (message_id, parcel.version))
                run.execute("DELETE FROM outbox WHERE seq = ?", (parcel.seq,))

    def retry(self) -> int:
        """Have what was refused wait again; how much that is."""
        with self._connections.writing() as run:
            run.execute("UPDATE outbox SET refused = NULL WHERE refused IS NOT NULL")
            return int(run.execute("SELECT changes()").fetchone()[0])

    def farewell(self, user_id: str) -> float | None:
        """When a user was forgotten, where the session that was begun since does not say so yet."""
        with self._connections.reading() as run:
            row = run.execute(
                "SELECT at FROM forgotten_users WHERE user_id = ? AND done AND NOT told", (user_id,)
            ).fetchone()
        return row[0] if row else None

    def refuse(self, parcel: Parcel, reason: str) -> None:
        with self._connections.writing() as run:
            run.execute("UPDATE outbox SET refused = ? WHERE seq = ?", (reason[:500], parcel.seq))

    def earlier(self, record: Record) -> list[tuple[str, str]]:
        """The versions of the same key before this one that are at Honcho, and their messages."""
        with self._connections.reading() as run:
            return run.execute(
                "SELECT id, message_id FROM versions WHERE user_id = ? AND place = ? AND key = ?"
                " AND (at, id) < (?, ?) AND message_id != '' AND NOT deleted",
                (record.user_id, record.place, record.key, record.at, record.id),
            ).fetchall()

    def done(self, parcel: Parcel, *, messages: int = 0) -> None:
        """An errand was run, or has become needless."""
        with self._connections.writing() as run:
            if parcel.kind == "forget":
                run.execute("UPDATE forgotten SET done = 1, messages = ? WHERE version = ?", (messages, parcel.version))
            elif parcel.kind == "forget_user":
                run.execute("UPDATE forgotten_users SET done = 1 WHERE user_id = ?", (parcel.user_id,))
            run.execute("DELETE FROM outbox WHERE seq = ?", (parcel.seq,))

    def forgotten(self, user_id: str) -> list[Forgetting]:
        with self._connections.reading() as run:
            rows = run.execute(
                "SELECT user_id, key, at, done, messages FROM forgotten WHERE user_id = :user UNION ALL"
                " SELECT user_id, NULL, at, done, 0 FROM forgotten_users WHERE user_id = :user"
                " ORDER BY at DESC",
                {"user": user_id},
            ).fetchall()
        return [Forgetting(row[0], row[1], row[2], bool(row[3]), row[4]) for row in rows]
