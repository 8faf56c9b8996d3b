from __future__ import annotations

import pytest

from tests.templates.choosing.crowd import outcomes, template_for
from tests.templates.made import use
from warmstart.templates.choosing.counting import Counts
from warmstart.templates.choosing.effect import effect, effect_of


def test_the_effect_is_the_difference_with_its_interval(store):
    kept = store.add(template_for("Fix the totals"))
    outcomes(store, kept.id, successes=56, failures=14)
    outcomes(store, kept.id, successes=48, failures=32, arm="holdout")
    found = effect(store, kept.id)
    assert found == pytest.approx((0.2, 0.0524, 0.3339, 70, 80), abs=5e-5)


def test_with_none_or_one_on_a_side_the_effect_is_not_yet_known(subtests):
    cases = [
        Counts(),
        Counts(successes=5),
        Counts(cold_successes=5),
        Counts(successes=1, cold_successes=9),
        Counts(successes=9, cold_failures=1),
    ]
    for counts in cases:
        with subtests.test(counts=counts):
            assert effect_of(counts) is None


def test_two_on_each_side_are_an_effect_with_a_wide_interval():
    found = effect_of(Counts(successes=2, cold_successes=1, cold_failures=1))
    assert found.low < 0 < found.high


def test_only_sessions_held_out_from_this_template_count_and_only_known_outcomes(store):
    one, other = store.add(template_for("Fix the totals")), store.add(template_for("Draw the label"))
    outcomes(store, one.id, successes=3, failures=0)
    outcomes(store, other.id, successes=5, failures=5, arm="holdout")
    for number in range(5):
        use(store, one.id, arm="holdout", session=f"open {number}")
    assert effect(store, one.id) is None
    outcomes(store, one.id, successes=0, failures=2, arm="holdout")
    assert effect(store, one.id)[3:] == (3, 2)


def test_the_effect_of_what_does_not_exist_is_not_known(store):
    assert effect(store, "warm_nothing") is None
