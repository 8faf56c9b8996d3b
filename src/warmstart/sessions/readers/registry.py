"""All readers, in the order in which they are tried on a log of unknown kind."""

from __future__ import annotations

from warmstart.sessions.readers.base import Reader
from warmstart.sessions.readers.claude_code import ClaudeCodeReader
from warmstart.sessions.readers.codex import CodexReader
from warmstart.sessions.readers.copilot import CopilotReader
from warmstart.sessions.readers.gemini import GeminiReader
from warmstart.sessions.readers.hermes import HermesReader
from warmstart.sessions.readers.openai import OpenAIReader
from warmstart.sessions.readers.opencode import OpenCodeReader


def readers() -> dict[str, Reader]:
    """Every reader by the name of its agent. `openai` is last: its format is the least marked."""
    known: list[Reader] = [
        ClaudeCodeReader(),
        CodexReader(),
        GeminiReader(),
        OpenCodeReader(),
        CopilotReader(),
        HermesReader(),
        OpenAIReader(),
    ]
    return {reader.agent: reader for reader in known}
