"""Charts as SVG: numbers and text in, markup out.

They are drawn without a library, because a page has to be small and work offline. A chart has its own units and the
page scales it, so what fits here fits at any size. Colours are set by the page: a chart only names classes. Labels are
next to what they describe, so no chart needs a legend. A number without an interval is hollow and does not stretch the
axis.

`element` is the only way to build markup from data. It escapes everything that is not already `Markup`, so a forgotten
escape shows up as text on the page and never runs in it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from itertools import pairwise
from typing import NamedTuple

from markupsafe import Markup, escape

from warmstart.report.format import fit, number, one_line, percent, percents, printable, short, text_width

WIDTH = 400.0  # half a page: slightly larger on a wide screen, slightly smaller on a phone
_MAX_NAMES = 148.0  # width of the names of rows
_LEFT = 46.0  # width of the labels of a vertical axis
_ROW = 23.0


class Point(NamedTuple):
    """A share with its 95 % interval (`None` if the data allow none) and the number of cases it is based on.

    `counts` are other numbers for the table below the chart.
    """

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    cases: int = 0
    note: str = ""
    counts: tuple[int, ...] = ()

    @property
    def tip(self) -> str:
        """The point as text."""
        interval = "" if self.low is None else f" (95 % interval {percents(self.low, self.high)})"
        return f"{one_line(self.name)}: {percent(self.value)}{interval}{self.note and f'; {self.note}'}"


class Bar(NamedTuple):
    """A bar in a row from `start` to `end`; `tone` is the class of its colour."""

    start: float
    end: float
    tone: str


class Row(NamedTuple):
    """A row of a chart: its name, bars, intervals and dot, all as shares of the axis, and numbers at its end."""

    name: str
    tip: str
    values: tuple[str, ...]
    bars: tuple[Bar, ...] = ()
    intervals: tuple[tuple[float, float], ...] = ()
    dot: float | None = None
    weak: bool = False


class Tick(NamedTuple):
    """A position on an axis, as a share of its length, and its label."""

    at: float
    text: str


def rows(title: str, lines: Sequence[Row], axis: Sequence[Tick], *, columns: Sequence[str] = ()) -> Markup:
    """One row per item: name, bars on a common axis, and numbers in columns at the right end."""
    ends = _column_ends(lines, columns)
    left = min(max((text_width(one_line(row.name)) for row in lines), default=0) + 9, _MAX_NAMES)
    right = ends[0][0] - 12
    top = 22.0 if columns else 6.0
    bottom = top + _ROW * len(lines)

    def x(share: float) -> float:
        return left + max(0.0, min(share, 1.0)) * (right - left)

    parts = [label(end, 11, name, "end") for (_, end), name in zip(ends, columns, strict=False)]
    for tick in axis:
        parts.append(element("line", class_="grid", x1=x(tick.at), x2=x(tick.at), y1=top - 4, y2=bottom))
        parts.append(label(x(tick.at), bottom + 14, tick.text, "middle"))
    for place, row in enumerate(lines):
        y = top + _ROW * (place + 0.5)
        drawn = [
            element("rect", class_="hit", x=0, y=y - _ROW / 2, width=WIDTH, height=_ROW, rx=3),
            label(0, y + 4, fit(row.name, left - 8), "label"),
        ]
        for bar in row.bars:
            style = f"bar {bar.tone}{' hollow' if row.weak else ''}"
            wide = max(x(bar.end) - x(bar.start), 0.0)
            drawn.append(element("rect", class_=style, x=x(bar.start), y=y - 5, width=wide, height=10))
        spread = (len(row.intervals) - 1) / 2
        for order, (low, high) in enumerate(row.intervals):
            drawn.append(_interval(x(low), x(high), y + 4 * (order - spread), beyond=high > 1 + 1e-9))
        if row.dot is not None:
            drawn.append(element("circle", class_="dot", cx=x(row.dot), cy=y, r=4.5))
        for order, ((_, end), value) in enumerate(zip(ends, row.values, strict=True)):
            style = "end" if row.weak or order else "value end"
            drawn.append(label(end, y + 4, value, style))
        parts.append(mark(row.tip, *drawn))
    return draw(title, WIDTH, bottom + 20, *parts)


def _column_ends(lines: Sequence[Row], columns: Sequence[str]) -> list[tuple[float, float]]:
    """Where each column of numbers starts and ends."""
    count = max((len(row.values) for row in lines), default=1)
    ends: list[tuple[float, float]] = []
    end = WIDTH
    for place in reversed(range(count)):
        texts = [row.values[place] for row in lines] + ([columns[place]] if place < len(columns) else [])
        start = end - max(map(text_width, texts), default=0)
        ends.append((start, end))
        end = start - 14
    return ends[::-1]


def _interval(low: float, high: float, y: float, *, beyond: bool) -> Markup:
    """An interval as a line, with an arrow if it runs off the axis."""
    end = f"M{high - 4:.1f},{y - 3.5:.1f}l4,3.5l-4,3.5" if beyond else f"M{high:.1f},{y - 3.5:.1f}v7"
    return element("path", class_="whisker", d=f"M{low:.1f},{y - 3.5:.1f}v7M{low:.1f},{y:.1f}H{high:.1f}{end}")


def rates(title: str, points: Sequence[Point], *, count: str = "calls") -> Markup:
    """A bar with its interval for each share, and the number of cases (`count`) it is based on."""
    marks = ticks(points, most=3)
    top = marks[-1]
    lines = [
        Row(
            name=point.name,
            tip=point.tip,
            values=(percent(point.value), short(point.cases)),
            bars=() if point.value is None else (Bar(0, point.value / top, "tint"),),
            intervals=() if point.low is None or point.high is None else ((point.low / top, point.high / top),),
            weak=point.low is None,
        )
        for point in points
    ]
    return rows(title, lines, [Tick(each / top, tick_text(each)) for each in marks], columns=("rate", count))


def shares(title: str, parts: Sequence[tuple[str, int, str]]) -> Markup:
    """How a whole divides into parts, each given as name, count and tone: a bar, the count and its share."""
    total = max(sum(count for _, count, _ in parts), 1)
    lines = [
        Row(
            name=name,
            tip=f"{one_line(name)}: {number(count)} ({percent(count / total)})",
            values=(percent(count / total), number(count)),
            bars=(Bar(0, count / total, tone),),
        )
        for name, count, tone in parts
    ]
    return rows(title, lines, [Tick(each, f"{each:.0%}") for each in (0.0, 0.5, 1.0)])


class _Plot(NamedTuple):
    """The area of a vertical axis from 0 to the last tick."""

    left: float
    right: float
    top: float
    bottom: float
    ticks: Sequence[float]

    def y(self, share: float) -> float:
        """The height of a share; one above the axis is drawn at its end."""
        return self.bottom - min(share / self.ticks[-1], 1.0) * (self.bottom - self.top)


class _Placed(NamedTuple):
    x: float
    point: Point


def line(title: str, points: Sequence[Point], *, caption: str) -> Markup:
    """The shares of ordered positions as a line in the band of their intervals."""
    plot = _Plot(_LEFT, WIDTH - 4, 20, 186, ticks(points))
    step = (plot.right - plot.left) / len(points)
    placed = [_Placed(plot.left + step * (place + 0.5), point) for place, point in enumerate(points)]
    widest = min(max(text_width(one_line(point.name)) for point in points), 60.0)
    every = math.ceil((widest + 8) / step)
    parts = [_grid(plot), _curve(plot, placed, step)]
    for place, (x, point) in enumerate(placed):
        hit = element("rect", class_="hit", x=x - step / 2, y=plot.top, width=step, height=plot.bottom - plot.top)
        parts.append(mark(point.tip, hit, _dot(plot, x, point)))
        if place % every == 0:
            parts.append(label(x, plot.bottom + 19, fit(point.name, 60), "label middle"))
    parts += _end_labels(plot, placed)
    parts.append(label((plot.left + plot.right) / 2, plot.bottom + 36, caption, "middle"))
    return draw(title, WIDTH, 226, *parts)


def _end_labels(plot: _Plot, placed: Sequence[_Placed]) -> Iterator[Markup]:
    """The values of the first and the last point, on the side of the point where the line is not."""
    known = [(x, point.value) for x, point in placed if point.value is not None]
    for (x, value), (_, neighbour), shift, style in (
        *((known[0], known[min(1, len(known) - 1)], -5, "value") for _ in known[:1]),
        *((known[-1], known[-2], 5, "value end") for _ in known[1:2]),
    ):
        yield label(x + shift, plot.y(value) + (17 if neighbour > value else -9), percent(value), style)


def timeline(title: str, weeks: Sequence[tuple[date, Point]], *, width: float = WIDTH) -> Markup:
    """A share for each week (given by its Monday) above bars for its cases; a week without cases is a gap."""
    plot = _Plot(_LEFT, width - 4, 12, 160, ticks([point for _, point in weeks]))
    high, floor = plot.bottom + 14, plot.bottom + 58  # the bars are between these
    first, last = weeks[0][0], weeks[-1][0]
    step = (plot.right - plot.left) / ((last - first).days // 7 + 1)

    def x(monday: date) -> float:
        return plot.left + step * ((monday - first).days / 7 + 0.5)

    most = max(1, *(point.cases for _, point in weeks))
    placed = [_Placed(x(monday), point) for monday, point in weeks]
    parts = [
        _grid(plot),
        element("line", class_="grid", x1=plot.left, x2=plot.right, y1=floor, y2=floor),
        label(plot.left - 8, high + 6, short(most), "end"),
        label(plot.left - 8, floor + 3, "calls", "end"),
        _curve(plot, placed, step),
    ]
    wide = max(min(step * 0.7, 26), 1)
    for at, point in placed:
        tall = (floor - high) * point.cases / most
        hit = element("rect", class_="hit", x=at - step / 2, y=plot.top, width=step, height=floor - plot.top)
        bar = element("rect", class_="cases", x=at - wide / 2, y=floor - tall, width=wide, height=tall)
        parts.append(mark(point.tip, hit, bar, _dot(plot, at, point, size=min(4, max(step / 3, 1.6)))))
    for monday, text in _dates(first, last, int((plot.right - plot.left) / 86)):
        if x(monday) + text_width(text) / 2 <= width:
            parts.append(label(x(monday), floor + 18, text, "label middle"))
    return draw(title, width, floor + 26, *parts)


class Curve(NamedTuple):
    """A named line through points (x, y); `band` has the low and high bound at each of them."""

    name: str
    points: Sequence[tuple[float, float]]
    band: Sequence[tuple[float, float]] = ()


def curves(title: str, lines: Sequence[Curve], *, caption: str) -> Markup:
    """Lines on common axes that include zero, each with its name at its end."""
    xs = [x for curve in lines for x, _ in curve.points]
    ys = [y for curve in lines for _, y in curve.points] + [y for curve in lines for pair in curve.band for y in pair]
    (left, right), (low, high) = (min(xs), max(xs)), (min(0.0, *ys), max(0.0, *ys))
    names = max(text_width(one_line(curve.name)) for curve in lines) + 8
    top, bottom, start, end = 12.0, 186.0, _LEFT, WIDTH - names

    def place(x: float, y: float) -> tuple[float, float]:
        across = start + (x - left) / ((right - left) or 1) * (end - start)
        return across, bottom - (y - low) / ((high - low) or 1) * (bottom - top)

    parts = []
    for value in sorted({low, 0.0, high}):
        y = place(left, value)[1]
        style = "grid" if value else "zero"
        parts += [
            element("line", class_=style, x1=start, x2=end, y1=y, y2=y),
            label(start - 8, y + 4, f"{value:.3g}", "end"),
        ]
    free = top
    for order, curve in enumerate(sorted(lines, key=lambda each: -each.points[-1][1])):
        if curve.band:
            edges = list(zip((x for x, _ in curve.points), curve.band, strict=True))
            outline = [place(x, pair[1]) for x, pair in edges] + [place(x, pair[0]) for x, pair in reversed(edges)]
            parts.append(element("polygon", class_="band", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in outline)))
        drawn = [place(x, y) for x, y in curve.points]
        path = element(
            "polyline",
            class_="line",
            points=" ".join(f"{x:.1f},{y:.1f}" for x, y in drawn),
            stroke_dasharray=None if not order else f"{max(8 // order, 1)} 3",
        )
        # Names do not overlap: each is at the end of its line, or below the name above it.
        at = min(max(drawn[-1][1] + 4, free), bottom - 14 * (len(lines) - 1 - order) + 4)
        free = at + 14
        parts.append(
            mark(f"{one_line(curve.name)}: {curve.points[-1][1]:.3g}", path, label(end + 5, at, curve.name, "label"))
        )
    for value in (left, right):
        parts.append(label(place(value, low)[0], bottom + 18, f"{value:.4g}", "middle"))
    parts.append(label((start + end) / 2, bottom + 34, caption, "middle"))
    return draw(title, WIDTH, 226, *parts)


def gauge(title: str, point: Point, *, neutral: float, caption: str) -> Markup:
    """A number and its interval on a line whose middle is `neutral`, the value that means no difference."""
    width, height, middle = 230.0, 30.0, 115.0
    sides = [side for side in (point.value, point.low, point.high) if side is not None and math.isfinite(side)]
    reach = max([abs(side - neutral) for side in sides], default=0.0) * 1.1 or 1.0

    def x(side: float) -> float:
        return middle + max(-1.0, min((side - neutral) / reach, 1.0)) * (middle - 6)

    parts = [
        element("line", class_="grid", x1=0, x2=width, y1=9, y2=9),
        element("line", class_="zero", x1=middle, x2=middle, y1=1, y2=17),
        label(middle, 28, caption, "middle"),
    ]
    if point.low is not None and point.high is not None:
        parts.append(element("line", class_="range", x1=x(point.low), x2=x(point.high), y1=9, y2=9))
    parts.append(element("circle", class_="dot", cx=x(point.value or neutral), cy=9, r=4.5))
    return draw(title, width, height, *parts)


def ticks(series: Sequence[Point], *, most: int = 5) -> list[float]:
    """Round numbers for an axis from 0 that includes all points with an interval.

    An interval may run off the axis: otherwise a tool with three calls would flatten all others.
    """
    sure = [point for point in series if point.low is not None] or series
    top = max((point.value for point in sure if point.value is not None), default=0.0)
    reach = max((point.high for point in sure if point.high is not None), default=0.0)
    limit = min(max(top, min(reach, top * 1.35 if top else reach)), 1.0) or 0.1
    power = 10.0 ** math.floor(math.log10(limit / most))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor * most >= limit * (1 - 1e-9))
    return [step * place for place in range(math.ceil(limit / step - 1e-9) + 1)]


def tick_text(share: float) -> str:
    """A share as the label of an axis: `5 %`."""
    return "0" if share == 0 else f"{round(share * 100, 6):g}\N{NO-BREAK SPACE}%"


def _grid(plot: _Plot) -> Markup:
    parts = []
    for tick in plot.ticks:
        y = plot.y(tick)
        parts.append(element("line", class_="grid", x1=plot.left, x2=plot.right, y1=y, y2=y))
        parts.append(label(plot.left - 8, y + 4, tick_text(tick), "end"))
    return join(*parts)


def _dot(plot: _Plot, x: float, point: Point, *, size: float = 4) -> Markup:
    if point.value is None:
        return Markup("")
    style = "dot hollow" if point.low is None else "dot"
    return element("circle", class_=style, cx=x, cy=plot.y(point.value), r=size)


def _curve(plot: _Plot, placed: Sequence[_Placed], step: float) -> Markup:
    """Lines through the points, in the bands of their intervals, broken where positions are missing."""
    drawn: list[Markup] = []
    for run in _runs([each for each in placed if each.point.low is not None], step):
        upper = [f"{x:.1f},{plot.y(point.high or 0):.1f}" for x, point in run]
        lower = [f"{x:.1f},{plot.y(point.low or 0):.1f}" for x, point in reversed(run)]
        style = {"class_": "band"} if len(run) > 1 else {"class_": "whisker"}
        drawn.append(element("polygon", **style, points=" ".join(upper + lower)))
    for run in _runs([each for each in placed if each.point.value is not None], step):
        through = " ".join(f"{x:.1f},{plot.y(point.value or 0):.1f}" for x, point in run)
        drawn.append(element("polyline", class_="line", points=through))
    return join(*drawn)


def _runs(placed: Sequence[_Placed], step: float) -> list[list[_Placed]]:
    found = [[each] for each in placed[:1]]
    for before, each in pairwise(placed):
        if each.x - before.x < step * 1.5:
            found[-1].append(each)
        else:
            found.append([each])
    return found


def _dates(first: date, last: date, most: int) -> Iterator[tuple[date, str]]:
    """At most `most` Mondays in even steps, with the year when it changes."""
    weeks = (last - first).days // 7 + 1
    step = math.ceil(weeks / max(most, 1))
    year = 0
    # Labels are centred on their week; starting half a step in, the first one cannot leave the chart.
    for week in range((step - 1) // 2, weeks, step):
        monday = first + timedelta(weeks=week)
        yield monday, f"{monday.day} {monday:%b %Y}" if monday.year != year else f"{monday.day} {monday:%b}"
        year = monday.year


def element(name: str, /, *children: str, **attributes: str | float | None) -> Markup:
    """An element with its children. `None` omits an attribute; `class_` becomes `class`, `a_b` becomes `a-b`."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(printable(_plain(value)))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{written}>{join(*children)}</{name}>")  # noqa: S704 - every part is escaped


def join(*children: str) -> Markup:
    """The concatenated children."""
    return Markup("").join(child if isinstance(child, Markup) else printable(child) for child in children)


def draw(title: str, width: float, height: float, *children: Markup) -> Markup:
    """A drawing. The page scales it to the width of its column."""
    return element("svg", element("title", title), *children, role="img", viewBox=f"0 0 {width:g} {height:g}")


def label(x: float, y: float, text: str, style: str = "") -> Markup:
    """A text in a drawing."""
    return element("text", text, x=x, y=y, class_=style or None)


def mark(tip: str, *children: Markup) -> Markup:
    """The parts of a drawing that show one number; `tip` appears when the pointer hovers over them."""
    return element("g", element("title", tip), *children, class_="mark")


def _plain(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")
