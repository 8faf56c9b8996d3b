"""What is known here of what is at Honcho.

A write is in the log of versions and in the outbox in one transaction, or nowhere.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from warmstart.memory.honcho.connections import Connections
from warmstart.memory.honcho.outbox import Outbox, post
from warmstart.memory.honcho.patience import Patience
from warmstart.memory.honcho.versions import after, apply, expire, told
from warmstart.memory.honcho.wire import Record, Traffic
from warmstart.memory.values import MemoryEntry, Version
from warmstart.memory.words import asked
from warmstart.storage.database import Connection

Places = Sequence[str] | None  # those that are seen, the narrowest first; without, all of them

_ASKED = 2000  # characters of a question that count
_BEGINNING = 3  # letters of a word that may be the beginning of another
_COLUMNS = "e.key, e.value, e.metadata, e.created_at, e.updated_at"
_NEWEST_FIRST = "ORDER BY e.updated_at DESC, e.rowid DESC"


class Position(NamedTuple):
    """How far a user's session has been read, whether its end was ever reached, and when it was looked at last.

    `last` is the id of the last message that was read: another one in its place is that of another session.
    """

    seen: int = 0
    complete: bool = False
    pulled_at: float = 0.0
    last: str = ""


class Index:
    """The entries, how far Honcho was read, the outbox, and the patience with Honcho; for many threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connections = Connections(path)
        self._reading, self._writing = self._connections.reading, self._connections.writing
        self.outbox = Outbox(self._connections)
        self.patience = Patience(self._connections)

    def close(self) -> None:
        self._connections.close()

    # -- writing

    def write(self, record: Record, *, send_scoped: bool) -> None:
        """Keep a value under a new id and the time of now, to be sent if it may be."""
        with self._writing() as run:
            expire(run)
            at = after(run, record.user_id, record.place, record.key)
            record = replace(record, id=uuid4().hex, at=at)
            apply(run, record)
            if send_scoped or record.is_general:
                post(run, record.user_id, "message", record.id)

    def erase(self, user_id: str, view: Places, key: str) -> bool:
        """Delete a key, to be sent; whether it was there. What it was worth is gone here at once.

        From a view, the entry that is seen from there goes; from nowhere in particular, the key in all scopes.
        """
        with self._reading() as run:
            if not _of_key(run, user_id, view, key):
                return False
        now = time.time()
        with self._writing() as run:
            rows = _of_key(run, user_id, view, key)
            if view is not None:
                rows = rows[:1]
            for place, _ in rows:
                record = Record(uuid4().hex, user_id, place, key, None, after(run, user_id, place, key))
                sent = _is_sent(run, record)
                apply(run, record)
                if not sent:
                    continue
                post(run, user_id, "message", record.id)
                post(run, user_id, "forget", record.id)
                run.execute(
                    "INSERT INTO forgotten (version, user_id, key, at) VALUES (?, ?, ?, ?)",
                    (record.id, user_id, key, record.at),
                )
        return any(expires_at is None or expires_at > now for _, expires_at in rows)

    def merge(self, records: Sequence[Record]) -> None:
        """Take over what came from Honcho; what of it has expired is not kept."""
        with self._writing() as run:
            _take_over(run, records)
            expire(run)

    def forget_user(self, user_id: str) -> int:
        """Remove all of a user, to be sent; how many entries there were. What is on its way is not sent any more.

        That and when it was done is kept: Honcho goes on showing the messages until it comes to deleting them.
        """
        at = time.time()
        with self._writing() as run:
            there = run.execute("SELECT count(*) FROM entries WHERE user_id = ?", (user_id,)).fetchone()[0]
            for table in ("versions", "entries", "outbox", "positions", "forgotten"):
                run.execute(f"DELETE FROM {table} WHERE user_id = ?", (user_id,))
            _forgot(run, user_id, at, done=False)
            post(run, user_id, "forget_user", "", repr(at))
        return int(there)

    # -- reading

    def get(self, user_id: str, view: Places, key: str) -> MemoryEntry | None:
        """What a key is worth in the narrowest place of the view; without a view, for the user, else as said last."""
        order = "e.place = '' DESC, e.updated_at DESC" if view is None else _rank(view, "e.place")
        with self._reading() as run:
            row = run.execute(
                f"SELECT {_COLUMNS} FROM entries e WHERE e.key = :key AND {_there(view)} ORDER BY {order} LIMIT 1",
                {**_seen_from(user_id, view), "key": key},
            ).fetchone()
        return _entry(user_id, row) if row else None

    def newest(self, user_id: str, view: Places, limit: int) -> list[MemoryEntry]:
        with self._reading() as run:
            rows = run.execute(
                f"SELECT {_COLUMNS} FROM entries e WHERE {_seen(view)} {_NEWEST_FIRST} LIMIT :n",
                {**_seen_from(user_id, view), "n": limit},
            ).fetchall()
        return [_entry(user_id, row) for row in rows]

    def keys(self, user_id: str, view: Places) -> list[str]:
        with self._reading() as run:
            rows = run.execute(
                f"SELECT e.key FROM entries e WHERE {_seen(view)} {_NEWEST_FIRST}", _seen_from(user_id, view)
            ).fetchall()
        return list(dict.fromkeys(row[0] for row in rows))

    def search(self, user_id: str, view: Places, text: str, limit: int) -> list[MemoryEntry]:
        """Entries by their words, of which a beginning is enough; where there are none, by substring."""
        text = text[:_ASKED]
        words = dict.fromkeys(part for word in asked(text) for part in word)
        terms = " OR ".join(f'"{_beginning(word)}"*' if len(word) >= _BEGINNING else f'"{word}"' for word in words)
        seen = {**_seen_from(user_id, view), "n": limit}
        rows: list[Any] = []
        with self._reading() as run:
            if terms:
                rows = run.execute(
                    f"SELECT {_COLUMNS} FROM entries_text JOIN entries e ON e.rowid = entries_text.rowid"
                    f" WHERE entries_text MATCH :terms AND {_seen(view)}"
                    " ORDER BY bm25(entries_text, 3.0, 1.0, 0.5), e.updated_at DESC LIMIT :n",
                    {**seen, "terms": terms},
                ).fetchall()
            if not rows:
                rows = run.execute(
                    f"SELECT {_COLUMNS} FROM entries e WHERE {_seen(view)}"
                    " AND instr(lower(e.key || char(10) || e.value || char(10) || e.metadata), :part)"
                    f" {_NEWEST_FIRST} LIMIT :n",
                    {**seen, "part": text.lower()},
                ).fetchall()
        return [_entry(user_id, row) for row in rows]

    def of_versions(self, user_id: str, view: Places, ids: Sequence[str]) -> dict[str, MemoryEntry]:
        """The entries that these versions are the current values of. One that was superseded is not among them."""
        with self._reading() as run:
            rows = run.execute(
                f"SELECT {_COLUMNS}, e.version FROM entries e WHERE {_seen(view)}"
                " AND e.version IN (SELECT value FROM json_each(:ids))",
                {**_seen_from(user_id, view), "ids": json.dumps(ids)},
            ).fetchall()
        return {row[-1]: _entry(user_id, row) for row in rows}

    def history(self, user_id: str, view: Places, key: str) -> list[Version]:
        """What a key was worth in all places of the view, newest first. Of what expired nothing is told."""
        with self._reading() as run:
            rows = run.execute(
                "SELECT place, value, at, expires_at, metadata FROM versions WHERE user_id = ? AND key = ?"
                " AND (deleted OR value IS NOT NULL) ORDER BY place, at, id",
                (user_id, key),
            ).fetchall()
        found: list[Version] = []
        for place, group in groupby(rows, key=itemgetter(0)):
            if view is None or place in view:
                found += told([row[1:] for row in group], time.time())
        return sorted(found, key=lambda version: version.since, reverse=True)

    def logged_users(self) -> list[str]:
        """Whoever has entries, or had some that were deleted."""
        with self._reading() as run:
            return [row[0] for row in run.execute("SELECT DISTINCT user_id FROM versions ORDER BY user_id").fetchall()]

    def log(self, user_id: str) -> list[tuple[Any, ...]]:
        """Place, key, value, time, end and metadata of all versions of a user, by place and key, the oldest first."""
        with self._reading() as run:
            return run.execute(
                "SELECT place, key, value, at, expires_at, metadata FROM versions WHERE user_id = ?"
                " AND (deleted OR value IS NOT NULL) ORDER BY place, key, at, id",
                (user_id,),
            ).fetchall()

    def users(self) -> list[str]:
        with self._reading() as run:
            rows = run.execute(
                "SELECT DISTINCT user_id FROM entries WHERE expires_at IS NULL OR expires_at > ?", (time.time(),)
            ).fetchall()
        return sorted(row[0] for row in rows)

    def knows(self, user_id: str) -> bool:
        """Whether what is here says if a user has entries: something was written or read, or they were forgotten."""
        with self._reading() as run:
            tables = ("versions", "positions", "forgotten_users")
            asked = " UNION ALL ".join(f"SELECT 1 FROM {table} WHERE user_id = :user" for table in tables)
            return bool(run.execute(f"SELECT EXISTS ({asked})", {"user": user_id}).fetchone()[0])

    def has_deleted(self, user_id: str) -> bool:
        """Whether any entry of a user was ever deleted, or all of them were."""
        with self._reading() as run:
            return bool(
                run.execute(
                    "SELECT EXISTS (SELECT 1 FROM versions WHERE user_id = :user AND deleted"
                    " UNION ALL SELECT 1 FROM forgotten_users WHERE user_id = :user)",
                    {"user": user_id},
                ).fetchone()[0]
            )

    def traffic(self) -> Traffic:
        """What went over the wire before, from this machine."""
        with self._reading() as run:
            row = run.execute("SELECT calls, bytes, received FROM traffic").fetchone()
        return Traffic(*row) if row else Traffic()

    def count(self, traffic: Traffic) -> None:
        """Add what went over the wire."""
        self._connections.in_passing(
            "INSERT INTO traffic (one, calls, bytes, received) VALUES (1, ?, ?, ?) ON CONFLICT (one) DO UPDATE SET"
            " calls = calls + excluded.calls, bytes = bytes + excluded.bytes, received = received + excluded.received",
            traffic,
        )

    # -- how far Honcho was read

    def position(self, user_id: str) -> Position:
        with self._reading() as run:
            row = run.execute(
                "SELECT seen, complete, pulled_at, last FROM positions WHERE user_id = ?", (user_id,)
            ).fetchone()
        return Position(row[0], bool(row[1]), row[2], row[3]) if row else Position()

    def advance(self, user_id: str, before: Position, records: Sequence[Record], now: Position) -> None:
        """Take over what was read, and that it was read, unless another process has come further meanwhile.

        `Position()` begins anew.
        """
        with self._writing() as run:
            _take_over(run, records)
            run.execute(
                "INSERT INTO positions (user_id, seen, complete, pulled_at, last)"
                " VALUES (:user, :seen, :complete, :now, :last)"
                " ON CONFLICT (user_id) DO UPDATE SET seen = :seen, pulled_at = :now, last = :last,"
                " complete = CASE WHEN :anew THEN 0 ELSE max(complete, :complete) END"
                " WHERE seen = :seen_before AND last = :last_before",
                {
                    "user": user_id,
                    "seen": now.seen,
                    "complete": now.complete,
                    "now": time.time(),
                    "last": now.last,
                    "anew": now == Position(),
                    "seen_before": before.seen,
                    "last_before": before.last,
                },
            )
            expire(run)


