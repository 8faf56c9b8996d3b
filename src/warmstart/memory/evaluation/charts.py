"""Charts of an evaluation: a row for each backend."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise

from markupsafe import Markup

from warmstart.memory.evaluation.table import kind_of, milliseconds, share
from warmstart.memory.evaluation.values import BackendEvaluation, Percentiles
from warmstart.report import charts
from warmstart.report.charts import Bar, Row, Tick
from warmstart.stats import Interval

PARTS = ("availability", "functionality", "latency", "privacy")
_TONES = ("plain", "good", "second", "tint")
_SHARES = [Tick(each, f"{each:.0%}") for each in (0.0, 0.5, 1.0)]


def score_bars(evaluations: Sequence[BackendEvaluation]) -> Markup:
    """The points of each backend as one bar of their parts, with lines where a verdict begins."""
    rows = []
    for each in evaluations:
        points = each.points
        parts = (points.availability, points.store + points.retrieve + points.query, points.latency, points.privacy)
        ends = pairwise([0, *accumulate(parts)])
        names = ", ".join(f"{name} {size}" for name, size in zip(PARTS, parts, strict=True))
        rows.append(
            Row(
                each.backend_name,
                f"{each.backend_name}: {each.score} of 100 ({names})",
                (str(each.score),),
                tuple(Bar(start / 100, end / 100, tone) for (start, end), tone in zip(ends, _TONES, strict=True)),
            )
        )
    return charts.rows("Score by backend", rows, [Tick(limit / 100, str(limit)) for limit in (40, 60, 80)])


def hit_bars(evaluations: Sequence[BackendEvaluation], kind: str) -> Markup:
    """How often the right entry came first (full) and among five (light), for one kind of questions."""
    rows = []
    for each in evaluations:
        found = kind_of(each, kind)
        if found is None or found.hit_at_1 is None or found.hit_at_5 is None:
            rows.append(_not_measured(each.backend_name))
            continue
        first, five = share(found.hit_at_1, found.hit_at_1_interval), share(found.hit_at_5, found.hit_at_5_interval)
        rows.append(
            Row(
                each.backend_name,
                f"{each.backend_name}: {first} first, {five} among five, {found.questions} questions",
                (f"{found.hit_at_1:.0%} / {found.hit_at_5:.0%}",),
                (Bar(0, found.hit_at_5, "second"), Bar(0, found.hit_at_1, "good")),
                _intervals(found.hit_at_5_interval, found.hit_at_1_interval),
            )
        )
    return charts.rows(f"Found, {kind}", rows, _SHARES)


def silence_bars(evaluations: Sequence[BackendEvaluation], kind: str) -> Markup:
    """How often something came back where silence was right."""
    rows = []
    for each in evaluations:
        found = kind_of(each, kind)
        if found is None:
            rows.append(_not_measured(each.backend_name))
            continue
        wrong = share(found.wrong, found.wrong_interval)
        rows.append(
            Row(
                each.backend_name,
                f"{each.backend_name}: something came back for {wrong} of {found.questions} questions",
                (f"{found.wrong:.0%}",),
                (Bar(0, found.wrong, "bad"),),
                _intervals(found.wrong_interval),
            )
        )
    return charts.rows(f"Wrong answers, {kind}", rows, _SHARES)


def latency_dots(title: str, measured: Sequence[tuple[str, Percentiles | None]]) -> Markup:
    """The median of each as a dot and the 95th percentile as the end of its line, on a scale of powers of ten."""
    known = [found for _, found in measured if found is not None]
    low = math.floor(math.log10(max(min(found.p50 for found in known), 1e-4)))
    high = max(math.ceil(math.log10(max(max(found.p95 for found in known), 1e-3))), low + 1)

    def at(value: float) -> float:
        return (math.log10(max(value, 10.0**low)) - low) / (high - low)

    shown = [power for power in range(low, high + 1) if high - low < 4 or (power - low) % 2 == 0]
    rows = []
    for name, found in measured:
        if found is None:
            rows.append(_not_measured(name))
            continue
        p50, p95 = milliseconds(found.p50), milliseconds(found.p95)
        tip = f"{name}: median {p50} ms, 95 % within {p95} ms"
        rows.append(Row(name, tip, (f"{p50} / {p95}",), intervals=((at(found.p50), at(found.p95)),), dot=at(found.p50)))
    return charts.rows(title, rows, [Tick(at(10.0**power), f"{10.0**power:g}") for power in shown])


def _not_measured(name: str) -> Row:
    return Row(name, f"{name}: not measured", ("–",), weak=True)


def _intervals(*given: Interval | None) -> tuple[tuple[float, float], ...]:
    return tuple((each.low, each.high) for each in given if each)
