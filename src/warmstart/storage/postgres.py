"""A PostgreSQL database as a store for many machines and many users.

Every row belongs to a tenant, and row-level security shows a connection only the rows of its own tenant. The tenant is
the role that logged in. Only members of the role `warmstart_service` may act for another tenant, which they name in the
setting `warmstart.tenant`; it is set per transaction, so that it never leaks through a connection pool.

Row-level security does not bind superusers and roles with BYPASSRLS. Such a login creates tables as their owner
(`warmstart_owner` in a new store), and reads and writes as `warmstart_service`, for the tenant of the login's name.
Members of `warmstart_service` may name any tenant, so they are trusted with all data.

A tenant has one writer at a time, as a SQLite file has: a write locks the tenant's row in `tenants`. This is a row and
not an advisory lock, because anyone can take an advisory lock, but nobody can lock a row that they cannot see.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import lru_cache
from math import ceil
from typing import Any, ClassVar

from warmstart.config import without_password
from warmstart.errors import (
    ConfigError,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnreachable,
)
from warmstart.storage.database import BUSY_SECONDS, Connection, Cursor, Database, Interrupted, Migration, migrations_of

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict
    from psycopg.pq import TransactionStatus
    from psycopg.sql import Identifier, Literal
    from psycopg.types.array import ListBinaryDumper
    from psycopg.types.numeric import Int8Dumper
except ImportError as missing:
    raise ConfigError("a store on PostgreSQL needs psycopg: pip install 'warmstart[postgres]'") from missing

SERVICE = "warmstart_service"
OWNER = "warmstart_owner"

_RIGHTS = "SELECT, INSERT, UPDATE, DELETE"
# The tables of the store that the service may not use yet.
_CLOSED_TABLES = f"""
    SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')
    AND relowner = (SELECT relowner FROM pg_class WHERE oid = to_regclass('migrations'))
    AND (SELECT NOT bool_and(has_table_privilege('{SERVICE}', pg_class.oid, wanted))
         FROM unnest(string_to_array('{_RIGHTS}', ', ')) AS wanted)
