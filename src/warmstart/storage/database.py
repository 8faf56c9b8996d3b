"""What both kinds of database have in common: one writer at a time, transactions, migrations.

Rooms write their SQL once, in what SQLite and PostgreSQL share: `?`, `?1` or `:name` for parameters, `CASE` and not
`iif`, `ON CONFLICT` and not `INSERT OR IGNORE`. On PostgreSQL every row belongs to a tenant; no statement mentions it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple, Protocol, TypeVar

from warmstart.errors import StoreTooNew

T = TypeVar("T")

# A statement with its parameters; with a list of them it is run for each.
Statement = tuple[str, tuple[object, ...] | list[tuple[object, ...]]]
Statements = Iterable[Statement]


class Cursor(Protocol):
    """What a statement gave: rows as tuples."""

    @property
    def rowcount(self) -> int: ...
    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """What rooms need of a connection."""

    def execute(self, sql: str, parameters: Any = ..., /) -> Cursor: ...
    def executemany(self, sql: str, parameters: Iterable[Any], /) -> object: ...


class Interrupted(Exception):
    """The time that was given for some statements is over."""


class Migration(NamedTuple):
    """One change of a room's tables; `name` is `room/number_what` and is never reused.

    `postgres` is the same change for PostgreSQL, where its statements are other ones.
    """

    name: str
    apply: Callable[[Any], None]
    postgres: Callable[[Any], None] | None = None


class AnyDatabase(ABC):
    """A connection to a database, for one thread."""

    name: str  # what messages call it; without a password
    connection: Connection

    def __init__(self) -> None:
        self._depth = 0
        self._worker: ThreadPoolExecutor | None = None
        self._ending: Future[None] | None = None

    @property
    def is_lost(self) -> bool:
        """Whether the server hung up, so that only another connection can help."""
        return False

    def close(self) -> None:
        try:
            with self.translated():
                pass
        finally:
            if self._worker is not None:
                self._worker.shutdown()
            self._disconnect()

    @contextmanager
    def transaction(self, last: Statements = (), *, wait: bool = True) -> Iterator[Connection]:
        """One write, whole or not at all. Inside another transaction it becomes part of it.

        `last` are statements to run before the commit. Without `wait` they and the commit run in the background, while
        the caller prepares its next write; whatever is asked of the database next waits for them first, and raises
        what went wrong.
        """
        with self.translated():
            if self._depth:
                yield self.connection
                return
            self._begin()
            self._depth += 1
            try:
                yield self.connection
            except BaseException:
                self._roll_back()
                raise
            finally:
                self._depth -= 1
            if wait:
                self._end(last)
            else:
                self._worker = self._worker or ThreadPoolExecutor(max_workers=1)
                self._ending = self._worker.submit(self._end, last)

    def write(self, action: Callable[[Connection], T]) -> T:
        """What `action` does, as one write. `transaction` in a form that costs less, for many small ones."""
        if self._depth or self._ending is not None:
            with self.transaction() as connection:
                return action(connection)
        try:
            self._begin()
            self._depth += 1
            try:
                done = action(self.connection)
            finally:
                self._depth -= 1
            self.connection.execute("COMMIT")
        except BaseException:
            with self.translated():
                self._roll_back()
                raise
        return done

    def _end(self, last: Statements) -> None:
        try:
            for statement, parameters in last:
                if isinstance(parameters, list):
                    self.connection.executemany(statement, parameters)
                else:
                    self.connection.execute(statement, parameters)
            self.connection.execute("COMMIT")
        except BaseException:
            self._roll_back()
            raise

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Turn what the database raises into our own errors, one clear line each."""
        with self._own_errors():
            if self._ending is not None:
                ending, self._ending = self._ending, None
                ending.result()
            yield

    def migrate(self, migrations: Sequence[Migration]) -> None:
        """Apply what is pending of a room's migrations, all of it or nothing; where nothing is, this costs two reads.

        A room brings its whole list each time: a migration of the room that is not in it was made by a newer version.
        """
        with self.translated():
            pending = self._pending(migrations)
        if pending:
            with self._migrating() as connection:
                # Another process may have migrated while this one waited for the lock.
                for migration in self._pending(migrations):
                    self._apply(migration)
                    connection.execute("INSERT INTO migrations (name) VALUES (?)", (migration.name,))

    def _pending(self, migrations: Sequence[Migration]) -> list[Migration]:
        if not self._is_migrated():
            return list(migrations)
        applied = {row[0] for row in self.connection.execute("SELECT name FROM migrations")}
        rooms = {migration.name.split("/")[0] for migration in migrations}
        known = {migration.name for migration in migrations}
        if unknown := sorted(name for name in applied - known if name.split("/")[0] in rooms):
            raise StoreTooNew(
                f"the store {self.name!r} was made by a newer Warmstart (it has {unknown[-1]!r}); "
                "upgrade Warmstart, or point WARMSTART_STORE at another one (nothing was changed)"
            )
        return [migration for migration in migrations if migration.name not in applied]

    # -- what differs

    @abstractmethod
    def stream(self, sql: str, parameters: Sequence[object] = ()) -> Iterator[Any]:
        """Rows one after the other, held neither here nor by the driver; inside a transaction only."""

    @abstractmethod
    def integrity(self) -> list[str]:
        """What is wrong with what is stored; empty when all is well."""

    @abstractmethod
    def _disconnect(self) -> None: ...

    @abstractmethod
    def _begin(self) -> None:
        """Begin a write; no other writer gets in between before it ends."""

    @abstractmethod
    def _roll_back(self) -> None: ...

    @abstractmethod
    def _own_errors(self) -> AbstractContextManager[None]: ...

    @abstractmethod
    def _is_migrated(self) -> bool:
        """Whether the table `migrations` is there."""

    @abstractmethod
    def _migrating(self) -> AbstractContextManager[Connection]:
        """A transaction in which the table `migrations` is there, and no one else migrates."""

    @abstractmethod
    def _apply(self, migration: Migration) -> None: ...
