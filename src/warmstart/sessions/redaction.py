"""Sessions without their secrets: what a redactor is applied to before anything is stored."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from warmstart.redact.redactor import Redactor
from warmstart.sessions.rewriting import map_strings, strings_in
from warmstart.sessions.values import Message, Session


def redacted_message(message: Message, redactor: Redactor) -> Message:
    """The message with the secrets in its text, reasoning, arguments and results replaced."""
    texts = [
        message.text,
        message.reasoning,
        *(call.arguments for call in message.tool_calls),
        *(result.text for result in message.tool_results),
    ]
    # One look at all of it is cheaper than one at each part, and there is seldom anything to find.
    if not redactor.find("\n".join(filter(None, texts))):
        return message
    return replace(
        message,
        text=redactor.redact(message.text).text,
        reasoning=redactor.redact(message.reasoning).text,
        tool_calls=tuple(replace(call, arguments=redactor.redact(call.arguments).text) for call in message.tool_calls),
        tool_results=tuple(replace(result, text=redactor.redact(result.text).text) for result in message.tool_results),
    )


def redacted_session(session: Session, redactor: Redactor) -> Session:
    """The session with the secrets in its title, evidence and places replaced."""

    def clean(text: str) -> str:
        return redactor.redact(text).text

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
    return map_strings(value, lambda text: redactor.redact(text).text)
