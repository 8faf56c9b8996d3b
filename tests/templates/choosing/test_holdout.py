from __future__ import annotations

from math import sqrt

import pytest

from warmstart.templates.choosing.holdout import drawn, is_held_out, pick


def test_the_share_of_sessions_that_is_held_out_is_the_one_asked_for(subtests):
    for share in [0.1, 0.3]:
        with subtests.test(share=share):
            number = 10_000
            held = sum(is_held_out(share, f"session-{each}") for each in range(number))
            assert abs(held - share * number) < 4 * sqrt(number * share * (1 - share))


def test_a_session_is_held_out_or_not_whenever_it_is_asked():
    assert [is_held_out(0.5, f"s{each}") for each in range(50)] == [is_held_out(0.5, f"s{each}") for each in range(50)]


def test_a_seed_shuffles_who_is_held_out():
    one = [is_held_out(0.5, f"s{each}", 1) for each in range(100)]
    assert one == [is_held_out(0.5, f"s{each}", 1) for each in range(100)]
    assert one != [is_held_out(0.5, f"s{each}", 2) for each in range(100)]


def test_nobody_and_everybody():
    assert not any(is_held_out(0.0, f"s{each}") for each in range(100))
    assert all(is_held_out(1.0, f"s{each}") for each in range(100))


def test_being_held_out_has_nothing_to_do_with_what_is_drawn():
    numbers = [drawn("template", f"s{each}", None) for each in range(4000) if is_held_out(0.5, f"s{each}")]
    assert sum(numbers) / len(numbers) == pytest.approx(0.5, abs=0.03)


def test_without_session_and_seed_it_is_chance():
    assert len({drawn("template", "", None) for _ in range(20)}) > 1


def test_odd_session_ids_do_no_harm():
    assert 0 <= drawn("holdout", "\ud800", None) < 1


def test_a_number_falls_into_the_share_it_belongs_to():
    assert [pick((0.2, 0.3, 0.5), number) for number in (0.0, 0.19, 0.2, 0.49, 0.5, 0.999)] == [0, 0, 1, 1, 2, 2]


def test_what_rounding_leaves_belongs_to_the_last():
    assert pick((0.1,) * 10, 0.9999999999999999) == 9
