"""Which template a session starts from, with what confidence, why, and when it is better to abstain.

The steps: templates that may not be used are filtered out (project, tools, agent, state), then those that are not
similar enough to the task. Thompson sampling draws from the rest and prefers what has worked, with a floor so that each
is tried now and then. If nothing is similar enough, or the similar ones have done worse than starting cold, nothing is
chosen. A share of the sessions that would start warm is held out and starts cold, so that the effect stays measurable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from math import exp
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from warmstart.errors import ConfigError
from warmstart.sessions.projects import repository_of
from warmstart.stats import assign
from warmstart.templates.lifecycle import Counts, count_uses, total, unpromoted
from warmstart.templates.similarity import DEADLINE_MS, Described, Fit, Similarity, add_recall, by_recall, says_enough
from warmstart.templates.store import SQLTemplateStore, Summary
from warmstart.templates.template import State, WarmTemplate
from warmstart.templates.thompson import Belief, belief, does_harm, odds
from warmstart.templates.tools import Definitions, fingerprint, schemas_of

if TYPE_CHECKING:
    from warmstart.recall.recall import Recall

Arm = Literal["warm", "holdout", "abstained"]

# Set by eye on real tasks, not fitted: by words, the nearest template for unrelated work stayed below 0.2 in 98 of 100
# cases, and the nearest one for the same work was above 0.28 in 90 of 100. Within one project they overlap.
_MIDDLE, _STEEPNESS = 0.28, 0.09
_MAX_ARMS = 4  # templates to draw from
_MIN_NEARNESS = 0.6  # share of the highest similarity that a template needs to be drawn


class Policy(NamedTuple):
    """How templates are chosen: the share that starts cold, the share of exploration, and the minimum confidence."""

    holdout: float = 0.10
    explore: float = 0.10
    min_sure: float = 0.30


DEFAULT_POLICY = Policy()


@dataclass(frozen=True, slots=True)
class Task:
    """What a session is asked to do, and where it starts.

    With an empty project only templates without a project fit, with `None` those of all projects. `tools` are the
    definitions that the host gives, `None` if they are not known. `session` seeds the draw: the same session gets the
    same choice as long as the templates stay the same.
    """

    text: str
    _: KW_ONLY
    project: str | None = ""
    agent: str = ""
    tools: Definitions | None = None
    session: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A template that fits a task, and why. `sure` is the confidence that it fits, from 0 to 1.

    `similarity` is that to the task, `utility` the difference in success rate from a cold start; `task` is its most
    similar request among its examples, if one is similar.
    """

    id: str
    name: str
    version: int
    state: State
    sure: float
    similarity: float
    utility: float
    why: str
    description: str = ""
    task: str = ""

    @classmethod
    def of(cls, template: Summary | WarmTemplate, **more: Any) -> Suggestion:
        copied = {name: getattr(template, name) for name in ("id", "name", "version", "state", "description")}
        return cls(**copied, **more)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What a session starts with, and why.

    `template` is what it starts from, or in the arm `holdout` would have started from; `propensity` is the probability
    of exactly this arm and template. `odds` are the probabilities of the templates, before the holdout.
    """

    arm: Arm
    why: str
    template: Suggestion | None = None
    propensity: float = 1.0
    odds: Mapping[str, float] = field(default_factory=dict)
    policy: Policy = DEFAULT_POLICY


class Named(NamedTuple):
    """A selector that always chooses the template that somebody named."""

    template: WarmTemplate
    why: str

    def choose(self, _: Task) -> Choice:
        suggestion = Suggestion.of(self.template, sure=1.0, similarity=1.0, utility=0.0, why=self.why)
        return Choice(arm="warm", why=self.why, template=suggestion)


class _View(NamedTuple):
    """The templates that one kind of session may start from, and counts of the others by reason."""

    by_id: Mapping[str, Summary]
    left_out: Mapping[str, int]
    similarity: Similarity


_Arm = tuple[Suggestion, Belief]


class Selector:
    """Chooses among the templates of a store. Valid as long as that store is open; caches what it read."""

    def __init__(
        self,
        store: SQLTemplateStore,
        *,
        recall: Recall | None = None,
        policy: Policy = DEFAULT_POLICY,
        deadline_ms: float = DEADLINE_MS,
    ) -> None:
        for name, share in policy._asdict().items():
            if not 0 <= share <= 1:
                raise ConfigError(f"{name} is {share!r}; give a number from 0 to 1")
        self._store = store
        self._recall = recall
        self._policy = policy
        self._deadline = deadline_ms
        self._stamp: tuple[int, ...] = ()
        self._summaries: list[Summary] = []
        self._views: dict[object, _View] = {}
        self._counts: Mapping[str, Counts] = {}
        self._cold = belief(0, 0)

    def choose(self, task: Task, *, seed: int | None = None) -> Choice:
        """What a session with this task starts with. A seed changes the draw."""
        view = self._view(task)
        arms, why = self._rank(task, view)
        if not arms:
            return Choice(arm="abstained", why=why, policy=self._policy)
        nearest = max(each.similarity for each, _ in arms)
        arms = [arm for arm in arms if arm[0].similarity >= _MIN_NEARNESS * nearest][:_MAX_ARMS]
        # Squared: similarity says more than the few outcomes that most templates have. Rounded: `odds` is cached.
        fits = [round((each.similarity / nearest) ** 2, 2) for each, _ in arms]
        shares = odds([belief for _, belief in arms], fits, floor=self._policy.explore)
        chances = {each.id: share for (each, _), share in zip(arms, shares, strict=True)}
        drawn, share = assign(chances, "template", task.session, seed=seed)
        chosen = next(each for each, _ in arms if each.id == drawn)
        cold = is_held_out(self._policy.holdout, task.session, seed)
        why = f"{chosen.why}; drawn with probability {share:.2f}" + (f" among {len(arms)}" if len(arms) > 1 else "")
        if cold:
            why = f"held out to start cold, so that the effect of templates can be measured; otherwise: {why}"
        return Choice(
            arm="holdout" if cold else "warm",
            template=chosen,
            why=why,
            propensity=share * (self._policy.holdout if cold else 1 - self._policy.holdout),
            odds=chances,
            policy=self._policy,
        )

    def suggest(self, task: Task, *, limit: int = 3) -> list[Suggestion]:
        """The templates that fit a task, best first; empty if nothing fits."""
        arms, _ = self._rank(task, self._view(task))
        return [each for each, _ in arms[: max(0, limit)]]

    def _refresh(self) -> None:
        """Read what has changed. Mostly that is only the use of templates, which is cheap to read."""
        (row,) = self._store.select(
            "SELECT (SELECT number FROM template_revision), (SELECT count(*) FROM template_versions), "
            "(SELECT count(*) FROM template_ids), (SELECT count(*) FROM templates)"
        )
        if row == self._stamp:
            return
        if row[1:] != self._stamp[1:]:
            doubtful = unpromoted(self._store)
            self._summaries = [
                each._replace(state="candidate") if each.id in doubtful else each for each in self._store.summaries()
            ]
            self._views = {}
        self._counts = count_uses(self._store)
        everything = total(self._counts.values())
        self._cold = belief(everything.cold_successes, everything.cold_failures)
        self._stamp = row

    def _view(self, task: Task) -> _View:
        """The templates that a session may start from. Only the last view is cached: the next one is often the same."""
        self._refresh()
        tools = None
        if task.tools is not None:
            tools = {name: fingerprint(schema) for name, schema in schemas_of(task.tools).items()}
        key = (task.project, task.agent, tools and tuple(tools.items()))
        if key in self._views:
            return self._views[key]
        why_not = {each.id: _exclusion(each, task, tools) for each in self._summaries}
        by_id = {each.id: each for each in self._summaries if not why_not[each.id]}
        left_out = Counter(filter(None, why_not.values()))
        described = (
            Described(each.id, each.tasks, " ".join((each.name, each.description, *each.tags)))
            for each in by_id.values()
        )
        self._views = {key: _View(by_id, left_out, Similarity(described))}
        return self._views[key]

    def _rank(self, task: Task, view: _View) -> tuple[list[_Arm], str]:
        """The templates that are similar enough and not known to do harm, best first; if there are none, why."""
        if not self._summaries:
            return [], "there are no templates yet"
        left_out = ", ".join(f"{number} {reason}" for reason, number in view.left_out.items())
        if not view.by_id:
            return [], f"no template may be used here: {left_out}"
        note = f" (left out: {left_out})" if left_out else ""
        if not says_enough(task.text):
            return [], f"the task says too little to compare it with templates{note}"
        fits = view.similarity.by_words(task.text)
        if self._recall is not None:
            recalled = by_recall(
                self._recall, task.text, project=task.project or None, session=task.session, deadline_ms=self._deadline
            )
            for each in view.by_id.values():
                if not recalled.keys().isdisjoint(each.sources):
                    fits[each.id] = add_recall(fits.get(each.id, Fit(0.0)), each.sources, recalled)
        near = {template: fit for template, fit in fits.items() if sureness(fit.similarity) >= self._policy.min_sure}
        arms = [arm for template, fit in near.items() if (arm := self._arm(view.by_id[template], fit))]
        if arms:
            return sorted(arms, key=lambda arm: (-arm[0].similarity * (1 + arm[0].utility), arm[0].id)), ""
        if near:
            return [], f"the templates that fit have done worse than starting cold{note}"
        if not fits:
            return [], f"no template has anything in common with the task{note}"
        nearest = max(fits, key=lambda each: fits[each].similarity)
        return [], (
            f"no template is similar enough: the closest is {view.by_id[nearest].name!r} with a similarity of "
            f"{fits[nearest].similarity:.2f}{note}"
        )

    def _arm(self, summary: Summary, fit: Fit) -> _Arm | None:
        """A template that may be drawn; `None` if it does harm."""
        counts = self._counts.get(summary.id, Counts())
        cold = counts.cold(self._cold)
        if does_harm(counts.successes, counts.failures, cold):
            return None
        known = belief(counts.successes, counts.failures, cold)
        scores = {"sure": sureness(fit.similarity), "similarity": fit.similarity, "utility": known.mean - cold.mean}
        return Suggestion.of(summary, **scores, why=_reasons(fit, counts), task=fit.task), known


def _exclusion(template: Summary, task: Task, tools: Mapping[str, str] | None) -> str:
    """Why a template may not be chosen; empty if it may. Only active templates may."""
    if task.project is not None and template.project and not is_project(template.project, task.project):
        return "from another project"
    if template.state != "active":
        return "not promoted" if template.state == "candidate" else template.state
    if tools is None:
        # Agents name their tools differently: if the tools are unknown, the agent has to match.
        return "for another agent" if template.agent and task.agent and template.agent != task.agent else ""
    if any(mark and tools.get(tool) and tools[tool] != mark for tool, mark in template.tools.items()):
        return "with a changed tool schema"
    return "without a tool of this session" if template.tools and tools.keys().isdisjoint(template.tools) else ""


def is_project(path: str, given: str) -> bool:
    """Whether `given`, a full path or its last part, names the project `path`; an import only has the last part."""
    path, given = repository_of(path), given.rstrip("/") or given  # an old template may name a worktree
    if "/" not in path:
        return path == given.rsplit("/", 1)[-1]
    return path == given or (bool(given) and not given.startswith("/") and path.endswith(f"/{given}"))


def sureness(similarity: float) -> float:
    """The confidence that a template is for the same kind of work as a task, from 0 to 1."""
    return 1 / (1 + exp((_MIDDLE - similarity) / _STEEPNESS))


def _reasons(fit: Fit, counts: Counts) -> str:
    reasons = []
    if fit.words:
        words = ", ".join(repr(word) for word in fit.words)
        # Not the request itself: a row of the audit log outlives a revoked session.
        reasons.append(f"shares {words} with {'one of its sub-tasks' if fit.task else 'its description'}")
    if fit.recalled:
        reasons.append(f"recall finds the task in its session {fit.recalled[:8]}")
    known = f"{counts.successes} of {counts.known} sessions that started from it succeeded"
    return "; ".join((*reasons, known if counts.known else "how well it works is not yet known"))


def is_held_out(share: float, session: str, seed: int | None = None) -> bool:
    """Whether a session belongs to the share that starts cold."""
    return assign({"holdout": share, "warm": 1 - share}, "holdout", session, seed=seed)[0] == "holdout"
