"""Memory in SQL, for SQLite and PostgreSQL alike: what differs is the word index and a few words of the dialect.

A write is one transaction, and on SQLite close to a bare statement: the index is brought up to date in batches, by
whoever writes or asks next, and what it does not have yet is read beside it. Nothing that was written is ever missing
from an answer.
"""

from __future__ import annotations

import copy
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from threading import RLock
from typing import Any, ClassVar, NamedTuple, Self

import msgspec

from warmstart.config import Settings
from warmstart.errors import StoreBusy, WarmstartError
from warmstart.memory.backend import MemoryBackend
from warmstart.memory.entries import Given, prepared
from warmstart.memory.ranking import Index, Question, Text
from warmstart.memory.values import SESSION, SOURCE, MemoryEntry, Version, View
from warmstart.memory.words import learn, stems
from warmstart.redact.configured import configured_redactor
from warmstart.redact.redactor import Redactor
from warmstart.sessions.values import clean
from warmstart.storage.database import AnyDatabase, Connection

_DECODE = msgspec.json.Decoder().decode

_BITS = 40  # of an id that count a user's writes
_PAGE = 2000  # entries that are put into the index in one write
_FRESH = 64  # entries beside the index that a question reads rather than have them put into it
_SUBSTRING = 3000  # newest entries in which a part of a text is looked for
_ASKED = 2000  # characters of a question that count

_COLUMNS = "m.id, m.key, m.value, m.created_at, m.updated_at, m.metadata"
_RETRIEVE = (
    "SELECT id, key, value, created_at, updated_at, metadata, scope, place, expires_at FROM memories "
    "WHERE owner = ? AND key = ? AND scope >= 0"
)
_CURRENT = "m.scope >= 0 AND (m.expires_at IS NULL OR m.expires_at > :now)"
_FITS = "({0}.scope = 0 OR ({0}.scope = 1 AND {0}.place = :project) OR ({0}.scope = 2 AND {0}.place = :agent))"
_SEEN = (
    f"{_FITS.format('m')} AND NOT EXISTS (SELECT 1 FROM memories n WHERE n.owner = m.owner AND n.key = m.key "
    f"AND n.scope > m.scope AND {_FITS.format('n')} AND (n.expires_at IS NULL OR n.expires_at > :now))"
)


# What keeps secrets out: the shipped rules, none, a redactor, or what makes one when it is first needed.
Redacting = bool | Redactor | Callable[[], Redactor]


def redactor_of(settings: Settings) -> Redacting:
    """What keeps secrets out by a user's settings."""
    return partial(configured_redactor, settings) if settings.memory_redact else False


class _Row(NamedTuple):
    """An entry that is there, as a write needs to know it."""

    id: int
    key: str
    scope: int
    place: str
    value: str
    created_at: float
    since: float
    expires_at: float | None
    metadata: str
    prior: int


