"""`warmstart init`."""

from __future__ import annotations

import os
from collections import Counter

import click

from warmstart.app import Warmstart
from warmstart.cli.install import found_hosts, set_up
from warmstart.cli.options import user_home, yes_option
from warmstart.cli.output import confirm, progress_bar, settings
from warmstart.cli.terminal import counted, one_line, printable, wrapped
from warmstart.errors import HandoffRefused
from warmstart.handoff.score import compare_summaries
from warmstart.hosts.install import Place
from warmstart.sessions.projects import resolve_project, short_names
from warmstart.sessions.sync import default_sources

_MAX_LINES = 3  # of commands
_VAGUE = "another command"  # a fix that teaches nothing
_MAX_COMPACTED = 5  # sessions to try; a log may start with the summary of another one


@click.command(epilog="Example: warmstart init --yes")
@yes_option
def command(yes: bool) -> None:
    """Get started: find your agents, import their sessions, and set up the agents.

    Shows what it learned from your history before it changes anything. You can decline each step or interrupt it; run
    the command again to continue where it stopped.
    """
    current, place = settings(), Place(user_home(), os.environ)
    logs = [each for each in default_sources(place.env, place.home) if os.access(each.path, os.R_OK)]
    agents = Counter(each.reader.agent for each in logs if each.reader)
    hosts = found_hosts(place)
    if not agents and not hosts:
        click.echo("No agents found. `warmstart doctor` shows where Warmstart looks for them.")
        return
    for agent in dict.fromkeys((*agents, *hosts)):
        click.echo(f"Found {agent}: {counted(agents[agent], 'log')}.")
    if agents and confirm(f"Import these sessions into {current.store_name}?", yes=yes):
        with Warmstart(current) as ws:
            new = sum(tally.sessions for tally in ws.sync(progress=progress_bar).tallies.values())
            click.echo(f"Imported {counted(new, 'session')}.")
            _show_facts(ws)
    if hosts:
        click.echo("\nSet up your agents, so that new sessions start with what was learned:")
        set_up(hosts, place, current, yes=yes)


def _show_facts(ws: Warmstart) -> None:
    """Show the most frequent mistake, the commands that work in the project, and what a compaction lost."""
    sessions = Counter(row.session.project for row in ws.sessions.list(project=None) if row.session.project)
    if not sessions:
        return
    current = resolve_project(".")
    project = current if current in sessions else sessions.most_common(1)[0][0]
    name, sections = short_names(sessions)[project], dict(ws.brief(project=project).sections)
    fixed = [each for each in ws.report(project=None).signatures if each.fix and _VAGUE not in each.fix]
    if traps := sections.get("Failed here before"):  # more useful than a mistake that agents make everywhere
        click.echo(printable(f"\nThe most frequent mistake in {name}:\n  {traps[0].text} ({traps[0].why})"))
    elif fixed:
        worst = max(fixed, key=lambda each: (each.count, each.sessions))
        click.echo(f"\nThe most frequent mistake ({counted(worst.count, 'time')}):")
        click.echo(printable(f"  {worst.tool}: {one_line(worst.signature, 90)}\n  Usual fix: {worst.fix}"))
    lines = sections.get("Commands that work here", ())
    if lines:
        click.echo(printable(f"\nCommands that work in {name}:"))
    for line in lines[:_MAX_LINES]:
        click.echo(wrapped(line.why or line.text, "  "))
    _show_compaction(ws)


def _show_compaction(ws: Warmstart) -> None:
    """Show what the latest compaction summary of an agent lost, if there is one."""
    for id_ in ws.store.compacted(_MAX_COMPACTED):
        session = ws.store.get(id_)
        try:
            compared = list(compare_summaries(session, list(ws.store.messages(id_)), redactor=ws.redactor))
        except HandoffRefused:  # its constraints are too long for a packet
            continue
        if not compared:
            continue
        kept = compared[-1].summary
        shares = {"rules (word for word)": kept.constraints, "files": kept.artifact_recall, "commands": kept.commands}
        lost = [f"{1 - share:.0%} of the {name}" for name, share in shares.items() if share is not None and share < 1]
        click.echo(f"\nWhat the last compaction lost ({session.agent}, session {id_}):")
        click.echo(f"  {', '.join(lost) or 'none of the rules, files and commands'}")
        return
