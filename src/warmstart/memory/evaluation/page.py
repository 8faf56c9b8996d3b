"""An evaluation as a page: one HTML file without script, which opens offline."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from warmstart.memory.evaluation import charts
from warmstart.memory.evaluation.labelled import SILENT
from warmstart.memory.evaluation.table import latency_at, rows
from warmstart.memory.evaluation.values import BackendEvaluation, EvaluationReport, Percentiles
from warmstart.report.format import number
from warmstart.report.pages import Count, Page, Section, Table, render

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


_FOOTER = (
    "The questions and the memories are invented and were labelled by hand. A share of thirty to sixty questions is "
    "only as certain as its interval (Wilson, 95 %): backends whose intervals overlap may be equally good. Latencies "
    "are those of the machine that ran the evaluation."
)


def page(report: EvaluationReport, *, title: str = "Memory backends compared") -> str:
    """The report as an HTML document."""
    evaluations = report.evaluations
    finding, _, reason = report.recommendation.partition(": ")
    warnings = (f"Warning: {warning}" for warning in report.warnings)
    return render(
        Page(
            title=title,
            made=datetime.fromisoformat(report.timestamp),
            counts=_counts(report),
            question="The recommendation",
            finding=finding,
            summary=(*filter(None, (reason[:1].upper() + reason[1:],)), *warnings),
            sections=(
                _score(evaluations),
                *_relevance(evaluations),
                *_latency(evaluations),
                _all_numbers(report),
                *_notes(evaluations),
            ),
            footer=(_FOOTER,),
        )
    )


def _counts(report: EvaluationReport) -> tuple[Count, ...]:
    working = sum(each.is_working for each in report.evaluations)
    cloud = sum(each.is_cloud for each in report.evaluations)
    measured = next((each.relevance for each in report.evaluations if each.relevance), None)
    return (
        Count("Backends", number(len(report.evaluations))),
        Count("Working", number(working), "keep and find what they are given"),
        Count(
            "Questions",
            number(measured.questions if measured else 0),
            f"over {number(measured.memories)} memories" if measured else "none were asked",
        ),
        Count("Cloud", number(cloud), "keep it on somebody else's machine", "accent" if cloud else ""),
    )


def _score(evaluations: Sequence[BackendEvaluation]) -> Section:
    return Section(
        heading="Score",
        charts=(charts.score_bars(evaluations),) if evaluations else (),
        note=f"From left to right: {', '.join(charts.PARTS)}. Recommended from 80, acceptable from 60, marginal from "
        "40. Every point was earned by an answer that was checked. The score says little about how well memories are "
        "found: the other charts show that.",
    )


def _relevance(evaluations: Sequence[BackendEvaluation]) -> list[Section]:
    kinds = dict.fromkeys(kind.kind for each in evaluations if each.relevance for kind in each.relevance.kinds)
    measured = [each for each in evaluations if each.relevance]
    sections = []
    for kind in kinds:
        heading, note = _KINDS.get(kind, (kind, ""))
        draw = charts.silence_bars if kind in SILENT else charts.hit_bars
        caption = "" if kind in SILENT else " First place dark, first five light; the thin lines are 95 % intervals."
        sections.append(Section(heading=heading, charts=(draw(measured, kind),), note=note + caption))
    return sections


def _latency(evaluations: Sequence[BackendEvaluation]) -> list[Section]:
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
            note = "Milliseconds: the median, and the time that 95 % stay under."
            sections.append(Section(heading=title, charts=(charts.latency_dots(title, measured),), note=note))
    return sections


def _all_numbers(report: EvaluationReport) -> Section:
    lines = []
    last = ""
    for row in rows(report.evaluations):
        lines.append((row.group if row.group != last else "", row.name, *row.cells))
        last = row.group
    table = Table(("", "Measure", *report.backends_evaluated), lines)
    return Section(heading="All numbers", table=table, open=True, style="full")


def _notes(evaluations: Sequence[BackendEvaluation]) -> list[Section]:
    notes = [f"{each.backend_name}: {note}." for each in evaluations for note in each.notes]
    return [Section(heading="Notes", table=Table((), [(note,) for note in notes]), open=True, style="full")] * bool(
        notes
    )
