"""The lifecycle of a template: quarantined, candidate, active, retired. Each step is a new version with its reason.

A candidate becomes active when the user promotes it, or when sessions that started from it did measurably better than
sessions that were held out; how often something recurs never decides. A template that does measured harm, or has not
been used for a long time, is retired.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from math import sqrt
from typing import NamedTuple

from warmstart.errors import TemplateChanged, TemplateNotFound
from warmstart.stats import Interval, newcombe, sequence_factor, wilson
from warmstart.templates.store import SQLTemplateStore
from warmstart.templates.template import Effect, State, WarmTemplate
from warmstart.templates.thompson import MIN_OUTCOMES, Belief, belief, does_harm, helps

AUTHOR = "warmstart"

_MIN_EFFECT = 2  # known outcomes needed on either side for an effect
_BENEFIT = "measured benefit"  # prefix of the reason for such a promotion


class Changed(NamedTuple):
    """A template that changed state, and why."""

    template: str
    name: str
    old: State
    new: State
    reason: str


class Counts(NamedTuple):
    """The sessions that started from a template and those held out from it, with their known outcomes."""

    used: int = 0
    successes: int = 0
    failures: int = 0
    held_out: int = 0
    cold_successes: int = 0
    cold_failures: int = 0
    last_used: datetime | None = None

    @property
    def known(self) -> int:
        """The number of sessions that started from it and have a known outcome."""
        return self.successes + self.failures

    @property
    def interval(self) -> Interval | None:
        """The 95 % Wilson interval of the success rate."""
        return wilson(self.successes, self.known)

    @property
    def effect(self) -> Effect | None:
        """The difference in success rate between sessions that started from it and those held out from it.

        Both groups have the same kind of tasks, because the template is drawn before chance decides between warm and
        cold. `None` with fewer than two known outcomes on either side.
        """
        cold = self.cold_successes + self.cold_failures
        interval = newcombe(self.successes, self.known, self.cold_successes, cold)
        if interval is None or min(self.known, cold) < _MIN_EFFECT:
            return None
        return Effect(self.successes / self.known - self.cold_successes / cold, *interval, self.known, cold)

    @property
    def shows_harm(self) -> bool:
        """Whether a confidence sequence shows harm; unlike an interval, it stays valid when checked repeatedly."""
        n, m = self.known + 2, self.cold_successes + self.cold_failures + 2
        warm, cold = (self.successes + 1) / n, (self.cold_successes + 1) / m  # Agresti-Caffo
        error = sqrt(warm * (1 - warm) / n + cold * (1 - cold) / m)
        return warm - cold + sequence_factor(n + m) * error < 0

    def cold(self, every: Belief) -> Belief:
        """The belief about cold starts on this template's tasks; the prior is `every`, that of all cold starts."""
        return belief(self.cold_successes, self.cold_failures, every, weight=4.0)


def count_uses(store: SQLTemplateStore, *, candidates: bool = False) -> dict[str, Counts]:
    """The counts of every template that was ever drawn, by id; with `candidates`, those of current candidates only.

    A use of an earlier version counts for a candidate only if that version had the same content.
    """
    same = (
        " AND EXISTS (SELECT 1 FROM templates t "
        "JOIN template_versions n ON n.template = t.id AND n.version = t.version AND n.state = 'candidate' "
        "JOIN template_versions v ON v.template = t.id AND v.version = u.version AND v.hash = n.hash "
        "WHERE t.id = u.template)"
    )
    sums = ", ".join(
        f"sum(CASE WHEN arm = '{arm}' AND {which} THEN 1 ELSE 0 END)"
        for arm in ("warm", "holdout")
        for which in ("1 = 1", "outcome = 'success'", "outcome = 'failure'")
    )
    rows = store.select(
        f"SELECT template, max(CASE arm WHEN 'warm' THEN at END), {sums} FROM template_uses u "
        f"WHERE arm IN ('warm', 'holdout') AND template IS NOT NULL{same if candidates else ''} GROUP BY template"
    )
    return {
        template: Counts._make((*map(int, numbers), None if last is None else datetime.fromtimestamp(last, UTC)))
        for template, last, *numbers in rows
    }


