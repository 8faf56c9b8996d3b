"""Charts of an evaluation as SVG: a row a backend, data in, markup out."""

from __future__ import annotations

import math
from collections.abc import Sequence

from warmstart.memory.evaluation.intervals import Interval
from warmstart.memory.evaluation.table import kind_of, milliseconds, share
from warmstart.memory.evaluation.values import BackendEvaluation, Percentiles
from warmstart.profile.page.charts import fit
from warmstart.profile.page.markup import Markup, element

WIDTH = 400.0
_LEFT = 148.0  # room for a backend's name
_ROW = 23.0
_TONES = ("p0", "p1", "p2", "p3")
PARTS = ("availability", "functionality", "latency", "privacy")


def score_bars(evaluations: Sequence[BackendEvaluation], *, width: float = WIDTH) -> Markup:
    """The points of each backend as one bar of their parts, with lines where a verdict begins."""
    right = width - 40
    bottom = 18 + _ROW * len(evaluations)
    drawn = []
    for limit in (40, 60, 80):
        x = _x(limit / 100, right)
        drawn.append(element("line", class_="grid", x1=x, x2=x, y1=14, y2=bottom))
        drawn.append(_text(x, bottom + 14, str(limit), "middle"))
    for place, each in enumerate(evaluations):
        y = 18 + _ROW * place
        points = each.points
        parts = (points.availability, points.store + points.retrieve + points.query, points.latency, points.privacy)
        at = 0
        bars = []
        for tone, size in zip(_TONES, parts, strict=True):
            start, end = _x(at / 100, right), _x((at + size) / 100, right)
            if size:
                bars.append(element("rect", class_=tone, x=start, y=y + 4, width=end - start - 1.5, height=14))
            at += size
        named = ", ".join(f"{name} {size}" for name, size in zip(PARTS, parts, strict=True))
        drawn.append(
            _mark(
                f"{each.backend_name}: {each.score} of 100 ({named})",
                _text(0, y + 15, fit(each.backend_name, _LEFT - 8), "label"),
                *bars,
                _text(width, y + 15, str(each.score), "value end"),
            )
        )
    return _svg("Score by backend", width, bottom + 20, *drawn)


def hit_bars(evaluations: Sequence[BackendEvaluation], kind: str, *, width: float = WIDTH) -> Markup:
    """How often the right entry came first (full) and among five (light), for one kind of questions."""
    right = width - 92
    bottom = 6 + _ROW * len(evaluations)
    drawn = []
    for tick in (0.0, 0.5, 1.0):
        x = _x(tick, right)
        drawn.append(element("line", class_="grid", x1=x, x2=x, y1=2, y2=bottom))
        drawn.append(_text(x, bottom + 14, f"{tick:.0%}", "middle"))
    for place, each in enumerate(evaluations):
        y = 6 + _ROW * place
        found = kind_of(each, kind)
        name = _text(0, y + 15, fit(each.backend_name, _LEFT - 8), "label")
        if found is None or found.hit_at_1 is None or found.hit_at_5 is None:
            drawn.append(_mark(f"{each.backend_name}: not measured", name, _text(width, y + 15, "–", "end")))
            continue
        first, five = share(found.hit_at_1, found.hit_at_1_interval), share(found.hit_at_5, found.hit_at_5_interval)
        told = f"{each.backend_name}: {first} first, {five} among five"
        start = _x(0, right)
        drawn.append(
            _mark(
                f"{told}, {found.questions} questions",
                name,
                element("rect", class_="p2", x=start, y=y + 4, width=_x(found.hit_at_5, right) - start, height=14),
                element("rect", class_="p1", x=start, y=y + 4, width=_x(found.hit_at_1, right) - start, height=14),
                *_range(found.hit_at_5_interval, right, y + 8),
                *_range(found.hit_at_1_interval, right, y + 14),
                _text(width, y + 15, f"{found.hit_at_1:.0%} / {found.hit_at_5:.0%}", "value end"),
            )
        )
    return _svg(f"Found, {kind}", width, bottom + 20, *drawn)


