"""Templates: named, versioned selections of items, as frozen values that know nothing of storage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple

from warmstart.profile.values import TaskType
from warmstart.stats import Interval, wilson
from warmstart.templates.item import NO_REQUEST, Item, Kind, Source, ToolCallExample

State = Literal["quarantined", "candidate", "active", "retired"]


class UserPatterns(NamedTuple):
    """How the user asks (`direct`, `asking`, `mixed`) and gives feedback (`terse`, `corrective`, `approving`, `plain`).

    Empty if it is not known. `items` are these two and the user's corrections.
    """

    request_style: str = ""
    feedback_style: str = ""
    items: tuple[Item, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSeed:
    """The items that a template carries, in four parts. Within each kind the best comes first."""

    items: tuple[Item, ...] = ()

    def of(self, *kinds: Kind) -> tuple[Item, ...]:
        """The items of these kinds."""
        return tuple(item for item in self.items if item.kind in kinds)

    @property
    def system_context(self) -> tuple[Item, ...]:
        """The user's rules and decisions, facts and rules of the program's system prompt, and commands that work."""
        return self.of("instruction", "context", "decision", "command")

    @property
    def tool_examples(self) -> tuple[ToolCallExample, ...]:
        """Calls that worked, and failed calls each followed by what worked instead."""
        return tuple(call for item in self.of("example") for call in item.calls)

    @property
    def user_patterns(self) -> UserPatterns:
        """How the user asks and gives feedback."""
        styles = {item.tool: item.text for item in self.of("habit")}
        items = self.of("habit", "correction")
        return UserPatterns(styles.get("request_style", ""), styles.get("feedback_style", ""), items)

    @property
    def context_markers(self) -> tuple[Item, ...]:
        """Files, references, and where work stopped."""
        return self.of("file", "reference", "open")

    @property
    def tasks(self) -> tuple[str, ...]:
        """The requests that its examples were made for, one line each."""
        texts = dict.fromkeys(item.text for item in self.of("example") if item.calls[0].success)
        return tuple(text for text in texts if text != NO_REQUEST)

    @property
    def sources(self) -> tuple[Source, ...]:
        return tuple(dict.fromkeys(source for item in self.items for source in item.sources))


class Effect(NamedTuple):
    """The difference in success rate between sessions that started from a template and those that started cold.

    `low` and `high` are the bounds of the 95 % interval.
    """

    difference: float
    low: float
    high: float
    warm: int
    cold: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmTemplate:
    """A named, versioned seed. The store assigns `id` and `version`; the counts are of the sessions it started.

    `tools` are the tools of the source sessions with the fingerprint of their schema, empty if it is not known.
    `origin` says who made it: `user`, `auto`, or `imported from …`. `described_by` is `rules`, a model's name, or empty
    if a person wrote the description.
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
    described_by: str = ""
    used: int = 0
    successes: int = 0
    failures: int = 0
    effect: Effect | None = None

    @property
    def success_rate(self) -> float | None:
        """The success rate of the sessions with a known outcome; `None` if there are none."""
        known = self.successes + self.failures
        return self.successes / known if known else None

    @property
    def success_interval(self) -> Interval | None:
        """The 95 % Wilson interval of the success rate."""
        return wilson(self.successes, self.successes + self.failures)
