"""What is known here of what is at Honcho, and what is on its way there.

`versions` is a log: a version is added once, by its id, wherever it comes from. Of the versions of a key the one that
was written last is what the key is worth, by the clock of who wrote it; `entries` holds it for reading. A write is in
the log and in the outbox in one transaction, or nowhere.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal, NamedTuple
from uuid import uuid4

from warmstart.errors import StoreBusy
from warmstart.memory.honcho.stale import Retired, retired, telling, words
from warmstart.memory.honcho.tables import MIGRATIONS
from warmstart.memory.honcho.wire import Record
from warmstart.memory.values import SESSION, SOURCE, MemoryEntry, Version
from warmstart.memory.words import stems
from warmstart.storage.database import Connection
from warmstart.storage.sqlite import BUSY_SECONDS, Database

Kind = Literal["message", "forget", "unconclude"]
Places = Sequence[str] | None  # those that are seen, the narrowest first; without, all of them

_LONGEST = 30.0  # seconds that reads do not wait for a server that failed
_ASKED = 2000  # characters of a question that count
_BEGINNING = 3  # letters of a word that may be the beginning of another
_COLUMNS = "e.key, e.value, e.metadata, e.created_at, e.updated_at"
_NEWEST_FIRST = "ORDER BY e.updated_at DESC, e.rowid DESC"


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
    """The tables, for many threads. Who reads waits for nobody who writes, here or in another process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._writer = _Access(path)
        self._reader = _Access(path)
        self._passing = _Access(path, timeout=0.0)  # writes only when it can do so at once
        self._not_before = 0.0

    def close(self) -> None:
        for access in (self._writer, self._reader, self._passing):
            access.close()

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with self._reader.lock, self._reader.database.translated():
            yield self._reader.database.connection

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with self._writer.lock, self._writer.database.transaction() as connection:
            yield connection

    # -- writing

    def write(self, user_id: str, place: str, key: str, value: str, *, expires_at: float | None, metadata: str) -> None:
        """Keep a value, to be sent."""
        with self._writing() as run:
            at = _after(run, user_id, place, key)
            record = Record(uuid4().hex, user_id, place, key, value, at, expires_at, metadata)
            _apply(run, record)
            _post(run, user_id, "message", record.id)

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
                record = Record(uuid4().hex, user_id, place, key, None, _after(run, user_id, place, key))
                _apply(run, record)
                _post(run, user_id, "message", record.id)
                _post(run, user_id, "forget", record.id)
                run.execute(
                    "INSERT INTO forgotten (version, user_id, key, at) VALUES (?, ?, ?, ?)",
                    (record.id, user_id, key, record.at),
                )
        return any(expires_at is None or expires_at > now for _, expires_at in rows)

    def merge(self, records: Sequence[Record]) -> None:
        """Take over what came from Honcho."""
        with self._writing() as run:
            for record in records:
                _apply(run, record)

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
        terms = " OR ".join(f'"{word}"*' if len(word) >= _BEGINNING else f'"{word}"' for word in telling(text))
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
                found += _told([row[1:] for row in group], time.time())
        return sorted(found, key=lambda version: version.since, reverse=True)

    def users(self) -> list[str]:
        with self._reading() as run:
            rows = run.execute(
                "SELECT DISTINCT user_id FROM entries WHERE expires_at IS NULL OR expires_at > ?", (time.time(),)
            ).fetchall()
        return sorted(row[0] for row in rows)

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
                "SELECT seq, user_id, kind, version, payload, attempted_at FROM outbox WHERE refused IS NULL"
                " AND user_id = (SELECT user_id FROM outbox WHERE refused IS NULL ORDER BY seq LIMIT 1)"
                " ORDER BY seq LIMIT ?",
                (limit,),
            ).fetchall()
        parcels = [Parcel(*row) for row in rows]
        errand = next((place for place, parcel in enumerate(parcels) if parcel.kind != "message"), len(parcels))
        return parcels[: max(errand, 1)]

    def records(self, ids: Sequence[str]) -> list[Record]:
        """These versions, without those whose values are gone since."""
        with self._reading() as run:
            rows = run.execute(
                "SELECT id, user_id, place, key, value, at, expires_at, metadata, message_id FROM versions"
                " WHERE id IN (SELECT value FROM json_each(?)) AND (deleted OR value IS NOT NULL)",
                (json.dumps(ids),),
            ).fetchall()
        return [Record(*row) for row in rows]

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
            asked_before = "SELECT 1 FROM outbox WHERE user_id = ? AND kind = 'unconclude' AND refused IS NULL"
            if not run.execute(asked_before, (user_id,)).fetchone():
                _post(run, user_id, "unconclude", "", json.dumps(ids))

    def earlier(self, record: Record) -> list[tuple[str, str]]:
        """The versions of the same key before this one that are at Honcho, and their messages."""
        with self._reading() as run:
            return run.execute(
                "SELECT id, message_id FROM versions WHERE user_id = ? AND place = ? AND key = ?"
                " AND (at, id) < (?, ?) AND message_id != '' AND NOT deleted",
                (record.user_id, record.place, record.key, record.at, record.id),
            ).fetchall()

    def done(self, parcel: Parcel, *, conclusions: int = 0, messages: int = 0) -> None:
        """An errand was run, or has become needless."""
        with self._writing() as run:
            if parcel.kind == "forget":
                run.execute(
                    "UPDATE forgotten SET done = 1, conclusions = ?, messages = ? WHERE version = ?",
                    (conclusions, messages, parcel.version),
                )
            run.execute("DELETE FROM outbox WHERE seq = ?", (parcel.seq,))

    def forgotten(self, user_id: str) -> list[Forgetting]:
        with self._reading() as run:
            rows = run.execute(
                "SELECT user_id, key, at, done, conclusions, messages FROM forgotten WHERE user_id = ?"
                " ORDER BY at DESC",
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

    def advance(self, user_id: str, before: Position, records: Sequence[Record], seen: int, *, complete: bool) -> None:
        """Take over what was read, and that it was read, unless another process has come further meanwhile."""
        with self._writing() as run:
            for record in records:
                _apply(run, record)
            run.execute(
                "INSERT INTO positions (user_id, seen, complete, pulled_at) VALUES (:user, :seen, :complete, :now)"
                " ON CONFLICT (user_id) DO UPDATE SET seen = :seen, complete = max(complete, :complete),"
                " pulled_at = :now WHERE seen = :before",
                {"user": user_id, "seen": seen, "complete": complete, "now": time.time(), "before": before.seen},
            )

    def may_wait(self) -> bool:
        """Whether a read should wait for Honcho: yes while it answers; after a failure one read at a time, rarely."""
        now = time.time()
        until = self._until()
        if not until:
            return True
        if until > now:
            return False
        return self._in_passing("UPDATE patience SET until = ? + step WHERE until = ?", (now, until))

    @property
    def is_patient(self) -> bool:
        """Whether Honcho answered when it was last asked."""
        return not self._until()

    def failed(self) -> None:
        """Have reads not wait for a while, longer each time."""
        now = time.time()
        self._not_before = now + 1  # should somebody else be writing
        self._in_passing(
            "INSERT INTO patience (one, until, step) VALUES (1, :now + 1, 1) ON CONFLICT (one) DO UPDATE"
            " SET step = min(max(step * 2, 1), :longest), until = :now + min(max(step * 2, 1), :longest)",
            {"now": now, "longest": _LONGEST},
        )

    def answered(self) -> None:
        """Have reads wait again."""
        self._not_before = 0.0
        if self._until():
            self._in_passing("UPDATE patience SET until = 0, step = 0")

    def _until(self) -> float:
        """Until when reads do not wait; nothing where they do."""
        with self._reading() as run:
            row = run.execute("SELECT until FROM patience").fetchone()
        return max(row[0] if row else 0.0, self._not_before)

    def _in_passing(self, statement: str, parameters: object = ()) -> bool:
        """Write something that is not worth waiting for; whether a row was changed."""
        try:
            with self._passing.lock, self._passing.database.transaction() as run:
                run.execute(statement, parameters)
                return bool(run.execute("SELECT changes()").fetchone()[0])
        except StoreBusy:
            return False


class _Access:
    """A connection, and the lock of those who use it."""

    def __init__(self, path: Path, *, timeout: float = BUSY_SECONDS) -> None:
        self.lock = threading.RLock()
        self.database = Database(path, MIGRATIONS, timeout=timeout or BUSY_SECONDS)
        self.database.connection.execute("PRAGMA secure_delete = ON")  # what is deleted is not left on free pages
        if not timeout:
            self.database.connection.execute("PRAGMA busy_timeout = 0")

    def close(self) -> None:
        with self.lock:
            self.database.close()


class _Line(NamedTuple):
    """A version, as far as it takes to decide what its key is worth."""

    id: str
    value: str
    at: float
    expires_at: float | None
    metadata: str
    deleted: bool


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
    _retire(run, same, lines)
    if lines[-1].deleted:
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


def _retire(run: Connection, same: tuple[str, str, str], lines: Sequence[_Line]) -> None:
    """Remember what the earlier values were about, and let go of them altogether when the key was deleted."""
    head = lines[-1]
    now = words("" if head.deleted else f"{same[2]} {head.value}")
    for line in lines[:-1]:
        if line.value is not None and not line.deleted:
            gone = retired(line.value, now)
            run.execute(
                "INSERT INTO retired (version, user_id, words, telling) VALUES (?, ?, ?, ?) ON CONFLICT (version)"
                " DO UPDATE SET telling = excluded.telling",
                (line.id, same[0], json.dumps(sorted(gone.words)), json.dumps(sorted(gone.telling))),
            )
    if not head.deleted:  # what is true again is no longer retired
        again = json.dumps(sorted(words(head.value)))
        run.execute("DELETE FROM retired WHERE user_id = ? AND words = ?", (same[0], again))
        return
    others = "WHERE user_id = ? AND place = ? AND key = ? AND id != ? AND NOT deleted"
    run.execute(  # what has not been sent of it is never sent
        "DELETE FROM outbox WHERE attempted_at IS NULL AND kind = 'message'"
        f" AND version IN (SELECT id FROM versions {others})",
        (*same, head.id),
    )
    run.execute(f"UPDATE versions SET value = NULL, metadata = '' {others}", (*same, head.id))


def _told(rows: Sequence[Any], now: float) -> list[Version]:
    """The history of a key in one place, oldest first. The same value written again goes on."""
    told: list[Version] = []
    ends: float | None = None
    for value, at, expires_at, metadata in rows:
        if ends is not None and ends <= at:  # it had expired: all that is left is that it was there
            told = [Version(None, ends, at)]
        elif told and value is not None and told[-1].value == value:
            ends = expires_at
            continue
        elif told:
            last = told.pop()
            told.append(Version(last.value, last.since, at, last.session, last.source))
        found = json.loads(metadata) if metadata else {}
        told.append(Version(value, at, None, str(found.get(SESSION) or ""), str(found.get(SOURCE) or "")))
        ends = expires_at
    return [Version(None, ends, None)] if ends is not None and ends <= now else told


def _of_key(run: Connection, user_id: str, view: Places, key: str) -> list[tuple[str, float | None]]:
    """The places of a key and when it expires there, the narrowest first."""
    found = run.execute("SELECT place, expires_at FROM entries WHERE user_id = ? AND key = ?", (user_id, key))
    if view is None:
        return found.fetchall()
    return sorted((row for row in found if row[0] in view), key=lambda row: view.index(row[0]))


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
