"""`warmstart install`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import click

from warmstart.cli.options import user_home, yes_option
from warmstart.cli.output import confirm, settings
from warmstart.cli.terminal import printable
from warmstart.config import Settings
from warmstart.errors import ConfigError
from warmstart.hosts.install import HOSTS, Place, Plan, host_module, install, plan_install

hosts_argument = click.argument("hosts", nargs=-1, type=click.Choice(HOSTS), metavar="[HOST]...")
dry_run_option = click.option("--dry-run", is_flag=True, help="Show the changes without making them.")


@click.command(epilog="\b\nExamples:\n  warmstart install claude-code --dry-run\n  warmstart install --all --yes")
@hosts_argument
@click.option("--all", "all_hosts", is_flag=True, help="All supported agents on this machine.")
@click.option("--profile", metavar="NAME", default="", help="Hermes profile. Default: the active one.")
@click.option("--own-store", is_flag=True, help="Keep what Hermes learns in a store of its own.")
@dry_run_option
@yes_option
def command(hosts: tuple[str, ...], all_hosts: bool, profile: str, own_store: bool, dry_run: bool, yes: bool) -> None:
    """Set up your agents, so that their next sessions start warm.

    Shows every change to an agent's files first. Run it again after moving or upgrading Warmstart. HOST is
    claude-code or hermes. `warmstart uninstall` undoes everything.
    """
    current, place = settings(), Place(user_home(), os.environ, profile=profile, own_store=own_store)
    found = found_hosts(place)
    if not hosts and not all_hosts:
        raise click.UsageError(f"name an agent, or pass --all; found here: {', '.join(found) or 'none'}")
    if not hosts and not found:
        click.echo(f"No supported agent found here. Supported: {', '.join(HOSTS)}.", err=True)
        return
    set_up(hosts or found, place, current, yes=yes, dry_run=dry_run)


def found_hosts(place: Place) -> list[str]:
    """The supported agents on this machine."""
    return [host for host in HOSTS if host_module(host).is_present(place)]


def set_up(hosts: Sequence[str], place: Place, current: Settings, *, yes: bool, dry_run: bool = False) -> None:
    """Show the changes, ask, and make them."""
    if ".cache" in Path(place.python).parts:
        advice = "`uv tool install warmstart` or `pipx install warmstart` first"
        raise ConfigError(f"{place.python!r} is temporary, and the hooks would stop working without it; run {advice}")
    plans = [plan_install(host, place, current.home) for host in hosts]
    for plan in plans:
        if not plan.changes:
            click.echo(f"{host_module(plan.host).TITLE} is already set up.", err=True)
    if not show(plans, place) or dry_run or not confirm("Make these changes?", yes=yes):
        return
    for plan in plans:
        install(plan, place, current.home)
    titles = " and ".join(host_module(plan.host).TITLE for plan in plans if plan.changes)
    click.echo(f"Done. New sessions of {titles} start warm; `warmstart uninstall` undoes this.", err=True)
    if not place.mcp:
        click.echo("The MCP server was not installed: it needs `pip install 'warmstart[mcp]'`.", err=True)
    click.echo(
        f"{current.templates_holdout:.0%} of the sessions start without a template, to measure what templates change. "
        f"Set templates.holdout in {current.home / 'config.toml'} to change that (0 = none).",
        err=True,
    )


def show(plans: Sequence[Plan], place: Place) -> bool:
    """Print the changes as a diff, and the notes. Returns whether there are changes."""
    for plan in plans:
        for change in plan.changes:
            click.echo(printable(change.diff(place.home)))
        for note in plan.notes:
            click.echo(printable(f"Note: {note}"), err=True)
    return any(plan.changes for plan in plans)
