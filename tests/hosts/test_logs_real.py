"""Real agents on a scripted model: what is read from their logs is what the script did, live and afterwards.

One conversation per agent goes through all that an agent does without a person: calls that work, fail and are refused,
resume, fork, compaction, a subagent, and `kill -9`. While it goes on, `sync --watch` reads along.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

import warmstart
from tests.hosts.clients import MARKS, create_project
from tests.hosts.gemini import GeminiCLI
from tests.hosts.read_only import SUMMARY, Cline, Pi, QwenCode
from tests.hosts.scenario import waiting, watching
from tests.waiting import wait_until
from warmstart.app import Warmstart
from warmstart.sessions.values import Message, Usage, session_id, steps
from warmstart.testing.model import Reply, ScriptedModel

pytestmark = MARKS

AGENTS = {agent.name: agent for agent in (GeminiCLI, QwenCode, Pi, Cline)}
FULL = Usage(input=900_000, output=20)
LONG = " ".join(str(7919 * number) for number in range(6_000))  # a compaction has to be worth it
TASK = "Look around and report."


@dataclass
class Told:
    """What a script did in one session: the words, and the outcome of each call with its exit code."""

    words: list[tuple[str, str]] = field(default_factory=list)
    outcomes: list[tuple[str, int | None]] = field(default_factory=list)

    def turn(self, client: Any, prompt: str, *replies: Reply, outcomes: Sequence[tuple[str, int | None]] = ()) -> str:
        """Tell the model what to answer, and note it."""
        client.model.add(*(replace(reply, when=reply.when or prompt) for reply in replies))
        self.words += [("user", prompt), *(("assistant", reply.text) for reply in replies if reply.text)]
        self.outcomes += outcomes
        return prompt


@contextmanager
def ready(name: str, home: Path) -> Iterator[Any]:
    """An agent whose model sums up when it is asked to."""
    replies = [
        Reply(when="produce the <state_snapshot>", text=SUMMARY, repeat=True),
        # Qwen Code asks the model whether a subagent may be sent.
        Reply(when="ALLOWED or BLOCKED", calls=[("respond_in_schema", {"shouldBlock": False})], repeat=True),
    ]
    with ScriptedModel(replies, errand=SUMMARY) as model:
        client = AGENTS[name](home, model)
        create_project(client.work)
        client.configure()
        try:
            yield client
        finally:
            client.stop()


def content(folder: Path) -> dict[str, Any]:
    """All sessions of a store with all that they hold."""
    if not (folder / "warmstart.db").exists():
        return {}
    with warmstart.open(home=folder) as ws:
        found = [each.session for each in ws.store.list()]
        return {each.id: (each.native_id, each.parent_id, list(messages(ws, each.id))) for each in found}


def messages(ws: Warmstart, id: str) -> Iterator[Message]:
    """Gemini CLI writes its context into two files of a resumed session, with different times."""
    for message in ws.store.messages(id):
        yield replace(message, timestamp=None) if message.injected else message


def talk(client: Any) -> tuple[str, dict[str, Told]]:
    """The conversation; returns the id of its main session, and what was said in each."""
    main, shell = Told(), client.shell
    told = {"main": main, "killed": Told()}
    calls = [shell("cat pipe")]
    # This comes first, because a new session of Gemini CLI may delete one that was resumed. It writes a
    # call down when it has ended.
    unfinished: list[tuple[str, int | None]] = [] if client.name == "gemini-cli" else [("unknown", None)]
    prompt = told["killed"].turn(client, "please be killed", Reply(text="Wait.", calls=calls), outcomes=unfinished)
    with waiting(client, *client.arguments(prompt)) as group:
        os.killpg(group, signal.SIGKILL)
    replies = [
        Reply(reasoning="Let me see.", text="Running.", calls=[shell("echo fine")]),
        Reply(calls=[shell("exit 3")]),
        Reply(text="Two at once.", calls=[shell("echo one"), shell("exit 4")]),
        Reply(calls=[("no_such_tool", {"x": 1})]),
        Reply(text="All done."),
    ]
    outcomes: list[tuple[str, int | None]] = [("ok", None), ("error", 3), ("ok", None), ("error", 4), ("error", None)]
    if client.denied:
        replies.insert(1, Reply(calls=[client.denied()]))
        outcomes.insert(1, ("rejected", None))
    if client.name == "cline":  # it compacts while a run goes on, never for an editor
        replies[-1:] = (
            Reply(text=f"One. {LONG}", calls=[shell("echo one")]),
            Reply(text=f"Two. {LONG}", calls=[shell("echo two")], usage=FULL),
            Reply(when="They counted.", text="All done."),
        )
        outcomes += [("ok", None)] * 2
    native_id = client.ask(main.turn(client, "please work now", *replies, outcomes=outcomes)).session_id
    client.resume(native_id, main.turn(client, "the second thing", Reply(text="Two.")))
    if client.fork:
        told["fork"] = Told()
        client.fork(native_id, told["fork"].turn(client, "a question aside", Reply(text="Aside.")))
    if client.subagent:
        calls = [client.subagent(TASK)]
        prompt = main.turn(
            client, "send somebody out", Reply(calls=calls), Reply(text="It found nothing."), outcomes=[("ok", None)]
        )
        told["subagent"] = Told()
        # A subagent of Gemini CLI ends with a call.
        calls = [("complete_task", {"report": REPORT})] if client.name == "gemini-cli" else []
        told["subagent"].turn(client, TASK, Reply(text="Looking.", calls=calls))
        client.resume(native_id, prompt)
    if client.compact:
        client.compact(native_id)
    elif client.name != "cline":  # by itself, when the context is full
        client.resume(native_id, main.turn(client, "count a lot", Reply(text=f"One. {LONG}")))
        client.resume(native_id, main.turn(client, "count on", Reply(text=f"Two. {LONG}", usage=FULL)))
    client.resume(native_id, main.turn(client, "what comes after", Reply(text="After.")))
    return native_id, told


REPORT = {"SummaryOfFindings": "Nothing.", "ExplorationTrace": ["x"], "RelevantLocations": []}


@pytest.mark.parametrize("name", AGENTS)
def test_what_is_read_is_what_the_script_did(name: str, home: Path, subtests: pytest.Subtests) -> None:
    live, cold = home / "live", home / "cold"
    with ready(name, home) as client, watching(client, live):
        if name == "gemini-cli":
            path = home / ".gemini" / "settings.json"
            path.write_text(
                path.read_text().replace('"general"', '"model": {"compressionThreshold": 0.01},\n "general"')
            )
        native_id, told = talk(client)
        client.variables = {"WARMSTART_HOME": str(cold)}
        client.warmstart("sync")
        wait_until(lambda: content(live) == content(cold), every=0.5)
    sessions = content(cold)
    main = session_id(name, native_id)
    kinds = {key: kind_of(key, main, *rest) for key, rest in sessions.items()}
    assert sorted(kinds.values()) == sorted(told)
    for key, (_, _, messages) in sessions.items():
        expected = told[kinds[key]]
        with subtests.test(kinds[key]):
            words = [
                (message.role, message.text)
                for message in messages
                if message.text and message.role in ("user", "assistant") and not message.injected
            ]
            if kinds[key] == "subagent":  # its prompt is the agent's own, around the task
                assert TASK in words[0][1]
                words[0] = ("user", TASK)
            assert words == expected.words
            found = [
                (step.outcome, (step.result.exit_code if step.result else None) or None) for step in steps(messages)
            ]
            assert found == expected.outcomes or kinds[key] == "subagent"
    (summary,) = [message for message in sessions[main][2] if message.compaction_summary]
    assert "They counted." in summary.text
    answers = [message for message in sessions[main][2] if message.role == "assistant"]
    assert answers[0].reasoning == "Let me see."
    assert answers[0].usage == Usage(input=1_000, output=20)


def kind_of(key: str, main: str, native_id: str, parent: str | None, messages: list[Any]) -> str:
    if key == main:
        return "main"
    if any(message.sidechain for message in messages):
        return "subagent"
    return "fork" if parent == main else "killed"


@pytest.mark.parametrize("name", ["cline"])
def test_calls_that_cline_may_not_make_are_rejected(name: str, home: Path) -> None:
    with ready(name, home) as client:
        told = Told()
        calls = [client.shell("touch denied")]
        prompt = told.turn(client, "please be refused", Reply(calls=calls), Reply(text="No."))
        native_id = client.ask(prompt, "--auto-approve", "false").session_id
        client.variables = {"WARMSTART_HOME": str(home / "cold")}
        client.warmstart("sync")
    messages = content(home / "cold")[session_id(name, native_id)][2]
    assert [step.outcome for step in steps(messages)] == ["rejected"]
    assert not (home / "work" / "denied").exists()
