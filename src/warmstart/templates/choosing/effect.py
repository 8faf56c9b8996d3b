"""How much a template helps: sessions that started from it against sessions that were held out from it.

Both are of the same kind of task, because for both the template was drawn before chance decided between warm and cold.
What is compared is the share of sessions that succeeded, among those whose outcome is known.
"""

from __future__ import annotations

from collections.abc import Iterable

from warmstart.stats import newcombe
from warmstart.templates.choosing.counting import Counts, counts_of
from warmstart.templates.store import SQLTemplateStore
from warmstart.templates.values import Effect

FEWEST = 2  # known outcomes on either side; of fewer nothing can be said


def effect_of(counts: Counts) -> Effect | None:
    """The difference with its interval; `None` for not yet known, with fewer than two outcomes on either side."""
    warm, cold = counts.successes + counts.failures, counts.cold_successes + counts.cold_failures
    if min(warm, cold) < FEWEST:
        return None
    interval = newcombe(counts.successes, warm, counts.cold_successes, cold)
    if interval is None:
        return None
    difference = counts.successes / warm - counts.cold_successes / cold
    return Effect(difference, interval.low, interval.high, warm, cold)


def effect(store: SQLTemplateStore, template: str) -> Effect | None:
    """The effect of one template, by its id; `None` for not yet known."""
    return effect_of(counts_of(store).get(template, Counts()))


def together(counts: Iterable[Counts]) -> Counts:
    """All templates as one: what starting warm does as a whole."""
    every = list(counts)
    return Counts(
        used=sum(each.used for each in every),
        successes=sum(each.successes for each in every),
        failures=sum(each.failures for each in every),
        held_out=sum(each.held_out for each in every),
        cold_successes=sum(each.cold_successes for each in every),
        cold_failures=sum(each.cold_failures for each in every),
        last_used=max((each.last_used for each in every if each.last_used is not None), default=None),
    )
