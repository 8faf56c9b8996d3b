"""`warmstart uninstall`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import click

from warmstart.cli.install import dry_run_option, hosts_argument, show
from warmstart.cli.options import user_home, yes_option
from warmstart.cli.output import confirm, settings
from warmstart.cli.terminal import printable
from warmstart.config import Settings
from warmstart.hosts.install import HOSTS, Installed, Place, host_module, plan_uninstall, uninstall
from warmstart.log import FILES


@click.command(
    epilog="\b\nExamples:\n  warmstart uninstall claude-code --dry-run\n  warmstart uninstall --all --purge --yes"
)
@hosts_argument
@click.option("--all", "all_hosts", is_flag=True, help="All agents that are set up.")
@click.option("--purge", is_flag=True, help="Also delete Warmstart's own data: the store, the log and the settings.")
@dry_run_option
@yes_option
def command(hosts: tuple[str, ...], all_hosts: bool, purge: bool, dry_run: bool, yes: bool) -> None:
    """Undo what `warmstart install` changed.

    A file that the agent has not rewritten since is restored byte for byte. From others, only Warmstart's entries
    are removed. HOST is claude-code or hermes.
    """
    current, place = settings(), Place(user_home(), os.environ)
    if not (hosts or all_hosts or purge):
        raise click.UsageError("name an agent, or pass --all")
    plans = [plan_uninstall(host, place, current.home) for host in hosts or HOSTS]
    changed = show(plans, place)
    if not changed:
        click.echo(f"{_titles(hosts, 'is', 'are')} not set up." if hosts else "No agent is set up.", err=True)
    if not dry_run and (not changed or confirm("Make these changes?", yes=yes)):
        for plan in plans:
            if plan.changes or Installed.read(current.home, plan.host).files:
                uninstall(plan, place, current.home)
        if changed:
            changed_hosts = [plan.host for plan in plans if plan.changes]
            click.echo(f"Done. {_titles(changed_hosts, 'starts', 'start')} as before.", err=True)
    if purge:
        gone = (hosts or HOSTS) if dry_run else ()
        staying = [host for host in HOSTS if host not in gone and Installed.read(current.home, host).files]
        _purge(current, staying, dry_run=dry_run, yes=yes)


def _titles(hosts: Sequence[str], one: str = "", many: str = "") -> str:
    """The names of agents, with a verb in the singular or plural."""
    return f"{' and '.join(host_module(host).TITLE for host in hosts)} {one if len(hosts) == 1 else many}".rstrip()


def _purge(current: Settings, staying: list[str], *, dry_run: bool, yes: bool) -> None:
    """Delete what we wrote, by name: the folder may have files of others.

    The records of agents that are still set up stay, because uninstalling needs them.
    """
    store = current.store_path
    bases = [store, store.with_name(f"{store.stem}.vectors.db")]
    paths = [base.with_name(base.name + ending) for base in bases for ending in ("", "-wal", "-shm")]
    paths += [current.home / name for name in (*FILES, "config.toml", "redact.key", "dataset.key")]
    paths += [] if staying else [current.home / "hosts"]
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
    with suppress(OSError):  # it has files of others
        Path(current.home).rmdir()
    click.echo("Deleted.", err=True)
