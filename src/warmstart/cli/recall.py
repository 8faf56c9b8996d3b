"""`warmstart recall`: find where something was said. `warmstart recall index` maintains the index."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from datetime import datetime
from typing import Any

import click

from warmstart import recall
from warmstart.cli.completion import complete_agents
from warmstart.cli.options import Count, DefaultGroup, json_option, project_options, scope_of, since_option
from warmstart.cli.output import print_json, print_scope, progress_bar, settings, show_warnings
from warmstart.cli.terminal import counted, describe_filters, local, max_width, one_line, printable, wrapped
from warmstart.config import Settings, load_settings
from warmstart.embedding.files import has_vectors
from warmstart.errors import ConfigError, StoreError
from warmstart.recall.evidence import Evidence
from warmstart.recall.index import Index, Progress
from warmstart.recall.recall import Recall
from warmstart.sessions.indexed_store import IndexedStore, open_indexed_store
from warmstart.sessions.projects import short_names
from warmstart.text.words import root_word, tokenize


@click.group(
    cls=DefaultGroup,
    default="search",
    epilog='\b\nExamples:\n  warmstart recall "which port does the database use"\n'
    '  warmstart recall "ECONNREFUSED last week" --all-projects',
)
def command() -> None:
    """Find where something was said in past sessions.

    `warmstart recall "QUERY"` is short for `warmstart recall search "QUERY"`. It prints dated passages from sessions of
    the current project, best first. Words match in all their forms; file names, flags and error codes match exactly;
    "last week" or "in March" selects by date.
    """


@command.command(epilog='Example: warmstart recall "how did we fix the flaky test" --since 30d --limit 3')
@click.argument("query", nargs=-1, required=True)
@project_options
@click.option("--limit", type=Count(1), default=5, show_default=True, help="Maximum number of passages.")
@since_option
@click.option("--agent", "agents", multiple=True, shell_complete=complete_agents, help="Only this agent; repeatable.")
@click.option("--explain", is_flag=True, help="Show how each score is computed.")
@json_option
def search(
    query: tuple[str, ...],
    project: str,
    all_projects: bool,
    limit: int,
    since: datetime | None,
    agents: tuple[str, ...],
    explain: bool,
    as_json: bool,
) -> None:
    """Find passages of past sessions that answer a question."""
    current = load_settings(os.environ)
    with ExitStack() as stack:
        store = stack.enter_context(open_indexed_store(current))
        known = store.projects()
        scope = scope_of(project, all_projects, known)
        semantic = _open_vectors(store, current)
        if semantic is not None:
            stack.enter_context(semantic)
        searcher = Recall(store, semantic=semantic)
        if Index(store).pending():
            show_warnings()
            with progress_bar("Indexing") as progress:
                searcher.update(progress)
        if semantic is not None and semantic.embedder.local:
            with progress_bar("Embedding") as progress:
                _refresh(semantic, progress)
        hits = searcher.search(" ".join(query), project=scope.project or None, limit=limit, since=since, agents=agents)
        if not store.index.is_complete:
            click.echo("Warning: older texts are not indexed yet; run `warmstart sync` to search them too.", err=True)
    if as_json:
        print_json([_as_dict(each, explain=explain) for each in hits])
    else:
        names = short_names(known)
        for each in hits:
            _show(each, names.get(each.project, each.project), explain=explain)
    if not known:
        click.echo("No sessions yet. `warmstart sync` imports them from your agents' logs.", err=True)
    elif not hits or not as_json:
        filters = describe_filters(agent=", ".join(agents), since=since)
        print_scope(len(hits), "passage", scope, filters, create="try other words")
        if hits and sys.stdout.isatty():
            click.echo("`warmstart sessions show ID` shows a session.", err=True)


@command.command("index", epilog="Example: warmstart recall index --rebuild")
@click.option("--rebuild", is_flag=True, help="Rebuild the whole index, not only what changed.")
@click.option(
    "--embedder",
    metavar="NAME",
    help="Also index by meaning: wordllama, minilm, sentence-transformers:MODEL or openai:MODEL.",
)
@json_option
def index_command(rebuild: bool, embedder: str | None, as_json: bool) -> None:
    """Update the search index, as `warmstart sync` and every search do.

    With --embedder, also compute vectors of all messages, so that searches match by meaning too; later syncs keep them
    up to date. An interrupted run continues where it stopped. Changing the embedder recomputes all vectors.
    """
    current = settings()
    with open_indexed_store(current) as store:
        if embedder is None:
            semantic = recall.open_semantic_index(store, current)
        else:
            semantic = recall.create_semantic_index(store, current, embedder)
        index = Index(store)
        with progress_bar("Indexing") as progress:
            number = index.rebuild(progress) if rebuild else index.update(progress)
        texts, name = 0, None
        if semantic is not None:
            name = semantic.embedder.name
            if not semantic.embedder.local:
                click.echo(f"Messages are sent to {name.rpartition('@')[2]}, with secrets replaced.", err=True)
            with semantic, progress_bar("Embedding") as progress:
                texts = semantic.update(progress)
    if as_json:
        print_json({"sessions": number, "embedder": name, "texts": texts})
        return
    click.echo(f"{counted(number, 'session')} indexed." if number else "The index is up to date.")
    if name:
        done = f"{counted(texts, 'text')} embedded with {name}." if texts else f"Vectors ({name}) are up to date."
        click.echo(done)


def _as_dict(found: Evidence, *, explain: bool) -> dict[str, Any]:
    left_out = [] if explain else ["matched", "terms", "components"]
    if found.replaced_by is None:
        left_out.append("replaced_by")
    return {name: value for name, value in asdict(found).items() if name not in left_out}


def _open_vectors(store: IndexedStore, current: Settings) -> recall.SemanticIndex | None:
    """The vectors to search, if there are any."""
    try:
        return recall.open_semantic_index(store, current) if has_vectors(store.database) else None
    except (ConfigError, StoreError) as error:
        click.echo(f"Searching by words only: {error}", err=True)
        return None


def _refresh(semantic: recall.SemanticIndex, progress: Progress | None) -> None:
    try:
        semantic.update(progress)
    except StoreError as error:
        click.echo(f"The vectors were not updated: {error}", err=True)


def _show(found: Evidence, project: str, *, explain: bool) -> None:
    """Print a passage: where it is from, then its lines with the matched words marked."""
    click.echo(click.style(f"{local(found.date)}  {found.role}", fg="cyan", bold=True), nl=False)
    click.echo(click.style(printable(f"  {found.agent}  {project}  {found.session_id[:10]}"), dim=True), nl=False)
    click.echo(f"  replaced on {local(found.replaced_by.date)}" if found.replaced_by else "")
    first, *others = found.text.splitlines()
    if sys.stdout.isatty():
        others = [one_line(line, max_width()) for line in others]
    for line in [*wrapped(first).splitlines(), *others] if sys.stdout.isatty() else [first, *others]:
        click.echo(_mark(printable(line), found.matched))
    if explain:
        parts = ", ".join(f"{name} {value:.2f}" for name, value in found.components.items())
        click.echo(f"score {found.score:.2f} ({parts}); matched {', '.join(found.matched)}")
    click.echo()


def _mark(line: str, matched: Sequence[str]) -> str:
    """The line with the matched words, in all inflections, and the names in bold."""
    stems = {root_word(token) for word in matched for token in tokenize(word)}
    names = [word for word in matched if not word.isalnum()]

    def mark(found: re.Match[str]) -> str:
        tokens = tokenize(found[0])
        is_match = found[0].lower() in names or any(root_word(token) in stems for token in tokens)
        return click.style(found[0], bold=True) if is_match else found[0]

    return re.sub("|".join((*map(re.escape, names), r"[^\W_]+")), mark, line, flags=re.IGNORECASE)
