from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from math import log2
from random import Random
from statistics import mean

import pytest

from tests.profile.corpora import (
    Safe,
    abandoned,
    both,
    closing,
    content,
    corpus,
    drifting,
    learned,
    leaving,
    profiled,
    steady,
    tiring,
)
from warmstart.profile.diagnostics import diagnose, rates_by_length
from warmstart.profile.values import Profiled

TRUTHS = [
    ("selection", abandoned),
    ("selection", leaving),
    ("learning", learned),
    ("both", both),
    ("neither", steady),
    ("neither", closing),
    ("neither", content),
    ("neither", drifting),
    ("neither", tiring),
]


def readings(session: Callable[[Random], list[int]], corpora: int) -> Counter[str]:
    name = session.__name__
    return Counter(diagnose(corpus(Random(f"{name} {number}"), session)).reading for number in range(corpora))


def pattern(text: str, name: object = 0, **fields: object) -> Profiled:
    """A session from a text in which `x` is an error."""
    return profiled(name, [letter == "x" for letter in text], **fields)


def test_a_simulated_corpus_gets_the_right_reading(subtests: pytest.Subtests) -> None:
    for truth, session in TRUTHS:
        with subtests.test(truth=truth, session=session):
            assert readings(session, 1)[truth] == 1


@pytest.mark.slow
@pytest.mark.parametrize(("truth", "session"), TRUTHS)
def test_simulated_corpora_are_read_right_in_95_of_100(truth, session):
    assert readings(session, 100)[truth] >= 95


def test_errors_that_rise_towards_a_fixed_end_are_neither_learning_nor_selection():
    found = diagnose(corpus(Random(4), tiring))
    assert found.reading == "neither"
    assert found.within_session_slope.low > 0


def test_bins_fall_where_nothing_is_learned():
    found = diagnose(corpus(Random(6), abandoned))
    first, *_, last = found.early_error_by_length.first_30
    assert first.rate > last.rate
    assert found.within_session_slope.low < 0 < found.within_session_slope.high
    assert found.hazard_after_error.low > 2


def test_few_sessions_are_not_enough():
    assert diagnose([]).reading == "not enough data"
    assert diagnose(corpus(Random(1), learned, 20)).reading == "not enough data"
    assert diagnose([pattern("." * 30, number) for number in range(200)]).reading == "not enough data"


def test_nothing_breaks_without_calls_or_errors():
    for sessions in ([], [pattern("")], [pattern(".")], [pattern("x")], [pattern("x"), pattern(".", 1)]):
        found = diagnose(sessions)
        assert found.reading == "not enough data"
        assert len(found.explanation) >= 2


def test_length_bins_are_by_messages():
    sessions = [pattern(".", number, messages=number) for number in (0, 50, 51, 100, 101, 9999)]
    assert [(each.key, each.sessions) for each in rates_by_length(sessions)] == [
        ("0-50", 2),
        ("51-100", 2),
        ("101+", 2),
    ]


# -- each diagnostic against a value worked out by hand


def test_the_slope_compares_each_session_with_itself_and_leaves_its_end_out():
    # Without the second half: 0 0 1 and 1 1 0 1; means of the call number 2 and 2.5.
    found = diagnose([pattern("..xxxx"), pattern("xx.x....", 1)]).within_session_slope
    first = (1 - 2) * 0 + (2 - 2) * 0 + (3 - 2) * 1
    second = (1 - 2.5) * 1 + (2 - 2.5) * 1 + (3 - 2.5) * 0 + (4 - 2.5) * 1
    assert found.estimate == pytest.approx(100 * (first + second) / (2 + 5))
    assert (found.sessions, found.calls) == (2, 7)


def test_a_session_that_errs_more_throughout_does_not_move_the_slope():
    flat = [pattern(".x" * 10 + ".", number) for number in range(5)]
    hard = [pattern("x" * 21, "hard")]
    assert diagnose(flat).within_session_slope.estimate == pytest.approx(
        diagnose([*flat, *hard]).within_session_slope.estimate * (6 / 5)
    )


def test_at_most_ten_calls_are_left_out_at_the_end():
    assert diagnose([pattern("x" + "." * 59), pattern("." * 60, 1)]).within_session_slope.calls == 100


def test_a_tool_is_compared_with_itself():
    # Both tools fail as often as ever; only the safer one comes later.
    mixed = [profiled(n, [True, False] * 10 + [Safe(0)] * 20 + [False] * 10) for n in range(5)]
    found = diagnose(mixed).within_session_slope
    number = [log2(place) for place in range(1, 41)]
    bash, edit = number[:20], number[20:]
    product = sum(each - mean(bash) for each in bash[::2])
    squares = sum((each - mean(tool)) ** 2 for tool in (bash, edit) for each in tool)
    assert found.within_tool.estimate == pytest.approx(product / squares)
    assert found.per_doubling.estimate < 2 * found.within_tool.estimate


