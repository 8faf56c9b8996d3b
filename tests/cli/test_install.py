"""`warmstart init`, `install` and `uninstall`, from the command line."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.profile.talks import asked, bash, talk

import warmstart
from warmstart.hosts.hook import record_run
from warmstart.testing.stores import session

HELLO = '{\n    // mine\n    "model": "opus",\n}\n'


@pytest.fixture
def claude(home: Path) -> Path:
    """Claude Code's settings."""
    path = home / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_text(HELLO)
    return path


def test_install_and_uninstall_with_yes(run, home, claude):
    ran = run("install", "claude-code", "--yes")
    assert ran.code == 0
    assert "+++ ~/.claude/settings.json" in ran.out
    assert "hook claude-code SessionStart || true" in claude.read_text()
    assert "10% of the sessions start without a template" in ran.err
    assert str(home / ".warmstart/config.toml") in ran.err
    again = run("install", "--all", "--yes")
    assert (again.code, again.out) == (0, "")
    assert "already set up" in again.err
    ran = run("uninstall", "--all", "--yes")
    assert ran.code == 0
    assert "-" in ran.out
    assert claude.read_text() == HELLO
    assert list(claude.parent.iterdir()) == [claude]
    assert "not set up" in run("uninstall", "claude-code").err


def test_the_commands_in_claude_code_run_as_they_are_written(run, histories):
    run("install", "claude-code", "--yes")
    (log,) = (histories / ".claude").rglob("58e3c7d9*.jsonl")
    text = (histories / ".claude" / "commands" / "warm-handoff.md").read_text()
    packet = text.split("`")[1]
    assert f"allowed-tools: Bash({packet}:*)" in text
    env = {**os.environ, "CLAUDE_CODE_SESSION_ID": log.stem}
    done = subprocess.run(["sh", "-c", packet], env=env, capture_output=True, text=True, check=True, timeout=180)
    assert "# Handoff packet" in done.stdout


def test_the_holdout_that_is_set_is_named(run, claude, monkeypatch):
    monkeypatch.setenv("WARMSTART_TEMPLATES_HOLDOUT", "0.25")
    assert "25% of the sessions" in run("install", "claude-code", "--yes").err


def test_a_dry_run_shows_and_changes_nothing(run, home, claude):
    before = sorted(home.rglob("*"))
    ran = run("install", "claude-code", "--dry-run")
    assert (ran.code, claude.read_text()) == (0, HELLO)
    assert "+++ ~/.claude/settings.json" in ran.out
    assert sorted(home.rglob("*")) == before
    run("install", "claude-code", "--yes")
    after = claude.read_text()
    ran = run("uninstall", "claude-code", "--purge", "--dry-run")
    assert ran.code == 0
    assert "Would delete" in ran.out
    assert claude.read_text() == after