def total(counts: Iterable[Counts]) -> Counts:
    """The counts of all templates added up: the overall effect of starting warm."""
    every = list(counts)
    sums = {name: sum(getattr(each, name) for each in every) for name in Counts._fields if name != "last_used"}
    return Counts(**sums, last_used=max((each.last_used for each in every if each.last_used), default=None))


def promote(store: SQLTemplateStore, template: str, *, author: str = "", expected: int | None = None) -> WarmTemplate:
    """Make a template active because the user says so, whatever its state. `expected` is the version they saw."""
    return store.change(template, author=author, reason="promoted by the user", expected=expected, state="active")


def unpromoted(store: SQLTemplateStore) -> set[str]:
    """Templates that an earlier version of Warmstart made active without a person or a measured benefit."""
    rows = store.select(
        "SELECT t.id FROM templates t JOIN template_versions n ON n.template = t.id AND n.version = t.version "
        "WHERE n.state = 'active' AND NOT EXISTS (SELECT 1 FROM template_versions p WHERE p.template = t.id "
        "AND p.state = 'active' AND (p.reason LIKE ? OR (p.author <> ? "
        "AND p.reason NOT LIKE 'revoked %' AND p.reason NOT LIKE 'reverted %')))",
        f"{_BENEFIT}%",
        AUTHOR,
    )
    return {row[0] for row in rows}


def review(store: SQLTemplateStore, *, max_age_days: float = 180, dry_run: bool = False) -> list[Changed]:
    """Move every template to the state that it has earned; with `dry_run` only report the changes."""
    counts, candidates, doubtful = count_uses(store), count_uses(store, candidates=True), unpromoted(store)
    everything = total(counts.values())
    every = belief(everything.cold_successes, everything.cold_failures)
    oldest = store.now() - timedelta(days=max_age_days)
    changes = []
    for each in store.summaries():
        if each.state in ("quarantined", "retired"):
            continue
        own = counts.get(each.id, Counts())
        new: State = "retired"
        reason = _harm(own, own.cold(every))
        if not reason and max(each.updated_at, own.last_used or each.updated_at) < oldest:
            reason = f"not used for {max_age_days:g} days"
        if not reason and each.id in doubtful:
            new, reason = "candidate" if each.origin == "auto" else "quarantined", "no person has promoted it"
        if not reason and each.state == "candidate":
            measured = candidates.get(each.id, Counts())
            new, reason = "active", _benefit(measured, measured.cold(every))
        with suppress(TemplateNotFound, TemplateChanged):  # another process or a person got there first
            if reason and not dry_run:
                store.change(each.id, author=AUTHOR, reason=reason, expected=each.version, state=new)
            if reason:
                changes.append(Changed(each.id, each.name, each.state, new, reason))
    return changes


def _harm(counts: Counts, cold: Belief) -> str:
    """Why a template should be retired for doing harm; empty if it should not."""
    # The same test as in selection: a template that is never chosen again must not stay active. An interval that
    # excludes 0 is not enough, because it is checked again and again.
    if not does_harm(counts.successes, counts.failures, cold) and not counts.shows_harm:
        return ""
    against = f"{counts.successes} of {counts.known} sessions succeeded, compared with {cold.mean:.0%} of cold starts"
    return f"measured harm: {_difference(counts.effect) if counts.effect else against}"


def _benefit(counts: Counts, cold: Belief) -> str:
    """Why a candidate should become active; empty if it should not."""
    effect = counts.effect
    if not effect or effect.cold < MIN_OUTCOMES or effect.low <= 0:
        return ""
    return f"{_BENEFIT}: {_difference(effect)}" if helps(counts.successes, counts.failures, cold) else ""


def _difference(effect: Effect) -> str:
    return f"{effect.difference:+.0%} ({effect.low:+.0%} to {effect.high:+.0%})"
