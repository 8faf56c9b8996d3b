"""What recall gives: passages with where they are from. Values know nothing of storage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from warmstart.sessions.values import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A passage of a past session. The higher the score the better; scores compare within one search only.

    `text` is the telling part of the message `message_ids[0]`, which `role` said at `date`; where a person asked, the
    beginning of the answer follows, and its message is the second. `matched` are the words of the question that the
    passage holds, and `parts` is what the score of its session is made of.
    """

    session_id: str
    native_id: str
    agent: str
    project: str
    date: datetime | None
    role: Role
    score: float
    text: str
    message_ids: tuple[str, ...]
    matched: tuple[str, ...] = ()
    terms: tuple[str, ...] = ()
    parts: Mapping[str, float] = field(default_factory=dict)