_ROW = "id, key, scope, place, value, created_at, since, expires_at, metadata, prior"
_NEXT = "(SELECT id FROM memories WHERE id <= ? ORDER BY id DESC LIMIT 1) + 1"
_INSERT = (
    "INSERT INTO memories (id, owner, key, scope, place, value, created_at, updated_at, since, expires_at, metadata) "
    f"VALUES ({_NEXT}, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
)
_HISTORY = (
    "INSERT INTO memory_history (owner, key, scope, place, entry, value, since, until, session, source) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


_UNINDEXED = "FROM memories WHERE id > (SELECT indexed FROM memory_users WHERE number = ?) AND id <= ? AND scope >= 0"


class Held:
    """The database behind a backend and all its views: opened when it is first needed."""

    def __init__(self, opening: Callable[[], AnyDatabase], redact: Redacting) -> None:
        self.lock = RLock()
        self.owners: dict[str, int] = {}
        self.fresh = 0  # entries written here since the index was last brought up to date
        self._opening = opening
        self._redact = redact
        self._database: AnyDatabase | None = None
        self._redactor: Redactor | None = None

    @property
    def database(self) -> AnyDatabase:
        if self._database is None:
            self._database = self._opening()
        return self._database

    @property
    def redactor(self) -> Redactor | None:
        if self._redactor is None and self._redact is not False:
            given = self._redact
            self._redactor = given if isinstance(given, Redactor) else Redactor() if given is True else given()
        return self._redactor

    def close(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            database.close()


class SQLBackend(MemoryBackend):
    """Memory in the database of a store."""

    is_cloud = False

    BATCH: ClassVar[int]  # entries that are written before they are put into the index
    CONTAINS: ClassVar[str]  # whether a text has `:part` in it, in capitals or not

    def __init__(self, opening: Callable[[], AnyDatabase], redact: Redacting) -> None:
        self._held = Held(opening, redact)
        self._view: View | None = None

    def at(self, view: View) -> Self:
        seen = copy.copy(self)
        seen._view = view
        return seen

    def is_available(self) -> bool:
        try:
            with self._held.lock, self._held.database.translated():
                self._held.database.connection.execute("SELECT 1 FROM memories LIMIT 1").fetchall()
        except (WarmstartError, OSError):
            return False
        return True

    def close(self) -> None:
        with self._held.lock:
            self._held.close()

    # -- writing

    def store(self, user_id: str, key: str, value: str, metadata: Mapping[str, Any] | None = None) -> bool:
        held = self._held
        given = prepared(key, value, metadata, view=self._view, redactor=held.redactor)
        with held.lock:
            owner = held.database.write(lambda connection: self._write(connection, user_id, given))
            held.fresh += 1
            if held.fresh >= self.BATCH > 1:
                self._bring_up_to_date(owner)
        return True

    def _write(self, connection: Connection, user_id: str, given: Given) -> int:
        owner = self._held.owners.get(user_id) or self._owner(user_id, new=True)
        now = time.time()
        key, scope, place, value, expires_at, metadata = given
        row = ((owner + 1 << _BITS) - 1, owner, key, scope, place, value, now, now, now, expires_at, metadata)
        if not connection.execute(_INSERT, row).rowcount:
            self._supersede(connection, owner, given, now)
        if self.BATCH == 1:
            self._index(owner)
        return owner

    def _supersede(self, connection: Connection, owner: int, given: Given, now: float) -> None:
        """Write over the entry that is there, which becomes history, unless its time was over."""
        *found, indexed = connection.execute(
            f"SELECT {_ROW}, (SELECT indexed FROM memory_users WHERE number = ?) FROM memories "
            "WHERE owner = ? AND key = ? AND scope = ? AND place = ?",
            (owner, owner, *given[:3]),
        ).fetchone()
        row = _Row(*found)
        last = _range(owner)[1]
        if row.expires_at is not None and row.expires_at <= now:
            self._forget(connection, owner, row, row.expires_at)
            values = (last, owner, *given[:4], now, now, now, given.expires_at, given.metadata)
            connection.execute(_INSERT, values)
            return
        since = row.since
        if row.value != given.value:
            since = now
            which = (owner, row.key, row.scope, row.place, row.id)
            connection.execute(_HISTORY, (*which, row.value, row.since, now, *_provenance(row.metadata)))
        prior = row.id if row.id <= indexed else row.prior
        connection.execute(
            f"UPDATE memories SET id = {_NEXT}, value = ?, updated_at = ?, since = ?, expires_at = ?, metadata = ?, "
            "prior = ? WHERE id = ?",
            (last, given.value, now, since, given.expires_at, given.metadata, prior, row.id),
        )

    def delete(self, user_id: str, key: str) -> bool:
        held = self._held
        with held.lock, self._thoroughly(), held.database.transaction() as connection:
            owner = self._owner(user_id)
            rows = self._rows(connection, owner, key) if owner else []
            now = time.time()
            there = [row for row in rows if row.expires_at is None or row.expires_at > now]
            for row in rows:
                self._forget(connection, owner, row, now)
        return bool(there)

    def _rows(self, connection: Connection, owner: int, key: str) -> list[_Row]:
        """What `delete` is to forget: from a view the entry that is seen, otherwise the key in all scopes."""
        for name in self._names(key):
            found = connection.execute(
                f"SELECT {_ROW} FROM memories WHERE owner = ? AND key = ? AND scope >= 0", (owner, name)
            )
            rows = [_Row(*row) for row in found]
            if self._view is not None:
                fitting = [row for row in rows if _fits(row.scope, row.place, self._view)]
                rows = [max(fitting, key=lambda row: row.scope)] if fitting else []
            if rows:
                return rows
        return []

    def _forget(self, connection: Connection, owner: int, row: _Row, when: float) -> None:
        """Remove an entry with all that it ever was; that it was there and until when is all that stays."""
        which = (owner, row.key, row.scope, row.place)
        where = "owner = ? AND key = ? AND scope = ? AND place = ?"
        self._remove([row.id, row.prior])
        connection.execute("DELETE FROM memories WHERE id = ?", (row.id,))
        connection.execute(f"DELETE FROM memory_history WHERE {where}", which)
        # No id is ever given twice: the index would take the new entry for the old one.
        connection.execute(
            "UPDATE memories SET id = ? WHERE owner = ? AND key = '' AND scope = -1 AND place = '' AND id < ?",
            (row.id, owner, row.id),
        )
        connection.execute(_HISTORY, (*which, row.id, None, when, None, "", ""))

    def _owner(self, user_id: str, *, new: bool = False) -> int:
        """The number of a user; 0 for one who has nothing."""
        owners = self._held.owners
        if user_id not in owners:
            connection = self._held.database.connection
            name = clean(user_id)
            find = "SELECT number FROM memory_users WHERE user_id = ?"
            row = connection.execute(find, (name,)).fetchone()
            if row is None:
                if not new:
                    return 0
                number = connection.execute("SELECT coalesce(max(number), 0) + 1 FROM memory_users").fetchone()[0]
                first = number << _BITS
                connection.execute(
                    "INSERT INTO memory_users (number, user_id, indexed) VALUES (?, ?, ?)", (number, name, first)
                )
                connection.execute(
                    "INSERT INTO memories (id, owner, key, scope, place, value, created_at, updated_at, since, "
                    "metadata) VALUES (?, ?, '', -1, '', '', 0, 0, 0, '')",
                    (first, number),
                )
                return int(number)  # not remembered before it is certain: this write may yet fail
            owners[user_id] = row[0]
        return owners[user_id]

    # -- the index

    def _bring_up_to_date(self, owner: int) -> None:
        """Put what is new into the index, and remove what has expired; later, where somebody else is writing."""
        database = self._held.database
        try:
            while True:
                with self._at_once(), database.transaction() as connection:
                    more = self._index(owner)
                    self._expire(connection)
                if not more:
                    break
        except StoreBusy:
            return
        self._held.fresh = 0

    def _index(self, owner: int) -> bool:
        """Whether there is more to be done."""
        connection = self._held.database.connection
        rows = connection.execute(
            f"SELECT id, key, value, metadata, prior {_UNINDEXED} ORDER BY id LIMIT ?",
            (owner, _range(owner)[1], _PAGE),
        ).fetchall()
        if rows:
            self._remove([row[4] for row in rows if row[4]])
            texts = [f"{key} {value} {metadata}" for _, key, value, metadata, _ in rows]
            learn(texts)
            self._add((row[0], owner, dict.fromkeys(stems(text))) for row, text in zip(rows, texts, strict=True))
            connection.execute("UPDATE memory_users SET indexed = ? WHERE number = ?", (rows[-1][0], owner))
        return len(rows) == _PAGE

    def _unindexed(self, owner: int, limit: int) -> list[Text]:
        rows = self._held.database.connection.execute(
            f"SELECT id, key, value, metadata {_UNINDEXED} ORDER BY id DESC LIMIT ?", (owner, _range(owner)[1], limit)
        )
        return [Text(*row) for row in rows]

    def _expire(self, connection: Connection) -> None:
        now = time.time()
        rows = connection.execute(
            f"SELECT owner, {_ROW} FROM memories WHERE expires_at <= ? ORDER BY expires_at LIMIT 500", (now,)
        ).fetchall()
        for owner, *row in rows:
            entry = _Row(*row)
            self._forget(connection, owner, entry, entry.expires_at or now)

    def expire(self) -> None:
        """Remove what has expired. It is not returned before that either; writes do this now and then."""
        with self._held.lock, self._held.database.transaction() as connection:
            self._expire(connection)

    # -- reading

    def retrieve(self, user_id: str, key: str) -> MemoryEntry | None:
        held = self._held
        with held.lock:
            try:
                owner = held.owners.get(user_id) or self._owner(user_id)
                if not owner:
                    return None
                rows = held.database.connection.execute(_RETRIEVE, (owner, clean(key))).fetchall()
                if not rows:
                    for name in self._names(key)[1:]:
                        rows = rows or held.database.connection.execute(_RETRIEVE, (owner, name)).fetchall()
            except Exception:
                with held.database.translated():
                    raise
        row = self._chosen(rows)
        return _entry(user_id, row) if row else None

    def _names(self, key: str) -> list[str]:
        """A key as it may be kept: as it is, or as it was made fit to be kept."""
        name = clean(key)
        redactor = self._held.redactor
        return list(dict.fromkeys((name, redactor.clean(name) if redactor else name)))

    def _chosen(self, rows: Sequence[Any]) -> Any:
        """Of a key in several scopes the one that holds here."""
        if not rows:
            return None
        if len(rows) == 1 and self._view is None and rows[0][8] is None:
            return rows[0]
        now = time.time()
        rows = [row for row in rows if row[8] is None or row[8] > now]
        view = self._view
        if view is None:  # what holds everywhere, or else what was said last
            return max(rows, key=lambda row: (row[6] == 0, row[0]), default=None)
        return max((row for row in rows if _fits(row[6], row[7], view)), key=lambda row: row[6], default=None)

    def query(self, user_id: str, query_text: str, limit: int = 10) -> list[MemoryEntry]:
        if limit <= 0:
            return []
        limit = min(limit, 1_000_000)
        text = clean(query_text)[:_ASKED].strip()
        with self._reading() as connection:
            owner = self._owner(user_id)
            if not owner:
                return []
            if not text:
                rows = self._newest(connection, owner, limit)
            else:
                rows = self._best(connection, owner, text, limit) or self._holding(connection, owner, text, limit)
        return [_entry(user_id, row) for row in rows]

    def _newest(self, connection: Connection, owner: int, limit: int) -> list[Any]:
        first, last = _range(owner)
        return connection.execute(
            f"SELECT {_COLUMNS} FROM memories m WHERE m.id BETWEEN :first AND :last AND {self._seen()} "
            "ORDER BY m.id DESC LIMIT :limit",
            {**self._from_here(), "first": first, "last": last, "limit": limit},
        ).fetchall()

    def _best(self, connection: Connection, owner: int, text: str, limit: int) -> list[Any]:
        question = Question(text)
        fresh = self._unindexed(owner, _FRESH + 1)
        if len(fresh) > _FRESH:
            self._bring_up_to_date(owner)
            fresh = self._unindexed(owner, _PAGE)
        first, last = _range(owner)
        newest = connection.execute("SELECT max(id) FROM memories WHERE id BETWEEN ? AND ?", (first, last)).fetchone()[
            0
        ]
        # About as many entries as were ever written.
        ids = question.candidates(self._lookup(owner, newest), newest - first, limit, fresh)
        if not ids:
            return []
        rows = connection.execute(
            f"SELECT {_COLUMNS} FROM memories m WHERE m.id IN ({','.join(map(str, ids))}) AND {self._seen()}",
            self._from_here(),
        ).fetchall()
        learn(f"{row[1]} {row[2]} {row[5]}" for row in rows)
        scored = [(question.score(Text(row[0], row[1], row[2], row[5])), row[0], row) for row in rows]
        return [row for score, _, row in sorted(scored, reverse=True)[:limit] if score > 0]

    def _holding(self, connection: Connection, owner: int, text: str, limit: int) -> list[Any]:
        """The newest entries that have this somewhere, in the middle of a word perhaps."""
        first, last = _range(owner)
        within = " OR ".join(self.CONTAINS.format(f"m.{column}") for column in ("key", "value", "metadata"))
        return connection.execute(
            f"SELECT {_COLUMNS} FROM (SELECT * FROM memories WHERE id BETWEEN :first AND :last ORDER BY id DESC "
            f"LIMIT {_SUBSTRING}) m WHERE ({within}) AND {self._seen()} ORDER BY m.id DESC LIMIT :limit",
            {**self._from_here(), "first": first, "last": last, "limit": limit, "part": _pattern(text)},
        ).fetchall()

    def list_keys(self, user_id: str) -> list[str]:
        with self._reading() as connection:
            owner = self._owner(user_id)
            if not owner:
                return []
            first, last = _range(owner)
            rows = connection.execute(
                f"SELECT m.key FROM memories m WHERE m.id BETWEEN :first AND :last AND {self._seen()} "
                "ORDER BY m.id DESC",
                {**self._from_here(), "first": first, "last": last},
            ).fetchall()
        return list(dict.fromkeys(row[0] for row in rows))

    def history(self, user_id: str, key: str) -> list[Version]:
        with self._reading() as connection:
            owner = self._owner(user_id)
            if not owner:
                return []
            versions: list[Version] = []
            for name in self._names(key):
                rows = connection.execute(_RETRIEVE.replace("updated_at", "since"), (owner, name)).fetchall()
                versions += (_version(row) for row in rows if self._is_seen(row[6], row[7], row[8]))
                rows = connection.execute(
                    "SELECT scope, place, value, since, until, session, source FROM memory_history "
                    "WHERE owner = ? AND key = ?",
                    (owner, name),
                ).fetchall()
                versions += (Version(*row[2:]) for row in rows if self._is_seen(row[0], row[1], None))
        versions.sort(key=lambda version: version.since, reverse=True)
        return _ended(versions)

    def users(self) -> list[str]:
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT u.user_id FROM memory_users u WHERE EXISTS (SELECT 1 FROM memories m WHERE m.owner = u.number "
                "AND m.scope >= 0 AND (m.expires_at IS NULL OR m.expires_at > ?)) ORDER BY u.user_id",
                (time.time(),),
            ).fetchall()
        return [row[0] for row in rows]

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with self._held.lock, self._held.database.translated():
            yield self._held.database.connection

    def _seen(self) -> str:
        return _CURRENT if self._view is None else f"{_CURRENT} AND {_SEEN}"

    def _from_here(self) -> dict[str, Any]:
        view = self._view
        return {"now": time.time(), **({"project": view.project, "agent": view.agent} if view else {})}

    def _is_seen(self, scope: int, place: str, expires_at: float | None) -> bool:
        if expires_at is not None and expires_at <= time.time():
            return False
        return self._view is None or _fits(scope, place, self._view)

    # -- what differs

    @abstractmethod
    def _lookup(self, owner: int, newest: int) -> Index:
        """The words of a user's entries, of which this is the newest."""

    @abstractmethod
    def _add(self, rows: Iterable[tuple[int, int, Iterable[str]]]) -> None:
        """Put entries into the index: their ids, whose they are, and their words."""

    @abstractmethod
    def _remove(self, ids: Sequence[int]) -> None:
        """Take entries out of the index, where they are in it."""

    def _thoroughly(self) -> AbstractContextManager[object]:
        """In which what is removed leaves as little behind as the database knows how to."""
        return nullcontext()

    def _at_once(self) -> AbstractContextManager[object]:
        """In which a write does not wait for others."""
        return nullcontext()


def _range(owner: int) -> tuple[int, int]:
    return owner << _BITS, (owner + 1 << _BITS) - 1


def _fits(scope: int, place: str, view: View) -> bool:
    return scope == 0 or place == (view.project if scope == 1 else view.agent)


def _pattern(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


def _entry(user_id: str, row: Sequence[Any]) -> MemoryEntry:
    return MemoryEntry(row[1], row[2], user_id, row[3], row[4], _DECODE(row[5]) if row[5] else {})


def _provenance(metadata: str) -> tuple[str, str]:
    found = _DECODE(metadata) if metadata else {}
    return str(found.get(SESSION) or ""), str(found.get(SOURCE) or "")


def _version(row: Sequence[Any]) -> Version:
    session, source = _provenance(row[5])
    return Version(row[2], row[4], None, session, source)


def _ended(versions: list[Version]) -> list[Version]:
    """A deletion lasted until the key was written again."""
    ended = []
    after: float | None = None
    for version in versions:
        if version.value is None and after is not None:
            version = Version(None, version.since, after)
        ended.append(version)
        after = version.since
    return ended