""".encode()

_COMMENT = "Warmstart"  # on the table `migrations`: marks our stores
_MIGRATION_LOCK = 0x5741524D
_FOUNDATION = migrations_of("storage", __file__)
_MAX_ROLLBACKS = 20  # a rollback is a statement too: a time limit may cancel it
# A quoted text, a cast, or a parameter in one of SQLite's forms.
_TOKEN = re.compile(r"'(?:[^']|'')*'|::|\?(\d*)|:([a-z_]\w*)|%")
_DEFAULTS = "application_name=warmstart connect_timeout=10 keepalives_idle=60 keepalives_interval=10 keepalives_count=6"


class PostgresDatabase(Database):
    """A connection to a PostgreSQL database, for one thread.

    Every transaction begins with the statements in `_setup_sql`, which set role and tenant. Statements on `raw` outside
    of a transaction run as the role that logged in.
    """

    DIALECT: ClassVar = "postgres"
    ERRORS: ClassVar = (psycopg.Error,)
    connection: PostgresDatabase  # itself: it has `execute` and `executemany`

    def __init__(
        self, url: str, migrations: Sequence[Migration], *, tenant: str = "", timeout: float = BUSY_SECONDS
    ) -> None:
        super().__init__()
        self.name = without_password(url)
        self.connection = self
        self.tenant = ""
        self._login, self._unbound, self._schemas = "", False, list[str]()  # _unbound: by row-level security
        self._timeout = timeout
        self._setup_sql: list[str] = []
        self._limited = False
        self._deadline: float | None = None
        self._reading = False  # whether reads inside `limited` have opened their transaction
        self.raw = self._connect(url)
        self.raw.adapters.register_dumper(int, Int8Dumper)  # one type for all integers: one plan per statement
        self.raw.adapters.register_dumper(list, ListBinaryDumper)  # text would quote every element
        try:
            with self.translate_errors():
                self._check_server()
                if self._unbound:
                    self._pending(migrations)  # rejects another program's database before it creates a role
                    _create_roles(self.raw)
                self.migrate((*_FOUNDATION, *migrations))
                self.tenant = self._act_for(tenant)
        except BaseException:
            self.raw.close()
            raise

    @property
    def is_lost(self) -> bool:
        return bool(self.raw.broken or self.raw.closed)

    def vacuum(self) -> None:
        """Free the space of deleted rows. The server skips tables of another owner."""
        with self.translate_errors():
            self.raw.execute("VACUUM")

    # -- statements

    def execute(self, sql: str, parameters: Any = (), /, *, binary: bool = False) -> Cursor:
        """Run a statement. Binary results are faster for large values."""
        statement, values = _prepare(sql, parameters)
        if self._limited:
            return self._execute_limited(statement, values, binary)
        with self._own_transaction():
            return self.raw.execute(statement, values, binary=binary)

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> object:
        rows = [_prepare(sql, row)[1] for row in parameters]
        if rows:
            with self._own_transaction(), self.raw.cursor() as cursor:
                cursor.executemany(to_psycopg(sql)[0], rows)
        return None

    @contextmanager
    def limited(self, seconds: float | None) -> Iterator[None]:
        """Run reads in one transaction, so that role and tenant are set once; a write still gets its own.

        After `seconds`, statements raise `Interrupted`; `None` sets no limit.
        """
        self._limited, self._deadline = True, None if seconds is None else time.monotonic() + seconds
        try:
            yield
        finally:
            self._limited, self._deadline = False, None
            if self._reading:
                self._roll_back()

    def _execute_limited(self, statement: bytes, values: Any, binary: bool) -> Cursor:
        first = self._time_limits()
        if self._is_idle():
            first = ["BEGIN READ ONLY", *first, *self._setup_sql]
            self._reading = True
        try:
            # All in one round trip.
            with self.raw.pipeline() if first and psycopg.Pipeline.is_supported() else nullcontext():
                for each in first:
                    self.raw.execute(each.encode())
                return self.raw.execute(statement, values, binary=binary)
        except psycopg.Error as error:
            if self._reading:
                self._roll_back()
            if isinstance(error, psycopg.errors.QueryCanceled):
                raise Interrupted from None
            raise

    def _time_limits(self, lock: float | None = None) -> list[str]:
        """The statements that limit the time of a statement to what is left, and the time to wait for a lock."""
        left = None if self._deadline is None else self._deadline - time.monotonic()
        if left is not None and left <= 0:
            raise Interrupted
        limits = {"statement_timeout": left, "lock_timeout": lock if left is None or lock is None else min(lock, left)}
        return [f"SET LOCAL {name} = {max(1, ceil(s * 1000))}" for name, s in limits.items() if s is not None]

    @contextmanager
    def _own_transaction(self) -> Iterator[None]:
        """Give a statement outside of a transaction one of its own, if role and tenant must be set."""
        if not self._setup_sql or not self._is_idle():
            yield
            return
        with self.raw.transaction():
            self._set_up()
            yield

    def _set_up(self) -> None:
        if self._setup_sql:
            self.raw.execute("; ".join(self._setup_sql).encode())

    def _is_idle(self) -> bool:
        return self.raw.info.transaction_status == TransactionStatus.IDLE

    # -- connecting

    def _connect(self, url: str) -> psycopg.Connection[Any]:
        try:
            options = conninfo_to_dict(url)
        except psycopg.Error:
            options = {"port": "?"}
        if not re.fullmatch(r"[\d,]*", str(options.get("port") or "")):
            # libpq quotes what it took for the port, which may be part of the password.
            advice = "write characters like @, : and / in a password as %40, %3A and %2F"
            raise ConfigError(f"PostgreSQL does not understand the URL {self.name!r}; {advice}") from None
        try:
            return psycopg.connect(autocommit=True, **(conninfo_to_dict(_DEFAULTS) | options))  # type: ignore[arg-type]
        except psycopg.Error as error:
            raise _connection_error(self.name, error) from error

    def _disconnect(self) -> None:
        self.raw.close()

    def _check_server(self) -> None:
        self.version = str(self.raw.info.parameter_status("server_version"))
        if self.raw.info.server_version < 140_000:
            raise StoreError(f"{self.name!r} is on PostgreSQL {self.version}; Warmstart needs 14 or newer")
        self._login, self._unbound, self._schemas = self.execute(
            "SELECT rolname::text, rolsuper OR rolbypassrls, current_schemas(false)::text[] FROM pg_roles "
            "WHERE rolname = current_user"
        ).fetchone()
        if not self._schemas:
            raise StoreReadOnly(f"the role {self._login!r} may not use any schema; GRANT USAGE ON SCHEMA public TO it")

    def _act_for(self, tenant: str) -> str:
        """Act for a tenant, by default the role that logged in, and check that the server allows it."""
        wanted = tenant or (self._login if self._unbound else "")
        set_tenant = f"SET LOCAL warmstart.tenant = {Literal(wanted).as_string()}"
        if self._unbound:
            self._setup_sql = [*_set_role(SERVICE, self._schemas), set_tenant]
        elif tenant not in ("", self._login):
            self._setup_sql = [set_tenant]
        reached, is_bound = self.execute("SELECT warmstart_tenant(), row_security_active('tenants')").fetchone()
        if wanted and reached != wanted:
            advice = f"unset WARMSTART_TENANT, or ask the owner of the server to GRANT {SERVICE} TO it"
            raise StoreReadOnly(f"the role {self._login!r} may not act for the tenant {tenant!r}; {advice}")
        if not is_bound:
            advice = f"enable it, and make sure that {SERVICE} is neither SUPERUSER nor BYPASSRLS"
            raise StoreError(f"row-level security does not protect the tables of the store {self.name!r}; {advice}")
        return str(reached)

    # -- transactions and migrations

    def _begin(self) -> None:
        if self._reading:
            self._roll_back()
        self.raw.execute("; ".join(["BEGIN", *self._time_limits(self._timeout), *self._setup_sql]).encode())
        if not self.tenant:  # the first migrations
            return
        lock = "SELECT 1 FROM tenants WHERE tenant = warmstart_tenant() FOR UPDATE"
        if not self.raw.execute(lock).fetchone():
            self.raw.execute("INSERT INTO tenants DEFAULT VALUES ON CONFLICT DO NOTHING")
            if not self.raw.execute(lock).fetchone():
                raise StoreReadOnly(f"a policy of the store {self.name!r} forbids writes; ask its owner for permission")

    def _roll_back(self) -> None:
        self._reading = False
        for _ in range(_MAX_ROLLBACKS):
            if self.raw.closed or self._is_idle():
                return
            with suppress(psycopg.errors.QueryCanceled):
                self.raw.rollback()

    def migrate(self, migrations: Sequence[Migration]) -> None:
        super().migrate(migrations)
        with self.translate_errors():
            closed = self._unbound and self.raw.execute(_CLOSED_TABLES).fetchone()
        if closed:
            with self._migrating():
                pass

    def _has_migrations(self) -> bool:
        row = self.raw.execute(
            "SELECT obj_description(to_regclass('migrations'), 'pg_class'), "
            "(SELECT count(*) FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' "
            "AND NOT EXISTS (SELECT 1 FROM pg_depend WHERE objid = pg_class.oid AND deptype = 'e'))"  # of an extension
        ).fetchone()
        comment, tables = row or (None, 0)
        if tables and comment != _COMMENT:
            advice = "give Warmstart its own database (nothing was changed)"
            raise StoreCorrupt(f"the database {self.name!r} has another program's tables; {advice}")
        return comment == _COMMENT

    @contextmanager
    def _migrating(self) -> Iterator[Connection]:
        with self.transaction():
            self.raw.execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATION_LOCK,))
            with _as_owner(self.raw, self._schemas) if self._unbound else nullcontext():
                yield self
            self._set_up()

    def _apply(self, migration: Migration) -> None:
        try:
            super()._apply(migration)
        except psycopg.errors.InsufficientPrivilege as error:
            advice = f"run `warmstart doctor` once as that role, or as a superuser ({_message(error)})"
            raise StoreReadOnly(f"only the owner may create the tables of the store {self.name!r}: {advice}") from error

    def _run_script(self, script: str) -> None:
        if "{schema}" in script:
            row = self.raw.execute("SELECT quote_ident(current_schema())").fetchone()
            script = script.replace("{schema}", row[0] if row else "")
        self.raw.execute(script.encode())

    def _store_error(self, error: Exception) -> StoreError:
        name, message, code = self.name, _message(error), getattr(error, "sqlstate", "") or ""
        if self.is_lost or code[:2] == "08" or code in ("57P01", "57P02", "57P03"):
            return StoreUnreachable(f"the connection to the store {name!r} was lost ({message}); try again")
        if code in ("25006", "42501"):
            return StoreReadOnly(f"{name!r} rejects this ({message}); use the primary server, or get permission")
        if code in ("55P03", "40P01", "40001", "53300"):
            return StoreBusy(f"another process is using the store {name!r} ({message}); try again when it is done")
        if code in ("53100", "53200"):
            return StoreFull(f"no space left for the store {name!r} ({message}); this write was rolled back")
        if code in ("XX001", "XX002", "42P01"):
            return StoreCorrupt(f"the store {name!r} is damaged ({message}); restore it from a backup")
        return StoreError(f"the store {name!r} failed: {message}")


@lru_cache(maxsize=1024)
def to_psycopg(sql: str) -> tuple[bytes, bool]:
    """The statement in psycopg's syntax, and whether its parameters are numbered."""
    numbered = False

    def parameter(found: re.Match[str]) -> str:
        nonlocal numbered
        text, number, name = found[0], found[1], found[2]
        if text.startswith("'") or text == "%":
            return text.replace("%", "%%")
        numbered = numbered or bool(number)
        if number or name:
            return f"%({number or name})s"
        return "%s" if text == "?" else text

    # Every unique key begins with the tenant.
    text = _TOKEN.sub(parameter, sql).replace("ON CONFLICT (", "ON CONFLICT (tenant, ")
    return text.encode(), numbered


