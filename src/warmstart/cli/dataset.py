"""`warmstart dataset`: export."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from warmstart.cli.output import counted, print_json, settings
from warmstart.cli.progress import progress_bar
from warmstart.cli.selection import Since, stored_project
from warmstart.errors import DatasetError
from warmstart.profile.dataset.export import DatasetExport, export_dataset
from warmstart.profile.profiles import profiled
from warmstart.redact.configured import configured_redactor
from warmstart.redact.keys import kept_key
from warmstart.redact.redactor import PERSONAL
from warmstart.sessions.store import Filter
from warmstart.sessions.stores import open_store


@click.group(epilog="Example: warmstart dataset export markers --since 30d")
def command() -> None:
    """Publish how sessions went, without what was said in them.

    For people who study agents, and for yourself in a notebook.
    """


@command.command(epilog="Example: warmstart dataset export markers --agent claude-code --since 30d")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--agent", default="", help="Only sessions of this agent.")
@click.option("--project", default="", help="Only sessions of this project: its folder, a path inside it, or its name.")
@click.option("--since", type=Since(), help="Only sessions that started since: 2026-09-01, 7d, 12h.")
@click.option(
    "--with-error-text",
    is_flag=True,
    help="Keep the words of error messages that no rule knows, redacted, in place of a hash.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what was written as JSON.")
def export(
    directory: Path, agent: str, project: str, since: datetime | None, with_error_text: bool, as_json: bool
) -> None:
    """Write the rows and their data card into DIR.

    One row a session with its markers, one row a tool call with its outcome; JSON lines, and Parquet too if pyarrow is
    installed. There is no text of any message in it: sessions, projects, MCP servers and error messages are hashed with
    a key of your own. With --with-error-text lines of error messages are in it, without secrets, personal data and the
    names of your projects and users as far as they are known: read them before you publish.
    """
    current = settings()
    _refuse_home(directory, current.home)
    key = kept_key(current.home / "dataset.key")
    redactor = configured_redactor(current, personal=PERSONAL)
    chosen = Filter(agent=agent, project=stored_project(project), since=since)
    with open_store(current) as store, progress_bar("Profiling") as progress:
        written = export_dataset(
            profiled(store, tools=current.profile_tools, filter=chosen, progress=progress),
            directory,
            key=key,
            redactor=redactor,
            made=datetime.now(UTC),
            projects={row.session.project for row in store.list()},
            error_text=with_error_text,
        )
    _show(written, directory, as_json)


def _refuse_home(directory: Path, home: Path) -> None:
    """Raise `DatasetError` if whoever gets the directory would get the key of its hashes too."""
    place, kept = directory.resolve(), home.resolve()
    if place == kept or place in kept.parents:
        raise DatasetError(f"{str(directory)!r} holds {str(home)!r}, and with it the key; give a directory of its own")


def _show(written: DatasetExport, directory: Path, as_json: bool) -> None:
    if as_json:
        print_json({**written._asdict(), "directory": str(directory)})
    else:
        sessions, calls = counted(written.sessions, "session"), counted(written.calls, "call")
        click.echo(f"{sessions} and {calls} written to {directory}: {', '.join(written.files)}.")
    if not any(name.endswith(".parquet") for name in written.files):
        click.echo("No Parquet, which needs pyarrow: pip install 'warmstart[dataset]'", err=True)
