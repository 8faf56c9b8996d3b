"""What recall returns: passages and where they are from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from warmstart.sessions.values import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A passage of a past session. Higher scores are better; they compare within one search only.

    `text` is the relevant part of the message `message_ids[0]`, which `role` wrote at `date`. After a request
    follow the beginning of the reply, whose message is the second, and the commands that were run for it, each after
    `$`.
    `matched` are the words of the query that the passage has; `components` is what the score of its session is made of.
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
    components: Mapping[str, float] = field(default_factory=dict)
