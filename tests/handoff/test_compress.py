"""Sessions are compressed, and a template holds what is left of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import warmstart
from tests.profile.talks import asked, bash, did, talk
from warmstart import Warmstart
from warmstart.errors import ConfigError, NothingToCarry, SessionNotFound
from warmstart.sessions.values import Message, Session
from warmstart.testing.stores import at

PROJECT = "/srv/gaugekit"


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Warmstart]:
    with warmstart.open(tmp_path / "store.db") as opened:
        yield opened


def work() -> list[Message]:
    """A session whose first calls have long outputs, followed by a lot of talk and one more call."""
    return talk(
        asked("Fix the tide reader. Always run the tests before you commit."),
        edit("src/tide.py"),
        asked("No, that is wrong, it reads the datum twice."),
        asked("See https://tides.example.org/datums for the datum."),
        bash("python -m pytest -q", "ok", "3 passed in 0.12s\n" * 400),
        *(turn for number in range(60) for turn in (asked(f"Explain part {number}."), answer(number))),
        asked("Now build the docs."),
        bash("make docs", "ok", "done"),
        bash("make docs", "ok", "done"),
    )


def edit(path: str) -> list[Message]:
    arguments = {"file_path": f"{PROJECT}/{path}", "old_string": "a", "new_string": "b"}
    return did("Edit", arguments, "ok", "The file has been updated.")


def answer(number: int) -> list[Message]:
    return [Message(native_id=f"answer{number}", role="assistant", text="tide gauge " * 60)]


def add(ws: Warmstart, name: str = "s1") -> Session:
    session = Session(agent="claude-code", native_id=name, project=PROJECT, ended_at=at(5))
    ws.store.append(session, work())
    return session


def texts(template: warmstart.WarmTemplate, kind: str) -> list[str]:
    return [item.text for item in template.seed.items if item.kind == kind]


def test_masking_leaves_every_call(ws: Warmstart) -> None:
    session = add(ws)
    template, (left,) = ws.compress(session.id, strategy="mask", budget_tokens=1000)
    assert left.session_id == session.id
    assert left.tokens_before - left.tokens_after > 2000
    assert template.seed.items == ws.templates.extract(session.id).seed.items


def test_what_neither_stays_nor_is_in_the_packet_is_not_carried(ws: Warmstart) -> None:
    session = add(ws)
    template, (left,) = ws.compress(session.id, strategy="ledger", budget_tokens=1000)
    assert left.tokens_after <= 1000 < left.tokens_before
    assert texts(template, "command") == ["make docs", "python -m pytest"]  # a message stays, and the packet names it
    assert texts(template, "file") == ["src/tide.py"]
    assert texts(ws.templates.extract(session.id), "correction") == ["No, that is wrong, it reads the datum twice."]
    assert texts(template, "correction") == []
    assert texts(template, "instruction") == ["Always run the tests before you commit."]
    assert ws.templates.get(template.id) == template


def test_the_default_budget_is_a_quarter_of_each_session(ws: Warmstart) -> None:
    first, second = add(ws, "s1"), add(ws, "s2")
    template, left = ws.compress(first.id, second.id, first.id, name="both", tags=("tide",))
    assert [one.session_id for one in left] == [first.id, second.id]
    assert all(one.tokens_after <= one.tokens_before // 4 for one in left)
    assert (template.name, template.tags, template.sources) == ("both", ("tide",), tuple(sorted((first.id, second.id))))


def test_nothing_is_saved_if_nothing_is_left(ws: Warmstart) -> None:
    session = Session(agent="claude-code", native_id="idle", project=PROJECT)
    ws.store.append(session, answer(1))
    with pytest.raises(NothingToCarry):
        ws.compress(session.id)
    with pytest.raises(ConfigError, match="forget"):
        ws.compress(session.id, strategy="forget")
    with pytest.raises(SessionNotFound):
        ws.compress("nothing")
    assert ws.templates.list_templates() == []