def test_halves_and_tenths_are_those_of_sessions_with_twenty_calls():
    found = diagnose([pattern("xx" + "." * 18), pattern("x" * 19, 1)]).within_session_slope
    assert (found.first_half, found.second_half) == (0.2, 0.0)
    assert [each.rate for each in found.by_position] == [1.0] + [0.0] * 9
    assert [each.key for each in found.by_position][:2] == ["10%", "20%"]


def test_early_errors_are_compared_call_number_by_call_number():
    # Short sessions have one call only, which failed in one of two; of the long ones the first never fails, the rest
    # always: compared call by call the difference is a half.
    short = [pattern("x", "a", messages=10), pattern(".", "b", messages=10)]
    long = [pattern(".xxxxxxxxx", name, messages=80) for name in "cd"]
    found = diagnose([*short, *long]).early_error_by_length
    assert found.estimate == pytest.approx(0.5)
    assert found.split == 50
    assert [(each.key, each.sessions, each.calls, each.errors) for each in found.first_10] == [
        ("0-50", 2, 2, 1),
        ("51-100", 2, 20, 18),
        ("101+", 0, 0, 0),
    ]


def test_where_hardly_any_session_is_long_the_median_splits():
    sessions = [pattern("." * (number + 1), number, messages=number) for number in range(11)]
    assert diagnose(sessions).early_error_by_length.split == 5


def test_the_hazard_is_compared_at_the_same_call_number():
    # At the second call: of two after an error one ends, of two after none one ends. All others end at call three.
    found = diagnose([pattern(".x"), pattern(".x.", 1), pattern("..", 2), pattern("...", 3)]).hazard_after_error
    assert found.estimate == pytest.approx(1.0)
    assert (found.errors, found.sessions) == (2, 4)
    assert found.after_error == 0.5
    assert found.after_success == pytest.approx(3 / 8)


def test_an_error_shortly_before_the_end_counts_as_recent():
    # At the third call: of two with an error among the last five one ends, of two without one ends.
    found = diagnose([pattern("x.."), pattern("x...", 1), pattern("...", 2), pattern("....", 3)]).hazard_after_error
    assert found.recent.estimate == pytest.approx(1.0)
    found = diagnose([pattern("x.."), pattern("x..", 1), pattern("...", 2), pattern("....", 3)]).hazard_after_error
    assert found.recent.estimate == pytest.approx(2.0)
    assert found.estimate is None or found.estimate == 0


def test_an_error_six_calls_ago_is_no_longer_recent():
    found = diagnose([pattern("x....."), pattern("x......", 1), pattern("......", 2), pattern(".......", 3)])
    assert found.hazard_after_error.recent.estimate is None


def test_no_session_ending_after_an_error_leaves_an_upper_bound():
    on = [pattern(".x.", number) for number in range(5)]
    ended = [pattern("..", 5 + number) for number in range(5)]
    found = diagnose([*on, *ended]).hazard_after_error
    assert (found.estimate, found.low) == (0.0, 0.0)
    assert found.high == pytest.approx((3 / 5) / (10 / 20))


def test_subagents_are_left_out_because_no_person_ends_them():
    child = pattern("x" * 40, "child", parent_id="0", parent_kind="subagent")
    alone = diagnose([pattern("." * 40)])
    assert diagnose([pattern("." * 40), child]).hazard_after_error == alone.hazard_after_error


def compacted(text: str, *places: int, name: object = 0, **fields: object) -> Profiled:
    session, profile = pattern(text, name, **fields)
    return Profiled(session, replace(profile, compactions=places))


def test_twenty_calls_on_either_side_of_a_compaction_are_compared():
    found = diagnose([compacted("x" * 30 + "." * 15 + "xxxxx" + "x" * 30, 30)]).around_compaction
    assert (found.before, found.after) == (1.0, 0.25)
    assert found.estimate == -0.75
    assert (found.compactions, found.sessions) == (1, 1)
    assert found.low is None


def test_calls_between_two_compactions_stay_on_their_side():
    found = diagnose([compacted("." * 20 + "xxxx" + "." * 20, 20, 24)]).around_compaction
    # Before: twenty and the four between; after: the four between and twenty.
    assert (found.before, found.after) == (4 / 24, 4 / 24)


def test_a_session_that_continues_a_compacted_one_has_its_end_before_it():
    parent = pattern("." * 10 + "x" * 20, "parent")
    child = pattern("." * 25, "child", parent_id=parent.session.id, parent_kind="compaction")
    found = diagnose([parent, child]).around_compaction
    assert (found.before, found.after, found.compactions) == (1.0, 0.0, 1)


def test_a_compaction_before_the_first_call_says_nothing():
    assert diagnose([compacted("....", 0)]).around_compaction.compactions == 0


def test_the_same_sessions_give_the_same_diagnostics():
    sessions = corpus(Random(2), abandoned, 60)
    assert diagnose(sessions) == diagnose(sessions)
