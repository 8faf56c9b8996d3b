"""Lenient access to the fields of a log: a usable value or an empty one, whatever the type; never an exception."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from warmstart.sessions.values import Usage

Fields = dict[str, Any]

# From 2000 to 2200: a number outside this range, in seconds or milliseconds, is not a time.
_EARLIEST, _LATEST = 946_684_800.0, 7_258_118_400.0


def as_time(value: object) -> datetime | None:
    """The UTC time from ISO 8601 text, or from seconds or milliseconds since 1970; `None` if it is neither."""
    if isinstance(value, str):
        try:
            parsed = datetime.fromisoformat(value)
            # Conversion to UTC or to seconds can overflow in the first and the last year.
            if not 1 < parsed.year < 9999:
                return None
            if parsed.tzinfo is UTC:
                return parsed
            return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
        except (ValueError, OverflowError):
            return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        # Divide only plausible times: a large integer may not fit into a float.
        for seconds in (value, value / 1000 if 0 < value < _LATEST * 1000 else 0):
            if _EARLIEST <= seconds <= _LATEST:
                return datetime.fromtimestamp(seconds, UTC)
    return None


def as_str(value: object) -> str:
    """The value if it is a string, otherwise an empty one: for ids, names and paths."""
    return value if isinstance(value, str) else ""


def as_int(value: object) -> int | None:
    """The value as an integer, if it is a number that every database can hold."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if -(2**53) < value < 2**53 else None


def as_dict(value: object) -> Fields:
    """The value if it is an object, otherwise an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """The value if it is a list, otherwise an empty one."""
    return value if isinstance(value, list) else []


def usage_of(counts: Mapping[str, object], *names: str, all_input: bool = False) -> Usage | None:
    """Token usage, or `None` if the log counts no tokens.

    `names` are the keys of input, output, cache read, cache write and reasoning tokens; the last ones may be left out.
    With `all_input`, the input count includes cache reads and writes.
    """
    tokens = [max(0, as_int(counts.get(name)) or 0) for name in names] + [0] * (5 - len(names))
    if all_input:
        tokens[0] = max(0, tokens[0] - tokens[2] - tokens[3])
    if not any(tokens):
        return None
    return Usage(input=tokens[0], output=tokens[1], cache_read=tokens[2], cache_write=tokens[3], reasoning=tokens[4])
