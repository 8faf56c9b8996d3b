from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.handoff.talk import SESSION, Talk

import warmstart
from warmstart.cli import main
from warmstart.handoff.compact import compact
from warmstart.sessions.export import chat_messages
from warmstart.sessions.values import Message


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("WARMSTART_HOME", str(tmp_path / "warm"))
    talk = Talk().user("Add a storm table. Never touch the migrations.")
    for number in range(12):
        talk.bash(f"make test{number}", f"gauge {number} is dry\n" * 200)
    summary = "This session is being continued. The user wants a storm table; make test0 ran."
    talk.messages.append(Message(native_id="m99", role="user", text=summary, compaction_summary=True))
    with warmstart.open() as ws:
        ws.store.append(SESSION, talk.user("now the map").messages)
    return SESSION.id


def run(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    main(words)
    return capsys.readouterr().out


def test_a_packet_is_printed_written_listed_and_resumed(
    session: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = run(capsys, "handoff", "packet", session, "--note", "the tests come next")
    assert "- Never touch the migrations. (#1)" in text
    out = tmp_path / "packet.md"
    run(capsys, "handoff", "packet", session, "--note", "the tests come next", "--out", str(out))
    assert out.read_text() == text
    [row] = json.loads(run(capsys, "handoff", "list", "--json"))
    assert (row["session_id"], row["note"]) == (session, "the tests come next")
    assert row["id"] in run(capsys, "handoff", "list")
    assert run(capsys, "handoff", "resume", row["id"]) == text == run(capsys, "handoff", "resume", str(out))
    assert json.loads(run(capsys, "handoff", "resume", session, "--json"))[0]["role"] == "user"
    assert json.loads(run(capsys, "handoff", "packet", session, "--json"))["constraints"] == 1
    [link] = json.loads(run(capsys, "handoff", "chain", session, "--json"))
    assert (link["session_id"], link["end_reason"]) == (session, "")
    assert session in run(capsys, "handoff", "chain", session)


def test_a_wrong_name_or_a_changed_packet_is_one_line(
    session: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = tmp_path / "packet.md"
    changed.write_text(run(capsys, "handoff", "packet", session).replace("storm", "calm"))
    for words in (("resume", "nothing"), ("resume", str(changed)), ("packet", "nothing"), ("chain", "nothing")):
        with pytest.raises(SystemExit, match="1"):
            run(capsys, "handoff", *words)
        assert capsys.readouterr().err.count("\n") == 1


def test_scores_compare_packet_summary_and_strategies(session: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(run(capsys, "handoff", "score", session, "--json"))
    assert (found["score"]["constraints"], found["score"]["secrets"]) == (1.0, 0)
    [summary] = found["summaries"]
    assert summary["summary"]["constraints"] == 0.0
    assert summary["packet"]["constraints"] == 1.0
    assert "summary at #26" in run(capsys, "handoff", "score", session, "--strategy", "hybrid")
    names = [one["name"] for one in json.loads(run(capsys, "handoff", "compare", session, "--json"))["strategies"]]
    assert names == ["mask", "ledger", "hybrid"]
    assert "hybrid" in run(capsys, "handoff", "compare", session, "--budget", "4000")


def test_what_was_masked_is_brought_back(session: str, capsys: pytest.CaptureFixture[str]) -> None:
    with warmstart.open() as ws:
        chat = list(chat_messages(ws.store.messages(session)))
    masked = compact(chat, budget_tokens=9_000, session=session).messages[2]["content"]
    line = masked.split("`")[3]
    assert line == f"warmstart sessions show {session} --message c2"
    assert run(capsys, *line.split()[1:]) == "gauge 0 is dry\n" * 200 + "\n"
    assert "Never touch the migrations." in run(capsys, "sessions", "show", session, "--message", "1")
    assert json.loads(run(capsys, "sessions", "show", session, "--message", "#2", "--json"))["role"] == "assistant"
    with pytest.raises(SystemExit, match="1"):
        run(capsys, "sessions", "show", session, "--message", "400")
    assert "no message '400'; its messages are 1 to 27" in capsys.readouterr().err
