"""Smart selection: which template a session starts from, how sure that is, why, and when it is better to abstain.

In this order: what may not be chosen is left out (project, tools, state, trust); what is near enough to the task stays;
of that, what has worked is preferred by Thompson sampling, with a floor under each so that all are tried sometimes;
where nothing is near enough, or what is near has done worse than starting cold, nothing is chosen. A share of the
sessions that would start warm starts cold instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp
from time import monotonic
from typing import NamedTuple

from warmstart.errors import ConfigError
from warmstart.templates.choosing.counting import Standing, colds_of, stamp_of, standings_of
from warmstart.templates.choosing.filters import Eligible, Host, eligible, host_of
from warmstart.templates.choosing.holdout import drawn, is_held_out, pick
from warmstart.templates.choosing.similarity import (
    DEADLINE_MS,
    Fit,
    Searches,
    Similarity,
    by_recall,
    joined,
    says_enough,
)
from warmstart.templates.choosing.states import unpromoted
from warmstart.templates.choosing.thompson import Belief, belief, cold_belief, does_harm, odds
from warmstart.templates.choosing.values import DEFAULT, Choice, Policy, Suggestion
from warmstart.templates.rows import Summary
from warmstart.templates.store import SQLTemplateStore
from warmstart.templates.tools import Definitions

# Set by eye on real tasks, not fitted: by words, the nearest template of quite other work stayed below 0.2 in 98 of 100
# cases, and the nearest one of the same work was above 0.28 in 90 of 100. Within one project they overlap.
_MIDDLE, _STEEPNESS = 0.28, 0.09
_ARMS = 4  # templates that are drawn from
_NEARLY = 0.6  # of the highest similarity, for a template to be drawn from
_FRESH_SECONDS = 60.0  # for which what was read is remembered, when something has changed
_VIEWS = 16  # kinds of sessions that are remembered
_ALIKE = 0.7  # the share of common words from which two templates say the same


class _View(NamedTuple):
    """The templates that one kind of session may start from."""

    eligible: Eligible
    by_id: Mapping[str, Summary]
    similarity: Similarity


class _Arm(NamedTuple):
    summary: Summary
    fit: Fit
    known: Belief
    suggestion: Suggestion

    @property
    def worth(self) -> float:
        """What speaks for it: how near it is, and how well it did."""
        return self.fit.similarity * (1 + self.suggestion.utility)


class Selector:
    """Chooses among the templates of a store. Lives as long as that store; keeps what it read until that changes."""

    def __init__(
        self,
        store: SQLTemplateStore,
        *,
        recall: Searches | None = None,
        policy: Policy = DEFAULT,
        deadline_ms: float = DEADLINE_MS,
    ) -> None:
        for name, share in policy._asdict().items():
            if not 0 <= share <= 1:
                raise ConfigError(f"{name} is {share!r}, which is no share; give a number from 0 to 1")
        self._store = store
        self._recall = recall
        self._policy = policy
        self._deadline = deadline_ms
        self._revision = -1
        self._summaries: list[Summary] = []
        self._views: dict[Host, _View] = {}
        self._stamp: tuple[int, ...] = ()
        self._read_at = 0.0
        self._colds: Mapping[str, tuple[int, int]] = {}
        self._cold = cold_belief(0, 0)

    def choose(
        self,
        task: str,
        *,
        project: str = "",
        agent: str = "",
        tools: Definitions | None = None,
        session: str = "",
        seed: int | None = None,
        all_projects: bool = False,
    ) -> Choice:
        """What a session with this task is to start with.

        The same session gets the same choice as long as the templates stay the same, and with a seed the seed decides
        too; without either it is chance.
        """
        host = host_of(project=project, agent=agent, tools=tools, all_projects=all_projects)
        view = self._view(host)
        fits = self._fits(view, host, task, session)
        arms, harmful = self._arms(view, fits)
        if not arms:
            return self._abstained(self._nothing(task, view, fits, harmful), view.eligible)
        return self._drawn(arms, view.eligible, session, seed)

    def suggest(
        self,
        task: str,
        *,
        project: str = "",
        agent: str = "",
        tools: Definitions | None = None,
        all_projects: bool = False,
        limit: int = 3,
    ) -> list[Suggestion]:
        """The templates that fit a task, best first and each different from the others; none where nothing fits."""
        host = host_of(project=project, agent=agent, tools=tools, all_projects=all_projects)
        view = self._view(host)
        arms, _ = self._arms(view, self._fits(view, host, task, ""))
        return [arm.suggestion for arm in _diverse(arms, view.similarity, limit)]

    def why_not(
        self,
        task: str,
        *,
        project: str = "",
        agent: str = "",
        tools: Definitions | None = None,
        all_projects: bool = False,
    ) -> str:
        """Why nothing is suggested for a task; empty where something is."""
        host = host_of(project=project, agent=agent, tools=tools, all_projects=all_projects)
        view = self._view(host)
        fits = self._fits(view, host, task, "")
        arms, harmful = self._arms(view, fits)
        return "" if arms else self._nothing(task, view, fits, harmful)

    # -- what is known

    def _refresh(self) -> None:
        """Read what has changed. Most changes are of how templates were used, which costs little to read."""
        revision = self._store.revision()
        if revision == self._revision:
            return
        stamp = stamp_of(self._store)
        # A text that was rewritten leaves no stamp; it is not to be remembered for long.
        if stamp != self._stamp or monotonic() > self._read_at + _FRESH_SECONDS:
            doubtful = unpromoted(self._store)
            self._summaries = [
                each._replace(state="candidate") if each.id in doubtful else each for each in self._store.summaries()
            ]
            self._views = {}
            self._stamp, self._read_at = stamp, monotonic()
        self._colds = colds_of(self._store)
        everywhere = [sum(numbers) for numbers in zip(*self._colds.values(), strict=True)] or [0, 0]
        self._cold = cold_belief(*everywhere)
        self._revision = revision

    def _view(self, host: Host) -> _View:
        self._refresh()
        if host not in self._views:
            if len(self._views) >= _VIEWS:
                self._views.clear()
            some = eligible(self._summaries, host)
            self._views[host] = _View(some, {each.id: each for each in some.templates}, Similarity(some.templates))
        return self._views[host]

    def _fits(self, view: _View, host: Host, task: str, session: str) -> dict[str, Fit]:
        """How near the templates are to a task, by their ids."""
        if not view.by_id or not says_enough(task):
            return {}
        fits = view.similarity.by_words(task)
        if self._recall is not None:
            project = None if host.all_projects else host.project or None
            recalled = by_recall(self._recall, task, project=project, session=session, deadline_ms=self._deadline)
            if recalled:
                for template in view.eligible.templates:
                    if not recalled.keys().isdisjoint(template.sources):
                        fits[template.id] = joined(fits.get(template.id, Fit(0.0)), template.sources, recalled)
        return fits

    def _arms(self, view: _View, fits: Mapping[str, Fit]) -> tuple[list[_Arm], int]:
        """What is near enough and not known to do harm, best first; and how many are near but do harm."""
        near = {each: fit for each, fit in fits.items() if sureness(fit.similarity) >= self._policy.surely}
        standings = standings_of(self._store, near) if near else {}
        arms, harmful = [], 0
        for template, fit in near.items():
            standing = standings.get(template, Standing())
            if does_harm(*standing, self._cold_for(template)):
                harmful += 1
            else:
                arms.append(self._arm(view.by_id[template], fit, standing))
        arms.sort(key=lambda arm: (-arm.worth, arm.summary.id))
        return arms, harmful

    def _arm(self, summary: Summary, fit: Fit, standing: Standing) -> _Arm:
        cold = self._cold_for(summary.id)
        known = belief(*standing, cold)
        suggestion = Suggestion(
            id=summary.id,
            name=summary.name,
            version=summary.version,
            state=summary.state,
            sure=sureness(fit.similarity),
            similarity=fit.similarity,
            utility=known.mean - cold.mean,
            why=_reasons(fit, standing),
            description=summary.description,
            task=fit.task,
        )
        return _Arm(summary, fit, known, suggestion)

    def _cold_for(self, template: str) -> Belief:
        """What is known of cold starts on the tasks of a template."""
        return cold_belief(*self._colds.get(template, (0, 0)), self._cold)

    # -- choosing

    def _drawn(self, arms: Sequence[_Arm], some: Eligible, session: str, seed: int | None) -> Choice:
        policy = self._policy
        nearest = max(arm.fit.similarity for arm in arms)
        drawn_from = [arm for arm in arms if arm.fit.similarity >= _NEARLY * nearest][:_ARMS]
        # Squared: how near a template is counts more than what little is known of most of them. Rounded: the same
        # question comes again.
        fits = [round((arm.fit.similarity / nearest) ** 2, 2) for arm in drawn_from]
        shares = odds([arm.known for arm in drawn_from], fits, floor=policy.explore)
        named = {arm.summary.id: share for arm, share in zip(drawn_from, shares, strict=True)}
        place = pick(shares, drawn("template", session, seed))
        arm, share = drawn_from[place], shares[place]
        cold = is_held_out(policy.holdout, session, seed)
        why = f"{arm.suggestion.why}; drawn with probability {share:.2f}"
        if len(drawn_from) > 1:
            why += f" among {len(drawn_from)}"
        if cold:
            why = f"held out to start cold, so that the effect of templates can be measured; otherwise: {why}"
        return Choice(
            arm="holdout" if cold else "warm",
            template=arm.suggestion,
            why=why,
            propensity=share * (policy.holdout if cold else 1 - policy.holdout),
            odds=named,
            changed=some.changed,
            policy=policy,
        )

    def _abstained(self, why: str, some: Eligible) -> Choice:
        return Choice(
            arm="abstained", template=None, why=why, propensity=1.0, changed=some.changed, policy=self._policy
        )

    def _nothing(self, task: str, view: _View, fits: Mapping[str, Fit], harmful: int) -> str:
        """Why nothing is chosen."""
        if not self._summaries:
            return "there are no templates yet"
        left_out = ", ".join(f"{number} {reason}" for reason, number in view.eligible.passed_over.items())
        if not view.by_id:
            return f"no template may be used here: {left_out}"
        besides = f" (left out: {left_out})" if left_out else ""
        if not says_enough(task):
            return f"the task says too little to compare it with templates{besides}"
        if harmful:
            return f"what fits has done worse than starting cold: {_several(harmful, 'template')}{besides}"
        nearest = max(fits.items(), key=lambda each: each[1].similarity, default=None)
        if nearest is None:
            return f"no template has anything in common with the task{besides}"
        template, fit = nearest
        return (
            f"no template is near enough: the nearest is {view.by_id[template].name!r} with a similarity of "
            f"{fit.similarity:.2f}{besides}"
        )


def _diverse(arms: Sequence[_Arm], similarity: Similarity, limit: int) -> list[_Arm]:
    """The best of them, without those that say nearly the same as a better one."""
    chosen: list[tuple[_Arm, frozenset[str]]] = []
    for arm in arms:
        if len(chosen) >= max(0, limit):
            break
        words = similarity.stems(arm.summary.id)
        if all(len(words & others) < _ALIKE * len(words | others) for _, others in chosen):
            chosen.append((arm, words))
    return [arm for arm, _ in chosen]


def sureness(similarity: float) -> float:
    """How sure it is that a template is of the same kind of work as a task, from 0 to 1."""
    return 1 / (1 + exp((_MIDDLE - similarity) / _STEEPNESS))


def _reasons(fit: Fit, standing: Standing) -> str:
    said = []
    if fit.words:
        words = ", ".join(repr(word) for word in fit.words)
        # Not the sub-task itself: a row of the audit outlives a session that is revoked.
        where = "one of its sub-tasks" if fit.task else "its description"
        said.append(f"shares {words} with {where}")
    if fit.recalled:
        said.append(f"recall finds the task in its session {fit.recalled[:8]}")
    known = standing.successes + standing.failures
    if known:
        said.append(f"{standing.successes} of {_several(known, 'session')} that started from it succeeded")
    else:
        said.append("how well it works is not yet known")
    return "; ".join(said)


def _several(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
