"""`warmstart store`: copy."""

from __future__ import annotations

import os

import click

from warmstart.cli.options import Group, json_option
from warmstart.cli.output import print_json, progress_bar, settings
from warmstart.cli.terminal import counted
from warmstart.config import load_settings
from warmstart.errors import ConfigError, StoreError
from warmstart.sessions.copy import copy_store
from warmstart.sessions.sql_store import open_store
from warmstart.templates.copies import copy_templates
from warmstart.templates.store import SQLTemplateStore


@click.group(cls=Group, epilog="Example: warmstart store copy --to backup.db")
def command() -> None:
    """Copy the store to another file or server."""


@command.command(epilog="Example: warmstart store copy --to backup.db")
@click.option(
    "--to",
    "url",
    required=True,
    help="Target: a path (relative to Warmstart's home), sqlite:///path, or postgresql://…",
)
@json_option
def copy(url: str, as_json: bool) -> None:
    """Copy everything into another store, then compare the two.

    Copies sessions, outcomes, deletions, templates and sync positions; point WARMSTART_STORE at the copy to continue
    there. Run it again if it is interrupted. Other data in the target is not touched.
    """
    here, there = settings(), load_settings(os.environ, store=url)
    if here.store_name == there.store_name:
        raise ConfigError(f"{there.store_name!r} is the store to copy from; name another target")
    with open_store(here) as source, open_store(there) as target, progress_bar("Copying") as progress:
        copied = copy_store(source, target, progress=progress)
        templates = copy_templates(SQLTemplateStore(source), SQLTemplateStore(target))
    if as_json:
        print_json({**copied._asdict(), "templates": templates, "to": there.store_name})
    else:
        present = f", {copied.present} already there" if copied.present else ""
        sessions, messages = counted(copied.sessions, "session"), counted(copied.messages, "message")
        click.echo(f"{sessions} with {messages} copied to {there.store_name}{present}.")
        if templates:
            click.echo(f"{counted(templates, 'template')} copied.")
    if copied.differences:
        more = f" and {len(copied.differences) - 1} more" if len(copied.differences) > 1 else ""
        raise StoreError(f"the copy in {there.store_name!r} differs: {copied.differences[0]}{more}")
