"""`warmstart dataset`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from warmstart.cli.options import Chosen, Group, json_option, session_options
from warmstart.cli.output import print_json, progress_bar, settings
from warmstart.cli.terminal import counted
from warmstart.errors import DatasetError
from warmstart.profile.dataset import export_dataset
from warmstart.profile.profiler import profiled
from warmstart.redact.redactor import load_key
from warmstart.sessions.sql_store import open_store
from warmstart.sessions.store import Filter


@click.group(cls=Group, epilog="Example: warmstart dataset export markers --since 30d")
def command() -> None:
    """Export how sessions went, without their text.

    For research or your own notebooks.
    """


@command.command(epilog="Example: warmstart dataset export markers --agent claude-code --since 30d")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@session_options
@json_option
def export(directory: Path, chosen: Chosen, as_json: bool) -> None:
    """Export sessions and tool calls, with a data card, to DIR.

    Writes one row per session with its metrics and one per tool call with its outcome, as JSON lines and, if pyarrow is
    installed, as Parquet. No message text is included; everything that is not a public name is hashed with your own
    key: sessions, projects, error messages, and tools and models that are not well known.
    """
    current = settings()
    if current.home.resolve().is_relative_to(directory.resolve()):
        home = str(current.home)
        raise DatasetError(f"{str(directory)!r} contains {home!r} and its key; choose another directory")
    key = load_key(current.home / "dataset.key")
    with open_store(current) as store, progress_bar("Profiling") as progress:
        scope = chosen.scope(store.projects())
        sessions = profiled(
            store,
            tools=current.profile_tools,
            filter=Filter(agent=chosen.agent, project=scope.project, since=chosen.since),
            progress=progress,
        )
        written = export_dataset(sessions, directory, key=key, made=datetime.now(UTC))
    if as_json:
        print_json({**written._asdict(), "directory": str(directory)})
    else:
        what = f"{counted(written.sessions, 'session')} and {counted(written.calls, 'call')}"
        click.echo(f"{what} ({scope}) written to {directory}: {', '.join(written.files)}.")
    if not any(name.endswith(".parquet") for name in written.files):
        click.echo("No Parquet files: they need pyarrow (pip install 'warmstart[dataset]').", err=True)
