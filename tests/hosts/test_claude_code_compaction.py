"""The real Claude Code compacts a conversation: the user's constraints survive word for word."""

from __future__ import annotations

import json

from tests.hosts.clients import MARKS, ClaudeCode
from tests.hosts.scenario import ours
from warmstart.sessions.values import Usage
from warmstart.testing.model import Reply, Request

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
