from __future__ import annotations

from warmstart.profile.diagnostics import rate


def test_a_rate_is_errors_among_all_calls_of_the_sessions_that_have_any():
    assert rate("x", [1, 0, 2, 3, 0], [10, 0, 20, 30, 40])[:5] == ("x", 4, 100, 6, 0.06)
    assert rate("x", [3], [12]) == ("x", 1, 12, 3, 0.25, None, None)
    assert rate("x", [0], [0]) == rate("x", [], []) == ("x", 0, 0, 0, None, None, None)
