from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
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
    assert row["id"] in run(capsys, "handoff", "list", "--project", SESSION.project)
    assert json.loads(run(capsys, "handoff", "list", "--project", "elsewhere", "--json")) == []
    assert run(capsys, "handoff", "resume", row["id"]) == text == run(capsys, "handoff", "resume", str(out))
    assert json.loads(run(capsys, "handoff", "resume", session, "--json"))[0]["role"] == "user"
    assert json.loads(run(capsys, "handoff", "packet", session, "--json"))["constraints"] == 1
    [link] = json.loads(run(capsys, "handoff", "chain", session, "--json"))
    assert (link["session_id"], link["end_reason"]) == (session, "")
    assert session in run(capsys, "handoff", "chain", session)


def test_the_running_session_needs_no_id(
    histories: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        run(capsys, "handoff", "packet")
    assert "Missing argument 'SESSION'" in capsys.readouterr().err
    (log,) = (histories / ".claude").rglob("58e3c7d9*.jsonl")
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", log.stem)
    whole = log.read_bytes()
    log.write_bytes(b"".join(whole.splitlines(keepends=True)[:30]))
    first = run(capsys, "handoff", "packet")
    log.write_bytes(whole)
    assert run(capsys, "handoff", "packet") != first
    assert len(json.loads(run(capsys, "sessions", "list", "--all-projects", "--json"))) == 1


def test_a_packet_starts_a_fresh_session_of_any_host(
    session: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], subtests
) -> None:
    folder, programs = tmp_path / "the harbour's", tmp_path / "bin"
    folder.mkdir()
    programs.mkdir()
    for program in ("claude", "hermes", "codex"):
        (programs / program).write_text(
            f'#!/bin/sh\npwd > "{tmp_path}/pwd"\nprintf "%s\\0" "$@" > "{tmp_path}/words"\n'
        )
        (programs / program).chmod(0o755)
    warmstart_program = Path(sys.executable).parent
    monkeypatch.setenv("PATH", f"{programs}:{warmstart_program}:{os.environ['PATH']}")
    moved = replace(SESSION, native_id="moved", directory=str(folder))
    with warmstart.open() as ws:
        ws.store.append(moved, Talk("n").user('Chart `harbours` for $HOME. Never touch the "map".').messages)
    text = run(capsys, "handoff", "packet", moved.id)
    out = tmp_path / "packet.md"
    out.write_text(text)
    for host, options in {"claude-code": [], "hermes": ["chat", "-q"], "codex": []}.items():
        with subtests.test(host):
            line = run(capsys, "handoff", "resume", moved.id, "--host", host)
            runs = [sys.executable, "-m", "warmstart", "handoff", "resume", moved.id, "--host", host, "--run"]
            for words in (["sh", "-c", line], runs):
                subprocess.run(words, check=True, timeout=180)
                *got, prompt, _ = (tmp_path / "words").read_text().split("\0")
                assert (got, prompt.rstrip("\n")) == (options, text.rstrip("\n"))
                assert (tmp_path / "pwd").read_text().strip() == str(folder)
                (tmp_path / "words").unlink()
    line = run(capsys, "handoff", "resume", str(out), "--host", "codex")
    assert line == f'codex "$(warmstart handoff resume {out})"\n'
    found = json.loads(run(capsys, "handoff", "resume", str(out), "--host", "codex", "--json"))
    assert found == {"command": line.strip(), "messages": [{"role": "user", "content": text}]}


def test_an_agent_that_cannot_be_started_is_one_line(
    session: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    for code, words in {"1": ("--host", "codex", "--run"), "2": ("--run",)}.items():
        with pytest.raises(SystemExit, match=code):
            run(capsys, "handoff", "resume", session, *words)
        said = capsys.readouterr().err
        assert "there is no program 'codex' on the PATH" in said or "--run needs --host" in said


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
    for shown in (run(capsys, "handoff", "compare", session), run(capsys, "handoff", "score", session)):
        assert "constraints, word for word" in shown
        assert max(map(len, shown.splitlines())) <= 80


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
