"""Several users on one server, with real roles: nobody sees, changes or creates rows of another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from tests.postgres import OWNER, TABLES, Server
from warmstart.errors import StoreReadOnly, StoreTooNew
from warmstart.profile.profiler import profiled
from warmstart.sessions.copy import copy_store
from warmstart.sessions.sql_store import PostgresSessionStore, SQLiteSessionStore
from warmstart.sessions.store import Position
from warmstart.testing.stores import CALLED, RESULTS, find_texts, said, session

USERS = ("alice", "bob")


@pytest.fixture
def database(postgres: Server) -> Iterator[str]:
    """A store that two users share, set up as documented."""
    for role in (*USERS, "service", "warmstart_service", "warmstart_users"):
        postgres.run(f"DROP ROLE IF EXISTS {role}")
    postgres.run("CREATE ROLE warmstart_users NOLOGIN")
    for role in USERS:
        postgres.run(f"CREATE ROLE {role} LOGIN NOSUPERUSER NOBYPASSRLS IN ROLE warmstart_users")
    with postgres.database(empty=True) as name:
        grant = f"ALTER DEFAULT PRIVILEGES FOR ROLE {OWNER} GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES"
        postgres.run(f"{grant} TO warmstart_users", name)
        with closing(PostgresSessionStore(postgres.url(name))) as store:
            list(profiled(store))
        yield name
        postgres.run("DROP OWNED BY warmstart_users", name)
    for role in (*USERS, "warmstart_users"):
        postgres.run(f"DROP ROLE {role}")


@pytest.fixture
def stores(postgres: Server, database: str) -> Iterator[dict[str, PostgresSessionStore]]:
    """The stores of two users and of the owner, each with a session of the same id and one of everything."""
    opened = {}
    for role in (*USERS, OWNER):
        opened[role] = store = PostgresSessionStore(postgres.url(database, role))
        store.append(session(), [said("m1", f"the secret of {role}"), CALLED, RESULTS])
        store.append(session("gone"), [said("g1", "gone")])
        store.delete(session("gone").id)
        store.save_position(Position(path="/log", agent="tester", signature=role))
        list(profiled(store))
        with store.transaction() as connection:
            connection.execute("INSERT INTO index_state (pending) VALUES (0)")
    yield opened
    for store in opened.values():
        store.close()


def raw(postgres: Server, database: str, role: str) -> psycopg.Connection[Any]:
    return psycopg.connect(postgres.url(database, role), autocommit=True)


def test_every_role_has_its_own_store(stores: dict[str, PostgresSessionStore]) -> None:
    for role, store in stores.items():
        assert store.tenant == role
        assert next(store.messages(session().id)).text == f"the secret of {role}"
        assert find_texts(store, "secret") == [f"the secret of {role}"]
        assert store.list()[0].messages == 3
        assert store.positions()["/log"].signature == role
    stores["alice"].delete(session().id)
    stores["alice"].rewrite(lambda text: text.replace("secret", "X"))
    assert stores["alice"].list() == []
    for role in ("bob", OWNER):
        assert find_texts(stores[role], "secret") == [f"the secret of {role}"]


@pytest.mark.parametrize("table", TABLES)
def test_the_rows_of_others_cannot_be_read_changed_removed_or_made(
    postgres: Server, database: str, stores: dict[str, PostgresSessionStore], table: str
) -> None:
    everyones = postgres.run(f"SELECT * FROM {table} ORDER BY 1, 2", database)
    assert {row[0] for row in everyones} == {*USERS, OWNER}
    with raw(postgres, database, "alice") as alice:
        for setting in ("", "bob"):
            alice.execute("SELECT set_config('warmstart.tenant', %s, false)", (setting,))
            assert {row[0] for row in alice.execute(f"SELECT tenant FROM {table}")} <= {"alice"}
            assert alice.execute(f"SELECT count(*) FROM {table} WHERE tenant = 'bob'").fetchone() == (0,)
            assert alice.execute(f"UPDATE {table} SET tenant = tenant WHERE tenant = 'bob'").rowcount == 0
            assert alice.execute(f"DELETE FROM {table} WHERE tenant = 'bob'").rowcount == 0
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                alice.execute(f"INSERT INTO {table} SELECT * FROM {table} WHERE false UNION ALL {_bobs(table)}")
            if table != "texts_index":  # into which she may not look at all
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    alice.execute(f"UPDATE {table} SET tenant = 'bob'")
    assert postgres.run(f"SELECT * FROM {table} ORDER BY 1, 2", database) == everyones


def _bobs(table: str) -> str:
    """One of bob's rows, as alice would have to forge it."""
    values = {
        "texts": "'bob', 99, '\\x99'::bytea, 'x'",
        "texts_index": "'bob', 1, '{}'::text[]",
        "index_state": "'bob', 1",
        "sessions": "'bob', 99, 'x', 'x', 'x', '', '', '', '', '', '', 0, 0, '', '', 'unknown', '', '', 0, 0, NULL, ''",
        "messages": "'bob', 99, 2, 99, '\\x99'::bytea, 'x', '\\x99'::bytea, 'user', 0, 0, '', '', '', NULL, NULL",
        "tool_calls": "'bob', 1, 99, 'x', 'x', NULL",
        "tool_results": "'bob', 1, 99, 'x', 'ok', NULL, NULL, NULL, NULL",
        "positions": "'bob', '/x', 'x', 'x', '', 0, 0, '{}', 1",
        "deleted_sessions": "'bob', 'x'",
        "deleted_messages": "'bob', '\\x99'::bytea, 'x'",
        "profiles": "'bob', 2, 'x', 'x'",
        "tenants": "'bob', now()",
    }
    return f"SELECT {values[table]}"


