from __future__ import annotations

import pytest

from tests.templates.crowd import outcomes, template_for
from tests.templates.made import use
from warmstart.templates.audit import stats


def test_an_empty_store_has_no_statistics(store):
    found = stats(store)
    assert (found.templates, found.lines, found.abstained, found.open) == (0, (), 0, 0)
    assert (found.usage.used, found.usage.interval, found.usage.effect) == (0, None, None)


def test_the_statistics_count_states_types_uses_and_outcomes(either, clock):
    one = either.add(template_for("Fix the totals", name="totals"))
    either.add(template_for("Find a hotel", name="hotel", task_type="research", state="candidate"))
    outcomes(either, one.id, successes=8, failures=2)
    clock.go(days=1)
    use(either, one.id, session="open")
    outcomes(either, one.id, successes=3, failures=3, arm="holdout")
    use(either, "", arm="abstained", session="nothing fitted")
    found = stats(either)
    assert found.templates == 2
    assert found.states == {"active": 1, "candidate": 1}
    assert found.types == {"code": 1, "research": 1}
    assert (found.abstained, found.open) == (1, 1)
    (first, totals), (_, hotel) = found.lines
    assert first.name == "totals"
    assert totals[:4] == (11, 8, 2, 6)
    assert totals.interval == pytest.approx((0.490, 0.943), abs=1e-3)
    assert totals.effect.difference == pytest.approx(0.3)
    assert totals.last_used == clock()
    assert (hotel.used, hotel.effect, hotel.last_used) == (0, None, None)
    assert found.usage[:4] == totals[:4]