def _prepare(sql: str, parameters: Any) -> tuple[bytes, Any]:
    text, numbered = to_psycopg(sql)
    return text, {str(place): value for place, value in enumerate(parameters, 1)} if numbered else parameters


def _message(error: Exception) -> str:
    """The server's message on one line."""
    text = (isinstance(error, psycopg.Error) and error.diag.message_primary) or str(error)
    return "; ".join(line.strip() for line in text.splitlines() if line.strip())


def _connection_error(name: str, error: psycopg.Error) -> StoreError:
    """The error for a failed connection; libpq gives the reason only as text."""
    message = _message(error)
    reason = message.rsplit("FATAL: ", 1)[-1].strip()
    if "does not exist" in message and "database" in message:
        return StoreError(f"the store {name!r} does not exist ({reason}); create it with createdb")
    if any(word in message for word in ("authentication", "password", "permission", "pg_hba", "role")):
        return StoreReadOnly(f"the server of {name!r} rejected the login ({reason}); check user, password and rights")
    if "too many" in message or "remaining connection slots" in message:
        return StoreBusy(f"the server of the store {name!r} has no connection left ({reason}); try again")
    return StoreUnreachable(f"cannot reach the server of the store {name!r} ({reason}); is it running?")


def _create_roles(raw: psycopg.Connection[Any]) -> None:
    """Create the missing roles, and allow this login to use them."""
    # Always true for a superuser. Before version 16, every member could use a role.
    may = "SET" if raw.info.server_version >= 160_000 else "MEMBER"
    for role in (OWNER, SERVICE):
        if _fetch(raw, "SELECT to_regrole(%s) IS NULL", role):
            with suppress(psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation):  # another process was first
                _run(raw, "CREATE ROLE {} NOLOGIN NOSUPERUSER NOBYPASSRLS", role)
        if not _fetch(raw, f"SELECT pg_has_role(%s, '{may}')", role):
            _run(raw, "GRANT {} TO CURRENT_USER", role)


