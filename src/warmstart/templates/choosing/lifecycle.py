"""The life of a template: quarantined, candidate, active, retired. Each step is a new version with its reason.

Only a person makes a template active. What did measured harm, was not used for long, or shows tools that have changed
since, is retired. What an earlier version made active by itself goes back to where it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from warmstart.stats import wilson
from warmstart.templates.choosing.counting import Counts, counts_of
from warmstart.templates.choosing.effect import effect_of, together
from warmstart.templates.choosing.states import AUTHOR, Changed, apply, promote, retire_changed, unpromoted
from warmstart.templates.choosing.thompson import ENOUGH, Belief, cold_belief, does_harm
from warmstart.templates.rows import Summary
from warmstart.templates.store import SQLTemplateStore
from warmstart.templates.values import Effect, State

__all__ = ["AUTHOR", "MAX_AGE_DAYS", "Changed", "promote", "retire_changed", "review"]

MAX_AGE_DAYS = 180
_FEWEST = 5  # known outcomes on either side before an effect decides: early looks mislead


def review(
    store: SQLTemplateStore,
    *,
    max_age_days: float | None = MAX_AGE_DAYS,
    now: datetime | None = None,
    dry_run: bool = False,
) -> list[Changed]:
    """Bring every template into the state that it has earned; with `dry_run` only say what would be done.

    Without `max_age_days` nothing is retired for its age.
    """
    reviewing = _Review(store, max_age_days, now or store.now())
    changes = [change for summary in store.summaries() for change in reviewing.of(summary)]
    return changes if dry_run else [change for change in changes if apply(store, change)]


class _Review:
    def __init__(self, store: SQLTemplateStore, max_age_days: float | None, now: datetime) -> None:
        self._store = store
        self._oldest = None if max_age_days is None else now - timedelta(days=max_age_days)
        self._days = max_age_days
        self._counts = counts_of(store)
        everything = together(self._counts.values())
        self._cold = cold_belief(everything.cold_successes, everything.cold_failures)
        self._rate = wilson(everything.cold_successes, everything.cold_successes + everything.cold_failures)
        self._unpromoted = unpromoted(store)

    def of(self, summary: Summary) -> Iterator[Changed]:
        """What is to change of a template: one step at most."""
        new, reason = self._step(summary)
        if new is not None:
            yield Changed(summary.id, summary.name, summary.state, new, reason)

    def _step(self, summary: Summary) -> tuple[State | None, str]:
        counts = self._counts.get(summary.id, Counts())
        if summary.state in ("quarantined", "retired"):
            return None, ""
        if reason := self._harm(counts) or self._age(summary, counts):
            return "retired", reason
        if summary.id in self._unpromoted:
            return "candidate" if summary.origin == "auto" else "quarantined", "no person has promoted it"
        return None, ""

    def _harm(self, counts: Counts) -> str:
        effect = effect_of(counts)
        measured = effect is not None and min(effect.warm, effect.cold) >= _FEWEST
        own = cold_belief(counts.cold_successes, counts.cold_failures, self._cold)
        # What selection goes by too: what it passes over for ever is not to stay active. An interval that leaves out 0
        # is not enough, because it is looked at again and again.
        if does_harm(counts.successes, counts.failures, own):
            return f"measured harm: {_difference(effect) or _against(counts, own)}"
        known = counts.successes + counts.failures
        rate = wilson(counts.successes, known)
        # All that were held out only have to do where too few were held out from this very template.
        if rate and self._rate and not measured and known >= ENOUGH and rate.high < self._rate.low:
            return (
                f"measured harm: {counts.successes} of {known} sessions succeeded, at most {rate.high:.0%} in the long "
                f"run, and of those that start cold at least {self._rate.low:.0%}"
            )
        return ""

    def _age(self, summary: Summary, counts: Counts) -> str:
        if self._oldest is None:
            return ""
        last = max(summary.created_at.timestamp(), summary.updated_at.timestamp(), counts.last_used or 0.0)
        return f"not used for {self._days:g} days" if last < self._oldest.timestamp() else ""


def _difference(effect: Effect | None) -> str:
    return f"{effect.difference:+.0%} ({effect.low:+.0%} to {effect.high:+.0%})" if effect else ""


def _against(counts: Counts, cold: Belief) -> str:
    known = counts.successes + counts.failures
    return f"{counts.successes} of {known} sessions succeeded, where {cold.mean:.0%} of cold starts do"
