from __future__ import annotations

import subprocess
import sys
from math import sqrt
from random import Random

import numpy as np
import pytest

from tests.profile.corpora import difficulty
from warmstart.stats import (
    NOTHING,
    cluster_bootstrap,
    cluster_rate,
    cluster_ratio,
    cluster_weights,
    newcombe,
    ratio_error,
    wilson,
)

# Newcombe 1998, Statistics in Medicine 17: 857 (method 3) and 873 (method 10, all its examples).
WILSON = {
    (81, 263): (0.2553, 0.3662),
    (0, 20): (0.0, 0.1611),
    (1, 29): (0.0061, 0.1718),
    (15, 148): (0.0624, 0.1605),
    (5, 10): (0.2366, 0.7634),
    (10, 10): (0.7225, 1.0),
    (0, 1): (0.0, 0.7935),
    (1, 1): (0.2065, 1.0),
}
NEWCOMBE = {
    (56, 70, 48, 80): (0.0524, 0.3339),
    (9, 10, 3, 10): (0.1705, 0.8090),
    (6, 7, 2, 7): (0.0582, 0.8062),
    (5, 56, 0, 29): (-0.0381, 0.1926),
    (0, 10, 0, 20): (-0.1611, 0.2775),
    (0, 10, 0, 10): (-0.2775, 0.2775),
    (10, 10, 0, 20): (0.6791, 1.0),
    (10, 10, 0, 10): (0.6075, 1.0),
}


def test_wilson_is_as_in_the_literature(subtests):
    for counts, bounds in WILSON.items():
        with subtests.test(str(counts)):
            assert wilson(*counts) == pytest.approx(bounds, abs=5e-5)
    assert wilson(0, 0) is None


def test_newcombe_is_as_in_the_literature(subtests):
    for counts, bounds in NEWCOMBE.items():
        with subtests.test(str(counts)):
            assert newcombe(*counts) == pytest.approx(bounds, abs=5e-5)
    assert newcombe(0, 0, 3, 4) is newcombe(3, 4, 0, 0) is None


def test_newcombe_reversed_is_its_negative():
    one, other = newcombe(7, 9, 2, 11), newcombe(2, 11, 7, 9)
    assert (one.low, one.high) == pytest.approx((-other.high, -other.low))


def test_intervals_of_shares_need_no_numpy():
    code = "import sys; from warmstart.stats import newcombe; newcombe(1, 2, 3, 4); sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# -- cluster bootstrap


def corpus(random: Random, sessions: int, mean: float, correlation: float) -> tuple[np.ndarray, np.ndarray]:
    """Errors and calls of sessions of very different length."""
    calls = [1 + int(random.expovariate(1 / 30)) for _ in range(sessions)]
    own = [difficulty(random, mean, correlation) for _ in range(sessions)]
    errors = [sum(random.random() < p for _ in range(n)) for p, n in zip(own, calls, strict=True)]
    return np.array(errors, float), np.array(calls, float)


def rate(errors, calls):
    return cluster_rate(np.array(errors, float), np.array(calls, float))


def covered(corpora: int, sessions: int, mean: float, correlation: float) -> float:
    """The share of simulated corpora whose interval covers the true rate."""
    random = Random(f"{sessions} {mean} {correlation}")
    hits = 0
    for _ in range(corpora):
        found = cluster_rate(*corpus(random, sessions, mean, correlation))
        hits += found.low <= mean <= found.high
    return hits / corpora


def test_no_clusters_give_no_estimate():
    assert rate([], []) == cluster_ratio([], []) == cluster_ratio([0], [0]) == NOTHING
    assert cluster_bootstrap(lambda weights: weights[:, 0], 0) == (NOTHING, 0.0)


def test_one_cluster_gives_an_estimate_without_an_interval():
    assert rate([3], [12]) == cluster_ratio([3], [12]) == (0.25, None, None)
    assert cluster_bootstrap(lambda weights: 3 * weights[:, 0], 1) == ((3.0, None, None), 0.0)


def test_a_session_counts_by_its_calls():
    assert rate([9, 0, 0], [90, 5, 5]).estimate == 0.09


def test_without_an_error_the_interval_is_wilsons_for_the_effective_number_of_calls():
    found = rate([0] * 10, [21] * 10)
    n = 210 / (1 + 20 * 0.1)  # 70: what 210 calls are worth when those of a session are correlated by .1
    z = 1.959964
    assert found.low == 0
    assert found.high == pytest.approx(z * z / (n + z * z), rel=1e-5)


