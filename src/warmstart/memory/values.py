"""The values of memory, independent of where they are stored."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Literal, NamedTuple, get_args

from warmstart.memory.authors import AGENT, AUTHOR, CANDIDATE, NOTES, PROJECT, SCOPE, SOURCE, USER, place_of
from warmstart.text.truncate import one_line

__all__ = ["AGENT", "AUTHOR", "CANDIDATE", "PROJECT", "SCOPE", "SOURCE", "USER"]  # those of `authors`

Scope = Literal["user", "project", "agent"]
SCOPES: tuple[Scope, ...] = get_args(Scope)

EXPIRES_AT = "expires_at"  # in metadata: seconds since 1970, or a date
SESSION = "session"  # the id of the session it was learned in


def digest(*parts: str) -> str:
    """A short hash that identifies texts without revealing them."""
    return blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


@dataclass(slots=True)
class MemoryEntry:
    """A fact about a user under a key. Times are seconds since 1970, by default now."""

    key: str
    value: str
    user_id: str
    created_at: float = 0.0
    updated_at: float = 0.0
    metadata: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.metadata = {} if self.metadata is None else self.metadata  # callers without types may pass None
        if not self.created_at:
            self.created_at = self.updated_at or time.time()
        if not self.updated_at:
            self.updated_at = self.created_at

    @property
    def place(self) -> str:
        """The scope as one text: empty for the user scope, else `project:NAME`, `agent:NAME` or `note:PROJECT`."""
        return place_of(self.metadata)


@dataclass(frozen=True, slots=True)
class Version:
    """A value that a key has or had. `until` is None for the current one; `value` is None for a deletion."""

    value: str | None
    since: float
    until: float | None
    session: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class View:
    """Which entries are visible: those of this project, of this agent, and of the user scope.

    `note` adds what agents noted in a project; a view that names nothing else shows only that.
    """

    project: str = ""
    agent: str = ""
    note: str = ""

    @property
    def places(self) -> tuple[str, ...]:
        """The visible places, the narrowest first. Notes come last: they never hide what the user stored."""
        named = ((AGENT, self.agent), (PROJECT, self.project))
        places = [f"{scope}:{name}" for scope, name in named if name]
        if places or not self.note:
            places.append("")
        if self.note:
            places.append(f"{NOTES}{self.note}")
        return tuple(places)


@dataclass(frozen=True, slots=True)
class Record:
    """An entry with its former values, oldest first, for exports, imports and copies."""

    entry: MemoryEntry
    history: tuple[Version, ...] = ()


class Rejected(NamedTuple):
    """A write that a server rejected, and why."""

    user_id: str
    key: str
    reason: str


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a backend's server: queued writes, rejected writes, and the last error."""

    address: str
    waiting: int
    rejected: tuple[Rejected, ...]
    error: str
    denied: bool = False  # the server does not accept the key

    @property
    def problem(self) -> str:
        """What is known to be wrong with the server; empty if nothing is."""
        if self.denied:
            return f"{self.address} does not accept the key (401 or 403); check HONCHO_API_KEY or memory.honcho.key"
        if self.error:
            return f"{self.address}: {one_line(self.error, 160)}"
        return f"{self.address} has not answered yet" if self.waiting else ""
