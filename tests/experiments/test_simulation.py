"""The method behind each verdict on data with a known truth: false positives, coverage, power.

2,000 runs each, so that a rate of 5 % is known to about half a point.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats as scipy_stats

from warmstart.experiments import statistics
from warmstart.experiments.results import policy_values
from warmstart.experiments.statistics import (
    at_every_look,
    cluster_mean,
    difference,
    intraclass_correlation,
    plan,
    t_test,
)
from warmstart.stats import newcombe, wilson

pytestmark = pytest.mark.slow

RUNS = 2000
SIZES = (20, 29, 50, 100, 200)
CORRELATIONS = (0.0, 0.05, 0.2)
MAX_FALSE, MIN_FALSE, MIN_COVERAGE = 0.065, 0.035, 0.935


def sessions(random, rate, icc, n, calls=30, runs=RUNS):
    """Errors and calls of sessions whose lengths differ tenfold, with beta-distributed rates."""
    sizes = np.maximum(1, np.rint(random.lognormal(np.log(calls) - 0.32, 0.8, (runs, n))))
    rates = np.full((runs, n), rate)
    if icc:
        rates = random.beta(rate * (1 - icc) / icc, (1 - rate) * (1 - icc) / icc, (runs, n))
    return random.binomial(sizes.astype(int), rates).astype(float), sizes


def coverage(test, truth):
    return ((test.low <= truth) & (test.high >= truth)).mean()


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("icc", CORRELATIONS)
def test_cluster_robust_difference_of_rates(n, icc):
    random = np.random.default_rng(n)
    for rate in (0.09, 0.5):
        arms = [cluster_mean(*sessions(random, rate, icc, n)) for _ in range(2)]
        assert MIN_FALSE <= (t_test(difference(*arms)).p < 0.05).mean() <= MAX_FALSE
        warm = cluster_mean(*sessions(random, rate - 0.033, icc, n))
        assert coverage(t_test(difference(warm, arms[0])), -0.033) >= MIN_COVERAGE


@pytest.mark.parametrize("n", SIZES)
def test_welch(n):
    random = np.random.default_rng(n)
    values = random.normal(0, 1, (RUNS, n)), random.normal(0, 3, (RUNS, 2 * n))
    found = t_test(difference(*(cluster_mean(each, np.ones_like(each)) for each in values)))
    assert MIN_FALSE <= (found.p < 0.05).mean() <= MAX_FALSE
    assert coverage(found, 0.0) >= MIN_COVERAGE


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("icc", CORRELATIONS)
def test_paired_t_on_task_means(n, icc):
    """Tasks differ in difficulty (by the correlation) and in how much they gain, with one to five epochs each."""
    random = np.random.default_rng(n)
    for effect in (0.0, 0.1):
        base = random.beta(*[0.5 * (1 - icc) / icc] * 2, (RUNS, n)) if icc else np.full((RUNS, n), 0.5)
        gain = random.choice((-1.0, 1.0), (RUNS, n)) * np.minimum(base, 1 - base) * np.sqrt(icc)
        rates = base * (1 - effect), base * (1 - effect) + effect + gain * (1 - effect)
        epochs = random.integers(1, 6, (RUNS, n))
        means = [random.binomial(epochs, rate) / epochs for rate in rates]
        found = t_test(cluster_mean(means[1] - means[0], np.ones((RUNS, n))))
        assert coverage(found, effect) >= MIN_COVERAGE
        if not effect:
            assert MIN_FALSE <= (found.p < 0.05).mean() <= MAX_FALSE


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("icc", CORRELATIONS)
def test_pairs_within_clusters(n, icc):
    """Pairs of projects that differ in size, with an effect of their own: the project is the unit."""
    random = np.random.default_rng(n)
    sizes = random.integers(1, 11, (RUNS, n)).astype(float)
    own, noise = random.normal(0, np.sqrt(icc), (RUNS, n)), np.sqrt((1 - icc) / sizes) * random.normal(size=(RUNS, n))
    found = t_test(cluster_mean(sizes * (own + noise), sizes))
    assert MIN_FALSE <= (found.p < 0.05).mean() <= MAX_FALSE
    assert coverage(found, 0.0) >= MIN_COVERAGE


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("icc", CORRELATIONS)
def test_mcnemar(n, icc):
    """Exact, so its false positives lie below 5 % by design."""
    random = np.random.default_rng(n)
    for effect in (0.0, 0.15):
        rate = random.beta(*[0.4 * (1 - icc) / icc] * 2, (RUNS, n)) * 0.8 if icc else np.full((RUNS, n), 0.4)
        pairs = [random.random((RUNS, n)) < np.clip(rate + add, 0, 1) for add in (0.0, effect)]
        gained, lost = (pairs[1] & ~pairs[0]).sum(1), (pairs[0] & ~pairs[1]).sum(1)
        tests = [statistics.mcnemar(int(a), int(b), n) for a, b in zip(gained, lost, strict=True)]
        assert np.mean([test.low <= effect <= test.high for test in tests]) >= MIN_COVERAGE
        if not effect:
            assert np.mean([test.p < 0.05 for test in tests]) <= 0.055


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("rate", [0.3, 0.5, 0.8])
def test_two_proportions(n, rate):
    """Exactly, by adding up all outcomes: the two-proportion z-test where Newcombe's interval agrees."""
    counts = np.arange(n + 1)
    for other in (rate, rate - 0.2):
        chance = np.outer(scipy_stats.binom.pmf(counts, n, rate), scipy_stats.binom.pmf(counts, n, other))
        likely = np.argwhere(chance > 1e-7)
        tests = [(chance[a, b], newcombe(int(a), n, int(b), n), int(a), int(b)) for a, b in likely]
        assert sum(p for p, found, *_ in tests if found.low <= rate - other <= found.high) >= MIN_COVERAGE
        if other == rate:
            positive = [
                p
                for p, found, a, b in tests
                if (found.low > 0 or found.high < 0) and statistics.two_proportions(a, n, b, n).p < 0.05
            ]
            assert MIN_FALSE <= sum(positive) <= MAX_FALSE


