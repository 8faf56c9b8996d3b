"""What there is and what it is good for: templates by state and type, how often they were used, and their effect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from warmstart.profile.values import TaskType
from warmstart.stats import Interval, wilson
from warmstart.templates.choosing.counting import Counts, counts_of
from warmstart.templates.choosing.effect import effect_of, together
from warmstart.templates.store import SQLTemplateStore
from warmstart.templates.values import Effect, State


class Usage(NamedTuple):
    """How often something was used and how that went; `None` where that is not yet known.

    `rate` is the share of successes among the sessions whose outcome is known, `interval` bounds it with 95 %.
    """

    used: int
    successes: int
    failures: int
    held_out: int
    rate: float | None
    interval: Interval | None
    effect: Effect | None
    last_used: datetime | None


class Line(NamedTuple):
    """A template in the statistics."""

    id: str
    name: str
    state: State
    task_type: TaskType
    version: int
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """All templates. `usage` is of all of them together; `abstained` and `open` count sessions."""

    templates: int
    states: Mapping[State, int]
    types: Mapping[TaskType, int]
    usage: Usage
    abstained: int
    open: int
    lines: tuple[Line, ...]


def stats(store: SQLTemplateStore) -> Statistics:
    """The statistics of a store, the most used templates first."""
    counts = counts_of(store)
    summaries = store.summaries()
    with store.database.translate_errors():
        run = store.database.connection.execute
        (abstained,) = run("SELECT count(*) FROM template_uses WHERE arm = 'abstained'").fetchone()
        (unsettled,) = run("SELECT count(*) FROM template_uses WHERE outcome = '' AND arm <> 'abstained'").fetchone()
    lines = (
        Line(each.id, each.name, each.state, each.task_type, each.version, usage_of(counts.get(each.id, Counts())))
        for each in summaries
    )
    return Statistics(
        templates=len(summaries),
        states=Counter(each.state for each in summaries),
        types=Counter(each.task_type for each in summaries),
        usage=usage_of(together(counts.values())),
        abstained=int(abstained),
        open=int(unsettled),
        lines=tuple(sorted(lines, key=lambda line: (-line.usage.used, line.name, line.id))),
    )


def usage_of(counts: Counts) -> Usage:
    """Counts with what can be said about them."""
    known = counts.successes + counts.failures
    return Usage(
        counts.used,
        counts.successes,
        counts.failures,
        counts.held_out,
        counts.successes / known if known else None,
        wilson(counts.successes, known),
        effect_of(counts),
        datetime.fromtimestamp(counts.last_used, UTC) if counts.last_used is not None else None,
    )
