"""What our process answers to the context engine in Hermes. `tests/hosts` has the real Hermes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import warmstart
from tests.sessions.readers.test_hermes import Hermes
from warmstart.handoff.packet import verify
from warmstart.hosts import hermes_handoff
from warmstart.sessions.values import session_id

RULE = "Never touch the files under vendor/."
FRESH = {"enabled": True, "mode": "fresh_session", "after_compressions": 2, "max_auto_handoffs": 1}


@pytest.fixture
def hermes(home: Path) -> Iterator[Hermes]:
    """A session in Hermes' database, under the home of the test."""
    folder = home / ".hermes"
    folder.mkdir()
    writer = Hermes(folder / "state.db", 22)
    with closing(writer.db):
        writer.session("s1", cwd=str(home))
        writer.say("user", f"Add a storm table. {RULE}")
        work(writer, 0)
        yield writer


def work(hermes: Hermes, first: int, session: str = "s1") -> None:
    for number in range(first, first + 8):
        hermes.call(number, f'{{"output": "{"gauge 17 is dry " * 400}", "exit_code": 0}}', session)


def ask(hermes: Hermes, event: str, **data: Any) -> dict[str, Any]:
    common = {"hermes_home": str(hermes.path.parent), "session_id": "s1", "settings": {}}
    return getattr(hermes_handoff, event)({**common, **data})  # type: ignore[no-any-return]


def compress(hermes: Hermes, session: str = "s1", *, rotates: bool = False, **settings: Any) -> dict[str, Any]:
    messages = [{name: row[name] for name in ("role", "content", "tool_call_id")} for row in hermes.loaded(session)]
    for message, row in zip(messages, hermes.loaded(session), strict=True):
        message["tool_calls"] = json.loads(row["tool_calls"] or "null")
    data = {"messages": messages, "tokens": 120_000, "target": 48_000, "rotates": rotates, "settings": settings}
    return ask(hermes, "compress", session_id=session, **data)


def compressed(hermes: Hermes, session: str = "s1", parent: str = "s1", packet: str = "", **settings: Any) -> str:
    data = {"parent": parent, "packet": packet, "settings": settings or None}
    return str(ask(hermes, "compressed", session_id=session, **data).get("notice"))


def rotate(hermes: Hermes, answer: dict[str, Any], old: str, new: str) -> None:
    """What Hermes does with an answer where sessions do not keep their id."""
    rows = hermes.loaded(old)
    hermes.db.execute("UPDATE sessions SET end_reason = 'compression' WHERE id = ?", (old,))
    hermes.clock += 1.5
    hermes.session(new, parent_session_id=old)
    kept = [{**(rows[place] if place is not None else {}), **changes} for place, changes in answer["messages"]]
    hermes.compact([{name: value for name, value in row.items() if name != "timestamp"} for row in kept], new)


def test_old_output_is_masked_and_every_other_message_stays_as_it_is(hermes: Hermes) -> None:
    answer = compress(hermes)
    assert [place for place, _ in answer["messages"]] == [*range(17)]
    changes = {place: change for place, change in answer["messages"] if change}
    assert all("left out here" in change["content"] for change in changes.values())
    assert {2, 4, 6, 8} <= changes.keys() < {*range(2, 17, 2)}
    assert answer["packet"] == ""


def test_what_saves_nothing_is_left_to_hermes(hermes: Hermes) -> None:
    hermes.session("s2")
    hermes.say("user", "Hello", "s2")
    assert compress(hermes, "s2") == {}


def test_a_handoff_is_off_by_default(hermes: Hermes) -> None:
    assert [compressed(hermes) for _ in range(5)] == [""] * 5
    assert not (hermes.path.parent / "handoffs").exists()


def test_prompt_user_writes_a_packet_and_tells_the_user(hermes: Hermes) -> None:
    prompt = {**FRESH, "mode": "prompt_user"}
    assert compressed(hermes, **prompt) == ""
    notice = compressed(hermes, **prompt)
    (path,) = (hermes.path.parent / "handoffs").glob("*.md")
    assert verify(path.read_text()) in notice
    assert RULE in path.read_text()


def test_a_session_that_keeps_its_id_is_compressed_as_ever_in_mode_fresh_session(hermes: Hermes) -> None:
    assert [compressed(hermes, **FRESH) for _ in range(4)] == [""] * 4
    assert not (hermes.path.parent / "handoffs").exists()
    with warmstart.open() as ws:
        assert ws.handoffs.packets() == []
        assert ws.handoffs.compressions(session_id("hermes", "s1")).prompts == 0
    rotate(hermes, compress(hermes, rotates=True, **FRESH), "s1", "s2")  # now Hermes may, and the count is whole
    with warmstart.open() as ws:
        ws.sync([hermes.path])
        assert len(ws.handoffs.automatic(session_id("hermes", "s2"))) == 1


