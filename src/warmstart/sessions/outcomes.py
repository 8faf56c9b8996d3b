"""What a stored tool result comes to, by the rules of the reader that knows its agent.

A reader decides while it reads; `judge` decides the same again from what is stored, so that a better rule reaches old
sessions without their logs: `store.rejudge(judge, OUTCOME_RULES)`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from warmstart.sessions.values import CallOutcome, ToolResult

# Raised whenever a reader decides anything otherwise than before.
OUTCOME_RULES = 1


def judge(agent: str, tool: str, result: ToolResult) -> CallOutcome:
    """The outcome of a result of `tool` (empty where the call is not known); that of an unknown agent stands."""
    decide = _rules().get(agent)
    return decide(tool, result) if decide else result.outcome


@cache
def _rules() -> dict[str, Callable[[str, ToolResult], CallOutcome]]:
    # Whoever opens a store needs the number above, and few of them the readers, which take longer to import than it.
    from warmstart.sessions.readers import (
        chat,
        claude_code,
        claude_code_lines,
        codex,
        codex_items,
        copilot,
        gemini,
        gemini_messages,
        hermes,
        hermes_rows,
        openai,
        opencode,
    )

    return {
        claude_code.AGENT: claude_code_lines.outcome_of,
        codex.AGENT: codex_items.outcome_of,
        copilot.AGENT: copilot.outcome_of,
        gemini.AGENT: gemini_messages.outcome_of,
        hermes.AGENT: hermes_rows.outcome_of,
        openai.AGENT: chat.outcome_of,
        opencode.AGENT: opencode.outcome_of,
    }
