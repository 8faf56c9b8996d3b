from __future__ import annotations

from math import sqrt
from random import Random

import pytest

from tests.profile.corpora import difficulty
from warmstart.profile.corpus.statistics import NOTHING, interval, rate, ratio, standard_error, weights

np = pytest.importorskip("numpy")


def corpus(random: Random, sessions: int, mean: float, correlation: float) -> tuple[list[int], list[int]]:
    """Errors and calls of sessions of very different length."""
    calls = [1 + int(random.expovariate(1 / 30)) for _ in range(sessions)]
    own = [difficulty(random, mean, correlation) for _ in range(sessions)]
    return [sum(random.random() < p for _ in range(n)) for p, n in zip(own, calls, strict=True)], calls


def covered(corpora: int, sessions: int, mean: float, correlation: float) -> float:
    """In how many of so many corpora the interval holds the true rate."""
    random = Random(f"{sessions} {mean} {correlation}")
    hits = 0
    for _ in range(corpora):
        found = rate("", *corpus(random, sessions, mean, correlation))
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= mean <= found.high
    return hits / corpora


def test_no_session_has_no_rate():
    assert rate("x", [], []) == ("x", 0, 0, 0, None, None, None)
    assert rate("x", [0], [0]) == ("x", 0, 0, 0, None, None, None)
    assert ratio([], []) == NOTHING


def test_one_session_has_a_rate_without_an_interval():
    assert rate("x", [3], [12]) == ("x", 1, 12, 3, 0.25, None, None)
    assert ratio([3], [12]) == (0.25, None, None)


def test_a_rate_is_errors_among_all_calls_of_the_sessions_that_have_any():
    found = rate("x", [1, 0, 2, 3, 0], [10, 0, 20, 30, 40])
    assert found[:5] == ("x", 4, 100, 6, 0.06)


def test_a_single_long_session_counts_by_its_calls():
    assert rate("x", [9, 0, 0], [90, 5, 5]).rate == 0.09


def test_without_an_error_the_interval_is_wilsons_for_the_effective_number_of_calls():
    found = rate("x", [0] * 10, [21] * 10)
    number = 210 / (1 + 20 * 0.1)  # 70: what 210 calls are worth when those of a session are correlated by .1
    z = 1.959964
    assert found.low == 0
    assert found.high == pytest.approx(z * z / (number + z * z), rel=1e-5)


def test_with_errors_everywhere_the_interval_ends_at_one():
    found = rate("x", [5, 7, 9], [5, 7, 9])
    assert found.high == 1
    assert 0 < found.low < 1


def test_an_interval_never_leaves_the_unit():
    random = Random(3)
    for sessions in range(2, 30):
        found = rate("x", *corpus(random, sessions, 0.1, 0.3))
        assert 0 <= found.low <= found.rate <= found.high <= 1


def test_sessions_that_all_fail_alike_still_have_an_interval():
    found = rate("x", [1] * 8, [2] * 8)
    assert found.low < 0.5 < found.high


def test_the_standard_error_of_a_ratio_is_the_linearised_one():
    y, x = [1.0, 0.0, 2.0, 1.0], [10.0, 12.0, 9.0, 11.0]
    r = 4 / 42
    expected = sqrt(4 / 3 * sum((b - r * a) ** 2 for a, b in zip(x, y, strict=True))) / 42
    assert standard_error(np.array(y), np.array(x)) == pytest.approx(expected)


def test_with_sessions_of_one_size_the_interval_is_near_that_of_a_mean():
    random = Random(8)
    errors = [sum(random.random() < 0.3 for _ in range(20)) for _ in range(200)]
    found = rate("x", errors, [20] * 200)
    mean = sum(errors) / 4000
    deviation = sqrt(sum((each / 20 - mean) ** 2 for each in errors) / 199)
    assert found.low == pytest.approx(mean - 1.96 * deviation / sqrt(200), abs=0.002)
    assert found.high == pytest.approx(mean + 1.96 * deviation / sqrt(200), abs=0.002)


def test_clustering_widens_the_interval():
    alike = rate("x", [1] * 60 + [0] * 60, [10] * 120)
    apart = rate("x", [10] * 6 + [0] * 114, [10] * 120)
    assert alike.rate == apart.rate == 0.05
    assert apart.high - apart.low > 2 * (alike.high - alike.low)


def test_the_same_sessions_give_the_same_interval():
    numbers = corpus(Random(5), 40, 0.06, 0.1)
    assert rate("x", *numbers) == rate("x", *numbers)


def test_draws_are_whole_sessions_with_replacement():
    drawn = weights(30)
    assert drawn.shape == (1000, 30)
    assert (drawn.sum(axis=1) == 30).all()
    assert drawn.mean() == 1
    assert drawn.max() > 2


def test_many_sessions_take_fewer_draws():
    assert weights(40_000).shape == (200, 40_000)


def test_draws_without_a_number_are_left_out_unless_they_are_most():
    draws = np.array([1.0, 2.0, 3.0, np.nan, np.inf])
    assert interval(2.0, draws) == (2.0, 1.0, 3.0)
    assert interval(2.0, np.array([1.0, np.nan, np.nan])) == (2.0, None, None)
    assert interval(float("nan"), draws) == NOTHING


@pytest.mark.parametrize(("sessions", "correlation"), [(60, 0.05), (150, 0.1)])
def test_intervals_cover_the_truth(sessions, correlation):
    assert 0.88 <= covered(150, sessions, 0.06, correlation) <= 0.99


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sessions", "mean", "correlation"), [(100, 0.06, 0.05), (300, 0.06, 0.05), (300, 0.06, 0.1), (200, 0.2, 0.1)]
)
def test_intervals_cover_the_truth_in_95_of_100(sessions, mean, correlation):
    assert 0.93 <= covered(1000, sessions, mean, correlation) <= 0.97
