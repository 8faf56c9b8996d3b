from __future__ import annotations

import json
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.recall.stores import opened

from warmstart import Message, Session
from warmstart.sessions.sql_store import SQLiteSessionStore

KEYS = ["session_id", "native_id", "agent", "project", "date", "role", "score", "text", "message_ids"]


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where the store is: in the home directory, or on a server."""
    if request.param == "sqlite":
        return str(home / ".warmstart" / "warmstart.db")
    url = str(request.getfixturevalue("postgres_url"))
    monkeypatch.setenv("WARMSTART_STORE", url)
    return url


@pytest.fixture
def project(home: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two projects with sessions; the test runs in the first."""
    inside = home / "tides"
    (inside / ".git").mkdir(parents=True)
    (inside / "src").mkdir()
    monkeypatch.chdir(inside / "src")
    store = opened(place)
    for name, folder in (("mine", inside), ("other", home / "other")):
        kept = Session(agent="tester", native_id=name, project=str(folder), started_at=datetime(2026, 9, 1, tzinfo=UTC))
        texts = ("Which port does the database use?", "It listens on 5433.")
        store.append(
            kept,
            [
                Message(native_id=f"{name}{place}", role="assistant" if place else "user", text=text)
                for place, text in enumerate(texts)
            ],
        )
    store.close()
    return inside


def rows(run, *arguments):
    ran = run("recall", *arguments, "--json")
    assert ran.code == 0, ran.err
    return json.loads(ran.out)


def test_a_row_in_json_has_exactly_these_keys(run, project):
    (row,) = rows(run, "database ports")
    assert list(row) == KEYS
    assert (row["native_id"], row["project"], row["role"]) == ("mine", str(project), "user")
    assert row["date"] == "2026-09-01T00:00:00Z"
    assert row["message_ids"] == ["mine0", "mine1"]


def test_it_can_be_explained(run, project):
    (row,) = rows(run, "database ports", "--explain")
    assert list(row) == [*KEYS, "matched", "terms", "components"]
    assert set(row["matched"]) == {"database", "ports"}
    assert sum(row["components"].values()) == pytest.approx(row["score"], abs=0.01)
    assert "score" in run("recall", "database", "--explain").out


def test_words_need_no_quotes_and_the_command_may_be_named(run, project):
    assert rows(run, "database", "ports") == rows(run, "database ports") == rows(run, "search", "database ports")


def test_it_stays_in_the_project_of_the_current_directory(run, project):
    assert [row["native_id"] for row in rows(run, "database")] == ["mine"]
    assert [row["native_id"] for row in rows(run, "database", "--project", "../../other")] == ["other"]
    assert [row["native_id"] for row in rows(run, "database", "--project", "other")] == ["other"]
    assert {row["native_id"] for row in rows(run, "database", "--all-projects")} == {"mine", "other"}
    assert run("recall", "x", "--project", "other", "--all-projects").code == 2


def test_a_project_without_sessions_hints_at_the_others(run, project, home, monkeypatch):
    (home / "empty" / ".git").mkdir(parents=True)
    monkeypatch.chdir(home / "empty")
    ran = run("recall", "database")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "No passages (project empty; --all-projects shows all).\n"
    monkeypatch.chdir(home)
    assert run("recall", "database").err == "2 passages (all projects).\n"
    assert run("recall", "zanzibar", "--all-projects").err == "No passages (all projects; try other words).\n"


def test_a_store_without_sessions_says_how_to_fill_it(run):
    assert "warmstart sync" in run("recall", "anything").err


def test_it_can_be_restricted(run, project):
    assert rows(run, "database", "--agent", "codex") == []
    assert len(rows(run, "database", "--agent", "codex", "--agent", "tester")) == 1
    assert rows(run, "database", "--since", "2026-09-02") == []
    assert len(rows(run, "database", "--all-projects", "--limit", 1)) == 1


def test_a_terminal_shows_dated_passages_with_what_matched(terminal, project):
    code, screen = terminal("recall", "database ports")
    assert code == 0
    assert "2026-09-01" in screen
    assert "\x1b[1mdatabase\x1b[0m" in screen
    assert "warmstart sessions show" in screen


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_a_search_loads_nothing_heavy(project):
    script = "import sys; from warmstart.cli import main; main(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"
    command = [sys.executable, "-c", script, "recall"]
    subprocess.run([*command, "index"], capture_output=True, check=True)
    ran = subprocess.run([*command, "database ports"], capture_output=True, check=True, text=True)
    assert "5433" in ran.stdout
    loaded = set(ran.stderr.split())
    assert "warmstart.recall.search" in loaded
    heavy = {"numpy", "msgspec", "rich", "logging", "hashlib", "tomllib", "concurrent.futures", "jsonschema", "jinja2"}
    assert heavy & loaded == set()
    assert {"warmstart.sessions.sql_store", "warmstart.profile.tools", "warmstart.recall.semantic"} & loaded == set()


