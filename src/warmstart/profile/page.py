"""The corpus report as an HTML page: its charts, their order and their wording."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

from warmstart.profile.corpus import RecoveryRates, Report, SignatureCount
from warmstart.profile.diagnostics import Compaction, EarlyErrors, Hazard, Rate, Slope, explain_slope
from warmstart.profile.rules import load_table
from warmstart.report import charts, pages
from warmstart.report.charts import Point
from warmstart.report.format import counted, cut, fit, number, one_line, percent, percents, points, ratio, short
from warmstart.report.pages import Count, Page, Section, Table, render
from warmstart.sessions.projects import short_names

_MAX_SIGNATURES = 20
_MAX_WRITTEN_OUT = 10_000_000
_MAX_TEXT = 200
_COUNTS = ("Sessions", "Calls", "Errors")
_TONES = {"success": "good", "failure": "bad"}


def page(report: Report, *, title: str = "How did it go?", made: datetime, scope: str = "") -> str:
    """The report as an HTML document. `scope` describes which sessions it covers."""
    found, say = report.diagnostics, load_table("readings")["page"]
    projects = _project_names([rate.key for rate in report.by_project])
    by_project = [rate._replace(key=projects[rate.key]) for rate in report.by_project]
    return render(
        Page(
            title=title,
            scope=scope,
            made=made,
            counts=_counts(report),
            question="Do sessions learn, or do the bad ones just end early?",
            finding=load_table("readings")[found.reading]["finding"],
            summary=found.explanation[:1],
            sections=(
                pages.rates(
                    "Error rate by session length",
                    _points(report.by_length, "{} messages"),
                    column="Length",
                    counts=_COUNTS,
                    note=say["lengths"],
                ),
                _early(found.early_error_by_length),
                _inside(found.within_session_slope),
                _ends(found.hazard_after_error, found.around_compaction),
                pages.ranking("Tools", _points(report.by_tool), counts=_COUNTS, style="tall"),
                pages.ranking("Task types", _points(report.by_task_type), counts=_COUNTS),
                pages.ranking("Agents", _points(report.by_agent), counts=_COUNTS),
                pages.ranking("Models", _points(report.by_model), counts=_COUNTS),
                pages.ranking("Projects", _points(by_project), counts=_COUNTS),
                _recovery(report.recovery),
                _outcomes(report.outcomes),
                pages.timeline(
                    "Week by week",
                    "Error rate week by week, and the calls behind it",
                    _points(report.by_week),
                    counts=_COUNTS,
                ),
                _signatures(report.signatures),
            ),
            explanation=found.explanation[1:],
            footer=(say["footer"],),
        )
    )


def _points(rates: Sequence[Rate], name: str = "{}") -> list[Point]:
    return [
        Point(
            name.format(one_line(rate.key)),
            rate.rate,
            rate.low,
            rate.high,
            rate.calls,
            f"{counted(rate.errors, 'error')} in {counted(rate.calls, 'call')}, {counted(rate.sessions, 'session')}",
            (rate.sessions, rate.calls, rate.errors),
        )
        for rate in rates
    ]


def _counts(report: Report) -> tuple[Count, ...]:
    interval = f"95 % interval {percents(report.low, report.high)}"
    rate = "too few sessions for a rate" if report.low is None else f"{percent(report.rate)} of all calls, {interval}"
    return (
        Count("Sessions", short(report.sessions, limit=_MAX_WRITTEN_OUT)),
        Count("Calls", short(report.calls, limit=_MAX_WRITTEN_OUT)),
        Count("Errors", short(report.errors, limit=_MAX_WRITTEN_OUT), rate, "accent"),
        Count("Rejected", short(report.rejected, limit=_MAX_WRITTEN_OUT), "calls a person declined"),
    )


def _project_names(projects: Sequence[str]) -> dict[str, str]:
    """A short, unique name for each project: `cli`, or `cli (work)` if several folders are called `cli`."""
    suffixes = {project: re.split(r"[/\\]", name) for project, name in short_names(projects).items()}
    names = {key: f"{parts[-1]} ({parts[0]})" if len(parts) > 1 else parts[-1] for key, parts in suffixes.items()}
    uses = Counter(names.values())
    return {key: name if uses[name] == 1 else "/".join(suffixes[key]) for key, name in names.items()}


def _early(early: EarlyErrors) -> Section:
    first, last = "{} messages, first 10 calls", "{} messages, first 30 calls"
    between = f"95 % interval {points(early.low)} to {points(early.high)}"
    difference = f" Sessions that ended short minus the others: {points(early.estimate)} percentage points ({between})."
    return pages.rates(
        "Early errors by final length",
        _points(early.first_10 or early.first_30, "{} messages"),
        column="Length",
        counts=_COUNTS,
        note=f"The first {10 if early.first_10 else 30} calls of each session." + (difference if early.low else ""),
        numbers=_points(early.first_10, first) + _points(early.first_30, last),
    )


def _inside(slope: Slope) -> Section:
    heading, points = "Inside a session", _points(slope.by_position)
    if not pages.is_known(points):
        return Section(heading=heading)
    halves = (
        f" In sessions of at least 20 calls it is {percent(slope.first_half)} in the first half and "
        f"{percent(slope.second_half)} in the second."
    )
    return Section(
        heading=heading,
        charts=(charts.line("Error rate by tenth of the session", points, caption="tenth of the session"),),
        note=explain_slope(slope) + (halves if slope.first_half is not None else ""),
        table=pages.numbers_table("Tenth", points, _COUNTS),
    )


def _ends(hazard: Hazard, compaction: Compaction) -> Section:
    risk = Point(
        "Risk that a session ends after an error, compared with after a success",
        *(hazard.estimate, hazard.low, hazard.high),
        note=f"{percent(hazard.after_error)} after an error, {percent(hazard.after_success)} after a success; "
        f"{counted(hazard.errors, 'error')} in {counted(hazard.sessions, 'session')}.",
    )
    change = Point(
        "Change in the error rate after a compaction, in percentage points",
        *(compaction.estimate, compaction.low, compaction.high),
        note=f"{percent(compaction.before)} in the 20 calls before, {percent(compaction.after)} in the 20 after; "
        f"{counted(compaction.compactions, 'compaction')} in {counted(compaction.sessions, 'session')}.",
    )
    return Section(
        heading="After an error, after a compaction",
        tiles=(
            pages.effect(risk, ratio, neutral=1, caption="same risk", prefix="×"),
            pages.effect(change, points, neutral=0, caption="no change"),
        ),
    )


def _recovery(found: RecoveryRates) -> Section:
    if found.next_call is None:
        return Section(heading="Recovery")
    both = [
        Point("at its next call", found.next_call, found.next_call_low, found.next_call_high, found.errors),
        Point("within three calls", found.within_three, found.within_three_low, found.within_three_high, found.errors),
    ]
    return Section(
        heading="Recovery",
        charts=(charts.rates("Errors that the same tool recovered from", both, count="errors"),),
        note="The share of errors after which the same tool worked again.",
    )


def _outcomes(outcomes: Mapping[str, int]) -> Section:
    names = sorted(outcomes, key=lambda name: (list(_TONES).index(name) if name in _TONES else len(_TONES), name))
    parts = [(name, outcomes[name], _TONES.get(name, "plain")) for name in names if outcomes[name] > 0]
    return Section(
        heading="How sessions ended",
        charts=(charts.shares("Outcomes of sessions", parts),) if parts else (),
        note="Judged by the user, a reward, a commit or a test, never by the assistant's own claim." if parts else "",
    )


def _signatures(counts: Sequence[SignatureCount]) -> Section:
    ranked = sorted(counts, key=lambda count: (-count.count, count.tool, count.signature))
    rows = [
        (
            *(number(each.count), number(each.sessions), fit(each.tool, 150)),
            *(cut(each.signature, _MAX_TEXT), cut(each.fix or "", _MAX_TEXT)),
        )
        for each in ranked[:_MAX_SIGNATURES]
    ]
    columns = ("Count", "Sessions", "Tool", "Signature", "Usual fix")
    return Section(
        heading="Error signatures",
        table=Table(columns, rows, ("end", "end", "nowrap", "code", "soft")) if rows else None,
        open=True,
        note=f"{pages.more(len(ranked) - len(rows))} A signature is the error message without paths, numbers and "
        "names, so that the same mistake counts as the same.".lstrip(),
        style="full",
    )
