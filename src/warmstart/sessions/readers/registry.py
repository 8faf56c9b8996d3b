"""All readers, in the order in which they are tried on a log of unknown format.

Another package adds a reader with an entry point in the group `warmstart.readers`: a class without parameters that is a
`Reader`. The built-in ones come first.
"""

from __future__ import annotations

import logging
from functools import cache

from warmstart.sessions.readers.base import Reader
from warmstart.sessions.readers.claude_code import ClaudeCodeReader
from warmstart.sessions.readers.codex import CodexReader
from warmstart.sessions.readers.copilot import CopilotReader
from warmstart.sessions.readers.gemini import GeminiReader
from warmstart.sessions.readers.hermes import HermesReader
from warmstart.sessions.readers.openai import OpenAIReader
from warmstart.sessions.readers.opencode import OpenCodeReader

GROUP = "warmstart.readers"


@cache
def readers() -> dict[str, Reader]:
    """Every reader by the name of its agent. `openai` is the last of ours: its format has the fewest marks."""
    known: list[Reader] = [ClaudeCodeReader(), CodexReader(), GeminiReader(), OpenCodeReader(), CopilotReader()]
    found = {reader.agent: reader for reader in (*known, HermesReader(), OpenAIReader())}
    from importlib.metadata import entry_points  # slow to load

    for point in entry_points(group=GROUP):
        try:
            reader: Reader = point.load()()
            found.setdefault(reader.agent, reader)
        except Exception as error:  # another package's reader must not stop ours
            logging.getLogger("warmstart").warning("cannot load the reader %s: %s", point.value, error)
    return found
