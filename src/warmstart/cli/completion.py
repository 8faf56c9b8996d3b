"""`warmstart completion`: shell completion of commands, options, ids and names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from functools import wraps
from pathlib import PurePath

import click
from click.shell_completion import BashComplete, CompletionItem, get_completion_class

from warmstart.cli.terminal import local, one_line

_VARIABLE = "_WARMSTART_COMPLETE"
_MAX_ITEMS = 50

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


@click.command(epilog="Example: warmstart completion bash > ~/.warmstart-completion.bash")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print a completion script for your shell.

    Add `eval "$(warmstart completion bash)"` to ~/.bashrc, the same with zsh to ~/.zshrc, or
    `warmstart completion fish | source` to ~/.config/fish/config.fish. It also completes session ids, template names,
    memory keys, projects and agents.
    """
    from warmstart.cli.commands import root

    kind = get_completion_class(shell) or BashComplete
    click.echo(kind(root, {}, "warmstart", _VARIABLE).source())


def _completer(find: Callable[[str], Iterable[tuple[str, str]]]) -> Completer:
    """Complete with (value, description) pairs. Errors must never show up at the user's prompt."""

    @wraps(find)
    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        try:
            return [CompletionItem(value, help=about) for value, about in find(incomplete)][:_MAX_ITEMS]
        except Exception:
            return []

    return complete


@_completer
def complete_sessions(incomplete: str) -> Iterable[tuple[str, str]]:
    """Session ids, newest first."""
    from warmstart.cli.output import settings
    from warmstart.sessions.sql_store import open_store

    with open_store(settings()) as store:
        for row in store.list():
            if row.session.id.startswith(incomplete):
                yield row.session.id[:10], one_line(f"{local(row.session.started_at)} {row.session.title}", 60)


@_completer
def complete_projects(incomplete: str) -> Iterable[tuple[str, str]]:
    """Short names and folder names of projects."""
    from warmstart.cli.output import settings
    from warmstart.sessions.projects import short_names
    from warmstart.sessions.sql_store import open_store

    with open_store(settings()) as store:
        names = short_names(store.projects())
    paths = {PurePath(path).name: path for path in names} | {name: path for path, name in names.items()}
    return [pair for pair in sorted(paths.items()) if pair[0].startswith(incomplete)]


@_completer
def complete_agents(incomplete: str) -> Iterable[tuple[str, str]]:
    """Names of agents whose logs can be read."""
    from warmstart.sessions.readers.registry import readers

    return ((agent, "") for agent in readers() if agent.startswith(incomplete))


@_completer
def complete_templates(incomplete: str) -> Iterable[tuple[str, str]]:
    """Template names and ids."""
    from warmstart.cli.output import settings
    from warmstart.sessions.sql_store import open_store
    from warmstart.templates.store import SQLTemplateStore

    with open_store(settings()) as store:
        for each in SQLTemplateStore(store).summaries():
            if each.name.startswith(incomplete) and " " not in each.name:
                yield each.name, f"{each.id} {each.state}"
            elif each.id.startswith(incomplete):
                yield each.id, one_line(f"{each.name} {each.state}", 60)


@_completer
def complete_keys(incomplete: str) -> Iterable[tuple[str, str]]:
    """Memory keys of the default user."""
    from warmstart.cli.output import settings
    from warmstart.memory.selection import select_backend

    with closing(select_backend(settings())) as backend:
        for entry in backend.query("default", "", limit=1000):
            if entry.key.startswith(incomplete):
                yield entry.key, one_line(entry.value, 60)
