"""Lenient access to the fields of a log: a usable value or nothing, whatever the type; never an exception."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec

from warmstart.redact import redact
from warmstart.sessions.values import Usage

# From 2000 to 2200: a number outside is not a time, in seconds or in milliseconds.
_EARLIEST, _LATEST = 946_684_800.0, 7_258_118_400.0


def as_time(value: object) -> datetime | None:
    """The time in UTC of ISO 8601 text, or of seconds or milliseconds since 1970; `None` if it is neither."""
    if isinstance(value, str):
        try:
            parsed = datetime.fromisoformat(value)
            # A conversion to UTC or to seconds can overflow in the first and the last year.
            if not 1 < parsed.year < 9999:
                return None
            if parsed.tzinfo is UTC:
                return parsed
            return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
        except (ValueError, OverflowError):
            return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        # Divide only what can be a time: a large integer may not fit into a float.
        for seconds in (value, value / 1000 if 0 < value < _LATEST * 1000 else 0):
            if _EARLIEST <= seconds <= _LATEST:
                return datetime.fromtimestamp(seconds, UTC)
    return None


def as_text(value: object) -> str:
    """Text unchanged, nothing for `None`, JSON for everything else."""
    if isinstance(value, str):
        return value
    return "" if value is None else as_json(value)


def as_json(value: object) -> str:
    """The value as compact JSON."""
    try:
        return msgspec.json.encode(value).decode()
    except RecursionError:
        return "…"
    except (TypeError, ValueError, UnicodeError, msgspec.MsgspecError):
        return repr(value)


def as_str(value: object) -> str:
    """The value if it is text, otherwise empty text: for ids, names and paths."""
    return value if isinstance(value, str) else ""


def as_int(value: object) -> int | None:
    """The value as an integer, if it is a number that every database can hold."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if -(2**53) < value < 2**53 else None


def as_dict(value: object) -> dict[str, Any]:
    """The value if it is an object, otherwise an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """The value if it is a list, otherwise an empty one."""
    return value if isinstance(value, list) else []


def from_json(text: object) -> Any:
    """The value of JSON text, or `None` if it is not JSON."""
    if not isinstance(text, str | bytes):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def joined(content: object) -> str:
    """The text of a message's content, which is text or a list of blocks; an image becomes `[image]`."""
    if isinstance(content, str):
        return content
    parts: list[str] = []
    for block in as_list(content):
        if isinstance(block, str):
            parts.append(block)
            continue
        fields = as_dict(block)
        kind = as_str(fields.get("type"))
        if isinstance(fields.get("text"), str):
            parts.append(fields["text"])
        elif "image" in kind:
            parts.append("[image]")
        elif "refusal" in fields:
            parts.append(as_text(fields["refusal"]))
        elif "content" in fields:
            parts.append(as_text(fields["content"]))
    return join_blocks("\n", parts)


def join_blocks(separator: str, blocks: Iterable[str]) -> str:
    """Join the blocks of a text; no separator where it would split a secret, which redaction would then miss."""
    present = [block for block in blocks if block]
    if len(present) < 2:
        return "".join(present)
    findings = redact("".join(present)).findings
    if not findings:
        return separator.join(present)
    starts = [found.start for found in findings]
    parts, cut = present[:1], len(present[0])
    for block in present[1:]:
        before = bisect_left(starts, cut)
        is_inside = before > 0 and findings[before - 1].end > cut
        parts += (block,) if is_inside else (separator, block)
        cut += len(block)
    return "".join(parts)


def usage_of(
    *, input: object = 0, output: object = 0, cache_read: object = 0, cache_write: object = 0, reasoning: object = 0
) -> Usage | None:
    """Token usage, or `None` if the log counts no tokens."""
    counts = _count(input), _count(output), _count(cache_read), _count(cache_write), _count(reasoning)
    if not any(counts):
        return None
    return Usage(input=counts[0], output=counts[1], cache_read=counts[2], cache_write=counts[3], reasoning=counts[4])


def _count(value: object) -> int:
    if type(value) is int and 0 <= value < 2**53:
        return value
    return max(0, as_int(value) or 0)
