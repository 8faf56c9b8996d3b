"""Charts as SVG: data in, markup out.

Written by hand because a page has to stay small and open offline. A chart is drawn for a width in units of its own and
scaled by the page, so what fits here fits at any size; `_width` errs on the wide side, as fonts differ. Colours are the
page's: a chart names classes only.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from datetime import date, timedelta
from itertools import pairwise
from typing import NamedTuple

from warmstart.profile.corpus.values import Rate
from warmstart.profile.page.markup import (
    Markup,
    counted,
    cut,
    element,
    fragment,
    number,
    one_line,
    percent,
    percents,
    short,
)

WIDTH = 400.0  # of half a page: little larger on a wide screen, little smaller on a phone
_FONT = 11.5  # the size of the text, as the page sets it
_LEFT = 46.0  # room for the labels of a vertical axis
_ROW = 23.0
_KEY = 60.0  # the widest label under a position


class Series(NamedTuple):
    """Rates of the same categories under one name."""

    name: str
    rates: Sequence[Rate]


class Week(NamedTuple):
    """The rate of the week that begins on a Monday."""

    monday: date
    rate: Rate


class Part(NamedTuple):
    """A share of a whole; `tone` is the class of its colour."""

    name: str
    size: int
    tone: str


class _Point(NamedTuple):
    x: float
    rate: Rate


class _Plot(NamedTuple):
    """The area of a vertical axis from 0 to the last tick."""

    left: float
    right: float
    top: float
    bottom: float
    ticks: Sequence[float]

    def y(self, share: float) -> float:
        """The height of a share; what lies above the axis is drawn at its end."""
        return self.bottom - min(share / self.ticks[-1], 1.0) * (self.bottom - self.top)


def dots(title: str, series: Sequence[Series], *, width: float = WIDTH) -> Markup:
    """A dot with its interval for each category; several series stand side by side."""
    rates = [rate for one in series for rate in one.rates]
    plot = _Plot(_LEFT, width - 4, 12, 186, ticks(rates))
    categories = len(series[0].rates)
    room = (plot.right - plot.left) / categories
    drawn: list[Markup] = [_grid(plot)]
    for place, alike in enumerate(zip(*(one.rates for one in series), strict=True)):
        center = plot.left + room * (place + 0.5)
        for index, rate in enumerate(alike):
            # The number stands to the right of its dot, so dot and number are centred together.
            x = center + (index - (len(series) - 1) / 2) * room / len(series) - 18
            hit = _hit(x - 16, plot.top, room / len(series) - 8, plot.bottom - plot.top)
            told = describe(rate, f"{rate.key}, {series[index].name}" if len(series) > 1 else rate.key)
            label = _text(x + 9, _height(plot, rate) + 4, percent(rate.rate), "value")
            drawn.append(_mark(told, hit, _whisker(plot, x, rate), _dot(plot, x, rate), label, tone=f"s{index}"))
        sessions = max(rate.sessions for rate in alike)
        drawn.append(_text(center, plot.bottom + 19, fit(alike[0].key, room - 6), "label middle"))
        drawn.append(_text(center, plot.bottom + 34, fit(counted(sessions, "session"), room - 6), "middle"))
    return _svg(title, width, 226, *drawn)


def trend(title: str, rates: Sequence[Rate], *, caption: str, width: float = WIDTH) -> Markup:
    """The rates of ordered positions as a line in the band of their intervals, the first and the last with a number."""
    plot = _Plot(_LEFT, width - 4, 12, 186, ticks(rates))
    room = (plot.right - plot.left) / len(rates)
    placed = [_Point(plot.left + room * (place + 0.5), rate) for place, rate in enumerate(rates)]
    step = math.ceil((min(max(_width(one_line(rate.key)) for rate in rates), _KEY) + 8) / room)
    drawn = [_grid(plot), _runs(plot, placed, room * 1.5)]
    for place, (x, rate) in enumerate(placed):
        hit = _hit(x - room / 2, plot.top, room, plot.bottom - plot.top)
        drawn.append(_mark(describe(rate, rate.key), hit, _dot(plot, x, rate)))
        if place % step == 0:
            drawn.append(_text(x, plot.bottom + 19, fit(rate.key, _KEY), "label middle"))
    for x, rate in [*placed[:1], *placed[1:][-1:]]:
        anchor = "value" if x < width / 2 else "value end"
        over = max(plot.y(rate.high if rate.high is not None else rate.rate or 0) - 7, plot.top + 2)
        drawn.append(_text(x - 4 if x < width / 2 else x + 4, over, percent(rate.rate), anchor))
    drawn.append(_text((plot.left + plot.right) / 2, plot.bottom + 36, caption, "middle"))
    return _svg(title, width, 226, *drawn)


def bars(title: str, rates: Sequence[Rate], *, name: Callable[[str], str] = one_line, width: float = WIDTH) -> Markup:
    """A horizontal bar with its interval for each rate, and the number of calls behind it; `name` labels a key."""
    left, right = 148.0, width - 126
    marks = ticks(rates, most=3)
    bottom = 22 + _ROW * len(rates)

    def x(share: float) -> float:
        return left + min(share / marks[-1], 1.0) * (right - left)

    drawn = [_text(width - 66, 11, "rate", "end"), _text(width, 11, "calls", "end")]
    for tick in marks:
        drawn.append(element("line", class_="grid", x1=x(tick), x2=x(tick), y1=18, y2=bottom))
        drawn.append(_text(x(tick), bottom + 14, _tick(tick), "middle"))
    for place, rate in enumerate(rates):
        y = 22 + _ROW * place + _ROW / 2
        drawn.append(
            _mark(
                describe(rate, name(rate.key)),
                _hit(0, y - _ROW / 2, width, _ROW),
                _text(0, y + 4, fit(name(rate.key), left - 8), "label"),
                _bar(rate, x, y, marks[-1]),
                _text(width - 66, y + 4, percent(rate.rate), "value end"),
                _text(width, y + 4, short(rate.calls), "end"),
            )
        )
    return _svg(title, width, bottom + 20, *drawn)


def timeline(title: str, weeks: Sequence[Week], *, width: float = WIDTH) -> Markup:
    """The rate week by week on an axis of time, over bars for the calls behind it; a week without calls is a gap."""
    plot = _Plot(_LEFT, width - 4, 12, 160, ticks([week.rate for week in weeks]))
    low, floor = plot.bottom + 14, plot.bottom + 58  # between which the bars stand
    first, last = weeks[0].monday, weeks[-1].monday
    room = (plot.right - plot.left) / ((last - first).days // 7 + 1)

    def x(monday: date) -> float:
        return plot.left + room * ((monday - first).days / 7 + 0.5)

    most = max(max(week.rate.calls for week in weeks), 1)
    placed = [_Point(x(week.monday), week.rate) for week in weeks]
    drawn = [
        _grid(plot),
        element("line", class_="grid", x1=plot.left, x2=plot.right, y1=floor, y2=floor),
        _text(plot.left - 8, low + 6, short(most), "end"),
        _text(plot.left - 8, floor + 3, "calls", "end"),
        _runs(plot, placed, room * 1.5),
    ]
    for week, (at, rate) in zip(weeks, placed, strict=True):
        tall = (floor - low) * rate.calls / most
        wide = max(min(room * 0.7, 26), 1)
        bar = element("rect", class_="calls", x=at - wide / 2, y=floor - tall, width=wide, height=tall)
        told = describe(rate, f"{rate.key} (from {_day(week.monday, year=True)})")
        hit = _hit(at - room / 2, plot.top, room, floor - plot.top)
        drawn.append(_mark(told, hit, bar, _dot(plot, at, rate, size=min(4, max(room / 3, 1.6)))))
    for monday, label in _dates(first, last, int((plot.right - plot.left) / 86)):
        if x(monday) + _width(label) / 2 <= width:
            drawn.append(_text(x(monday), floor + 18, label, "label middle"))
    return _svg(title, width, floor + 26, *drawn)


def gauge(title: str, value: float, low: float | None, high: float | None, *, neutral: float, caption: str) -> Markup:
    """A number and its interval on a line whose middle is the value that means no difference, as `caption` says."""
    width, height, middle = 230.0, 30.0, 115.0
    spread = [abs(side - neutral) for side in (value, low, high) if side is not None and math.isfinite(side)]
    reach = max([*spread, 1e-9]) * 1.1

    def x(side: float) -> float:
        return middle + max(-1.0, min((side - neutral) / reach, 1.0)) * (middle - 6)

    drawn = [
        element("line", class_="grid", x1=0, x2=width, y1=9, y2=9),
        element("line", class_="zero", x1=middle, x2=middle, y1=1, y2=17),
        _text(middle, 28, caption, "middle"),
    ]
    if low is not None and high is not None:
        drawn.append(element("line", class_="range", x1=x(low), x2=x(high), y1=9, y2=9))
    hollow = low is None or high is None
    drawn.append(element("circle", class_="dot hollow" if hollow else "dot", cx=x(value), cy=9, r=4.5))
    return _svg(title, width, height, *drawn)


def stack(title: str, parts: Sequence[Part], *, width: float = WIDTH) -> Markup:
    """One bar cut into the shares of a whole."""
    total = max(sum(part.size for part in parts), 1)
    drawn: list[Markup] = []
    at = 0.0
    for part in parts:
        wide = width * part.size / total
        told = f"{one_line(part.name)}: {number(part.size)} ({percent(part.size / total)})"
        # A hairline of the page's colour keeps neighbours apart.
        shown = element("rect", class_=part.tone, x=at, y=0, width=max(wide - 1.5, 0.5), height=22)
        drawn.append(_mark(told, shown))
        at += wide
    return _svg(title, width, 22, *drawn)


def describe(rate: Rate, name: str) -> str:
    """A rate in words, with its exact numbers."""
    interval = "" if rate.low is None else f" (95 % interval {percents(rate.low, rate.high)})"
    counts = f"{counted(rate.errors, 'error')} in {counted(rate.calls, 'call')}, {counted(rate.sessions, 'session')}"
    return f"{one_line(name)}: {percent(rate.rate)}{interval}; {counts}"


def ticks(rates: Sequence[Rate], *, most: int = 5) -> list[float]:
    """Round places for an axis from 0 that holds all rates.

    An interval may run off the axis: one tool with three calls would otherwise flatten all others.
    """
    top = max((rate.rate for rate in rates if rate.rate is not None), default=0.0)
    reach = max((rate.high for rate in rates if rate.high is not None), default=0.0)
    limit = min(max(top, min(reach, top * 1.35 if top else reach)), 1.0) or 0.1
    power = 10.0 ** math.floor(math.log10(limit / most))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor * most >= limit * (1 - 1e-9))
    return [step * place for place in range(math.ceil(limit / step - 1e-9) + 1)]


def fit(text: str, room: float) -> str:
    """The text on one line, its middle cut out where it is too wide: both ends of a tool's name tell it apart."""
    line = one_line(text)
    if _width(line) <= room:
        return line
    line = cut(line, 400)
    for kept in range(min(len(line), int(room)), 1, -1):
        head = kept - kept * 2 // 5
        shown = f"{line[:head].rstrip()}…{line[len(line) - (kept - head) :].lstrip()}"
        if _width(shown) <= room:
            return shown
    return "…"


