"""Lenient access to the fields of a log: whatever the type, something usable or nothing, never an exception."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import msgspec

from warmstart.sessions.values import Usage

# Beyond these the number is not a time of day in any agent's life, in seconds or in milliseconds.
_EARLIEST, _LATEST = 946_684_800.0, 7_258_118_400.0


def as_time(value: object) -> datetime | None:
    """A time in UTC from ISO 8601 text or from seconds or milliseconds since 1970; `None` when it is neither."""
    if isinstance(value, str):
        try:
            parsed = datetime.fromisoformat(value)
            # Seconds as a database holds them cannot tell the first and the last moments of the calendar.
            if not 1 < parsed.year < 9999:
                return None
            if parsed.tzinfo is UTC:
                return parsed
            return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
        except (ValueError, OverflowError):
            return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        # Only what can be a time is divided: a whole number may be too large to become a fraction.
        for seconds in (value, value / 1000 if 0 < value < _LATEST * 1000 else 0):
            if _EARLIEST <= seconds <= _LATEST:
                return datetime.fromtimestamp(seconds, UTC)
    return None


def as_text(value: object) -> str:
    """Text as it is, nothing for `None`, JSON for everything else."""
    if isinstance(value, str):
        return value
    return "" if value is None else as_json(value)


def as_json(value: object) -> str:
    """Compact JSON text of whatever a log held."""
    try:
        return msgspec.json.encode(value).decode()
    except RecursionError:
        return "…"
    except (TypeError, ValueError, UnicodeError, msgspec.MsgspecError):
        return repr(value)


def as_str(value: object) -> str:
    """The value if it is text, otherwise nothing: for ids, names and paths."""
    return value if isinstance(value, str) else ""


def as_int(value: object) -> int | None:
    """The value if it is a whole number that a database can hold."""
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
    """What JSON text holds, or `None` when it holds none."""
    if not isinstance(text, str | bytes):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def joined(content: object) -> str:
    """The text of a message's content: plain, or a list of blocks whose images become `[image]`."""
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
    return "\n".join(part for part in parts if part)


def usage_of(
    *, input: object = 0, output: object = 0, cache_read: object = 0, cache_write: object = 0, reasoning: object = 0
) -> Usage | None:
    """Token usage, or `None` when the log counts none."""
    counts = _count(input), _count(output), _count(cache_read), _count(cache_write), _count(reasoning)
    if not any(counts):
        return None
    return Usage(input=counts[0], output=counts[1], cache_read=counts[2], cache_write=counts[3], reasoning=counts[4])


def _count(value: object) -> int:
    if type(value) is int and 0 <= value < 2**53:
        return value
    return max(0, as_int(value) or 0)
