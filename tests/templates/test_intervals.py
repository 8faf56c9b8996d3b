from __future__ import annotations

import pytest

from warmstart.templates.intervals import newcombe, wilson


def test_the_difference_of_two_shares_is_bounded_as_in_the_literature():
    # Newcombe 1998, Statistics in Medicine 17, table II, example (a), method 10.
    found = newcombe(56, 70, 48, 80)
    assert found == pytest.approx((0.0524, 0.3339), abs=5e-5)


@pytest.mark.parametrize(
    ("counts", "bounds"),
    [
        ((9, 10, 3, 10), (0.1705, 0.8090)),  # example (b)
        ((10, 10, 0, 20), (0.6791, 1.0)),  # example (g)
        ((10, 10, 0, 10), (0.6075, 1.0)),  # example (h)
    ],
)
def test_small_and_extreme_counts_are_bounded_as_in_the_literature(counts, bounds):
    assert newcombe(*counts) == pytest.approx(bounds, abs=5e-5)


def test_no_difference_without_numbers():
    assert newcombe(0, 0, 3, 4) is None
    assert newcombe(3, 4, 0, 0) is None


def test_a_difference_reversed_is_its_negative():
    one, other = newcombe(7, 9, 2, 11), newcombe(2, 11, 7, 9)
    assert (one.low, one.high) == pytest.approx((-other.high, -other.low))


@pytest.mark.parametrize(
    ("hits", "number", "bounds"),
    [(81, 263, (0.2553, 0.3662)), (0, 20, (0.0, 0.1611)), (1, 29, (0.0061, 0.1718)), (1, 1, (0.2065, 1.0))],
)
def test_a_share_is_bounded_as_in_the_literature(hits, number, bounds):
    # Newcombe 1998, Statistics in Medicine 17, 857: table I, method 3.
    assert wilson(hits, number) == pytest.approx(bounds, abs=5e-5)


def test_no_share_without_a_number():
    assert wilson(0, 0) is None