def test_without_a_terminal_it_needs_yes(run, claude, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    for line in (["install", "claude-code"], ["init"]):
        ran = run(*line)
        assert ran.code == 1
        assert "pass --yes" in ran.err
    assert claude.read_text() == HELLO


def test_on_a_terminal_it_asks(claude, terminal):
    code, screen = terminal("install", "claude-code", typed="n\n")
    assert (code, claude.read_text()) == (0, HELLO)
    assert screen.index("+++ ~/.claude/settings.json") < screen.index("[y/N]")
    code, _ = terminal("install", "claude-code", typed="y\n")
    assert code == 0
    assert claude.read_text() != HELLO
    terminal("uninstall", "claude-code", typed="n\n")
    assert claude.read_text() != HELLO
    terminal("uninstall", "claude-code", typed="y\n")
    assert claude.read_text() == HELLO


def test_no_agent_is_a_usage_error_that_names_those_found(run, home, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    ran = run("install")
    assert ran.code == 2
    assert "found here: none" in ran.err
    assert "Supported: claude-code" in run("install", "--all", "--yes").err
    (home / ".claude").mkdir()
    assert "found here: claude-code" in run("install").err
    assert run("install", "emacs").code == run("uninstall").code == 2


def test_a_file_that_cannot_be_changed_is_one_line(run, home, claude):
    claude.write_text("{ model: warmstart }")
    for line in (["install", "claude-code", "--yes"], ["uninstall", "claude-code", "--yes"]):
        ran = run(*line)
        assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
        assert "settings.json" in ran.err
        assert "line 1" in ran.err
    claude.unlink()
    claude.symlink_to("elsewhere.json")
    assert "symbolic link to 'elsewhere.json'" in run("install", "claude-code", "--yes").err
    assert not (home / ".warmstart" / "hosts").exists()


def test_one_unusable_file_does_not_stop_the_other_agents(run, home, claude):
    (home / ".gemini").mkdir()
    (home / ".codex").mkdir()
    settings = home / ".gemini" / "settings.json"
    settings.write_text("{ theme: x }")
    ran = run("install", "codex", "gemini-cli", "claude-code", "--yes")
    assert (ran.code, ran.err.count("warmstart: ")) == (1, 1)
    assert "New sessions of Codex and Claude Code start warm" in ran.err
    settings.write_text("{ warmstart }")
    ran = run("uninstall", "--all", "--yes")
    assert ran.code == 1
    assert "settings.json' cannot be changed safely" in ran.err
    assert claude.read_text() == HELLO
    assert list((home / ".codex").iterdir()) == []


def test_a_killed_uninstall_without_a_record_leaves_no_copy(run, home, claude):
    copy = claude.with_name(".settings.json.warmstart-1a2b3c")
    copy.write_text("{}")
    assert run("uninstall", "claude-code", "--yes").code == 0
    assert not copy.exists()


def test_what_is_printed_contains_no_secrets(run, home):
    secrets = ["ghp_" + "Zq7Lk2" * 6, "sk-ant-api03-" + "Qx8Rt5Vw" * 8, "hunter2-hunter3-Xy9"]
    text = json.dumps(
        {
            "mcpServers": {"github": {"command": "x", "env": {"GITHUB_TOKEN": secrets[0], "PASSWORD": secrets[2]}}},
            "primaryApiKey": secrets[1],
        }
    )
    (home / ".claude").mkdir()
    for layout in (text, json.dumps(json.loads(text), indent=2), text.replace("}", "}" + " " * 1000)):
        (home / ".claude.json").write_text(layout)
        for line in ("init", "install claude-code --dry-run", "install claude-code", "uninstall claude-code"):
            ran = run(*line.split(), *(["--yes"] if line != "init" else []))
            assert ran.code == (1 if line == "init" else 0)
            assert "warmstart" in ran.out + ran.err
            assert not [secret for secret in secrets if secret in ran.out + ran.err]


def test_a_temporary_python_is_refused(claude, program):
    # `uvx warmstart init` and `pipx run` start from a cache that is emptied now and then.
    python = "/home/mara/.cache/uv/archive-v0/x/bin/python"
    code = f"import sys; sys.executable = {python!r}; from warmstart.cli import main; main()"
    ran = subprocess.run(
        [program[0], "-c", code, "install", "claude-code", "--yes"], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr.count("\n"), claude.read_text()) == (1, 1, HELLO)
    assert "uv tool install warmstart" in ran.stderr


def test_purge_deletes_our_data_and_nothing_else(run, home, synced, claude):
    (home / ".warmstart" / "notes.txt").write_text("of the user")
    (home / ".warmstart" / "paused.json").touch()
    (home / ".warmstart" / "honcho-0a1b2c3d.db-wal").touch()  # of the mirror, which holds memories
    run("install", "claude-code", "--yes")
    ran = run("uninstall", "--purge", "--yes")
    assert ran.code == 0
    assert "warmstart.db" in ran.out
    assert claude.read_text() == HELLO
    assert [path.name for path in (home / ".warmstart").iterdir()] == ["notes.txt"]
    (home / ".warmstart" / "notes.txt").unlink()
    (home / ".warmstart" / "config.toml").touch()
    run("uninstall", "--purge", "--yes")
    assert not (home / ".warmstart").exists()


def test_purge_keeps_what_a_later_uninstall_needs(run, home, synced, claude):
    (home / ".hermes").mkdir()
    run("install", "claude-code", "hermes", "--yes")
    run("uninstall", "claude-code", "--purge", "--yes")
    assert not (home / ".warmstart" / "warmstart.db").exists()
    run("uninstall", "hermes", "--yes")
    assert not (home / ".hermes" / "plugins").exists()
    assert not (home / ".warmstart" / "hosts").exists()


def test_a_file_without_our_entries_need_not_be_understood(run, home, claude):
    run("install", "claude-code", "--yes")
    (home / ".hermes").mkdir()
    (home / ".hermes" / "config.yaml").write_text("plugins: {enabled: [spotify]}\n")
    assert "cannot be changed safely" not in run("doctor").out
    assert run("uninstall", "--all", "--yes").code == 0
    assert "warmstart" not in (home / ".claude" / "settings.json").read_text()


def test_purge_asks_on_its_own(home, synced, claude, terminal):
    code, screen = terminal("uninstall", "--purge", typed="n\n")
    assert code == 0
    assert "Delete all this data for good? [y/N]" in screen
    assert (home / ".warmstart" / "warmstart.db").exists()


def test_a_store_elsewhere_is_purged_with_its_files(run, home, monkeypatch, samples):
    monkeypatch.setenv("WARMSTART_STORE", str(home / "else" / "mine.db"))
    (home / "else").mkdir()
    run("sync", "--path", samples)
    run("uninstall", "--purge", "--yes")
    assert list((home / "else").iterdir()) == []


# -- init


def test_init_imports_shows_three_facts_and_sets_up(run, histories):
    ran = run("init", "--yes")
    assert ran.code == 0
    assert "Found claude-code: 5 logs." in ran.out
    assert "Found codex: 1 log." in ran.out
    assert "Imported 7 sessions." in ran.out
    assert "The most frequent mistake (3 times):\n  Edit: File has not been read yet\n  Usual fix: Read" in ran.out
    assert "Commands that work in tidewatch:\n  `uv run pytest` worked 4 times" in ran.out
    assert "What the last compaction lost (claude-code, session da4a0ae4d620bc9e):\n  100% of the rules" in ran.out
    assert "hook claude-code" in (histories / ".claude" / "settings.json").read_text()
    again = run("init", "--yes")
    assert again.code == 0
    assert "Imported 0 sessions." in again.out
    assert "already set up" in again.err


def test_a_fix_that_teaches_nothing_is_no_fact(run, histories):
    said = "cat: gone.txt: No such file or directory"
    tries = [part for _ in range(4) for part in (bash("cat gone.txt", "error", said), bash("git status"))]
    with warmstart.open() as ws:
        ws.store.append(session("vague"), talk(asked("look"), *tries))
        worst = ws.report(project=None).signatures[0]
        assert (worst.count, worst.fix) == (4, "another command (4 of 4)")
    assert "The most frequent mistake (3 times):\n  Edit: File has not been read yet" in run("init", "--yes").out


def test_init_says_nothing_of_compactions_if_there_was_none(run, histories):
    for log in (histories / ".claude").rglob("*.jsonl"):
        lines = log.read_text().splitlines(keepends=True)
        log.write_text("".join(line for line in lines if '"isCompactSummary":true' not in line))
    ran = run("init", "--yes")
    assert ran.code == 0
    assert "Commands that work" in ran.out
    assert "compaction" not in ran.out


def test_each_step_of_init_can_be_declined(run, histories, terminal):
    code, screen = terminal("init", typed="n\nn\n")
    assert code == 0
    assert screen.count("[y/N]") == 2
    assert not (histories / ".warmstart").exists()
    assert not (histories / ".claude" / "settings.json").exists()
    code, screen = terminal("init", typed="y\nn\n")
    assert code == 0
    assert "most frequent mistake" in screen
    assert not (histories / ".claude" / "settings.json").exists()
    code, screen = terminal("init", typed="n\ny\n")
    assert (histories / ".claude" / "settings.json").exists()


def test_init_without_agents_says_so(run, monkeypatch, home):
    monkeypatch.setenv("PATH", "/nowhere")
    ran = run("init")
    assert ran.code == 0
    assert "No agents found" in ran.out
    assert not (home / ".warmstart").exists()


def test_init_without_sessions_still_sets_up(run, claude):
    ran = run("init", "--yes")
    assert ran.code == 0
    assert "Found claude-code: 0 logs." in ran.out
    assert "hook claude-code" in claude.read_text()


def test_an_interrupted_init_continues(run, histories, program):
    log = next((histories / ".claude" / "projects").rglob("58e3c7d9*.jsonl"))
    for number in range(200):
        shutil.copy(log, log.with_name(f"58e3c7d9-0000-4000-8000-{number:012}.jsonl"))
    with subprocess.Popen(
        [*program, "init", "--yes"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # who ignores a signal hands that on
    ) as process:
        while b"gemini" not in process.stdout.readline():  # the last agent that it finds: importing comes next
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        rest, said = process.communicate()
    assert (process.returncode, rest, said.strip()) == (130, b"", b"")
    assert run("doctor").code == 0
    assert run("init", "--yes").code == 0
    assert "not imported yet" not in run("doctor").out


# -- doctor


def test_init_sets_up_every_agent_that_is_found(run, home, claude, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    for name in (".codex", ".copilot", ".config/opencode"):
        (home / name).mkdir(parents=True)
    ran = run("init", "--yes")
    assert "New sessions of Claude Code, Codex, Copilot CLI and OpenCode start warm" in ran.err
    assert "hooks until you review them" in ran.err
    hooks = {row["subject"]: row for row in json.loads(run("doctor", "--json").out) if row["subject"].endswith("hooks")}
    assert {name: row["status"] for name, row in hooks.items()} == {
        "claude-code hooks": "ok", "codex hooks": "warning", "copilot-cli hooks": "ok", "opencode hooks": "ok",
    }  # fmt: skip
    assert "Claude Code, Codex, Copilot CLI and OpenCode start as before" in run("uninstall", "--all", "--yes").err
    assert [
        path for path in (home / ".codex", home / ".copilot", home / ".config/opencode") if any(path.iterdir())
    ] == []


def test_doctor_reports_each_agent(run, home, claude, monkeypatch):
    def hooks() -> dict[str, str]:
        return {row["subject"]: row for row in json.loads(run("doctor", "--json").out)}["claude-code hooks"]

    assert (hooks()["status"], hooks()["finding"]) == ("note", "not installed")
    assert "warmstart install claude-code" in hooks()["remedy"]
    run("install", "claude-code", "--yes")
    assert (hooks()["status"], hooks()["finding"]) == ("ok", "installed, not run yet")
    kept = str(home / ".warmstart")
    record_run(kept, "claude-code", "UserPromptSubmit", 41.7)
    assert "last run UserPromptSubmit at 20" in hooks()["finding"]
    assert "prompts wait 42 ms (95th percentile)" in hooks()["finding"]
    record_run(kept, "claude-code", "Stop", 12, "StoreBusy")
    assert hooks()["status"] == "note"
    assert ": StoreBusy" in hooks()["finding"]
    text = claude.read_text().replace(sys.executable, "/gone/bin/python")
    claude.write_text(text)
    assert hooks()["status"] == "warning"
    record = home / ".warmstart" / "hosts" / "claude-code.json"
    record.write_text(record.read_text().replace(sys.executable, "/gone/bin/python"))
    assert hooks()["status"] == "problem"
    assert "/gone/bin/python no longer exists" in hooks()["finding"]
    run("install", "claude-code", "--yes")
    assert "/gone" not in hooks()["finding"]
    claude.write_text("{")
    assert hooks()["status"] == "warning"
    assert os.fspath(claude) in hooks()["finding"]
