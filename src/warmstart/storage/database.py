"""What both dialects have in common: one writer at a time, transactions, migrations.

Packages write their SQL once, in what SQLite and PostgreSQL share: `?`, `?1` or `:name` for parameters, `CASE` and not
`iif`, `ON CONFLICT` and not `INSERT OR IGNORE`. On PostgreSQL every row belongs to a tenant; no statement mentions it.

The SQL of a migration is in two files of the package that owns the tables, `migrations/NUMBER_WHAT.sqlite.sql` and
`migrations/NUMBER_WHAT.postgres.sql`. Existing stores have already run it, so neither the SQL nor the name of a
released migration ever changes. docs/storage.md shows how to add one.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence, Sized
from contextlib import AbstractContextManager, contextmanager
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, TypeVar

from warmstart.errors import StoreError, StoreTooNew
from warmstart.storage.deadline import Interrupted as Interrupted

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

BUSY_SECONDS = 120.0
MAX_PARAMETERS = 500  # values in one IN list

T = TypeVar("T")

Statement = tuple[str, tuple[object, ...]]  # SQL and its parameters

# The names of all migrations, in order. A store that has any other was migrated by a newer version.
NAMES = tuple(Path(__file__).with_name("migrations").joinpath("names.txt").read_text(encoding="utf-8").split())

# Migrations whose tables `recall/0006_turns` drops: their SQL is deleted, and there is nothing to run.
RETIRED = frozenset(name for name in NAMES if re.match(r"recall/000[1-5]_", name))

# Former names of migrations, which older stores recorded.
ALIASES = {"sessions/0003_scrubs": "sessions/0004_scrubs", "vectors/0001_tables": "recall/0002_vectors"}


class Migration(NamedTuple):
    """One change of a package's tables; `name` is `package/number_what`."""

    name: str
    folder: Path

    def script(self, dialect: str) -> str:
        """The SQL. If its first line is `-- only if: QUERY`, it runs only where that query returns a row.

        On PostgreSQL, `{schema}` is replaced by the schema of the store.
        """
        if self.name in RETIRED:
            return ""
        return Path(self.folder, f"{self.name.split('/')[1]}.{dialect}.sql").read_text(encoding="utf-8")


def migrations_of(package: str, module: str) -> tuple[Migration, ...]:
    """The migrations of a package, whose SQL is next to `module`."""
    folder = Path(module).parent / "migrations"
    return tuple(Migration(name, folder) for name in NAMES if name.startswith(f"{package}/"))


class Cursor(Protocol):
    """The result of a statement: rows as tuples."""

    @property
    def rowcount(self) -> int: ...
    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """The part of a connection that both dialects have."""

    def execute(self, sql: str, parameters: Any = ..., /) -> Cursor: ...
    def executemany(self, sql: str, parameters: Iterable[Any], /) -> object: ...


