"""What is known here and what Honcho says, as one answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from warmstart.memory.honcho.wire import Conclusion, Incoming, short
from warmstart.memory.values import SOURCE, MemoryEntry

_FUSION = 60  # as is usual for reciprocal ranks


class Found(NamedTuple):
    """What Honcho gave for a question."""

    messages: list[Incoming]
    conclusions: list[Conclusion]
    answers: list[MemoryEntry]


def fused(*rankings: Sequence[MemoryEntry]) -> list[MemoryEntry]:
    """Several rankings of entries as one."""
    scores: dict[tuple[str, float], float] = {}
    entries: dict[tuple[str, float], MemoryEntry] = {}
    for ranking in rankings:
        for rank, entry in enumerate(ranking, 1):
            same = (entry.key, entry.updated_at)  # a key may be there in several scopes
            scores[same] = scores.get(same, 0.0) + 1 / (_FUSION + rank)
            entries[same] = entry
    return [entries[same] for same in sorted(scores, key=lambda same: -scores[same])]


def of_conclusion(user_id: str, found: Conclusion) -> MemoryEntry:
    metadata = {SOURCE: "honcho conclusion", "level": found.level, "honcho_id": found.id}
    return MemoryEntry(f"honcho:conclusion:{found.id}", found.content, user_id, found.created_at, metadata=metadata)


def of_message(user_id: str, found: Incoming) -> MemoryEntry:
    metadata = {SOURCE: "honcho message", "honcho_id": found.id}
    return MemoryEntry(f"honcho:message:{found.id}", found.content, user_id, found.created_at, metadata=metadata)


def of_answer(user_id: str, text: str, said: str) -> MemoryEntry:
    return MemoryEntry(f"honcho:answer:{short(text)}", said, user_id, metadata={SOURCE: "honcho answer"})