def test_wilson_against_its_exact_coverage():
    """The score interval oscillates around the nominal level; its mean over rates is at least nominal."""
    rates = np.linspace(0.02, 0.98, 193)
    for n in (20, 50, 100, 200):
        bounds = np.array([wilson(k, n) for k in range(n + 1)])
        inside = (bounds[:, :1] <= rates) & (rates <= bounds[:, 1:])
        exact = (inside * scipy_stats.binom.pmf(np.arange(n + 1)[:, None], n, rates)).sum(0)
        assert exact.mean() >= 0.945
        random = np.random.default_rng(n)
        drawn = random.binomial(n, 0.3, RUNS)
        simulated = np.mean([wilson(int(k), n).low <= 0.3 <= wilson(int(k), n).high for k in drawn])
        at = inside[:, np.argmin(abs(rates - 0.3))] @ scipy_stats.binom.pmf(np.arange(n + 1), n, 0.3)
        assert simulated == pytest.approx(at, abs=0.02)


@pytest.mark.parametrize("n", [20, 50, 200])
@pytest.mark.parametrize("icc", CORRELATIONS)
def test_restricted_mean(n, icc):
    """Times to success, some censored, of projects with one to three sessions and a pace of their own."""
    random, until = np.random.default_rng(n), 10.0
    shape = 1 / icc if icc else None
    arms = []
    for scale in (8.0, 8.0, 5.0):
        sums, sizes = np.zeros((RUNS, n)), random.integers(1, 4, (RUNS, n))
        for run in range(RUNS):
            projects = np.repeat(np.arange(n), sizes[run])
            pace = random.gamma(shape, 1 / shape, n)[projects] if shape else 1.0
            times, ends = random.exponential(scale, projects.size) / pace, random.uniform(4, 30, projects.size)
            values = statistics.restricted_means(np.minimum(times, ends), times <= ends, until)
            sums[run] = np.bincount(projects, values)
        arms.append(cluster_mean(sums, sizes.astype(float)))
    truth = restricted_truth(5.0, shape, until) - restricted_truth(8.0, shape, until)
    assert MIN_FALSE <= (t_test(difference(arms[0], arms[1])).p < 0.05).mean() <= MAX_FALSE
    assert coverage(t_test(difference(arms[2], arms[0])), truth) >= MIN_COVERAGE


def restricted_truth(scale, shape, until):
    """The area under the survival curve of exponential times whose pace is gamma distributed with mean 1."""
    if shape is None:
        return scale * (1 - np.exp(-until / scale))
    time = np.linspace(0, until, 10_001)
    return np.trapezoid((1 + time / scale / shape) ** -shape, time)


