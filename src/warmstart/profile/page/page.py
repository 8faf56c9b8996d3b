"""A corpus report as one HTML page: opens offline, prints, and can be passed on.

The page holds no script and refers to nothing outside itself, and its policy forbids both. What comes from sessions is
text of others and reaches the page through `markup.element` only. Projects go by their last name: a path says more
about a machine than a reader of the page has to know.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta

from warmstart.profile.corpus.explaining import slope_in_words
from warmstart.profile.corpus.values import (
    Compaction,
    EarlyErrors,
    Hazard,
    Rate,
    RecoveryRates,
    Report,
    SignatureCount,
    Slope,
)
from warmstart.profile.page import charts
from warmstart.profile.page.markup import (
    NONE,
    Markup,
    counted,
    cut,
    element,
    fragment,
    number,
    one_line,
    percent,
    percents,
    points,
    ratio,
    short,
)
from warmstart.profile.page.style import STYLE

_MOST = 12  # rows of a chart
_SIGNATURES = 20
_WEEKS = 104
_LETTERS = 200  # of a signature
_TOOL = 150.0  # the width of a tool's name beside its signature
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_TONES = {"success": "good", "failure": "bad"}


def page(report: Report, *, title: str = "How did it go?", made: datetime, scope: str = "") -> str:
    """The report as an HTML document. `scope` says in words which sessions it is about."""
    body = element(
        "main",
        _header(report, title, scope),
        _reading(report),
        element(
            "div",
            _lengths(report.by_length),
            _inside(report.diagnostics.within_session_slope),
            _early(report.diagnostics.early_error_by_length),
            _ends(report.diagnostics.hazard_after_error, report.diagnostics.around_compaction),
            _ranking("Tools", report.by_tool, "tall"),
            _ranking("Task types", report.by_task_type),
            _ranking("Agents", report.by_agent),
            _ranking("Models", report.by_model),
            _ranking("Projects", report.by_project, name=_last_name),
            _signatures(report.signatures),
            _weeks(report.by_week),
            _recovery(report.recovery),
            _outcomes(report.outcomes),
            class_="columns",
        ),
        _footer(made),
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", one_line(title)),
        element("style", Markup(STYLE)),
    )
    return "<!doctype html>\n" + element("html", head, element("body", body), lang="en") + "\n"


def _header(report: Report, title: str, scope: str) -> Markup:
    interval = "" if report.low is None else f", 95 % interval {percents(report.low, report.high)}"
    return element(
        "header",
        element("h1", one_line(title)),
        element("p", one_line(scope), class_="scope") if scope.strip() else "",
        element(
            "dl",
            _count("Sessions", report.sessions),
            _count("Calls", report.calls),
            _count("Errors", report.errors, f"{percent(report.rate)} of all calls{interval}", "accent"),
            _count("Rejected", report.rejected, "calls a person said no to"),
            class_="counts",
        ),
    )


def _count(name: str, count: int, note: str = "", style: str | None = None) -> Markup:
    return element(
        "div",
        element("dt", name),
        element("dd", short(count, limit=10_000_000), class_=style),
        element("dd", note, class_="note") if note else "",
    )


def _reading(report: Report) -> Markup:
    found = report.diagnostics
    return element(
        "section",
        element("h2", "The reading"),
        element("p", found.reading.capitalize(), class_="verdict"),
        *(element("p", sentence) for sentence in found.explanation),
        class_="reading",
    )


def _lengths(rates: Sequence[Rate]) -> Markup:
    name = "Error rate by length of session"
    return _section(
        name,
        _figure(
            rates,
            lambda: charts.dots(f"{name}, with 95 % intervals", [charts.Series("", rates)]),
            "Calls",
            note="Sessions by their number of messages. These bins alone cannot tell learning from selection: a long "
            "session may have fewer errors because the agent learned, or because sessions that went badly ended early.",
        ),
    )


def _inside(slope: Slope) -> Markup:
    rates = slope.by_position
    return _section(
        "Inside a session",
        _figure(
            rates,
            lambda: charts.trend("Error rate by tenth of the session", rates, caption="tenth of the session"),
            "Tenth",
            note=_slope_in_words(slope),
        ),
    )


def _slope_in_words(slope: Slope) -> str:
    halves = (
        f" In sessions of at least 20 calls it is {percent(slope.first_half)} in the first half and "
        f"{percent(slope.second_half)} in the second."
        if slope.first_half is not None
        else ""
    )
    return slope_in_words(slope) + halves


def _early(early: EarlyErrors) -> Markup:
    series = [charts.Series("first 10 calls", early.first_10), charts.Series("first 30 calls", early.first_30)]
    paired = [rate.key for rate in early.first_10] == [rate.key for rate in early.first_30]
    named = [rate._replace(key=f"{rate.key}, {one.name}") for one in series for rate in one.rates]
    difference = (
        f"Sessions that ended short minus the others, over the first ten calls: {points(early.estimate)} percentage "
        f"points ({_between(early.low, early.high, points)})."
    )
    name = "Early errors by eventual length"
    return _section(
        name,
        _legend([("s0", "first 10 calls", ""), ("s1", "first 30 calls", "")]) if _known(named) else "",
        _figure(
            named,
            lambda: charts.dots(name, series if paired else [one for one in series if one.rates][:1]),
            "Calls in all",
            note="" if early.estimate is None else difference,
        ),
    )


def _ends(hazard: Hazard, compaction: Compaction) -> Markup:
    return _section(
        "After an error, after a compaction",
        element(
            "div",
            _tile(
                "Risk that a session ends after an error, compared with after a success",
                ("×" if hazard.estimate is not None else "") + ratio(hazard.estimate),
                _between(hazard.low, hazard.high, ratio),
                f"{percent(hazard.after_error)} after an error, {percent(hazard.after_success)} after a success; "
                f"{counted(hazard.errors, 'error')} in {counted(hazard.sessions, 'session')}.",
                _gauge("Risk after an error", hazard, ratio, neutral=1, caption="same risk"),
            ),
            _tile(
                "Change of the error rate after a compaction, in percentage points",
                points(compaction.estimate),
                _between(compaction.low, compaction.high, points),
                f"{percent(compaction.before)} in the 20 calls before, {percent(compaction.after)} in the 20 after; "
                f"{counted(compaction.compactions, 'compaction')} in {counted(compaction.sessions, 'session')}.",
                _gauge("Change at a compaction", compaction, points, neutral=0, caption="no change"),
            ),
            class_="tiles stacked",
        ),
    )


def _gauge(
    name: str, found: Hazard | Compaction, show: Callable[[float | None], str], *, neutral: float, caption: str
) -> str:
    if found.estimate is None:
        return ""
    told = f"{name}: {show(found.estimate)}, {_between(found.low, found.high, show)}"
    return charts.gauge(told, found.estimate, found.low, found.high, neutral=neutral, caption=caption)


def _between(low: float | None, high: float | None, show: Callable[[float | None], str]) -> str:
    return "no interval" if low is None or high is None else f"95 % interval {show(low)} to {show(high)}"


def _ranking(
    heading: str, rates: Sequence[Rate], style: str | None = None, *, name: Callable[[str], str] = one_line
) -> Markup:
    """The most used first; the rest is counted."""
    ranked = sorted(rates, key=lambda rate: (-rate.calls, rate.key))
    shown = ranked[:_MOST]
    return _section(
        heading,
        _figure(
            shown,
            lambda: charts.bars(f"Error rate by {heading.lower()[:-1]}", shown, name=name),
            heading[:-1],
            note=_more(len(ranked) - len(shown)),
            name=name,
        ),
        style=style,
    )


def _last_name(project: str) -> str:
    return one_line(re.split(r"[/\\]", project.rstrip("/\\ "))[-1])


def _signatures(counts: Sequence[SignatureCount]) -> Markup:
    ranked = sorted(counts, key=lambda count: (-count.count, count.tool, count.signature))
    rows = [
        element(
            "tr",
            element("td", number(count.count), class_="end"),
            element("td", number(count.sessions), class_="end"),
            element("td", charts.fit(count.tool, _TOOL), title=cut(count.tool, _LETTERS), class_="tool"),
            element("td", element("code", cut(count.signature, _LETTERS))),
            element("td", cut(count.fix or "", _LETTERS), class_="fix"),
        )
        for count in ranked[:_SIGNATURES]
    ]
    return _section(
        "Error signatures",
        _table(("Count", "Sessions", "Tool", "Signature", "Usual fix"), rows, ends=2) if rows else _no_data(),
        element("p", _more(len(ranked) - len(rows)), class_="note"),
        note="The same mistake counts as the same: paths, numbers and names are taken out of the error's text.",
        style="full",
    )


def _weeks(rates: Sequence[Rate]) -> Markup:
    dated = [charts.Week(monday, rate) for rate in rates if (monday := _monday(rate.key))]
    dated.sort(key=lambda week: week.monday)
    since = dated[-1].monday - timedelta(weeks=_WEEKS - 1) if dated else date.min
    shown = [week for week in dated if week.monday >= since]

    def both() -> Markup:
        # One chart cannot have readable text both on a phone and over the whole page: the page shows one of two.
        told = "Error rate week by week, and the calls behind it"
        return fragment(
            element("div", charts.timeline(told, shown, width=860), class_="wide"),
            element("div", charts.timeline(told, shown), class_="narrow"),
        )

    return _section(
        "Week by week",
        _figure([week.rate for week in shown], both, "Week", note=_more(len(rates) - len(shown))),
        style="full",
    )


def _monday(week: str) -> date | None:
    """The first day of an ISO week such as `2026-W03`."""
    found = re.fullmatch(r"(\d{4})-?W(\d{1,2})", week)
    if found is None:
        return None
    try:
        return date.fromisocalendar(int(found[1]), int(found[2]), 1)
    except ValueError:
        return None


def _recovery(recovery: RecoveryRates) -> Markup:
    return _section(
        "Recovery",
        element(
            "div",
            _tile(
                "At its next call",
                percent(recovery.next_call),
                _between_percents(recovery.next_call_low, recovery.next_call_high),
            ),
            _tile(
                "Within its next three",
                percent(recovery.within_three),
                _between_percents(recovery.within_three_low, recovery.within_three_high),
            ),
            class_="tiles",
        ),
        note=f"How many errors the same tool recovered from; {counted(recovery.errors, 'error')} in all.",
    )


def _between_percents(low: float | None, high: float | None) -> str:
    return "no interval" if low is None or high is None else f"95 % interval {percents(low, high)}"


def _outcomes(outcomes: Mapping[str, int]) -> Markup:
    order = ("success", "failure")
    names = [*(name for name in order if name in outcomes), *sorted(set(outcomes) - set(order))]
    parts = [charts.Part(name, outcomes[name], _TONES.get(name, "plain")) for name in names if outcomes[name] > 0]
    total = sum(part.size for part in parts)
    return _section(
        "How sessions ended",
        *(
            (
                charts.stack("Outcomes of sessions", parts),
                _legend(
                    [(part.tone, part.name, f"{number(part.size)} · {percent(part.size / total)}") for part in parts]
                ),
            )
            if parts
            else (_no_data(),)
        ),
        note="As far as something other than the assistant says so: the user, a reward, a commit, a test.",
    )


def _footer(made: datetime) -> Markup:
    return element(
        "footer",
        element(
            "p",
            "A rate is the share of errors among all calls; a call that a person rejected is not an error. Intervals "
            "are 95 % cluster-bootstrap intervals over sessions. A hollow mark has no interval: it comes from fewer "
            "than two sessions. An arrow marks an interval that goes on beyond the axis.",
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


def _figure(
    rates: Sequence[Rate],
    chart: Callable[[], Markup],
    column: str,
    *,
    note: str = "",
    name: Callable[[str], str] = one_line,
) -> Markup:
    """A chart over its numbers, where there are any; `column` heads what the rates are of."""
    if not _known(rates):
        return _no_data()
    rows = [
        element(
            "tr",
            element("td", cut(name(rate.key), 80)),
            *(element("td", number(count), class_="end") for count in (rate.sessions, rate.calls, rate.errors)),
            element("td", percent(rate.rate), class_="end"),
            element("td", percents(rate.low, rate.high), class_="end"),
        )
        for rate in rates
    ]
    numbers = _table((column, "Sessions", "Calls", "Errors", "Rate", "95 % interval"), rows, starts=1)
    caption = element("figcaption", note, class_="note") if note else ""
    return element("figure", chart(), caption, element("details", element("summary", "Numbers"), numbers))


def _table(columns: Sequence[str], rows: Sequence[Markup], *, starts: int = 0, ends: int = 99) -> Markup:
    """A table; the columns from `starts` to before `ends` hold numbers."""
    names = (
        element("th", column, scope="col", class_="end" if starts <= place < ends else None)
        for place, column in enumerate(columns)
    )
    table = element("table", element("thead", element("tr", *names)), element("tbody", *rows))
    return element("div", table, class_="scroll")


def _tile(name: str, value: str, interval: str, note: str = "", drawing: str = "") -> Markup:
    unknown = value == NONE
    return element(
        "div",
        element("p", name, class_="name"),
        element("p", value, class_="number"),
        drawing,
        element("p", "no data" if unknown else interval, class_="note"),
        element("p", note, class_="note") if note and not unknown else "",
        class_="tile",
    )


def _legend(entries: Sequence[tuple[str, str, str]]) -> Markup:
    return element(
        "ul",
        *(
            element("li", element("i", class_=tone), one_line(name), element("b", value) if value else "")
            for tone, name, value in entries
        ),
        class_="legend",
    )


def _known(rates: Sequence[Rate]) -> bool:
    return any(rate.rate is not None for rate in rates)


def _no_data() -> Markup:
    return element("p", "no data", class_="empty")


def _more(count: int) -> str:
    return f"and {number(count)} more" if count > 0 else ""
