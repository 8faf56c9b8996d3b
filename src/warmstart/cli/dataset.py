"""`warmstart dataset`: export."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from warmstart.cli.options import Group, agent_option, json_option, project_options, scope_of, since_option
from warmstart.cli.output import Scope, counted, print_json, progress_bar, settings, warn_skip
from warmstart.errors import DatasetError
from warmstart.profile.dataset import DatasetExport, export_dataset
from warmstart.profile.profiles import profiled
from warmstart.redact.configured import configured_redactor, load_key
from warmstart.redact.redactor import PERSONAL
from warmstart.sessions.sql_store import open_store
from warmstart.sessions.store import Filter


@click.group(cls=Group, epilog="Example: warmstart dataset export markers --since 30d")
def command() -> None:
    """Export how sessions went, without their text.

    For research, or for a notebook of your own.
    """


@command.command(epilog="Example: warmstart dataset export markers --agent claude-code --since 30d")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@project_options
@agent_option
@since_option
@click.option(
    "--with-error-text",
    is_flag=True,
    help="Include unrecognized error messages, redacted, instead of their hashes.",
)
@json_option
def export(
    directory: Path,
    project: str,
    all_projects: bool,
    agent: str,
    since: datetime | None,
    with_error_text: bool,
    as_json: bool,
) -> None:
    """Export sessions and tool calls, with a data card, into DIR.

    One row per session with its metrics and one per tool call with its outcome, as JSON lines, and as Parquet if
    pyarrow is installed. No message text is included; sessions, projects, MCP servers and error messages are hashed
    with a key of your own. --with-error-text includes error messages, without secrets, personal data and names of your
    projects and users as far as they are known: read them before you publish.
    """
    current = settings()
    _refuse_home(directory, current.home)
    key = load_key(current.home / "dataset.key")
    redactor = configured_redactor(current, personal=PERSONAL)
    with open_store(current) as store, progress_bar("Profiling") as progress:
        scope = scope_of(project, all_projects, store.projects())
        chosen = Filter(agent=agent, project=scope.project, since=since)
        written = export_dataset(
            profiled(store, tools=current.profile_tools, filter=chosen, progress=progress, skip=warn_skip),
            directory,
            key=key,
            redactor=redactor,
            made=datetime.now(UTC),
            projects={path for row in store.list() for path in (row.session.project, row.session.directory)},
            error_text=with_error_text,
            skip=warn_skip,
        )
    _show(written, directory, scope, as_json)


def _refuse_home(directory: Path, home: Path) -> None:
    """Raise `DatasetError` if the directory would include the key of its hashes."""
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
