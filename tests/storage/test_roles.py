"""Logins that bypass row-level security: they work, and see only their own rows."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import psycopg
import pytest
from tests.postgres import OWNER, TABLES, Server

from warmstart.errors import StoreCorrupt, StoreError, StoreReadOnly
from warmstart.profile.profiler import profiled
from warmstart.sessions.sql_store import PostgresSessionStore
from warmstart.sessions.store import Position
from warmstart.testing.stores import CALLED, RESULTS, find_texts, said, session

ROLES = ("alice", "bob", "root", "above", "warmstart_users", "warmstart_service", "warmstart_owner")
GRANT = "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO warmstart_users"


@pytest.fixture
def database(postgres: Server) -> Iterator[str]:
    """An empty database, on a server with two users, a superuser, and a role with BYPASSRLS and CREATEROLE."""
    _drop(postgres)
    postgres.run("CREATE ROLE warmstart_users NOLOGIN")
    for role in ("alice", "bob"):
        postgres.run(f"CREATE ROLE {role} LOGIN IN ROLE warmstart_users")
    postgres.run("CREATE ROLE root LOGIN SUPERUSER")
    postgres.run("CREATE ROLE above LOGIN BYPASSRLS CREATEROLE")
    with postgres.database(empty=True) as name:
        yield name
    _drop(postgres)


def _drop(postgres: Server) -> None:
    for role in ROLES:
        postgres.run(f"DROP ROLE IF EXISTS {role}")


def opened(postgres: Server, database: str, role: str, **options: Any) -> closing[PostgresSessionStore]:
    return closing(PostgresSessionStore(postgres.url(database, role), **options))


def fill(postgres: Server, database: str, role: str) -> None:
    """Store one of everything."""
    with opened(postgres, database, role) as store:
        store.append(session(), [said("m1", f"the secret of {role}"), CALLED, RESULTS])
        store.append(session("gone"), [said("g1", "gone")])
        store.delete(session("gone").id)
        store.save_position(Position(path="/log", agent="tester", signature=role))
        list(profiled(store))
        with store.transaction() as connection:
            connection.execute("INSERT INTO index_state (pending) VALUES (0)")


def check(postgres: Server, database: str, *tenants: str) -> None:
    """Check that each sees only its own rows, through our API and through SQL on our connection."""
    for table in TABLES:
        rows = postgres.run(f"SELECT DISTINCT tenant FROM {table}", database)
        assert {name for (name,) in rows} == set(tenants), table
    for tenant in tenants:
        with opened(postgres, database, tenant) as store:
            assert store.tenant == tenant
            assert next(store.messages(session().id)).text == f"the secret of {tenant}"
            assert find_texts(store, "secret") == [f"the secret of {tenant}"]
            assert store.list()[0].messages == 3
            assert store.positions()["/log"].signature == tenant
            assert len(list(profiled(store))) == 1
            others = [other for other in tenants if other != tenant]
            for table in TABLES:
                ask = f"SELECT DISTINCT tenant FROM {table}"
                kept = {row[0] for row in store.database.connection.execute(ask)}
                # The index belongs to its owner's functions; who logs in as the owner could change any policy.
                assert kept <= ({*tenants} if (tenant, table) == (OWNER, "texts_index") else {tenant}), table
                with store.transaction() as connection:
                    assert {row[0] for row in connection.execute(ask)} == kept
            for other in others:
                for stems in (["secret"], [f"@{other}"], ["secret", f"@{other}"]):
                    for every in (True, False):
                        assert store.index.find(stems, every=every, limit=99) in ([], [1])


def attack(postgres: Server, database: str, *, role: str, other: str) -> None:
    """Check that no SQL of an ordinary role shows it another's rows."""
    with psycopg.connect(postgres.url(database, role), autocommit=True) as raw:
        for statement in (
            "SET ROLE warmstart_owner",
            "SET ROLE warmstart_service",
            f"SET ROLE {other}",
            f"SET SESSION AUTHORIZATION {other}",
            "ALTER TABLE texts DISABLE ROW LEVEL SECURITY",
            "GRANT warmstart_service TO CURRENT_USER",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                raw.execute(statement.encode())
        raw.execute(f"SET warmstart.tenant = '{other}'".encode())
        for table in TABLES:
            assert {row[0] for row in raw.execute(f"SELECT tenant FROM {table}".encode())} <= {role}
        rows = raw.execute("SELECT t.tenant FROM warmstart_texts('{secret}', true, 99) LEFT JOIN texts t USING (id)")
        assert [tenant for (tenant,) in rows] == [role]


def owners(postgres: Server, database: str) -> set[object]:
    rows = postgres.run(
        "SELECT relowner::regrole::text FROM pg_class WHERE relnamespace = 'public'::regnamespace "
        "UNION SELECT proowner::regrole::text FROM pg_proc WHERE pronamespace = 'public'::regnamespace",
        database,
    )
    return {owner for (owner,) in rows}


@pytest.mark.parametrize("first", ["postgres", "above"])
def test_a_login_with_bypassrls_creates_the_tables_and_is_restricted(
    postgres: Server, database: str, first: str
) -> None:
    if first == "above":
        postgres.run(f"ALTER DATABASE {database} OWNER TO above")
    fill(postgres, database, first)
    assert owners(postgres, database) == {"warmstart_owner"}
    postgres.run(GRANT, database)
    for role in ("alice", "root", "bob"):
        fill(postgres, database, role)
    check(postgres, database, first, "alice", "root", "bob")
    attack(postgres, database, role="alice", other="bob")
    attack(postgres, database, role="alice", other=first)
    attack(postgres, database, role="bob", other="root")


def test_a_superuser_uses_the_tables_of_another_owner(postgres: Server, database: str) -> None:
    with opened(postgres, database, OWNER) as store:
        assert store.list() == []
    with opened(postgres, database, "postgres") as superusers:
        assert superusers.list() == []
        fill(postgres, database, OWNER)  # which makes the table of another room, and a trigger that writes to it
        superusers.append(session("early"), [said("e1", "good morning")])
        superusers.set_outcome(session("early").id, "success")
        assert len(list(profiled(superusers))) == 1
        superusers.delete(session("early").id)
    postgres.run(GRANT, database)
    for role in ("postgres", "alice"):
        fill(postgres, database, role)
    assert owners(postgres, database) == {OWNER}
    check(postgres, database, OWNER, "postgres", "alice")
    attack(postgres, database, role="alice", other="postgres")


def test_tables_owned_by_a_superuser_hide_other_tenants(postgres: Server, database: str) -> None:
    # As after a restore: the functions of the index run as a superuser then.
    fill(postgres, database, OWNER)
    postgres.run(GRANT, database)
    postgres.run(f"REASSIGN OWNED BY {OWNER} TO postgres", database)
    postgres.run(f"GRANT warmstart_users TO {OWNER}")
    assert owners(postgres, database) == {"postgres"}
    for role in ("alice", "postgres", "bob"):
        fill(postgres, database, role)
    check(postgres, database, OWNER, "alice", "postgres", "bob")
    attack(postgres, database, role="alice", other="bob")
    attack(postgres, database, role="bob", other="postgres")


def test_an_upgrade_by_a_superuser_leaves_the_tables_to_their_owner(postgres: Server, database: str) -> None:
    with opened(postgres, database, OWNER):
        pass
    with opened(postgres, database, "postgres") as store:
        list(profiled(store))  # the first use of a room
    assert owners(postgres, database) == {OWNER}
    with opened(postgres, database, "root") as store, store.transaction():
        assert list(profiled(store)) == []


def test_a_superuser_may_act_for_a_tenant(postgres: Server, database: str) -> None:
    fill(postgres, database, "postgres")
    postgres.run(GRANT, database)
    fill(postgres, database, "alice")
    with opened(postgres, database, "postgres", tenant="alice") as store:
        assert find_texts(store, "secret") == ["the secret of alice"]
    check(postgres, database, "postgres", "alice")


def test_no_setting_outlives_a_transaction(postgres: Server, database: str) -> None:
    with opened(postgres, database, "postgres") as store:
        store.append(session(), [said("m1", "mine")])
        store.list()
        left = store.database.connection.raw.execute(
            "SELECT current_setting('role'), current_setting('warmstart.tenant', true), current_setting('search_path')"
        ).fetchone()
        assert left in (("none", None, '"$user", public'), ("none", "", '"$user", public'))


def test_a_schema_of_the_superusers_own_is_used_by_both_roles(postgres: Server, database: str) -> None:
    postgres.run("CREATE SCHEMA root", database)
    fill(postgres, database, "root")
    assert postgres.run("SELECT DISTINCT schemaname FROM pg_tables WHERE tablename = 'texts'", database) == [("root",)]
    with opened(postgres, database, "root") as store:
        assert len(find_texts(store, "secret")) == 1


def test_ten_superusers_may_start_at_once(postgres: Server, database: str) -> None:
    with postgres.database(empty=True) as second:

        def start(number: int) -> None:
            with opened(postgres, (database, second)[number % 2], ("postgres", "root")[number % 4 // 2]) as store:
                store.append(session(str(number)), [said(f"m{number}", "good morning")])

        with ThreadPoolExecutor(10) as pool:
            list(pool.map(start, range(12)))
        kept = [postgres.run("SELECT tenant FROM sessions ORDER BY 1", name) for name in (database, second)]
    assert kept == [[("postgres",)] * 3 + [("root",)] * 3] * 2


def test_a_login_without_usable_roles_is_rejected(postgres: Server, database: str) -> None:
    postgres.run("ALTER ROLE above NOCREATEROLE")
    with pytest.raises(StoreReadOnly, match="permission denied to create role"):
        opened(postgres, database, "above")
    assert postgres.run("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'", database) == [(0,)]


def test_a_store_without_row_level_security_is_rejected(postgres: Server, database: str) -> None:
    postgres.run("CREATE ROLE warmstart_service NOLOGIN BYPASSRLS")
    with pytest.raises(StoreError, match=r"row-level security does not protect.*warmstart_service"):
        opened(postgres, database, "postgres")
    postgres.run("ALTER ROLE warmstart_service NOBYPASSRLS")
    fill(postgres, database, "postgres")
    postgres.run("ALTER TABLE tenants DISABLE ROW LEVEL SECURITY", database)
    with pytest.raises(StoreError, match="row-level security does not protect"):
        opened(postgres, database, "postgres")


def test_no_role_is_created_for_another_programs_database(postgres: Server, database: str) -> None:
    postgres.run("CREATE TABLE migrations (name text)", database)
    with pytest.raises(StoreCorrupt, match="another program's tables"):
        opened(postgres, database, "postgres")
    assert postgres.run("SELECT to_regrole('warmstart_owner')") == [(None,)]
