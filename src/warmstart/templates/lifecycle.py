"""The life of a template: quarantined, candidate, active, retired. Each step is a new version with its reason.

A candidate becomes active when the user promotes it, or when sessions that started from it did measurably better than
sessions that were held out from it; how often something recurs never decides. What did measured harm, was not used for
long, or shows tools that have changed since, is retired.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from warmstart.errors import TemplateNotFound
from warmstart.stats import Interval, newcombe, wilson
from warmstart.templates.store import SQLTemplateStore
from warmstart.templates.template import Effect, State, WarmTemplate
from warmstart.templates.thompson import MIN_OUTCOMES, Belief, cold_belief, does_harm, helps

AUTHOR = "warmstart"
MAX_AGE_DAYS = 180

_MIN_EFFECT = 2  # known outcomes on either side before there is an effect
_MIN_MEASURED = 5  # known outcomes on either side before it says more than all cold starts together
_BENEFIT = "measured benefit"  # how the reason of such a promotion begins


class Changed(NamedTuple):
    """A template that came into another state, and why."""

    template: str
    name: str
    old: State
    new: State
    reason: str


class Counts(NamedTuple):
    """The sessions that started from a template, and those that were held out from it, with the known outcomes."""

    used: int = 0
    successes: int = 0
    failures: int = 0
    held_out: int = 0
    cold_successes: int = 0
    cold_failures: int = 0
    last_used: datetime | None = None

    @property
    def known(self) -> int:
        """The sessions that started from it and have a known outcome."""
        return self.successes + self.failures

    @property
    def interval(self) -> Interval | None:
        """Wilson's interval of the success rate, 95 %."""
        return wilson(self.successes, self.known)

    @property
    def effect(self) -> Effect | None:
        """How much more often sessions succeed that start from it than those that were held out from it.

        Both are of the same kind of task, because for both the template was drawn before chance decided between warm
        and cold. `None` with fewer than two known outcomes on either side.
        """
        cold = self.cold_successes + self.cold_failures
        interval = newcombe(self.successes, self.known, self.cold_successes, cold)
        if interval is None or min(self.known, cold) < _MIN_EFFECT:
            return None
        return Effect(self.successes / self.known - self.cold_successes / cold, *interval, self.known, cold)


# -- what was measured


def count_uses(store: SQLTemplateStore, *, candidates: bool = False) -> dict[str, Counts]:
    """The counts of every template that was ever drawn, by its id; with `candidates` of those, as they are now.

    A use of an earlier version counts for a candidate only if that version said the same.
    """
    same = (
        " AND EXISTS (SELECT 1 FROM templates t "
        "JOIN template_versions n ON n.template = t.id AND n.version = t.version AND n.state = 'candidate' "
        "JOIN template_versions v ON v.template = t.id AND v.version = u.version AND v.hash = n.hash "
        "WHERE t.id = u.template)"
    )
    found: dict[str, Counts] = {}
    with store.database.translate_errors():
        rows = store.database.connection.execute(
            "SELECT template, arm, count(*), sum(CASE outcome WHEN 'success' THEN 1 ELSE 0 END), "
            "sum(CASE outcome WHEN 'failure' THEN 1 ELSE 0 END), max(at) FROM template_uses u "
            f"WHERE arm IN ('warm', 'holdout') AND template IS NOT NULL{same if candidates else ''} "
            "GROUP BY template, arm"
        )
        for template, arm, number, successes, failures, last in rows:
            counts, numbers = found.get(template, Counts()), (int(number), int(successes), int(failures))
            if arm == "warm":
                found[template] = Counts(*numbers, *counts[3:6], datetime.fromtimestamp(last, UTC))
            else:
                found[template] = Counts(*counts[:3], *numbers, counts.last_used)
    return found


def total(counts: Iterable[Counts]) -> Counts:
    """All templates as one: what starting warm does as a whole."""
    every = list(counts)
    sums = {name: sum(getattr(each, name) for each in every) for name in Counts._fields if name != "last_used"}
    return Counts(**sums, last_used=max((each.last_used for each in every if each.last_used), default=None))


# -- changes of state


def promote(
    store: SQLTemplateStore, template: str, *, author: str = "", reason: str = "", expected: int | None = None
) -> WarmTemplate:
    """Make a template active on the user's word, whatever state it is in.

    `expected` is the version that they saw; raises `TemplateChanged` if there is a newer one.
    """
    reason = reason or "promoted by the user"
    return store.change(template, author=author, reason=reason, expected=expected, state="active")


