"""`warmstart memory import`, `export` and `copy`: no secret shown, nothing written twice, nothing incomplete."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from tests.cli.memory import data, done
from tests.memory.honcho_server import HonchoServer, Wrong, running

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.fixture(autouse=True)
def project(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project that the test runs in."""
    inside = home / "tides"
    (inside / ".git").mkdir(parents=True)
    monkeypatch.chdir(inside)
    return inside


@pytest.fixture
def honcho(monkeypatch: pytest.MonkeyPatch) -> Iterator[HonchoServer]:
    """Memory at a working Honcho server."""
    with running() as server:
        monkeypatch.setenv("WARMSTART_MEMORY_BACKEND", "honcho")
        monkeypatch.setenv("HONCHO_URL", server.url)
        monkeypatch.setenv("WARMSTART_MEMORY_HONCHO_TIMEOUT_MS", "5000")
        yield server


# -- files


@pytest.fixture
def secret_file(home: Path) -> Path:
    file = home / "memory.md"
    file.write_text(f"# Memory\n\n- The deploy token is {TOKEN}.\n- Another one is {TOKEN} too.\n")
    return file


@pytest.mark.parametrize("options", [["--dry-run"], ["--dry-run", "--json"], ["--json"]])
def test_an_import_shows_no_secrets(run, secret_file, options):
    ran = done(run, "import", secret_file, *options)
    assert "deploy" in ran.out
    assert TOKEN not in ran.out + ran.err


def test_an_entry_with_a_secret_is_imported_once(run, secret_file):
    assert "2 entries imported" in done(run, "import", secret_file).err
    assert "0 entries imported from 1 file, 2 already there" in done(run, "import", secret_file).err
    assert len(data(run, "list")) == 2


def test_turning_redaction_off_imports_the_secret(run, secret_file, monkeypatch):
    done(run, "import", secret_file)
    monkeypatch.setenv("WARMSTART_MEMORY_REDACT", "no")
    assert "2 entries imported" in done(run, "import", secret_file).err
    assert TOKEN in done(run, "search", "deploy").out
    assert "2 already there" in done(run, "import", secret_file).err


def test_entries_of_several_scopes_are_imported_once(run, home):
    done(run, "set", "test_command", "tox")
    done(run, "set", "test_command", "make check", "--project", ".")
    done(run, "set", "test_command", "pytest", "--agent", "codex")
    done(run, "set", "lint", "ruff", "--project", ".")
    done(run, "export", "-o", home / "all.json")
    assert "0 entries imported from 1 file, 4 already there" in done(run, "import", home / "all.json").err
    done(run, "set", "lint", "flake8")
    assert "4 already there" in done(run, "import", home / "all.json").err
    done(run, "delete", "lint", "--yes")
    assert "1 entry imported from 1 file, 3 already there" in done(run, "import", home / "all.json").err


def test_an_export_is_private(run, home):
    done(run, "set", "editor", "Helix")
    file = home / "memory.md"
    file.write_text("what was there before, which is longer than what comes now" * 10)
    file.chmod(0o644)
    for path in (file, home / "new.md"):
        done(run, "export", "-o", path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert path.read_text() == done(run, "export").out


# -- copying


def test_a_copy_to_the_null_backend_is_an_error(run):
    done(run, "set", "editor", "Helix")
    ran = run("memory", "copy", "--to", "null")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "warmstart: 'null' stores nothing; name another backend, or a file\n"


def test_a_session_with_secrets_is_copied_unchanged(run, home, monkeypatch):
    monkeypatch.setenv("WARMSTART_MEMORY_REDACT", "no")
    done(run, "set", "deploy", f"The token is {TOKEN}.", "--source", f"mail with {TOKEN}")
    monkeypatch.delenv("WARMSTART_MEMORY_REDACT")
    done(run, "set", "deploy", "There is none.", "--source", "chat")
    assert done(run, "copy", "--to", home / "safe.db").out.startswith("1 entry of 1 user copied")
    told = done(run, "history", "deploy", "--backend", home / "safe.db", "--json").out
    assert "mail with" in told
    assert TOKEN not in told


@pytest.mark.parametrize("arguments", [["copy", "--to", "there.db"], ["export", "-o", "there.md"]])
def test_copy_and_export_need_the_complete_memory(run, project, honcho, monkeypatch, tmp_path, arguments):
    done(run, "set", "city", "Oldenburg")
    honcho.failing = 503
    monkeypatch.setenv("WARMSTART_MEMORY_HONCHO_TIMEOUT_MS", "300")
    ran = run("memory", *arguments)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(f"warmstart: {honcho.url}: 503: not now; the local copy may be incomplete")
    assert "--offline" in ran.err
    assert not (project / arguments[-1]).exists()
    done(run, *arguments, "--offline")
    assert b"Oldenburg" in (project / arguments[-1]).read_bytes()


# -- users, packages, files


def test_an_empty_user_name_is_wrong_usage(run, subtests):
    for user, line in product(["", "  "], ["set k v", "get k", "list", "export", "info", "copy --to a.db"]):
        with subtests.test(user=user, line=line):
            ran = run("memory", *line.split(), "--user", user)
            assert ran.code == 2
            assert "must not be empty; leave it out for the user 'default'" in ran.err


def test_a_broken_package_does_not_stop_anything(run, tmp_path, monkeypatch):
    package = tmp_path / "site" / "thirdparty-1.0.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: thirdparty\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[warmstart.memory]\nelsewhere = no_such_module_anywhere:Backend\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    done(run, "list")
    ran = done(run, "evaluate")
    assert "Skipping elsewhere: the memory backend 'elsewhere' of 'thirdparty' cannot be loaded" in ran.err
    monkeypatch.setenv("WARMSTART_MEMORY_BACKEND", "elsewhere")
    ran = run("memory", "set", "editor", "Helix")
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert "'elsewhere' of 'thirdparty' cannot be loaded" in ran.err


def test_an_unusable_store_is_explained(run, home):
    (home / "broken.db").write_bytes(b"this is no database, and long enough to be sure of it" * 40)
    ran = run("memory", "list", "--backend", home / "broken.db")
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert "is not available: " in ran.err
    assert "check its settings" not in ran.err
    assert "broken.db" in ran.err.partition("available: ")[2]


def test_retry_resends_rejected_writes(run, honcho, monkeypatch):
    add = honcho._add

    def strict(name, space, session, messages):
        raise Wrong(422, "not today")

    monkeypatch.setattr(honcho, "_add", strict)
    ran = run("memory", "set", "city", "Oldenburg")
    assert (ran.code, ran.out) == (1, "")
    assert "rejected 'city' (422: not today)" in ran.err
    assert "Remembered" not in ran.err
    assert "Rejected: city of default: 422" in done(run, "info").out
    monkeypatch.setattr(honcho, "_add", add)
    ran = done(run, "info", "--retry")
    assert "1 write resent." in ran.err
    assert "Rejected" not in ran.out
    assert honcho.entries() == ["city: Oldenburg"]
    assert run("memory", "info", "--retry", "--backend", "local").code == 1


def test_retry_without_a_server_says_why(run, monkeypatch):
    monkeypatch.setenv("WARMSTART_MEMORY_BACKEND", "honcho")
    ran = run("memory", "info", "--retry")
    assert (ran.code, "Honcho is not configured" in ran.err) == (1, True)
