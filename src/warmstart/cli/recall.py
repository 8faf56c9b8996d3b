"""`warmstart recall`: find where something was said; `warmstart recall index` keeps the index."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any, get_args

import click

from warmstart.cli.output import counted, iso, local, print_json, printable, settings
from warmstart.cli.progress import progress_bar
from warmstart.cli.selection import Since, stored_project
from warmstart.config import Settings
from warmstart.errors import ConfigError, StoreError
from warmstart.recall.excerpts import Marker
from warmstart.recall.index import Progress
from warmstart.recall.recall import Mode, Recall
from warmstart.recall.values import Evidence
from warmstart.recall.vectors.embedder import DEFAULT
from warmstart.recall.vectors.meaning import Meaning, make_meaning, open_meaning
from warmstart.sessions.projects import project_of
from warmstart.sessions.sql import SQLSessionStore
from warmstart.sessions.store import Filter
from warmstart.sessions.stores import open_store


class _QueryGroup(click.Group):
    """A group whose first word is a question unless it is the name of a command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        asks_for_help = bool(args) and args[0] in ctx.help_option_names
        if args and not asks_for_help and args[0] not in self.commands:
            args = ["search", *args]
        return super().parse_args(ctx, args)


@click.group(
    cls=_QueryGroup,
    epilog='Examples: warmstart recall "which port does the database use" · '
    'warmstart recall "ECONNREFUSED last week" --all-projects',
)
def command() -> None:
    """Find where something was said in past sessions.

    `warmstart recall "QUESTION"`, which is short for `warmstart recall search "QUESTION"`, gives dated passages, best
    first, of the sessions of the current project. Words count in all their forms, names of files, flags and error codes
    as they are typed, and dates such as "last week" or "in March" as dates.
    """


@command.command(epilog='Example: warmstart recall "how did we fix the flaky test" --since 30d --limit 3')
@click.argument("query", nargs=-1, required=True)
@click.option("--project", default="", help="Another project: its folder, a path inside it, or its name.")
@click.option("--all-projects", is_flag=True, help="Search the sessions of all projects.")
@click.option("--limit", type=click.IntRange(min=1), default=5, show_default=True, help="At most so many passages.")
@click.option(
    "--mode",
    type=click.Choice(get_args(Mode)),
    help="By words, by meaning, or by both. Default: by both where there are vectors, see `recall index`.",
)
@click.option("--since", type=Since(), help="Only sessions that started since: 2026-09-01, 7d, 12h.")
@click.option("--agent", "agents", multiple=True, help="Only sessions of this agent; may be given several times.")
@click.option("--explain", is_flag=True, help="Show what the scores are made of.")
@click.option("--json", "as_json", is_flag=True, help="Print the passages as JSON.")
def search(
    query: tuple[str, ...],
    project: str,
    all_projects: bool,
    limit: int,
    mode: Mode | None,
    since: datetime | None,
    agents: tuple[str, ...],
    explain: bool,
    as_json: bool,
) -> None:
    """Find passages of past sessions that answer a question."""
    if project and all_projects:
        raise click.UsageError("--project and --all-projects contradict each other; give one of them")
    where = None if all_projects else stored_project(project) or project_of(str(Path.cwd()))
    current = settings()
    with ExitStack() as stack:
        store = stack.enter_context(open_store(current))
        meaning = _meaning(store, current, mode)
        if meaning is not None:
            stack.enter_context(meaning)
        recall = Recall(store, meaning=meaning, mode=mode or "hybrid")
        with progress_bar("Indexing") as progress:
            recall.update(progress)
            if meaning is not None and meaning.embedder.local:
                _refresh(meaning, progress, mode)
        found = recall.search(" ".join(query), project=where, limit=limit, since=since, agents=agents)
        hint = "" if found else _hint(store, where)
    if as_json:
        print_json([evidence_dict(each, explain=explain) for each in found])
    else:
        for each in found:
            _show(each, explain=explain)
    if hint:
        click.echo(hint, err=True)


