"""Sessions without their secrets: what a redactor is applied to before anything is stored."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from warmstart.redact.redactor import Redactor
from warmstart.sessions.rewriting import map_strings, strings_in
from warmstart.sessions.values import Message, Session

_AT_ONCE = 65_536  # characters that are looked at together


def redacted_messages(messages: Iterable[Message], redactor: Redactor) -> Iterator[Message]:
    """The messages with the secrets in them replaced, in order.

    One look at many texts is cheaper than one at each, and there is seldom anything to find.
    """
    group: list[Message] = []
    texts: list[str] = []
    size = 0
    for message in messages:
        group.append(message)
        parts = _texts(message)
        texts += parts
        size += sum(map(len, parts))
        if size >= _AT_ONCE:
            yield from _looked_at(group, texts, redactor)
            group, texts, size = [], [], 0
    yield from _looked_at(group, texts, redactor)


def _looked_at(group: list[Message], texts: list[str], redactor: Redactor) -> Iterable[Message]:
    if not redactor.find("\n".join(texts)):
        return group
    return (redacted_message(message, redactor) for message in group)


def _texts(message: Message) -> list[str]:
    return [
        message.text,
        message.reasoning,
        *(call.arguments for call in message.tool_calls),
        *(result.text for result in message.tool_results),
    ]


def redacted_message(message: Message, redactor: Redactor) -> Message:
    """The message with the secrets in its text, reasoning, arguments and results replaced."""
    clean = redactor.clean
    return replace(
        message,
        text=clean(message.text),
        reasoning=clean(message.reasoning),
        tool_calls=tuple(replace(call, arguments=clean(call.arguments)) for call in message.tool_calls),
        tool_results=tuple(replace(result, text=clean(result.text)) for result in message.tool_results),
    )


def redacted_session(session: Session, redactor: Redactor) -> Session:
    """The session with the secrets in its title, evidence and places replaced."""
    clean = redactor.clean
    return replace(
        session,
        title=clean(session.title),
        evidence=clean(session.evidence),
        project=clean(session.project),
        branch=clean(session.branch),
        source=clean(session.source),
    )


def redacted_state(state: bytes, redactor: Redactor) -> Any:
    """A reader's state from JSON; it may hold a message that is not complete yet, whose secrets are replaced."""
    value = json.loads(state)
    # One look at all strings is cheaper than one at each, and there is seldom anything to find.
    if not redactor.find("\n".join(strings_in(value))):
        return value
    return map_strings(value, redactor.clean)
