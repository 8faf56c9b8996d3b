"""What the commands of `warmstart memory` share: which backend, whose memory, and from where it is seen."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import click

from warmstart.cli.output import settings
from warmstart.cli.selection import stored_project
from warmstart.errors import ConfigError
from warmstart.memory.backend import MemoryBackend
from warmstart.memory.selection import get_memory_backend, open_backend, reset_backend
from warmstart.memory.values import View
from warmstart.sessions.projects import project_of

ALL = 1_000_000  # entries, which nobody has
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


def user_option(command: _Command) -> _Command:
    """Whose memory it is about."""
    return click.option("--user", default="default", show_default=True, help="Whose memory.")(command)


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
def memory(name: str | None) -> Iterator[MemoryBackend]:
    """The configured backend or the one named, for as long as the command runs."""
    if name:
        backend = opened(name)
        try:
            yield backend
        finally:
            backend.close()
        return
    try:
        yield get_memory_backend(settings(), host=True)
    finally:
        reset_backend()


def opened(name: str) -> MemoryBackend:
    """The backend of this name or in this file, which is available."""
    backend = named(name)
    if not backend.is_available():
        backend.close()
        problem = getattr(backend, "problem", "") or "check its settings, its server and its file"
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
