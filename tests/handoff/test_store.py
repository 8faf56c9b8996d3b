from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

import warmstart
from tests.handoff.talk import SESSION, Talk
from warmstart import Warmstart
from warmstart.errors import HandoffRefused
from warmstart.handoff.packet import GitState
from warmstart.handoff.store import Handoffs, read_git


def test_a_packet_is_made_again_from_its_session(opened: Warmstart) -> None:
    ws = opened
    talk = Talk().user("Never push. Add a storm table.").bash("make test")
    ws.store.append(SESSION, talk.messages)
    states = iter((GitState("main", "1a2b3c4", ("a.py",)), GitState("other")))
    handoffs = Handoffs(ws.store, ws.redactor, git=lambda directory: next(states))
    first = handoffs.packet(SESSION.id, note="soon")
    assert handoffs.packet(SESSION.id, note="soon") == first  # git is read once
    assert "branch main · head 1a2b3c4 · uncommitted: a.py" in first.text
    ws.store.append(SESSION, talk.user("and a gauge").messages)
    assert handoffs.find(first.id[:6]) == first
    second = handoffs.packet(SESSION.id)
    assert "branch other" in second.text
    assert handoffs.resume(second) == [{"role": "user", "content": second.text}]
    assert [(row["id"], row["messages"], row["note"]) for row in handoffs.packets()] == [
        (second.id, 4, ""),
        (first.id, 3, "soon"),
    ]
    with pytest.raises(HandoffRefused, match="no packet and no session has the id 'nothing'"):
        handoffs.find("nothing")
    ws.store.delete(SESSION.id)
    assert handoffs.packets() == []


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