def test_terminal_codes_in_a_text_do_not_act(run, home):
    store = SQLiteSessionStore(home / ".warmstart" / "warmstart.db")
    codes = Message(native_id="m", role="user", text="the \x1b[2J\x1b]0;title\agazebo [bold]x[/bold]")
    store.append(Session(agent="tester", native_id="codes"), [codes])
    store.close()
    out = run("recall", "gazebo", "--all-projects").out
    assert "\x1b[2J" not in out
    assert "\a" not in out
    assert "[bold]x[/bold]" in out


def test_the_index_is_updated_by_sync_and_can_be_rebuilt(run, synced):
    assert run("recall", "index").out == "The index is up to date.\n"
    assert run("recall", "index", "--rebuild").out == "8 sessions indexed.\n"
    assert json.loads(run("recall", "index", "--json").out) == {"sessions": 0, "embedder": None, "texts": 0}
    assert rows(run, "skerry", "point", "--all-projects")


def test_a_deleted_session_leaves_no_trace_in_the_index(run, project, home):
    (row,) = rows(run, "database")
    assert run("sessions", "delete", row["session_id"], "--yes", "--secure").code == 0
    assert rows(run, "database") == []
    assert len(rows(run, "database", "--all-projects")) == 1


def test_help_covers_queries_and_the_index(run):
    shown = run("recall", "--help").out
    assert 'warmstart recall "QUERY"' in shown
    assert "index" in shown
    assert run("recall").code in (0, 2)


# -- vectors


def test_vectors_are_made_searched_and_kept_up_to_date(run, project, place):
    ran = run("recall", "index", "--embedder", "wordllama", "--json")
    assert json.loads(ran.out) == {"sessions": 2, "embedder": "wordllama", "texts": 2}
    assert json.loads(run("recall", "index", "--json").out) == {"sessions": 0, "embedder": "wordllama", "texts": 0}
    (row,) = rows(run, "postgres listens", "--explain")
    assert row["components"].keys() == {"turn", "session", "vectors"}
    assert rows(run, "server socket number") == []  # no word of it occurs, and nothing is certainly similar
    with closing(opened(place)) as store:
        store.append(
            Session(agent="tester", native_id="new", project=str(project)),
            [Message(native_id="n", role="user", text="my puppy chewed the couch")],
        )
    (row,) = rows(run, "dog destroyed furniture", "--explain")
    assert (row["native_id"], list(row["components"])) == ("new", ["vectors"])
    assert run("sessions", "delete", row["session_id"], "--yes").code == 0
    assert rows(run, "dog destroyed furniture") == []


def test_an_unknown_embedder_is_one_line(run, project):
    for name in ("nonsense", "openai:model", "sentence-transformers:nothing-like-it"):
        ran = run("recall", "index", "--embedder", name)
        assert (ran.code, ran.out) == (1, "")
        assert len(ran.err.splitlines()) == 1


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_damaged_vectors_leave_word_search_working(run, project, home):
    run("recall", "index", "--embedder", "wordllama")
    path = home / ".warmstart" / "warmstart.vectors.db"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for each in path.parent.glob("*.vectors.db*"):
        each.unlink()
    path.write_bytes(b"no database at all, but long enough to be taken for one" * 100)
    ran = run("recall", "database ports")
    assert ran.code == 0
    assert "5433" in ran.out
    assert "Searching by words only" in ran.err
    assert "delete it and run" in ran.err
    checks = {check["subject"]: check for check in json.loads(run("doctor", "--json").out)}
    assert checks["vectors"]["status"] == "problem"
    assert json.loads(run("recall", "index", "--embedder", "wordllama", "--json").out)["texts"] == 2
    checks = {check["subject"]: check for check in json.loads(run("doctor", "--json").out)}
    assert checks["vectors"]["status"] == "ok"


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_another_programs_file_instead_of_vectors_is_unchanged(run, project, home):
    path = home / ".warmstart" / "warmstart.vectors.db"
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE theirs (value TEXT)")
    before = path.read_bytes()
    ran = run("recall", "index", "--embedder", "wordllama")
    assert ran.code == 1
    assert "another program" in ran.err
    assert run("recall", "database ports").code == 0
    (row,) = rows(run, "database ports")
    run("sessions", "delete", row["session_id"], "--yes")
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT count(*) FROM theirs").fetchone() == (0,)
    assert len(before) == path.stat().st_size


def test_what_was_replaced_says_so(run, project, place):
    with closing(opened(place)) as store:
        moved = Message(native_id="moved", role="assistant", text="We moved the database to port 5434.")
        session = Session(
            agent="tester", native_id="later", project=str(project), started_at=datetime(2026, 9, 2, tzinfo=UTC)
        )
        store.append(session, [moved])
    newest, old = rows(run, "which port does the database use")
    assert newest["text"].startswith("We moved the database to port 5434.")
    assert "replaced_by" not in newest
    assert old["replaced_by"] == {
        "session_id": newest["session_id"],
        "message_id": "moved",
        "date": "2026-09-02T00:00:00Z",
    }
    out = run("recall", "which port does the database use").out
    assert out.count("replaced on 2026-09-02") == 1
