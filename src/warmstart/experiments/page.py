"""The results of an experiment as an HTML page."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from warmstart.errors import ExperimentError
from warmstart.experiments.analysis import compare, in_words
from warmstart.experiments.metrics import METRICS
from warmstart.experiments.results import Results, package_versions
from warmstart.experiments.statistics import kaplan_meier
from warmstart.experiments.units import group_units
from warmstart.report import charts
from warmstart.report.charts import Curve, Row, Tick
from warmstart.report.pages import Count, Download, Page, Section, Table, render

_LOOKS = 60  # points of the running difference
_MIN_LOOK = 8  # units
_MAX_PAIRS = 60
_TREND = 30  # calls


def page(results: Results, *, made: datetime, template: str = "") -> str:
    """The results as an HTML document; `template` is the text that warm arms started from."""
    name, first = results.design.name, results.primary[0]
    known = sum(row.total is not None for row in results.rows)
    counts = {
        "arms": str(len({row.arm for row in results.rows})),
        "tasks" if results.trials else "pairs": str(len({row.pair for row in results.rows if row.pair}) or "-"),
        **({"state": results.state} if results.state else {}),
    }
    lines = [(line,) for line in template.splitlines() if line.strip()]
    sections = (
        _forest(results),
        _running(results),
        _pairs(results),
        _curves("Still without a success", "calls", _survival(results), "Kaplan-Meier: the share of sessions."),
        _curves("Errors, call by call", "call", _trend(results)),
        _metrics(results),
        Section(heading="Template", table=Table(("start",), lines, ("code",)), style="full"),
    )
    downloads, seed = [Download(f"{name}-comparisons.csv", _csv(_comparison_rows(results)))], ""
    if results.trials:
        downloads.insert(0, Download(f"{name}-sessions.csv", _csv(_session_rows(results))))
        seed = f"Seed {results.design.seed}. "
    return render(
        Page(
            title=f"Experiment {name}",
            scope=f"{results.words}; {'lower' if first.lower_is_better else 'higher'} is better",
            made=made,
            counts=(
                Count("sessions" if results.trials else "rows", str(len(results.rows)), f"{known} with an outcome"),
                *(Count(*count) for count in counts.items()),
                Count("verdict", first.verdict, tone="accent"),
            ),
            question="Does it help?",
            finding=in_words(first, unit=results.unit),
            summary=tuple(in_words(each, unit=results.unit) for each in results.primary[1:]),
            sections=tuple(each for each in sections if each.charts or (each.table and each.table.rows)),
            explanation=(*results.checks, *(note for each in results.primary for note in each.notes)),
            downloads=tuple(downloads),
            footer=(
                f"Method: {'; '.join(dict.fromkeys(each.method for each in results.primary))}. {seed}"
                f"{', '.join(f'{key} {value}' for key, value in package_versions().items())}.",
            ),
        )
    )


def _forest(results: Results) -> Section:
    analyses = results.primary
    reach = max(abs(bound) for each in analyses for bound in (each.ci_low, each.ci_high)) or 1.0

    def share(value: float) -> float:
        return (value / reach + 1) / 2

    lines = [
        Row(
            name=each.treatment.name,
            tip=in_words(each, unit=results.unit),
            values=(f"{each.difference:+.3g}", f"{each.p_adjusted:.2g}"),
            intervals=((share(each.ci_low), share(each.ci_high)),),
            dot=share(each.difference),
        )
        for each in analyses
    ]
    ticks = [Tick(share(value), f"{value:+.2g}") for value in (-reach, 0.0, reach)]
    numbers = [each.numbers() for each in analyses]
    table = Table(
        tuple(numbers[0]), [tuple(each.values()) for each in numbers], ("", *("end",) * (len(numbers[0]) - 1))
    )
    drawing = charts.rows("Difference from the baseline", lines, ticks, columns=("difference", "p"))
    heading = f"Difference from {analyses[0].baseline.name}"
    return Section(heading=heading, charts=(drawing,), table=table, note="Lines are 95 % intervals.")


def _running(results: Results) -> Section:
    """The difference after each session, with a confidence sequence that is valid at every look."""
    first = results.primary[0]
    rows = results.rows if results.trials or results.question.sequential else ()  # a file may have any order
    question = results.question._replace(sequential=True, planned=first.n_units)
    points, band = [], []
    for end in sorted({round(len(rows) * look / _LOOKS) for look in range(1, _LOOKS + 1)}):
        try:
            look = compare(rows[:end], first.baseline.name, first.treatment.name, question)
        except ExperimentError:
            continue  # too little data
        if look.n_units < _MIN_LOOK:
            continue  # too wide to draw
        points.append((float(end), look.difference))
        band.append((look.ci_low, look.ci_high))
    curves = [Curve("difference", points, band)]
    return _curves(f"{first.treatment.name} over time", "sessions", curves, "The band is valid at every look.")


def _pairs(results: Results) -> Section:
    """Each task in both arms."""
    names = results.primary[0].baseline.name, results.primary[0].treatment.name
    units = group_units(results.rows, *names)
    both = list(zip(units.pairs, units.baseline.means.tolist(), units.treatment.means.tolist(), strict=False))
    heading = "Task by task" if results.trials else "Pair by pair"
    if not both:
        return Section(heading=heading)
    top = max(max(base, other) for _, base, other in both) or 1.0
    lines = [
        Row(
            name=task,
            tip=f"{task}: {names[0]} {base:.3g}, {names[1]} {other:.3g}",
            values=(f"{base:.3g}", f"{other:.3g}"),
            intervals=((min(base, other) / top, max(base, other) / top),),
            dot=other / top,
        )
        for task, base, other in sorted(both, key=lambda pair: pair[2] - pair[1])[:_MAX_PAIRS]
    ]
    columns = tuple(name[:12] for name in names)
    drawing = charts.rows(heading, lines, [Tick(0, "0"), Tick(1, f"{top:.3g}")], columns=columns)
    return Section(heading=heading, charts=(drawing,), note=f"The dot is {names[1]}.", style="tall")


def _curves(heading: str, caption: str, curves: Iterable[Curve], note: str = "") -> Section:
    """A section with the curves that have at least two points."""
    drawn = [curve for curve in curves if len(curve.points) > 1]
    if not drawn:
        return Section(heading=heading)
    return Section(heading=heading, charts=(charts.curves(heading, drawn, caption=caption),), note=note)


def _survival(results: Results) -> Iterator[Curve]:
    import numpy as np

    for arm in results.design.arms:
        rows = [trial.row("calls_to_success") for trial in results.trials if trial.arm == arm]
        known = [row for row in rows if row.total is not None]
        times = np.array([row.total for row in known], float)
        curve = kaplan_meier(times, np.array([row.observed for row in known], bool))
        steps = [(0.0, 1.0)]
        for time, share in zip(curve.times.tolist(), curve.share.tolist(), strict=True):
            steps += [(time, steps[-1][1]), (time, share)]
        yield Curve(arm, steps)


def _trend(results: Results) -> Iterator[Curve]:
    for arm in results.design.arms:
        failed = [trial.measures["failed"][:_TREND] for trial in results.trials if trial.arm == arm and trial.measures]
        at = [
            [each[place] for each in failed if len(each) > place] for place in range(max(map(len, failed), default=0))
        ]
        yield Curve(arm, [(float(place + 1), sum(each) / len(each)) for place, each in enumerate(at)])


def _metrics(results: Results) -> Section:
    rows = [
        (
            METRICS[name].words,
            each.treatment.name,
            f"{each.difference:+.3g}",
            f"{each.ci_low:+.3g} to {each.ci_high:+.3g}",
            f"{each.p_adjusted:.2g}",
            each.verdict,
        )
        for name, analyses in results.secondary.items()
        for each in analyses
    ]
    table = Table(("metric", "arm", "difference", "95 % interval", "p adjusted", "verdict"), rows)
    note = "p-values are adjusted over this table (Benjamini-Hochberg)."
    return Section(heading="Other metrics", table=table, open=True, style="full", note=note)


# -- downloads


def _session_rows(results: Results) -> Iterator[Sequence[object]]:
    yield ("session", "arm", "propensity", "stratum", "unit", "task", "at", *METRICS)
    for trial in results.trials:
        measures = (trial.measures.get(name) for name in METRICS)
        values = ("" if measure is None else measure[0] / measure[1] for measure in measures)
        yield (*trial[:6], trial.at.isoformat(), *values)


def _comparison_rows(results: Results) -> Iterator[Sequence[object]]:
    names = ("difference", "se", "ci_low", "ci_high", "p", "p_adjusted", "n_units", "icc", "deff", "mde", "verdict")
    yield ("metric", "arm", *names, "method")
    for metric, analyses in ({results.metric: results.primary} | dict(results.secondary)).items():
        for each in analyses:
            yield (metric, each.treatment.name, *(getattr(each, name) for name in names), each.method)


def _csv(rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()
