"""Export a session: chat messages in OpenAI's format, readable Markdown, or JSON lines with everything."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Literal

import msgspec

from warmstart.sessions.values import Message, Session, steps

Format = Literal["openai", "markdown", "jsonl"]


def export(session: Session, messages: Iterable[Message], format: Format) -> Iterator[str]:
    """The session in pieces of text, in order."""
    if format == "openai":
        yield json.dumps(list(chat_messages(messages)), ensure_ascii=False, indent=2) + "\n"
    elif format == "markdown":
        yield from _markdown(session, messages)
    else:
        objects = ({"type": "message"} | as_object(message) for message in messages)
        for each in chain([{"type": "session", "id": session.id} | as_object(session)], objects):
            yield json.dumps(each, ensure_ascii=False) + "\n"


def as_object(value: Session | Message) -> dict[str, Any]:
    """A session or a message as a JSON object, without the fields that only the store needs."""
    return {name: part for name, part in msgspec.to_builtins(value).items() if not name.startswith("stored_")}


def chat_messages(messages: Iterable[Message]) -> Iterator[dict[str, Any]]:
    """Chat messages in the format of OpenAI's API; each tool result is a separate message."""
    for message in messages:
        for result in message.tool_results:
            yield {"role": "tool", "tool_call_id": result.call_id, "content": result.text}
        if message.role == "tool":
            continue
        chat: dict[str, Any] = {"role": message.role, "content": message.text}
        if message.tool_calls:
            chat["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in message.tool_calls
            ]
        yield chat


def _markdown(session: Session, messages: Iterable[Message]) -> Iterator[str]:
    listed = list(messages)
    calls = steps(listed)
    yield f"# {' '.join(session.title.split()) or session.native_id}\n\n"
    facts = (session.agent, session.model, session.project, session.started_at and session.started_at.isoformat())
    yield f"{' · '.join(fact for fact in facts if fact)}\n"
    for message in listed:
        when = f" · {message.timestamp:%Y-%m-%d %H:%M:%S}" if message.timestamp else ""
        mark = " · compaction summary" if message.compaction_summary else " · injected" if message.injected else ""
        if message.text or message.tool_calls:
            yield f"\n## {message.role}{when}{mark}\n\n"
        if message.text:
            yield f"{message.text}\n"
        for _ in message.tool_calls:
            step = next(calls)
            yield f"\n**{step.call.name}** ({step.outcome})\n\n{_fenced(step.call.arguments)}\n"
        for result in message.tool_results:
            if result.text:
                yield f"\nResult ({result.outcome}):\n\n{_fenced(result.text)}\n"


def _fenced(text: str) -> str:
    """The text in a code fence that is longer than any fence inside it."""
    fence = max(re.findall("`{3,}", text), default="``") + "`"
    return f"{fence}\n{text}\n{fence}"
