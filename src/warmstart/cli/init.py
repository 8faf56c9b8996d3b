"""`warmstart init`."""

from __future__ import annotations

import os
from collections import Counter

import click

from warmstart.app import Warmstart
from warmstart.cli.install import found_hosts, set_up
from warmstart.cli.options import user_home, yes_option
from warmstart.cli.output import confirm, counted, one_line, progress_bar, settings, warn_skip
from warmstart.cli.terminal import printable
from warmstart.errors import HandoffRefused
from warmstart.handoff.score import compare_summaries
from warmstart.hosts.handoff import find_compacted
from warmstart.hosts.install import Place
from warmstart.sessions.projects import resolve_project, short_names
from warmstart.sessions.readers.base import Reader
from warmstart.sessions.readers.registry import readers

_MAX_LINES = 3  # of commands
_MAX_COMPACTED = 5  # sessions; a log may begin with the summary of another one


@click.command(epilog="Example: warmstart init --yes")
@yes_option
def command(yes: bool) -> None:
    """Get started: find your agents, import their sessions, and set the agents up.

    Shows what your own history teaches before it changes anything. You can decline each step, interrupt it, and run
    the command again: it continues where it stopped.
    """
    current, place = settings(), Place(user_home(), os.environ)
    agents = {reader.agent: logs for reader in readers().values() if (logs := _count_logs(reader, place))}
    hosts = found_hosts(place)
    if not agents and not hosts:
        click.echo("No agents found. `warmstart doctor` shows where Warmstart looks for them.")
        return
    for agent in dict.fromkeys((*agents, *hosts)):
        click.echo(f"Found {agent}: {counted(agents.get(agent, 0), 'log')}.")
    if agents and confirm(f"Import these sessions into {current.store_name}?", yes=yes):
        with Warmstart(current) as ws:
            with progress_bar("Reading", in_bytes=True) as progress:
                report = ws.import_logs(progress=progress)
            ws.update(progress=progress_bar, skip=warn_skip, warn=lambda text: click.echo(printable(text), err=True))
            new = sum(tally.sessions for tally in report.tallies.values())
            click.echo(f"Imported {counted(new, 'session')}.")
            _show_facts(ws)
    if hosts:
        click.echo("\nSet up your agents, so that new sessions start with this:")
        set_up(hosts, place, current, yes=yes)


def _count_logs(reader: Reader, place: Place) -> int:
    """How many logs an agent has on this machine."""
    try:
        return sum(1 for root in reader.roots(place.env, place.home) if root.exists() for _ in reader.find(root))
    except OSError:
        return 0  # `warmstart doctor` explains


def _show_facts(ws: Warmstart) -> None:
    """Show the mistake that recurs most, the commands that work in the project, and what a compaction lost."""
    sessions = Counter(row.session.project for row in ws.sessions.list(project=None) if row.session.project)
    if not sessions:
        return
    current = resolve_project(".")
    project = current if current in sessions else sessions.most_common(1)[0][0]
    name, sections = short_names(sessions)[project], dict(ws.brief(project=project).sections)
    fixed = [each for each in ws.report(project=None).signatures if each.fix]
    if traps := sections.get("Failed here before"):  # says more than a mistake that agents make everywhere
        click.echo(printable(f"\nThe mistake that recurs most in {name}:\n  {traps[0].text} ({traps[0].why})"))
    elif fixed:
        worst = max(fixed, key=lambda each: (each.count, each.sessions))
        click.echo(f"\nThe mistake that recurs most ({counted(worst.count, 'time')}):")
        click.echo(printable(f"  {worst.tool}: {one_line(worst.signature, 90)}\n  What helped: {worst.fix}"))
    lines = sections.get("Commands that work here", ())
    if lines:
        click.echo(printable(f"\nCommands that work in {name}:"))
    for line in lines[:_MAX_LINES]:
        click.echo(printable(f"  {line.why or line.text}"))
    _show_compaction(ws)


def _show_compaction(ws: Warmstart) -> None:
    """Show what the summary that an agent wrote last has lost; nothing if no agent wrote one."""
    for found in find_compacted(ws.store, _MAX_COMPACTED):
        session = ws.store.get(found)
        try:
            compared = list(compare_summaries(session, list(ws.store.messages(found)), redactor=ws.redactor))
        except HandoffRefused:  # its constraints are too long for a packet
            continue
        if compared:
            kept = compared[-1].summary
            shares = {
                "rules, word for word": kept.constraints,
                "files": kept.artifact_recall,
                "commands": kept.commands,
            }
            lost = [
                f"{1 - share:.0%} of the {name}" for name, share in shares.items() if share is not None and share < 1
            ]
            click.echo(f"\nWhat the last compaction lost ({session.agent}, session {found}):")
            click.echo(f"  {', '.join(lost) or 'none of the rules, files and commands'}")
            return
