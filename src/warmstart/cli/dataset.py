"""`warmstart dataset`: export."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from warmstart.cli.options import Group, agent_option, json_option, project_options, scope_of, since_option
from warmstart.cli.output import Scope, counted, print_json, progress_bar, settings, warn_skip
from warmstart.errors import DatasetError
from warmstart.profile.dataset import DatasetExport, export_dataset
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
@project_options
@agent_option
@since_option
@json_option
def export(
    directory: Path,
    project: str,
    all_projects: bool,
    agent: str,
    since: datetime | None,
    as_json: bool,
) -> None:
    """Export sessions and tool calls, with a data card, into DIR.

    Writes one row per session with its metrics and one per tool call with its outcome, as JSON lines and, if pyarrow is
    installed, as Parquet. No message text is included; everything that is not a public name is hashed with your own
    key: sessions, projects, error messages, and tools and models that are not well known.
    """
    current = settings()
    _refuse_home(directory, current.home)
    key = load_key(current.home / "dataset.key")
    with open_store(current) as store, progress_bar("Profiling") as progress:
        scope = scope_of(project, all_projects, store.projects())
        chosen = Filter(agent=agent, project=scope.project, since=since)
        written = export_dataset(
            profiled(store, tools=current.profile_tools, filter=chosen, progress=progress, skip=warn_skip),
            directory,
            key=key,
            made=datetime.now(UTC),
            skip=warn_skip,
        )
    _show(written, directory, scope, as_json)


def _refuse_home(directory: Path, home: Path) -> None:
    """Raise `DatasetError` if the directory would include the key that its hashes were made with."""
    place, kept = directory.resolve(), home.resolve()
    if place == kept or place in kept.parents:
        raise DatasetError(f"{str(directory)!r} contains {str(home)!r} and the key in it; choose another directory")


def _show(written: DatasetExport, directory: Path, scope: Scope, as_json: bool) -> None:
    if as_json:
        print_json({**written._asdict(), "directory": str(directory)})
    else:
        sessions, calls = counted(written.sessions, "session"), counted(written.calls, "call")
        click.echo(f"{sessions} and {calls} ({scope}) written to {directory}: {', '.join(written.files)}.")
    if not any(name.endswith(".parquet") for name in written.files):
        click.echo("No Parquet files: they need pyarrow (pip install 'warmstart[dataset]').", err=True)