def _take_over(run: Connection, records: Sequence[Record]) -> None:
    """Add what came from Honcho, but for what was written before its user was forgotten."""
    since: dict[str, float] = {}
    for record in records:
        user = record.user_id
        if user not in since:
            row = run.execute("SELECT at FROM forgotten_users WHERE user_id = ?", (user,)).fetchone()
            since[user] = row[0] if row else 0.0
        if record.at <= since[user]:
            continue
        if record.everything:
            _forget_before(run, user, record.at)
            since[user] = record.at
        else:
            apply(run, record)


def _forget_before(run: Connection, user_id: str, at: float) -> None:
    """Do here what was done on another machine: forget a user up to a moment."""
    of_then = "SELECT id FROM versions WHERE user_id = :user AND at <= :at"
    for table in ("outbox", "forgotten", "entries"):
        run.execute(f"DELETE FROM {table} WHERE version IN ({of_then})", {"user": user_id, "at": at})
    run.execute("DELETE FROM versions WHERE user_id = :user AND at <= :at", {"user": user_id, "at": at})
    _forgot(run, user_id, at, done=True)


def _forgot(run: Connection, user_id: str, at: float, *, done: bool) -> None:
    run.execute(
        "INSERT INTO forgotten_users (user_id, at, done, told) VALUES (?, ?, ?, ?) ON CONFLICT (user_id) DO UPDATE"
        " SET at = excluded.at, done = excluded.done, told = excluded.told",
        (user_id, at, done, done),  # who read it need not say it
    )


