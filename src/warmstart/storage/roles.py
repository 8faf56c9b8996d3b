"""The roles that a login works as when row-level security does not bind it: a superuser, or a role with BYPASSRLS.

It creates tables as their owner (`warmstart_owner` in a new store). It reads and writes as `warmstart_service`, which
the policies bind, for the tenant of the login's name. Members of `warmstart_service` may name any tenant, so they are
trusted with all data. A role is set for one transaction at a time, so that a connection pool hands it to nobody.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg import sql

SERVICE = "warmstart_service"
OWNER = "warmstart_owner"

_RIGHTS = "SELECT, INSERT, UPDATE, DELETE"
# The tables of the store that the service may not use yet.
CLOSED_TABLES = f"""
    SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')
    AND relowner = (SELECT relowner FROM pg_class WHERE oid = to_regclass('migrations'))
    AND (SELECT NOT bool_and(has_table_privilege('{SERVICE}', pg_class.oid, wanted))
         FROM unnest(string_to_array('{_RIGHTS}', ', ')) AS wanted)
""".encode()


def create_roles(raw: psycopg.Connection[Any]) -> None:
    """Create the roles that are missing, and let this login use them."""
    # Always true for a superuser. Before version 16, every member could use a role.
    may = "SET" if raw.info.server_version >= 160_000 else "MEMBER"
    for role in (OWNER, SERVICE):
        if _fetch(raw, "SELECT to_regrole(%s) IS NULL", role):
            with suppress(psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation):  # another process was first
                _run(raw, "CREATE ROLE {} NOLOGIN NOSUPERUSER NOBYPASSRLS", role)
        if not _fetch(raw, f"SELECT pg_has_role(%s, '{may}')", role):
            _run(raw, "GRANT {} TO CURRENT_USER", role)


def act_as(role: str, schemas: list[str]) -> list[str]:
    """The statements that set a role for a transaction, with the schemas of the login."""
    name, *path = (sql.Identifier(each).as_string() for each in (role, *schemas))
    return [f"SET LOCAL ROLE {name}", f"SET LOCAL search_path = {', '.join(path)}"]


def act_for(tenant: str) -> list[str]:
    """The statements that set the tenant for a transaction."""
    return [f"SET LOCAL warmstart.tenant = {sql.Literal(tenant).as_string()}"]


@contextmanager
def as_owner(raw: psycopg.Connection[Any], schemas: list[str]) -> Iterator[None]:
    """Be the owner of the tables for the rest of the transaction. In the end, let the service use them."""
    raw.execute("SET LOCAL ROLE NONE")
    owner_of = "SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = to_regclass('migrations')"
    owner = str(_fetch(raw, f"SELECT coalesce(({owner_of}), %s)", OWNER))
    schema = schemas[0]
    for role, right in ((owner, "USAGE"), (owner, "CREATE"), (SERVICE, "USAGE")):
        if not _fetch(raw, "SELECT has_schema_privilege(%s, %s, %s)", role, schema, right):
            _run(raw, f"GRANT {right} ON SCHEMA {{}} TO {{}}", schema, role)
    raw.execute("; ".join(act_as(owner, schemas)).encode())
    yield
    if tables := raw.execute(CLOSED_TABLES).fetchall():
        for (table,) in tables:
            _run(raw, f"GRANT {_RIGHTS} ON {{}}.{{}} TO {{}}", schema, table, SERVICE)
        # A trigger may write to tables of a later upgrade by the owner before the service comes here again.
        _run(raw, f"ALTER DEFAULT PRIVILEGES IN SCHEMA {{}} GRANT {_RIGHTS} ON TABLES TO {{}}", schema, SERVICE)


def _run(raw: psycopg.Connection[Any], statement: str, *names: str) -> None:
    raw.execute(statement.format(*(sql.Identifier(name).as_string() for name in names)).encode())


def _fetch(raw: psycopg.Connection[Any], statement: str, *parameters: str) -> Any:
    row = raw.execute(statement.encode(), parameters).fetchone()
    return row[0] if row else None
