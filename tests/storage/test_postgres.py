from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.postgres import Server

from warmstart.config import without_password
from warmstart.errors import (
    ConfigError,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreReadOnly,
    StoreTooNew,
    StoreUnreachable,
)
from warmstart.storage.database import Migration
from warmstart.storage.postgres import PostgresDatabase, to_psycopg

FOLDER = Path(__file__).parent / "migrations"
FIRST = (Migration("test/0001_notes", FOLDER),)
BOTH = (*FIRST, Migration("test/0002_dates", FOLDER))


@pytest.fixture
def database(postgres: Server) -> Iterator[str]:
    """The name of an empty database."""
    with postgres.database(empty=True) as name:
        yield name


@pytest.fixture
def url(postgres: Server, database: str) -> str:
    return postgres.url(database)


def opened(url: str, migrations: tuple[Migration, ...] = BOTH, **options: Any) -> closing[PostgresDatabase]:
    return closing(PostgresDatabase(url, migrations, **options))


def bodies(database: PostgresDatabase) -> list[str]:
    with database.translate_errors():
        return [row[0] for row in database.connection.execute("SELECT body FROM notes ORDER BY body")]


def write(database: PostgresDatabase, body: str) -> None:
    with database.transaction() as connection:
        connection.execute("INSERT INTO notes (body) VALUES (?)", (body,))


def test_statements_are_translated_for_psycopg(subtests: pytest.Subtests) -> None:
    for ours, theirs in (
        ("SELECT ?, ?", "SELECT %s, %s"),
        ("SELECT ?2, ?1", "SELECT %(2)s, %(1)s"),
        ("SELECT :limit, x::text, '?:no%'", "SELECT %(limit)s, x::text, '?:no%%'"),
        ("SELECT 5 % 2", "SELECT 5 %% 2"),
        ("INSERT … ON CONFLICT (id) DO", "INSERT … ON CONFLICT (tenant, id) DO"),
    ):
        with subtests.test(ours):
            assert to_psycopg(ours)[0].decode() == theirs


# -- migrations


def test_migrations_are_applied_once_and_in_order(url: str) -> None:
    with opened(url, FIRST) as database:
        write(database, "kept")
    for _ in range(2):
        with opened(url) as database:
            assert database.connection.execute("SELECT body, at FROM notes").fetchall() == [("kept", None)]
            applied = database.connection.execute("SELECT name FROM migrations WHERE name LIKE 'test/%'").fetchall()
    assert sorted(name for (name,) in applied) == ["test/0001_notes", "test/0002_dates"]


def test_a_failing_migration_leaves_the_store_as_it_was(url: str) -> None:
    with opened(url, FIRST) as database:
        write(database, "kept")
    with pytest.raises(StoreError):
        PostgresDatabase(url, (*FIRST, Migration("test/0002_broken", FOLDER)))
    with opened(url, FIRST) as database:
        assert bodies(database) == ["kept"]


def test_a_store_from_a_newer_version_is_refused(url: str) -> None:
    opened(url).thing.close()
    with pytest.raises(StoreTooNew, match=r"newer Warmstart.*0002_dates"):
        PostgresDatabase(url, FIRST)


def test_another_programs_database_is_refused_and_untouched(postgres: Server, database: str, url: str) -> None:
    postgres.run("CREATE TABLE migrations (name text)", database)
    with pytest.raises(StoreCorrupt, match="another program's tables"):
        PostgresDatabase(url, BOTH)
    assert postgres.run("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'", database) == [(1,)]


def test_ten_processes_may_start_at_once(url: str) -> None:
    def start(number: int) -> None:
        with opened(url) as database:
            write(database, str(number))

    with ThreadPoolExecutor(10) as pool:
        list(pool.map(start, range(10)))
    with opened(url) as database:
        assert len(bodies(database)) == 10


def test_only_a_role_with_create_privilege_creates_the_tables(postgres: Server, database: str, url: str) -> None:
    postgres.run("DROP ROLE IF EXISTS guest")
    postgres.run("CREATE ROLE guest LOGIN")
    theirs = postgres.url(database, "guest")
    with pytest.raises(StoreReadOnly, match=r"only the owner.*warmstart doctor"):
        PostgresDatabase(theirs, BOTH)
    opened(url).thing.close()
    with pytest.raises(StoreReadOnly, match="permission denied"):
        PostgresDatabase(theirs, BOTH)


# -- transactions


def test_a_write_is_all_or_nothing_and_may_commit_in_the_background(url: str) -> None:
    with opened(url) as database:
        last = [("INSERT INTO notes (body) VALUES (?), (?)", ("b", "c"))]
        with database.transaction(last, wait=False) as connection:
            connection.execute("INSERT INTO notes (body) VALUES ('a')")
        assert bodies(database) == ["a", "b", "c"]
        with database.transaction([("INSERT INTO nothing VALUES (1)", ())], wait=False) as connection:
            connection.execute("INSERT INTO notes (body) VALUES ('half')")
        with pytest.raises(StoreError, match="nothing"), database.transaction():
            pass
        assert bodies(database) == ["a", "b", "c"]