def _of_key(run: Connection, user_id: str, view: Places, key: str) -> list[tuple[str, float | None]]:
    """The places of a key and when it expires there, the narrowest first."""
    found = run.execute("SELECT place, expires_at FROM entries WHERE user_id = ? AND key = ?", (user_id, key))
    if view is None:
        return found.fetchall()
    return sorted((row for row in found if row[0] in view), key=lambda row: view.index(row[0]))


def _is_sent(run: Connection, record: Record) -> bool:
    """Whether any version of this key is at Honcho, or on its way there."""
    there = "message_id != '' OR EXISTS (SELECT 1 FROM outbox o WHERE o.version = v.id)"
    asked = f"SELECT EXISTS (SELECT 1 FROM versions v WHERE user_id = ? AND place = ? AND key = ? AND ({there}))"
    return bool(run.execute(asked, (record.user_id, record.place, record.key)).fetchone()[0])


def _entry(user_id: str, row: Sequence[Any]) -> MemoryEntry:
    return MemoryEntry(row[0], row[1], user_id, row[3], row[4], json.loads(row[2]) if row[2] else {})


def _rank(view: Sequence[str], column: str) -> str:
    """How narrow a place is, as SQL; nothing for one that is not seen."""
    return f"CASE {column} " + " ".join(f"WHEN :place{n} THEN {n}" for n in range(len(view))) + " END"


def _there(view: Places, name: str = "e") -> str:
    """The condition on an entry that it has not expired and is in a place that is seen."""
    here = f"{name}.user_id = :user AND ({name}.expires_at IS NULL OR {name}.expires_at > :now)"
    return here if view is None else f"{here} AND {_rank(view, f'{name}.place')} IS NOT NULL"


def _seen(view: Places) -> str:
    """The condition on an entry `e` that it is there and that none of its key in a narrower place is."""
    if view is None or len(view) == 1:
        return _there(view)
    narrower = f"{_rank(view, 'n.place')} < {_rank(view, 'e.place')}"
    return (
        f"{_there(view)} AND NOT EXISTS"
        f" (SELECT 1 FROM entries n WHERE n.key = e.key AND {_there(view, 'n')} AND {narrower})"
    )


def _seen_from(user_id: str, view: Places) -> dict[str, Any]:
    return {"user": user_id, "now": time.time(), **{f"place{n}": place for n, place in enumerate(view or ())}}


def _beginning(stem: str) -> str:
    """Entries that were written with an earlier stemmer have `technolog` where the stem is `technologi` now."""
    return stem[:-1] if stem.endswith(("ologi", "bli")) else stem
