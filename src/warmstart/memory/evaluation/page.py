"""An evaluation as a page: one HTML file without script, which opens offline."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from warmstart.memory.evaluation import charts
from warmstart.memory.evaluation.labelled import SILENT
from warmstart.memory.evaluation.table import Row, latency_at, rows
from warmstart.memory.evaluation.values import BackendEvaluation, EvaluationReport, Percentiles
from warmstart.profile.page.markup import Markup, element, number, one_line
from warmstart.profile.page.style import STYLE

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE = """
svg .p0, .legend .p0 { background: var(--faint); fill: var(--faint); }
svg .p1, .legend .p1 { background: var(--solid); fill: var(--solid); }
svg .p2, .legend .p2 { background: var(--second); fill: var(--second); fill-opacity: .55; }
svg .p3, .legend .p3 { background: var(--tint); fill: var(--tint); }
.legend .p2 { opacity: .55; }
svg .interval { stroke: var(--ink); stroke-width: 1.2; stroke-opacity: .75; }
td { min-width: 7.5em; }
td.group { color: var(--soft); white-space: nowrap; }
"""
_KINDS = {
    "exact": ("In the memory's words", "Questions in words that stand in the memory."),
    "paraphrased": ("Said differently", "For half of these no word of the memory is left."),
    "paraphrased, in other words": (
        "In other words altogether",
        "The half without a word in common: whoever goes by words alone cannot find these.",
    ),
    "superseded": ("What changed", "The value of today has to come back, and the former one must not."),
    "other": ("Asked about somebody else", "Silence is right; how often something came back all the same."),
    "unanswerable": ("Known of nobody", "Silence is right; how often something came back all the same."),
}


def page(report: EvaluationReport, *, title: str = "Memory backends compared") -> str:
    """The report as an HTML document."""
    evaluations = report.evaluations
    body = element(
        "main",
        _header(report, title),
        _reading(report),
        element(
            "div",
            _score(evaluations),
            *_relevance(evaluations),
            *_latency(evaluations),
            _table(report.backends_evaluated, rows(evaluations)),
            _notes(evaluations),
            class_="columns",
        ),
        _footer(report),
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", one_line(title)),
        element("style", Markup(STYLE + _STYLE)),
    )
    return "<!doctype html>\n" + element("html", head, element("body", body), lang="en") + "\n"


def _header(report: EvaluationReport, title: str) -> Markup:
    working = [each for each in report.evaluations if each.is_working]
    away = [each for each in report.evaluations if each.is_cloud]
    measured = next((each.relevance for each in report.evaluations if each.relevance), None)
    return element(
        "header",
        element("h1", one_line(title)),
        element(
            "dl",
            _count("Backends", len(report.evaluations)),
            _count("Working", len(working), "keep and find what they are given"),
            _count(
                "Questions",
                measured.questions if measured else 0,
                f"over {number(measured.memories)} memories" if measured else "none were asked",
            ),
            _count("Away", len(away), "keep it on somebody else's machine", "accent" if away else None),
            class_="counts",
        ),
    )


def _count(name: str, count: int, note: str = "", style: str | None = None) -> Markup:
    return element(
        "div",
        element("dt", name),
        element("dd", number(count), class_=style),
        element("dd", note, class_="note") if note else "",
    )


def _reading(report: EvaluationReport) -> Markup:
    first, separator, rest = report.recommendation.partition(": ")
    return element(
        "section",
        element("h2", "The recommendation"),
        element("p", one_line(first), class_="verdict"),
        element("p", one_line(rest[:1].upper() + rest[1:])) if separator else "",
        *(element("p", element("strong", "Warning. "), one_line(warning)) for warning in report.warnings),
        class_="reading",
    )


def _score(evaluations: Sequence[BackendEvaluation]) -> Markup:
    legend = element(
        "ul",
        *(element("li", element("i", class_=f"p{place}"), name) for place, name in enumerate(charts.PARTS)),
        class_="legend",
    )
    return _section(
        "Score",
        element("figure", charts.score_bars(evaluations), legend) if evaluations else _no_data(),
        note="Recommended from 80, acceptable from 60, marginal from 40. Every point was earned by an answer that was "
        "checked. The score says little about how well memory is found: that stands beside it.",
    )


def _relevance(evaluations: Sequence[BackendEvaluation]) -> list[Markup]:
    kinds = dict.fromkeys(kind.kind for each in evaluations if each.relevance for kind in each.relevance.kinds)
    measured = [each for each in evaluations if each.relevance]
    sections = []
    for kind in kinds:
        heading, note = _KINDS.get(kind, (kind, ""))
        draw = charts.silence_bars if kind in SILENT else charts.hit_bars
        caption = "" if kind in SILENT else " First place full, first five light; the thin lines are 95 % intervals."
        sections.append(_section(heading, element("figure", draw(measured, kind)), note=note + caption))
    return sections


def _latency(evaluations: Sequence[BackendEvaluation]) -> list[Markup]:
    sections = []
    for name in ("query", "store", "retrieve"):
        measured: list[tuple[str, Percentiles | None]] = []
        for each in evaluations:
            for at in each.latency:
                found: Percentiles | None = getattr(at, name)
                if found is not None and latency_at(each, at.wanted) is at:
                    measured.append((f"{number(at.entries)} in {each.backend_name}", found))
        if measured:
            title = f"How long a {name} takes"
            drawn = charts.latency_dots(title, measured)
            sections.append(
                _section(title, element("figure", drawn), note="Milliseconds: the median, and what 95 % stay under.")
            )
    return sections


def _table(names: Sequence[str], found: Sequence[Row]) -> Markup:
    lines = []
    last = ""
    for row in found:
        lines.append(
            element(
                "tr",
                element("td", row.group if row.group != last else "", class_="group"),
                element("td", row.name),
                *(element("td", cell) for cell in row.cells),
            )
        )
        last = row.group
    head = element(
        "tr", *(element("th", one_line(name) if name else "", scope="col") for name in ("", "Measure", *names))
    )
    table = element("table", element("thead", head), element("tbody", *lines))
    return _section("All numbers", element("div", table, class_="scroll"), style="full")


def _notes(evaluations: Sequence[BackendEvaluation]) -> Markup:
    notes = [f"{each.backend_name}: {note}." for each in evaluations for note in each.notes]
    if not notes:
        return Markup("")
    return _section("Notes", *(element("p", one_line(note), class_="note") for note in notes), style="full")


def _footer(report: EvaluationReport) -> Markup:
    made = datetime.fromisoformat(report.timestamp)
    return element(
        "footer",
        element(
            "p",
            "The questions and the memories are invented and were labelled by hand. A share of thirty to sixty "
            "questions is only as certain as its interval (Wilson, 95 %): backends whose intervals overlap may be "
            "alike. Latencies are those of the machine that this was measured on.",
        ),
        element(
            "p",
            "Made ",
            element("time", f"{made:%Y-%m-%d %H:%M} {made:%Z}".rstrip(), datetime=made.isoformat(timespec="minutes")),
            " by Warmstart.",
        ),
    )


def _section(heading: str, *children: str, note: str = "", style: str | None = None) -> Markup:
    explained = element("p", note, class_="note") if note else ""
    return element("section", element("h2", heading), explained, *children, class_=style)


def _no_data() -> Markup:
    return element("p", "no data", class_="empty")
