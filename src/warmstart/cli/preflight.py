"""`warmstart preflight`: what an agent would be shown for a message, and what agents were shown."""

from __future__ import annotations

import click

from warmstart.app import Warmstart
from warmstart.cli.options import DefaultGroup, json_option, project_option, project_options, scope_of
from warmstart.cli.output import counted, print_json, settings
from warmstart.cli.terminal import printable
from warmstart.preflight.report import Mean
from warmstart.sessions.values import clean


class _Messages(DefaultGroup):
    default = "show"


@click.group(
    cls=_Messages,
    epilog='\b\nExamples:\n  warmstart preflight "how did we fix the flaky test last time"\n'
    "  warmstart preflight report",
)
def command() -> None:
    """Show what an agent would see from earlier sessions for a message.

    `warmstart preflight "MESSAGE"` is short for `warmstart preflight show "MESSAGE"`. Nothing is recorded.
    """


@command.command(epilog='Example: warmstart preflight "add a storm table" --explain')
@click.argument("message", nargs=-1, required=True)
@project_option
@click.option("--later", is_flag=True, help="Treat it as a later message of a session, not the first.")
@click.option("--explain", is_flag=True, help="Also say why, how long it took, and which turns it is from.")
@json_option
def show(message: tuple[str, ...], project: str, later: bool, explain: bool, as_json: bool) -> None:
    """Print what would be added to the request for this message, if anything."""
    with Warmstart(settings()) as ws:
        overlay = ws.preflight(" ".join(message), project=project, first=not later)
    if as_json:
        print_json(
            {
                "text": overlay.text,
                "reason": overlay.reason,
                "evidence": list(overlay.evidence),
                "tokens": overlay.tokens,
                "milliseconds": overlay.milliseconds,
            }
        )
        return
    if overlay.text:
        click.echo(printable(overlay.text))
    if explain or not overlay.text:
        click.echo(f"{overlay.reason}; {overlay.milliseconds:.1f} ms, {counted(overlay.tokens, 'token')}", err=True)
    if explain and overlay.evidence:
        click.echo("from " + ", ".join(overlay.evidence), err=True)


@command.command(epilog="Example: warmstart preflight report --all-projects --json")
@project_options
@json_option
def report(project: str, all_projects: bool, as_json: bool) -> None:
    """Show how often agents were shown something, what it cost, and whether they used it.

    Turns with and without an overlay differ in more than the overlay, so the difference is not its effect.
    """
    from warmstart.preflight.index import migrate
    from warmstart.preflight.report import report as make_report

    with Warmstart(settings()) as ws:
        migrate(ws.store)
        scope = scope_of(project, all_projects, ws.store.projects())
        found = make_report(ws.store, project=clean(scope.project))
    if as_json:
        print_json(found)
        return
    if not found.turns:
        click.echo("Nothing recorded yet; `warmstart install` sets up your agents.", err=True)
        return
    click.echo(f"{counted(found.turns, 'message')}, {found.injected} of them with an overlay ({found.tokens:,} tokens)")
    for reason, times in found.reasons.items():
        click.echo(f"  {times:>6,}  {reason}")
    click.echo(f"Tool calls per turn: {_mean(found.calls_with)} with an overlay, {_mean(found.calls_without)} without")
    if found.used_of and found.used_interval:
        low, high = found.used_interval
        click.echo(
            f"Used what it was shown: {found.used} of {counted(found.used_of, 'turn')} ({low:.0%} to {high:.0%}, 95 %)"
        )
    click.echo(
        f"Reads and searches repeated within a session: {found.repeated_calls:,} calls, "
        f"{found.repeated_tokens:,} tokens in {counted(found.sessions, 'session')}"
    )
    click.echo(f"Time: p50 {found.p50_ms:.1f} ms, p95 {found.p95_ms:.1f} ms")


def _mean(mean: Mean) -> str:
    return "unknown" if mean.value is None else f"{mean.value:.1f} ({counted(mean.turns, 'turn')})"
