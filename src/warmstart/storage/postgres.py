"""A PostgreSQL database as a store for many machines and many users.

Every row belongs to a tenant, and row-level security shows a connection the rows of its own tenant alone. The tenant is
the role that logged in. Only members of the role `warmstart_service` may act for another one, which they name in
the setting `warmstart.tenant`; it is set for one transaction at a time, so that a pool of connections cannot carry it
over to somebody else. Row-level security does not bind superusers; they work in the name of roles that it does bind
(see `roles.py`), also for one transaction at a time.

A tenant has one writer at a time, as a SQLite file has: a write locks the tenant's row in `tenants`. That is a row and
not an advisory lock, because anybody may take any advisory lock, but nobody can lock a row that he cannot see.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

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
from warmstart.storage.database import AnyDatabase, Migration
from warmstart.storage.database import Connection as AnyConnection
from warmstart.storage.tenants import FOUNDATION, MARK, SERVICE

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict
    from psycopg.types.array import ListBinaryDumper
    from psycopg.types.numeric import Int8Dumper

    from warmstart.storage import roles
    from warmstart.storage.postgres_connection import Connection
except ImportError as missing:
    raise ConfigError("a store on PostgreSQL needs psycopg: pip install 'warmstart[postgres]'") from missing

BUSY_SECONDS = 120.0
OLDEST = 14  # the oldest major version that has all that is used here

_CONNECT_SECONDS = 10
_KEEP_ALIVE = {"keepalives_idle": 60, "keepalives_interval": 10, "keepalives_count": 6}  # a server that fell silent
_MIGRATION_LOCK = 0x5741524D


class _Login(NamedTuple):
    """The role of a connection: whether no policy binds it, and the schemas it looks into."""

    name: str
    unbound: bool
    schemas: list[str]


class Database(AnyDatabase):
    """A connection to a PostgreSQL database, for one thread."""

    connection: Connection

    def __init__(
        self, url: str, migrations: Sequence[Migration], *, tenant: str = "", timeout: float = BUSY_SECONDS
    ) -> None:
        super().__init__()
        self.name = without_password(url)
        self._timeout = timeout
        self._raw = self._connect(url)
        self._raw.adapters.register_dumper(int, Int8Dumper)  # one type for all numbers: one plan for a statement
        self._raw.adapters.register_dumper(list, ListBinaryDumper)  # as text, every element would have to be quoted
        self.connection = Connection(self._raw)
        try:
            with self.translated():
                self._login = self._check_server()
                if self._login.unbound:
                    self._is_migrated()  # or is empty: for another program's database no role is made
                    self._make_roles()
                self.migrate((*FOUNDATION, *migrations))
                self.tenant = self._act_for(tenant)
        except BaseException:
            self._raw.close()
            raise

    @property
    def is_lost(self) -> bool:
        return bool(self._raw.broken or self._raw.closed)

    @property
    def version(self) -> str:
        """The version of the server."""
        return str(self._raw.info.parameter_status("server_version") or "")

    def stream(self, sql: str, parameters: Sequence[object] = ()) -> Iterator[Any]:
        return self.connection.stream(sql, parameters)

    def integrity(self) -> list[str]:
        """What the foreign keys find wrong; the rest is the server's own care."""
        found: list[str] = []
        with self.translated():
            keys = self._raw.execute(
                "SELECT conrelid::regclass::text, conname FROM pg_constraint "
                "WHERE connamespace = current_schema()::regnamespace AND NOT convalidated"
            ).fetchall()
            found += [f"the constraint {name} of {table} does not hold" for table, name in keys]
            broken = self._raw.execute(
                "SELECT indexrelid::regclass::text FROM pg_index JOIN pg_class ON pg_class.oid = indrelid "
                "WHERE relnamespace = current_schema()::regnamespace AND NOT indisvalid"
            ).fetchall()
            found += [f"the index {name} is not valid" for (name,) in broken]
        return found

    def vacuum(self) -> None:
        """Free the room of deleted rows for others to use; for tables of another owner the server leaves it."""
        with self.translated():
            rows = self._raw.execute(
                "SELECT oid::regclass::text FROM pg_class "
                "WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')"
            ).fetchall()
            self._raw.execute(f"VACUUM {', '.join(name for (name,) in rows)}".encode())

    # -- connecting

    def _connect(self, url: str) -> psycopg.Connection[Any]:
        try:
            options = conninfo_to_dict(url)
        except psycopg.Error:
            options = {"port": "?"}
        if not re.fullmatch(r"[\d,]*", str(options.get("port") or "")):
            # libpq quotes what it took for a port, which may be a piece of the password.
            raise ConfigError(
                f"the store {self.name!r} is no URL that PostgreSQL understands; "
                "characters like @, : and / in a password are written %40, %3A and %2F"
            ) from None
        defaults = {"connect_timeout": _CONNECT_SECONDS, "application_name": "warmstart", **_KEEP_ALIVE}
        chosen = {name: value for name, value in defaults.items() if name not in options}
        try:
            return psycopg.connect(url, autocommit=True, **chosen)  # type: ignore[arg-type]
        except psycopg.Error as error:
            raise _refusal(self.name, error) from error

    def _check_server(self) -> _Login:
        if self._raw.info.server_version < OLDEST * 10_000:
            raise StoreError(
                f"the store {self.name!r} is on PostgreSQL {self.version}; Warmstart needs {OLDEST} or newer"
            )
        row = self._raw.execute(
            "SELECT rolname::text, rolsuper OR rolbypassrls, current_schemas(false)::text[] FROM pg_roles "
            "WHERE rolname = current_user"
        ).fetchone()
        login = _Login(*row or ("", False, []))
        if not login.schemas:
            raise StoreReadOnly(
                f"the role {login.name!r} may use no schema of the store {self.name!r}; "
                "GRANT USAGE ON SCHEMA public TO it"
            )
        return login

    def _make_roles(self) -> None:
        try:
            roles.make_roles(self._raw)
        except psycopg.errors.InsufficientPrivilege as error:
            raise StoreReadOnly(
                f"the role {self._login.name!r} of the store {self.name!r} is bound by no row-level security, and may "
                f"not take on the roles {roles.OWNER} and {SERVICE} that are ({_line(error)}); "
                "connect as a role of your own: CREATE ROLE name LOGIN PASSWORD '…'"
            ) from error

    def _act_for(self, tenant: str) -> str:
        login = self._login
        if login.unbound:
            own = login.name
            self.connection = Connection(self._raw, roles.acting(SERVICE, login.schemas, tenant or own))
            reached, bound = self._reached()
        else:
            reached, bound = self._reached()
            own = reached
            if tenant not in ("", own):
                self.connection = Connection(self._raw, roles.for_tenant(tenant))
                reached, bound = self._reached()
        chosen = tenant or own
        if reached != chosen:
            raise StoreReadOnly(
                f"the role {own!r} may not act for the tenant {tenant!r}; leave out WARMSTART_TENANT, or let the "
                f"owner of the server GRANT {SERVICE} TO it"
            )
        if not bound:
            raise StoreError(
                f"the tables of the store {self.name!r} are guarded by no row-level security, so that the rows of all "
                f"users would mix; see that it is enabled, and that {SERVICE} is neither SUPERUSER nor BYPASSRLS"
            )
        return chosen

    def _reached(self) -> tuple[str, bool]:
        """For which tenant this connection acts, and whether it is held to that."""
        row = self.connection.execute("SELECT warmstart_tenant(), row_security_active('tenants')").fetchone()
        return row[0], row[1]

    def _disconnect(self) -> None:
        self._raw.close()

    # -- transactions

    def _begin(self) -> None:
        self.connection.begin(self._timeout)
        try:
            while not self._raw.execute(
                "SELECT 1 FROM tenants WHERE tenant = warmstart_tenant() FOR UPDATE"
            ).fetchone():
                self._raw.execute("INSERT INTO tenants DEFAULT VALUES ON CONFLICT DO NOTHING")
        except BaseException:
            self._roll_back()
            raise

    def _roll_back(self) -> None:
        self.connection.roll_back()

    # -- migrations

    def migrate(self, migrations: Sequence[Migration]) -> None:
        super().migrate(migrations)
        if self._login.unbound:
            with self.translated():
                closed = roles.is_closed(self._raw)
            if closed:
                with self._migrating():
                    pass

    def _is_migrated(self) -> bool:
        row = self._raw.execute(
            "SELECT obj_description(to_regclass('migrations'), 'pg_class'), "
            "(SELECT count(*) FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' "
            "AND NOT EXISTS (SELECT 1 FROM pg_depend WHERE objid = pg_class.oid AND deptype = 'e'))"  # of an extension
        ).fetchone()
        mark, tables = row or (None, 0)
        if tables and mark != MARK:
            raise StoreCorrupt(
                f"the database {self.name!r} holds another program's tables; "
                "give Warmstart a database of its own (nothing was changed)"
            )
        return mark == MARK

    @contextmanager
    def _migrating(self) -> Iterator[AnyConnection]:
        if self._depth:
            with self._locked():
                yield self.connection
            self.connection.act()
            return
        with self.translated():
            self._raw.execute(f"BEGIN; SET LOCAL lock_timeout = {round(self._timeout * 1000)}".encode())
            self._depth += 1
            try:
                with self._locked():
                    yield self.connection
                self._raw.execute("COMMIT")
            except BaseException:
                self._roll_back()
                raise
            finally:
                self._depth -= 1

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Let nobody else migrate until the transaction ends, and be one who may."""
        self._raw.execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATION_LOCK,))
        if not self._login.unbound:
            yield
            return
        with roles.owning(self._raw, self._login.schemas):
            yield

    def _apply(self, migration: Migration) -> None:
        try:
            (migration.postgres or migration.apply)(self.connection)
        except psycopg.errors.InsufficientPrivilege as error:
            raise StoreReadOnly(
                f"the tables of the store {self.name!r} must be made or brought up to date by their owner: "
                f"run `warmstart doctor` once as that role, or as a superuser ({_line(error)})"
            ) from error

    # -- errors

    @contextmanager
    def _own_errors(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise _translation(self.name, error, lost=self._raw.broken or self._raw.closed) from error


def _line(error: psycopg.Error) -> str:
    """What the server says, on one line."""
    said = error.diag.message_primary or str(error)
    return "; ".join(line.strip() for line in said.splitlines() if line.strip())


def _refusal(name: str, error: psycopg.Error) -> StoreError:
    """Why there is no connection. libpq tells by its words alone."""
    said = _line(error)
    reason = said.rsplit("FATAL: ", 1)[-1].strip()
    if "does not exist" in said and "database" in said:
        return StoreError(f"the store {name!r} does not exist ({reason}); make it with createdb")
    if "authentication" in said or "password" in said or "pg_hba" in said or "role" in said:
        return StoreReadOnly(
            f"the server of the store {name!r} does not let you in ({reason}); check user and password"
        )
    if "too many" in said or "remaining connection slots" in said:
        return StoreBusy(f"the server of the store {name!r} has no connection left ({reason}); try again")
    return StoreUnreachable(f"the server of the store {name!r} cannot be reached ({reason}); is it running?")


def _translation(name: str, error: psycopg.Error, *, lost: bool) -> StoreError:
    said = _line(error)
    code = error.sqlstate or ""
    if lost or code[:2] == "08" or code in ("57P01", "57P02", "57P03"):
        return StoreUnreachable(
            f"the connection to the store {name!r} was lost ({said}); an unfinished write was not kept; try again"
        )
    if code in ("42501", "25006"):
        return StoreReadOnly(f"the server refuses a write to the store {name!r} ({said}); ask its owner for the right")
    if code in ("55P03", "40P01", "40001", "53300"):
        return StoreBusy(f"the store {name!r} is held by another process ({said}); try again when it is done")
    if code in ("53100", "53200"):
        return StoreFull(f"no room on the server for the store {name!r} ({said}); nothing of this write was kept")
    if code in ("XX001", "XX002"):
        return StoreCorrupt(f"the store {name!r} is damaged ({said}); restore it from a backup (it was left as it is)")
    return StoreError(f"the store {name!r} failed: {said}")
