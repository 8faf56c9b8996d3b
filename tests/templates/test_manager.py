"""The templates of an open store under the names of the specification, on the shipped samples."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import warmstart
from warmstart import Warmstart
from warmstart.errors import InvalidTemplate, SessionNotFound
from warmstart.sessions.values import Message, Session
from warmstart.templates import SessionTemplates

SAMPLES = Path(warmstart.__file__).parent / "samples"
CODE, OTHER = "58e3c7d9", "3f0c1d52"
REQUEST = [{"role": "system", "content": "You watch tides."}, {"role": "user", "content": "Add a gauge."}]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a store with the samples."""
    path = tmp_path_factory.mktemp("filled") / "store.db"
    with warmstart.open(path) as opened:
        opened.sync([SAMPLES])
    return path.read_bytes()


@pytest.fixture
def ws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, filled: bytes) -> Iterator[Warmstart]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "store.db").write_bytes(filled)
    with warmstart.open(tmp_path / "store.db") as opened:
        yield opened


def test_a_template_is_created_found_injected_counted_and_deleted(ws: Warmstart) -> None:
    templates = SessionTemplates(ws)
    template = templates.create_template(CODE, task_type="code", description="Tide surges", tags=["tide", "db"])
    assert template is not None
    assert re.fullmatch(rf"code_{CODE}_\d{{8}}_\d{{6}}", template.name)
    assert (template.description, template.tags) == ("Tide surges", ("tide", "db"))
    assert templates.get_template("code") == template
    messages = templates.inject_into_messages(template, REQUEST)
    assert (messages[0], messages[-1]) == (REQUEST[0], REQUEST[-1])
    assert len(messages) > len(REQUEST)
    assert template.name in str(messages[1]["content"])
    stats = templates.get_template_stats()
    assert (stats["total"], stats["by_type"], stats["total_usage"]) == (1, {"code": 1}, 1)
    assert stats["total_examples"] == len(template.seed.of("example"))
    assert templates.delete_template(template.name)
    assert not templates.delete_template(template.name)
    assert ws.templates.get_template_stats() == {"total": 0, "by_type": {}, "total_examples": 0, "total_usage": 0}


def test_a_session_that_is_named_settles_the_use(ws: Warmstart) -> None:
    template = ws.templates.extract(CODE)
    first = ws.templates.inject_into_messages(template, REQUEST, session_id="mine")
    assert ws.templates.inject_into_messages(template, REQUEST, session_id="mine") == first
    assert ws.templates.get(template.id).used == 1


def test_the_least_used_template_of_a_type_with_any_tag_is_chosen(ws: Warmstart) -> None:
    older = ws.templates.extract(CODE, name="older", task_type="code", tags=["tide"])
    newer = ws.templates.extract(OTHER, name="newer", task_type="code", tags=["DB", "gauge"])
    assert [one.name for one in ws.templates.list_templates()] == ["newer", "older"]
    assert [one.name for one in ws.templates.list_templates("code", ["tide", "db"])] == ["newer", "older"]
    assert ws.templates.list_templates("code", ["db"]) == [newer]
    assert ws.templates.list_templates("research") == ws.templates.list_templates(tags=["storm"]) == []
    assert ws.templates.list_templates(project="/nowhere/else") == []
    ws.templates.inject_into_messages(newer, REQUEST)
    assert ws.templates.get_template("code") == older
    assert ws.templates.get_template("code", ["db", "nothing"]) == ws.templates.get("newer")
    assert ws.templates.get_template("file") is None


def test_a_template_that_is_not_active_is_neither_chosen_nor_injected(ws: Warmstart) -> None:
    template = ws.templates.extract(CODE, task_type="code")
    retired = ws.templates.store.change(template.id, author="mara", reason="old", state="retired")
    assert ws.templates.get_template("code") is None
    with pytest.raises(InvalidTemplate, match="retired"):
        ws.templates.inject_into_messages(retired, REQUEST)


def test_without_a_successful_call_there_is_no_template(ws: Warmstart) -> None:
    session = Session(agent="codex", native_id="talk", project="/srv/tides")
    rule = Message(native_id="m1", role="user", text="Always run the tests before you commit.")
    ws.store.append(session, [rule])
    assert ws.templates.create_template(session.id) is None
    assert ws.templates.list_templates() == []
    with pytest.raises(SessionNotFound):
        ws.templates.create_template("nothing")
