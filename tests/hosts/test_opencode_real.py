"""The real OpenCode: how it starts without a network, compactions, subagents, and a plugin whose process hangs."""

from __future__ import annotations

from pathlib import Path

from tests.hosts.clients import MARKS, OpenCode
from tests.hosts.scenario import ours
from warmstart.sessions.values import Usage
from warmstart.testing.model import Reply

pytestmark = MARKS

CONSTRAINT = "Never touch the files under vendor/, and only use Python 3.11."
MAX_DELAY = 2.0  # seconds that a start may take longer with us where a start alone takes no longer than that


def test_it_starts_as_fast_as_without_us_when_offline(opencode: OpenCode) -> None:
    """OpenCode has never been online here: without our stand-in, a plugin makes it wait for more than a minute."""
    without, with_us = [], []
    for _ in range(3):
        without.append(opencode.ask("Hello.").seconds)
        opencode.install()
        turn = opencode.ask("Hello.")
        with_us.append(turn.seconds)
        assert ours(turn.requests[0])
        opencode.warmstart("uninstall", "opencode", "--yes")
    assert min(with_us) - min(without) < max(MAX_DELAY, min(without))


def test_a_process_of_ours_that_hangs_delays_the_turn_but_does_not_end_it(opencode: OpenCode) -> None:
    opencode.install()
    usual = opencode.ask("Hello.").seconds
    plugin = opencode.home / ".config" / "opencode" / "plugin" / "warmstart.js"
    hanging = opencode.home / "bin" / "python"
    hanging.write_text("#!/bin/sh\nexec sleep 1000\n")
    hanging.chmod(0o755)
    text = plugin.read_text()
    plugin.write_text(text.replace(f'"{opencode.python}"', f'"{hanging}"'))
    assert plugin.read_text() != text
    turn = opencode.ask("Hello.")
    assert turn.text == "Done."
    assert ours(turn.requests[0]) == ""
    assert turn.seconds < 2 * usual + 60


def test_a_constraint_survives_a_compaction_and_titles_stay_clean(opencode: OpenCode) -> None:
    opencode.install()
    full = Usage(input=58_000, output=20)
    opencode.model.add(Reply(text="One.", usage=full))
    prompt = f"Let us work on the tide gauge. {CONSTRAINT}"
    session = opencode.ask(prompt).session_id
    opencode.resume(session, "What about the storm table?")
    after = opencode.resume(session, "Go on, please.").requests[0]
    assert "A title." in after.text  # the summary, for which OpenCode offers no tools
    assert CONSTRAINT in ours(after)
    errands = [request for request in opencode.model.requests if not request.tools]
    titles = [request for request in errands if "title generator" in request.text]
    (summary,) = [request for request in errands if request not in titles]
    assert all(ours(request) == "" for request in titles)
    assert CONSTRAINT in ours(summary)
    assert "Before you call a tool" not in summary.text  # what a session starts with


def test_a_subagent_gets_nothing(opencode: OpenCode) -> None:
    opencode.install()
    task = {"description": "look", "prompt": "Look around and report.", "subagent_type": "general"}
    opencode.model.add(Reply(when="send somebody", calls=[("task", task)]))
    turn = opencode.ask("Please send somebody.")
    child = [request for request in turn.requests if "Look around" in request.last_user_text]
    assert child
    assert all(ours(request) == "" for request in child)
    assert all(ours(request) for request in turn.requests if request not in child)
    assert list(Path(opencode.home / ".warmstart").glob("*.log")) == []
