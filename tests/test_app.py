"""The front door: `warmstart.open()` and its methods, on the shipped samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import warmstart
from warmstart import Warmstart
from warmstart.errors import EntryNotFound, SessionNotFound

SAMPLES = Path(warmstart.__file__).parent / "samples"


@pytest.fixture
def ws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Warmstart]:
    monkeypatch.chdir(tmp_path)
    with warmstart.open(tmp_path / "store.db") as opened:
        opened.sync([SAMPLES])
        yield opened


def test_open_follows_the_settings_and_its_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARMSTART_HOME", str(tmp_path / "home"))
    with warmstart.open() as opened:
        assert opened.settings.store_path == tmp_path / "home" / "warmstart.db"
    with warmstart.open("other.db", home=tmp_path / "elsewhere") as opened:
        assert opened.settings.store_path == tmp_path / "elsewhere" / "other.db"


def test_sync_imports_indexes_and_profiles(ws: Warmstart) -> None:
    found = ws.sessions.list(project=None)
    assert len(found) == 8
    assert {row.outcome for row in found} == {"success", "unknown"}
    assert sum(row.tool_calls for row in found) == 102
    again = ws.sync([SAMPLES])
    assert again.changed == 0


def test_sync_reports_its_progress_step_by_step(tmp_path: Path) -> None:
    reported: dict[str, list[tuple[int, int]]] = {}

    @contextmanager
    def bar(name: str) -> Iterator[Callable[..., None]]:
        yield lambda done, total, *_: reported.setdefault(name, []).append((done, total))

    with warmstart.open(tmp_path / "store.db") as opened:
        opened.sync([SAMPLES], progress=bar)
    assert list(reported)[:2] == ["Reading", "Indexing"]
    assert all(done == total for done, total in (steps[-1] for steps in reported.values()))


def test_sessions_are_listed_by_project(ws: Warmstart) -> None:
    assert ws.sessions.list() == []  # the current directory is another project
    listed = ws.sessions.list(project="tidewatch", limit=2)
    assert [(row.id, row.title) for row in listed] == [(row.session.id, row.session.title) for row in listed]
    assert len(listed) == 2


def test_a_session_has_messages_steps_and_a_profile(ws: Warmstart) -> None:
    session = ws.sessions.get("58e3c7d9")
    assert next(iter(ws.sessions.messages("58e3c7d9"))).role == "user"
    steps = list(ws.sessions.steps("58e3c7d9"))
    assert len(steps) == ws.sessions.profile("58e3c7d9").markers.calls == 19
    ws.sessions.set_outcome("58e3c7d9", "failure", "it was reverted")
    assert (ws.sessions.get(session.id).outcome, ws.sessions.get(session.id).evidence) == ("failure", "it was reverted")
    ws.sessions.delete(session.id)
    with pytest.raises(SessionNotFound):
        ws.sessions.get(session.id)


def test_recall_stays_in_the_project_unless_it_is_widened(ws: Warmstart) -> None:
    question = "where are the constants of the Port Ellery gauge"
    assert ws.recall(question) == []
    best = ws.recall(question, project=None, limit=1)[0]
    assert "Port Ellery" in best.text
    assert ws.recall(question, project="tidewatch", limit=1)[0].session_id == best.session_id


def test_memory_is_set_searched_and_deleted(ws: Warmstart) -> None:
    ws.memory.set("database_port", "PostgreSQL listens on 5433", source="test")
    assert ws.memory.get("database_port") == "PostgreSQL listens on 5433"
    assert [entry.key for entry in ws.memory.search("which port")] == ["database_port"]
    assert [entry.metadata["source"] for entry in ws.memory.list()] == ["test"]
    assert ws.memory.delete("database_port")
    with pytest.raises(EntryNotFound):
        ws.memory.get("database_port")


def test_a_template_is_extracted_checked_saved_and_started_from(ws: Warmstart) -> None:
    template = ws.templates.extract("58e3c7d9", name="surges", author="mara")
    assert ws.templates.get("surges").id == template.id
    for project in (None, "tidewatch", template.project):
        assert [each.id for each in ws.templates.list(project=project)] == [template.id]
    assert ws.templates.list(project="/nowhere/else") == []
    assert ws.templates.store.versions(template.id)[0].author == "mara"
    messages = [{"role": "user", "content": "keep the storm surges in the database"}]
    started = ws.templates.start("new-session", messages, project="tidewatch", holdout=0.0)
    assert started.messages[-1] == messages[-1]
    assert len(started.messages) >= len(messages)
    ws.sessions.set_outcome("3f0c1d52", "failure")
    assert ws.templates.extract("3f0c1d52", name="failed").seed.tool_examples  # what worked in it is carried


def test_a_report_covers_the_chosen_sessions(ws: Warmstart) -> None:
    assert (ws.report().sessions, ws.report(project=None).sessions) == (0, 8)


def test_sync_extracts_the_items_that_a_brief_is_made_of(ws: Warmstart) -> None:
    count = "SELECT (SELECT count(*) FROM sessions), (SELECT count(*) FROM session_items)"
    sessions, extracted = ws.store.database.connection.execute(count).fetchone()
    assert sessions == extracted > 0
