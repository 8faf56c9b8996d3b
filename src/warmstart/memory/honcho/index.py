"""What is known here of what is at Honcho, and what is on its way there.

`versions` is a log: a version is added once, by its id, wherever it comes from, and never changes. Of the versions of a
key the one written last is what the key is worth, by the clock of who wrote it; `entries` holds it for reading. A write
is in the log and in the outbox in one transaction, or nowhere.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple
from uuid import uuid4

from warmstart.memory.honcho.stale import Retired, retired, words
from warmstart.memory.honcho.wire import Record
from warmstart.memory.values import SESSION, SOURCE, MemoryEntry, Version
from warmstart.storage.database import Connection, Migration
from warmstart.storage.sqlite import Database

Kind = Literal["message", "forget", "unconclude"]
_WORD = re.compile(r"\w+")
_LONGEST = 30.0  # seconds that reads do not wait for a server that failed


@dataclass(frozen=True, slots=True)
class Forgetting:
    """What became of a deleted key at Honcho. `done` when Honcho was asked; its messages cannot be deleted."""

    user_id: str
    key: str
    at: float
    done: bool
    conclusions: int
    messages: int

    def __str__(self) -> str:
        if not self.done:
            return f"{self.key!r} is hidden here; Honcho has not been asked to delete anything yet"
        said = f"{self.key!r} is hidden; Honcho deleted {self.conclusions} conclusions drawn from it"
        if self.messages:
            said += f", but keeps the text of {self.messages} messages, which it has no way to delete one by one"
        return said


class Parcel(NamedTuple):
    """Something of the outbox. `attempted_at` when it was sent without an answer that says whether it arrived."""

    seq: int
    user_id: str
    kind: Kind
    version: str
    payload: str
    attempted_at: float | None


class Position(NamedTuple):
    """How far a user's session has been read, whether its end was ever reached, and when it was looked at last."""

    seen: int = 0
    complete: bool = False
    pulled_at: float = 0.0


