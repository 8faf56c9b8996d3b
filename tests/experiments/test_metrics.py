from __future__ import annotations

import pytest

from warmstart.errors import ExperimentError
from warmstart.experiments.metrics import METRICS, Measure, measure_all, metric_of, pass_hat_k
from warmstart.profile.profiler import Profiler
from warmstart.profile.values import Call, Markers, Outcome, Profile
from warmstart.sessions.values import Message, Session, ToolCall, ToolResult

CALLS = (
    Call("Bash", "error", "code", turn=1),
    Call("Bash", "ok", "code", turn=1),
    Call("Bash", "error", "code", turn=31),
)
MARKERS = Markers(
    calls=3,
    turns=2,
    errors=2,
    repeated_calls=1,
    calls_to_success=2,
    seconds_to_success=4.5,
    seconds=60.0,
    input_tokens=100,
    output_tokens=10,
    cached_tokens=50,
    corrections=1,
    diversity=2.5,
)
PROFILE = Profile(calls=CALLS, markers=MARKERS, outcome=Outcome("success", "", "check"))


@pytest.mark.parametrize(
    ("name", "measure"),
    [
        ("early_errors", Measure(1, 2)),
        ("success", Measure(1.0)),
        ("errors", Measure(2, 3)),
        ("error_count", Measure(2)),
        ("diversity", Measure(2.5)),
        ("calls_to_success", Measure(2)),
        ("seconds_to_success", Measure(4.5)),
        ("repeated_calls", Measure(1, 3)),
        ("calls_per_turn", Measure(1.5)),
        ("satisfaction", Measure(0.0)),
        ("tokens", Measure(160)),
        ("cost", Measure(155)),
        ("seconds", Measure(60.0)),
    ],
)
def test_each_metric(name, measure):
    assert METRICS[name].measure(PROFILE) == measure


def test_a_session_that_says_nothing_has_no_measures():
    assert measure_all(Profile()) == {}


def test_diversity_and_the_number_of_errors_of_a_session():
    """Twelve calls of three tools: of the 66 ways to draw ten of them, one leaves out the two calls of `grep`."""
    tools = ["Read"] * 6 + ["Bash"] * 4 + ["Grep"] * 2
    messages = [Message(native_id="u", role="user", text="Go on.")]
    for number, tool in enumerate(tools):
        failed = number in (1, 6, 7)
        result = ToolResult(call_id=str(number), text="x", outcome="error" if failed else "ok")
        messages.append(
            Message(native_id=f"a{number}", role="assistant", tool_calls=(ToolCall(id=str(number), name=tool),))
        )
        messages.append(Message(native_id=f"t{number}", role="tool", tool_results=(result,)))
    profile = Profiler().profile(Session(agent="claude-code", native_id="s"), messages)
    measures = measure_all(profile)
    assert measures["diversity"] == Measure(pytest.approx(3 - 1 / 66))
    assert measures["error_count"] == Measure(3)
    short = measure_all(Profiler().profile(Session(agent="claude-code", native_id="s"), messages[:19]))
    assert "diversity" not in short  # nine calls are too few
    assert short["error_count"] == Measure(3)


def test_a_time_without_its_event_is_censored():
    never = Profile(markers=Markers(calls=7, seconds=30.0))
    assert METRICS["calls_to_success"].measure(never) == Measure(7, observed=False)
    assert METRICS["seconds_to_success"].measure(never) == Measure(30.0, observed=False)


def test_the_users_word_decides_their_satisfaction():
    unhappy = Profile(outcome=Outcome("failure", "", "user"))
    assert METRICS["satisfaction"].measure(unhappy) == Measure(0.0)


def test_pass_hat_k_needs_all_of_k_runs_to_succeed():
    runs = {"a": [True, True, True], "b": [True, False, True], "c": [False]}
    assert pass_hat_k(runs, 1) == pytest.approx((1 + 2 / 3 + 0) / 3)
    assert pass_hat_k(runs, 2) == pytest.approx((1 + 1 / 3) / 2)
    assert pass_hat_k(runs, 4) is None
    assert pass_hat_k({}, 1) is None


def test_a_metric_that_does_not_exist():
    with pytest.raises(ExperimentError, match="no metric 'luck'"):
        metric_of("luck")