@pytest.mark.parametrize("icc", CORRELATIONS)
@pytest.mark.parametrize("first", [2, 20])
def test_confidence_sequence_over_fifty_looks(icc, first):
    """Sequential by design: the error over all looks together is at most 5 %, even from the first sessions on."""
    random = np.random.default_rng(7)
    arms = [sessions(random, 0.09, icc, 200) for _ in range(2)]
    crossed = np.zeros(RUNS, bool)
    for n in np.linspace(first, 200, 50).astype(int):
        found = difference(*(cluster_mean(sums[:, :n], sizes[:, :n]) for sums, sizes in arms))
        seen = found.variance > 0
        safe = found._replace(variance=np.where(seen, found.variance, 1.0), df=np.where(seen, found.df, 1.0))
        found = at_every_look(t_test(safe), 2 * int(n))
        crossed |= seen & ((found.low > 0) | (found.high < 0))
    assert crossed.mean() <= 0.05


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5])
def test_confidence_sequence_of_shares_over_fifty_looks(rate):
    """On the standard errors of the two-proportion test and of McNemar's, from the first two sessions on."""
    random = np.random.default_rng(8)
    one, other = (random.random((RUNS, 100)) < rate for _ in range(2))
    crossed = np.zeros((2, RUNS), bool)
    for n in np.unique(np.geomspace(2, 100, 50).astype(int)).tolist():
        unpaired = one[:, :n].sum(1), other[:, :n].sum(1)
        paired = (one & ~other)[:, :n].sum(1), (other & ~one)[:, :n].sum(1)
        for row, counts in enumerate((unpaired, paired)):
            cases, which = np.unique(np.stack(counts), axis=1, return_inverse=True)
            for place, (a, b) in enumerate(cases.T.tolist()):
                test = statistics.mcnemar(a, b, n) if row else statistics.two_proportions(a, n, b, n)
                found = at_every_look(test, n if row else 2 * n)
                crossed[row, which.ravel() == place] |= found.low > 0 or found.high < 0
    assert crossed.mean(axis=1).max() <= 0.05


@pytest.mark.parametrize("icc", CORRELATIONS)
@pytest.mark.parametrize("n", [30, 80, 128, 222])
def test_power_is_as_promised(n, icc):
    random = np.random.default_rng(n)
    arms = []
    for rate in (0.057, 0.09):
        sizes = np.full((RUNS, n), 30.0)
        own = random.beta(rate * (1 - icc) / icc, (1 - rate) * (1 - icc) / icc, sizes.shape) if icc else rate
        arms.append(cluster_mean(random.binomial(30, own, sizes.shape).astype(float), sizes))
    promised = plan(0.09, 0.033, icc=icc, calls=30, sessions=n)
    assert (t_test(difference(*arms)).p < 0.05).mean() == pytest.approx(promised.power, abs=0.05)


@pytest.mark.parametrize("n", [30, 100])
def test_power_of_success_rates_is_as_promised(n):
    won = [np.random.default_rng(n + place).binomial(n, rate, RUNS) for place, rate in enumerate((0.7, 0.4))]
    found = np.mean([statistics.two_proportions(int(a), n, int(b), n).p < 0.05 for a, b in zip(*won, strict=True)])
    assert found == pytest.approx(plan(0.4, 0.3, calls=1, sessions=n, higher_is_better=True).power, abs=0.05)


@pytest.mark.parametrize("n", [30, 200])
@pytest.mark.parametrize("rate", [0.3, 0.9])
def test_off_policy_values(n, rate):
    """Behind no verdict; with an effective sample of seven sessions the interval covers the truth in 93 %."""
    random, covered, runs = np.random.default_rng(n), 0, 0
    for _ in range(RUNS):
        chances = random.choice((0.1, 0.3, 0.7), n)
        drawn = chances[random.random(n) < chances]
        rewards = random.random(drawn.size) < rate
        uses = [
            {"arm": "warm", "template": "a", "propensity": chance, "odds": {}, "reward": reward}
            for chance, reward in zip(drawn, rewards, strict=True)
        ]
        value = next((each for each in policy_values(uses) if each.policy == "a"), None)
        if value:
            runs, covered = runs + 1, covered + (value.low <= rate <= value.high)
    assert covered / runs >= 0.925


@pytest.mark.parametrize("icc", [0.05, 0.2])
def test_the_intraclass_correlation_is_recovered(icc):
    errors, calls = sessions(np.random.default_rng(3), 0.3, icc, 200)
    assert intraclass_correlation([errors], [errors], [calls]).mean() == pytest.approx(icc, abs=0.01)


def test_permutation_tests_hold_their_level():
    """Exact by design."""
    random = np.random.default_rng(5)
    runs = 400  # each is 10,000 permutations
    unpaired = [statistics.permutation_p(*random.exponential(1, (2, 20))) < 0.05 for _ in range(runs)]
    paired = [statistics.permutation_p(random.laplace(0, 1, 30)) < 0.05 for _ in range(runs)]
    assert max(np.mean(unpaired), np.mean(paired)) <= 0.08
