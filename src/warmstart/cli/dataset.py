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
from warmstart.profile.pseudonyms import Pseudonyms
from warmstart.redact.redactor import load_key
from warmstart.sessions.sql_store import open_store
from warmstart.sessions.store import Filter
from warmstart.templates.dataset import template_rows
from warmstart.templates.store import SQLTemplateStore
from warmstart.templates.template import WarmTemplate


@click.group(cls=Group, epilog="Example: warmstart dataset export markers --since 30d")
def command() -> None:
    """Export how sessions went, without their text.

    For research or your own notebooks.
    """


@command.command(epilog="Example: warmstart dataset export markers --agent claude-code --since 30d")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@session_options
@click.option("--no-templates", is_flag=True, help="Leave templates out: they have text.")
@json_option
def export(directory: Path, chosen: Chosen, no_templates: bool, as_json: bool) -> None:
    """Export sessions, tool calls and templates, with a data card, to DIR.

    Writes one row per session with its metrics and one per tool call with its outcome, as JSON lines and, if pyarrow is
    installed, as Parquet. They contain no message text. Everything that is not a public name is hashed with your own
    key: sessions, projects, error messages, and tools and models that are not well known.

    The active templates are in templates.jsonl, as `templates export` shares them, with paths and names hashed. They
    have text: read them before you publish them, or use --no-templates.
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
        known = [] if no_templates else SQLTemplateStore(store).list()
        templates = [template for template in known if _is_shared(template, scope.project, chosen)]
        rows = template_rows(templates, projects=store.projects(), names=Pseudonyms(key))
        written = export_dataset(sessions, directory, key=key, made=datetime.now(UTC), templates=rows)
    if as_json:
        print_json({**written._asdict(), "directory": str(directory)})
    else:
        what = f"{counted(written.sessions, 'session')} and {counted(written.calls, 'call')}"
        if written.templates:
            what += f", and {counted(written.templates, 'template')}"
        click.echo(f"{what} ({scope}) written to {directory}: {', '.join(written.files)}.")
    if written.templates:
        click.echo("Read templates.jsonl before you publish it: rules cannot find every name in a sentence.", err=True)
    if not any(name.endswith(".parquet") for name in written.files):
        click.echo("No Parquet files: they need pyarrow (pip install 'warmstart[dataset]').", err=True)


def _is_shared(template: WarmTemplate, project: str, chosen: Chosen) -> bool:
    """Whether the template is in use, and from the selected project, agent and time."""
    return (
        template.state == "active"
        and project in ("", template.project)
        and chosen.agent in ("", template.agent)
        and not (chosen.since and template.updated_at and template.updated_at < chosen.since)
    )
