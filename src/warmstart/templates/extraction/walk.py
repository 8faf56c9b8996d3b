"""A session as extraction sees it: the person's requests, and the calls that were made for each.

What Warmstart itself put in, compaction summaries, injected text and the talk of subagents are left out here, once, so
that no rule further on can meet them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from warmstart.profile.feedback import is_request, own_words
from warmstart.profile.profiler import Profiler
from warmstart.profile.values import Role
from warmstart.sessions.marks import is_marked_call, is_ours, without_ours
from warmstart.sessions.values import CallOutcome, Message, Session, ToolCall, ToolResult
from warmstart.templates.values import Source

# How hosts begin a summary of what went before, also where a log does not mark it as one.
_SUMMARY = re.compile(
    r"\s*(?:<(?:summary|conversation[_-]summary|compaction|state_snapshot)\b"
    r"|This session is being continued from a previous"
    r"|Another language model started to solve this problem|(?:#{1,3} )?(?:Summary|Recap) of (?:the|our"
    r"|this) (?:session|conversation"
    r"|previous conversation|chat)\b|The (?:following|text below) is a summary of (?:the|our|a) )",
    re.IGNORECASE,
)


class Taken(NamedTuple):
    """A call with its result, in its place: of which request (from 1, 0 before the first), from which message."""

    place: int
    turn: int
    call: ToolCall
    result: ToolResult | None
    source: Source
    role: Role = "run"
    signature: str = ""

    @property
    def outcome(self) -> CallOutcome:
        return self.result.outcome if self.result else "unknown"

    @property
    def text(self) -> str:
        """What the call came to, in the tool's words."""
        return self.result.text if self.result else ""


class Request(NamedTuple):
    """What the person asked for, in their own words: without what was pasted or put in by a machine."""

    turn: int
    text: str
    source: Source
    at: datetime | None


@dataclass(frozen=True, slots=True)
class Walk:
    """A session with all that may be carried from it. `messages` are those that somebody really wrote."""

    session: Session
    messages: tuple[Message, ...]
    requests: tuple[Request, ...]
    taken: tuple[Taken, ...]


def walk(session: Session, messages: Sequence[Message]) -> Walk:
    """The session as extraction sees it."""
    real = tuple(_theirs(message) for message in messages if not (message.sidechain or _is_machine(message)))
    requests: list[Request] = []
    for message in real:
        if is_request(message):
            source = Source(session.id, message.native_id)
            requests.append(Request(len(requests) + 1, own_words(message), source, message.timestamp))
    return Walk(session, real, tuple(requests), tuple(_taken(session, real)))


def _is_machine(message: Message) -> bool:
    return message.compaction_summary or message.injected or is_ours(message) or bool(_SUMMARY.match(message.text))


def _theirs(message: Message) -> Message:
    """The message without a note of ours that a host put into a longer text, such as its system prompt."""
    text = without_ours(message.text)
    return message if text == message.text else replace(message, text=text)


def _taken(session: Session, messages: Sequence[Message]) -> Iterator[Taken]:
    for step in Profiler().steps(session, messages):
        if step.call.name and not is_marked_call(step.call.id):
            role: Role = "edit" if step.role == "commit" else step.role
            source = Source(session.id, step.message_id)
            yield Taken(step.position, step.turn, step.call, step.result, source, role, step.signature)