def unpromoted(store: SQLTemplateStore) -> set[str]:
    """The active templates that neither a person nor an effect made active, in stores of earlier versions."""
    with store.database.translate_errors():
        rows = store.database.connection.execute(
            "SELECT t.id FROM templates t JOIN template_versions n ON n.template = t.id AND n.version = t.version "
            "WHERE n.state = 'active' AND NOT EXISTS (SELECT 1 FROM template_versions p WHERE p.template = t.id "
            "AND p.state = 'active' AND (p.reason LIKE :benefit OR (p.author <> :author "
            "AND p.reason NOT LIKE 'revoked %' AND p.reason NOT LIKE 'reverted %')))",
            {"author": AUTHOR, "benefit": f"{_BENEFIT}%"},
        )
        return {row[0] for row in rows}


def retire_changed(store: SQLTemplateStore, changed: Mapping[str, Sequence[str]], *, agent: str = "") -> list[Changed]:
    """Retire the templates that show tools whose schema has changed: `changed` names these by the template's id.

    Where the agent is known, templates of another agent stay: its tool of the same name is not this one.
    """
    changes = [
        Changed(each.id, each.name, each.state, "retired", f"the schema of {', '.join(changed[each.id])} has changed")
        for each in store.summaries()
        if each.id in changed and each.state in ("active", "candidate") and (not agent or each.agent in ("", agent))
    ]
    return [change for change in changes if apply(store, change)]


def apply(store: SQLTemplateStore, change: Changed) -> bool:
    """Make a change; `False` if the template is gone, or in another state by now."""
    try:
        with store.database.transaction():
            if store.get(change.template).state != change.old:
                return False  # another process, or a person, was quicker
            store.set_state(change.template, change.new, author=AUTHOR, reason=change.reason)
    except TemplateNotFound:
        return False
    return True


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
    counts, candidates, doubtful = count_uses(store), count_uses(store, candidates=True), unpromoted(store)
    everything = total(counts.values())
    oldest = None if max_age_days is None else (now or store.now()) - timedelta(days=max_age_days)
    changes = []
    for each in store.summaries():
        if each.state in ("quarantined", "retired"):
            continue
        own = counts.get(each.id, Counts())
        new: State = "retired"
        reason = _harm(own, everything)
        if not reason and oldest is not None and max(each.updated_at, own.last_used or each.updated_at) < oldest:
            reason = f"not used for {max_age_days:g} days"
        if not reason and each.id in doubtful:
            new, reason = "candidate" if each.origin == "auto" else "quarantined", "no person has promoted it"
        if not reason and each.state == "candidate":
            new, reason = "active", _benefit(candidates.get(each.id, Counts()), everything)
        if reason:
            changes.append(Changed(each.id, each.name, each.state, new, reason))
    return changes if dry_run else [change for change in changes if apply(store, change)]


def _cold(counts: Counts, everything: Counts) -> Belief:
    """What is known of cold starts on the tasks of a template."""
    every = cold_belief(everything.cold_successes, everything.cold_failures)
    return cold_belief(counts.cold_successes, counts.cold_failures, every)


def _harm(counts: Counts, everything: Counts) -> str:
    """Why a template is to be retired for doing harm; empty for one that is not."""
    measured, cold = counts.effect, _cold(counts, everything)
    # What selection goes by too: what it passes over for ever must not stay active. An interval without 0 is not
    # enough, because it is looked at again and again.
    if does_harm(counts.successes, counts.failures, cold):
        against = f"{counts.successes} of {counts.known} sessions succeeded, where {cold.mean:.0%} of cold starts do"
        return f"measured harm: {_difference(measured) if measured else against}"
    rate = counts.interval
    colds = wilson(everything.cold_successes, everything.cold_successes + everything.cold_failures)
    if measured and min(measured.warm, measured.cold) >= _MIN_MEASURED:
        return ""
    # All cold starts decide only where too few were held out from this very template.
    if rate and colds and counts.known >= MIN_OUTCOMES and rate.high < colds.low:
        return (
            f"measured harm: {counts.successes} of {counts.known} sessions succeeded, at most {rate.high:.0%} in the "
            f"long run, and of those that start cold at least {colds.low:.0%}"
        )
    return ""


def _benefit(counts: Counts, everything: Counts) -> str:
    """Why a candidate is to become active; empty for one that is not."""
    measured = counts.effect
    if not measured or measured.cold < MIN_OUTCOMES or measured.low <= 0:
        return ""
    helped = helps(counts.successes, counts.failures, _cold(counts, everything))
    return f"{_BENEFIT}: {_difference(measured)}" if helped else ""


def _difference(effect: Effect) -> str:
    return f"{effect.difference:+.0%} ({effect.low:+.0%} to {effect.high:+.0%})"
