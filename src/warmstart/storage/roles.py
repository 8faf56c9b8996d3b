"""The roles in whose name a login works that no policy binds: a superuser, or a role with BYPASSRLS.

It makes tables as their owner, `warmstart_owner` where there is none yet, and reads and writes as `warmstart_service`,
which the policies bind and which may act for any tenant; it acts for the one of the login's name. Whoever else could
name that tenant is a member of `warmstart_service`, and so trusted with all.

A role is taken on for one transaction at a time, so that a pool of connections hands it to nobody.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg import sql

from warmstart.storage.tenants import SERVICE

OWNER = "warmstart_owner"  # of tables that a login makes whom no policy binds

_RIGHTS = "SELECT, INSERT, UPDATE, DELETE"
# The tables of the store that the service may not use yet.
_CLOSED = f"""
    SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')
    AND relowner = (SELECT relowner FROM pg_class WHERE oid = to_regclass('migrations'))
    AND (SELECT NOT bool_and(has_table_privilege('{SERVICE}', pg_class.oid, wanted))
         FROM unnest(string_to_array('{_RIGHTS}', ', ')) AS wanted)
"""


def make_roles(raw: psycopg.Connection[Any]) -> None:
    """Make the roles where they are missing, and see that this login may take them on."""
    # Of a superuser everything is true. Before 16, whoever was a member could take on the role.
    may = "SET" if raw.info.server_version >= 160_000 else "MEMBER"
    for role in (OWNER, SERVICE):
        name = sql.Identifier(role)
        if _one(raw, "SELECT to_regrole(%s) IS NULL", role):
            with suppress(psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation):  # another process was first
                raw.execute(sql.SQL("CREATE ROLE {} NOLOGIN NOSUPERUSER NOBYPASSRLS").format(name))
        if not _one(raw, f"SELECT pg_has_role(%s, '{may}')", role):
            raw.execute(sql.SQL("GRANT {} TO CURRENT_USER").format(name))


def acting(role: str, schemas: list[str], tenant: str = "") -> list[sql.Composed]:
    """What a transaction in the name of a role begins with. The schemas are the login's and not the role's own."""
    path = sql.SQL(", ").join(map(sql.Identifier, schemas))
    taken = sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(role))
    return [taken, sql.SQL("SET LOCAL search_path = {}").format(path), *(for_tenant(tenant) if tenant else ())]


def for_tenant(tenant: str) -> list[sql.Composed]:
    """What says for whom a transaction is."""
    return [sql.SQL("SET LOCAL warmstart.tenant = {}").format(sql.Literal(tenant))]


def is_closed(raw: psycopg.Connection[Any]) -> bool:
    """Whether there are tables that the service may not use yet."""
    return raw.execute(_CLOSED.encode()).fetchone() is not None


@contextmanager
def owning(raw: psycopg.Connection[Any], schemas: list[str]) -> Iterator[None]:
    """Be the owner of the tables for the rest of the transaction, and let the service use them in the end."""
    raw.execute("SET LOCAL ROLE NONE")
    found = "SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = to_regclass('migrations')"
    owner = str(_one(raw, f"SELECT coalesce(({found}), %s)", OWNER))
    schema = sql.Identifier(schemas[0])
    for role, right in ((owner, "USAGE"), (owner, "CREATE"), (SERVICE, "USAGE")):
        if not _one(raw, "SELECT has_schema_privilege(%s, %s, %s)", role, schemas[0], right):
            grant = sql.SQL("GRANT {} ON SCHEMA {} TO {}")
            raw.execute(grant.format(sql.SQL(right), schema, sql.Identifier(role)))
    raw.execute(sql.SQL("; ").join(acting(owner, schemas)))
    yield
    if tables := raw.execute(_CLOSED.encode()).fetchall():
        names = sql.SQL(", ").join(sql.Identifier(schemas[0], name) for (name,) in tables)
        rights, service = sql.SQL(_RIGHTS), sql.Identifier(SERVICE)
        raw.execute(sql.SQL("GRANT {} ON {} TO {}").format(rights, names, service))
        # What the owner adds by an upgrade, a trigger may write to before the service comes by here again.
        later = sql.SQL("ALTER DEFAULT PRIVILEGES IN SCHEMA {} GRANT {} ON TABLES TO {}")
        raw.execute(later.format(schema, rights, service))


def _one(raw: psycopg.Connection[Any], statement: str, *parameters: str) -> Any:
    row = raw.execute(statement.encode(), parameters).fetchone()
    return row[0] if row else None
