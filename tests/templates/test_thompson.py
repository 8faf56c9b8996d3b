from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmstart.templates.thompson import Belief, being_best, belief, better, odds

COLD = belief(0, 0)


def test_what_is_worked_out_is_how_often_sampling_takes_it():
    beliefs = (Belief(9, 3), Belief(2, 2), Belief(30, 20))
    fits = (0.8, 1.0, 0.9)
    random = Random(5)
    taken = [0, 0, 0]
    for _ in range(40_000):
        drawn = [random.betavariate(*each) * fit for each, fit in zip(beliefs, fits, strict=True)]
        taken[drawn.index(max(drawn))] += 1
    assert being_best(beliefs, fits) == pytest.approx([number / 40_000 for number in taken], abs=0.012)


def test_a_rate_is_higher_than_another_as_often_as_theory_says():
    # P(Beta(2, 1) > Beta(1, 1)) = E[x] = 2/3
    assert better(Belief(2, 1), Belief(1, 1)) == pytest.approx(2 / 3, abs=0.002)


@given(
    st.lists(st.tuples(st.integers(0, 500), st.integers(0, 500), st.floats(0.1, 1.0)), min_size=1, max_size=6),
    st.floats(0.0, 1.0),
)
def test_probabilities_sum_to_one_and_none_is_below_the_floor(arms, floor):
    beliefs = [belief(successes, failures, COLD) for successes, failures, _ in arms]
    shares = odds(beliefs, [fit for _, _, fit in arms], floor=floor)
    assert len(shares) == len(arms)
    assert sum(shares) == pytest.approx(1.0)
    assert min(shares) >= floor / len(shares) - 1e-12


def test_nothing_is_drawn_from_nothing():
    assert odds([], [], floor=0.1) == []


def test_before_anything_is_known_a_template_is_thought_as_good_as_a_cold_start():
    cold = belief(30, 10)
    assert belief(0, 0, cold).mean == pytest.approx(cold.mean)


def test_what_has_worked_is_taken_more_often():
    shares = odds([belief(18, 2, COLD), belief(2, 18, COLD)], [1.0, 1.0], floor=0.1)
    assert shares[0] > 0.9


def test_a_long_past_does_not_outweigh_a_change_for_ever():
    assert sum(belief(100_000, 0, COLD)) <= 200