def test_a_packet_says_how_often_hermes_compressed_the_context(hermes: Hermes) -> None:
    assert "compressed" not in packet_text(hermes)
    compressed(hermes)
    work(hermes, 8)
    compressed(hermes)
    text = packet_text(hermes)
    assert re.search(r"\n- context: compressed 2 times, last at \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\n", text)
    assert packet_text(hermes) == text
    compressed(hermes)
    with warmstart.open() as ws:
        assert ws.handoffs.find(verify(text)).text == text


def packet_text(hermes: Hermes) -> str:
    """The packet of the session, which was imported."""
    assert ask(hermes, "packet", note="", settings=True)["text"].startswith("Packet ")  # a plain `true` is fine too
    newest = max((hermes.path.parent / "handoffs").glob("*.md"), key=lambda path: path.stat().st_mtime_ns)
    return newest.read_text()


def test_a_session_that_hermes_made_is_linked_counted_once_and_bounded(hermes: Hermes) -> None:
    first = compress(hermes, rotates=True, **FRESH)
    assert first["packet"] == ""
    rotate(hermes, first, "s1", "s2")
    assert compressed(hermes, "s2", "s1", **FRESH) == ""
    work(hermes, 8, "s2")
    second = compress(hermes, "s2", rotates=True, **FRESH)
    assert [place for place, _ in second["messages"]][:3] == [None, None, 0]
    rotate(hermes, second, "s2", "s3")
    s2, s3 = (session_id("hermes", name) for name in ("s2", "s3"))
    assert f"continues in {s3}" in compressed(hermes, "s3", "s2", second["packet"], **FRESH)
    (path,) = (hermes.path.parent / "handoffs").glob("*.md")
    assert verify(path.read_text()) == second["packet"]
    with warmstart.open() as ws:
        assert [one.packet for one in ws.handoffs.automatic(s3)] == [second["packet"]]
        assert [one["end_reason"] for one in ws.handoffs.chain(s3)] == ["compression", "handoff", ""]
        assert ws.handoffs.ledger(s3).constraints[0].text == RULE
        results = [one for message in ws.store.messages(s2) for one in message.tool_results]
        assert len(results) == 8  # none of the copies
    work(hermes, 16, "s3")
    for number in range(3, 6):
        answer = compress(hermes, f"s{number}", rotates=True, **FRESH)
        assert answer["packet"] == ""
        rotate(hermes, answer, f"s{number}", f"s{number + 1}")
        assert compressed(hermes, f"s{number + 1}", f"s{number}", **FRESH) == ""
        work(hermes, 100 * number, f"s{number + 1}")


def test_a_handoff_that_was_cut_short_is_counted_with_the_next_import(hermes: Hermes) -> None:
    once = {**FRESH, "after_compressions": 1}
    rotate(hermes, compress(hermes, rotates=True, **once), "s1", "s2")
    work(hermes, 8, "s2")
    with warmstart.open() as ws:
        ws.sync([hermes.path])
        assert len(ws.handoffs.automatic(session_id("hermes", "s2"))) == 1
    assert compress(hermes, "s2", rotates=True, **once)["packet"] == ""


def test_wrong_settings_are_said_and_hand_nothing_over(hermes: Hermes, subtests: pytest.Subtests) -> None:
    for settings, said in (({"mode": "later"}, "prompt_user, fresh_session"), ({"often": True}, "unknown setting")):
        with subtests.test(settings):
            assert said in compressed(hermes, enabled=True, **settings)
            assert said in ask(hermes, "packet", note="", settings=settings)["text"]
    outside = {**FRESH, "after_compressions": 1, "handoff_artifact_dir": "../out"}
    assert compress(hermes, rotates=True, **outside)["packet"] == ""
    assert "handoff_artifact_dir" in ask(hermes, "packet", note="", settings=outside)["text"]


def test_a_packet_with_a_note_is_written_where_hermes_lives(hermes: Hermes) -> None:
    said = ask(hermes, "packet", note="the tests come next")["text"]
    (path,) = (hermes.path.parent / "handoffs").glob("*.md")
    assert f"Packet {verify(path.read_text())} (" in said
    assert str(path) in said
    assert "> the tests come next" in path.read_text()
