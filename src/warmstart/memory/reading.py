"""What is read of memory in SQL, for SQLite and PostgreSQL alike."""

from __future__ import annotations

import copy
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Self

import msgspec

from warmstart.errors import InvalidEntry, WarmstartError
from warmstart.memory.backend import MemoryBackend
from warmstart.memory.entries import check_text, view_as_kept
from warmstart.memory.held import Held, Redacting
from warmstart.memory.index import ONE_BY_ONE, Seen, WordIndex
from warmstart.memory.owners import Owner, numbers
from warmstart.memory.ranking import Question
from warmstart.memory.values import SESSION, SOURCE, MemoryEntry, Version, View
from warmstart.memory.words import stems_of
from warmstart.sessions.values import clean
from warmstart.storage.database import Connection, Database

_DECODE = msgspec.json.Decoder().decode

_FRESH = 64  # writes that the index may be behind when a question comes
_SUBSTRING = 3000  # newest entries in which a part of a text is looked for
_PART = 1000  # entries that are read at once
_ASKED = 2000  # characters of a question that count

_COLUMNS = "m.id, m.key, m.value, m.created_at, m.updated_at, m.metadata, m.past"
_RETRIEVE = (
    "SELECT id, key, value, created_at, updated_at, metadata, past, scope, place, expires_at, since FROM memories "
    "WHERE owner = ? AND key = ? AND scope >= 0"
)
_EXPIRED = "SELECT 1 FROM memories WHERE expires_at <= :now LIMIT 1"
_CURRENT = "m.scope >= 0 AND (m.expires_at IS NULL OR m.expires_at > :now)"
_FITS = "({0}.scope = 0 OR ({0}.scope = 1 AND {0}.place = :project) OR ({0}.scope = 2 AND {0}.place = :agent))"
_SEEN = (
    f"{_FITS.format('m')} AND NOT EXISTS (SELECT 1 FROM memories n WHERE n.owner = m.owner AND n.key = m.key "
    f"AND n.scope > m.scope AND {_FITS.format('n')} AND (n.expires_at IS NULL OR n.expires_at > :now) {ONE_BY_ONE})"
)
# An entry stands where its last write was, or, until the index has caught up, where its history says that it was.
_IN_ORDER = "memories m WHERE m.id BETWEEN :first AND :last AND m.past <= m.id"
_MOVING = "memory_history h JOIN memories m ON m.id = h.entry AND m.past = h.id WHERE h.id > :indexed AND h.id <= :last"
PAST = (
    "WITH RECURSIVE past AS (SELECT h.id, h.prior FROM memory_history h WHERE h.id = ? "
    "UNION ALL SELECT h.id, h.prior FROM memory_history h JOIN past ON h.id = past.prior)"
)

_FORMER = f"{PAST} SELECT h.value, h.since, h.until, h.metadata FROM past JOIN memory_history h ON h.id = past.id"


