from __future__ import annotations

import subprocess
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

import warmstart
from tests.handoff.talk import BEGAN, SESSION, Talk
from warmstart import Warmstart
from warmstart.errors import HandoffRefused
from warmstart.handoff.packet import GitState
from warmstart.handoff.store import read_git
from warmstart.sessions.values import Message, Session


def git(folder: Path, *words: str) -> str:
    author = ("-c", "user.name=Mara", "-c", "user.email=mara@example.org")
    done = subprocess.run(["git", *author, "-C", folder, *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_a_packet_is_made_again_from_its_session(opened: Warmstart, tmp_path: Path) -> None:
    ws, handoffs, repository = opened, opened.handoffs, tmp_path / "repository"
    subprocess.run(["git", "init", "-q", "-b", "main", repository], check=True)
    git(repository, "commit", "-q", "--allow-empty", "-m", "Begin")
    (repository / "a.py").write_text("x")
    head = git(repository, "rev-parse", "HEAD")[:12]
    session = replace(SESSION, directory=str(repository))
    talk = Talk().user("Never push. Add a storm table.").bash("make test")
    ws.store.append(session, talk.messages)
    first = handoffs.packet(SESSION.id, note="soon")
    assert f"branch main · head {head} · uncommitted: a.py" in first.text
    git(repository, "switch", "-q", "-c", "other")
    assert handoffs.packet(SESSION.id, note="soon") == first  # git is read once
    ws.store.append(session, talk.user("and a gauge").messages)
    assert handoffs.find(first.id[:6]) == first
    second = handoffs.packet(SESSION.id)
    assert "branch other" in second.text
    assert second.messages == [{"role": "user", "content": second.text}]
    assert [(row["id"], row["messages"], row["note"]) for row in handoffs.packets()] == [
        (second.id, 4, ""),
        (first.id, 3, "soon"),
    ]
    handoffs.compressed(SESSION.id)
    assert handoffs.find(first.id) == first
    assert handoffs.packet(SESSION.id) == second  # as when its first packet was made
    with pytest.raises(HandoffRefused, match="no packet and no session has the id 'nothing'"):
        handoffs.find("nothing")
    ws.store.delete(SESSION.id)
    assert handoffs.packets() == []


def test_a_packet_says_how_often_the_log_shows_a_compaction(opened: Warmstart) -> None:
    talk = Talk().user("Add a storm table.")
    opened.store.append(SESSION, talk.messages)
    assert "compressed" not in opened.handoffs.packet(SESSION.id).text
    for times in ("once, last at 2026-03-01T09:02:00Z", "2 times, last at 2026-03-01T09:04:00Z"):
        summary = talk.user("What happened so far.").messages.pop()
        talk.messages.append(replace(summary, compaction_summary=True))
        talk.user("Go on.")
        opened.store.append(SESSION, talk.messages)
        made = opened.handoffs.packet(SESSION.id)
        assert f"\n- context: compressed {times}\n" in made.text
        assert opened.handoffs.find(made.id) == made


def test_the_log_shows_the_state_where_git_cannot(tmp_path: Path) -> None:
    with warmstart.open(tmp_path / "store.db", home=tmp_path / "warm") as ws:
        talk = Talk().user("commit it").bash("git commit -m x", "[fix 1a2b3c4] x")
        ws.store.append(replace(SESSION, branch="fix"), talk.messages)
        assert "branch fix · head 1a2b3c4" in ws.handoffs.packet(SESSION.id).text


def test_git_is_read_from_a_working_tree(tmp_path: Path) -> None:
    assert read_git(str(tmp_path / "missing")) is None
    assert read_git(str(tmp_path)) is None
    subprocess.run(["git", "init", "-q", "-b", "main", tmp_path], check=True)
    (tmp_path / "a.py").write_text("x")
    assert read_git(str(tmp_path)) == GitState("main", "", ("a.py",))


def test_sessions_that_their_agent_compacted_are_found_newest_first(opened: Warmstart) -> None:
    for day, name in enumerate(("old", "new", "plain"), 1):
        talk = Talk(name).user("Add a storm table.")
        at = BEGAN + timedelta(days=day)
        summary = Message(native_id=name, role="user", text="Tides.", timestamp=at, compaction_summary=name != "plain")
        opened.store.append(replace(SESSION, native_id=name), [*talk.messages, summary])
    old, new = (replace(SESSION, native_id=name).id for name in ("old", "new"))
    assert opened.store.compacted(5) == [new, old]
    assert opened.store.compacted(1) == [new]


def test_sessions_without_times_are_linked_too(opened: Warmstart) -> None:
    parent, child = Session(agent="openai", native_id="p"), Session(agent="openai", native_id="c")
    opened.store.append(parent, [Message(native_id="p1", role="user", text="Add a storm table.")])
    packet = opened.handoffs.packet(parent.id)
    opened.store.append(child, [Message(native_id="c1", role="user", text=packet.text)])
    opened.update()
    assert opened.store.get(child.id).parent_id == parent.id


def test_a_session_that_began_with_a_packet_is_linked(opened: Warmstart) -> None:
    opened.store.append(SESSION, Talk().user("Add a storm table. Never push.").messages)
    handoffs = opened.handoffs
    packet = handoffs.packet(SESSION.id)
    at = BEGAN + timedelta(hours=1)
    begun = [
        Message(native_id=f"{name}0", role="user", text=text, timestamp=at + timedelta(minutes=number))
        for number, (name, text) in enumerate(
            (("a", packet.text), ("b", f"Go on:\n\n{packet.text}"), ("c", packet.text))
        )
    ]
    places = {"a": SESSION.project, "b": SESSION.project, "c": "/home/mara/elsewhere"}
    sessions = {name: Session(agent="codex", native_id=name, project=place) for name, place in places.items()}
    for name, message in zip(places, begun, strict=True):
        opened.store.append(sessions[name], [message, *Talk(name).bash("make test").messages])
    opened.update()
    links = {name: opened.store.get(one.id) for name, one in sessions.items()}
    assert {name: (one.parent_id, one.parent_kind) for name, one in links.items()} == {
        "a": (SESSION.id, "handoff"),
        "b": (SESSION.id, "handoff"),
        "c": (None, None),  # somebody pasted the packet of another project
    }
    assert links["a"].title == ""  # nothing of a packet is the user's words
    assert [(one["session_id"], one["packet"]) for one in handoffs.chain(sessions["b"].id)] == [
        (SESSION.id, packet.id),
        (sessions["b"].id, ""),
    ]
    assert [one.text for one in handoffs.ledger(sessions["a"].id).constraints] == ["Never push."]
    assert handoffs.automatic(sessions["a"].id) == []  # a person did it
    opened.store.append(replace(sessions["a"], parent_id="x", parent_kind="resume"), [begun[0]])
    assert opened.store.get(sessions["a"].id).parent_id == SESSION.id  # whatever its log says
