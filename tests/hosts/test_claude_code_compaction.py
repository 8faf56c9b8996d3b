"""The real Claude Code compacts a conversation or hands it over: the user's constraints survive word for word."""

from __future__ import annotations

import json

from tests.hosts.clients import MARKS, ClaudeCode, Hermes
from tests.hosts.scenario import ours
from warmstart.sessions.values import Usage, session_id
from warmstart.testing.model import Reply, Request, ScriptedModel

pytestmark = MARKS

CONSTRAINT = "Never touch the files under vendor/, and only use Python 3.11."
ASKED = "create a detailed summary"
# A summary that has lost the constraint.
SUMMARY = Reply(when=ASKED, text="<summary>They talked about tides.</summary>", repeat=True)


def is_summary(request: Request) -> bool:
    return ASKED in request.last_user_text


def test_a_constraint_survives_a_manual_compaction(claude: ClaudeCode) -> None:
    secret = "ghp_" + "Zq7Lk2" * 6
    claude.install()
    claude.model.add(SUMMARY)
    session = claude.ask(f"Let us work on the tide gauge. {CONSTRAINT} Never print {secret} anywhere.").session_id
    claude.ask("What about the storm table?", "--resume", session)
    compaction = claude.ask("/compact keep the tides", "--resume", session)
    (request,) = compaction.requests
    assert is_summary(request)
    assert CONSTRAINT in ours(request)
    assert secret not in ours(request)
    text = claude.ask("Go on, please.", "--resume", session).requests[0].text
    assert "They talked about tides." in text
    assert "What about the storm table?" in text
    # As a rule, in the first request, and because Claude Code repeats what a hook said before a manual compaction.
    assert 2 <= text.count(CONSTRAINT) <= 3
    assert secret not in text
    records = map(json.loads, claude.log(session).read_text().splitlines())
    hooks = [json.dumps(record) for record in records if record.get("type") == "attachment"]
    assert hooks
    assert all(secret not in hook for hook in hooks)


def test_a_constraint_survives_an_automatic_compaction(claude: ClaudeCode) -> None:
    claude.install()
    claude.variables = {"CLAUDE_CODE_AUTO_COMPACT_WINDOW": "100000", "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE": "30"}
    full = Usage(input=170_000, output=20)
    claude.model.add(SUMMARY)
    claude.model.add(*(Reply(calls=[claude.shell("make test")], usage=full) for _ in range(2)), Reply(text="Finished."))
    turn = claude.ask(f"Let us work on the tide gauge. {CONSTRAINT}", "--model", "claude-sonnet-4-5")
    (place, *_) = [number for number, request in enumerate(turn.requests) if is_summary(request)]
    after = [request for request in turn.requests[place + 1 :] if not is_summary(request)]
    assert after
    for request in after:
        assert "They talked about tides." in request.text
        assert CONSTRAINT in ours(request)


def work(claude: ClaudeCode) -> str:
    """A session whose first turn has a constraint and creates a file."""
    path = claude.work / "tides.py"
    claude.model.add(
        Reply(calls=[("Write", {"file_path": str(path), "content": "HIGH = 7\n"})]), Reply(text="Written.")
    )
    session = claude.ask(f"Write the tide table. {CONSTRAINT}", "--allowedTools", "Write").session_id
    assert path.read_text() == "HIGH = 7\n"
    return session


def test_the_first_request_after_a_compaction_has_the_constraint_and_the_changed_files(claude: ClaudeCode) -> None:
    claude.install()
    claude.model.add(SUMMARY)
    session = work(claude)
    claude.ask("What about the storm table?", "--resume", session)
    claude.ask("/compact", "--resume", session)
    note = ours(claude.ask("Go on, please.", "--resume", session).requests[0])
    assert CONSTRAINT in note
    assert "- created tides.py (turn 1, sha256 " in note
    assert "> What about the storm table?" in note


def test_a_packet_of_claude_code_starts_a_session_of_hermes(claude: ClaudeCode) -> None:
    claude.install()
    old = session_id("claude-code", work(claude))
    claude.warmstart("sync")
    packet = json.loads(claude.warmstart("handoff", "packet", old, "--note", "the tests come next", "--json"))
    with ScriptedModel(errand="A title.") as model:
        hermes = Hermes(claude.home, model)
        hermes.configure()
        hermes.install()
        hermes.warmstart("handoff", "resume", packet["id"], "--host", "hermes", "--run", cwd=claude.home)
        request = next(request for request in model.requests if request.tools)
    assert packet["text"].strip() in request.text
    hermes.warmstart("sync")
    with claude.open() as ws:
        (row,) = (row for row in ws.store.list() if row.session.agent == "hermes")
        assert (row.session.parent_id, row.session.parent_kind) == (old, "handoff")
        assert CONSTRAINT in ws.handoffs.packet(row.id).text
        assert ws.handoffs.chain(old)[0]["packet"] == packet["id"]
