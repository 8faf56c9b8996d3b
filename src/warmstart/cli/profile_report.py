"""Profiles on the terminal: tables with small bars."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

import click

from warmstart.cli.output import counted, local, one_line, seconds, table
from warmstart.profile.corpus.values import Rate, Report
from warmstart.profile.recoveries import described
from warmstart.profile.values import Profile
from warmstart.sessions.values import Session

_BAR = 20
_EIGHTHS = " ▏▎▍▌▋▊▉"
_ROWS = 10
_WIDTH = 100


def print_report(report: Report, scope: str) -> None:
    """Print what a corpus says: the reading first, then the rates, then the errors and how they are fixed."""
    sessions = counted(report.sessions, "session") + (f" ({scope})" if scope else "")
    click.secho(
        f"{sessions}, {report.calls:,} calls, {report.errors:,} errors "
        f"or {_percent(report.rate)}{_interval(report.low, report.high)}, {report.rejected:,} rejected",
        bold=True,
    )
    click.echo()
    click.secho(f"Does it learn, or is it selection? {report.diagnostics.reading}", bold=True)
    for sentence in report.diagnostics.explanation:
        click.echo(textwrap.fill(sentence, _WIDTH, initial_indent="  ", subsequent_indent="  "))
    _print_rates("Messages", report.by_length)
    _print_rates("Tool", report.by_tool)
    _print_rates("Task type", report.by_task_type)
    projects = [each._replace(key="/".join(Path(each.key).parts[-2:])) for each in report.by_project]
    for name, rates in (("Agent", report.by_agent), ("Model", report.by_model), ("Project", projects)):
        if len(rates) > 1:
            _print_rates(name, rates)
    _print_rates("Week", report.by_week[-_ROWS:])
    _print_recovery(report)
    _print_signatures(report)
    if report.instructions:
        _heading("Standing instructions that came back (weak evidence)")
        for text, number in report.instructions[:_ROWS]:
            click.echo(f"  {one_line(text, 90)}  ({number} sessions)")


def _print_rates(name: str, rates: Sequence[Rate]) -> None:
    shown = rates[:_ROWS]
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
        click.echo(f"and {len(rates) - len(shown)} more; --json has them all")


def _print_recovery(report: Report) -> None:
    found = report.recovery
    if found.errors:
        _heading("Recovery")
        click.echo(
            f"  {_percent(found.next_call)}{_interval(found.next_call_low, found.next_call_high)} of the errors are "
            f"followed by a success at the next call of the same tool,\n"
            f"  {_percent(found.within_three)}{_interval(found.within_three_low, found.within_three_high)} "
            "within its next three."
        )


def _print_signatures(report: Report) -> None:
    if report.signatures:
        click.echo()
        rows = [
            (each.count, each.sessions, each.tool, one_line(each.signature, 70), each.fix or "")
            for each in report.signatures[:_ROWS]
        ]
        table(
            ("count", "sessions", "tool", "error", "usual fix"), rows, right=("count", "sessions"), spare=("sessions",)
        )


def print_profile(session: Session, profile: Profile) -> None:
    """Print how one session went."""
    click.secho(one_line(session.title, 100) or one_line(session.native_id, 100), bold=True)
    verdict, found = profile.verdict, profile.markers
    facts = {
        "session": f"{session.id} ({session.agent}, {local(session.started_at)})",
        "task": profile.task_type,
        "outcome": verdict.outcome + (f": {one_line(verdict.evidence, 120)}" if verdict.evidence else ""),
        "size": f"{found.messages} messages, {counted(found.turns, 'turn')}, {counted(found.calls, 'call')}, "
        f"{seconds(found.seconds) or 'no times'}",
        "errors": f"{found.errors} ({_percent(found.error_rate)}; in the first 30 turns "
        f"{_percent(found.early_error_rate)}), {found.rejected} rejected, {found.unknown} unknown",
        "recovered": _percent(found.recovery_rate) + " of the errors within three calls of the tool",
        "first ok": f"call {found.calls_to_success}" + _after(found.seconds_to_success)
        if found.calls_to_success
        else "none",
        "tools": "too few calls to tell"
        if found.diversity is None
        else f"{found.diversity:.1f} different among ten calls",
        "repeats": f"{found.repeated_calls} identical calls, {found.rereads} files read again",
        "user": f"{counted(found.corrections, 'correction')}, {counted(found.compactions, 'compaction')}",
        "tokens": f"{found.input_tokens:,} in, {found.output_tokens:,} out, {found.cached_tokens:,} cached"
        + (f", at most {found.context_share:.0%} of the context window" if found.context_share else ""),
    }
    for name, value in facts.items():
        click.echo(f"{name:>10}  {value}")
    _print_errors(profile)
    _print_patterns(profile)


def _print_errors(profile: Profile) -> None:
    if not profile.markers.errors:
        return
    recovered = {recovery.failed: recovery for recovery in profile.recoveries}
    rows = [
        (place + 1, call.tool, one_line(call.signature, 60), described(recovered[place]) if place in recovered else "–")
        for place, call in enumerate(profile.calls)
        if call.outcome == "error"
    ]
    click.echo()
    table(("call", "tool", "error", "recovered by"), rows, right=("call",))
    for end in profile.dead_ends:
        click.echo(f"Dead end: {end.tool}: {one_line(end.signature, 80)} ({end.times} times, never resolved)")


def _print_patterns(profile: Profile) -> None:
    found = profile.patterns
    if not found.messages:
        return
    _heading("The user's style (weak evidence)")
    length = "" if found.length is None else f", {found.length:.0f} words each"
    direct = "" if found.directness is None else f", {found.directness:.0%} direct"
    click.echo(f"  {counted(found.messages, 'message')}{length}{direct}{found.language and ', in '}{found.language}")
    styles = ", ".join(f"{number} {style}" for style, number in found.feedback.items() if number)
    if styles:
        click.echo(f"  feedback: {styles}")
    for instruction in found.instructions:
        click.echo(f"  “{one_line(instruction, 110)}”")


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
    """A bar as long as the share, measured by the largest that the table shows."""
    if not share or not most:
        return ""
    eighths = round(8 * _BAR * share / most)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