def silence_bars(evaluations: Sequence[BackendEvaluation], kind: str, *, width: float = WIDTH) -> Markup:
    """How often something came back where silence was right."""
    right = width - 92
    bottom = 6 + _ROW * len(evaluations)
    drawn = []
    for tick in (0.0, 0.5, 1.0):
        x = _x(tick, right)
        drawn.append(element("line", class_="grid", x1=x, x2=x, y1=2, y2=bottom))
        drawn.append(_text(x, bottom + 14, f"{tick:.0%}", "middle"))
    for place, each in enumerate(evaluations):
        y = 6 + _ROW * place
        found = kind_of(each, kind)
        name = _text(0, y + 15, fit(each.backend_name, _LEFT - 8), "label")
        if found is None:
            drawn.append(_mark(f"{each.backend_name}: not measured", name, _text(width, y + 15, "–", "end")))
            continue
        start = _x(0, right)
        drawn.append(
            _mark(
                f"{each.backend_name}: something came back for {share(found.wrong, found.wrong_interval)} of "
                f"{found.questions} questions",
                name,
                element("rect", class_="bad", x=start, y=y + 4, width=_x(found.wrong, right) - start, height=14),
                *_range(found.wrong_interval, right, y + 11),
                _text(width, y + 15, f"{found.wrong:.0%}", "value end"),
            )
        )
    return _svg(f"Wrong answers, {kind}", width, bottom + 20, *drawn)


def latency_dots(title: str, measured: Sequence[tuple[str, Percentiles | None]], *, width: float = WIDTH) -> Markup:
    """The median of each as a dot and the 95th percentile as the end of its line, on a scale of powers of ten."""
    known = [found for _, found in measured if found is not None]
    low = math.floor(math.log10(max(min(found.p50 for found in known), 1e-4)))
    high = math.ceil(math.log10(max(max(found.p95 for found in known), 1e-3)))
    high = max(high, low + 1)
    right = width - 92
    bottom = 6 + _ROW * len(measured)

    def x(value: float) -> float:
        return _x((math.log10(max(value, 10.0**low)) - low) / (high - low), right)

    drawn = []
    for power in range(low, high + 1):
        drawn.append(element("line", class_="grid", x1=x(10.0**power), x2=x(10.0**power), y1=2, y2=bottom))
        if high - low < 4 or (power - low) % 2 == 0:
            drawn.append(_text(x(10.0**power), bottom + 14, f"{10.0**power:g}", "middle"))
    for place, (name, found) in enumerate(measured):
        y = 6 + _ROW * place + _ROW / 2
        label = _text(0, y + 4, fit(name, _LEFT - 8), "label")
        if found is None:
            drawn.append(_mark(f"{name}: not measured", label, _text(width, y + 4, "–", "end")))
            continue
        shown = f"{milliseconds(found.p50)} / {milliseconds(found.p95)}"
        drawn.append(
            _mark(
                f"{name}: median {milliseconds(found.p50)} ms, 95 % within {milliseconds(found.p95)} ms",
                label,
                element("line", class_="range", x1=x(found.p50), x2=x(found.p95), y1=y, y2=y),
                element("circle", class_="dot", cx=x(found.p50), cy=y, r=4.5),
                _text(width, y + 4, shown, "value end"),
            )
        )
    return _svg(title, width, bottom + 20, *drawn)


def _x(share: float, right: float) -> float:
    return _LEFT + share * (right - _LEFT)


def _range(interval: Interval | None, right: float, y: float) -> list[Markup]:
    """Where the true share lies, as a thin line over the end of its bar."""
    if interval is None:
        return []
    return [element("line", class_="interval", x1=_x(interval.low, right), x2=_x(interval.high, right), y1=y, y2=y)]


def _svg(title: str, width: float, height: float, *children: Markup) -> Markup:
    return element("svg", element("title", title), *children, role="img", viewBox=f"0 0 {width:g} {height:g}")


def _text(x: float, y: float, text: str, style: str) -> Markup:
    return element("text", text, x=x, y=y, class_=style)


def _mark(told: str, *children: Markup) -> Markup:
    return element("g", element("title", told), *children, class_="mark s0")
