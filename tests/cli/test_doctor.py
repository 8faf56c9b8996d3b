from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

# Nothing is forbidden to root, so root becomes somebody else. A first run loads everything that is needed, because
# Python itself may be out of that user's reach.
WITHOUT_RIGHTS = """
import contextlib, io, os, sys
from warmstart.cli import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main(["doctor"])
import warmstart.cli.sync
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
main()
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that other users may enter, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def checked(run) -> tuple[int, dict[str, dict[str, str]]]:
    ran = run("doctor", "--json")
    checks = json.loads(ran.out)
    assert all(set(check) == {"subject", "status", "finding", "remedy"} for check in checks)
    return ran.code, {check["subject"]: check for check in checks}


def without_rights(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_RIGHTS, *arguments],
        env={**os.environ, "HOME": str(home), "WARMSTART_HOME": str(home / "kept")},
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_new_user_sees_the_next_step(run, home):
    code, checks = checked(run)
    assert code == 0
    assert checks["installation"]["status"] == "ok"
    assert checks["home"]["status"] == checks["store"]["status"] == "note"
    assert "warmstart sync" in checks["store"]["remedy"]
    assert "/.claude/projects" in checks["claude-code"]["finding"]
    assert not (home / ".warmstart").exists()


def test_everything_is_ok_after_a_sync(run, histories):
    _, before = checked(run)
    assert before["claude-code"]["status"] == "note"
    assert "5 logs" in before["claude-code"]["finding"]
    assert "5 not imported yet" in before["claude-code"]["finding"]
    run("sync")
    code, after = checked(run)
    assert code == 0
    assert {after[name]["status"] for name in ("home", "store", "claude-code", "codex", "gemini-cli")} == {"ok"}
    assert "7 sessions" in after["store"]["finding"]
    assert "1 log in" in after["codex"]["finding"]


def test_every_agent_with_a_place_of_its_own_is_looked_at(run):
    _, checks = checked(run)
    assert {"claude-code", "codex", "gemini-cli", "opencode", "copilot-cli", "hermes"} <= set(checks)


def test_a_person_reads_the_same(run, histories):
    text = run("doctor").out
    _, checks = checked(run)
    for check in checks.values():
        assert f"{check['subject']}: {check['finding']}" in text
        assert not check["remedy"] or f"→ {check['remedy']}" in text


@pytest.mark.parametrize(("name", "mode"), [(".warmstart", 0o755), (".warmstart/warmstart.db", 0o644)])
def test_files_that_others_can_read_are_a_warning(run, home, synced, name, mode):
    path = home / name
    path.chmod(mode)
    ran = run("doctor")
    assert ran.code == 0
    assert f"warning  {'home' if path.is_dir() else 'store'}: other users can read {path}" in ran.out
    assert f"→ chmod {700 if path.is_dir() else 600} {path}" in ran.out


def test_a_damaged_store_is_a_problem_with_a_remedy(run, home, synced):
    store = home / ".warmstart" / "warmstart.db"
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        page = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'messages'").fetchone()[0]
    with store.open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(b"\xaa" * 4096)
    before = store.read_bytes()
    code, checks = checked(run)
    assert (code, checks["store"]["status"]) == (1, "problem")
    assert "move" in checks["store"]["finding"] + checks["store"]["remedy"]
    assert "warmstart sync" in checks["store"]["finding"] + checks["store"]["remedy"]
    assert store.read_bytes() == before


def test_a_row_that_points_nowhere_is_a_problem(run, home, synced):
    with closing(sqlite3.connect(home / ".warmstart" / "warmstart.db")) as connection:
        connection.execute("DELETE FROM sessions WHERE agent = 'codex'")
        connection.commit()
    code, checks = checked(run)
    assert (code, checks["store"]["status"]) == (1, "problem")
    assert "missing row of sessions" in checks["store"]["finding"]


@pytest.mark.parametrize(
    ("variable", "value", "subject", "said"),
    [
        ("WARMSTART_STORE", "mysql://localhost/x", "settings", "sqlite:///path"),
        ("WARMSTART_STORE", "~nobody-of-this-name/x.db", "settings", "write the full path"),
        ("WARMSTART_STORE", "/", "store", "is not a file"),
        ("WARMSTART_HOME", "/dev/null", "settings", "check WARMSTART_HOME"),
    ],
)
def test_unusable_settings_are_a_problem(run, monkeypatch, variable, value, subject, said):
    monkeypatch.setenv(variable, value)
    code, checks = checked(run)
    assert (code, checks[subject]["status"]) == (1, "problem")
    assert said in checks[subject]["finding"]


def test_searches_that_reached_a_limit_are_counted(run, home, synced):
    row = "INSERT INTO preflight_turns (session, host, project, at, event, reason, evidence, tokens, milliseconds) "
    with closing(sqlite3.connect(home / ".warmstart" / "warmstart.db")) as connection, connection:
        for reason in ("done before", "CPU limit", "time limit", "time limit"):
            connection.execute(f"{row} VALUES ('s', 'codex', '/p', 1, 'prompt', ?, '[]', 0, 1)", (reason,))
    check = checked(run)[1]["overlay"]
    assert check["finding"] == "4 messages; 1 reached the limit of CPU time, 2 of time"
    assert check["status"] == "warning"
    report = run("preflight", "report", "--all-projects").out
    assert "Searches that were given up: 1 at the limit of CPU time, 2 at the limit of time" in report


def test_a_bad_config_file_is_a_problem_that_names_it(run, home):
    (home / ".warmstart").mkdir(mode=0o700)
    (home / ".warmstart" / "config.toml").write_text("store = [")
    code, checks = checked(run)
    assert (code, checks["settings"]["status"]) == (1, "problem")
    assert "config.toml" in checks["settings"]["finding"]


# -- as somebody without rights


def test_a_read_only_home_is_one_line_and_unchanged(place):
    (place / "kept").mkdir(mode=0o555)
    ran = without_rights(place, "sync")
    assert (ran.returncode, ran.stdout, len(ran.stderr.splitlines())) == (1, "", 1)
    assert "cannot write the store" in ran.stderr
    assert "WARMSTART_HOME" in ran.stderr
    told = without_rights(place, "doctor")
    assert told.returncode == 1
    assert f"problem  home: {place / 'kept'} is not writable" in told.stdout
    assert f"chmod u+rwx {place / 'kept'}" in told.stdout
    assert list((place / "kept").iterdir()) == []


def test_an_inaccessible_home_is_one_line(place):
    (place / "kept").mkdir(mode=0o000)
    for command in ("sync", "doctor"):
        ran = without_rights(place, command)
        assert ran.returncode == 1
        assert "Traceback" not in ran.stderr
        assert "Permission denied" in ran.stdout + ran.stderr
        assert "check WARMSTART_HOME" in ran.stdout + ran.stderr


@pytest.mark.parametrize("closed", [".claude", ".claude/projects", ".claude/projects/x/log.jsonl"])
def test_an_unreadable_log_folder_is_a_problem_and_others_are_still_checked(place, closed):
    log = place / ".claude" / "projects" / "x" / "log.jsonl"
    log.parent.mkdir(parents=True)
    log.write_text("")
    (place / closed).chmod(0o000)
    ran = without_rights(place, "doctor", "--json")
    checks = {check["subject"]: check for check in json.loads(ran.stdout)}
    assert ran.returncode == 1
    assert checks["claude-code"]["status"] == "problem"
    assert "run Warmstart as the user" in checks["claude-code"]["remedy"]
    assert checks["codex"]["status"] == "note"


@pytest.mark.parametrize("closed", [".claude", ".claude/projects"])
def test_a_folder_that_cannot_be_read_does_not_count_as_a_log(place, closed):
    (place / ".claude" / "projects" / "x").mkdir(parents=True)
    (place / closed).chmod(0o000)
    assert "Found claude-code: 0 logs.\n" in without_rights(place, "init", "--yes").stdout


def test_every_extra_but_all_is_checked(run, home):
    pyproject = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    extras = pyproject["project"]["optional-dependencies"]
    (everything,) = extras.pop("all")
    assert everything == f"warmstart[{','.join(sorted(extras))}]"
    _, checks = checked(run)
    assert {name for name in checks if name.startswith("extra ")} == {f"extra {name}" for name in extras}
