"""Sections that several pages have: rates with their numbers, a ranking, a timeline, an effect."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date, timedelta

from warmstart.report import charts
from warmstart.report.charts import Point
from warmstart.report.format import cut, number, percent, percents
from warmstart.report.pages import Section, Table, Tile

MAX_ROWS = 12
MAX_WEEKS = 104


def rates(
    heading: str,
    points: Sequence[Point],
    *,
    column: str,
    counts: Sequence[str] = (),
    note: str = "",
    style: str = "",
    numbers: Sequence[Point] = (),
) -> Section:
    """A bar for each rate, and a table of the `numbers` behind them; `counts` name the counts of a point."""
    if not is_known(points):
        return Section(heading=heading, style=style)
    table = numbers_table(column, numbers or points, counts)
    return Section(heading=heading, charts=(charts.rates(heading, points),), note=note, style=style, table=table)


def ranking(heading: str, points: Sequence[Point], *, counts: Sequence[str] = (), style: str = "") -> Section:
    """The rates with the most cases first; the rest is only counted. `heading` is a plural."""
    ranked = sorted(points, key=lambda point: (-point.cases, point.name))
    left = len(ranked) - MAX_ROWS
    return rates(heading, ranked[:MAX_ROWS], column=heading[:-1], counts=counts, note=more(left), style=style)


def timeline(heading: str, title: str, weeks: Sequence[Point], *, counts: Sequence[str] = ()) -> Section:
    """A rate for each ISO week, named `2026-W03`; other names and weeks long ago are only counted."""
    dated = sorted((monday, point) for point in weeks if (monday := _monday(point.name)))
    since = dated[-1][0] - timedelta(weeks=MAX_WEEKS - 1) if dated else date.min
    shown = [(monday, point) for monday, point in dated if monday >= since]
    if not is_known([point for _, point in shown]):
        return Section(heading=heading, style="full")
    named = [(day, point._replace(name=f"{point.name} (from {day.day} {day:%b %Y})")) for day, point in shown]
    return Section(
        heading=heading,
        # No chart has readable text both on a phone and across the whole page, so the page shows one of two.
        charts=(charts.timeline(title, named, width=860), charts.timeline(title, named)),
        note=more(len(weeks) - len(shown)),
        table=numbers_table("Week", [point for _, point in shown], counts),
        style="full",
    )


def effect(
    found: Point, show: Callable[[float | None], str], *, neutral: float, caption: str, prefix: str = ""
) -> Tile:
    """An effect with its interval, and its note. Without an interval, from a single session, it shows no number."""
    if found.value is None:
        return Tile(found.name, "", ("no data",))
    if found.low is None:
        return Tile(found.name, "", ("Too few sessions to tell.", found.note))
    between = f"95 % interval {show(found.low)} to {show(found.high)}"
    title = f"{found.name}: {show(found.value)}, {between}"
    drawing = charts.gauge(title, found, neutral=neutral, caption=caption)
    return Tile(found.name, prefix + show(found.value), (between, found.note), drawing)


def numbers_table(column: str, points: Sequence[Point], counts: Sequence[str] = ()) -> Table:
    """The points as a table."""
    rows = [
        (cut(point.name, 80), *map(number, point.counts), percent(point.value), percents(point.low, point.high))
        for point in points
    ]
    styles = ("", *("end" for _ in counts), "end", "end")
    return Table((column, *counts, "Rate", "95 % interval"), rows, styles)


def is_known(points: Sequence[Point]) -> bool:
    """Whether any of the points has a value."""
    return any(point.value is not None for point in points)


def more(count: int) -> str:
    """How many rows are not shown, as a sentence; empty if all are."""
    return f"And {number(count)} more." if count > 0 else ""


def _monday(week: str) -> date | None:
    """The first day of an ISO week such as `2026-W03`."""
    found = re.fullmatch(r"(\d{4})-?W(\d\d?)", week)
    try:
        return date.fromisocalendar(int(found[1]), int(found[2]), 1) if found else None
    except ValueError:
        return None
