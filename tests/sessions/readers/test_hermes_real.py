"""The real Hermes Agent against a scripted model: what it writes is what the reader expects."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.hosts.clients import MARKS, Hermes
from warmstart.sessions.readers.base import Reading
from warmstart.sessions.readers.hermes import HermesReader
from warmstart.sessions.values import Message, Session, Usage
from warmstart.testing.model import Reply, ScriptedModel

pytestmark = MARKS

FULL = 120_000
Pairs = list[tuple[Session, Message]]


def command(line: str, prompt_tokens: int = 2_000) -> Reply:
    return Reply(calls=[("terminal", {"command": line})], usage=Usage(input=prompt_tokens, output=20))


def scripted(replies: list[Reply]) -> ScriptedModel:
    """Hermes asks for titles and summaries without offering tools."""
    return ScriptedModel(replies, errand="A plain summary of what was done.")


def chat(home: Path, model: ScriptedModel, prompt: str, *options: str, in_place: bool = True) -> None:
    """One turn."""
    hermes = Hermes(home, model)
    hermes.work.mkdir(exist_ok=True)
    hermes.configure(compression={"enabled": True, "in_place": in_place, "protect_first_n": 2, "protect_last_n": 4})
    hermes.ask(prompt, *options)


def read(home: Path, reading: Reading | None = None) -> Pairs:
    (path,) = HermesReader().find(home / ".hermes")
    assert HermesReader().claims(path, path.read_bytes()[:64])
    pairs = HermesReader().read(path, reading or Reading(path))
    return [(session, message) for session, message in pairs if message is not None]


def said(pairs: Pairs, role: str) -> list[str]:
    return [m.text for _, m in pairs if m.role == role and m.text and not m.compaction_summary]


def test_calls_of_a_real_session_have_their_outcomes(tmp_path: Path) -> None:
    replies = [
        command("echo fine"),
        command("exit 3"),
        Reply(calls=[("no_such_tool", {})], usage=Usage(input=700, output=20, cache_read=300)),
        command("grep absent /etc/hostname"),
        Reply(text="All done.", usage=Usage(input=600, output=20, cache_read=400)),
    ]
    with scripted(replies) as model:
        chat(tmp_path, model, "try a few things")
    pairs = read(tmp_path)
    session = pairs[0][0]
    assert session.project == str(tmp_path / "work")
    assert session.model == "scripted"
    assert pairs[-1][0].usage == Usage(input=7_300, output=100, cache_read=700)
    assert [message.role for _, message in pairs[:2]] == ["system", "user"]
    assert said(pairs, "user") == ["try a few things"]
    assert said(pairs, "assistant") == ["All done."]
    results = [message.tool_results[0] for _, message in pairs if message.tool_results]
    assert [(result.outcome, result.exit_code) for result in results] == [
        ("ok", 0),
        ("error", 3),
        ("error", None),
        ("ok", 1),
    ]
    calls = [call for _, message in pairs for call in message.tool_calls]
    assert [call.id for call in calls] == [result.call_id for result in results]


def test_a_real_subagent_has_its_parents_project(tmp_path: Path) -> None:
    """The subagent runs in the background: its parent waits for the file that it writes."""
    replies = [
        Reply(when="send somebody", calls=[("delegate_task", {"goal": "Look around."})]),
        Reply(when="send somebody", calls=[("terminal", {"command": "until [ -e seen ]; do sleep 0.1; done"})]),
        Reply(when="Look around.", calls=[("terminal", {"command": f"touch {tmp_path / 'work' / 'seen'}"})]),
        Reply(when="send somebody", text="Sent."),
    ]
    with scripted(replies) as model:
        chat(tmp_path, model, "send somebody")
    sessions = {session.native_id: session for session, _ in read(tmp_path)}.values()
    parent, child = sorted(sessions, key=lambda session: session.parent_kind == "subagent")
    assert (child.parent_id, child.parent_kind) == (parent.id, "subagent")
    assert child.project == parent.project == str(tmp_path / "work")
    assert parent.usage == Usage(input=3_000, output=60)


@pytest.mark.parametrize("in_place", [True, False])
def test_a_real_compaction_repeats_nothing_and_loses_nothing(tmp_path: Path, in_place: bool) -> None:
    replies = [command("echo 1"), command("echo 2"), Reply(text="one")]
    replies += [command("seq 1 300"), command("seq 1 300"), command("echo 3", FULL), command("echo 4", FULL)]
    replies += [Reply(text="two"), Reply(text="three"), command("echo 5", FULL), Reply(text="four")]
    database = tmp_path / ".hermes" / "state.db"
    database.parent.mkdir()
    database.touch()
    reading = Reading(database)
    along: Pairs = []
    with scripted(replies) as model:
        for prompt, options in (("go", []), ("go", ["--continue"]), ("go", ["--continue"]), ("more", ["--continue"])):
            chat(tmp_path, model, prompt, *options, in_place=in_place)
            along += read(tmp_path, reading)
    pairs = read(tmp_path)
    assert {m.native_id for _, m in pairs} == {m.native_id for _, m in along}
    assert said(pairs, "user") == ["go", "go", "go", "more"]
    assert said(pairs, "assistant") == ["one", "two", "three", "four"]
    calls = Counter(call.id for _, message in pairs for call in message.tool_calls)
    assert calls == Counter(f"call_scripted_{number:04d}" for number in range(1, 8))
    assert Counter(r.call_id for _, message in pairs for r in message.tool_results) == calls
    assert sum(message.compaction_summary for _, message in pairs) >= 2
    kinds = {session.parent_kind for session, _ in pairs}
    assert kinds == ({None} if in_place else {None, "compaction"})
    assert {session.project for session, _ in pairs} == {str(tmp_path / "work")}


def test_a_prompt_that_sets_off_a_real_compaction_is_kept_once(tmp_path: Path) -> None:
    replies = [command("echo 1"), Reply(text="one"), Reply(text="word " * 90_000), Reply(text="three")]
    with scripted(replies) as model:
        chat(tmp_path, model, "go")
        for _ in range(3):
            chat(tmp_path, model, "go", "--continue")
    pairs = read(tmp_path)
    assert any(message.compaction_summary for _, message in pairs)
    assert said(pairs, "user") == ["go"] * 4