class Database(ABC):
    """A connection to a database, for one thread."""

    DIALECT: ClassVar[str]
    ERRORS: ClassVar[tuple[type[Exception], ...]]  # of the driver
    name: str  # for messages: a path, or a URL without its password
    connection: Connection

    def __init__(self) -> None:
        self.copies: Path | None = None  # the folder of files that this machine has of a server's data
        self._is_taking_back = False
        self.is_writing = False  # inside a transaction
        self._worker: ThreadPoolExecutor | None = None  # made for the first commit in the background
        self._commit: Future[None] | None = None

    @property
    def is_lost(self) -> bool:
        """Whether the server closed the connection, so that a new one is needed."""
        return False

    def integrity(self) -> list[str]:
        """List problems with the stored data, if the database can have any."""
        return []

    def close(self) -> None:
        try:
            with self.translate_errors():
                pass
        finally:
            if self._worker is not None:
                self._worker.shutdown()
            self._disconnect()

    @contextmanager
    def transaction(self, last: Sequence[Statement] = (), *, wait: bool = True) -> Iterator[Connection]:
        """Write all or nothing. A nested transaction becomes part of the outer one.

        `last` are statements to run just before the commit. Without `wait`, they and the commit run in the background
        while the caller prepares its next write (this makes an import a quarter faster). The next use of the database
        waits for them and raises their error.
        """
        with self.translate_errors():
            if self.is_writing:
                yield self.connection
                return
            self.is_writing = True
            try:
                self._begin()
                yield self.connection
            except BaseException:
                self._roll_back()
                raise
            finally:
                self.is_writing = False
            if wait:
                self._finish(last)
                if self._is_taking_back:
                    self._is_taking_back = False
                    self._delete_copies()  # another process may have written one before the commit
            else:
                self._commit = self._background().submit(self._finish, last)

    def take_back(self) -> None:
        """Delete copies that may hold what the current transaction takes back."""
        self._is_taking_back = self.copies is not None
        self._delete_copies()

    def _delete_copies(self) -> None:
        for path in self.copies.glob("*.json") if self.copies else ():
            path.unlink(missing_ok=True)

    def _background(self) -> ThreadPoolExecutor:
        if self._worker is None:
            from concurrent.futures import ThreadPoolExecutor  # deferred: most commands never need it

            self._worker = ThreadPoolExecutor(max_workers=1)
        return self._worker

    def _finish(self, last: Sequence[Statement]) -> None:
        try:
            for statement, parameters in last:
                self.connection.execute(statement, parameters)
            self.connection.execute("COMMIT")
        except BaseException:
            self._roll_back()
            raise

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Turn errors of the driver into our own. Waits for a background commit first."""
        try:
            if self._commit is not None:
                commit, self._commit = self._commit, None
                commit.result()
            yield
        except self.ERRORS as error:
            raise self._store_error(error) from error

    def migrate(self, migrations: Sequence[Migration]) -> None:
        """Apply the pending migrations, all or none. Raises `StoreTooNew` if a newer version migrated the store."""
        with self.translate_errors():
            pending = self._pending(migrations)
        if pending:
            with self._migrating() as connection:
                # Another process may have migrated while this one waited for the lock.
                for migration in self._pending(migrations):
                    self._apply(migration)
                    connection.execute("INSERT INTO migrations (name) VALUES (?)", (migration.name,))

    def applied(self) -> set[str]:
        """The names of the migrations that were applied."""
        if not self._has_migrations():
            return set()
        return {ALIASES.get(name, name) for (name,) in self.connection.execute("SELECT name FROM migrations")}

    def _pending(self, migrations: Sequence[Migration]) -> list[Migration]:
        applied = self.applied()
        known = {*NAMES, *(migration.name for migration in migrations)}
        if unknown := sorted(applied - known):
            advice = "upgrade Warmstart, or point WARMSTART_STORE at another store (nothing was changed)"
            raise StoreTooNew(f"{self.name!r} was migrated by a newer Warmstart (it has {unknown[-1]!r}); {advice}")
        return [migration for migration in migrations if migration.name not in applied]

    def _apply(self, migration: Migration) -> None:
        script = migration.script(self.DIALECT)
        condition = re.match("-- only if: (.+)", script)
        if condition is None or self.connection.execute(condition[1]).fetchone():
            self._run_script(script)

    # -- what the dialects implement

    @abstractmethod
    def vacuum(self) -> None: ...  # frees the space of deleted rows, and erases their content if possible

    @abstractmethod
    def _disconnect(self) -> None: ...

    @abstractmethod
    def _begin(self) -> None: ...  # locks out other writers until the transaction ends

    @abstractmethod
    def _roll_back(self) -> None: ...

    @abstractmethod
    def _store_error(self, error: Exception) -> StoreError: ...

    @abstractmethod
    def _has_migrations(self) -> bool: ...  # whether that table exists

    @abstractmethod
    def _migrating(self) -> AbstractContextManager[Connection]: ...  # a transaction with the right to migrate

    @abstractmethod
    def _run_script(self, script: str) -> None: ...


# -- helpers for the SQL of all packages


def batches(items: Iterable[T], size: int = MAX_PARAMETERS) -> Iterator[list[T]]:
    """Split `items` into lists of at most `size`, short enough for an IN list."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


def placeholders(items: Sized) -> str:
    """A question mark for each item, for an IN list or VALUES."""
    return ", ".join("?" * len(items))


def select_in(connection: Connection, query: str, items: Iterable[object], *parameters: object) -> Iterator[Any]:
    """The rows of a query with the list `({})` for `items`, before its other parameters. Runs once per batch."""
    for batch in batches(items):
        yield from connection.execute(query.format(placeholders(batch)), [*batch, *parameters])


def next_ids(connection: Connection, table: str, column: str, *, session: int | None = None) -> Iterator[int]:
    """Yield unused ids, counting up from the highest in the table or session. Call it inside a transaction."""
    where = "" if session is None else f" WHERE session = {session:d}"
    highest = connection.execute(f"SELECT coalesce(max({column}), 0) FROM {table}{where}").fetchone()[0]
    return count(int(highest) + 1)
