"""The results of a stored experiment: the verdict on its primary metric, the other metrics, and sanity checks."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

from warmstart.errors import ExperimentError
from warmstart.experiments import statistics
from warmstart.experiments.analysis import QUESTION, Analysis, Question, analyze
from warmstart.experiments.design import Design
from warmstart.experiments.metrics import METRICS, metric_of, pass_hat_k
from warmstart.experiments.statistics import ALPHA
from warmstart.experiments.store import EXPERTISE, Experiments, Trial
from warmstart.experiments.units import Row
from warmstart.stats import wilson

_SRM = 0.001  # a mismatch means a broken experiment, so the evidence has to be clear
_PACKAGES = ("warmstart", "numpy", "scipy", "statsmodels", "inspect-ai")


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """An experiment with its analyses: `primary` by arm, `secondary` by metric and arm, and the failed `checks`.

    `rows` are what the primary analyses compare. Those of a results file have no `trials`, and `metric` is a column.
    """

    design: Design
    metric: str
    question: Question
    rows: Sequence[Row]
    primary: Sequence[Analysis]
    state: str = ""
    trials: Sequence[Trial] = ()
    secondary: Mapping[str, Sequence[Analysis]] = field(default_factory=dict)
    checks: tuple[str, ...] = ()

    @property
    def unit(self) -> str:
        """The unit of analysis, in the plural."""
        paired = any(row.pair for row in self.rows)
        if self.trials:
            return "tasks" if paired else "sessions"
        return "pairs" if paired else "units"

    @property
    def words(self) -> str:
        """What the metric is."""
        return METRICS[self.metric].words if self.metric in METRICS else self.metric

    @property
    def reliability(self) -> dict[str, dict[int, float]]:
        """pass^k of each arm, by k."""
        runs: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
        for trial in self.trials:
            if trial.task and "success" in trial.measures:
                runs[trial.arm][trial.task].append(bool(trial.measures["success"][0]))
        most = max((len(each) for tasks in runs.values() for each in tasks.values()), default=0)
        values = {arm: {k: pass_hat_k(tasks, k) for k in range(1, most + 1)} for arm, tasks in runs.items()}
        return {arm: {k: value for k, value in each.items() if value is not None} for arm, each in values.items()}

    def as_json(self) -> dict[str, Any]:
        """The first comparison at the top level, then everything else."""
        return {
            **asdict(self.primary[0]),
            "experiment": self.design.name,
            "metric": self.metric,
            "state": self.state,
            "seed": self.design.seed,
            "comparisons": self.primary,
            "secondary": self.secondary,
            "checks": self.checks,
            "pass_hat_k": self.reliability,
            "versions": package_versions(),
        }


def package_versions() -> dict[str, str]:
    """The versions of the packages that computed the numbers."""
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def evaluate(
    experiments: Experiments,
    name: str,
    *,
    metric: str = "",
    smallest_effect: float | None = None,
    baseline: str = "",
    only: Sequence[str] = (),
    covariate: str = "",
) -> Results:
    """Analyse an experiment. While it runs, the verdict uses a confidence sequence and is valid at every look.

    With the covariate `expertise`, arms are compared as if their users had been equally familiar with the project.
    """
    design, state = experiments.get(name)
    trials = experiments.trials(name)
    if not trials:
        raise ExperimentError(f"experiment {name!r} has no sessions yet")
    chosen = metric or design.metric
    effect = design.smallest_effect if smallest_effect is None else smallest_effect
    planned = design.sessions * len(design.arms) or 100

    if covariate not in ("", EXPERTISE):
        raise ExperimentError(f"a stored experiment has no covariate {covariate!r}, only {EXPERTISE!r}")
    known = experiments.expertise() if covariate else {}

    def rows_of(metric: str) -> list[Row]:
        return [trial.row(metric)._replace(covariate=known.get(trial.session)) for trial in trials]

    first = baseline or design.first_arm
    question = Question(metric_of(chosen).lower_is_better, effect, state == "running", planned, covariate)
    rows, others = rows_of(chosen), {}
    primary = analyze(rows, question, baseline=first, only=only)
    for other in METRICS:
        if other != chosen:
            asked = question._replace(lower_is_better=METRICS[other].lower_is_better, smallest_effect=0.0)
            try:
                others[other] = analyze(rows_of(other), asked, baseline=first, only=only, resample=False)
            except ExperimentError:
                continue  # not measurable in these sessions
    return Results(
        design=design,
        metric=chosen,
        question=question,
        rows=rows,
        primary=primary,
        state=state,
        trials=trials,
        secondary=_adjust(others),
        checks=tuple(check(trials, design, primary)),
    )


def evaluate_rows(
    rows: Sequence[Row],
    question: Question = QUESTION,
    *,
    name: str,
    outcome: str,
    baseline: str = "",
    only: Sequence[str] = (),
) -> Results:
    """Analyse the rows of a results file, shown as the experiment `name`."""
    primary = analyze(rows, question, baseline=baseline, only=only)
    return Results(design=Design(name=name, arms={}), metric=outcome, question=question, rows=rows, primary=primary)


def _adjust(by_metric: Mapping[str, Sequence[Analysis]]) -> dict[str, list[Analysis]]:
    """The secondary metrics, with p-values adjusted over all of them (Benjamini-Hochberg)."""
    flat = [(name, each) for name, analyses in by_metric.items() for each in analyses]
    adjusted = statistics.adjust([each.p for _, each in flat], "fdr_bh")
    result: dict[str, list[Analysis]] = defaultdict(list)
    for (name, each), p in zip(flat, adjusted, strict=True):
        # A difference that is not significant after adjustment is not a finding.
        result[name].append(replace(each, p_adjusted=p, verdict=each.verdict if p < ALPHA else "inconclusive"))
    return dict(result)


# -- sanity checks


def check(trials: Sequence[Trial], design: Design, primary: Sequence[Analysis]) -> list[str]:
    """The problems of the experiment, in sentences; empty if there are none."""
    problems = [*_sample_ratio(trials, design), *_imbalance(trials), *_contamination(trials)]
    if design.aa and any(each.verdict in ("helps", "harms") for each in primary):
        problems.append("A/A: the arms start alike and still differ: the experiment is biased, or it is chance.")
    return problems


def _sample_ratio(trials: Sequence[Trial], design: Design) -> list[str]:
    """Sample-ratio mismatch: whether the arms differ in size from the design."""
    if design.kind == "lab":
        return []  # every arm runs every task
    whole = sum(arm.share for arm in design.arms.values())
    counts = Counter(trial.arm for trial in trials)
    expected = [len(trials) * arm.share / whole for arm in design.arms.values()]
    p = float(statistics.load_scipy().chisquare([counts[name] for name in design.arms], expected).pvalue)
    sizes = ", ".join(f"{name} {counts[name]}" for name in design.arms)
    return [f"Sample-ratio mismatch ({sizes}; p = {p:.2g}): some arm is losing sessions."] if p < _SRM else []


def _imbalance(trials: Sequence[Trial]) -> list[str]:
    arms, strata = sorted({trial.arm for trial in trials}), sorted({trial.stratum for trial in trials})
    if len(strata) < 2 or len(arms) < 2:
        return []
    counts = Counter((trial.arm, trial.stratum) for trial in trials)
    table = [[counts[arm, stratum] for stratum in strata] for arm in arms]
    p = float(statistics.load_scipy().chi2_contingency(table).pvalue)
    return [f"The arms consist of different kinds of work (strata, p = {p:.2g})."] if p < _SRM else []


def _contamination(trials: Sequence[Trial]) -> list[str]:
    arms: dict[str, set[str]] = defaultdict(set)
    for trial in trials:
        if trial.unit:
            arms[trial.unit].add(trial.arm)
    mixed = sum(len(each) > 1 for each in arms.values())
    return [f"{mixed} projects have sessions in several arms: knowledge may have leaked between them."] if mixed else []


# -- off-policy evaluation


class Value(NamedTuple):
    """The success rate under a policy, from logged propensities (SNIPS), with its 95 % interval.

    `effective` is the effective sample size: how many sessions of that policy the data are worth. The interval is
    Wilson's for that many. In simulations with 20 to 1,000 sessions it covers the truth in 93 to 96 % of the cases;
    the normal interval, which is empty for an easy template without failures, covers it in 16 to 94 %.
    """

    policy: str
    value: float
    low: float
    high: float
    effective: float


def policy_values(uses: Sequence[Mapping[str, Any]]) -> list[Value]:
    """The success rate of each template, of the selector and of starting cold.

    A use has `arm`, `template`, `propensity`, `odds` (the selector's probabilities) and `reward`.
    """
    weights: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for use in uses:
        reward, inverse = float(use["reward"]), 1 / float(use["propensity"])
        chosen = (inverse * use["odds"].get(use["template"], 1.0), reward)
        if use["arm"] == "holdout":
            weights["cold"].append(chosen)
        else:
            weights["selector"].append(chosen)
            weights[use["template"]].append((inverse, reward))
    return [_snips(policy, pairs) for policy, pairs in weights.items()]


def _snips(policy: str, pairs: Sequence[tuple[float, float]]) -> Value:
    total = sum(weight for weight, _ in pairs)
    value = sum(weight * reward for weight, reward in pairs) / total
    effective = total**2 / sum(weight**2 for weight, _ in pairs)
    return Value(policy, value, *(wilson(value * effective, effective) or (0.0, 1.0)), effective)