def test_a_users_own_function_sees_no_rows_of_others(
    postgres: Server, database: str, stores: dict[str, PostgresSessionStore]
) -> None:
    with raw(postgres, database, "alice") as alice:
        alice.execute("CREATE TEMP TABLE seen (body text)")
        alice.execute(
            "CREATE FUNCTION pg_temp.look(text) RETURNS bool COST 0.000001 LANGUAGE plpgsql AS "
            "$$ BEGIN INSERT INTO seen VALUES ($1); RETURN true; END $$"
        )
        alice.execute("SELECT * FROM texts WHERE pg_temp.look(body)")
        assert not [body for (body,) in alice.execute("SELECT body FROM seen") if "bob" in body]


def test_the_index_returns_only_the_callers_rows(
    postgres: Server, database: str, stores: dict[str, PostgresSessionStore]
) -> None:
    with raw(postgres, database, "alice") as alice:
        for stems in (["secret"], ["@bob"], ["secret", "@bob"]):
            for every in (True, False):
                found = alice.execute("SELECT id FROM warmstart_texts(%s::text[], %s, 99)", (stems, every)).fetchall()
                assert found == ([(1,)] if "secret" in stems and (stems == ["secret"] or not every) else [])
        # A text that is not there cannot be put into the index, and what is put there is one's own.
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            alice.execute("SELECT warmstart_index('{4711}', '{x}')")
        alice.execute("INSERT INTO texts (id, hash, body) VALUES (99, '\\x99', 'mine')")
        alice.execute("SELECT warmstart_index(ARRAY[99], ARRAY['zanzibar @bob'])")
    assert find_texts(stores["bob"], "zanzibar") == []
    assert [row[0] for row in postgres.run("SELECT tenant FROM texts_index WHERE id = 99", database)] == ["alice"]


def test_no_tenant_can_block_another(postgres: Server, database: str, stores: dict[str, PostgresSessionStore]) -> None:
    with stores["alice"].transaction() as connection:
        connection.execute("SELECT 1 FROM tenants FOR UPDATE")
        stores["bob"].append(session(), [said("m9", "not held up")])


def test_only_the_owner_writes_the_migrations_table(
    postgres: Server, database: str, stores: dict[str, PostgresSessionStore]
) -> None:
    with raw(postgres, database, "alice") as alice:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            alice.execute("INSERT INTO migrations (name) VALUES ('sessions/9999_future')")
        assert alice.execute("DELETE FROM migrations").rowcount == 0
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            alice.execute("ALTER TABLE texts DISABLE ROW LEVEL SECURITY")
    with raw(postgres, database, OWNER) as owner:
        owner.execute("INSERT INTO migrations (name) VALUES ('sessions/9999_future')")
    with pytest.raises(StoreTooNew):
        PostgresSessionStore(postgres.url(database, "bob"))


def test_only_a_service_acts_for_others(postgres: Server, database: str, stores: dict[str, Any], tmp_path) -> None:
    with pytest.raises(StoreReadOnly, match=r"'alice' may not act for the tenant 'bob'.*warmstart_service"):
        PostgresSessionStore(postgres.url(database, "alice"), tenant="bob")
    with closing(PostgresSessionStore(postgres.url(database, "alice"), tenant="alice")) as own:
        assert own.tenant == "alice"
    postgres.run("CREATE ROLE warmstart_service NOLOGIN")
    postgres.run("CREATE ROLE service LOGIN NOSUPERUSER NOBYPASSRLS IN ROLE warmstart_users, warmstart_service")
    try:
        for tenant in ("bob", "it's a \\ 'tenant'"):
            with closing(PostgresSessionStore(postgres.url(database, "service"), tenant=tenant)) as acting:
                acting.append(session("new"), [said("n1", f"a note for {tenant}"), said("n2", "x")])
                assert find_texts(acting, "note") == [f"a note for {tenant}"]
                assert acting.rejudge(lambda agent, tool, result: "ok", 1001) in (0, 2)
                assert len(list(profiled(acting))) == len(acting.list())
                with closing(SQLiteSessionStore(tmp_path / "copy.db")) as copy:
                    assert copy_store(acting, copy).differences == ()
                (tmp_path / "copy.db").unlink()
                # The setting lives as long as a transaction: a pool cannot hand it to the next client.
                left = acting.database.connection.raw.execute("SELECT current_setting('warmstart.tenant', true)")
                assert left.fetchone() in ((None,), ("",))
        assert find_texts(stores["bob"], "note") == ["a note for bob"]
        with closing(PostgresSessionStore(postgres.url(database, "service"))) as own:
            assert own.list() == []
    finally:
        postgres.run("DROP ROLE service")
        postgres.run("DROP ROLE warmstart_service")


def test_set_role_changes_the_tenant(postgres: Server, database: str, stores: dict[str, PostgresSessionStore]) -> None:
    with raw(postgres, database, "alice") as alice:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            alice.execute("SET ROLE bob")
        postgres.run("GRANT bob TO alice")
        alice.execute("SET ROLE bob")
        assert alice.execute("SELECT DISTINCT tenant FROM messages").fetchall() == [("bob",)]
        rows = alice.execute(
            "SELECT t.body FROM warmstart_texts('{secret}', true, 9) JOIN texts t USING (id)"
        ).fetchall()
        assert rows == [("the secret of bob",)]