def _width(text: str) -> float:
    """About how wide a text is, rather too wide than too narrow."""
    return _FONT * sum(map(_em, text))


def _em(letter: str) -> float:
    if unicodedata.east_asian_width(letter) in "WF":
        return 1.05
    if letter in "MWmw@%…—":
        return 1.0
    if letter in " .,:;'|!()[]/fijlrt-":
        return 0.46
    return 0.8 if letter.isupper() else 0.65


def _day(day: date, *, year: bool) -> str:
    return f"{day.day} {day:%b %Y}" if year else f"{day.day} {day:%b}"


def _dates(first: date, last: date, most: int) -> Iterator[tuple[date, str]]:
    """At most `most` Mondays in even steps, with the year where it is new."""
    weeks = (last - first).days // 7 + 1
    step = math.ceil(weeks / max(most, 1))
    year = 0
    # The first label is centred on its week: half a step in, it cannot leave the chart.
    for week in range((step - 1) // 2, weeks, step):
        monday = first + timedelta(weeks=week)
        yield monday, _day(monday, year=monday.year != year)
        year = monday.year


def _tick(share: float) -> str:
    return "0" if share == 0 else f"{round(share * 100, 6):g}\N{NO-BREAK SPACE}%"


def _svg(title: str, width: float, height: float, *children: Markup) -> Markup:
    return element("svg", element("title", title), *children, role="img", viewBox=f"0 0 {width:g} {height:g}")


def _text(x: float, y: float, text: str, style: str = "") -> Markup:
    return element("text", text, x=x, y=y, class_=style or None)


def _mark(told: str, *children: Markup, tone: str = "s0") -> Markup:
    """What belongs to one number; pointing at it tells the number."""
    return element("g", element("title", told), *children, class_=f"mark {tone}")


def _hit(x: float, y: float, width: float, height: float) -> Markup:
    return element("rect", class_="hit", x=x, y=y, width=width, height=height, rx=3)


def _grid(plot: _Plot) -> Markup:
    return fragment(
        *(
            fragment(
                element("line", class_="grid", x1=plot.left, x2=plot.right, y1=plot.y(tick), y2=plot.y(tick)),
                _text(plot.left - 8, plot.y(tick) + 4, _tick(tick), "end"),
            )
            for tick in plot.ticks
        )
    )


def _height(plot: _Plot, rate: Rate) -> float:
    return plot.y(rate.rate or 0.0)


def _dot(plot: _Plot, x: float, rate: Rate, *, size: float = 4) -> Markup:
    if rate.rate is None:
        return Markup("")
    return element("circle", class_="dot hollow" if rate.low is None else "dot", cx=x, cy=_height(plot, rate), r=size)


def _whisker(plot: _Plot, x: float, rate: Rate) -> Markup:
    """The interval as a line; it ends in a stroke, or in an arrow where it goes on above the axis."""
    if rate.low is None or rate.high is None:
        return Markup("")
    low, high = plot.y(rate.low), plot.y(rate.high)
    beyond = rate.high > plot.ticks[-1] * (1 + 1e-9)
    end = f"M{x - 4:.1f},{high + 5:.1f}L{x:.1f},{high:.1f}l4,5" if beyond else f"M{x - 4:.1f},{high:.1f}h8"
    return element("path", class_="whisker", d=f"M{x - 4:.1f},{low:.1f}h8M{x:.1f},{low:.1f}V{high:.1f}{end}")


def _bar(rate: Rate, x: Callable[[float], float], y: float, top: float) -> Markup:
    if rate.rate is None:
        return Markup("")
    hollow = rate.low is None or rate.high is None
    bar = element(
        "rect", class_="bar hollow" if hollow else "bar", x=x(0), y=y - 5, width=x(rate.rate) - x(0), height=10
    )
    if rate.low is None or rate.high is None:
        return bar
    low, high = x(rate.low), x(rate.high)
    beyond = rate.high > top * (1 + 1e-9)
    end = f"M{high - 4:.1f},{y - 3.5:.1f}l4,3.5l-4,3.5" if beyond else f"M{high:.1f},{y - 3.5:.1f}v7"
    line = element("path", class_="whisker", d=f"M{low:.1f},{y - 3.5:.1f}v7M{low:.1f},{y:.1f}H{high:.1f}{end}")
    return fragment(bar, line)


def _runs(plot: _Plot, placed: Sequence[_Point], gap: float) -> Markup:
    """Lines through the points that have a rate, in the bands of their intervals, broken where a gap is too wide."""
    lines = _split([point for point in placed if point.rate.rate is not None], gap)
    known = [point for point in placed if point.rate.low is not None and point.rate.high is not None]
    drawn: list[Markup] = []
    for run in _split(known, gap):
        if len(run) == 1:
            drawn.append(_whisker(plot, *run[0]))
            continue
        upper = [f"{x:.1f},{plot.y(rate.high or 0):.1f}" for x, rate in run]
        lower = [f"{x:.1f},{plot.y(rate.low or 0):.1f}" for x, rate in reversed(run)]
        drawn.append(element("polygon", class_="band", points=" ".join(upper + lower)))
    for run in lines:
        through = " ".join(f"{x:.1f},{_height(plot, rate):.1f}" for x, rate in run)
        drawn.append(element("polyline", class_="line", points=through))
    return fragment(*drawn)


def _split(points: Sequence[_Point], gap: float) -> list[list[_Point]]:
    runs = [[point] for point in points[:1]]
    for before, point in pairwise(points):
        if point.x - before.x < gap:
            runs[-1].append(point)
        else:
            runs.append([point])
    return runs
