"""`warmstart profile`: how sessions went, one or many."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from warmstart.app import Warmstart
from warmstart.cli.completion import complete_sessions
from warmstart.cli.options import FILE, Chosen, json_option, session_options
from warmstart.cli.output import as_data, print_facts, print_json, print_scope, progress_bar, settings, table
from warmstart.cli.terminal import counted, describe_filters, local, max_width, one_line, seconds, wrapped
from warmstart.profile.recoveries import describe_recovery
from warmstart.profile.values import Profile, redact_profile
from warmstart.sessions.projects import short_names
from warmstart.sessions.values import Session
from warmstart.storage.files import write_private

if TYPE_CHECKING:
    from warmstart.profile.corpus import Report
    from warmstart.profile.diagnostics import Rate

_BAR_WIDTH = 20
_EIGHTHS = " ▏▎▍▌▋▊▉"
_MAX_ROWS = 10


@click.command(
    epilog="\b\nExamples:\n  warmstart profile --since 30d\n  warmstart profile 3f0c1d52\n"
    "  warmstart profile --html profile.html"
)
@click.argument("session", required=False, shell_complete=complete_sessions)
@session_options
@click.option("--html", type=FILE, help="Write a page with charts to this file.")
@json_option
def command(session: str | None, chosen: Chosen, html: Path | None, as_json: bool) -> None:
    """Show how sessions went: errors, recoveries, and whether sessions learn.

    Pass a SESSION to profile only that one. Rates come with 95 % confidence intervals over sessions.
    """
    if session is not None:
        if any(chosen) or html:
            raise click.UsageError("filters and --html apply to many sessions; leave out SESSION to use them")
        _show_one(session, as_json)
        return
    with Warmstart(settings()) as ws, progress_bar("Profiling") as progress:
        scope = chosen.scope(ws.store.projects())
        report = ws.report(project=scope.project or None, agent=chosen.agent, since=chosen.since, progress=progress)
    filters = describe_filters(agent=chosen.agent, since=chosen.since)
    covered = ", ".join(filter(None, (str(scope), filters)))
    if html is not None:
        from warmstart.profile.page import page

        write_private(html, [page(report, made=datetime.now(UTC), scope=covered)])
        click.echo(f"Report on {counted(report.sessions, 'session')} written to {html}.", err=True)
    if as_json:
        print_json(report)
    elif not report.sessions:
        print_scope(0, "session", scope, filters)
    elif html is None:
        _print_report(report, covered)


def _show_one(id: str, as_json: bool) -> None:
    with Warmstart(settings()) as ws:
        session = ws.store.get(id)
        profile = redact_profile(ws.sessions.profile(session.id), ws.redactor.clean)
    if as_json:
        facts = {name: getattr(session, name) for name in ("agent", "native_id", "project", "title", "started_at")}
        print_json({"session_id": session.id, **facts, **as_data(profile)})
    else:
        _print_profile(session, profile)


def _print_report(report: Report, scope: str) -> None:
    """Print the conclusion first, then the rates, then the errors and their fixes."""
    sessions, calls = f"{counted(report.sessions, 'session')} ({scope})", counted(report.calls, "call")
    rate = "" if report.rate is None else f", {_rate(report.rate, report.low, report.high)}"
    errors = f"{counted(report.errors, 'error')}{rate}, {report.rejected:,} rejected"
    click.secho(wrapped(f"{sessions}, {calls}, {errors}"), bold=True)
    _heading(f"Do sessions learn, or do the bad ones just end early? {report.diagnostics.reading.capitalize()}.")
    for sentence in report.diagnostics.explanation:
        click.echo(wrapped(sentence, "  "))
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
            click.echo(wrapped(f"{one_line(text, 90)} ({number} sessions)", "  "))


def _print_rates(name: str, rates: Sequence[Rate]) -> None:
    shown = rates[:_MAX_ROWS]
    most = max((each.rate or 0.0 for each in shown), default=0.0)
    click.echo()
    rows = [
        (one_line(key, 40), sessions, f"{calls:,}", errors, _percent(rate), _range(low, high), _bar(rate, most))
        for key, sessions, calls, errors, rate, low, high in shown
    ]
    columns = (name.lower(), "sessions", "calls", "errors", "rate", "95 %", "")
    table(columns, rows, right=("sessions", "calls", "errors", "rate"), spare=("errors", "sessions"))
    if len(rates) > len(shown):
        click.echo(f"… {len(rates) - len(shown)} more; --json shows all")


def _print_recovery(report: Report) -> None:
    rates = report.recovery
    if rates.errors:
        _heading("Recovery")
        next_call = _rate(rates.next_call, rates.next_call_low, rates.next_call_high)
        within_three = _rate(rates.within_three, rates.within_three_low, rates.within_three_high)
        how = f"followed by a success on the next call of the same tool, {within_three} within the next three"
        click.echo(wrapped(f"{next_call} of the errors are {how}.", "  "))


def _print_signatures(report: Report) -> None:
    if report.signatures:
        click.echo()
        rows = [
            (each.count, each.sessions, each.tool, one_line(each.signature, 70), each.fix or "")
            for each in report.signatures[:_MAX_ROWS]
        ]
        columns = ("count", "sessions", "tool", "error", "usual fix")
        table(columns, rows, spare=("sessions",), flexible=columns[2:])


def _print_profile(session: Session, profile: Profile) -> None:
    """Print how one session went."""
    click.secho(one_line(session.title, max_width()) or one_line(session.native_id, max_width()), bold=True)
    outcome, markers = profile.outcome, profile.markers
    after = "" if markers.seconds_to_success is None else f", after {seconds(markers.seconds_to_success)}"
    facts = {
        "session": f"{session.id} ({', '.join(filter(None, (session.agent, local(session.started_at))))})",
        "task": profile.task_type,
        "outcome": outcome.value + (f": {one_line(outcome.evidence, 120)}" if outcome.evidence else ""),
        "size": f"{counted(markers.messages, 'message')}, {counted(markers.turns, 'turn')}, "
        f"{counted(markers.calls, 'call')}, {seconds(markers.seconds) or 'no times'}",
        "errors": f"{markers.errors} ({_percent(markers.error_rate)}; in the first 30 turns "
        f"{_percent(markers.early_error_rate)}), {markers.rejected} rejected, {markers.unknown} unknown",
        "recovered": "no errors"
        if markers.recovery_rate is None
        else _percent(markers.recovery_rate) + " of the errors, within three calls of the tool",
        "first ok": f"call {markers.calls_to_success}{after}" if markers.calls_to_success else "none",
        "tools": "too few calls" if markers.diversity is None else f"{markers.diversity:.1f} different per ten calls",
        "repeats": f"{counted(markers.repeated_calls, 'identical call')}, {counted(markers.rereads, 'file')} reread",
        "user": f"{counted(markers.corrections, 'correction')}, {counted(markers.compactions, 'compaction')}",
        "tokens": f"{markers.input_tokens:,} in, {markers.output_tokens:,} out, {markers.cached_tokens:,} cached"
        + (f", at most {markers.context_share:.0%} of the context window" if markers.context_share else ""),
    }
    print_facts(facts)
    _print_errors(profile)
    _print_style(profile)


def _print_errors(profile: Profile) -> None:
    if not profile.markers.errors:
        return
    fixes = {recovery.failed: describe_recovery(recovery) for recovery in profile.recoveries}
    rows = [
        (place + 1, call.tool, one_line(call.signature, 60), fixes.get(place, "–"))
        for place, call in enumerate(profile.calls)
        if call.outcome == "error"
    ]
    click.echo()
    table(("call", "tool", "error", "recovered by"), rows, flexible=("error", "recovered by"))
    for end in profile.dead_ends:
        tool, error = one_line(end.tool, 60) or "(unknown)", one_line(end.signature, 80)
        click.echo(wrapped(f"Dead end: {tool}: {error} ({end.times} times, never resolved)"))


def _print_style(profile: Profile) -> None:
    user = profile.style
    if not user.messages:
        return
    _heading("The user's style (weak evidence)")
    length = "" if user.length is None else f", {user.length:.0f} words each"
    direct = "" if user.directness is None else f", {user.directness:.0%} direct"
    click.echo(f"  {counted(user.messages, 'message')}{length}{direct}{user.language and ', language '}{user.language}")
    styles = ", ".join(f"{number} {style}" for style, number in user.feedback.items() if number)
    if styles:
        click.echo(f"  feedback: {styles}")
    for instruction in user.instructions:
        click.echo(wrapped(f"“{one_line(instruction, 110)}”", "  "))


def _heading(text: str) -> None:
    click.echo()
    click.secho(text, bold=True)


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}"


def _rate(share: float | None, low: float | None, high: float | None) -> str:
    """A share with its interval."""
    return _percent(share) + ("" if low is None or high is None else f" ({low:.1%} to {high:.1%})")


def _range(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{low:.1%}–{high:.1%}"


def _bar(share: float | None, most: float) -> str:
    """A bar for a share; the largest share in the table gets the full width."""
    if not share or not most:
        return ""
    eighths = round(8 * _BAR_WIDTH * share / most)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
