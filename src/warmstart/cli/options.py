"""Options shared by commands: the same flag means the same everywhere.

A command that shows sessions or templates covers the current project, or all projects if the current directory does
not belong to one; `--project` names another one and `--all-projects` covers all.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial, wraps
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

from warmstart.cli.completion import complete_agents, complete_projects
from warmstart.cli.output import Scope
from warmstart.cli.terminal import as_called
from warmstart.config import expand_user
from warmstart.errors import ConfigError
from warmstart.sessions.projects import repository_of, resolve_project, short_names

RUNNING = "CLAUDE_CODE_SESSION_ID"  # the session that this process runs in
MAX_COUNT = 1_000_000_000  # accepted by every database
_DURATION = re.compile(r"(\d+)([hdw])")
_UNITS = {"h": "hours", "d": "days", "w": "weeks"}

_Function = TypeVar("_Function", bound=Callable[..., Any])


class _Command(click.Command):
    """A command whose help names it as the user calls it."""

    def get_help(self, ctx: click.Context) -> str:
        return as_called(super().get_help(ctx))


class Group(_Command, click.Group):
    """A group whose help shows the whole first line of each command, which click would truncate.

    `module` contains more of its commands and is loaded when needed. `aliases` are other names of commands, not listed.
    """

    command_class = _Command

    def __init__(self, *, module: str = "", aliases: Mapping[str, str] | None = None, **options: Any) -> None:
        super().__init__(**options)
        self._module = module
        self._aliases = aliases or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        if self._module:
            import_module(f"warmstart.cli.{self._module}")
        return list(self.commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        name = self._aliases.get(cmd_name, cmd_name)
        if name not in self.commands:
            self.list_commands(ctx)
        return self.commands.get(name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        commands = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        helps = {name: (each.help or "").partition("\n\n")[0] for name, each in commands.items() if each}
        with formatter.section("Commands"):
            formatter.write_dl([(name, text.replace("\n", " ")) for name, text in helps.items()])


class DefaultGroup(Group):
    """A group that runs the command `default` unless its first word is the name of a command."""

    def __init__(self, *, default: str, **options: Any) -> None:
        super().__init__(**options)
        self.default = default

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        wants_help = bool(args) and args[0] in ctx.help_option_names
        if args and not wants_help and args[0] not in self.commands:
            args = [self.default, *args]
        return super().parse_args(ctx, args)


class Count(click.IntRange):
    """A whole number that any store accepts."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        number = super().convert(value, param, ctx)
        if number > MAX_COUNT:
            self.fail(f"{number} is more than {MAX_COUNT:,}", param, ctx)
        return number


class Finite(click.FloatRange):
    """A finite number. `FloatRange` alone accepts `nan`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a number", param, ctx)
        return number


SHARE = Finite(0, 1)
FILE = click.Path(dir_okay=False, path_type=Path)


class When(click.ParamType[datetime]):
    """A date, a time, or a period before or after now: `2026-09-01`, `2026-09-01T12:00`, `7d`, `12h`, `2w`."""

    name = "when"

    def __init__(self, *, future: bool = False) -> None:
        self._future = future

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            if duration := _DURATION.fullmatch(value):
                distance = timedelta(**{_UNITS[duration[2]]: int(duration[1])})
                return datetime.now(UTC) + (distance if self._future else -distance)
            return datetime.fromisoformat(value).astimezone(UTC)
        except (ValueError, OverflowError):
            example = "2027-01-31, or 30d for thirty days from now" if self._future else "2026-09-01, or 7d for a week"
            self.fail(f"{value[:40]!r} is not a date; write {example}", param, ctx)


class Tags(click.ParamType[tuple[str, ...]]):
    """Words separated by commas: `a,b`."""

    name = "a,b"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        return tuple(dict.fromkeys(filter(None, map(str.strip, value.split(",")))))


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation (required without a terminal).")
agent_option = click.option("--agent", default="", shell_complete=complete_agents, help="Only this agent.")
since_option = click.option(
    "--since", type=When(), help="Only sessions since a date or within a period: 2026-09-01, 7d, 12h."
)
limit_option = click.option(
    "--limit", type=Count(0), default=20, show_default=True, help="Maximum to show (0 = no limit)."
)
output_option = click.option("-o", "--output", "--out", type=FILE, help="Write to this file.")
_project_option = partial(
    click.option,
    "--project",
    shell_complete=complete_projects,
    help="Another project: its folder, a path inside it, or its name.",
)
project_option = _project_option(default=".")


def project_options(command: _Function) -> _Function:
    """Add `--project` and `--all-projects`."""
    command = click.option("--all-projects", is_flag=True, help="All projects, not only the current one.")(command)
    return _project_option(default="")(command)


class Chosen(NamedTuple):
    """The sessions selected by the options of a command."""

    project: str
    all_projects: bool
    agent: str
    since: datetime | None

    def scope(self, known: Iterable[str]) -> Scope:
        """The project, or all of them; `known` are the projects in the store."""
        return scope_of(self.project, self.all_projects, known)


def session_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add `--project`, `--all-projects`, `--agent` and `--since`, and pass them as `chosen`."""

    @project_options
    @agent_option
    @since_option
    @wraps(command)
    def run(project: str, all_projects: bool, agent: str, since: datetime | None, **others: Any) -> None:
        command(chosen=Chosen(project, all_projects, agent, since), **others)

    return run


def scope_of(project: str, all_projects: bool, known: Iterable[str] = ()) -> Scope:
    """The scope selected by `--project` and `--all-projects`; `known` are the projects in the store."""
    if project and all_projects:
        raise click.UsageError("--project and --all-projects cannot be combined")
    if all_projects:
        return Scope("", "")
    known = list(known)
    current = resolve_project(project) or current_project()
    if not project and current not in known and not (Path(current) / ".git").exists():
        return Scope("", "")
    return Scope(current, short_names({*known, current})[current])


def current_project() -> str:
    """The project of the current directory, as the store names it."""
    try:
        return repository_of(str(Path.cwd()))
    except FileNotFoundError as error:
        raise ConfigError("the current directory no longer exists; change to another one") from error


def user_home() -> Path:
    """The user's home directory, where agents keep their logs."""
    return expand_user(Path("~"))
