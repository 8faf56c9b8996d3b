"""What the `warmstart memory` commands share: options, and the backend they name."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from warmstart.cli.completion import complete_agents, complete_projects
from warmstart.cli.options import current_project
from warmstart.cli.output import settings
from warmstart.config import expanded
from warmstart.errors import ConfigError, StoreUnreachable
from warmstart.memory.backend import MemoryBackend
from warmstart.memory.remote import Delivery, Remote, Withholds
from warmstart.memory.selection import get_memory_backend, open_backend, reset_backend, why_not
from warmstart.memory.values import View
from warmstart.sessions.projects import resolve_project

MAX_ENTRIES = 1_000_000
REMOTE_SECONDS = 15.0  # how long a command waits for a server
_Command = TypeVar("_Command", bound=Callable[..., Any])


def named_users(ctx: click.Context, parameter: click.Parameter, given: Any) -> Any:
    """Reject users without a name."""
    if any(not user.strip() for user in ([given] if isinstance(given, str) else given)):
        raise click.BadParameter("must not be empty; leave it out for the user 'default'", ctx, parameter)
    return given


def user_option(command: _Command) -> _Command:
    """Add `--user`."""
    return click.option("--user", default="default", show_default=True, callback=named_users, help="Whose memory.")(
        command
    )


def offline_option(command: _Command) -> _Command:
    """Add `--offline`."""
    return click.option("--offline", is_flag=True, help="Use the local copy if the server does not answer.")(command)


def backend_option(command: _Command) -> _Command:
    """Add `--backend`."""
    return click.option(
        "--backend", "name", metavar="NAME", help="Use this backend instead of the configured one, or a SQLite file."
    )(command)


def where_options(command: _Command) -> _Command:
    """Add `--project`, `--agent` and `--all-projects`."""
    command = click.option("--all-projects", is_flag=True, help="Entries of all projects and agents.")(command)
    command = click.option("--agent", default="", shell_complete=complete_agents, help="As seen by this agent.")(
        command
    )
    return click.option(
        "--project",
        default="",
        shell_complete=complete_projects,
        help="As seen from this project: its folder, a path inside it, or its name. Default: the current one.",
    )(command)


@contextmanager
def memory(
    name: str | None, user: str = "", *, everyone: bool = False, writes: bool = False, whole: bool = False
) -> Iterator[MemoryBackend]:
    """The configured backend or the one named, until the command ends.

    A remote backend is synchronized first, for one user or for all. Only a command that `writes` creates a file.
    """
    if name and not writes and (path := file_of(name)) is not None and not path.exists():
        raise ConfigError(f"there is no file {name!r}; name a file with memories, or a backend")
    backend = opened(name) if name else get_memory_backend(settings(), host=True)
    try:
        bring_up_to_date(backend, user, everyone=everyone, whole=whole)
        yield backend
    finally:
        if name:
            backend.close()
        reset_backend()


def bring_up_to_date(backend: MemoryBackend, user: str = "", *, everyone: bool = False, whole: bool = False) -> None:
    """Have a remote backend send queued writes and fetch what is new, for one user or for all.

    Warns if the server does not answer; raises if the `whole` memory is wanted.
    """
    if not isinstance(backend, Remote) or not backend.is_available():
        return
    reached = backend.is_reachable()
    if reached and backend.status().waiting:
        backend.flush(REMOTE_SECONDS)
    if (user or everyone) and not (reached and backend.sync(user or None, REMOTE_SECONDS)):
        status = backend.status()
        problem = f"{status.base_url} {'does not accept the key' if status.denied else 'does not answer'}"
        if whole:
            raise StoreUnreachable(
                f"{problem}, so the local copy may be incomplete; try again later, or use it with --offline"
            )
        click.echo(f"{problem}; showing the local copy.", err=True)


def deliver(delivery: Delivery) -> bool:
    """Send what a command wrote. Returns whether some of it is still queued."""
    if queued := delivery.finish(REMOTE_SECONDS):
        click.echo(queued, err=True)
    return bool(queued)


@contextmanager
def orderly_exit() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into an orderly exit with cleanup; later ones are ignored."""

    def end(number: int, frame: object) -> None:
        for each in before:
            signal.signal(each, signal.SIG_IGN)
        raise SystemExit(128 + number)

    before = {}
    if threading.current_thread() is threading.main_thread():
        numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
        # A process that ignores them, under nohup for example, keeps ignoring them.
        before = {each: signal.signal(each, end) for each in numbers if signal.getsignal(each) is signal.SIG_DFL}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def opened(name: str) -> MemoryBackend:
    """The backend of this name or in this file. Raises `ConfigError` if it is not available."""
    backend = named(name)
    if not backend.is_available():
        problem = why_not(backend)
        backend.close()
        raise ConfigError(f"the backend {name!r} is not available: {problem}")
    return backend


def named(name: str) -> MemoryBackend:
    """The backend of this name, available or not. A path names a SQLite file."""
    path = file_of(name)
    if path is None:
        return open_backend(name, settings())
    return open_backend("local", replace(settings(), store_path=path))


def file_of(name: str) -> Path | None:
    """The file that a name means, if it is a path."""
    is_path = "/" in name or name.endswith((".db", ".sqlite"))
    return expanded(Path(name)).absolute() if is_path else None


def seen_from(backend: MemoryBackend, project: str, agent: str, everywhere: bool) -> MemoryBackend:
    """The view that the options ask for; by default that of the current project."""
    if everywhere:
        if project or agent:
            raise click.UsageError("--all-projects contradicts --project and --agent; leave it out")
        return backend
    return backend.at(View(project=resolve_project(project) or current_project(), agent=agent))


def stays_here(backend: MemoryBackend, metadata: Mapping[str, Any]) -> str:
    """A note for entries that the backend keeps local; empty for others."""
    if isinstance(backend, Withholds) and backend.stays_here(metadata):
        return ", on this machine only (see memory.honcho.send_scoped)"
    return ""
