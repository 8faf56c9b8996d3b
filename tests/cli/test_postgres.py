"""The commands on a PostgreSQL store."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.postgres import Server


@pytest.fixture
def server(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store on a server, selected by WARMSTART_STORE."""
    monkeypatch.setenv("WARMSTART_STORE", postgres_url)
    return postgres_url


def shown(run, *arguments) -> object:
    ran = run(*arguments, "--json")
    assert ran.code == 0, ran.err
    data = json.loads(ran.out)
    return [{**row, "seconds": 0} for row in data["agents"]] if "agents" in data else data


def test_every_command_prints_the_same_on_both_stores(run, home, samples, server, monkeypatch, tmp_path):
    def all_of(store: str) -> list[object]:
        monkeypatch.setenv("WARMSTART_STORE", store)
        synced = [shown(run, "sync", "--path", samples) for _ in range(2)]
        listed = shown(run, "sessions", "list", "--limit", 0)
        assert len(listed) > 5
        session = listed[0]["session_id"]
        assert run("sessions", "outcome", session, "success", "--because", "merged").code == 0
        assert run("sessions", "delete", listed[-1]["session_id"], "--yes", "--secure").code == 0
        exported = run("sessions", "export", session, "--format", "jsonl").out
        folder = tmp_path / str(abs(hash(store)))
        dataset = shown(run, "dataset", "export", folder)
        return [
            *synced,
            listed,
            shown(run, "sessions", "list", "--project", "tidewatch", "--outcome", "success"),
            run("sessions", "show", session).out,
            exported,
            shown(run, "profile"),
            shown(run, "profile", session),
            {**dataset, "directory": ""},
            shown(run, "redact", "--store"),
            shown(run, "recall", "which tide is wrong at skerry point", "--all-projects", "--explain"),
        ]

    assert all_of(server) == all_of("")


def test_a_read_only_store_can_be_listed(run, home, samples, postgres: Server, server):
    name = server.rpartition("/")[2].partition("?")[0]
    assert run("sync", "--path", samples).code == 0
    listed = shown(run, "sessions", "list")
    postgres.run("UPDATE sessions SET revision = revision + 1", name)
    postgres.run(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    ran = run("sessions", "list", "--json")
    assert [row["session_id"] for row in json.loads(ran.out)] == [row["session_id"] for row in listed]
    assert "outcomes may be missing or out of date" in ran.err
    assert run("sessions", "show", listed[0]["session_id"]).code == 0


def test_the_store_may_be_named_in_the_file(run, home, postgres_url):
    (home / ".warmstart").mkdir(mode=0o700)
    (home / ".warmstart" / "config.toml").write_text(f'[store]\nurl = "{postgres_url}"\ntenant = "mara"\n')
    assert run("sessions", "list").code == 0
    assert not (home / ".warmstart" / "warmstart.db").exists()


def test_doctor_shows_the_server_and_the_tenant(run, home, histories, server):
    assert run("sync").code == 0
    checks = {check["subject"]: check for check in json.loads(run("doctor", "--json").out)}
    assert checks["store"]["status"] == "ok"
    assert "PostgreSQL 18" in checks["store"]["finding"]
    assert "tenant mara" in checks["store"]["finding"]
    assert checks["claude-code"]["status"] == "ok"


def test_a_password_is_never_shown(run, home, monkeypatch):
    for url in ("postgresql://mara:hush@127.0.0.1:1/x", "mysql://mara:hush@host/x", "postgresql://mara:h/ush@host/x"):
        monkeypatch.setenv("WARMSTART_STORE", url)
        for command in (("doctor",), ("sessions", "list"), ("store", "copy", "--to", "x.db"), ("doctor", "--json")):
            ran = run(*command)
            assert ran.code == 1
            assert "ush" not in ran.out + ran.err
            assert len(ran.err.splitlines()) <= 1


def test_the_traceback_has_no_password_either(program, home):
    ran = subprocess.run(
        [*program, "--debug", "sessions", "list"],
        env=os.environ | {"WARMSTART_STORE": "postgresql://mara:hush@127.0.0.1:1/x"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" in ran.stderr
    assert "hush" not in ran.stderr


def test_acting_for_another_tenant_without_permission_is_an_error(run, server, monkeypatch):
    monkeypatch.setenv("WARMSTART_TENANT", "bob")
    ran = run("sessions", "list")
    assert ran.code == 1
    assert "may not act for the tenant 'bob'" in ran.err


def test_a_store_is_copied_to_a_server_and_back(run, home, samples, synced, postgres_url, monkeypatch, tmp_path):
    before = shown(run, "sessions", "list", "--limit", 0)
    ran = run("store", "copy", "--to", postgres_url)
    assert ran.code == 0, ran.err
    assert "sessions with" in ran.out
    again = shown(run, "store", "copy", "--to", postgres_url)
    assert (again["sessions"], again["present"], again["differences"]) == (0, len(before), [])
    monkeypatch.setenv("WARMSTART_STORE", postgres_url)
    assert shown(run, "sessions", "list", "--limit", 0) == before
    assert "0 logs read" in run("sync", "--path", samples).out
    assert run("store", "copy", "--to", tmp_path / "back.db").code == 0
    monkeypatch.setenv("WARMSTART_STORE", str(tmp_path / "back.db"))
    assert shown(run, "sessions", "list", "--limit", 0) == before


def test_a_copy_that_is_not_the_same_is_an_error(run, home, synced, tmp_path, monkeypatch):
    listed = shown(run, "sessions", "list")
    other = tmp_path / "other.db"
    assert run("store", "copy", "--to", other).code == 0
    monkeypatch.setenv("WARMSTART_STORE", str(other))
    run("sessions", "outcome", listed[0]["session_id"], "failure")
    monkeypatch.delenv("WARMSTART_STORE")
    ran = run("store", "copy", "--to", other)
    assert ran.code == 1
    assert f"differs: {listed[0]['session_id']}" in ran.err


def test_a_store_is_not_copied_onto_itself(run, home, synced):
    ran = run("store", "copy", "--to", home / ".warmstart" / "warmstart.db")
    assert ran.code == 1
    assert "name another target" in ran.err


def test_a_copy_shows_its_progress_on_a_terminal(terminal, home, synced, tmp_path):
    code, screen = terminal("store", "copy", "--to", tmp_path / "other.db")
    assert code == 0
    assert "copied to" in screen


def test_a_server_shutdown_is_one_line(postgres: Server, server: str, run, samples: Path):
    # The nearest to it that leaves the server to the other tests: every connection is ended.
    from warmstart.errors import StoreUnreachable
    from warmstart.sessions.sql_store import PostgresSessionStore

    store = PostgresSessionStore(server)
    postgres.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'mara'")
    with pytest.raises(StoreUnreachable, match=r"administrator command|closed"):
        store.list()
    store.close()
    assert run("sync", "--path", samples).code == 0
