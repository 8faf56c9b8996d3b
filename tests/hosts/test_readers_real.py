"""What Claude Code, Codex, Copilot CLI and OpenCode write is what their readers read: cold, and live while they work.

One session goes through everything that makes logs hard to read: failing and refused calls, calls in parallel, a
resumption, a fork, a subagent, a compaction and a kill. The script says what must come out.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import pytest

import warmstart
from tests.hosts.clients import MARKS, NEWEST
from tests.hosts.conftest import ready
from tests.hosts.scenario import waiting, watching
from tests.hosts.test_codex_real import app_server
from tests.waiting import wait_until
from warmstart.sessions.values import Usage, steps
from warmstart.testing.model import Reply

pytestmark = MARKS

FULL = Usage(input=58_000, output=20)
SUMMARY = "They counted."
TASK = {"description": "look", "prompt": "Look around and report."}


class Facts(NamedTuple):
    """What a session was, for comparison."""

    parent: str
    said: list[tuple[str, str]]
    outcomes: list[str]


def read_facts(home: Any) -> dict[str, Facts]:
    """All sessions of a store by their first words."""
    found = {}
    with warmstart.open(home=home) as ws:
        for row in ws.store.list():
            messages = list(ws.store.messages(row.session.id))
            spoken = [one for one in messages if one.role in ("user", "assistant") and one.text and not one.injected]
            own = [(message.role, message.text) for message in spoken if not message.compaction_summary]
            outcomes = [step.outcome for step in steps(messages)]
            found[own[0][1] if own else ""] = Facts(row.session.parent_kind or "", own, outcomes)
    return found


class Script:
    """What differs between the agents."""

    refused: tuple[str, dict[str, Any]]
    subagent: ClassVar[list[tuple[str, dict[str, Any]]]]
    reported = "Please send somebody."  # the last message of the user when the subagent has reported
    compaction: ClassVar[list[tuple[str, ...]]] = []  # what is said when the conversation is compacted

    def __init__(self, client: Any) -> None:
        self.client = client

    @property
    def can_fork(self) -> bool:
        return hasattr(self, "fork")

    def has_logged(self, session: str, text: str) -> bool:
        """Whether a text is in the log, where that takes the agent a moment."""
        return True


# What Codex does next tells it of the report, which comes a moment after it is in the log.
_UNTIL_REPORTED = "until grep -rqs 'Nothing here' $HOME/.codex/sessions; do sleep 0.1; done; sleep 1"


class CodexScript(Script):
    refused = ("exec_command", {"cmd": "echo no", "sandbox_permissions": "require_escalated", "justification": "x"})
    subagent: ClassVar = [  # which works in the background
        ("multi_agent_v1.spawn_agent", {"message": "Look around and report."}),
        ("exec_command", {"cmd": _UNTIL_REPORTED, "yield_time_ms": 30_000}),
    ]
    reported = "subagent_notification"

    def fork(self, session: str, prompt: str) -> None:
        with app_server(self.client) as server:
            thread = server.call("thread/fork", threadId=session)["thread"]["id"]
            server.run("turn/start", threadId=thread, input=[{"type": "text", "text": prompt}])

    def compact(self, session: str) -> None:
        self.client.model.add(Reply(when="CONTEXT CHECKPOINT COMPACTION", text=SUMMARY))
        with app_server(self.client) as server:
            server.call("thread/resume", threadId=session)
            server.run("thread/compact/start", threadId=session)

    def start(self, session: str, prompt: str) -> list[str]:
        return ["exec", "resume", session, prompt]


class ClaudeScript(Script):
    refused = ("Bash", {"command": "rm -rf nothing", "description": "run"})
    subagent: ClassVar = [("Task", {**TASK, "subagent_type": "general-purpose", "run_in_background": False})]

    def fork(self, session: str, prompt: str) -> None:
        self.client.ask(prompt, "--resume", session, "--fork-session")

    def compact(self, session: str) -> None:
        self.client.model.add(Reply(when="create a detailed summary", text=f"<summary>{SUMMARY}</summary>"))
        self.client.resume(session, "/compact")

    def start(self, session: str, prompt: str) -> list[str]:
        return ["-p", prompt, "--resume", session]

    def has_logged(self, session: str, text: str) -> bool:
        (path,) = (self.client.home / ".claude" / "projects").glob(f"*/{session}.jsonl")
        return text in path.read_text()


class CopilotScript(Script):
    refused = ("bash", {"command": "rm -rf nothing", "description": "run"})
    subagent: ClassVar = [("task", {**TASK, "agent_type": "general-purpose", "name": "a", "mode": "sync"})]

    def compact(self, session: str) -> None:
        self.client.model.add(Reply(when="create a detailed summary", text=SUMMARY))
        self.client.resume(session, "/compact")

    def start(self, session: str, prompt: str) -> list[str]:
        return ["-p", prompt, "--resume", session, *self.client.options]

    def has_logged(self, session: str, text: str) -> bool:
        return text in (self.client.home / ".copilot" / "session-state" / session / "events.jsonl").read_text()


class OpenCodeScript(Script):
    refused = ("bash", {"command": "rm -rf nothing", "description": "run"})
    subagent: ClassVar = [("task", {**TASK, "subagent_type": "general"})]
    compaction: ClassVar = [("A lot.", "Much.", "Done.")]

    def fork(self, session: str, prompt: str) -> None:
        self.client.ask(prompt, "--session", session, "--fork")

    def compact(self, session: str) -> None:
        self.client.model.add(Reply(text="Much.", when="A lot.", usage=FULL))
        self.client.resume(session, "A lot.")

    def start(self, session: str, prompt: str) -> list[str]:
        return ["run", "--session", session, *prompt.split(" ")]


SCRIPTS = {f"Claude {NEWEST}": ClaudeScript, "Codex": CodexScript, "Copilot": CopilotScript, "OpenCode": OpenCodeScript}


@pytest.fixture(params=SCRIPTS)
def script(request: pytest.FixtureRequest, home: Any) -> Iterator[Script]:
    with ready(home, request.param) as client:
        yield SCRIPTS[request.param](client)


def drive(script: Script) -> str:
    client, model = script.client, script.client.model
    work, more = "Please work.", "And more."
    model.add(
        Reply(when=work, text="Running.", calls=[client.shell("echo fine")]),
        Reply(when=work, calls=[client.shell("echo bad; exit 3")]),
        Reply(when=work, calls=[client.shell("echo one"), client.shell("echo two; exit 4")]),
        Reply(when=work, calls=[script.refused]),
        Reply(when=work, text="All done."),
        Reply(when=more, text="More."),
        Reply(when="A question aside.", text="Aside."),
        Reply(when="Look around", text="Looking.", calls=[client.shell("echo sub")]),
        Reply(when="Look around", text="Nothing here."),
        *(Reply(when="Please send somebody.", calls=[call]) for call in script.subagent),
        Reply(when=script.reported, text="It found nothing."),
        Reply(when="After it.", text="After."),
        Reply(when="Wait for it.", calls=[client.shell("cat pipe")]),
        Reply(when="Still there?", text="Yes."),
    )
    session = client.ask(work).session_id
    client.resume(session, more)
    if script.can_fork:
        script.fork(session, "A question aside.")
    client.resume(session, "Please send somebody.")
    script.compact(session)
    client.resume(session, "After it.")
    with waiting(client, *script.start(session, "Wait for it.")) as group:
        wait_until(lambda: script.has_logged(session, "cat pipe"), every=0.1)
        os.killpg(group, signal.SIGKILL)
    client.resume(session, "Still there?")
    return str(session)


def expected(script: Script) -> dict[str, Facts]:
    """What the script did."""
    turns = [
        ("Please work.", "Running.", "All done."),
        ("And more.", "More."),
        ("Please send somebody.", "It found nothing."),
        *script.compaction,
        ("After it.", "After."),
        ("Wait for it.",),
        ("Still there?", "Yes."),
    ]
    said = [each for user, *answers in turns for each in (("user", user), *(("assistant", text) for text in answers))]
    outcomes = ["ok", "error", "ok", "error", "rejected", *["ok"] * len(script.subagent), "unknown"]
    report = [("user", "Look around and report."), ("assistant", "Looking."), ("assistant", "Nothing here.")]
    facts = {"Please work.": Facts("", said, outcomes), "Look around and report.": Facts("subagent", report, ["ok"])}
    if script.can_fork:
        aside = [("user", "A question aside."), ("assistant", "Aside.")]
        facts["A question aside."] = Facts("branch", aside, [])
    return facts


def test_a_session_is_read_as_it_was(script: Script) -> None:
    client = script.client
    with watching(client, client.home / "live"):
        drive(script)
        client.warmstart("sync")
        assert read_facts(client.home / ".warmstart") == expected(script)
        wait_until(lambda: read_facts(client.home / "live") == expected(script), every=0.5)
