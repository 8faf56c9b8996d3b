"""The text of messages, from values of any type and from lists of blocks."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable
from typing import Any

import msgspec

from warmstart.redact import redact
from warmstart.sessions.readers.fields import Fields, as_dict, as_str


def as_text(value: object) -> str:
    """Text unchanged, empty text for `None`, JSON for everything else."""
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


def from_json(text: object) -> Any:
    """The value of JSON text, or `None` if it is not valid JSON."""
    try:
        return json.loads(text) if isinstance(text, str | bytes) else None
    except (ValueError, RecursionError):
        return None


def object_in(text: str) -> Fields:
    """The object in JSON text; empty if the text is anything else."""
    return as_dict(from_json(text)) if text.lstrip()[:1] == "{" else {}


def joined(content: object) -> str:
    """The text of a message's content, which is a string or a list of blocks; an image becomes `[image]`."""
    if not isinstance(content, list):
        return as_text(content)
    parts: list[str] = []
    for block in content:
        fields = {"text": block} if isinstance(block, str) else as_dict(block)
        if isinstance(fields.get("text"), str):
            parts.append(fields["text"])
        elif "image" in as_str(fields.get("type")):
            parts.append("[image]")
        else:
            parts.append(as_text(fields.get("refusal", fields.get("content"))))
    return join_blocks("\n", parts)


def join_blocks(separator: str, blocks: Iterable[str]) -> str:
    """Join the blocks of a text, without a separator where it would split a secret that redaction would then miss."""
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
