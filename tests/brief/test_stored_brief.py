"""The stored brief: what a start prints without building it, and what it must never outlive."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

import warmstart
from tests.preflight.conftest import talk
from tests.preflight.test_hook import ASKED, CODE, EDIT, context, run_hook, warm  # noqa: F401 - a fixture
from tests.waiting import wait_until
from warmstart import Warmstart
from warmstart.brief.brief_store import current_state, save_brief
from warmstart.preflight.prompt import block
from warmstart.storage.compression import decompress
from warmstart.templates.revoke import revoke

RULE = "Always write the surge heights in centimetres, never in feet."
MEMORY = "Reviews of the harbour go to Ada Quill."
FIELD = """
name = "brief"
kind = "field"
metric = "errors"
power = {baseline = 0.3, effect = 0.1, calls = 4}
sessions = 20
[arms.cold]
[arms.block]
"""
TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'brief%'"


def start(project: Path, session: str = "now", **more: Any) -> dict[str, Any]:
    return {"session_id": session, "cwd": str(project), "source": "startup", **more}


def stored(home: Path) -> list[Any]:
    """Every row of the tables with briefs."""
    with closing(sqlite3.connect(home / "warmstart.db")) as connection:
        tables = [name for (name,) in connection.execute(TABLES)]
        assert len(tables) == 3
        return [row for table in tables for row in connection.execute(f"SELECT * FROM {table}")]


def tables_with(home: Path, text: str) -> list[str]:
    """The tables that hold a text, compressed or not."""
    found = []
    with closing(sqlite3.connect(home / "warmstart.db")) as connection:
        query = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
        for (name,) in connection.execute(query).fetchall():
            values = [value for row in connection.execute(f'SELECT * FROM "{name}"') for value in row]
            if any(text in readable(value) for value in values):
                found.append(name)
    return found


def readable(value: object) -> str:
    if isinstance(value, bytes):
        with suppress(Exception):
            return str(decompress(value))
    return str(value)


@pytest.fixture
def ruled(warm: Path, project: Path) -> Path:  # noqa: F811
    """A home whose brief quotes a rule from one session."""
    with warmstart.open(home=warm) as ws:
        with ws.begin("ruled", project=str(project)) as run:
            talk(run, RULE, EDIT)
        ws.memory.set("reviews", MEMORY)
    assert RULE[:-1] in str(stored(warm))
    return warm


@pytest.fixture
def built(ruled: Path) -> Iterator[Warmstart]:
    with warmstart.open(home=ruled) as ws:
        yield ws


def test_a_start_prints_what_would_be_built(ruled: Path, project: Path, built: Warmstart) -> None:
    built.memory.backend.store(
        "default", "tide", "The tide table is in docs/tide.md", {"author": "codex", "project": str(project)}
    )
    built.memory.screen()
    for host in ("claude-code", "codex", "gemini-cli"):
        text = context(run_hook("SessionStart", start(project, host), host=host))
        assert text == built.begin(f"library-{host}", project=str(project), host="test").start_text
        assert MEMORY in text
        assert "noted by Codex" in text
        assert RULE in text


def test_a_subagent_starts_like_its_parent(ruled: Path, project: Path) -> None:
    for host in ("claude-code", "codex"):
        parent = context(run_hook("SessionStart", start(project, host), host=host))
        event = {"session_id": host, "cwd": str(project), "agent_id": "a1", "agent_type": "general-purpose"}
        assert context(run_hook("SubagentStart", event, host=host)) == parent
    with closing(sqlite3.connect(ruled / "warmstart.db")) as connection:
        shown = connection.execute("SELECT session FROM preflight_turns WHERE event = 'brief'").fetchall()
        assert shown == [("claude-code",), ("codex",)]


def test_a_start_loads_nothing_that_builds(ruled: Path, project: Path) -> None:
    run_hook("SessionStart", start(project))  # reads `config.toml`
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-EPc", CODE, "hook", "claude-code", "SessionStart"],
        input=json.dumps(start(project)).encode(),
        capture_output=True,
        check=True,
    )
    assert RULE.encode() in done.stdout
    modules = [line.rpartition(b"|")[2].strip().decode() for line in done.stderr.splitlines()]
    heavy = ("numpy", "msgspec", "psycopg", "dataclasses", "typing", "pathlib", "subprocess")
    ours = ("app", "run", "recall", "templates", "redact", "handoff", "profile", "config")
    unwanted = (*heavy, *(f"warmstart.{name}" for name in ours))
    assert [name for name in modules if name.startswith(unwanted)] == []
    assert len(modules) < 110


def delete_session(ws: Warmstart, session: str) -> None:
    ws.sessions.delete(session)


def revoke_session(ws: Warmstart, session: str) -> None:
    revoke(ws.templates.store, session)


def redact_store(ws: Warmstart, _: str) -> None:
    ws.store.rewrite(lambda text: text.replace("centimetres", "[redacted]"))


@pytest.mark.parametrize("take_back", [delete_session, revoke_session, redact_store])
def test_a_brief_never_outlives_its_sources(
    ruled: Path, project: Path, built: Warmstart, take_back: Callable[[Warmstart, str], None]
) -> None:
    session = next(row.id for row in built.sessions.list(project=None) if row.session.native_id == "ruled")
    take_back(built, session)
    found = tables_with(ruled, "centimetres")
    if take_back is revoke_session:  # the session itself stays
        found = [name for name in found if name.startswith("brief")]
    assert found == []
    text = context(run_hook("SessionStart", start(project)))
    assert "centimetres" not in text
    wait_until(lambda: "surge.py" in str(stored(ruled)))  # built again, from what is left
    assert "centimetres" not in str(stored(ruled))


def test_a_line_is_deleted_in_the_same_transaction_as_its_source(built: Warmstart, ruled: Path) -> None:
    session = next(row.id for row in built.sessions.list(project=None) if row.session.native_id == "ruled")
    connection = built.store.database.connection
    connection.execute("BEGIN")
    connection.execute("DELETE FROM sessions WHERE id = ?", (session,))
    assert "centimetres" not in str(connection.execute("SELECT text FROM brief_lines").fetchall())
    connection.execute("ROLLBACK")
    assert "centimetres" in str(stored(ruled))


def test_a_brief_that_was_being_built_does_not_bring_back_what_was_deleted(
    ruled: Path, project: Path, built: Warmstart
) -> None:
    state = current_state(built.store, str(project), "", {})
    brief = built.brief(project=str(project))
    session = next(row.id for row in built.sessions.list(project=None) if row.session.native_id == "ruled")
    built.sessions.delete(session)
    save_brief(built.store, brief, str(project), "", state)
    assert "centimetres" not in str(stored(ruled))


def test_a_memory_is_in_no_brief_once_it_is_deleted(ruled: Path, project: Path, built: Warmstart) -> None:
    assert MEMORY in context(run_hook("SessionStart", start(project)))
    assert built.memory.delete("reviews")
    assert tables_with(ruled, "Ada Quill") == []
    assert MEMORY not in context(run_hook("SessionStart", start(project)))


def test_a_memory_is_shown_as_soon_as_it_is_stored(ruled: Path, project: Path, built: Warmstart) -> None:
    built.memory.set("gauge", "The gauge of the northern harbour is broken.")
    assert "northern harbour" in context(run_hook("SessionStart", start(project)))


def test_the_lines_that_were_shown_are_recorded(ruled: Path, project: Path, built: Warmstart) -> None:
    run_hook("SessionStart", start(project, "new"))
    ((event, evidence),) = built.store.fetch("SELECT event, evidence FROM preflight_turns WHERE session = 'new'")
    assert event == "brief"
    keys = json.loads(evidence)
    lines = {row[0] for row in built.store.fetch("SELECT key FROM brief_lines")}
    assert lines < set(keys)
    assert [key.partition(":")[0] for key in keys if key not in lines] == ["memory"]


def test_a_locked_store_neither_delays_nor_swallows_a_start(ruled: Path, project: Path, built: Warmstart) -> None:
    with closing(sqlite3.connect(ruled / "warmstart.db", isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        assert RULE in context(run_hook("SessionStart", start(project, "new")))
        connection.execute("ROLLBACK")
    recorded = "SELECT event FROM preflight_turns WHERE session = 'new'"
    assert built.store.fetch(recorded) == []
    built.update()
    assert built.store.fetch(recorded) == [("brief",)]


def test_a_start_leaves_out_files_that_are_gone_and_has_the_brief_built_again(
    ruled: Path, project: Path, built: Warmstart
) -> None:
    (project / "package.json").write_text("{}", encoding="utf-8")
    (project / "src" / "surge.py").unlink()
    before = built.store.fetch("SELECT state FROM briefs")
    text = context(run_hook("SessionStart", start(project)))
    assert "surge.py" not in text
    assert RULE in text
    wait_until(lambda: built.store.fetch("SELECT state FROM briefs") != before)


def test_a_start_without_a_stored_brief_builds_it_for_the_next_one(
    ruled: Path, project: Path, built: Warmstart
) -> None:
    built.store.database.connection.execute("DELETE FROM briefs")
    assert RULE in context(run_hook("SessionStart", start(project)))
    wait_until(lambda: built.store.fetch("SELECT 1 FROM briefs"))


def test_a_new_branch_starts_with_the_last_brief(ruled: Path, project: Path, built: Warmstart) -> None:
    (project / ".git" / "HEAD").write_text("ref: refs/heads/tides\n", encoding="utf-8")
    assert RULE in context(run_hook("SessionStart", start(project)))
    wait_until(lambda: len(built.store.fetch("SELECT 1 FROM briefs")) == 2)


def test_a_session_in_a_worktree_builds_the_brief_of_its_branch(ruled: Path, project: Path, built: Warmstart) -> None:
    (project / ".git" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    tree, own = project / ".worktrees" / "tides", project / ".git" / "worktrees" / "tides"
    for folder in (tree, own):
        folder.mkdir(parents=True)
    (tree / ".git").write_text(f"gitdir: {own}\n", encoding="utf-8")
    (own / "commondir").write_text("../..\n", encoding="utf-8")
    (own / "HEAD").write_text("ref: refs/heads/tides\n", encoding="utf-8")
    with built.begin("tidal", project=str(tree)) as run:
        talk(run, "compute the tides of the northern harbours", EDIT)
    branches = "SELECT branch, state FROM briefs WHERE branch <> ''"
    states = dict(built.store.fetch(branches))
    assert states.keys() == {"main", "tides"}
    assert RULE in context(run_hook("SessionStart", start(tree)))
    assert dict(built.store.fetch(branches)) == states


def test_an_experiment_decides_what_a_session_starts_with(ruled: Path, project: Path, built: Warmstart) -> None:
    built.experiments.save(FIELD)
    assert RULE not in context(run_hook("SessionStart", start(project, "new")))
    assert built.store.fetch("SELECT count(*) FROM experiment_sessions WHERE session = 'new'") == [(1,)]


def test_no_row_is_written_for_a_template_that_cannot_be_chosen(ruled: Path, project: Path, built: Warmstart) -> None:
    run_hook("SessionStart", start(project))
    built.begin("library", project=str(project), host="test")
    assert built.store.fetch("SELECT count(*) FROM template_uses WHERE session IN ('now', 'library')") == [(0,)]


@pytest.mark.parametrize("content", [b"", b"garbage" * 1000])
def test_a_store_that_cannot_be_read_is_reported_once(ruled: Path, project: Path, content: bytes) -> None:
    for path in ruled.glob("warmstart.db*"):
        path.unlink()
    (ruled / "warmstart.db").write_bytes(content)
    first, second = (run_hook("SessionStart", start(project)) for _ in range(2))
    assert context(first) == context(second) == block("full", "claude-code")
    assert first
    assert "warmstart doctor" in first["systemMessage"]
    assert second
    assert "systemMessage" not in second


# -- beside a store on a server


@pytest.fixture
def served(home: Path, project: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Warmstart]:
    """A store on a server whose brief was stored on this machine."""
    monkeypatch.setenv("WARMSTART_STORE", postgres_url)
    (project / "src").mkdir()
    (project / "src" / "surge.py").touch()
    (home / ".warmstart").mkdir()
    with warmstart.open() as ws:
        for name in ("past-1", "past-2", "ruled"):
            with ws.begin(name, project=str(project)) as run:
                talk(run, RULE if name == "ruled" else ASKED, EDIT)
        ws.memory.set("reviews", MEMORY)
        ws.store_brief(str(project))
        yield ws


def copies(home: Path) -> str:
    """What is in the files with copies, which only their owner may read."""
    paths = [*home.glob(".warmstart/hosts/briefs/*")]
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in paths)
    return "\n".join(path.read_text(encoding="utf-8") for path in paths)


def test_a_start_reads_its_copy_of_a_store_on_a_server(served: Warmstart, home: Path, project: Path) -> None:
    assert RULE in copies(home)
    assert MEMORY not in copies(home)  # it is in a file that the hook can read
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-EPc", CODE, "hook", "claude-code", "SessionStart"],
        input=json.dumps(start(project)).encode(),
        capture_output=True,
        check=True,
    )
    text = context(json.loads(done.stdout))
    assert text == served.begin("library", project=str(project), host="test").start_text
    assert MEMORY in text
    assert os.environ["WARMSTART_STORE"] not in (home / ".warmstart/hosts/settings.json").read_text(encoding="utf-8")
    assert b"psycopg" not in done.stderr
    assert b"warmstart.app" not in done.stderr
    recorded = "SELECT event FROM preflight_turns WHERE session = 'now'"
    served.update()
    assert served.store.fetch(recorded) == [("brief",)]


@pytest.mark.parametrize("take_back", [delete_session, revoke_session, redact_store])
def test_a_copy_never_outlives_its_sources(
    served: Warmstart, home: Path, project: Path, take_back: Callable[[Warmstart, str], None]
) -> None:
    assert "centimetres" in copies(home)
    session = next(row.id for row in served.sessions.list(project=None) if row.session.native_id == "ruled")
    take_back(served, session)
    assert copies(home) == ""
    assert "centimetres" not in context(run_hook("SessionStart", start(project)))


def test_a_memory_on_a_server_is_in_no_copy_once_it_is_deleted(
    served: Warmstart, home: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARMSTART_MEMORY_BACKEND", "postgres")
    with warmstart.open() as ws:
        ws.memory.set("reviews", MEMORY)
        ws.store_brief(str(project))
        assert MEMORY in copies(home)
        assert MEMORY in context(run_hook("SessionStart", start(project)))
        ws.memory.delete("reviews")
        assert MEMORY not in copies(home)
        assert MEMORY not in context(run_hook("SessionStart", start(project)))


def test_an_experiment_deletes_the_copies(served: Warmstart, home: Path, project: Path) -> None:
    served.experiments.save(FIELD)
    assert copies(home) == ""
    served.store_brief(str(project))
    assert copies(home) == ""
