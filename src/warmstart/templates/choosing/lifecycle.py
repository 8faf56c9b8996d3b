"""The life of a template: quarantined, candidate, active, retired. Each step is a new version with its reason.

A candidate becomes active when what it shows recurs in two independent sessions. What did measured harm, was not used
for long, or shows tools that have changed since, is retired. Out of quarantine leads the user's word, or a measured
effect; nothing leads back from retirement but the user.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from warmstart.templates.choosing.counting import Counts, counts_of
from warmstart.templates.choosing.effect import effect_of, together
from warmstart.templates.choosing.families import Families, families
from warmstart.templates.choosing.recurring import Recurrences
from warmstart.templates.choosing.states import AUTHOR, Changed, apply, promote, retire_changed
from warmstart.templates.choosing.thompson import ENOUGH, Belief, cold_belief, does_harm
from warmstart.templates.intervals import wilson
from warmstart.templates.items import is_edit
from warmstart.templates.rows import Summary
from warmstart.templates.store import SQLTemplateStore
from warmstart.templates.values import Effect, SessionSeed, Sources, State

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
        self._known: tuple[Families, Recurrences] | None = None

    def of(self, summary: Summary) -> Iterator[Changed]:
        """What is to change of a template: one step at most."""
        new, reason = self._step(summary)
        if new is not None:
            yield Changed(summary.id, summary.name, summary.state, new, reason)

    def _step(self, summary: Summary) -> tuple[State | None, str]:
        counts = self._counts.get(summary.id, Counts())
        if summary.state == "quarantined":
            reason = self._help(counts)
            return ("active", reason) if reason else (None, "")
        if summary.state == "retired":
            return None, ""
        reason = self._harm(counts) or self._age(summary, counts)
        if reason:
            return "retired", reason
        if summary.state == "candidate":
            reason = self._recurrence(summary)
            return ("active", reason) if reason else (None, "")
        return None, ""

    def _help(self, counts: Counts) -> str:
        effect = effect_of(counts)
        if effect is None or min(effect.warm, effect.cold) < _FEWEST or effect.low <= 0:
            return ""
        return f"measured effect: {_difference(effect)}"

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

    def _recurrence(self, summary: Summary) -> str:
        if self._known is None:
            known = families(self._store)
            self._known = known, Recurrences(self._store, known)
        relations, recurrences = self._known
        template = self._store.get(summary.id)
        shared = _shared(template.seed, relations)
        if shared:
            return f"{shared} recurs in two independent sessions"
        session = recurrences.of(template, without=self._started_from(summary.id))
        return f"what it shows was done again in the session {session[:8]}" if session else ""

    def _started_from(self, template: str) -> list[str]:
        """The sessions that had it before their eyes: that they did the same proves nothing."""
        with self._store.database.translated():
            rows = self._store.database.connection.execute(
                "SELECT DISTINCT s.id FROM template_uses u JOIN sessions s ON s.id = u.session "
                "OR s.native_id = u.session WHERE u.arm = 'warm' AND u.template = ?",
                (template,),
            )
            return [row[0] for row in rows]


def _difference(effect: Effect | None) -> str:
    return f"{effect.difference:+.0%} ({effect.low:+.0%} to {effect.high:+.0%})" if effect else ""


def _against(counts: Counts, cold: Belief) -> str:
    known = counts.successes + counts.failures
    return f"{counts.successes} of {known} sessions succeeded, where {cold.mean:.0%} of cold starts do"


def _shared(seed: SessionSeed, relations: Families) -> str:
    """What two independent sources say alike, of what takes more than chance: a demonstration, or a mended mistake."""
    named: list[tuple[str, Sources]] = [
        *(("a demonstration", each.sources) for each in seed.demonstrations),
        *(("a recovery", each.sources) for each in seed.recoveries),
        *(("a fix", each.sources) for card in seed.cards for each in card.fixes),
    ]
    for what, sources in named:
        if len(relations.roots(source.session for source in sources if not is_edit(source))) > 1:
            return what
    return ""