def _set_role(role: str, schemas: list[str]) -> list[str]:
    """The statements that set a role for a transaction, with the schemas of the login."""
    name, *path = (Identifier(each).as_string() for each in (role, *schemas))
    return [f"SET LOCAL ROLE {name}", f"SET LOCAL search_path = {', '.join(path)}"]


@contextmanager
def _as_owner(raw: psycopg.Connection[Any], schemas: list[str]) -> Iterator[None]:
    """Act as the owner of the tables for the rest of the transaction. At the end, grant the service access to them."""
    raw.execute("SET LOCAL ROLE NONE")
    owner_of = "SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = to_regclass('migrations')"
    owner = str(_fetch(raw, f"SELECT coalesce(({owner_of}), %s)", OWNER))
    schema = schemas[0]
    for role, right in ((owner, "USAGE"), (owner, "CREATE"), (SERVICE, "USAGE")):
        if not _fetch(raw, "SELECT has_schema_privilege(%s, %s, %s)", role, schema, right):
            _run(raw, f"GRANT {right} ON SCHEMA {{}} TO {{}}", schema, role)
    raw.execute("; ".join(_set_role(owner, schemas)).encode())
    yield
    if tables := raw.execute(_CLOSED_TABLES).fetchall():
        for (table,) in tables:
            _run(raw, f"GRANT {_RIGHTS} ON {{}}.{{}} TO {{}}", schema, table, SERVICE)
        # A trigger may write to tables that the owner adds in a later upgrade, before this code runs again.
        _run(raw, f"ALTER DEFAULT PRIVILEGES IN SCHEMA {{}} GRANT {_RIGHTS} ON TABLES TO {{}}", schema, SERVICE)


def _run(raw: psycopg.Connection[Any], statement: str, *names: str) -> None:
    raw.execute(statement.format(*(Identifier(name).as_string() for name in names)).encode())


def _fetch(raw: psycopg.Connection[Any], statement: str, *parameters: str) -> Any:
    row = raw.execute(statement.encode(), parameters).fetchone()
    return row[0] if row else None