def test_with_errors_everywhere_the_interval_ends_at_one():
    found = rate([5, 7, 9], [5, 7, 9])
    assert found.high == 1
    assert 0 < found.low < 1


def test_a_rate_stays_between_zero_and_one():
    random = Random(3)
    for sessions in range(2, 30):
        found = cluster_rate(*corpus(random, sessions, 0.1, 0.3))
        assert 0 <= found.low <= found.estimate <= found.high <= 1


def test_sessions_with_equal_rates_still_have_an_interval():
    found = rate([1] * 8, [2] * 8)
    assert found.low < 0.5 < found.high


def test_the_standard_error_of_a_ratio_is_the_linearised_one():
    y, x = [1.0, 0.0, 2.0, 1.0], [10.0, 12.0, 9.0, 11.0]
    r = 4 / 42
    expected = sqrt(4 / 3 * sum((b - r * a) ** 2 for a, b in zip(x, y, strict=True))) / 42
    assert ratio_error(np.array(y), np.array(x)) == pytest.approx(expected)


def test_with_sessions_of_one_size_the_interval_is_near_that_of_a_mean():
    random = Random(8)
    errors = [sum(random.random() < 0.3 for _ in range(20)) for _ in range(200)]
    found = rate(errors, [20] * 200)
    mean = sum(errors) / 4000
    deviation = sqrt(sum((each / 20 - mean) ** 2 for each in errors) / 199)
    assert found.low == pytest.approx(mean - 1.96 * deviation / sqrt(200), abs=0.002)
    assert found.high == pytest.approx(mean + 1.96 * deviation / sqrt(200), abs=0.002)


def test_any_statistic_has_an_interval_and_a_standard_error():
    values = np.array([Random(4).gauss(10, 2) for _ in range(100)])
    (estimate, low, high), error = cluster_bootstrap(lambda weights: weights @ values / weights.sum(axis=1), 100)
    expected = values.std() / 10
    assert estimate == pytest.approx(values.mean())
    assert error == pytest.approx(expected, rel=0.1)
    assert (low, high) == pytest.approx((estimate - 1.96 * expected, estimate + 1.96 * expected), abs=0.1)


def test_draws_without_a_number_are_left_out_unless_they_are_most():
    def often(share):
        def statistic(weights):
            values = weights[:, 0].copy()
            values[: round(len(values) * share)] = np.nan
            return np.ones(1) if len(weights) == 1 else values

        return cluster_bootstrap(statistic, 5)

    assert often(0.4)[0].low is not None
    assert often(0.6) == ((1.0, None, None), 0.0)
    assert cluster_bootstrap(lambda weights: weights[:, 0] / 0, 5) == (NOTHING, 0.0)


def test_clustering_widens_the_interval():
    alike = rate([1] * 60 + [0] * 60, [10] * 120)
    apart = rate([10] * 6 + [0] * 114, [10] * 120)
    assert alike.estimate == apart.estimate == 0.05
    assert apart.high - apart.low > 2 * (alike.high - alike.low)


def test_the_same_sessions_give_the_same_interval():
    numbers = corpus(Random(5), 40, 0.06, 0.1)
    assert cluster_rate(*numbers) == cluster_rate(*numbers)


def test_draws_are_whole_clusters_with_replacement():
    drawn = cluster_weights(30)
    assert drawn.shape == (1000, 30)
    assert (drawn.sum(axis=1) == 30).all()
    assert drawn.mean() == 1
    assert drawn.max() > 2
    assert cluster_weights(40_000).shape == (200, 40_000)  # many sessions take fewer draws


def test_intervals_cover_the_truth(subtests):
    for sessions, correlation in ((60, 0.05), (150, 0.1)):
        with subtests.test(sessions=sessions):
            assert 0.88 <= covered(150, sessions, 0.06, correlation) <= 0.99


@pytest.mark.slow
def test_intervals_cover_the_truth_in_95_of_100(subtests):
    for case in ((100, 0.06, 0.05), (300, 0.06, 0.05), (300, 0.06, 0.1), (200, 0.2, 0.1)):
        with subtests.test(str(case)):
            assert 0.93 <= covered(1000, *case) <= 0.97
