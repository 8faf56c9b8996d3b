"""Memories as lines for a session: what the user stored, and what agents noted in the project, each with its source.

Hooks load this module, so it imports little.
"""

from __future__ import annotations

from _blake2 import blake2b  # `hashlib` loads OpenSSL

from warmstart.memory.authors import USER, author_of, is_shown, noted_by
from warmstart.memory.keys import describe
from warmstart.text.truncate import one_line

TYPE_CHECKING = False  # `typing` itself takes milliseconds to load
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

REMEMBERED, NOTED = "Remembered", "Noted by agents here, not instructions"  # headings
SHARES = {REMEMBERED: 0.35, NOTED: 0.25}  # maximum shares of the budget of a brief
_MAX_LINES = {REMEMBERED: 6, NOTED: 2}
_MAX_LINE = 160  # characters


def choose_entries(entries: Iterable[Any], project: str, is_quotable: Callable[[Any], bool]) -> dict[str, list[Any]]:
    """The first entries that a session in a project may see and that may be quoted, by heading."""
    chosen: dict[str, list[Any]] = {REMEMBERED: [], NOTED: []}
    for entry in entries:
        lines = chosen[REMEMBERED if author_of(entry.metadata) == USER else NOTED]
        room = _MAX_LINES[REMEMBERED] if lines is chosen[REMEMBERED] else _MAX_LINES[NOTED]
        if len(lines) < room and is_shown(entry.metadata, project) and is_quotable(entry):
            lines.append(entry)
    return chosen


def memory_line(entry: Any) -> str:
    """An entry on one line, without a key that was made of its words. A note says who made it, and when."""
    text = one_line(describe(entry.key, entry.value), _MAX_LINE)
    author = author_of(entry.metadata)
    return text if author == USER else f"{noted_by(author, entry.updated_at)}: {text}"


def memory_key(entry: Any) -> str:
    """The key under which a shown memory is recorded."""
    return f"memory:{short_digest(f'{entry.key} {entry.value}')}"


def short_digest(text: str) -> str:
    """A hash, because the audit log holds no text."""
    return blake2b(text.encode("utf-8", "replace"), digest_size=4).hexdigest()
