"""What the `warmstart memory` commands share: their options, and the backend that these select."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple

import click

from warmstart.cli.completion import complete_agents, complete_projects
from warmstart.cli.options import current_project
from warmstart.cli.output import Scope, settings
from warmstart.config import expand_user
from warmstart.errors import ConfigError, StoreUnreachable
from warmstart.memory.backend import MemoryBackend
from warmstart.memory.remote import Delivery, Remote, Withholds
from warmstart.memory.selection import get_memory_backend, open_backend, reset_backend, why_not
from warmstart.memory.values import View
from warmstart.sessions.projects import resolve_project

MAX_ENTRIES = 1_000_000
REMOTE_SECONDS = 15.0  # how long a command waits for a server


def check_user(ctx: click.Context, parameter: click.Parameter, given: Any) -> Any:
    """Reject empty user names."""
    if any(not user.strip() for user in ([given] if isinstance(given, str) else given)):
        raise click.BadParameter("must not be empty; leave it out for the user 'default'", ctx, parameter)
    return given


user_option = click.option(
    "--user", default="default", show_default=True, callback=check_user, help="The user whose memories to use."
)
offline_option = click.option("--offline", is_flag=True, help="Use the local copy if the server does not answer.")
backend_option = click.option(
    "--backend", "name", metavar="NAME", help="Use this backend instead of the configured one, or a SQLite file."
)


class Where(NamedTuple):
    """Whose memories a command uses, from which project and agent it sees them, and in which backend."""

    user: str
    project: str
    agent: str
    all_projects: bool
    backend: str | None

    @contextmanager
    def open(self, *, whole: bool = False) -> Iterator[tuple[MemoryBackend, MemoryBackend]]:
        """The backend, and the same as seen from the project and the agent."""
        if self.all_projects and (self.project or self.agent):
            raise click.UsageError("--all-projects contradicts --project and --agent; leave it out")
        with open_memory(self.backend, self.user, whole=whole) as backend:
            view = View(project=self.scope.project, agent=self.agent)
            yield backend, backend if self.all_projects else backend.at(view)

    @property
    def scope(self) -> Scope:
        folder = "" if self.all_projects else resolve_project(self.project) or current_project()
        return Scope(folder, Path(folder).name)


def where_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add `--user`, `--project`, `--agent`, `--all-projects` and `--backend`, and pass them as `where`."""

    @user_option
    @click.option(
        "--project",
        default="",
        shell_complete=complete_projects,
        help="The project: its folder, a path inside it, or its name. Default: the current one.",
    )
    @click.option("--agent", default="", shell_complete=complete_agents, help="Include entries for this agent.")
    @click.option("--all-projects", is_flag=True, help="Entries of all projects and agents.")
    @backend_option
    @wraps(command)
    def run(user: str, project: str, agent: str, all_projects: bool, name: str | None, **others: Any) -> None:
        command(where=Where(user, project, agent, all_projects, name), **others)

    return run


@contextmanager
def open_memory(
    name: str | None, user: str = "", *, everyone: bool = False, writes: bool = False, whole: bool = False
) -> Iterator[MemoryBackend]:
    """Open the configured backend, or the one named, for the duration of a command.

    A remote backend is synchronized first, for one user or for all. Only a command that `writes` creates a file.
    """
    if name and not writes and (path := backend_file(name)) is not None and not path.exists():
        raise ConfigError(f"there is no file {name!r}; name a file with memories, or a backend")
    backend = open_available(name) if name else get_memory_backend(settings(), host=True)
    try:
        synchronize(backend, user, everyone=everyone, whole=whole)
        yield backend
    finally:
        if name:
            backend.close()
        reset_backend()


def synchronize(backend: MemoryBackend, user: str = "", *, everyone: bool = False, whole: bool = False) -> None:
    """Make a remote backend send queued writes and fetch changes, for one user or for all.

    Warns if the server does not answer; raises `StoreUnreachable` if the `whole` memory is needed.
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
def exit_on_signal() -> Iterator[None]:
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


def open_available(name: str) -> MemoryBackend:
    """The backend of this name or in this file. Raises `ConfigError` if it is not available."""
    backend = find_backend(name)
    if not backend.is_available():
        problem = why_not(backend)
        backend.close()
        raise ConfigError(f"the backend {name!r} is not available: {problem}")
    return backend


def find_backend(name: str) -> MemoryBackend:
    """The backend of this name, available or not. A path names a SQLite file."""
    path = backend_file(name)
    if path is None:
        return open_backend(name, settings())
    return open_backend("local", replace(settings(), store_path=path))


def backend_file(name: str) -> Path | None:
    """The file, if the name is a path."""
    is_path = "/" in name or name.endswith((".db", ".sqlite"))
    return expand_user(Path(name)).absolute() if is_path else None


def stays_here(backend: MemoryBackend, metadata: Mapping[str, Any]) -> str:
    """A note for entries that the backend keeps local; empty for others."""
    if isinstance(backend, Withholds) and backend.stays_here(metadata):
        return ", on this machine only (see memory.honcho.send_scoped)"
    return ""
