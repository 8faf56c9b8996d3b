"""Whose a row is on PostgreSQL: the tables and policies that keep the tenants apart."""

from __future__ import annotations

from warmstart.storage.database import Connection, Migration

SERVICE = "warmstart_service"  # its members may act for any tenant
MARK = "Warmstart"  # the comment on the table `migrations` that tells our databases from others

# To be the first column of every table, and the first of every unique key.
COLUMN = 'tenant TEXT COLLATE "C" NOT NULL DEFAULT warmstart_tenant()'

# `session_user` and `role`, and not `current_user`: in a function that runs with its owner's rights, the latter is the
# owner. Nobody can set `role` to a role that he is no member of.
_CALLER = "CASE current_setting('role') WHEN 'none' THEN session_user::text ELSE current_setting('role') END"
_OWN = "tenant = (SELECT warmstart_tenant())"  # as a query of its own it is asked once a statement


def _create_tenants(connection: Connection) -> None:
    connection.execute(
        "CREATE TABLE migrations (name TEXT PRIMARY KEY, applied_at TIMESTAMPTZ NOT NULL DEFAULT current_timestamp)"
    )
    connection.execute(f"COMMENT ON TABLE migrations IS '{MARK}'")
    # All may read it, and its owner alone may write it, whatever others were granted.
    connection.execute("ALTER TABLE migrations ENABLE ROW LEVEL SECURITY")
    connection.execute("CREATE POLICY everyone_reads ON migrations FOR SELECT USING (true)")
    connection.execute(
        "CREATE FUNCTION warmstart_tenant() RETURNS text LANGUAGE sql STABLE PARALLEL SAFE RETURN "
        f"CASE WHEN coalesce(current_setting('warmstart.tenant', true), '') = '' THEN {_CALLER} "
        f"WHEN pg_has_role({_CALLER}, to_regrole('{SERVICE}'), 'member') "
        f"THEN current_setting('warmstart.tenant', true) ELSE {_CALLER} END"
    )
    connection.execute(
        f"CREATE TABLE tenants ({COLUMN}, since TIMESTAMPTZ NOT NULL DEFAULT current_timestamp, PRIMARY KEY (tenant))"
    )
    keep_apart(connection, "tenants")


def keep_apart(connection: Connection, *tables: str) -> None:
    """Let everyone see and write only the rows of his own tenant in these tables, also their owner."""
    for table in tables:
        connection.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        connection.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
        connection.execute(f"CREATE POLICY own_rows ON {table} USING ({_OWN})")


def keep_away(connection: Connection, *tables: str) -> None:
    """Let nobody into these tables but their owner's own functions, whatever others were granted."""
    for table in tables:
        connection.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")


def _ask_once(connection: Connection) -> None:
    """Let the policies of before ask once a statement for the tenant, and not for every row."""
    tables = connection.execute(
        "SELECT quote_ident(tablename) FROM pg_policies WHERE schemaname = current_schema() AND policyname = 'own_rows'"
    ).fetchall()
    for (table,) in tables:
        connection.execute(f"ALTER POLICY own_rows ON {table} USING ({_OWN})")


FOUNDATION = (Migration("storage/0001_tenants", _create_tenants), Migration("storage/0002_asked_once", _ask_once))