def test_a_writer_waits_for_another_of_its_tenant_until_the_timeout(url: str) -> None:
    with (
        opened(url) as one,
        opened(url, timeout=0.05) as two,
        one.transaction(),
        pytest.raises(StoreBusy, match="another process"),
        two.transaction(),
    ):
        pass
    with opened(url) as one, opened(url, timeout=0.05) as two:
        with one.transaction() as connection:
            connection.execute("INSERT INTO notes (body) VALUES ('x')")
            assert bodies(two) == []
        write(two, "y")


def test_a_lost_connection_rolls_back(postgres: Server, database: str, url: str) -> None:
    def lose(store: PostgresDatabase) -> None:
        with store.transaction() as connection:
            connection.execute("INSERT INTO notes (body) VALUES ('half')")
            postgres.run(f"SELECT pg_terminate_backend({store.connection.raw.info.backend_pid})")
            connection.execute("INSERT INTO notes (body) VALUES ('other half')")

    with opened(url) as store:
        write(store, "whole")
        with pytest.raises(StoreUnreachable, match=r"connection to the store .* was lost") as refused:
            lose(store)
        assert "\n" not in str(refused.value)
        with pytest.raises(StoreUnreachable):
            write(store, "still lost")
    with opened(url) as fresh:
        assert bodies(fresh) == ["whole"]
        write(fresh, "goes on")


def test_a_replica_rejects_writes(postgres: Server, database: str, url: str) -> None:
    opened(url).thing.close()
    postgres.run(f"ALTER DATABASE {database} SET default_transaction_read_only = on")
    with opened(url) as store, pytest.raises(StoreReadOnly, match="rejects this"):
        write(store, "x")


# -- connecting


def test_a_server_that_does_not_answer_is_one_line(tmp_path) -> None:
    for url in ("postgresql://mara:hush@127.0.0.1:1/x", f"postgresql://mara:hush@/x?host={tmp_path}"):
        with pytest.raises(StoreUnreachable, match="cannot reach") as refused:
            PostgresDatabase(url, BOTH)
        assert "\n" not in str(refused.value)
        assert "hush" not in str(refused.value)


def test_a_refused_connection_is_one_line(postgres: Server) -> None:
    with pytest.raises(StoreError, match=r"does not exist.*createdb") as refused:
        PostgresDatabase(postgres.url("nothing"), BOTH)
    assert "\n" not in str(refused.value)
    with pytest.raises(StoreReadOnly, match="rejected the login"):
        PostgresDatabase(postgres.url("postgres", "nobody_of_this_name", "hush"), BOTH)


def test_a_wrong_password_is_reported_and_not_shown(postgres: Server, database: str) -> None:
    rules = Path(str(postgres.run("SHOW hba_file")[0][0]))
    before = rules.read_text()
    postgres.run("DROP ROLE IF EXISTS locked")
    postgres.run("CREATE ROLE locked LOGIN PASSWORD 'right/@:'")
    try:
        rules.write_text(f"local all locked scram-sha-256\n{before}")
        postgres.run("SELECT pg_reload_conf()")
        with pytest.raises(StoreReadOnly, match="check user, password and rights") as refused:
            PostgresDatabase(postgres.url(database, "locked", "wrong-hush"), BOTH)
        assert "hush" not in str(refused.value)
        with pytest.raises(StoreReadOnly, match="only the owner"):
            PostgresDatabase(postgres.url(database, "locked", "right/@:"), BOTH)
    finally:
        rules.write_text(before)
        postgres.run("SELECT pg_reload_conf()")


def test_a_malformed_url_is_refused_without_showing_a_password(subtests: pytest.Subtests) -> None:
    for url in ("postgresql://mara:a/b@host/x", "postgresql://mara:1:2@host:port/x", "postgresql://%zz"):
        with subtests.test(url):
            with pytest.raises(ConfigError, match="%40") as refused:
                PostgresDatabase(url, BOTH)
            assert "a/b" not in str(refused.value)


def test_a_url_is_shown_without_its_password(subtests: pytest.Subtests) -> None:
    for url, shown in (
        ("postgresql://mara:hush@host:5432/x?a=b", "postgresql://mara@host:5432/x?a=b"),
        ("postgresql://mara:hu@sh/:@host/x", "postgresql://mara@host/x"),
        ("postgresql://host:5432/x?user=m&password=hush&a=b", "postgresql://host:5432/x?user=m&password=…&a=b"),
        ("postgresql:///x", "postgresql:///x"),
    ):
        with subtests.test(url):
            assert without_password(url) == shown


def test_without_psycopg_one_line_names_the_extra() -> None:
    code = "import sys; sys.modules['psycopg'] = None; from warmstart.cli import main; main(['sessions', 'list'])"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={"WARMSTART_STORE": "postgresql://mara:hush@host/x", "HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == "warmstart: a store on PostgreSQL needs psycopg: pip install 'warmstart[postgres]'\n"
    # It is not loaded for a file.
    code = "import sys, warmstart.sessions.sql_store; assert 'psycopg' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
