"""From rows to a verdict: does the treatment help, harm or make no difference that matters, or is it not yet known?

| data | test and interval |
| --- | --- |
| pairs | paired t-test on the differences of the pairs' means |
| pairs, one row each, 0 or 1 | McNemar's exact test, interval of Bonett and Price |
| one row per unit | Welch's t-test |
| one row per unit, 0 or 1 | two-proportion z-test, Newcombe's interval |
| several rows per unit | cluster-robust (CR2) t-test with Bell-McCaffrey degrees of freedom |
| times that may be censored | one of the t-tests on restricted means (Kaplan-Meier) |
| unpaired, with a covariate | regression in each arm (Lin), cluster-robust (CR2) |
| any of these, while the experiment runs | asymptotic confidence sequence |
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, isfinite, sqrt
from typing import Any, Literal, NamedTuple

from warmstart.errors import ExperimentError
from warmstart.experiments import statistics
from warmstart.experiments.statistics import ALPHA, Mean, Test, cluster_mean, t_test
from warmstart.experiments.units import Arm, Row, Units, arm_names, group_units
from warmstart.stats import Interval, wilson

Verdict = Literal["helps", "harms", "equivalent", "inconclusive"]

_MIN_UNITS = 2  # with fewer there is no variance
_FEW_UNITS = 10  # per arm; with fewer, every method depends on its assumptions
_ZERO = 1e-12


class Question(NamedTuple):
    """The question to answer: which direction is good, which effect matters, and whether data still come in.

    `planned` is the number of units at which a confidence sequence is tightest, `covariate` the name of what to adjust
    for.
    """

    lower_is_better: bool = False
    smallest_effect: float = 0.0
    sequential: bool = False
    planned: int = 100
    covariate: str = ""


QUESTION = Question()


class ArmSummary(NamedTuple):
    """The numbers of one arm; the interval is that of its own mean."""

    name: str
    units: int
    rows: int
    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """One arm compared with the baseline.

    `p_adjusted` is Holm-adjusted over all comparisons of an experiment. `naive_p` is the p-value of a test that treats
    rows as independent, shown because that is the common mistake. `more_units` would settle an inconclusive verdict.
    `is_share` means that outcomes are zeros and ones.
    """

    difference: float
    se: float
    ci_low: float
    ci_high: float
    p: float
    n_units: int
    method: str
    icc: float | None
    deff: float | None
    mde: float
    verdict: Verdict = "inconclusive"
    baseline: ArmSummary
    treatment: ArmSummary
    p_adjusted: float = 1.0
    naive_p: float | None = None
    p_permutation: float | None = None
    bootstrap: tuple[float, float] | None = None
    more_units: int | None = None
    smallest_effect: float = 0.0
    lower_is_better: bool = False
    is_share: bool = False
    df: float = 0.0
    notes: tuple[str, ...] = ()

    def numbers(self) -> dict[str, str]:
        """The figures that a reviewer wants to see, by column heading."""
        return {
            "arm": self.treatment.name,
            "mean": f"{self.treatment.mean:.4g}",
            "difference": f"{self.difference:+.4g}",
            "SE": f"{self.se:.4g}",
            "95 % interval": f"{self.ci_low:+.4g} to {self.ci_high:+.4g}",
            "p": f"{self.p:.4g}",
            "naive p": _or_dash(self.naive_p),
            "n": str(self.n_units),
            "ICC": _or_dash(self.icc),
            "deff": _or_dash(self.deff),
            "detectable": f"{self.mde:.4g}",
        }


def _or_dash(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def analyze(
    rows: Sequence[Row],
    question: Question = QUESTION,
    *,
    baseline: str = "",
    only: Sequence[str] = (),
    resample: bool = True,
) -> list[Analysis]:
    """Compare every arm with the baseline, by default the first in alphabetical order.

    With `resample` also by permutation and bootstrap. Raises `ExperimentError` if the data do not allow a comparison.
    """
    first, *others = arm_names(rows, baseline=baseline, only=only)
    analyses, refused = [], defaultdict[str, list[str]](list)
    for other in others:
        try:
            analyses.append(compare(rows, first, other, question, resample=resample))
        except ExperimentError as error:
            if len(others) == 1:
                raise
            refused[str(error)].append(other)
    notes = [f"Not compared: {', '.join(arms)} ({reason})." for reason, arms in refused.items()]
    if not analyses:
        raise ExperimentError(f"no arm can be compared with {first}. {' '.join(notes)}")
    analyses[0] = replace(analyses[0], notes=(*analyses[0].notes, *notes))
    adjusted = statistics.adjust([each.p for each in analyses], "holm")
    return [_judge(each, p) for each, p in zip(analyses, adjusted, strict=True)]


def compare(
    rows: Sequence[Row], baseline: str, treatment: str, question: Question = QUESTION, *, resample: bool = False
) -> Analysis:
    """Compare one arm with the baseline."""
    rows = [row for row in rows if row.arm in (baseline, treatment)]
    for arm in (baseline, treatment):
        if not any(row.arm == arm for row in rows):
            raise ExperimentError(f"arm {arm!r} has no rows yet: there is nothing to compare")
    notes = _missing_notes(rows, baseline, treatment, worst=float(question.lower_is_better))
    if question.covariate:
        rows, missing = _with_covariate(rows, question.covariate)
        notes += missing
    is_share = all(row.total in (0, 1) or row.square is not None for row in rows if row.total is not None)
    rows, ending = _restrict(rows)
    units = group_units(rows, baseline, treatment)
    _refuse(units, baseline, treatment)
    test, method = _test(units)
    if question.covariate:
        notes.append(_balance(units, question.covariate, test))
        test, method = adjusted_test(units, question.covariate)
    test = Test._make(map(float, test))
    if not all(map(isfinite, test)) or test.se < _ZERO:
        raise ExperimentError("the outcomes within the arms do not vary, so there is no interval to compute")
    half = None
    if question.sequential:
        test = Test._make(map(float, statistics.at_every_look(test, units.independent, planned=question.planned)))
        method, half = f"asymptotic confidence sequence on the {method}", test.high - test.value
    if is_share:
        test = test._replace(low=max(-1.0, test.low), high=min(1.0, test.high))
    icc, deff = correlation(units)
    few = min(units.baseline.sums.size, units.treatment.sums.size)
    if few < _FEW_UNITS:
        notes.append(f"An arm has only {few} units, too few to rely on.")
    analysis = Analysis(
        difference=test.value,
        se=test.se,
        ci_low=test.low,
        ci_high=test.high,
        p=test.p,
        n_units=units.independent,
        method=method + ending,
        icc=icc,
        deff=deff,
        mde=statistics.smallest_detectable(test.se, test.df, half),
        baseline=_summary(baseline, units.baseline, rows, paired=units.clusters is not None),
        treatment=_summary(treatment, units.treatment, rows, paired=units.clusters is not None),
        smallest_effect=question.smallest_effect,
        lower_is_better=question.lower_is_better,
        is_share=is_share,
        df=test.df,
        notes=(*units.notes, *notes),
        naive_p=None if question.covariate else _naive_p(units),
        **(_resample(units) if resample and not question.covariate else {}),
    )
    return _judge(analysis, test.p)


def _refuse(units: Units, baseline: str, treatment: str) -> None:
    """Refuse data that do not allow an interval."""
    import numpy as np

    if units.clusters is not None:
        if units.independent < _MIN_UNITS:
            raise ExperimentError("there is only one pair: at least two are needed to estimate how much pairs vary")
    else:
        for name, arm in ((baseline, units.baseline), (treatment, units.treatment)):
            if arm.sums.size < _MIN_UNITS:
                raise ExperimentError(f"arm {name!r} has only one unit: at least two are needed to estimate variance")
    values = np.concatenate([units.baseline.means, units.treatment.means])
    if (values == values[0]).all():
        raise ExperimentError(f"every outcome is {values[0]:g}: without any variation there is nothing to compare")


# -- the methods


def _test(units: Units) -> tuple[Test, str]:
    """The difference by the method that fits the data, and the name of that method."""
    binary = units.baseline.is_binary and units.treatment.is_binary
    if units.clusters is not None:
        gaps = units.differences
        if binary and units.independent == gaps.size:
            test = statistics.mcnemar(int((gaps > 0).sum()), int((gaps < 0).sum()), gaps.size)
            return test, "McNemar's exact test (interval of Bonett and Price)"
        sums, sizes = units.sum_differences()
        return t_test(cluster_mean(sums, sizes)), (
            "paired t-test" if (sizes == 1).all() else "cluster-robust paired t-test (CR2)"
        )
    arms = units.treatment, units.baseline
    if binary:
        counts = (number for arm in arms for number in (int(arm.sums.sum()), arm.sums.size))
        return statistics.two_proportions(*counts), "two-proportion z-test (Newcombe's interval)"
    name = "cluster-robust t-test (CR2, Bell-McCaffrey degrees of freedom)"
    if all((arm.sizes == 1).all() for arm in arms):
        name = "Welch's t-test"
    return t_test(statistics.difference(*(cluster_mean(arm.sums, arm.sizes) for arm in arms))), name


def adjusted_test(units: Units, covariate: str) -> tuple[Test, str]:
    """The difference between arms as if the covariate had the same mean in both (Lin)."""
    import numpy as np

    if units.clusters is not None:
        raise ExperimentError(f"pairs cannot be adjusted for {covariate}: they are compared with themselves already")
    arms = units.treatment, units.baseline
    sums, sizes = (np.concatenate([getattr(arm, name) for arm in arms]) for name in ("covariates", "sizes"))
    overall = cluster_mean(sums, sizes)
    (treated, slope), (base, other_slope) = (
        statistics.adjusted_mean(arm.sums, arm.sizes, arm.covariates / arm.sizes - overall.value) for arm in arms
    )
    mean = statistics.difference(treated, base)
    if not isfinite(mean.variance):
        raise ExperimentError(f"{covariate} does not vary enough within an arm, so it cannot be adjusted for")
    # If the effect depends on the covariate, the covariate's mean matters, which is only estimated.
    mean = mean._replace(variance=mean.variance + (slope - other_slope) ** 2 * overall.variance)
    return t_test(mean), f"regression on {covariate} in each arm (Lin, CR2)"


def _with_covariate(rows: Sequence[Row], covariate: str) -> tuple[list[Row], list[str]]:
    """The rows whose covariate is known, and a note on the others."""
    known = [row for row in rows if row.covariate is not None]
    if not known:
        raise ExperimentError(f"{covariate} is not known for any row: there is nothing to adjust for")
    return known, [f"Rows without {covariate} were left out: {len(rows) - len(known)}."] if len(rows) > len(
        known
    ) else []


def _balance(units: Units, covariate: str, test: Test) -> str:
    """How the arms differ in the covariate, and the result without adjustment."""
    means = (f"{arm.covariates.sum() / arm.sizes.sum():.3g}" for arm in (units.baseline, units.treatment))
    return (
        f"Mean {covariate}: {' in the baseline, '.join(means)} in the other arm. "
        f"Without adjustment the difference is {test.value:+.3g} (SE {test.se:.3g})."
    )


def _restrict(rows: Sequence[Row]) -> tuple[Sequence[Row], str]:
    """Replace censored times by values for the restricted mean, up to the last time that both arms reach."""
    import numpy as np

    if all(row.observed for row in rows):
        return rows, ""
    known = {
        arm: [row for row in rows if row.arm == arm and row.total is not None] for arm in {row.arm for row in rows}
    }
    until = min(max((row.total or 0.0 for row in each), default=0.0) for each in known.values())
    restricted = []
    for each in known.values():
        times, observed = np.array([row.total for row in each], float), np.array([row.observed for row in each], bool)
        values = statistics.restricted_means(times, observed, until)
        restricted += [row._replace(total=float(value)) for row, value in zip(each, values, strict=True)]
    return restricted, f" of restricted mean times up to {until:g} (Kaplan-Meier)"


# -- further figures


def correlation(units: Units) -> tuple[float | None, float | None]:
    """The intra-class correlation and the design effect (Kish); `None` and 1 if every unit is a single row.

    For pairs with one row in each arm, the correlation is that between the two arms, and the design effect compares the
    variance of the paired difference with that of unrelated rows: below 1, pairing helped.
    """
    import numpy as np

    arms = (units.baseline, units.treatment)
    if not all((arm.sizes == 1).all() for arm in arms):
        icc = float(statistics.intraclass_correlation(*([arm[place] for arm in arms] for place in range(3))))
        return (icc, statistics.design_effect([arm.sizes for arm in arms], icc)) if isfinite(icc) else (None, None)
    if units.clusters is None:
        return None, 1.0
    spread = [float(arm.sums.var(ddof=1)) for arm in arms]
    if min(spread) < _ZERO:
        return None, None
    covariance = float(np.cov(units.baseline.sums, units.treatment.sums)[0, 1])
    return covariance / sqrt(spread[0] * spread[1]), float(units.differences.var(ddof=1)) / sum(spread)


def _naive_p(units: Units) -> float | None:
    """The p-value as if rows were independent."""
    means = []
    for arm in (units.treatment, units.baseline):
        n = float(arm.sizes.sum())
        variance = max(float(arm.squares.sum()) / n - arm.mean**2, 0.0) / max(n - 1, 1)
        means.append(Mean(arm.mean, variance, max(n - 1, 1)))
    test = t_test(statistics.difference(*means))
    return float(test.p) if test.se > _ZERO else None


def _resample(units: Units) -> dict[str, Any]:
    """The same comparison by permutation and by bootstrap."""
    import numpy as np

    arms = units.treatment, units.baseline
    if units.clusters is not None:
        sums, sizes = units.sum_differences()
        p, is_treated = statistics.permutation_p(sums), None
    else:
        sums, sizes = (np.concatenate([getattr(arm, name) for arm in arms]) for name in ("sums", "sizes"))
        p, is_treated = statistics.permutation_p(*(arm.means for arm in arms)), np.arange(sums.size) < arms[0].sums.size
    return {"p_permutation": p, "bootstrap": statistics.bootstrap_interval(sums, sizes, is_treated)}


def _summary(name: str, arm: Arm, rows: Sequence[Row], *, paired: bool) -> ArmSummary:
    """The numbers of one arm. Pairs all count the same, as in the difference."""
    if paired:
        arm = arm._replace(sums=arm.means, squares=arm.means**2, sizes=arm.means * 0 + 1)
    count = sum(row.arm == name and row.total is not None for row in rows)
    if arm.is_binary:
        interval = wilson(int(arm.sums.sum()), arm.sums.size)
    else:
        mean = t_test(cluster_mean(arm.sums, arm.sizes))
        interval = Interval(float(mean.low), float(mean.high))
    return ArmSummary(name, arm.sums.size, count, arm.mean, *(interval or (None, None)))


def _missing_notes(rows: Sequence[Row], baseline: str, treatment: str, *, worst: float) -> list[str]:
    """Notes on missing outcomes, which are never dropped silently."""
    totals = {arm: [row.total for row in rows if row.arm == arm] for arm in (baseline, treatment)}
    if not any(None in each for each in totals.values()):
        return []
    missing = {arm: each.count(None) for arm, each in totals.items()}
    parts = ", ".join(f"{missing[arm]} of {len(each)} in {arm!r}" for arm, each in totals.items())
    notes = [f"Rows without an outcome were left out: {parts}."]
    if all(row.total in (0, 1, None) and row.size == 1 for row in rows):
        means = [sum(worst if total is None else total for total in each) / len(each) for each in totals.values()]
        notes.append(
            f"Intention to treat: with missing outcomes counted as failures ({worst:g}) the difference is "
            f"{means[1] - means[0]:+.3g}."
        )
    table = [[missing[arm], len(each) - missing[arm]] for arm, each in totals.items()]
    p = float(statistics.load_scipy().fisher_exact(table)[1])
    if p < ALPHA:
        notes.append(f"Outcomes are missing more often in one arm (p = {p:.2g}): the difference may be biased.")
    return notes


# -- the verdict


def _judge(analysis: Analysis, p: float) -> Analysis:
    """The verdict, with the p-value adjusted for the family of comparisons."""
    low, high, limit = analysis.ci_low, analysis.ci_high, analysis.smallest_effect
    verdict: Verdict = "inconclusive"
    if limit and -limit < low and high < limit:
        verdict = "equivalent"
    elif p < ALPHA and (low > 0 or high < 0):
        verdict = "helps" if (low > 0) != analysis.lower_is_better else "harms"
    wanted = analysis.smallest_effect or abs(analysis.difference)
    more = None
    if verdict == "inconclusive" and wanted > _ZERO:
        more = max(1, ceil(analysis.n_units * ((analysis.mde / wanted) ** 2 - 1)))
    return replace(analysis, verdict=verdict, p_adjusted=p, more_units=more)


def in_words(analysis: Analysis, *, unit: str = "units") -> str:
    """The verdict in a sentence that takes no statistics to understand."""
    name, base = analysis.treatment.name, analysis.baseline.name
    sign, points = -1 if analysis.lower_is_better else 1, " points" if analysis.is_share else ""

    def size(value: float) -> str:
        return f"{100 * abs(value):.1f}" if analysis.is_share else f"{abs(value):.3g}"

    def judge(value: float) -> str:
        return f"{size(value)}{points} {'better' if sign * value > 0 else 'worse'}"

    low, high = sorted((sign * analysis.ci_low, sign * analysis.ci_high))
    interval = f"{judge(sign * low)} to {judge(sign * high)}"
    if low * high > 0:
        near, far = sorted((low, high), key=abs)
        interval = f"{size(near)} to {judge(sign * far)}"
    if analysis.verdict == "equivalent":
        return (
            f"{name} makes no difference that matters: it is {interval} than {base} (95 % interval), and less than "
            f"{size(analysis.smallest_effect)}{points} does not matter."
        )
    if analysis.verdict != "inconclusive":
        return f"{name} {analysis.verdict}: {judge(analysis.difference)} than {base} (95 % interval: {interval})."
    fits = f"and anything from {interval} fits the data"
    if low * high > 0:
        fits = f"but that may be chance (p = {analysis.p_adjusted:.2g})"
    sentence = f"Not yet known whether {name} helps: {judge(analysis.difference)} than {base} so far, {fits}."
    if analysis.more_units:
        wanted = size(analysis.smallest_effect or analysis.difference)
        sentence += f" About {analysis.more_units:,} more {unit} would show a difference of {wanted}{points}."
    return sentence
