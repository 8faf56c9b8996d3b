"""Conversations in a few words, for tests of profiles."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import count
from typing import Any

from warmstart.sessions.values import CallOutcome, Message, ToolCall, ToolResult
from warmstart.testing.stores import at

_numbers = count(1)


def asked(text: str, minutes: float | None = None, **fields: Any) -> list[Message]:
    """A message of the person."""
    time = None if minutes is None else at(minutes)
    return [Message(**{"native_id": f"u{next(_numbers)}", "role": "user", "text": text, "timestamp": time, **fields})]


def did(
    tool: str,
    arguments: object = None,
    outcome: CallOutcome | None = "ok",
    text: str = "",
    *,
    minutes: float | None = None,
    took: float | None = None,
    **fields: Any,
) -> list[Message]:
    """A call and its result, `took` seconds later; without an outcome there is no result."""
    number = next(_numbers)
    given = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    time = None if minutes is None else at(minutes)
    later = None if minutes is None else at(minutes + (took or 0) / 60)
    made = ToolCall(id=f"c{number}", name=tool, arguments=given)
    messages = [
        Message(native_id=f"a{number}", role="assistant", tool_calls=(made,), timestamp=time, **fields),
    ]
    if outcome is not None:
        result = ToolResult(call_id=made.id, outcome=outcome, text=text)
        messages.append(Message(native_id=f"r{number}", role="tool", tool_results=(result,), timestamp=later))
    return messages


def bash(command: str, outcome: CallOutcome | None = "ok", text: str = "", **fields: Any) -> list[Message]:
    return did("Bash", {"command": command}, outcome, text, **fields)


def orphan(outcome: CallOutcome = "ok", text: str = "") -> list[Message]:
    """A result whose call is not in the log."""
    number = next(_numbers)
    result = ToolResult(call_id=f"lost{number}", outcome=outcome, text=text)
    return [Message(native_id=f"r{number}", role="tool", tool_results=(result,))]


def talk(*parts: Iterable[Message]) -> list[Message]:
    return [message for part in parts for message in part]
