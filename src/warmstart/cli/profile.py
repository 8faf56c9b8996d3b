"""`warmstart profile`: how sessions went, all together or one."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from warmstart.cli.completion import complete_sessions
from warmstart.cli.options import agent_option, html_option, json_option, project_options, scope_of, since_option
from warmstart.cli.output import (
    as_data,
    counted,
    describe_filters,
    iso,
    local,
    max_width,
    one_line,
    print_json,
    print_scope,
    progress_bar,
    seconds,
    settings,
    table,
    warn_skip,
)
from warmstart.cli.terminal import printable
from warmstart.config import Settings
from warmstart.profile.profiler import profile_of, profiled
from warmstart.profile.recoveries import describe_recovery
from warmstart.profile.values import Profile, Profiled, redact_profile
from warmstart.redact.redactor import configured_redactor
from warmstart.sessions.projects import short_names
from warmstart.sessions.sql_store import open_store
from warmstart.sessions.store import Filter
from warmstart.sessions.values import Session
from warmstart.storage.files import write_private

if TYPE_CHECKING:
    from warmstart.profile.corpus import Report
    from warmstart.profile.diagnostics import Rate

_BAR_WIDTH = 20
_EIGHTHS = " ▏▎▍▌▋▊▉"
_MAX_ROWS = 10
_MIN_TEXT = 20  # characters of text in a line, however narrow the terminal


@click.command(
    epilog="\b\nExamples:\n  warmstart profile --since 30d\n  warmstart profile 3f0c1d52\n"
    "  warmstart profile --html profile.html"
)
@click.argument("session", required=False, shell_complete=complete_sessions)
@project_options
@agent_option
@since_option
@html_option
@json_option
def command(
    session: str | None,
    project: str,
    all_projects: bool,
    agent: str,
    since: datetime | None,
    html: Path | None,
    as_json: bool,
) -> None:
    """Show how sessions went: errors, recoveries, and whether sessions learn.

    Pass a SESSION to profile only that one. Rates come with a 95 % interval over sessions.
    """
    current = settings()
    if session is not None:
        if agent or project or all_projects or since or html:
            raise click.UsageError("filters and --html apply to many sessions; leave out SESSION to use them")
        _one(current, session, as_json)
        return
    with open_store(current) as store, progress_bar("Profiling") as progress:
        scope = scope_of(project, all_projects, store.projects())
        chosen = Filter(agent=agent, project=scope.project, since=since)
        found = list(profiled(store, tools=current.profile_tools, filter=chosen, progress=progress, skip=warn_skip))
    filters = describe_filters(agent=agent, since=since)
    _many(current, found, ", ".join(filter(None, (str(scope), filters))), html, as_json)
    if not found and not as_json:
        print_scope(0, "session", scope, filters)


def _many(current: Settings, found: list[Profiled], scope: str, html: Path | None, as_json: bool) -> None:
    from warmstart.profile.corpus import summarize  # with numpy, which a single session does not need

    redactor = configured_redactor(current)
    made = summarize(found, redact=lambda text: redactor.redact(text).text)
    if html is not None:
        from warmstart.profile.page import page

        write_private(html, [page(made, made=datetime.now(UTC), scope=scope)])
        click.echo(f"Report on {counted(len(found), 'session')} written to {html}.", err=True)
    if as_json:
        print_json(as_data(made))
    elif found and html is None:
        print_report(made, scope)


def _one(current: Settings, id: str, as_json: bool) -> None:
    with open_store(current) as store:
        session = store.get(id)
        profile = profile_of(store, session, tools=current.profile_tools)
    redactor = configured_redactor(current)
    profile = redact_profile(profile, lambda text: redactor.redact(text).text)
    if as_json:
        facts = {
            "session_id": session.id,
            "agent": session.agent,
            "native_id": session.native_id,
            "title": session.title,
        }
        print_json({**facts, "started_at": iso(session.started_at), **as_data(profile)})
    else:
        print_profile(session, profile)


def print_report(report: Report, scope: str) -> None:
    """Print a corpus report: the conclusion first, then the rates, then the errors and their fixes."""
    sessions = counted(report.sessions, "session") + (f" ({scope})" if scope else "")
    rate = "" if report.rate is None else f", {_percent(report.rate)}{_interval(report.low, report.high)}"
    click.secho(
        _wrapped(
            f"{sessions}, {counted(report.calls, 'call')}, {counted(report.errors, 'error')}{rate}, "
            f"{report.rejected:,} rejected"
        ),
        bold=True,
    )
    click.echo()
    click.secho(
        f"Do sessions learn, or do the bad ones just end early? {report.diagnostics.reading.capitalize()}.", bold=True
    )
    for sentence in report.diagnostics.explanation:
        click.echo(_wrapped(sentence, "  "))
    _print_rates("Messages", report.by_length)
    _print_rates("Tool", report.by_tool)
    _print_rates("Task type", report.by_task_type)
    names = short_names(each.key for each in report.by_project)
    projects = [each._replace(key=names[each.key]) for each in report.by_project]
    for name, rates in (("Agent", report.by_agent), ("Model", report.by_model), ("Project", projects)):
        if len(rates) > 1:
            _print_rates(name, rates)
    _print_rates("Week", report.by_week[-_MAX_ROWS:])
    _print_recovery(report)
    _print_signatures(report)
    if report.instructions:
        _heading("Standing instructions that users repeated (weak evidence)")
        for text, number in report.instructions[:_MAX_ROWS]:
            click.echo(_wrapped(f"{one_line(text, 90)} ({number} sessions)", "  "))


def _print_rates(name: str, rates: Sequence[Rate]) -> None:
    shown = rates[:_MAX_ROWS]
    most = max((each.rate or 0.0 for each in shown), default=0.0)
    click.echo()
    rows = [
        (
            one_line(each.key, 40),
            each.sessions,
            f"{each.calls:,}",
            each.errors,
            _percent(each.rate),
            _range(each),
            _bar(each.rate, most),
        )
        for each in shown
    ]
    columns = (name.lower(), "sessions", "calls", "errors", "rate", "95 %", "")
    table(columns, rows, right=("sessions", "calls", "errors", "rate"), spare=("errors", "sessions"))
    if len(rates) > len(shown):
        click.echo(f"… {len(rates) - len(shown)} more; --json shows all")


def _print_recovery(report: Report) -> None:
    found = report.recovery
    if found.errors:
        _heading("Recovery")
        click.echo(
            _wrapped(
                f"{_percent(found.next_call)}{_interval(found.next_call_low, found.next_call_high)} of the errors are "
                "followed by a success at the next call of the same tool, "
                f"{_percent(found.within_three)}{_interval(found.within_three_low, found.within_three_high)} "
                "within its next three.",
                "  ",
            )
        )


def _print_signatures(report: Report) -> None:
    if report.signatures:
        click.echo()
        rows = [
            (each.count, each.sessions, each.tool, one_line(each.signature, 70), each.fix or "")
            for each in report.signatures[:_MAX_ROWS]
        ]
        table(
            ("count", "sessions", "tool", "error", "usual fix"),
            rows,
            right=("count", "sessions"),
            spare=("sessions",),
            flexible=("tool", "error", "usual fix"),
        )


def print_profile(session: Session, profile: Profile) -> None:
    """Print how one session went."""
    click.secho(one_line(session.title, max_width()) or one_line(session.native_id, max_width()), bold=True)
    outcome, found = profile.outcome, profile.markers
    facts = {
        "session": f"{session.id} ({', '.join(filter(None, (session.agent, local(session.started_at))))})",
        "task": profile.task_type,
        "outcome": outcome.value + (f": {one_line(outcome.evidence, 120)}" if outcome.evidence else ""),
        "size": f"{counted(found.messages, 'message')}, {counted(found.turns, 'turn')}, "
        f"{counted(found.calls, 'call')}, {seconds(found.seconds) or 'no times'}",
        "errors": f"{found.errors} ({_percent(found.error_rate)}; in the first 30 turns "
        f"{_percent(found.early_error_rate)}), {found.rejected} rejected, {found.unknown} unknown",
        "recovered": "no errors"
        if found.recovery_rate is None
        else _percent(found.recovery_rate) + " of the errors within three calls of the tool",
        "first ok": f"call {found.calls_to_success}" + _after(found.seconds_to_success)
        if found.calls_to_success
        else "none",
        "tools": "too few calls" if found.diversity is None else f"{found.diversity:.1f} different ones in ten calls",
        "repeats": f"{counted(found.repeated_calls, 'identical call')}, {counted(found.rereads, 'file')} reread",
        "user": f"{counted(found.corrections, 'correction')}, {counted(found.compactions, 'compaction')}",
        "tokens": f"{found.input_tokens:,} in, {found.output_tokens:,} out, {found.cached_tokens:,} cached"
        + (f", at most {found.context_share:.0%} of the context window" if found.context_share else ""),
    }
    for name, value in facts.items():
        click.echo(_wrapped(value, f"{name:>10}  "))
    _print_errors(profile)
    _print_style(profile)


def _print_errors(profile: Profile) -> None:
    if not profile.markers.errors:
        return
    recovered = {recovery.failed: recovery for recovery in profile.recoveries}
    rows = [
        (
            place + 1,
            call.tool,
            one_line(call.signature, 60),
            describe_recovery(recovered[place]) if place in recovered else "–",
        )
        for place, call in enumerate(profile.calls)
        if call.outcome == "error"
    ]
    click.echo()
    table(("call", "tool", "error", "recovered by"), rows, right=("call",), flexible=("error", "recovered by"))
    for end in profile.dead_ends:
        tool, error = one_line(end.tool, 60) or "(unknown)", one_line(end.signature, 80)
        click.echo(_wrapped(f"Dead end: {tool}: {error} ({end.times} times, never resolved)"))


def _print_style(profile: Profile) -> None:
    found = profile.style
    if not found.messages:
        return
    _heading("The user's style (weak evidence)")
    length = "" if found.length is None else f", {found.length:.0f} words each"
    direct = "" if found.directness is None else f", {found.directness:.0%} direct"
    click.echo(
        f"  {counted(found.messages, 'message')}{length}{direct}{found.language and ', language '}{found.language}"
    )
    styles = ", ".join(f"{number} {style}" for style, number in found.feedback.items() if number)
    if styles:
        click.echo(f"  feedback: {styles}")
    for instruction in found.instructions:
        click.echo(_wrapped(f"“{one_line(instruction, 110)}”", "  "))


def _wrapped(text: str, indent: str = "") -> str:
    """The text wrapped to the width of a line, with a hanging indent."""
    return textwrap.fill(
        printable(text),
        max(max_width(), len(indent) + _MIN_TEXT),
        initial_indent=indent,
        subsequent_indent=" " * len(indent),
        break_on_hyphens=False,
    )


def _heading(text: str) -> None:
    click.echo()
    click.secho(text, bold=True)


def _after(value: float | None) -> str:
    return "" if value is None else f", after {seconds(value)}"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}"


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f" ({low:.1%} to {high:.1%})"


def _range(each: Rate) -> str:
    return "" if each.low is None or each.high is None else f"{each.low:.1%}–{each.high:.1%}"


def _bar(share: float | None, most: float) -> str:
    """A bar for a share; the largest share in the table gets the full width."""
    if not share or not most:
        return ""
    eighths = round(8 * _BAR_WIDTH * share / most)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
