"""The conversion between values and the rows of `sessions`.

Every text is stored once, in `texts`, under its hash: a file that an agent reads ten times takes space only once, in
the store and in its index (`text_index.py`). The SQL of the tables is in `migrations`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any, Literal, NamedTuple

import msgspec

from warmstart.sessions.marks import MARK, TAG, without_ours
from warmstart.sessions.tables import to_time
from warmstart.sessions.values import CallOutcome, Message, Role, Session, ToolCall, ToolResult, Usage, clean
from warmstart.storage.compression import decompress
from warmstart.storage.database import Database, placeholders

# Increment it whenever a reader judges outcomes differently, so that `rejudge` updates the stored results.
OUTCOME_RULES = 3

SESSION_COLUMNS = (
    "id, agent, native_id, project, directory, branch, model, title, version, source, started_at, ended_at, parent_id, "
    "parent_kind, usage, outcome, evidence, judge"
)
MESSAGE_COLUMNS = "key, digest, native_id, role, flags, at, model, origin, usage"  # and the texts
_SESSION_FIELDS = SESSION_COLUMNS.split(", ")
_COMPACTION_SUMMARY, _INJECTED, _SIDECHAIN = 1, 2, 4
_DIGEST_SIZE = 12
_PAGE = 200  # messages read at a time

_decode_counts = msgspec.json.Decoder(list[int]).decode


class Row(NamedTuple):
    """A message as it is stored, with the hashes of its texts or the texts (see `read_rows`) instead of their ids."""

    key: bytes
    digest: bytes
    native_id: str
    role: Role
    flags: int
    at: float | None
    model: str
    origin: str
    usage: str | None
    text: Any
    reasoning: Any
    calls: list[tuple[str, str, Any]]  # id, name, arguments
    results: list[tuple[str, CallOutcome, Any, float | None, bool | None, int | None]]  # as `ToolResult`


def encode(agent: str, message: Message, bodies: dict[bytes, str]) -> Row:
    """The row of a message. Adds its texts to `bodies`, by hash."""
    flags = message.compaction_summary * _COMPACTION_SUMMARY
    has_mark = message.role == "user" and (MARK in message.text or TAG in message.text)
    ours = has_mark and not without_ours(message.text).strip()
    flags += (message.injected or ours) * _INJECTED + message.sidechain * _SIDECHAIN
    # A time in the first or the last year may be out of range in UTC.
    at = message.timestamp.timestamp() if message.timestamp and 1 < message.timestamp.year < 9999 else None
    usage = usage_json(message.usage) if message.usage else None
    native_id, role, model, origin = clean(message.native_id), message.role, clean(message.model), clean(message.origin)
    text, reasoning = hash_text(message.text, bodies), hash_text(message.reasoning, bodies)
    calls = [(clean(call.id), clean(call.name), hash_text(call.arguments, bodies)) for call in message.tool_calls]
    results = [
        (clean(each.call_id), each.outcome, hash_text(each.text, bodies), each.duration, each.flag, each.exit_code)
        for each in message.tool_results
    ]
    facts = (role, flags, at, model, usage, text, reasoning, calls, [(each[0], *each[2:]) for each in results])
    digest = blake2b(repr(facts).encode(), digest_size=_DIGEST_SIZE).digest()
    if results:
        digest = judged_digest(digest, [result.outcome for result in message.tool_results])
    key = message.stored_key or message_key(agent, message.native_id)
    return Row(key, digest, native_id, role, flags, at, model, origin, usage, text, reasoning, calls, results)


def message_key(agent: str, native_id: str) -> bytes:
    """The identity of a message, whichever session it appears in."""
    return blake2b(f"{agent}\0{native_id}".encode("utf-8", "replace"), digest_size=16).digest()


def judged_digest(digest: bytes, outcomes: Sequence[CallOutcome]) -> bytes:
    """The digest of the same message with these outcomes for its results.

    It ends with a letter per outcome, so that outcomes can be rejudged without hashing the rest again. Reading a log
    again with the same rules gives the stored digest, so the message is not written again, and a text that was
    redacted since does not come back. With other outcomes the digest differs, and the message is replaced.
    """
    return digest[:_DIGEST_SIZE] + "".join(outcome[0] for outcome in outcomes).encode()


def hash_text(body: str, bodies: dict[bytes, str]) -> bytes | None:
    """Add a text to `bodies` under its hash, and return the hash; `None` for an empty text."""
    if not body:
        return None
    try:
        raw = body.encode()
    except UnicodeEncodeError:
        raw = b"\0"
    if b"\0" in raw:
        body = clean(body)
        raw = body.encode()
    key = blake2b(raw, digest_size=16).digest()
    bodies[key] = body
    return key


def usage_json(usage: Usage) -> str:
    return f"[{usage.input},{usage.output},{usage.cache_read},{usage.cache_write},{usage.reasoning}]"


def read_rows(database: Database, session_id: str, texts: Literal["body", "hash"]) -> Iterator[tuple[int, Row]]:
    """The messages of a session in order, with their sequence numbers. `texts` says what replaces the text ids.

    They are read in pages, so that memory does not grow with the session. A body may be compressed.
    """
    after = -1
    while page := _read_page(database, session_id, after, f"t.{texts}"):
        yield from page
        after = page[-1][0]


def _read_page(database: Database, session_id: str, after: int, text: str) -> list[tuple[int, Row]]:
    columns = ", ".join(f"m.{name}" for name in MESSAGE_COLUMNS.split(", "))
    with database.translate_errors():
        run = database.connection.execute
        rows = run(
            f"SELECT m.seq, m.pk, {columns}, {text}, {text.replace('t.', 'r.')} FROM sessions s "
            "JOIN messages m ON m.session = s.pk LEFT JOIN texts t ON t.id = m.text "
            "LEFT JOIN texts r ON r.id = m.reasoning WHERE s.id = ? AND m.seq > ? ORDER BY m.seq LIMIT ?",
            (session_id, after, _PAGE),
        ).fetchall()
        pks = [row[1] for row in rows]
        calls: dict[int, list[Any]] = {pk: [] for pk in pks}
        results: dict[int, list[Any]] = {pk: [] for pk in pks}
        these = f"message IN ({placeholders(pks)}) ORDER BY message, position"
        if pks:
            for pk, *call in run(
                f"SELECT message, call_id, name, {text} FROM tool_calls LEFT JOIN texts t ON t.id = arguments "
                f"WHERE {these}",
                pks,
            ):
                calls[pk].append(tuple(call))
            for pk, *result, flag, code in run(
                f"SELECT message, call_id, outcome, {text}, duration, flag, exit_code FROM tool_results "
                f"LEFT JOIN texts t ON t.id = text WHERE {these}",
                pks,
            ):
                results[pk].append((*result, None if flag is None else bool(flag), code))
    return [(row[0], Row._make((*row[2:], calls[row[1]], results[row[1]]))) for row in rows]


def to_message(row: Row) -> Message:
    """The message in a row that was read with its texts."""
    return Message(
        native_id=row.native_id,
        role=row.role,
        text=decompress(row.text) or "",
        reasoning=decompress(row.reasoning) or "",
        tool_calls=tuple(ToolCall(id=call[0], name=call[1], arguments=decompress(call[2]) or "") for call in row.calls),
        tool_results=tuple(map(to_result, row.results)),
        timestamp=to_time(row.at),
        model=row.model,
        usage=_to_usage(row.usage),
        compaction_summary=bool(row.flags & _COMPACTION_SUMMARY),
        injected=bool(row.flags & _INJECTED),
        sidechain=bool(row.flags & _SIDECHAIN),
        origin=row.origin,
    )


def to_result(row: Sequence[Any]) -> ToolResult:
    """A tool result from its row."""
    call_id, outcome, text, duration, flag, code = row
    text = decompress(text) or ""
    return ToolResult(call_id=call_id, outcome=outcome, text=text, duration=duration, flag=flag, exit_code=code)


def to_session(row: Sequence[Any]) -> Session:
    """A session from a row of `SESSION_COLUMNS`."""
    fields = dict(zip(_SESSION_FIELDS, row, strict=True))
    stored_id = fields.pop("id")
    fields["started_at"] = to_time(fields["started_at"])
    fields["ended_at"] = to_time(fields["ended_at"])
    fields["usage"] = _to_usage(fields["usage"])
    session = Session(**fields)
    return session if session.id == stored_id else replace(session, stored_id=stored_id)


def _to_usage(text: str | None) -> Usage | None:
    if text is None:
        return None
    counts = _decode_counts(text)
    return Usage(input=counts[0], output=counts[1], cache_read=counts[2], cache_write=counts[3], reasoning=counts[4])
