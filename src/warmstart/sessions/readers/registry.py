"""All readers, in the order in which they are tried on a log of unknown format.

Another package adds a reader with an entry point in the group `warmstart.readers`: a subclass of `Reader` that takes no
arguments. Our reader for pi is registered the same way. The other built-in readers come first, and `openai` last,
because its format is the least distinctive.
"""

from __future__ import annotations

import logging
from functools import cache

from warmstart.sessions.readers.base import Reader
from warmstart.sessions.readers.claude_code import ClaudeCodeReader
from warmstart.sessions.readers.cline import ClineReader
from warmstart.sessions.readers.codex import CodexReader
from warmstart.sessions.readers.copilot import CopilotReader
from warmstart.sessions.readers.gemini import GeminiReader
from warmstart.sessions.readers.hermes import HermesReader
from warmstart.sessions.readers.inspect import InspectReader
from warmstart.sessions.readers.openai import OpenAIReader
from warmstart.sessions.readers.opencode import OpenCodeReader
from warmstart.sessions.readers.qwen import QwenReader
from warmstart.sessions.values import CallOutcome, ToolResult

GROUP = "warmstart.readers"


def judge(agent: str, tool: str, result: ToolResult) -> CallOutcome:
    """The outcome of a stored result by the current rules; `tool` is empty if the call is unknown.

    `store.rejudge(judge, OUTCOME_RULES)` applies a better rule to old sessions without their logs.
    """
    reader = readers().get(agent)
    return reader.outcome_of(tool, result) if reader else result.outcome


@cache
def readers() -> dict[str, Reader]:
    """Every reader by the name of its agent."""
    known: list[Reader] = [ClaudeCodeReader(), CodexReader(), GeminiReader(), OpenCodeReader(), CopilotReader()]
    known += [HermesReader(), QwenReader(), ClineReader(), InspectReader(), OpenAIReader()]
    found = {reader.agent: reader for reader in known}
    from importlib.metadata import entry_points  # slow to load

    for point in entry_points(group=GROUP):
        try:
            reader: Reader = point.load()()
            found.setdefault(reader.agent, reader)
        except Exception as error:  # another package's reader must not stop ours
            logging.getLogger("warmstart").warning("cannot load the reader %s: %s", point.value, error)
    found["openai"] = found.pop("openai")  # must be last
    return found
