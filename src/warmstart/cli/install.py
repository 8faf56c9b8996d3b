"""`warmstart install` and `warmstart uninstall`."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from warmstart.cli.options import user_home, yes_option
from warmstart.cli.output import confirm, settings
from warmstart.cli.terminal import printable
from warmstart.config import COPIES, Settings
from warmstart.errors import ConfigError
from warmstart.hosts.install import (
    HOSTS,
    Installed,
    Place,
    Plan,
    host_module,
    install,
    is_present,
    plan_install,
    plan_uninstall,
    status,
    uninstall,
)
from warmstart.log import FILES
from warmstart.redact import Redactor

_DATA = ("config.toml", "redact.key", "dataset.key", "sync.json", "paused.json")
_hosts_argument = click.argument("hosts", nargs=-1, type=click.Choice(HOSTS))
_dry_run_option = click.option("--dry-run", is_flag=True, help="Show the changes without making them.")


@click.command(epilog="\b\nExamples:\n  warmstart install claude-code --dry-run\n  warmstart install --all --yes")
@_hosts_argument
@click.option("--all", "all_hosts", is_flag=True, help="All supported agents on this machine.")
@click.option("--profile", metavar="NAME", default="", help="Hermes profile. Default: the active one.")
@click.option("--own-store", is_flag=True, help="Give Hermes its own store.")
@_dry_run_option
@yes_option
def command(hosts: tuple[str, ...], all_hosts: bool, profile: str, own_store: bool, dry_run: bool, yes: bool) -> None:
    """Set up your agents, so that their next sessions start warm.

    Shows every change to an agent's files first. Run it again after moving or upgrading Warmstart.
    `warmstart uninstall` undoes everything.
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
    return [host for host in HOSTS if is_present(host, place)]


def _titles(hosts: Sequence[str], one: str = "", many: str = "") -> str:
    """The names of agents, with a verb that agrees with their number."""
    *first, last = (host_module(host).TITLE for host in hosts)
    return f"{', '.join(first)} and {last} {many}".rstrip() if first else f"{last} {one}".rstrip()


def set_up(hosts: Sequence[str], place: Place, current: Settings, *, yes: bool, dry_run: bool = False) -> None:
    """Show the changes, ask, and make them."""
    if ".cache" in Path(place.python).parts:
        advice = "`uv tool install warmstart` or `pipx install warmstart` first"
        raise ConfigError(f"{place.python!r} is temporary, and the hooks would break without it; run {advice}")
    plans: list[Plan] = []
    failed: list[str] = []
    for host in hosts:
        with _reported(host, failed):
            plans.append(plan_install(host, place, current.home))
    for plan in plans:
        if not plan.changes:
            click.echo(f"{host_module(plan.host).TITLE} is already set up.", err=True)
    if _show(plans, place, current) and not dry_run and confirm("Make these changes?", yes=yes):
        for plan in plans:
            with _reported(plan.host, failed):
                install(plan, place, current.home)
        _show_next_steps([plan.host for plan in plans if plan.changes and plan.host not in failed], place, current)
    if failed:
        sys.exit(1)


@contextmanager
def _reported(host: str, failed: list[str]) -> Iterator[None]:
    """Show an error instead of raising it: what is wrong with one agent does not stop the others."""
    try:
        yield
    except (ConfigError, OSError) as error:
        click.echo(printable(f"warmstart: {error}"), err=True)
        failed.append(host)


def _show_next_steps(hosts: Sequence[str], place: Place, current: Settings) -> None:
    """Say what changes in the agents that were set up, and what the user has to do."""
    if not hosts:
        return
    click.echo(f"Done. New sessions of {_titles(hosts)} start warm; `warmstart uninstall` undoes this.", err=True)
    for pending in filter(None, (status(host, place, current.home).pending for host in hosts)):
        click.echo(f"{pending}.", err=True)
    click.echo(
        f"{current.templates_holdout:.0%} of the sessions start without a template, as a control group. "
        f"Set templates.holdout in {current.home / 'config.toml'} to change that (0 = none).",
        err=True,
    )


def _show(plans: Sequence[Plan], place: Place, current: Settings) -> bool:
    """Print the changes as a diff without secrets, and the notes. Returns whether there are changes."""
    redactor = Redactor(patterns=current.redact_patterns, allow=current.redact_allow)
    for plan in plans:
        for change in plan.changes:
            click.echo(printable(change.diff(place.home, redactor.clean)))
        for note in plan.notes:
            click.echo(printable(f"Note: {note}"), err=True)
    return any(plan.changes for plan in plans)


@click.command(
    epilog="\b\nExamples:\n  warmstart uninstall claude-code --dry-run\n  warmstart uninstall --all --purge --yes",
)
@_hosts_argument
@click.option("--all", "all_hosts", is_flag=True, help="All agents that are set up.")
@click.option("--purge", is_flag=True, help="Also delete Warmstart's own data: the store, the log and the settings.")
@_dry_run_option
@yes_option
def uninstall_command(hosts: tuple[str, ...], all_hosts: bool, purge: bool, dry_run: bool, yes: bool) -> None:
    """Undo what `warmstart install` changed.

    A file that the agent has not rewritten since is restored byte for byte. From others, only Warmstart's entries
    are removed.
    """
    current, place = settings(), Place(user_home(), os.environ)
    if not (hosts or all_hosts or purge):
        raise click.UsageError("name an agent, or pass --all")
    plans: list[Plan] = []
    failed: list[str] = []
    for host in hosts or HOSTS:
        with _reported(host, failed):
            plans.append(plan_uninstall(host, place, current.home))
    changed = _show(plans, place, current)
    if not changed and not failed:
        click.echo(f"{_titles(hosts, 'is', 'are')} not set up." if hosts else "No agent is set up.", err=True)
    if not dry_run and (not changed or confirm("Make these changes?", yes=yes)):
        for plan in plans:  # also without changes: an interrupted command may have left something
            with _reported(plan.host, failed):
                uninstall(plan, place, current.home)
        if done := [plan.host for plan in plans if plan.changes and plan.host not in failed]:
            click.echo(f"Done. {_titles(done, 'starts', 'start')} as before.", err=True)
    if purge:
        gone = (hosts or HOSTS) if dry_run else ()
        staying = [host for host in HOSTS if host not in gone and Installed.read(current.home, host).files]
        _purge(current, staying, dry_run=dry_run, yes=yes)
    if failed:
        sys.exit(1)


def _purge(current: Settings, staying: list[str], *, dry_run: bool, yes: bool) -> None:
    """Delete our own files by name: the folder may contain others.

    The records of agents that are still set up stay, because `uninstall` needs them.
    """
    store = current.store_path
    bases = [store, store.with_name(f"{store.stem}.vectors.db")]
    paths = [base.with_name(base.name + ending) for base in bases for ending in ("", "-wal", "-shm")]
    paths += [current.home / name for name in (*FILES, *_DATA)]
    paths += sorted(current.home.glob("honcho-*.db*"))
    paths += [current.home / (COPIES if staying else "hosts")]
    paths = [path for path in paths if path.exists()]
    for path in paths:
        click.echo(printable(f"{'Would delete' if dry_run else 'To delete'}: {path}"))
    if staying:
        click.echo(f"{current.home / 'hosts'} stays until you uninstall {_titles(staying)}.", err=True)
    if current.store_url:
        click.echo(f"The store {current.store_name} stays; delete its tables there.", err=True)
    if not paths or dry_run or not confirm("Delete all this data for good?", yes=yes):
        return
    for path in paths:
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    with suppress(OSError):  # not empty
        Path(current.home).rmdir()
    click.echo("Deleted.", err=True)
