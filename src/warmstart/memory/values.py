"""What is remembered. Values know nothing of where they are kept."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

Scope = Literal["user", "project", "agent"]
SCOPES: tuple[Scope, ...] = get_args(Scope)

# What metadata may say that backends understand; everything else in it is the caller's own.
SCOPE = "scope"  # one of SCOPES; without it the entry is the user's
PROJECT = "project"  # the project, for the scope `project`
AGENT = "agent"  # the agent, for the scope `agent`
EXPIRES_AT = "expires_at"  # seconds since 1970 from which on the entry is no longer there
SESSION = "session"  # the id of the session that it was learned in
SOURCE = "source"  # where else it is from: a file, a tool, a person


@dataclass(slots=True)
class MemoryEntry:
    """Something that is known about a user under a key. Times are seconds since 1970, now where they are not given."""

    key: str
    value: str
    user_id: str
    created_at: float = 0.0
    updated_at: float = 0.0
    metadata: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.metadata = {} if self.metadata is None else self.metadata  # which callers without types may give
        if not self.created_at:
            self.created_at = self.updated_at or time.time()
        if not self.updated_at:
            self.updated_at = self.created_at


@dataclass(frozen=True, slots=True)
class Version:
    """What a key was worth for some time. `until` is nothing for what holds now; `value` is nothing for a deletion."""

    value: str | None
    since: float
    until: float | None
    session: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class View:
    """From where memory is looked at: the narrowest scope that fits wins."""

    project: str = ""
    agent: str = ""
