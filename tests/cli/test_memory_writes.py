"""A write that does not reach the configured backend is an error, or is queued and says so."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from tests.cli.memory import data, done
from tests.memory.honcho_server import HonchoServer, Wrong, running
from tests.ports import free_port
from tests.postgres import Server

from warmstart.errors import WarmstartError
from warmstart.memory import get_memory_backend, reset_backend
from warmstart.memory.local import LocalBackend
from warmstart.memory.postgres import PostgresBackend
from warmstart.memory.tool import memory_backend

GUEST = "memory_guest"
TABLES = ("memory_entries", "memory_tombstones", "memory_versions", "memory_vectors")


@pytest.fixture
def project(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (home / "tides" / ".git").mkdir(parents=True)
    monkeypatch.chdir(home / "tides")
    (home / "notes.md").write_text("- Lives in Oldenburg.\n")
    with closing(LocalBackend(home / "saved.db")) as saved:
        saved.store("default", "shell", "fish")
    return home


COMMANDS = {
    "set": ("set", "city", "Bremen"),
    "delete": ("delete", "editor", "--yes"),
    "import": ("import", "../notes.md"),
    "copy": ("copy", "--from", "../saved.db", "--yes", "--to"),
}


def failures(run: Callable, backend: str, *, forgets: bool = True) -> dict[str, str]:
    """The error line of each kind of write."""
    found = {}
    for name, arguments in COMMANDS.items():
        ran = run("memory", *arguments, *([backend] if name == "copy" else []))
        assert (ran.code, ran.out) == (1, ""), (name, ran)
        assert "Remembered" not in ran.err, name
        found[name] = ran.err.splitlines()[-1]
    for action in ("store", "delete"):
        value = {"value": "Bremen"} if action == "store" else {}
        answer = json.loads(memory_backend(action, key="city" if value else "spare", **value))
        assert answer["success"] is False, answer
        found[f"tool {action}"] = answer["error"]
    if forgets:
        with pytest.raises(WarmstartError) as raised:
            get_memory_backend().forget_user("default")
        found["forget_user"] = str(raised.value)
    reset_backend()
    return found


# -- PostgreSQL


class Guest:
    """A role that may use a store, and ways to break that."""

    def __init__(self, server: Server, database: str) -> None:
        self.server, self.database = server, database
        self.url = server.url(database, GUEST)

    def run(self, statement: str) -> None:
        self.server.run(statement, self.database)


def no_rights(guest: Guest) -> None:
    guest.run(f"REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {GUEST}")


def only_reading(guest: Guest) -> None:
    guest.run(f"REVOKE INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public FROM {GUEST}")


def no_connection(guest: Guest) -> None:
    guest.run(f"REVOKE CONNECT ON DATABASE {guest.database} FROM PUBLIC")


def read_only_transactions(guest: Guest) -> None:
    guest.run(f"ALTER ROLE {GUEST} SET default_transaction_read_only = on")


def a_policy_on_rows(guest: Guest) -> None:
    for table in TABLES:
        guest.run(f"CREATE POLICY closed ON {table} AS RESTRICTIVE TO {GUEST} USING (true) WITH CHECK (false)")


def a_policy_on_the_lock(guest: Guest) -> None:
    guest.run(f"CREATE POLICY closed ON tenants AS RESTRICTIVE FOR UPDATE TO {GUEST} USING (false)")


def wrong_password(guest: Guest) -> None:
    rules = Path(str(guest.server.run("SHOW hba_file")[0][0]))
    rules.write_text(f"local {guest.database} {GUEST} scram-sha-256\n{rules.read_text()}")
    guest.run("SELECT pg_reload_conf()")
    guest.url = guest.server.url(guest.database, GUEST, "wrong-hush")


def no_database(guest: Guest) -> None:
    guest.url = guest.server.url("nothing_there", GUEST)


def no_role(guest: Guest) -> None:
    guest.url = guest.server.url(guest.database, "nobody_there")


def no_tables_yet(guest: Guest) -> None:
    guest.run("DROP OWNED BY mara")
    guest.run(f"GRANT USAGE ON SCHEMA public TO {GUEST}")


def a_table_dropped(guest: Guest) -> None:
    guest.run("DROP TABLE memory_entries CASCADE")


def server_down(guest: Guest) -> None:
    guest.url = f"postgresql://{GUEST}@127.0.0.1:1/{guest.database}"


@pytest.fixture
def guest(postgres: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Guest]:
    rules = Path(str(postgres.run("SHOW hba_file")[0][0]))
    before = rules.read_text()
    postgres.run(f"CREATE ROLE {GUEST} LOGIN PASSWORD 'right'")
    monkeypatch.setenv("WARMSTART_MEMORY_BACKEND", "postgres")
    with postgres.database() as name:
        postgres.run(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {GUEST}", name)
        yield Guest(postgres, name)
        reset_backend()
        rules.write_text(before)
        postgres.run("SELECT pg_reload_conf()")
        postgres.run(f"DROP OWNED BY {GUEST}", name)
    postgres.run(f"DROP ROLE {GUEST}")


@pytest.mark.parametrize(
    ("happens", "said"),
    [
        (no_rights, "permission denied"),
        (only_reading, "permission denied"),
        (no_connection, "check user, password and rights"),
        (read_only_transactions, "use the primary server"),
        (a_policy_on_rows, "violates row-level security"),
        (a_policy_on_the_lock, "forbids writes"),
        (wrong_password, "check user, password and rights"),
        (no_database, "create it with createdb"),
        (no_role, "check user, password and rights"),
        (no_tables_yet, "only the owner"),
        (a_table_dropped, "restore it from a backup"),
        (server_down, "is it running?"),
    ],
)
def test_a_write_that_postgresql_rejects_is_an_error(happens, said, run, project, guest, monkeypatch):
    with closing(PostgresBackend(guest.url)) as backend:
        backend.store("default", "editor", "vim")
        backend.store("default", "spare", "v")
    happens(guest)
    monkeypatch.setenv("WARMSTART_STORE", guest.url)
    for way, line in failures(run, "postgres", forgets=happens is not a_policy_on_rows).items():
        assert said in line, way
        assert "hush" not in line
    assert not (project / ".warmstart" / "warmstart.db").exists()


def test_a_read_only_role_can_read(run, project, guest, monkeypatch):
    monkeypatch.setenv("WARMSTART_STORE", guest.url)
    done(run, "set", "editor", "vim")
    only_reading(guest)
    assert done(run, "get", "editor").out == "vim\n"
    assert [entry["key"] for entry in data(run, "search", "editor")] == ["editor"]


# -- Honcho


@pytest.fixture
def honcho(monkeypatch: pytest.MonkeyPatch) -> Iterator[HonchoServer]:
    with running() as server:
        use(monkeypatch, server.url)
        yield server


def use(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("WARMSTART_MEMORY_BACKEND", "honcho")
    monkeypatch.setenv("HONCHO_URL", url)


@contextmanager
def refusing(honcho: HonchoServer, monkeypatch: pytest.MonkeyPatch, status: int) -> Iterator[None]:
    def refuse(*_: object) -> None:
        raise Wrong(status, "not so")

    with monkeypatch.context() as patched:
        patched.setattr(honcho, "_add", refuse)
        yield


def test_writes_with_a_wrong_honcho_key_wait_and_say_so(run, project, honcho):
    done(run, "set", "editor", "vim")
    honcho.key = "another"
    for name, arguments in COMMANDS.items():
        ran = done(run, *arguments, *(["honcho"] if name == "copy" else []), "--json")
        assert json.loads(ran.out)["queued"] is True, name
        assert "does not accept the key (401 or 403); check HONCHO_API_KEY" in ran.err, name
    assert not (project / ".warmstart" / "warmstart.db").exists()


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_write_that_honcho_refuses_is_an_error(status, run, project, honcho, monkeypatch):
    done(run, "set", "editor", "vim")
    done(run, "set", "spare", "v")
    with refusing(honcho, monkeypatch, status):
        for way, line in failures(run, "honcho", forgets=False).items():
            assert f"({status}: not so)" in line, way
    assert done(run, "set", "other", "v").err == "Stored other.\n"  # which is not to blame


@pytest.mark.parametrize("status", [0, 429, 503])
def test_a_queued_write_to_honcho_is_reported(status, run, project, honcho, monkeypatch):
    done(run, "set", "editor", "vim")
    if status:
        honcho.failing = status
    else:
        use(monkeypatch, f"http://127.0.0.1:{free_port()}")
        done(run, "set", "editor", "vim")
    for name, arguments in COMMANDS.items():
        ran = run("memory", *arguments, *(["honcho"] if name == "copy" else []), "--json")
        assert ran.code == 0, (name, ran)
        assert json.loads(ran.out)["queued"] is True, name
        assert "wait" in ran.err, name
    for arguments in ({"action": "store", "value": "v"}, {"action": "delete"}):
        answer = json.loads(memory_backend(key="k", **arguments))
        assert (answer["success"], answer["queued"]) == (True, True)
        assert "on this machine: http://127.0.0.1" in answer["note"]
    reset_backend()


def test_a_write_that_stays_here_does_not_wait_for_honcho(run, project, monkeypatch):
    use(monkeypatch, f"http://127.0.0.1:{free_port()}")
    assert data(run, "set", "city", "Bremen")["queued"] is True
    assert data(run, "set", "port", "8080", "--project", project)["queued"] is False


def test_info_says_that_memories_go_to_the_server(run, project, monkeypatch):
    monkeypatch.setenv("WARMSTART_STORE", "postgresql://mara@127.0.0.1:9/x")
    monkeypatch.setenv("WARMSTART_MEMORY_BACKEND", "postgres")
    assert "Memories go to the PostgreSQL server." in run("memory", "info").out


def test_a_write_that_has_arrived_says_so(run, project, honcho):
    stored = {"key": "city", "value": "Bremen", "scope": "user", "backend": "honcho (cloud)", "queued": False}
    assert data(run, "set", "city", "Bremen") == stored
    assert data(run, "delete", "city", "--yes") == {"deleted": ["city"], "missing": [], "queued": False}
    answer = json.loads(memory_backend("store", key="city", value="Bremen"))
    reset_backend()
    assert (answer["success"], "queued" in answer) == (True, False)
    assert honcho.entries()[-1] == "city: Bremen"


def test_entries_not_sent_to_honcho_are_reported(run, project, honcho):
    ran = done(run, "set", "city", "Bremen", "--expires", "30d")
    assert ran.err == "Stored city, on this machine only (see memory.honcho.send_scoped).\n"
    assert honcho.entries() == []
    assert done(run, "get", "city").out == "Bremen\n"


def test_unconfigured_honcho_is_an_error(run, project, monkeypatch):
    monkeypatch.setenv("WARMSTART_MEMORY_BACKEND", "honcho")
    for way, line in failures(run, "honcho").items():
        assert "set HONCHO_API_KEY" in line, way
    assert not (project / ".warmstart" / "warmstart.db").exists()
