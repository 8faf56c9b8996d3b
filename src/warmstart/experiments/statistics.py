"""The statistics behind a verdict and a plan: plain functions on numbers, mostly numpy, with scipy for distributions.

The unit is the session, or the task when paired; `units.py` decides which. An arm's mean is a ratio of sums over units,
and its variance is cluster-robust with the CR2 correction of Bell and McCaffrey: residual sums of units are scaled up
by their leverage, and the degrees of freedom are those of the quadratic form. With one row per unit this is exactly
Welch's t-test, with equally many rows per unit exactly Welch's t-test on unit means.

The method for each verdict was chosen by simulation (`tests/experiments/test_simulation.py`): 2,000 runs each,
intra-class correlation 0, .05 and .2, units of unequal size, 20 to 200 sessions per arm.

Functions on units accept batches: the last axis is units, all axes before it are independent experiments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

from warmstart.errors import ExperimentError
from warmstart.stats import cluster_bootstrap, newcombe, sequence_factor, sequence_rho

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Flags = npt.NDArray[np.bool_]

ALPHA = 0.05
POWER = 0.80
DEFAULT_ICC = 0.05  # of tool errors in real sessions, at the lower end
_ZERO = 1e-9  # rounding noise
_MAX_PERMUTED = 2_000  # units; with more, the t-test does not need normal outcomes


def load_scipy() -> Any:
    """Import `scipy.stats`, which takes seconds and needs the extra `experiments`."""
    try:
        import scipy.stats
    except ImportError as error:
        raise ExperimentError("scipy is not installed: pip install 'warmstart[experiments]'") from error
    return scipy.stats


class Mean(NamedTuple):
    """The mean of an arm, its variance, and the degrees of freedom of that variance."""

    value: Any
    variance: Any
    df: Any


class Test(NamedTuple):
    """A difference with its standard error and degrees of freedom, its 95 % interval, and the two-sided p-value."""

    value: Any
    se: Any
    df: Any
    low: Any
    high: Any
    p: Any


# -- means and differences over units


def t_test(mean: Mean) -> Test:
    """The t-test of a mean, or of a difference, against zero, with the t interval."""
    import numpy as np

    stats = load_scipy()
    with np.errstate(divide="ignore", invalid="ignore"):
        se = np.sqrt(mean.variance)
        half = stats.t.ppf(1 - ALPHA / 2, mean.df) * se
        p = 2 * stats.t.sf(abs(mean.value) / se, mean.df)
    return Test(mean.value, se, mean.df, mean.value - half, mean.value + half, p)


def cluster_mean(sums: Floats, sizes: Floats) -> Mean:
    """The mean over the rows of at least two units, with CR2 variance and Bell-McCaffrey degrees of freedom."""
    total = sizes.sum(-1, keepdims=True)
    mean = sums.sum(-1, keepdims=True) / total
    share = sizes / total
    weight = 1 / (1 - share)
    variance = (weight * (sums - mean * sizes) ** 2).sum(-1) / total[..., 0] ** 2
    # For independent rows the residual sums of units g and h have the covariance [g = h] m_g - m_g m_h / n, with m the
    # sizes; the variance is a quadratic form in them.
    trace = (weight * sizes * (1 - share)).sum(-1)
    squares = (weight**2 * sizes**2 * (1 - 2 * share)).sum(-1) + (weight * sizes * share).sum(-1) ** 2
    return Mean(mean[..., 0], variance, trace**2 / squares)


def adjusted_mean(sums: Floats, sizes: Floats, covariate: Floats) -> tuple[Mean, float]:
    """The expected mean of units whose covariate is 0, and the slope, by least squares over the rows.

    Variance and degrees of freedom are those of `cluster_mean`, for a mean that depends on the covariate. They are NaN
    if the covariate does not vary, or a single unit decides the slope.
    """
    import numpy as np

    columns = np.stack([np.ones_like(covariate), covariate])
    inverse = np.linalg.pinv(columns * sizes @ columns.T, hermitian=True)
    mean, slope = inverse @ columns @ sums
    leverage = (columns * (inverse @ columns)).sum(0)  # of one row
    rest = 1 - leverage * sizes
    if np.ptp(covariate) < _ZERO or rest.min() < _ZERO:
        return Mean(mean, np.nan, np.nan), float(slope)
    weight = (inverse[0] @ columns * sizes) ** 2 / rest
    variance = (weight * (sums / sizes - mean - slope * covariate) ** 2).sum()
    # For independent rows the residual means of units g and h have the covariance [g = h] / m_g - z_g' A z_h, with m
    # the sizes, z the columns and A the inverse.
    trace = (weight * (1 / sizes - leverage)).sum()
    between = inverse @ (columns * weight) @ columns.T
    squares = (weight**2 * (1 / sizes - 2 * leverage) / sizes).sum() + np.trace(between @ between)
    return Mean(mean, variance, trace**2 / squares), float(slope)


def difference(treatment: Mean, baseline: Mean) -> Mean:
    """Treatment minus baseline for independent arms, with Welch-Satterthwaite degrees of freedom."""
    import numpy as np

    variance = treatment.variance + baseline.variance
    with np.errstate(divide="ignore", invalid="ignore"):
        df = np.divide(variance**2, treatment.variance**2 / treatment.df + baseline.variance**2 / baseline.df)
    return Mean(treatment.value - baseline.value, variance, df)


def intraclass_correlation(sums: Sequence[Floats], squares: Sequence[Floats], sizes: Sequence[Floats]) -> Any:
    """The ANOVA estimate of the intra-class correlation, pooled over arms; NaN if every unit has one row.

    `squares` are the sums of squared outcomes of each unit. The estimate can be slightly negative.
    """
    import numpy as np

    between: Any = 0.0
    within: Any = 0.0
    adjusted: Any = 0.0
    for total, square, size in zip(sums, squares, sizes, strict=True):
        n = size.sum(-1)
        between = between + (total**2 / size).sum(-1) - total.sum(-1) ** 2 / n
        within = within + (square - total**2 / size).sum(-1)
        adjusted = adjusted + n - (size**2).sum(-1) / n
    units, rows = sum(size.shape[-1] for size in sizes), sum(size.sum(-1) for size in sizes)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean_between, mean_within = between / (units - len(sums)), within / (rows - units)
        typical = adjusted / (units - len(sums))
        return (mean_between - mean_within) / (mean_between + (typical - 1) * mean_within)


def design_effect(sizes: Sequence[Floats], icc: float) -> float:
    """The variance relative to that of as many independent rows (Kish, for unequal sizes)."""
    rows = sum(float(size.sum()) for size in sizes)
    weighted = sum(float((size**2).sum()) for size in sizes) / rows
    return 1 + (weighted - 1) * icc


# -- proportions


def mcnemar(gained: int, lost: int, pairs: int) -> Test:
    """McNemar's exact test, with the interval of Bonett and Price for the difference of paired proportions.

    `gained` and `lost` count the pairs in which only the treatment, or only the baseline, succeeded. If all pairs
    agree, or all differ in the same way, the standard error is that of a single deviating pair.
    """
    stats = load_scipy()
    p = min(1.0, 2 * float(stats.binom.cdf(min(gained, lost), gained + lost, 0.5)))
    up, down = (gained + 1) / (pairs + 2), (lost + 1) / (pairs + 2)
    half = float(stats.norm.isf(ALPHA / 2)) * sqrt((up + down - (up - down) ** 2) / (pairs + 2))
    se = sqrt(gained + lost - (gained - lost) ** 2 / pairs or 1) / pairs
    return Test((gained - lost) / pairs, se, pairs - 1, max(-1.0, up - down - half), min(1.0, up - down + half), p)


def two_proportions(successes: int, n: int, other_successes: int, other_n: int) -> Test:
    """The two-proportion z-test (the chi-square test without correction), with Newcombe's interval.

    Without any variance in the arms, the standard error is that with one more success and failure in each.
    """
    interval = newcombe(successes, n, other_successes, other_n)
    if interval is None:
        raise ExperimentError("an arm has no units: there is nothing to compare")
    pooled = (successes + other_successes) / (n + other_n)
    one, other = successes / n, other_successes / other_n
    se = sqrt(pooled * (1 - pooled) * (1 / n + 1 / other_n))
    p = float(2 * load_scipy().norm.sf(abs(one - other) / se)) if se else 1.0
    se = sqrt(one * (1 - one) / n + other * (1 - other) / other_n) or sqrt((n + 1) / (n + 2) ** 3 * 2)
    return Test(one - other, se, n + other_n - 2, *interval, p)


# -- resampling


def permutation_p(units: Floats, others: Floats | None = None) -> float | None:
    """The p-value of a permutation test; `None` with very many units.

    Unit means are shuffled between the arms; without `others`, `units` are paired differences, and signs are flipped.
    """
    import numpy as np

    samples, kind = (
        ((units, others), "independent") if others is not None else ((units, np.zeros_like(units)), "samples")
    )
    if sum(each.size for each in samples) > _MAX_PERMUTED:
        return None
    result = load_scipy().permutation_test(
        samples,
        lambda one, other, axis: one.mean(axis) - other.mean(axis),
        permutation_type=kind,
        vectorized=True,
        batch=1000,
        rng=np.random.default_rng(0),
    )
    return float(result.pvalue)


def bootstrap_interval(sums: Floats, sizes: Floats, is_treated: Flags | None = None) -> tuple[float, float] | None:
    """The percentile interval of a ratio of sums, or of the difference of two, by resampling whole units."""

    def statistic(weights: Floats) -> Floats:
        if is_treated is None:
            return weights @ sums / (weights @ sizes)
        rates = [weights[:, arm] @ sums[arm] / (weights[:, arm] @ sizes[arm]) for arm in (is_treated, ~is_treated)]
        return rates[0] - rates[1]

    estimate, _ = cluster_bootstrap(statistic, sums.size)
    return None if estimate.low is None or estimate.high is None else (estimate.low, estimate.high)


# -- times that may be censored


class Survival(NamedTuple):
    """A Kaplan-Meier curve: at each time with an event, the events, the number at risk, and the share surviving it."""

    times: Floats
    events: Floats
    at_risk: Floats
    share: Floats


def kaplan_meier(times: Floats, observed: Flags) -> Survival:
    """The share that has not had the event yet; `observed` is false if the session ended before it."""
    import numpy as np

    at, counts = np.unique(times[observed], return_counts=True)
    events, at_risk = counts.astype(float), (times.size - np.searchsorted(np.sort(times), at)).astype(float)
    return Survival(at, events, at_risk, np.asarray(np.cumprod(1 - events / at_risk), float))


def restricted_means(times: Floats, observed: Flags, until: float) -> Floats:
    """A value per session whose mean is the restricted mean time: the area under the curve up to `until`.

    Each value is the restricted mean plus the influence of the session on it, so that the values have the right
    variance and can be paired and clustered like any other outcome.
    """
    import numpy as np

    happened = observed & (times <= until)
    at, events, at_risk, share = kaplan_meier(np.minimum(times, until), happened)
    areas = np.append(1.0, share) * np.diff(at, prepend=0.0, append=until)
    after = areas[::-1].cumsum()[::-1][1:]  # the area to the right of each event
    survived = np.divide(after, at_risk - events, out=np.zeros_like(after), where=at_risk > events)
    passed = np.searchsorted(at, times, side="right")  # events while the session was at risk
    influence = np.append(0.0, np.cumsum(survived - after / at_risk))[passed]
    influence[happened] -= survived[passed[happened] - 1]
    return np.asarray(areas.sum() + times.size * influence)


# -- many comparisons


def adjust(p_values: Sequence[float], method: str) -> list[float]:
    """P-values adjusted for many comparisons: `holm` for the primary family, `fdr_bh` for the rest."""
    if len(p_values) < 2:
        return list(p_values)
    try:
        from statsmodels.stats.multitest import multipletests
    except ImportError as error:
        raise ExperimentError("statsmodels is not installed: pip install 'warmstart[experiments]'") from error
    return [float(p) for p in multipletests(p_values, method=method)[1]]


# -- sequential


def at_every_look(test: Test, units: int, *, planned: int = 100) -> Test:
    """The test with an asymptotic confidence sequence and its always-valid p-value: valid at every look.

    The published sequence assumes a known variance. Early on the variance is barely known, so we use the quantiles of
    t with the same tail probability: without that, one experiment in ten that is watched from its first sessions on
    finds an effect that does not exist.
    """
    stats = load_scipy()
    half = stats.t.isf(stats.norm.sf(sequence_factor(units, planned=planned)), test.df) * test.se
    distance = stats.norm.isf(stats.t.sf(abs(test.value) / test.se, test.df))
    p = sequence_p(distance, units, planned=planned)
    return test._replace(low=test.value - half, high=test.value + half, p=p)


def sequence_p(distance: Any, units: int, *, planned: int = 100) -> Any:
    """The always-valid p-value: the smallest level at which the sequence, `distance` errors wide, excludes zero."""
    import numpy as np

    t = units * sequence_rho(planned, ALPHA)
    return np.minimum(1.0, sqrt(t + 1) * np.exp(-(distance**2) * t / (2 * (t + 1))))


# -- power


def power_of(effect: float, se: float, df: float) -> float:
    """The probability that a t-test finds an effect of this size."""
    stats = load_scipy()
    edge = stats.t.ppf(1 - ALPHA / 2, df)
    return float(stats.nct.sf(edge, df, effect / se) + stats.nct.cdf(-edge, df, effect / se))


def smallest_detectable(se: float, df: float, half: float | None = None) -> float:
    """The smallest effect that a test detects in 80 of 100 experiments; `half` is the half-width if not that of t."""
    stats = load_scipy()
    half = stats.t.ppf(1 - ALPHA / 2, df) * se if half is None else half
    return float(half + stats.t.ppf(POWER, df) * se)


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """The sessions per arm needed to detect an effect on a rate.

    With a number of sessions also their `power` for that effect and `mde`, the smallest effect they detect in 80 of
    100 experiments.
    """

    baseline: float
    effect: float
    icc: float
    calls: float
    design_effect: float
    sessions_needed: int
    sessions: int | None = None
    power: float | None = None
    mde: float | None = None

    def in_words(self) -> str:
        """The summary shown before an experiment starts."""
        effect = f"an effect of {100 * self.effect:.1f} points on a rate of {100 * self.baseline:.1f} %"
        line = f"{self.sessions_needed} sessions per arm detect {effect} in 80 of 100 experiments."
        if self.power is None or self.mde is None:
            return line
        return (
            f"With {self.sessions} sessions per arm, {effect} is detected in {100 * self.power:.0f} of 100 "
            f"experiments; effects below {100 * min(self.mde, 1.0):.1f} points will mostly be missed. {line}"
        )


def plan(
    baseline: float,
    effect: float,
    *,
    icc: float = DEFAULT_ICC,
    calls: float = 30,
    sessions: int | None = None,
    higher_is_better: bool = False,
) -> Power:
    """Plan for an improvement by `effect`: downwards for an error rate, upwards with `higher_is_better`.

    With `calls=1` there is one outcome per session, such as its success, and `icc` does not matter.
    """
    other = baseline + effect if higher_is_better else baseline - effect
    for name, value in (("baseline", baseline), ("baseline and effect together", other), ("icc", icc)):
        if not 0 <= value <= 1:
            raise ExperimentError(f"{name} is {value:g}: give a number from 0 to 1")
    if effect <= 0 or calls < 1 or (sessions is not None and sessions < 2):
        raise ExperimentError("an effect above 0, at least one call and at least two sessions are needed")
    inflation, norm = 1 + (calls - 1) * icc, load_scipy().norm
    variance = sum(rate * (1 - rate) for rate in (baseline, other)) * inflation / calls  # of a session, in both arms
    needed = ceil((norm.isf(ALPHA / 2) + norm.ppf(POWER)) ** 2 * variance / effect**2)
    power = Power(
        baseline=baseline,
        effect=effect,
        icc=icc,
        calls=calls,
        design_effect=inflation,
        sessions_needed=max(2, needed),
    )
    if sessions is None:
        return power
    se, df = sqrt(variance / sessions), 2 * sessions - 2
    return replace(power, sessions=sessions, power=power_of(effect, se, df), mde=smallest_detectable(se, df))
