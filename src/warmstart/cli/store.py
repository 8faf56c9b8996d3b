"""`warmstart store`: copy."""

from __future__ import annotations

import os

import click

from warmstart.cli.output import counted, print_json, settings
from warmstart.cli.progress import progress_bar
from warmstart.config import load_settings
from warmstart.errors import ConfigError, StoreError
from warmstart.sessions.copying import Copied, copy_store
from warmstart.sessions.stores import open_store
from warmstart.templates.copies import copy_templates
from warmstart.templates.store import SQLTemplateStore


@click.group(epilog="Example: warmstart store copy --to backup.db")
def command() -> None:
    """Move the store: from a file to a server, and back."""


@command.command(epilog="Example: warmstart store copy --to backup.db")
@click.option("--to", "url", required=True, help="The other store: a path, sqlite:///path, or postgresql://…")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def copy(url: str, as_json: bool) -> None:
    """Copy everything into another store, and compare the two.

    Sessions, outcomes, deletions, templates, and where each log was left: point WARMSTART_STORE at the copy afterwards,
    and sync goes on there. If it is interrupted, run it again. What the other store has besides is left alone.
    """
    here, there = settings(), load_settings(os.environ, store=url)
    if here.store_name == there.store_name:
        raise ConfigError(f"{there.store_name!r} is the store that is to be copied; give another one")
    with open_store(here) as source, open_store(there) as target, progress_bar("Copying") as progress:
        copied = copy_store(source, target, progress=progress)
        templates = copy_templates(SQLTemplateStore(source), SQLTemplateStore(target))
    _show(copied, templates, there.store_name, as_json)
    if copied.differences:
        more = f" and {len(copied.differences) - 1} more" if len(copied.differences) > 1 else ""
        raise StoreError(f"the copy in {there.store_name!r} is not the same: {copied.differences[0]}{more}")


def _show(copied: Copied, templates: int, name: str, as_json: bool) -> None:
    if as_json:
        print_json({**copied._asdict(), "templates": templates, "to": name})
        return
    present = f", {copied.present} there already" if copied.present else ""
    click.echo(
        f"{counted(copied.sessions, 'session')} with {counted(copied.messages, 'message')} copied to {name}{present}."
    )
    if templates:
        click.echo(f"{counted(templates, 'template')} copied.")
