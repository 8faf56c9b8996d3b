"""What the commands of `warmstart memory` share: which backend, whose memory, and from where it is seen."""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import click

from warmstart.cli.output import one_line, settings
from warmstart.cli.selection import stored_project
from warmstart.errors import ConfigError, StoreUnreachable
from warmstart.memory.backend import MemoryBackend
from warmstart.memory.remote import Remote, Status
from warmstart.memory.selection import get_memory_backend, open_backend, reset_backend, why_not
from warmstart.memory.values import View
from warmstart.sessions.projects import project_of

ALL = 1_000_000  # entries, which nobody has
REMOTE_SECONDS = 15.0  # that a command waits for a server which has shown that it answers
_AHEAD = re.compile(r"(\d+)([hdw])")
_Command = TypeVar("_Command", bound=Callable[..., Any])


class Until(click.ParamType[datetime]):
    """A date, a time, or how long from now: `2027-01-31`, `2027-01-31T12:00`, `30d`, `12h`, `2w`."""

    name = "when"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            if ahead := _AHEAD.fullmatch(value):
                unit = {"h": "hours", "d": "days", "w": "weeks"}[ahead.group(2)]
                return datetime.now(UTC) + timedelta(**{unit: int(ahead.group(1))})
            return datetime.fromisoformat(value).astimezone(UTC)
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is not a date; write 2027-01-31, or 30d for thirty days from now", param, ctx)


def named_users(ctx: click.Context, parameter: click.Parameter, given: Any) -> Any:
    """Users that have names: nobody finds again what was kept for nobody."""
    if any(not user.strip() for user in ([given] if isinstance(given, str) else given)):
        raise click.BadParameter("must not be empty; leave it out for the user 'default'", ctx, parameter)
    return given


def user_option(command: _Command) -> _Command:
    """Whose memory it is about."""
    return click.option("--user", default="default", show_default=True, callback=named_users, help="Whose memory.")(
        command
    )


def offline_option(command: _Command) -> _Command:
    """Whether what is known here will do."""
    return click.option(
        "--offline", is_flag=True, help="Take what is known here, where the server of the backend does not answer."
    )(command)


def backend_option(command: _Command) -> _Command:
    """Which backend to use."""
    return click.option(
        "--backend", "name", metavar="NAME", help="Another backend than the configured one, or a SQLite file."
    )(command)


def where_options(command: _Command) -> _Command:
    """From where memory is looked at."""
    command = click.option("--all-projects", is_flag=True, help="Whatever project or agent it is for.")(command)
    command = click.option("--agent", default="", help="As this agent sees it.")(command)
    return click.option(
        "--project", default="", help="As seen from this project: a folder or a name. Default: the current one."
    )(command)


def json_option(command: _Command) -> _Command:
    """Data instead of text."""
    return click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")(command)


@contextmanager
def memory(
    name: str | None, user: str = "", *, everyone: bool = False, writes: bool = False, whole: bool = False
) -> Iterator[MemoryBackend]:
    """The configured backend or the one named, for as long as the command runs.

    One on a server is brought up to date first for the user who is to be read, or for all, and has sent what it was
    given when the command ends; where the server does not answer, that is said, or is an error where the `whole` memory
    is wanted. A file is made only by who `writes`.
    """
    if name and not writes and (path := file_of(name)) is not None and not path.exists():
        raise ConfigError(f"there is no file {name!r}; give one that has memories, or the name of a backend")
    backend = opened(name) if name else get_memory_backend(settings(), host=True)
    try:
        with delivering(backend, user, everyone=everyone, whole=whole):
            yield backend
    finally:
        if name:
            backend.close()
        reset_backend()


@contextmanager
def delivering(
    backend: MemoryBackend, user: str = "", *, everyone: bool = False, whole: bool = False
) -> Iterator[None]:
    """Read what is new before, of a user or of all, and send what was written after."""
    if not isinstance(backend, Remote) or not backend.is_available():
        yield
        return
    began, reached = time.time(), backend.is_reachable()
    if (user or everyone) and not (reached and backend.sync(user or None, REMOTE_SECONDS)):
        address = backend.status().base_url
        if whole:
            raise StoreUnreachable(
                f"{address} does not answer, so that not all may be known here; try again later, or take what is known "
                "here with --offline"
            )
        click.echo(f"{address} does not answer: this is what is known here.", err=True)
    yield
    if backend.status().waiting and not (reached and backend.flush(REMOTE_SECONDS)):
        click.echo(waiting(backend.status()), err=True)
    for each in reversed(backend.forgotten(user) if user else []):
        if each.at >= began and each.messages:
            click.echo(f"{each}.", err=True)


@contextmanager
def ended_in_order() -> Iterator[None]:
    """Have SIGTERM and SIGHUP end what runs as an interrupt would, so that it cleans up; those after it are ignored."""

    def end(number: int, frame: object) -> None:
        for each in before:
            signal.signal(each, signal.SIG_IGN)
        raise SystemExit(128 + number)

    before = {}
    if threading.current_thread() is threading.main_thread():
        numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
        # Whoever is told to ignore them, by nohup for one, goes on doing so.
        before = {each: signal.signal(each, end) for each in numbers if signal.getsignal(each) is signal.SIG_DFL}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def waiting(status: Status) -> str:
    """That writes wait, and for what."""
    count = f"{status.waiting} writes wait" if status.waiting != 1 else "1 write waits"
    why = f" ({one_line(status.error, 80)})" if status.error else ""
    return f"{count} here for {status.base_url}{why}; the next command that reaches it delivers."


def opened(name: str) -> MemoryBackend:
    """The backend of this name or in this file, which is available."""
    backend = named(name)
    if not backend.is_available():
        problem = why_not(backend)
        backend.close()
        raise ConfigError(f"the backend {name!r} is not available here; {problem}")
    return backend


def named(name: str) -> MemoryBackend:
    """The backend of this name, available or not; a name that is a path is that of a SQLite file."""
    path = file_of(name)
    if path is None:
        return open_backend(name, settings())
    return open_backend("local", replace(settings(), store_path=path))


def file_of(name: str) -> Path | None:
    """The file that is meant, if a file is."""
    is_path = "/" in name or name.endswith((".db", ".sqlite"))
    return Path(name).expanduser().absolute() if is_path else None


def seen_from(backend: MemoryBackend, project: str, agent: str, everywhere: bool) -> MemoryBackend:
    """Memory as the options want it seen: from the current project, unless they say otherwise."""
    if everywhere:
        if project or agent:
            raise click.UsageError("--all-projects contradicts --project and --agent; leave it out")
        return backend
    return backend.at(View(project=stored_project(project) or project_of(str(Path.cwd())), agent=agent))