class Index:
    """The tables, for many threads."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.RLock()
        self._db = Database(path, MIGRATIONS)
        self._db.connection.execute("PRAGMA secure_delete = ON")  # what is deleted is not left on free pages
        self.path = path

    def close(self) -> None:
        with self._lock:
            self._db.close()

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with self._lock, self._db.translated():
            yield self._db.connection

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with self._lock, self._db.transaction() as connection:
            yield connection

    # -- writing

    def write(self, user_id: str, place: str, key: str, value: str, metadata: dict[str, Any]) -> Record:
        """Keep a value, to be sent."""
        with self._writing() as run:
            record = Record(uuid4().hex, user_id, place, key, value, _after(run, user_id, place, key), metadata)
            _apply(run, record)
            _post(run, user_id, "message", record.id)
        return record

    def erase(self, user_id: str, places: Collection[str], key: str) -> bool:
        """Delete a key in these places, to be sent; whether it was there. What it was worth is gone here at once."""
        now = time.time()
        with self._writing() as run:
            found = run.execute(
                f"SELECT place FROM entries WHERE user_id = ? AND key = ? AND place IN ({_marks(places)})"
                " AND coalesce(expires_at, ?) >= ?",
                (user_id, key, *places, now + 1, now),
            ).fetchall()
            for (place,) in found:
                record = Record(uuid4().hex, user_id, place, key, None, _after(run, user_id, place, key))
                _apply(run, record)
                _post(run, user_id, "message", record.id)
                _post(run, user_id, "forget", record.id)
                run.execute(
                    "INSERT INTO forgotten (version, user_id, key, at) VALUES (?, ?, ?, ?)",
                    (record.id, user_id, key, record.at),
                )
        return bool(found)

    def merge(self, records: Sequence[Record]) -> None:
        """Take over what came from Honcho."""
        with self._writing() as run:
            for record in records:
                _apply(run, record)

    # -- reading

    def get(self, user_id: str, places: Sequence[str], key: str) -> MemoryEntry | None:
        """The entry in the first of these places that has one."""
        with self._reading() as run:
            rows = run.execute(
                f"SELECT {_COLUMNS} FROM entries WHERE user_id = ? AND key = ? AND place IN ({_marks(places)})"
                " AND (expires_at IS NULL OR expires_at > ?)",
                (user_id, key, *places, time.time()),
            ).fetchall()
        rows.sort(key=lambda row: places.index(row[1]))
        return _entry(user_id, rows[0]) if rows else None

    def newest(self, user_id: str, places: Sequence[str], limit: int = -1) -> list[MemoryEntry]:
        with self._reading() as run:
            rows = run.execute(
                f"SELECT {_COLUMNS} FROM entries e WHERE {_visible(places)} ORDER BY updated_at DESC, rowid DESC LIMIT :n",
                {**_seen_from(user_id, places), "n": limit},
            ).fetchall()
        return [_entry(user_id, row) for row in rows]

    def keys(self, user_id: str, places: Sequence[str]) -> list[str]:
        with self._reading() as run:
            rows = run.execute(
                f"SELECT key FROM entries e WHERE {_visible(places)} ORDER BY updated_at DESC, rowid DESC",
                _seen_from(user_id, places),
            ).fetchall()
        return [row[0] for row in rows]

    def search(self, user_id: str, places: Sequence[str], text: str, limit: int) -> list[MemoryEntry]:
        """Entries by full text, parts of words from their beginning included; where there are none, by substring."""
        terms = [f'"{word}"*' for word in dict.fromkeys(_WORD.findall(text.replace("_", " ").lower()))]
        seen = _seen_from(user_id, places)
        rows: list[Any] = []
        with self._reading() as run:
            if terms:
                rows = run.execute(
                    f"SELECT {_COLUMNS} FROM entries_text JOIN entries e ON e.rowid = entries_text.rowid"
                    f" WHERE entries_text MATCH :terms AND {_visible(places)}"
                    " ORDER BY bm25(entries_text, 3.0, 2.0, 1.0), updated_at DESC LIMIT :n",
                    {**seen, "terms": " OR ".join(terms), "n": limit},
                ).fetchall()
            if not rows:
                rows = run.execute(
                    f"SELECT {_COLUMNS} FROM entries e WHERE {_visible(places)}"
                    " AND instr(lower(key || char(10) || value || char(10) || metadata), :part)"
                    " ORDER BY updated_at DESC, rowid DESC LIMIT :n",
                    {**seen, "part": text.lower(), "n": limit},
                ).fetchall()
        return [_entry(user_id, row) for row in rows]

    def of_versions(self, user_id: str, places: Sequence[str], ids: Sequence[str]) -> dict[str, MemoryEntry]:
        """The entries that these versions are the current values of. One that was superseded is not among them."""
        with self._reading() as run:
            rows = run.execute(
                f"SELECT {_COLUMNS}, version FROM entries e WHERE {_visible(places)}"
                f" AND version IN (SELECT value FROM json_each(:ids))",
                {**_seen_from(user_id, places), "ids": json.dumps(ids)},
            ).fetchall()
        return {row[-1]: _entry(user_id, row) for row in rows}

    def knows(self, ids: Collection[str]) -> set[str]:
        with self._reading() as run:
            rows = run.execute(
                "SELECT id FROM versions WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(list(ids)),)
            ).fetchall()
        return {row[0] for row in rows}

    def history(self, user_id: str, places: Sequence[str], key: str) -> list[Version]:
        """The versions of a key in the first of these places that has any, newest first."""
        with self._reading() as run:
            rows = run.execute(
                f"SELECT place, value, at, metadata FROM versions WHERE user_id = ? AND key = ?"
                f" AND place IN ({_marks(places)}) AND (deleted OR value IS NOT NULL) ORDER BY at DESC, id DESC",
                (user_id, key, *places),
            ).fetchall()
        first = min((places.index(row[0]) for row in rows), default=0)
        found: list[Version] = []
        until: float | None = None
        now = time.time()
        for place, value, at, packed in rows:
            if place == places[first]:
                metadata = json.loads(packed)
                ends = Record("", "", "", "", value, at, metadata).expires_at
                ended = ends if ends is not None and ends <= now and (until is None or ends < until) else until
                source, session = str(metadata.get(SOURCE, "")), str(metadata.get(SESSION, ""))
                found.append(Version(value, at, ended, session, source))
                until = at
        return found

    def users(self) -> list[str]:
        with self._reading() as run:
            return [row[0] for row in run.execute("SELECT DISTINCT user_id FROM entries ORDER BY user_id")]

    def retired(self, user_id: str) -> list[Retired]:
        """What was true of a user and no longer is, as far as it takes to know it again."""
        with self._reading() as run:
            rows = run.execute("SELECT words, telling FROM retired WHERE user_id = ?", (user_id,)).fetchall()
        return [Retired(frozenset(json.loads(row[0])), frozenset(json.loads(row[1]))) for row in rows]

    # -- the outbox

    def waiting(self) -> int:
        with self._reading() as run:
            return int(run.execute("SELECT count(*) FROM outbox WHERE refused IS NULL").fetchone()[0])

    def refused(self) -> list[tuple[str, str, str]]:
        """User, key and reason of what Honcho will not take; it is kept here."""
        with self._reading() as run:
            return run.execute(
                "SELECT o.user_id, coalesce(v.key, o.kind), o.refused FROM outbox o LEFT JOIN versions v"
                " ON v.id = o.version WHERE o.refused IS NOT NULL ORDER BY o.seq"
            ).fetchall()

    def batch(self, limit: int) -> list[Parcel]:
        """What is to be sent next: messages of one user, in order, or one errand."""
        with self._reading() as run:
            rows = run.execute(
                "SELECT seq, user_id, kind, version, payload, attempted_at FROM outbox WHERE refused IS NULL AND user_id ="
                " (SELECT user_id FROM outbox WHERE refused IS NULL ORDER BY seq LIMIT 1) ORDER BY seq LIMIT ?",
                (limit,),
            ).fetchall()
        parcels = [Parcel(*row) for row in rows]
        errand = next((place for place, parcel in enumerate(parcels) if parcel.kind != "message"), len(parcels))
        return parcels[: max(errand, 1)]

    def records(self, ids: Sequence[str]) -> list[Record]:
        """These versions, in the order asked for, without those whose values are gone since."""
        with self._reading() as run:
            rows = run.execute(
                "SELECT id, user_id, place, key, value, at, metadata, message_id FROM versions"
                " WHERE id IN (SELECT value FROM json_each(?)) AND (deleted OR value IS NOT NULL)",
                (json.dumps(list(ids)),),
            ).fetchall()
        found = {row[0]: Record(*row[:6], json.loads(row[6]), row[7]) for row in rows}
        return [found[id] for id in ids if id in found]

    def attempt(self, parcels: Sequence[Parcel]) -> None:
        """Note, before sending, that these may arrive."""
        with self._writing() as run:
            run.executemany(
                "UPDATE outbox SET attempted_at = ? WHERE seq = ?", [(time.time(), parcel.seq) for parcel in parcels]
            )

    def unattempt(self, parcels: Sequence[Parcel]) -> None:
        """Note that these did not arrive."""
        with self._writing() as run:
            run.executemany("UPDATE outbox SET attempted_at = NULL WHERE seq = ?", [(each.seq,) for each in parcels])

    def arrived(self, parcels: Sequence[Parcel], message_ids: Sequence[str]) -> None:
        with self._writing() as run:
            for parcel, message_id in zip(parcels, message_ids, strict=True):
                run.execute("UPDATE versions SET message_id = ? WHERE id = ?", (message_id, parcel.version))
                run.execute("DELETE FROM outbox WHERE seq = ?", (parcel.seq,))

    def refuse(self, parcel: Parcel, reason: str) -> None:
        with self._writing() as run:
            run.execute("UPDATE outbox SET refused = ? WHERE seq = ?", (reason[:500], parcel.seq))

    def unconclude(self, user_id: str, ids: Sequence[str]) -> None:
        """Have conclusions deleted that are no longer true."""
        with self._writing() as run:
            if not run.execute("SELECT 1 FROM outbox WHERE user_id = ? AND kind = 'unconclude'", (user_id,)).fetchone():
                _post(run, user_id, "unconclude", "", json.dumps(list(ids)))

    def earlier(self, record: Record) -> list[tuple[str, str]]:
        """The versions of the same key before this one that are at Honcho, and their messages."""
        with self._reading() as run:
            return run.execute(
                "SELECT id, message_id FROM versions WHERE user_id = ? AND place = ? AND key = ? AND (at, id) < (?, ?)"
                " AND message_id != '' AND NOT deleted",
                (record.user_id, record.place, record.key, record.at, record.id),
            ).fetchall()

    def done(self, parcel: Parcel, *, conclusions: int = 0, messages: int = 0) -> None:
        with self._writing() as run:
            run.execute(
                "UPDATE forgotten SET done = 1, conclusions = conclusions + ?, messages = ? WHERE version = ?",
                (conclusions, messages, parcel.version),
            )
            run.execute("DELETE FROM outbox WHERE seq = ?", (parcel.seq,))

    def forgotten(self, user_id: str) -> list[Forgetting]:
        with self._reading() as run:
            rows = run.execute(
                "SELECT user_id, key, at, done, conclusions, messages FROM forgotten WHERE user_id = ? ORDER BY at DESC",
                (user_id,),
            ).fetchall()
        return [Forgetting(row[0], row[1], row[2], bool(row[3]), row[4], row[5]) for row in rows]

    # -- how far Honcho was read, and whether waiting for it is worth it

    def position(self, user_id: str) -> Position:
        with self._reading() as run:
            row = run.execute(
                "SELECT seen, complete, pulled_at FROM positions WHERE user_id = ?", (user_id,)
            ).fetchone()
        return Position(row[0], bool(row[1]), row[2]) if row else Position()

    def advance(self, user_id: str, before: Position, records: Sequence[Record], seen: int, complete: bool) -> None:
        """Take over what was read, and that it was read, unless another process has come further meanwhile."""
        with self._writing() as run:
            for record in records:
                _apply(run, record)
            run.execute(
                "INSERT INTO positions (user_id, seen, complete, pulled_at) VALUES (:user, :seen, :complete, :now)"
                " ON CONFLICT (user_id) DO UPDATE SET seen = :seen, complete = max(complete, :complete),"
                " pulled_at = :now WHERE seen = :before",
                {
                    "user": user_id,
                    "seen": seen,
                    "complete": complete,
                    "now": time.time(),
                    "before": before.seen,
                },
            )

    def may_wait(self) -> bool:
        """Whether a read should wait for Honcho: yes while it answers; after a failure one read at a time, rarely."""
        now = time.time()
        with self._reading() as run:
            row = run.execute("SELECT until FROM patience").fetchone()
            if row is None or not row[0]:
                return True
            if row[0] > now:
                return False
        with self._writing() as run:
            run.execute("UPDATE patience SET until = ? + step WHERE until = ?", (now, row[0]))
            return bool(run.execute("SELECT changes()").fetchone()[0])

    def failed(self) -> None:
        with self._writing() as run:
            run.execute(
                "INSERT INTO patience (one, until, step) VALUES (1, :now + 1, 1) ON CONFLICT (one) DO UPDATE"
                " SET step = min(max(step * 2, 1), :longest), until = :now + min(max(step * 2, 1), :longest)",
                {"now": time.time(), "longest": _LONGEST},
            )

    def answered(self) -> None:
        with self._reading() as run:
            row = run.execute("SELECT until FROM patience").fetchone()
        if row and row[0]:
            with self._writing() as run:
                run.execute("UPDATE patience SET until = 0, step = 0")


def _post(run: Connection, user_id: str, kind: Kind, version: str, payload: str = "") -> None:
    run.execute(
        "INSERT INTO outbox (user_id, kind, version, payload) VALUES (?, ?, ?, ?)", (user_id, kind, version, payload)
    )


def _after(run: Connection, user_id: str, place: str, key: str) -> float:
    """Now, but after every version of this key, whatever the clock of who wrote it."""
    last = run.execute(
        "SELECT max(at) FROM versions WHERE user_id = ? AND place = ? AND key = ?", (user_id, place, key)
    ).fetchone()[0]
    return max(time.time(), (last or 0.0) + 1e-6)


def _apply(run: Connection, record: Record) -> None:
    """Add a version to the log, and make its key be worth what was written last."""
    same = (record.user_id, record.place, record.key)
    new = run.execute(
        "INSERT INTO versions (id, user_id, place, key, value, metadata, at, deleted, message_id)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING RETURNING 1",
        (
            record.id,
            *same,
            record.value,
            json.dumps(record.metadata),
            record.at,
            record.value is None,
            record.message_id,
        ),
    ).fetchone()
    if not new:
        if record.message_id:
            run.execute("UPDATE versions SET message_id = ? WHERE id = ?", (record.message_id, record.id))
        return
    head = run.execute(
        "SELECT id, value, metadata, at, deleted FROM versions WHERE user_id = ? AND place = ? AND key = ?"
        " ORDER BY at DESC, id DESC LIMIT 1",
        same,
    ).fetchone()
    _retire(run, same, head)
    born = run.execute(
        "SELECT min(at) FROM versions WHERE user_id = :u AND place = :p AND key = :k AND NOT deleted AND at > coalesce("
        "(SELECT max(at) FROM versions WHERE user_id = :u AND place = :p AND key = :k AND deleted), -1)",
        {"u": same[0], "p": same[1], "k": same[2]},
    ).fetchone()[0]
    if head[4]:
        run.execute("DELETE FROM entries WHERE user_id = ? AND place = ? AND key = ?", same)
    else:
        expires_at = Record("", "", "", "", "", 0.0, json.loads(head[2])).expires_at
        run.execute(
            "INSERT INTO entries (user_id, place, key, version, value, metadata, created_at, updated_at, expires_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (user_id, place, key) DO UPDATE SET"
            " version = excluded.version, value = excluded.value, metadata = excluded.metadata,"
            " created_at = excluded.created_at, updated_at = excluded.updated_at, expires_at = excluded.expires_at",
            (*same, head[0], head[1], head[2], born, head[3], expires_at),
        )


def _retire(run: Connection, same: tuple[str, str, str], head: Sequence[Any]) -> None:
    """Remember what the earlier values were about, and let go of them altogether when the key was deleted."""
    now = words("" if head[4] else f"{same[2]} {head[1]}")
    earlier = run.execute(
        "SELECT v.id, v.value FROM versions v LEFT JOIN retired r ON r.version = v.id WHERE v.user_id = ? AND v.place = ?"
        " AND v.key = ? AND v.id != ? AND NOT v.deleted AND v.value IS NOT NULL AND (r.version IS NULL OR ?)",
        (*same, head[0], head[4]),
    ).fetchall()
    for id, value in earlier:
        gone = retired(value, now)
        run.execute(
            "INSERT INTO retired (version, user_id, words, telling) VALUES (?, ?, ?, ?) ON CONFLICT (version)"
            " DO UPDATE SET telling = excluded.telling",
            (id, same[0], json.dumps(sorted(gone.words)), json.dumps(sorted(gone.telling))),
        )
    if head[4]:  # what has not been sent of it is never sent
        gone_with_it = "FROM versions WHERE user_id = ? AND place = ? AND key = ? AND id != ? AND NOT deleted"
        run.execute(
            f"DELETE FROM outbox WHERE attempted_at IS NULL AND version IN (SELECT id {gone_with_it})", (*same, head[0])
        )
        run.execute(
            "UPDATE versions SET value = NULL, metadata = '{}' WHERE user_id = ? AND place = ? AND key = ? AND id != ?"
            " AND NOT deleted",
            (*same, head[0]),
        )
    else:  # what is true again is no longer retired
        again = json.dumps(sorted(words(head[1])))
        run.execute("DELETE FROM retired WHERE user_id = ? AND words = ?", (same[0], again))


_COLUMNS = "key, place, value, metadata, created_at, updated_at"


def _entry(user_id: str, row: Sequence[Any]) -> MemoryEntry:
    return MemoryEntry(row[0], row[2], user_id, row[4], row[5], json.loads(row[3]))


def _marks(values: Collection[object]) -> str:
    return ", ".join("?" * len(values))


def _visible(places: Sequence[str]) -> str:
    """The condition on an entry `e` that it is there now, and that no narrower place has its key."""
    here = "e.user_id = :user AND (e.expires_at IS NULL OR e.expires_at > :now)"
    if len(places) == 1:
        return f"{here} AND e.place = :place0"
    rank = "CASE {} " + " ".join(f"WHEN :place{n} THEN {n}" for n in range(len(places))) + " END"
    return (
        f"{here} AND {rank.format('e.place')} IS NOT NULL AND NOT EXISTS (SELECT 1 FROM entries n WHERE"
        f" n.user_id = :user AND n.key = e.key AND (n.expires_at IS NULL OR n.expires_at > :now)"
        f" AND {rank.format('n.place')} < {rank.format('e.place')})"
    )


def _seen_from(user_id: str, places: Sequence[str]) -> dict[str, Any]:
    return {"user": user_id, "now": time.time(), **{f"place{n}": place for n, place in enumerate(places)}}


def _first(run: Any) -> None:
    for statement in (
        "CREATE TABLE versions (id TEXT PRIMARY KEY, user_id TEXT NOT NULL, place TEXT NOT NULL, key TEXT NOT NULL,"
        " value TEXT, metadata TEXT NOT NULL, at REAL NOT NULL, deleted INTEGER NOT NULL, message_id TEXT NOT NULL)"
        " WITHOUT ROWID",
        "CREATE INDEX versions_of_key ON versions (user_id, place, key, at)",
        "CREATE TABLE entries (rowid INTEGER PRIMARY KEY, user_id TEXT NOT NULL, place TEXT NOT NULL,"
        " key TEXT NOT NULL, version TEXT NOT NULL, value TEXT NOT NULL, metadata TEXT NOT NULL,"
        " created_at REAL NOT NULL, updated_at REAL NOT NULL, expires_at REAL, UNIQUE (user_id, place, key))",
        "CREATE INDEX entries_by_time ON entries (user_id, updated_at)",
        "CREATE INDEX entries_by_version ON entries (version)",
        "CREATE VIRTUAL TABLE entries_text USING fts5 (key, value, metadata, content = 'entries',"
        " content_rowid = 'rowid', tokenize = 'unicode61 remove_diacritics 2')",
        "CREATE TRIGGER entries_added AFTER INSERT ON entries BEGIN INSERT INTO entries_text (rowid, key, value,"
        " metadata) VALUES (new.rowid, new.key, new.value, new.metadata); END",
        "CREATE TRIGGER entries_gone AFTER DELETE ON entries BEGIN INSERT INTO entries_text (entries_text, rowid, key,"
        " value, metadata) VALUES ('delete', old.rowid, old.key, old.value, old.metadata); END",
        "CREATE TRIGGER entries_changed AFTER UPDATE ON entries BEGIN INSERT INTO entries_text (entries_text, rowid,"
        " key, value, metadata) VALUES ('delete', old.rowid, old.key, old.value, old.metadata);"
        " INSERT INTO entries_text (rowid, key, value, metadata) VALUES (new.rowid, new.key, new.value, new.metadata);"
        " END",
        "CREATE TABLE retired (version TEXT PRIMARY KEY, user_id TEXT NOT NULL, words TEXT NOT NULL,"
        " telling TEXT NOT NULL) WITHOUT ROWID",
        "CREATE INDEX retired_of_user ON retired (user_id, words)",
        "CREATE TABLE outbox (seq INTEGER PRIMARY KEY AUTOINCREMENT, user_id TEXT NOT NULL, kind TEXT NOT NULL,"
        " version TEXT NOT NULL, payload TEXT NOT NULL, attempted_at REAL, refused TEXT)",
        "CREATE INDEX outbox_of_user ON outbox (user_id, seq)",
        "CREATE TABLE positions (user_id TEXT PRIMARY KEY, seen INTEGER NOT NULL, complete INTEGER NOT NULL,"
        " pulled_at REAL NOT NULL) WITHOUT ROWID",
        "CREATE TABLE patience (one INTEGER PRIMARY KEY, until REAL NOT NULL, step REAL NOT NULL)",
        "CREATE TABLE forgotten (version TEXT PRIMARY KEY, user_id TEXT NOT NULL, key TEXT NOT NULL, at REAL NOT NULL,"
        " done INTEGER NOT NULL DEFAULT 0, conclusions INTEGER NOT NULL DEFAULT 0, messages INTEGER NOT NULL DEFAULT 0)"
        " WITHOUT ROWID",
    ):
        run.execute(statement)


MIGRATIONS = (Migration("honcho/001_index", _first),)
