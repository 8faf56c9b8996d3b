"""The metrics compared between arms: a table of small pure functions from a session's profile to a number.

A metric returns a sum and its number of trials, so that a rate stays a ratio of sums; `None` if it does not apply.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import comb
from typing import NamedTuple

from warmstart.errors import ExperimentError
from warmstart.profile.values import Profile

EARLY_TURNS = 30
DEFAULT_METRIC = "early_errors"


class Measure(NamedTuple):
    """The sum of an outcome over `size` trials. A time without its event is not `observed`."""

    total: float
    size: float = 1.0
    observed: bool = True


class Metric(NamedTuple):
    """A metric: its description, which direction is good, and how to measure it."""

    words: str
    lower_is_better: bool
    measure: Callable[[Profile], Measure | None]


def _early_errors(profile: Profile) -> Measure | None:
    calls = [call for call in profile.calls if call.turn <= EARLY_TURNS]
    return _ratio(sum(call.outcome == "error" for call in calls), len(calls))


def _success(profile: Profile) -> Measure | None:
    """According to the user, a score or a check."""
    return None if profile.outcome.value == "unknown" else Measure(float(profile.outcome.value == "success"))


def _satisfaction(profile: Profile) -> Measure | None:
    """The user's own verdict if there is one, otherwise whether they made no corrections."""
    if profile.outcome.source == "user":
        return Measure(float(profile.outcome.value == "success"))
    return Measure(float(profile.markers.corrections == 0)) if profile.markers.turns else None


def _tokens(profile: Profile, output: float = 1.0, cached: float = 1.0) -> Measure | None:
    markers = profile.markers
    total = markers.input_tokens + output * markers.output_tokens + cached * markers.cached_tokens
    return Measure(total) if total else None


def _ratio(total: float, size: float) -> Measure | None:
    return Measure(total, size) if size else None


def _time(event: float | None, end: float | None) -> Measure | None:
    """The time to an event; censored at the end of the session if it did not happen."""
    if event is not None:
        return Measure(event)
    return None if end is None else Measure(end, observed=False)


METRICS: Mapping[str, Metric] = {
    "early_errors": Metric("error rate in the first 30 turns", True, _early_errors),
    "success": Metric("share of tasks that succeed", False, _success),
    "errors": Metric("error rate", True, lambda it: _ratio(it.markers.errors, it.markers.calls)),
    "error_count": Metric(
        "number of errors", True, lambda it: Measure(it.markers.errors) if it.markers.calls else None
    ),
    "calls_to_success": Metric(
        "calls to the first success", True, lambda it: _time(it.markers.calls_to_success, it.markers.calls or None)
    ),
    "seconds_to_success": Metric(
        "seconds to the first success", True, lambda it: _time(it.markers.seconds_to_success, it.markers.seconds)
    ),
    "repeated_calls": Metric(
        "repeated calls per call", True, lambda it: _ratio(it.markers.repeated_calls, it.markers.calls)
    ),
    # Neither direction is good in itself, but a metric needs one.
    "diversity": Metric(
        "different tools among ten random calls",
        False,
        lambda it: None if it.markers.diversity is None else Measure(it.markers.diversity),
    ),
    "calls_per_turn": Metric(
        "tool calls per turn",
        True,
        lambda it: Measure(it.markers.calls / it.markers.turns) if it.markers.turns else None,
    ),
    "satisfaction": Metric("share of satisfied users", False, _satisfaction),
    "tokens": Metric("tokens", True, _tokens),
    # Output counts five times and cached input a tenth, roughly as vendors price them.
    "cost": Metric("cost in input tokens", True, lambda it: _tokens(it, output=5, cached=0.1)),
    "seconds": Metric("seconds", True, lambda it: None if it.markers.seconds is None else Measure(it.markers.seconds)),
}


def metric_of(name: str) -> Metric:
    """A metric by name."""
    if name not in METRICS:
        raise ExperimentError(f"there is no metric {name!r}; the metrics are {', '.join(METRICS)}")
    return METRICS[name]


def measure_all(profile: Profile) -> dict[str, Measure]:
    """All metrics that apply to a session."""
    measures = {name: metric.measure(profile) for name, metric in METRICS.items()}
    return {name: measure for name, measure in measures.items() if measure is not None}


def pass_hat_k(outcomes: Mapping[str, Sequence[bool]], k: int) -> float | None:
    """pass^k: the share of tasks for which k randomly drawn runs all succeed; `None` if no task has k runs."""
    enough = [runs for runs in outcomes.values() if len(runs) >= k]
    return sum(comb(sum(runs), k) / comb(len(runs), k) for runs in enough) / len(enough) if enough else None
