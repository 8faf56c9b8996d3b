"""The real Gemini CLI with Warmstart installed: what the model receives, what is stored, and what is on disk."""

from __future__ import annotations

import json
import time
import tomllib

from tests.hosts.clients import MARKS
from tests.hosts.gemini import GeminiCLI
from tests.hosts.scenario import FIRST, PORT, stored, work_once
from tests.waiting import wait_until
from warmstart.sessions.values import steps
from warmstart.testing.model import Reply

pytestmark = MARKS


def test_failing_calls_are_still_read_as_errors(gemini: GeminiCLI) -> None:
    client = gemini
    client.install()
    session_id = work_once(client)  # the hook at the end of the session imports it
    replies = [
        Reply(calls=[client.shell("exit 3"), client.shell("rm x"), client.shell("echo fine")]),
        Reply(text="Done."),
    ]
    client.model.add(*replies)
    client.resume(session_id, "And now?")
    stored(client)
    with client.open() as ws:
        found = [
            (step.outcome, step.result and step.result.exit_code) for step in steps(ws.sessions.messages(session_id))
        ]
    assert found == [("error", 127), ("ok", None), ("error", 3), ("rejected", None), ("ok", None)]


def test_what_was_imported_outlives_the_chats_that_gemini_deletes(gemini: GeminiCLI) -> None:
    client = gemini
    client.install()
    session_id = work_once(client)
    chats = client.home / ".gemini" / "tmp" / "work" / "chats"
    minute = time.localtime().tm_min
    wait_until(lambda: time.localtime().tm_min != minute, every=0.5)  # its files are named by the minute
    client.resume(session_id, "And now?")
    count = len(stored(client))
    client.ask("Another session.")
    assert list(chats.glob(f"*{session_id[:8]}*")) == []  # otherwise it no longer deletes them: say so in the docs
    assert len(stored(client)) > count
    with client.open() as ws:
        said = [message.text for message in ws.sessions.messages(session_id) if message.role == "user" and message.text]
    assert FIRST in said
    assert "And now?" in said
    checks = json.loads(client.warmstart("doctor", "--json"))
    about = {check["subject"]: check for check in checks if "gemini-cli" in check["subject"]}
    assert {check["status"] for check in about.values()} <= {"ok", "note"}, about


def test_the_command_finds_what_was_said(gemini: GeminiCLI) -> None:
    client = gemini
    client.install()
    work_once(client)
    # Without a terminal, a command is not expanded behind what hooks add; and somebody has to allow what it runs.
    command = tomllib.loads(client.config_files()[".gemini/commands/warm/recall.toml"])["prompt"]
    program = command.partition("!{")[2].partition(" ")[0]
    policy = client.home / ".gemini" / "policies" / "mine.toml"
    policy.write_text(policy.read_text().replace('"make"', f'"make", "{program} recall"'))
    client.variables = {"WARMSTART_DISABLED": "1"}
    turn = client.ask("/warm:recall tide gauge database port")
    assert PORT in turn.requests[0].text
    assert "Question: tide gauge database port" in turn.requests[0].text