@command.command(epilog="Example: warmstart recall index --rebuild")
@click.option("--rebuild", is_flag=True, help="Make the index anew from the sessions, not only what changed.")
@click.option(
    "--embedder",
    metavar="NAME",
    help="Index by meaning too: wordllama, sentence-transformers:MODEL or openai:MODEL.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def index(rebuild: bool, embedder: str | None, as_json: bool) -> None:
    """Bring the index up to date; `warmstart sync` does so as well, and so does every search.

    With --embedder it also makes vectors of everything that was said, so that searches go by meaning too; from then on
    they are kept up to date as well. What was interrupted goes on where it was. Another embedder makes them all anew.
    """
    current = settings()
    with open_store(current) as store:
        meaning = open_meaning(store, current) if embedder is None else make_meaning(store, current, embedder)
        recall = Recall(store)
        with progress_bar("Indexing") as progress:
            number = recall.rebuild(progress) if rebuild else recall.update(progress)
        texts, name = 0, None
        if meaning is not None:
            name = meaning.embedder.name
            if not meaning.embedder.local:
                click.echo(f"What was said is sent to {name.rpartition('@')[2]}, with secrets replaced.", err=True)
            with meaning, progress_bar("Embedding") as progress:
                texts = meaning.update(progress)
    if as_json:
        print_json({"sessions": number, "embedder": name, "texts": texts})
        return
    click.echo(f"{counted(number, 'session')} indexed." if number else "The index is up to date.")
    if name:
        click.echo(f"{counted(texts, 'text')} embedded with {name}." if texts else f"The vectors ({name}) are too.")


def evidence_dict(found: Evidence, *, explain: bool = False) -> dict[str, Any]:
    """A row of `recall --json`."""
    row: dict[str, Any] = {
        "session_id": found.session_id,
        "native_id": found.native_id,
        "agent": found.agent,
        "project": found.project,
        "date": iso(found.date),
        "role": found.role,
        "score": found.score,
        "text": found.text,
        "message_ids": list(found.message_ids),
    }
    if explain:
        row |= {"matched": list(found.matched), "terms": list(found.terms), "parts": dict(found.parts)}
    return row


def _meaning(store: SQLSessionStore, current: Settings, mode: Mode | None) -> Meaning | None:
    """The vectors to search by, if any are wanted and to be had."""
    if mode == "lexical":
        return None
    try:
        meaning = open_meaning(store, current)
    except (ConfigError, StoreError) as error:
        if mode is not None:
            raise
        click.echo(f"Searched by words only: {error}", err=True)
        return None
    if meaning is None and mode is not None:
        raise ConfigError(f"--mode {mode} needs vectors; `warmstart recall index --embedder {DEFAULT}` makes them")
    return meaning


def _refresh(meaning: Meaning, progress: Progress | None, mode: Mode | None) -> None:
    try:
        meaning.update(progress)
    except StoreError as error:
        if mode is not None:
            raise
        click.echo(f"The vectors were left as they are: {error}", err=True)


def _hint(store: SQLSessionStore, project: str | None) -> str:
    """Why nothing was found, and what to do about it."""
    if not store.list(Filter(limit=1)):
        return "No sessions. `warmstart sync` imports them from your agents' histories."
    if project is not None and not store.list(Filter(project=project, limit=1)):
        return f"No sessions of the project {project!r}. --all-projects searches all of them."
    return "Nothing found." + ("" if project is None else " --all-projects searches the other projects too.")


def _show(found: Evidence, *, explain: bool) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(soft_wrap=not sys.stdout.isatty(), highlight=False)
    head = Text(f"{local(found.date)}  {found.role}", style="bold cyan")
    head.append(printable(f"  {found.agent}  {Path(found.project).name}"), style="dim")
    console.print(head)
    text = Text(printable(found.text))
    marker = Marker([word for word in found.matched if word.isalnum()], found.matched)
    for word in marker.find(text.plain):
        text.stylize("bold", word.start, word.end)
    console.print(text)
    if explain:
        parts = ", ".join(f"{name} {value:.2f}" for name, value in found.parts.items())
        console.print(Text(f"score {found.score:.2f} of the session's {parts}; found {', '.join(found.matched)}"))
    console.print(Text(f"warmstart sessions show {found.session_id[:10]}", style="dim"))
    console.print()
