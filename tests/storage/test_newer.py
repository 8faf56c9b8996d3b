"""Everything that opens a store rejects one that a newer version migrated, before writing anything."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.cli.conftest import Run, run  # noqa: F401 - a fixture
from tests.postgres import Server

from warmstart.embedding.vectors import SQLiteVectors
from warmstart.errors import StoreTooNew
from warmstart.memory.local import LocalBackend
from warmstart.memory.postgres import PostgresBackend
from warmstart.sessions.sql_store import PostgresSessionStore, SQLiteSessionStore

COMMANDS = (
    "sync",
    "sessions list",
    "sessions show a3f1c0de",
    "sessions delete a3f1c0de --yes",
    "dataset export data",
    "profile",
    "recall surge",
    "recall index",
    "memory set units metres",
    "memory get units",
    "memory list",
    "memory search metres",
    "memory delete units --yes",
    "templates list",
    "templates auto",
    "templates suggest tides",
    "redact --store",
)


@pytest.fixture
def newer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "store.db"
    monkeypatch.setenv("WARMSTART_HOME", str(tmp_path))
    monkeypatch.setenv("WARMSTART_STORE", str(path))
    with closing(LocalBackend(path)) as memory:
        memory.store("default", "units", "feet")
    SQLiteSessionStore(path).close()
    return path


def mark(path: Path, name: str) -> bytes:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO migrations (name) VALUES (?)", (name,))
    return path.read_bytes()


def test_every_command_refuses_a_newer_file(newer: Path, run: Run, subtests: pytest.Subtests) -> None:  # noqa: F811
    for name in ("templates/0999_later", "another/0001_tables"):
        before = mark(newer, name)
        for command in COMMANDS:
            with subtests.test(f"{name} {command}"):
                done = run(*command.split())
                assert (done.code, done.err.count("\n")) == (1, 1)
                assert "was migrated by a newer Warmstart (it has '" in done.err
                assert newer.read_bytes() == before
        done = run("doctor")
        assert done.code == 1
        assert "was migrated by a newer Warmstart" in done.out
        assert newer.read_bytes() == before


def test_missing_tables_of_a_package_are_not_an_error(newer: Path) -> None:
    with closing(sqlite3.connect(newer)) as connection:
        packages = {name.split("/")[0] for (name,) in connection.execute("SELECT name FROM migrations")}
    assert packages == {"sessions", "memory"}
    SQLiteSessionStore(newer).close()


def test_a_newer_server_is_refused(postgres: Server, subtests: pytest.Subtests) -> None:
    for role in ("mara", "postgres"):
        with subtests.test(role), postgres.database() as name:
            postgres.run("INSERT INTO migrations (name) VALUES ('templates/0999_later')", name)
            roles = postgres.run("SELECT count(*) FROM pg_roles")
            url = postgres.url(name, role)
            with pytest.raises(StoreTooNew, match="templates/0999_later"):
                PostgresSessionStore(url)
            with closing(PostgresBackend(url)) as memory, pytest.raises(StoreTooNew, match="templates/0999_later"):
                memory.store("default", "units", "metres")
            assert postgres.run("SELECT count(*) FROM memory_entries", name) == [(0,)]
            assert postgres.run("SELECT count(*) FROM pg_roles") == roles


def test_newer_vectors_are_rejected_and_earlier_ones_recomputed(tmp_path: Path) -> None:
    path = tmp_path / "vectors.db"
    SQLiteVectors(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 3")
    with pytest.raises(StoreTooNew, match="a newer Warmstart created"):
        SQLiteVectors(path)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM vectors").fetchone() == (0,)
        connection.executescript(
            "PRAGMA user_version = 1; DROP TABLE vectors; DROP TABLE vector_models; DROP TABLE vector_stamps;"
            "CREATE TABLE made (asked TEXT); CREATE TABLE parts (part INTEGER);"
            "CREATE TABLE signs (line INTEGER PRIMARY KEY, bits BLOB);"
            "CREATE TABLE blocks (part INTEGER, number INTEGER, hashes BLOB, vectors BLOB);"
        )
    with closing(SQLiteVectors(path)) as vectors:
        assert vectors.model() is None
        assert vectors.groups() == set()
