"""Pages as data, rendered by one Jinja2 template.

A page is one HTML file that works offline: it has no scripts and no external references, and its content security
policy forbids both. The template escapes all text; only charts are markup.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import NamedTuple

import jinja2
from markupsafe import Markup

from warmstart.report import charts
from warmstart.report.charts import Point
from warmstart.report.format import cut, number, one_line, percent, percents, printable

MAX_ROWS = 12
MAX_WEEKS = 104
_FOLDER = Path(__file__).parent


class Count(NamedTuple):
    """A number in the header of a page; `tone` is `accent` for an important one."""

    name: str
    value: str
    note: str = ""
    tone: str = ""


class Table(NamedTuple):
    """A table. `styles` are the classes of its columns: `end` for numbers, `code`, `soft`."""

    columns: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    styles: tuple[str, ...] = ()


class Tile(NamedTuple):
    """One number with its name, a small chart and notes; `value` is empty if there is no number to show."""

    name: str
    value: str
    notes: tuple[str, ...] = ()
    drawing: str = ""


class Download(NamedTuple):
    """A file that is embedded in the page."""

    name: str
    text: str
    media_type: str = "text/csv"

    @property
    def url(self) -> str:
        """The file as a data URL, which needs neither a server nor a script."""
        return f"data:{self.media_type};base64,{b64encode(self.text.encode()).decode()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of a page: charts first, then a note, then the numbers behind the charts, folded unless `open`.

    With two charts the page shows the first on a wide screen and the second on a narrow one. `style` is `full` for the
    whole width of the page, `tall` for two rows of the grid.
    """

    heading: str
    charts: tuple[Markup, ...] = ()
    tiles: tuple[Tile, ...] = ()
    note: str = ""
    table: Table | None = None
    open: bool = False
    style: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page: the counts, the main finding in a sentence, sections with charts, then paragraphs that explain them."""

    title: str
    made: datetime
    scope: str = ""
    counts: tuple[Count, ...] = ()
    question: str = ""
    finding: str = ""
    summary: tuple[str, ...] = ()
    sections: tuple[Section, ...] = ()
    explanation: tuple[str, ...] = ()
    downloads: tuple[Download, ...] = ()
    footer: tuple[str, ...] = ()


def render(page: Page) -> str:
    """The page as an HTML document."""
    style = Markup((_FOLDER / "page.css").read_text(encoding="utf-8"))  # noqa: S704 - our own file
    return _environment().get_template("page.html.j2").render(page=page, style=style) + "\n"


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: printable(value) if type(value) is str else value,
    )
    environment.filters["one_line"] = one_line
    return environment


# -- sections that several pages share


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
    """The rates with the most cases; a note says how many others there are. `heading` is a plural."""
    ranked = sorted(points, key=lambda point: (-point.cases, point.name))
    left = len(ranked) - MAX_ROWS
    return rates(heading, ranked[:MAX_ROWS], column=heading[:-1], counts=counts, note=more(left), style=style)


def timeline(heading: str, title: str, weeks: Sequence[Point], *, counts: Sequence[str] = ()) -> Section:
    """A rate for each ISO week, named `2026-W03`; a note says how many old weeks and other points are left out."""
    dated = sorted((monday, point) for point in weeks if (monday := _monday(point.name)))
    since = dated[-1][0] - timedelta(weeks=MAX_WEEKS - 1) if dated else date.min
    shown = [(monday, point) for monday, point in dated if monday >= since]
    if not is_known([point for _, point in shown]):
        return Section(heading=heading, style="full")
    named = [(day, point._replace(name=f"{point.name} (from {day.day} {day:%b %Y})")) for day, point in shown]
    return Section(
        heading=heading,
        # No chart is readable both on a phone and on a wide page, so the page shows one of two.
        charts=(charts.timeline(title, named, width=860), charts.timeline(title, named)),
        note=more(len(weeks) - len(shown)),
        table=numbers_table("Week", [point for _, point in shown], counts),
        style="full",
    )


def effect(
    point: Point, show: Callable[[float | None], str], *, neutral: float, caption: str, prefix: str = ""
) -> Tile:
    """An effect with its interval and its note. Without an interval (a single session) it shows no number."""
    if point.value is None:
        return Tile(point.name, "", ("no data",))
    if point.low is None:
        return Tile(point.name, "", ("Too few sessions to tell.", point.note))
    interval = f"95 % interval {show(point.low)} to {show(point.high)}"
    title = f"{point.name}: {show(point.value)}, {interval}"
    drawing = charts.gauge(title, point, neutral=neutral, caption=caption)
    return Tile(point.name, prefix + show(point.value), (interval, point.note), drawing)


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
