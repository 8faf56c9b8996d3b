"""What the commands of `warmstart templates` share: the store they open, the options they have, and who writes."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, get_args

import click
import msgspec

from warmstart.cli.output import one_line, settings
from warmstart.config import Settings
from warmstart.profile.values import TaskType
from warmstart.redact.configured import configured_redactor
from warmstart.sessions.stores import open_store
from warmstart.templates.choosing.audit import settle
from warmstart.templates.choosing.lifecycle import Changed, review
from warmstart.templates.store import SQLTemplateStore
from warmstart.templates.values import State

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

TYPES = click.Choice(get_args(TaskType))
STATES = click.Choice(get_args(State))

json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


@contextmanager
def templates(current: Settings | None = None) -> Iterator[SQLTemplateStore]:
    """The templates in the store that the settings name; what is written to it is redacted by their rules."""
    current = current or settings()
    with open_store(current) as store:
        yield SQLTemplateStore(store, redactor=configured_redactor(current))


def settled(store: SQLTemplateStore, current: Settings, *, always: bool = False) -> None:
    """Note how sessions ended that started from templates; where that is new, templates come into another state."""
    if settle(store, tools=current.profile_tools) or always:
        for changed in review(store, max_age_days=current.templates_max_age_days):
            click.echo(changed_said(changed), err=True)


def changed_said(changed: Changed, *, would: bool = False) -> str:
    """A template that came into another state, in a line."""
    now = f"would be {changed.new}, and is {changed.old}" if would else f"is {changed.new} now, and was {changed.old}"
    return f"{changed.template} {now}: {one_line(changed.reason, 200)}"


def author() -> str:
    """Who is at the keyboard, by the name of the login."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # what a container without a name for its user gives, by version
        return "user"


class Tags(click.ParamType[tuple[str, ...]]):
    """Words with commas between them: `a,b`."""

    name = "a,b"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        return tuple(dict.fromkeys(filter(None, map(str.strip, value.split(",")))))


class Tools(click.ParamType[list[Mapping[str, Any] | str]]):
    """A JSON file with tool definitions as OpenAI, Anthropic or MCP shape them, or with bare names."""

    name = "file"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> list[Mapping[str, Any] | str]:
        if isinstance(value, list):
            return value
        path = click.Path(exists=True, dir_okay=False, path_type=Path).convert(value, param, ctx)
        try:
            found = msgspec.json.decode(Path(path).read_bytes())
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self.fail(f"{value!r} is not JSON ({error})", param, ctx)
        if isinstance(found, dict):
            found = found.get("tools")
        if not isinstance(found, list) or not all(isinstance(tool, dict | str) for tool in found):
            self.fail(f"{value!r} has no tool definitions; write a list of them, as for the model's API", param, ctx)
        return found


def tools_option(decorated: Decorated) -> Decorated:
    """Which tools there are."""
    option = click.option(
        "--tools", type=Tools(), help="A JSON file with the definitions of the tools that the session has."
    )
    return option(decorated)