class SQLReading(MemoryBackend):
    """The half of a backend that asks."""

    is_cloud = False

    CONTAINS: ClassVar[str]  # whether a column fits the pattern `:part`, in capitals or not

    def __init__(self, opening: Callable[[], Database], redact: Redacting) -> None:
        self._held = Held(opening, redact)
        self._view: View | None = None
        self._kept: View | None = None  # the same by the names that are kept, once it was needed

    def at(self, view: View) -> Self:
        seen = copy.copy(self)
        seen._view, seen._kept = view, None
        return seen

    def reopen(self) -> Self:
        """A backend of its own on the same data."""
        fresh = copy.copy(self)
        fresh._held = self._held.anew()
        return fresh

    def is_available(self) -> bool:
        try:
            with self._held.lock, self._held.database.translate_errors():
                self._held.database.connection.execute("SELECT 1 FROM memories LIMIT 1").fetchall()
        except (WarmstartError, OSError):
            return False
        return True

    def close(self) -> None:
        with self._held.lock:
            self._held.close()

    def retrieve(self, user_id: str, key: str) -> MemoryEntry | None:
        held = self._held
        check_text("a user's id", user_id)
        check_text("a key", key)
        with held.lock:
            try:
                owner = held.owners.known.get(user_id)
                rows = owner and held.database.connection.execute(_RETRIEVE, (owner, clean(key))).fetchall()
                row = self._chosen(rows) if rows else None
                if row is None:
                    row = self._sought(held.database.connection, user_id, key)
            except Exception:
                with held.database.translate_errors():
                    raise
        return _entry(user_id, row) if row else None

    def _sought(self, connection: Connection, user_id: str, key: str) -> Any:
        """A key under all names that it may be kept by, of a user as he is known now."""
        owner = self._held.owners.find(connection, user_id)
        if owner is not None:
            for name in self._names(key):
                row = self._chosen(connection.execute(_RETRIEVE, (owner.number, name)).fetchall())
                if row is not None:
                    return row
        return None

    def _names(self, key: str) -> list[str]:
        """A key as it may be kept: as it is, or as it was made fit to be kept."""
        name = clean(key)
        redactor = self._held.redactor
        return list(dict.fromkeys((name, redactor.clean(name) if redactor else name)))

    def _chosen(self, rows: Sequence[Any]) -> Any:
        """Of a key in several scopes the one that holds here."""
        if not rows:
            return None
        if len(rows) == 1 and self._view is None and rows[0][9] is None:
            return rows[0]
        now = time.time()
        rows = [row for row in rows if row[9] is None or row[9] > now]
        view = self._here
        if view is None:  # what holds everywhere, or else what was said last
            return max(rows, key=lambda row: (row[7] == 0, _number(row)), default=None)
        return max((row for row in rows if fits(row[7], row[8], view)), key=lambda row: row[7], default=None)

    def query(self, user_id: str, query_text: str, limit: int = 10) -> list[MemoryEntry]:
        check_text("a user's id", user_id)
        check_text("a question", query_text)
        if not isinstance(limit, int):
            raise InvalidEntry(f"a limit must be a whole number, not {limit!r}")
        if limit <= 0:
            return []
        limit = min(limit, 1_000_000)
        text = clean(query_text)[:_ASKED].strip()
        with self._reading() as connection:
            owner = self._held.owners.find(connection, user_id)
            if owner is None:
                return []
            if not text:
                rows = self._newest(connection, owner, limit)
            else:
                rows = self._exactly(connection, owner, query_text, text)
                rows += self._best(connection, owner, text, limit) or self._holding(connection, owner, text, limit)
        once = {_number(row): row for row in rows}  # what was asked for by its key stays first
        return [_entry(user_id, row) for row in list(once.values())[:limit]]

    def _exactly(self, connection: Connection, owner: Owner, *texts: str) -> list[Any]:
        """The entries whose key was asked for, before all the one that `retrieve` would give."""
        short = [text for text in texts if len(text) <= _ASKED]
        for name in dict.fromkeys(name for text in short for name in self._names(text)):
            rows = connection.execute(_RETRIEVE, (owner.number, name)).fetchall()
            row = self._chosen(rows)
            if row is not None and self._view is None:
                others = [each for each in rows if each is not row and self._is_seen(*each[7:10])]
                return [row, *sorted(others, key=_number, reverse=True)]
            if row is not None:
                return [row]
        return []

    def _newest(self, connection: Connection, owner: Owner, limit: int | None = None) -> list[Any]:
        """The entries that are seen from here, those written last first."""
        first, last = numbers(owner.number)
        given = {**self._from_here(), "first": first, "last": last}
        seen = self._seen()
        only = "" if limit is None else f" LIMIT {limit}"
        rows = connection.execute(
            f"SELECT {_COLUMNS} FROM {_IN_ORDER} AND {seen} ORDER BY m.id DESC{only}", given
        ).fetchall()
        moving = connection.execute(
            f"SELECT {_COLUMNS} FROM {_MOVING} AND {seen}", {**given, "indexed": owner.indexed}
        ).fetchall()
        if moving:
            rows = sorted([*rows, *moving], key=_number, reverse=True)
        return rows if limit is None else rows[:limit]

    def _best(self, connection: Connection, owner: Owner, text: str, limit: int) -> list[Any]:
        newest = self._index(connection, owner).newest()
        if newest - owner.indexed > _FRESH:
            owner = self._caught_up(owner)
        for seen in self._filters(connection):
            question = Question(text)
            index = self._index(connection, owner, seen)
            fresh = index.fresh() if newest > owner.indexed else []
            # About as many entries as were ever written.
            ids = question.candidates(index, newest - numbers(owner.number)[0], limit, fresh)
            rows = [row for at in range(0, len(ids), _PART) for row in self._of(connection, ids[at : at + _PART])]
            if len(rows) == len(ids):
                break
        words = stems_of([part for row in rows for part in (row[1], row[2], row[5])])
        scored = [(question.score(words[3 * at : 3 * at + 3]), _number(row), row) for at, row in enumerate(rows)]
        return [row for score, _, row in sorted(scored, reverse=True)[:limit] if score > 0]

    def _of(self, connection: Connection, ids: Sequence[int]) -> list[Any]:
        return connection.execute(
            f"SELECT {_COLUMNS} FROM memories m WHERE m.id IN ({','.join(map(str, ids))}) AND {self._seen()}",
            self._from_here(),
        ).fetchall()

    def _filters(self, connection: Connection) -> list[Seen | None]:
        """Which entries of the index are looked at; the next, which costs more, where some of them are not seen.

        Those that are not seen from here would take the places of others.
        """
        given = self._from_here()
        if self._view is None:
            return [Seen(_CURRENT, given) if connection.execute(_EXPIRED, given).fetchone() else None]
        return [Seen(f"{_CURRENT} AND {_FITS.format('m')}", given), Seen(self._seen(), given)]

    def _holding(self, connection: Connection, owner: Owner, text: str, limit: int) -> list[Any]:
        """The newest entries that have this somewhere, in the middle of a word perhaps."""
        first, last = numbers(owner.number)
        contains, part = self._contains(text)
        given = {**self._from_here(), "first": first, "last": last, "part": part, "indexed": owner.indexed}
        within = " OR ".join(contains.format(f"m.{column}") for column in ("key", "value", "metadata"))
        rows: list[Any] = []
        for source, order in ((_IN_ORDER, f" ORDER BY m.id DESC LIMIT {_SUBSTRING}"), (_MOVING, "")):
            rows += connection.execute(
                f"SELECT {_COLUMNS} FROM (SELECT m.* FROM {source} AND {self._seen()}{order}) m WHERE {within}", given
            ).fetchall()
        return sorted(rows, key=_number, reverse=True)[:limit]

    def _contains(self, text: str) -> tuple[str, str]:
        """Whether a column has a text in it, in capitals or not, and what that takes as `:part`."""
        return self.CONTAINS, _pattern(text)

    def list_keys(self, user_id: str) -> list[str]:
        check_text("a user's id", user_id)
        with self._reading() as connection:
            owner = self._held.owners.find(connection, user_id)
            rows = self._newest(connection, owner) if owner else []
        return list(dict.fromkeys(row[1] for row in rows))

    def history(self, user_id: str, key: str) -> list[Version]:
        check_text("a user's id", user_id)
        check_text("a key", key)
        versions: list[Version] = []
        with self._reading() as connection:
            owner = self._held.owners.find(connection, user_id)
            if owner is None:
                return []
            for name in self._names(key):
                versions += self._versions(connection, owner.number, name)
        versions.sort(key=lambda version: version.since, reverse=True)
        return _ended(versions)

    def _versions(self, connection: Connection, owner: int, key: str) -> Iterator[Version]:
        for row in connection.execute(_RETRIEVE, (owner, key)).fetchall():
            scope, place, expires_at, since = row[7:]
            if not self._is_seen(scope, place, expires_at):
                continue
            yield Version(row[2], since, None, *_provenance(row[5]))
            former = connection.execute(_FORMER, (row[6],)).fetchall()
            for value, since, until, metadata in former:
                yield Version(value, since, until, *_provenance(metadata))
        gone = connection.execute(
            "SELECT scope, place, deleted_at FROM memory_deletions WHERE owner = ? AND key = ?", (owner, key)
        )
        yield from (
            Version(None, at, None) for scope, place, at in gone.fetchall() if self._is_seen(scope, place, None)
        )

    def users(self) -> list[str]:
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT u.user_id FROM memory_users u WHERE u.user_id IS NOT NULL AND EXISTS (SELECT 1 FROM memories m "
                "WHERE m.owner = u.number AND m.scope >= 0 AND (m.expires_at IS NULL OR m.expires_at > ?)) "
                "ORDER BY u.user_id",
                (time.time(),),
            ).fetchall()
        return [row[0] for row in rows]

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with self._held.lock, self._held.database.translate_errors():
            yield self._held.database.connection

    def _seen(self) -> str:
        return _CURRENT if self._view is None else f"{_CURRENT} AND {_SEEN}"

    def _from_here(self) -> dict[str, Any]:
        view = self._here
        return {"now": time.time(), **({"project": view.project, "agent": view.agent} if view else {})}

    @property
    def _here(self) -> View | None:
        """The view by the names that are kept."""
        if self._kept is None and self._view is not None:
            self._kept = view_as_kept(self._view, self._held.redactor)
        return self._kept

    def _is_seen(self, scope: int, place: str, expires_at: float | None) -> bool:
        if expires_at is not None and expires_at <= time.time():
            return False
        view = self._here
        return view is None or fits(scope, place, view)

    @abstractmethod
    def _index(self, connection: Connection, owner: Owner, seen: Seen | None = None) -> WordIndex:
        """The words of a user's entries, of those alone that are seen where that is given."""

    @abstractmethod
    def _caught_up(self, owner: Owner) -> Owner:
        """Bring the index up to date, unless somebody else is writing; the user as he is known then."""


def fits(scope: int, place: str, view: View) -> bool:
    return scope == 0 or place == (view.project if scope == 1 else view.agent)


def _number(row: Sequence[Any]) -> int:
    """The number of an entry's last write."""
    return int(max(row[0], row[6]))


def _pattern(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


def _entry(user_id: str, row: Sequence[Any]) -> MemoryEntry:
    return MemoryEntry(row[1], row[2], user_id, row[3], row[4], _DECODE(row[5]) if row[5] else {})


def _provenance(metadata: str) -> tuple[str, str]:
    found = _DECODE(metadata) if metadata else {}
    return str(found.get(SESSION) or ""), str(found.get(SOURCE) or "")


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
