"""Between values and rows: how a message is identified, compared and taken apart, and put together again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec

from warmstart.sessions.values import CallOutcome, Message, Session, ToolCall, ToolResult, Usage, clean

COMPACTION_SUMMARY, INJECTED, SIDECHAIN = 1, 2, 4

_DIGEST = 12

SESSION_COLUMNS = (
    "id, agent, native_id, project, directory, branch, model, title, version, source, started_at, ended_at, parent_id, "
    "parent_kind, usage, outcome, evidence, judge"
)


class Text(NamedTuple):
    """A text and the hash it is stored under."""

    hash: bytes
    body: str


class Row(NamedTuple):
    """A message ready to be written."""

    key: bytes
    digest: bytes
    message: Message
    text: Text | None
    reasoning: Text | None
    arguments: tuple[Text | None, ...]
    results: tuple[Text | None, ...]

    def texts(self) -> list[Text]:
        parts = (self.text, self.reasoning, *self.arguments, *self.results)
        return [part for part in parts if part is not None]


_COUNTS = msgspec.json.Decoder(list[int]).decode


def message_key(agent: str, native_id: str) -> bytes:
    """The identity of a message, whichever session it is found in."""
    return blake2b(f"{agent}\0{native_id}".encode("utf-8", "replace"), digest_size=16).digest()


def encode(agent: str, message: Message) -> Row:
    """Take a message apart."""
    text, reasoning = encode_text(message.text), encode_text(message.reasoning)
    arguments = tuple(encode_text(call.arguments) for call in message.tool_calls)
    results = tuple(encode_text(result.text) for result in message.tool_results)
    facts = (
        message.role,
        flags(message),
        message.timestamp and message.timestamp.timestamp(),
        message.model,
        usage_json(message.usage),
        text and text.hash,
        reasoning and reasoning.hash,
        [(call.id, call.name, part and part.hash) for call, part in zip(message.tool_calls, arguments, strict=True)],
        [
            (result.call_id, part and part.hash, result.duration, result.flag, result.exit_code)
            for result, part in zip(message.tool_results, results, strict=True)
        ],
    )
    digest = blake2b(repr(facts).encode("utf-8", "replace"), digest_size=_DIGEST).digest()
    if results:
        digest = judged_digest(digest, [result.outcome for result in message.tool_results])
    key = message.stored_key or message_key(agent, message.native_id)
    return Row(key, digest, message, text, reasoning, arguments, results)


def judged_digest(digest: bytes, outcomes: Sequence[CallOutcome]) -> bytes:
    """The digest of the same message with these outcomes of its results.

    The outcomes stand at its end, a letter each, so that they can be decided anew without the rest. A log that is read
    again by the same rules then gives the digest that is stored: the message is neither written again, nor does its
    text come back where it was rewritten since. Other outcomes still make it another message, which replaces it.
    """
    return digest[:_DIGEST] + "".join(outcome[0] for outcome in outcomes).encode()


def encode_text(body: str) -> Text | None:
    """A text with its hash; nothing for an empty one."""
    if not body:
        return None
    try:
        raw = body.encode()
    except UnicodeEncodeError:
        raw = b"\0"
    if b"\0" in raw:
        body = clean(body)
        raw = body.encode()
    return Text(blake2b(raw, digest_size=16).digest(), body)


def flags(message: Message) -> int:
    return message.compaction_summary * COMPACTION_SUMMARY + message.injected * INJECTED + message.sidechain * SIDECHAIN


def usage_json(usage: Usage | None) -> str | None:
    if usage is None:
        return None
    return f"[{usage.input},{usage.output},{usage.cache_read},{usage.cache_write},{usage.reasoning}]"


def to_message(row: Sequence[Any], calls: Sequence[Sequence[Any]], results: Sequence[Sequence[Any]]) -> Message:
    """Put a message together from its row, the rows of its calls and those of its results."""
    native_id, role, marks, at, model, origin, usage, text, reasoning = row
    return Message(
        native_id=native_id,
        role=role,
        text=text or "",
        reasoning=reasoning or "",
        tool_calls=tuple(ToolCall(id=row[0], name=row[1], arguments=row[2] or "") for row in calls),
        tool_results=tuple(map(to_result, results)),
        timestamp=to_time(at),
        model=model,
        usage=_usage(usage),
        compaction_summary=bool(marks & COMPACTION_SUMMARY),
        injected=bool(marks & INJECTED),
        sidechain=bool(marks & SIDECHAIN),
        origin=origin,
    )


def to_result(row: Sequence[Any]) -> ToolResult:
    """Put a tool's result together from its row."""
    call_id, outcome, text, duration, flag, exit_code = row
    return ToolResult(
        call_id=call_id,
        outcome=outcome,
        text=text or "",
        duration=duration,
        flag=None if flag is None else bool(flag),
        exit_code=exit_code,
    )


def _usage(text: str | None) -> Usage | None:
    if text is None:
        return None
    counts = _COUNTS(text)
    return Usage(input=counts[0], output=counts[1], cache_read=counts[2], cache_write=counts[3], reasoning=counts[4])


def to_session(row: Sequence[Any]) -> Session:
    """Put a session together from a row of `SESSION_COLUMNS`."""
    names = (name.strip() for name in SESSION_COLUMNS.split(","))
    fields = dict(zip(names, row, strict=True))
    own = fields.pop("id")
    fields["started_at"] = to_time(fields["started_at"])
    fields["ended_at"] = to_time(fields["ended_at"])
    fields["usage"] = _usage(fields["usage"])
    session = Session(**fields)
    return session if session.id == own else replace(session, stored_id=own)


def to_time(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def to_seconds(time: datetime | None) -> float | None:
    return None if time is None else time.timestamp()
