"""What is carried from one session into the next, as frozen values that know nothing of storage.

Every item of a seed names the sessions and messages that it came from: what has no source is not carried, and what
came from a session can be taken back by it. A text in an item was redacted when the item was made; a value that was
particular to the old task is a placeholder such as `{{date}}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple

from warmstart.profile.values import TaskType
from warmstart.stats import Interval, wilson

State = Literal["quarantined", "candidate", "active", "retired"]
Kind = Literal["context", "card", "demonstration", "recovery", "pattern", "marker"]
Use = Literal["changed", "read", "run", "fetched", "cited"]  # what was done with a marker, the strongest


class Source(NamedTuple):
    """Where an item is from: a session by its public id, and a message of it by the agent's own id."""

    session: str
    message: str = ""


Sources = tuple[Source, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """A standing instruction or a piece of key context, word for word."""

    text: str
    said_by: Literal["system", "user"]
    sources: Sources = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Exemplar:
    """Arguments of a call that worked, as JSON text."""

    arguments: str
    sources: Sources = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Convention:
    """What the calls of a tool had in common, such as `pytest is run as "python -m pytest -q"`."""

    text: str
    count: int
    sources: Sources = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """An error of a tool by its signature, what was changed so that it worked, and how often that was seen."""

    error: str
    change: str
    count: int
    sources: Sources = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCard:
    """What is known about using one tool. It has no sources of its own: its parts have."""

    tool: str
    exemplars: tuple[Exemplar, ...] = ()
    conventions: tuple[Convention, ...] = ()
    fixes: tuple[Fix, ...] = ()

    @property
    def sources(self) -> Sources:
        parts: list[Exemplar | Convention | Fix] = [*self.exemplars, *self.conventions, *self.fixes]
        return tuple(dict.fromkeys(source for part in parts for source in part.sources))


class Act(NamedTuple):
    """One successful call of a demonstration: arguments as JSON text, and of the result what a reader needs."""

    tool: str
    arguments: str
    result: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Demonstration:
    """A sub-task that ended well: what was asked for, the calls that did it, and what says that it ended well."""

    task: str
    acts: tuple[Act, ...]
    evidence: str
    sources: Sources = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """A mistake that was mended: the arguments that failed, the error's signature, and the arguments that worked."""

    tool: str
    failed: str
    error: str
    worked: str
    change: str = ""
    count: int = 1
    sources: Sources = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UserPattern:
    """How the person works, in one line. Weak evidence, and labelled as such wherever it is shown."""

    text: str
    sources: Sources = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """A file, URL or other thing that mattered, because it was used and not only mentioned."""

    kind: Literal["file", "url", "reference"]
    value: str
    use: Use
    count: int = 1
    sources: Sources = ()


Item = Context | ToolCard | Demonstration | Recovery | UserPattern | Marker


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSeed:
    """What is carried. Within each kind the best comes first.

    `tasks` are the sub-tasks that it is good for, in a line each; `notes` say how conflicts between sessions were
    resolved, for people to read; they are never injected.
    """

    contexts: tuple[Context, ...] = ()
    cards: tuple[ToolCard, ...] = ()
    demonstrations: tuple[Demonstration, ...] = ()
    recoveries: tuple[Recovery, ...] = ()
    patterns: tuple[UserPattern, ...] = ()
    markers: tuple[Marker, ...] = ()
    tasks: tuple[Task, ...] = ()
    notes: tuple[Note, ...] = ()


class Task(NamedTuple):
    """A sub-task in one line, and where it was asked for."""

    text: str
    source: Source


class Note(NamedTuple):
    """A remark on how the seed was made, and the sessions that it speaks of."""

    text: str
    sessions: tuple[str, ...]


class Effect(NamedTuple):
    """How much more often sessions that started from a template succeeded than those that started cold.

    `low` and `high` bound the difference with 95 % confidence.
    """

    difference: float
    low: float
    high: float
    warm: int
    cold: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmTemplate:
    """A named, versioned seed. `id` and `version` are the store's to give; the counts are of the sessions it started.

    `tools` are the tools of the source sessions with the fingerprint of their schema, empty where it is not known.
    `origin` says who made it: `user`, `auto`, or `imported from …`. `allowed` is of
    files and stores of earlier versions, and allows nothing any more.
    """

    id: str = ""
    name: str
    seed: SessionSeed
    description: str = ""
    task_type: TaskType = "mixed"
    tags: tuple[str, ...] = ()
    project: str = ""
    agent: str = ""
    sources: tuple[str, ...] = ()
    version: int = 0
    state: State = "active"
    created_at: datetime | None = None
    updated_at: datetime | None = None
    tools: Mapping[str, str] = field(default_factory=dict)
    origin: str = "user"
    allowed: tuple[str, ...] = ()
    described_by: str = ""  # `rules`, or the model that wrote the description; empty where a person did
    used: int = 0
    successes: int = 0
    failures: int = 0
    effect: Effect | None = None

    @property
    def success_rate(self) -> float | None:
        """Successes among the sessions whose outcome is known; `None` where none is."""
        known = self.successes + self.failures
        return self.successes / known if known else None

    @property
    def success_interval(self) -> Interval | None:
        """Wilson's interval of the success rate, 95 %."""
        return wilson(self.successes, self.successes + self.failures)
