"""The process that an agent starts: it prints JSON or nothing, and exits with 0 whatever happens."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import warmstart
from tests.preflight.conftest import talk
from tests.waiting import wait_until
from warmstart.hosts.hook import read_runs
from warmstart.preflight.prompt import block

CODE = "from warmstart.__main__ import main; main()"
ASKED = "compute the storm surge for harbours without a gauge"
EDIT = ("edit", '{"path": "src/surge.py"}', "ok")
QUESTION = "the storm surge is wrong for the northern harbours"


@pytest.fixture
def warm(home: Path, project: Path) -> Path:
    """A home directory whose store knows one session, patient with a busy machine."""
    folder = home / ".warmstart"
    (folder / "hosts").mkdir(parents=True)
    (folder / "config.toml").write_text("[context_preflight]\ndeadline_ms = 60000\n", encoding="utf-8")
    (project / "src").mkdir()
    (project / "src" / "surge.py").touch()
    with warmstart.open(home=folder) as ws:
        for name in ("past-1", "past-2"):
            with ws.begin(name, project=str(project)) as run:
                talk(run, ASKED, EDIT)
    return folder


def run_hook(
    event: str, data: dict[str, Any] | bytes, *options: str, host: str = "claude-code", **env: str
) -> dict[str, Any] | None:
    """What a hook answers; it must exit with 0 and print nothing on standard error."""
    text = data if isinstance(data, bytes) else json.dumps(data).encode()
    done = subprocess.run(
        [sys.executable, *options, "-EPc", CODE, "hook", host, event],
        input=text,
        capture_output=True,
        env={**os.environ, **env},
        check=False,
        timeout=180,
    )
    assert done.returncode == 0
    assert options or done.stderr == b""
    answer: dict[str, Any] | None = json.loads(done.stdout) if done.stdout else None
    return answer


def prompt(project: Path, text: str = QUESTION, **more: Any) -> dict[str, Any]:
    return {"session_id": "now", "cwd": str(project), "prompt": text, **more}


def context(answer: dict[str, Any] | None) -> str:
    added = (answer or {}).get("hookSpecificOutput")
    return str(added["additionalContext"]) if added else ""


def test_a_prompt_brings_what_earlier_sessions_did(warm: Path, project: Path) -> None:
    answer = run_hook("UserPromptSubmit", prompt(project))
    assert answer is not None
    assert "src/surge.py" in context(answer)
    assert answer["hookSpecificOutput"]["hookEventName"] == "UserPromptSubmit"
    assert run_hook("UserPromptSubmit", prompt(project, "yes")) is None
    assert [one["event"] for one in read_runs(warm, "claude-code")] == ["UserPromptSubmit"] * 2


def test_a_prompt_brings_a_quote_from_a_compressed_text(warm: Path, project: Path) -> None:
    reply = "The surge comes from the nearest gauge, in metres. " + "It was calibrated by the crew. " * 40
    with warmstart.open(home=warm) as ws:
        with ws.begin("past-3", project=str(project)) as run:
            talk(run, ASKED, EDIT, reply=reply)
        assert ws.store.fetch("SELECT count(*) FROM texts WHERE typeof(body) = 'blob'") == [(1,)]
    run_hook("UserPromptSubmit", prompt(project, "translate the imprint"))
    question = "how did we compute the surge last time, from the nearest gauge?"
    assert "The surge comes from the nearest gauge" in context(run_hook("UserPromptSubmit", prompt(project, question)))


def test_a_session_starts_with_the_block_and_the_brief(warm: Path, project: Path) -> None:
    text = context(run_hook("SessionStart", {"session_id": "now", "cwd": str(project), "source": "startup"}))
    assert text.startswith(block("full", "claude-code"))
    assert "surge.py" in text
    assert len(text) < 9_000
    assert run_hook("SessionStart", {"session_id": "now", "cwd": str(project), "source": "resume"}) is None


def test_the_way_of_a_prompt_loads_nothing_heavy(warm: Path, project: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-EPc", CODE, "hook", "claude-code", "UserPromptSubmit"],
        input=json.dumps(prompt(project)).encode(),
        capture_output=True,
        check=True,
        timeout=180,
    )
    assert b"src/surge.py" in done.stdout
    # The first run may read `config.toml`; its result is kept.
    done = subprocess.run(done.args, input=json.dumps(prompt(project)).encode(), capture_output=True, check=True)
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.decode().splitlines()}
    assert "warmstart.preflight.overlay" in loaded
    heavy = {
        "warmstart.errors",
        "warmstart.profile.calls",
        "threading",
        "dataclasses",
        "pathlib",
        "typing",
        "numpy",
        "msgspec",
        "click",
        "tomllib",
        "inspect",
        "hashlib",
        "logging",
    }
    baseline = subprocess.run([sys.executable, "-X", "importtime", "-EPc", "pass"], capture_output=True, check=True)
    anyway = {line.rpartition("|")[2].strip() for line in baseline.stderr.decode().splitlines()}
    assert heavy & (loaded - anyway) == set()


def test_off_excluded_and_foreign_input_bring_nothing(warm: Path, project: Path, subtests) -> None:
    rows: dict[str, tuple[str, Any, dict[str, str]]] = {
        "disabled": ("UserPromptSubmit", prompt(project), {"WARMSTART_DISABLED": "1"}),
        "subagent": ("UserPromptSubmit", prompt(project, agent_id="a1"), {}),
        "news of a task": ("UserPromptSubmit", prompt(project, "<task-notification>\n<task-id>a</task-id>"), {}),
        "unknown event": ("SomethingNew", prompt(project), {}),
        "no JSON": ("UserPromptSubmit", b"{", {}),
        "no object": ("UserPromptSubmit", b"[1, 2]", {}),
        "nothing": ("UserPromptSubmit", b"", {}),
        "half a character": ("UserPromptSubmit", b'{"prompt": "\xc3', {}),
        "no home": ("UserPromptSubmit", prompt(project), {"WARMSTART_HOME": "/dev/null/home"}),
    }
    for name, (event, data, env) in rows.items():
        with subtests.test(name):
            assert run_hook(event, data, **env) is None
    with subtests.test("unknown host"):
        assert run_hook("UserPromptSubmit", prompt(project), host="../nowhere") is None
        assert not list(warm.rglob("nowhere*"))
    with subtests.test("excluded"):
        config = warm / "config.toml"
        config.write_text(f'{config.read_text()}[hosts]\nexclude = ["{project.parent}"]\n', encoding="utf-8")
        assert run_hook("UserPromptSubmit", prompt(project)) is None
    with subtests.test("excluded everywhere"):
        config.write_text('[hosts]\nexclude = ["/"]\n', encoding="utf-8")
        assert run_hook("SessionStart", {**prompt(project), "source": "startup"}) is None
        config.write_text(f'[hosts]\nexclude = ["{project.parent}"]\n', encoding="utf-8")
    with subtests.test("excluded, and the shell is somewhere else"):
        other = prompt(project.parent.parent)
        assert run_hook("SessionStart", {**other, "source": "startup"}) is not None
        assert run_hook("SessionStart", {**other, "source": "startup"}, CLAUDE_PROJECT_DIR=str(project)) is None


def test_settings_that_another_version_kept_are_read_again(warm: Path, project: Path, subtests) -> None:
    kept = warm / "hosts" / "settings.json"
    assert run_hook("UserPromptSubmit", prompt(project)) is not None
    good = json.loads(kept.read_text())
    older = {name: value for name, value in good.items() if name != "preflight_min_score"}
    changes = {"older": {**older, "state": good["state"][1:]}, "no object": [1], "nothing": None}
    for number, (name, change) in enumerate(changes.items()):
        with subtests.test(name):
            kept.write_text(json.dumps(change))
            assert run_hook("UserPromptSubmit", {**prompt(project), "session_id": f"s{number}"}) is not None
            assert json.loads(kept.read_text()) == good


def test_a_failure_that_a_pipe_hides_brings_its_fix(warm: Path, project: Path) -> None:
    failed = ("bash", '{"command": "npm run test"}', "exit code 1\nnpm error Missing script: test")
    with warmstart.open(home=warm) as ws, ws.begin("past-3", project=str(project)) as run:
        talk(run, "run the tests", failed, ("bash", '{"command": "npm run test:unit"}', "14 passed"))

    def batch(command: str, output: str, *options: str) -> str:
        call = {"tool_name": "Bash", "tool_input": {"command": command}, "tool_response": output}
        return context(run_hook("PostToolBatch", prompt(project, tool_calls=[call]), *options))

    assert batch("ls", "npm error Missing script") == ""
    assert batch("npm run test | tail", "14 passed") == ""
    assert "`npm run test:unit`" in batch("npm run test | tail", "npm error Missing script: test")


def test_a_failing_call_parses_no_shell_and_any_other_opens_no_store(warm: Path, project: Path) -> None:
    failed = ("bash", '{"command": "npm run test"}', "exit code 1\nnpm error Missing script: test")
    with warmstart.open(home=warm) as ws, ws.begin("past-3", project=str(project)) as run:
        talk(run, "run the tests", failed, ("bash", '{"command": "npm run test:unit"}', "14 passed"))

    def loaded_for(output: str) -> set[str]:
        call = {"tool_name": "Bash", "tool_input": {"command": "npm run test"}, "tool_response": output}
        done = subprocess.run(
            [sys.executable, "-X", "importtime", "-EPc", CODE, "hook", "claude-code", "PostToolBatch"],
            input=json.dumps(prompt(project, tool_calls=[call])).encode(),
            capture_output=True,
            check=True,
        )
        return {line.rpartition("|")[2].strip() for line in done.stderr.decode().splitlines()}

    loaded_for("14 passed")  # may read `config.toml`
    assert not {"sqlite3", "warmstart.preflight.overlay"} & loaded_for("14 passed")
    loaded = loaded_for("npm error Missing script: test")
    assert "warmstart.preflight.overlay" in loaded
    assert not {"msgspec", "tree_sitter", "warmstart.profile.rules", "warmstart.templates"} & loaded


def test_a_store_that_cannot_be_used_is_left_alone(warm: Path, project: Path, subtests) -> None:
    store = warm / "warmstart.db"
    good = warm / "good.db"
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(store, good)

    def damage(name: str) -> None:
        shutil.copy(good, store)
        if name == "corrupt":
            store.write_bytes(b"no database" + os.urandom(4096))
        elif name == "empty":
            store.write_bytes(b"")
        elif name == "missing":
            store.unlink()
        else:
            change = {
                "newer": "INSERT INTO migrations (name) VALUES ('sessions/9999_future')",
                "not migrated": "DELETE FROM migrations WHERE name = 'preflight/0001_turns'",
                "not indexed": "DELETE FROM recall_turns",
            }[name]
            with closing(sqlite3.connect(store)) as connection, connection:
                connection.execute(change)

    reasons = {
        "missing": "",
        "corrupt": "cannot be read (file is not a database)",
        "empty": "cannot be read (no such table: migrations)",
        "newer": "newer version",
        "not migrated": "needs the migration",
        "not indexed": "not indexed",
    }
    begin = {"session_id": "n", "cwd": str(project), "source": "startup"}
    for name, reason in reasons.items():
        with subtests.test(name):
            damage(name)
            before = store.read_bytes() if store.exists() else b""
            start = run_hook("SessionStart", begin)
            assert start is not None
            assert context(start).startswith(block("full", "claude-code"))
            assert ("surge.py" in context(start)) == (name == "not indexed")  # a brief needs no search
            answer = run_hook("UserPromptSubmit", prompt(project)) or {}
            assert context(answer) == ""
            assert reason in start.get("systemMessage", "") + answer.get("systemMessage", "")
            assert run_hook("UserPromptSubmit", prompt(project)) is None  # said once
            assert (store.read_bytes() if store.exists() else b"") == before
    with subtests.test("again, after it was repaired"):
        shutil.copy(good, store)
        assert "systemMessage" not in (run_hook("UserPromptSubmit", prompt(project)) or {})
        damage("newer")
        assert "newer version" in (run_hook("UserPromptSubmit", prompt(project)) or {})["systemMessage"]


def test_a_hook_ignores_settings_that_it_does_not_know(warm: Path, project: Path, subtests) -> None:
    config = warm / "config.toml"
    good = config.read_text()
    config.write_text(f'{good}max_passages = "many"\n[preflight]\nmode = "short"\n')
    answer = run_hook("UserPromptSubmit", prompt(project))
    assert "src/surge.py" in context(answer)
    assert answer is not None
    notice = answer["systemMessage"]
    assert "unknown setting 'preflight.mode'" in notice
    assert "'context_preflight.max_passages'" in notice
    start = run_hook("SessionStart", {"session_id": "n", "cwd": str(project), "source": "startup"})
    assert "surge.py" in context(start)
    assert "systemMessage" not in (start or {})
    for name, text in {"no TOML": "[", "a folder to exclude": '[hosts]\nexcludes = ["/private"]\n'}.items():
        with subtests.test(name):
            config.write_text(text)
            assert (run_hook("UserPromptSubmit", prompt(project)) or {}).keys() == {"systemMessage"}
            assert run_hook("UserPromptSubmit", prompt(project)) is None


def test_the_other_agents_are_told_nothing(warm: Path, project: Path) -> None:
    (warm / "config.toml").write_text("[")
    event = {"sessionId": "n", "cwd": str(project), "prompt": QUESTION}
    assert run_hook("userPromptSubmitted", event, host="copilot-cli") is None


def test_a_prompt_is_answered_while_another_process_writes(warm: Path, project: Path) -> None:
    with closing(sqlite3.connect(warm / "warmstart.db", isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        assert "src/surge.py" in context(run_hook("UserPromptSubmit", prompt(project)))
        question = "how did we compute the surge last time?"
        first = context(run_hook("UserPromptSubmit", prompt(project, question)))
        assert "compute the storm surge" in first
        assert run_hook("UserPromptSubmit", prompt(project, question)) is None  # it was shown
        connection.execute("ROLLBACK")
    with warmstart.open(home=warm) as ws:
        recorded = "SELECT session, reason FROM preflight_turns ORDER BY id"
        assert ws.store.fetch(recorded) == []
        ws.update()
        rows = ws.store.fetch(recorded)
        assert [tuple(row) for row in rows] == [("now", "done before"), ("now", "quoted"), ("now", "nothing found")]
        ws.update()
        assert len(ws.store.fetch(recorded)) == 3


def test_a_sync_that_died_delivers_no_row_twice(warm: Path, project: Path) -> None:
    with closing(sqlite3.connect(warm / "warmstart.db", isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        run_hook("UserPromptSubmit", prompt(project))
        connection.execute("ROLLBACK")
    row = (warm / "outbox.jsonl").read_bytes()
    with warmstart.open(home=warm) as ws:
        ws.update()
        (warm / "outbox.sending.jsonl").write_bytes(row + b"{damaged")
        ws.update()
        assert ws.store.fetch("SELECT count(*) FROM preflight_turns") == [(1,)]


def test_a_locked_store_costs_neither_the_rules_nor_the_brief(warm: Path, project: Path) -> None:
    (warm / "config.toml").unlink()
    rule = "Never touch the migrations by hand."
    line = {
        "type": "user", "uuid": "u1", "sessionId": "now", "timestamp": "2026-09-03T08:12:00.000Z",
        "cwd": str(project), "version": "2.1.0", "message": {"role": "user", "content": rule},
    }  # fmt: skip
    log = project / "now.jsonl"
    log.write_text(json.dumps(line) + "\n", encoding="utf-8")
    compacted = {"session_id": "now", "cwd": str(project), "source": "compact", "transcript_path": str(log)}
    first = {"session_id": "h", "cwd": str(project), "model": "m", "is_first": True, "mode": None, "message": QUESTION}
    with closing(sqlite3.connect(warm / "warmstart.db", isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        assert rule in context(run_hook("SessionStart", compacted))
        assert "surge.py" in str(run_hook("turn", first, host="hermes"))
        connection.execute("ROLLBACK")
    assert [run.get("error") for run in read_runs(warm, "claude-code")] == [None]


def test_the_log_has_neither_the_prompt_nor_the_environment(warm: Path, project: Path) -> None:
    (warm / "warmstart.db").write_bytes(b"SQLite format 3\0" + bytes(4096))
    run_hook("UserPromptSubmit", prompt(project, "the word is xyzzy"), SECRET_TOKEN="plugh-plugh-plugh")
    log = (warm / "warmstart.log").read_text(encoding="utf-8")
    assert "hook claude-code store" in log
    assert "xyzzy" not in log
    assert "plugh" not in log


def test_a_session_is_synced_in_the_background(warm: Path, project: Path, home: Path) -> None:
    folder = home / ".claude" / "projects" / "-harbour"
    folder.mkdir(parents=True)
    log = folder / "6a3f0c1e-0000-4000-8000-000000000001.jsonl"
    line = {
        "type": "user", "uuid": "u1", "sessionId": log.stem, "timestamp": "2026-09-03T08:12:00.000Z",
        "cwd": str(project), "version": "2.1.0", "message": {"role": "user", "content": "raise the harbour wall"},
    }  # fmt: skip
    log.write_text(json.dumps(line) + "\n", encoding="utf-8")
    assert run_hook("SessionEnd", {"session_id": log.stem, "cwd": str(project), "transcript_path": str(log)}) is None

    def is_synced() -> bool:
        with (warm / "hosts" / "sync.lock").open("a") as lock:  # the import holds it until it ends
            fcntl.flock(lock, fcntl.LOCK_EX)
        with warmstart.open(home=warm) as ws:
            return any(row.session.native_id == log.stem for row in ws.sessions.list(project=None))

    wait_until(is_synced)


def test_the_command_shows_what_a_hook_shows(warm: Path, project: Path) -> None:
    (warm / "config.toml").unlink()
    messages = (QUESTION, "how did we compute the surge last time?", f"{'— → ✓ a log line ' * 900}{QUESTION}", "ok")
    with warmstart.open(home=warm) as ws:
        for number, message in enumerate(messages):
            answer = run_hook("UserPromptSubmit", {**prompt(project, message), "session_id": f"s{number}"})
            shown = ws.preflight(message, project=str(project)).text
            assert context(answer).split("\n")[1:-1] == shown.split("\n")[1:-1]  # the frame names the session
