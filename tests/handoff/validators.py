"""The rules for messages of OpenAI's chat API and Anthropic's messages API, as their documentation states them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def check_openai(messages: Sequence[Mapping[str, Any]]) -> None:
    """Every tool call is answered right after its message, and every tool message answers such a call."""
    open_calls: set[str] = set()
    for number, message in enumerate(messages):
        role = message["role"]
        assert role in ("system", "developer", "user", "assistant", "tool")
        if role == "tool":
            assert message["tool_call_id"] in open_calls, f"message {number} answers no call"
            open_calls.remove(message["tool_call_id"])
            assert isinstance(message["content"], str)
            continue
        assert not open_calls, f"calls before message {number} have no result"
        calls = message.get("tool_calls") or []
        assert role == "assistant" or not calls
        assert calls or isinstance(message["content"], str)
        open_calls = {call["id"] for call in calls}
        assert len(open_calls) == len(calls)
    assert not open_calls


def check_anthropic(messages: Sequence[Mapping[str, Any]]) -> None:
    """The first message is the user's; results come first in the message after their calls, all of them, no others."""
    assert not messages or messages[0]["role"] == "user"
    calls: set[str] = set()
    for number, message in enumerate(messages):
        assert message["role"] in ("user", "assistant")
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        assert blocks, f"message {number} is empty"
        kinds = [block["type"] for block in blocks]
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        assert kinds[: len(results)] == ["tool_result"] * len(results), "results come first"
        assert set(results) == calls, f"message {number} has not the results of the calls before it"
        assert len(results) == len(set(results))
        assert message["role"] == "user" or not results
        assert all(block["text"].strip() for block in blocks if block["type"] == "text")
        calls = {block["id"] for block in blocks if block["type"] == "tool_use"}
        assert message["role"] == "assistant" or not calls
    assert not calls
