"""`warmstart templates`: what worked in past sessions, for new ones to start from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any, get_args

import click

from warmstart.app import Warmstart
from warmstart.cli.completion import complete_sessions, complete_templates
from warmstart.cli.options import Count, Group, Tags, json_option, project_options, scope_of, tools_option
from warmstart.cli.output import one_line, print_json, print_scope, settings, table, warn_skip
from warmstart.cli.templates_report import (
    STATES,
    TYPES,
    author,
    kinds,
    print_rendering,
    print_template,
    rendering_dict,
    settle_uses,
    template_dict,
    templates,
    usage,
)
from warmstart.cli.terminal import printable
from warmstart.config import Settings, without_password
from warmstart.errors import ConfigError
from warmstart.profile.values import TaskType
from warmstart.redact.configured import configured_redactor
from warmstart.templates.bootstrapper import WarmSessionBootstrapper
from warmstart.templates.choosing.effect import effect
from warmstart.templates.choosing.statistics import stats as statistics
from warmstart.templates.rendering.values import Renderer, Shape
from warmstart.templates.store import TemplateFilter
from warmstart.templates.values import State, WarmTemplate

_CREATE = "`warmstart templates extract SESSION --name NAME` creates one"

# Commands in other modules, which are loaded when they are called.
_ELSEWHERE = {
    "delete": ("versions", "delete"),
    "validate": ("versions", "validate"),
    "history": ("versions", "history"),
    "diff": ("versions", "diff"),
    "revert": ("versions", "revert"),
    "edit": ("versions", "edit"),
    "export": ("versions", "export_command"),
    "import": ("versions", "import_command"),
    "stats": ("selection", "stats"),
    "auto": ("selection", "auto"),
    "suggest": ("selection", "suggest"),
    "revoke": ("versions", "revoke"),
    "promote": ("versions", "promote"),
    "retire": ("versions", "retire"),
    "why": ("selection", "why"),
}


class _Group(Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.commands, *_ELSEWHERE]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _ELSEWHERE:
            return super().get_command(ctx, cmd_name)
        module, name = _ELSEWHERE[cmd_name]
        command: click.Command = getattr(import_module(f"warmstart.cli.templates_{module}"), name)
        return command


@click.group(
    cls=_Group,
    epilog="Example: warmstart templates extract 58e3c7d9 --name surges && warmstart templates list",
)
def command() -> None:
    """Start new sessions from what worked in past ones.

    A template holds instructions, tool calls that worked, and past mistakes with their fixes. A session that starts
    from it has them in its first messages. ID is a template's id, the beginning of it, or its name.
    """


@command.command(epilog='Example: warmstart templates extract 58e3c7d9 --name surges --description "Tide surges"')
@click.argument("sessions", metavar="SESSION...", nargs=-1, required=True, shell_complete=complete_sessions)
@click.option("--name", required=True, help="The name of the template.")
@click.option("--description", default="", help="What it is for. Default: derived from the sessions.")
@click.option("--type", "task_type", type=TYPES, help="The task type. Default: that of the sessions.")
@click.option("--tags", type=Tags(), default="", help="Tags to find it by.")
@click.option(
    "--max-examples",
    type=Count(1, 20),
    default=3,
    show_default=True,
    help="Maximum number of demonstrations.",
)
@click.option("--keep-values", is_flag=True, help="Keep values that belong to the old task.")
@tools_option
@click.option("--describe", is_flag=True, help="Have the configured model write the description.")
@json_option
def extract(
    sessions: tuple[str, ...],
    name: str,
    description: str,
    task_type: TaskType | None,
    tags: tuple[str, ...],
    max_examples: int,
    keep_values: bool,
    tools: list[Mapping[str, Any] | str] | None,
    describe: bool,
    as_json: bool,
) -> None:
    """Create a template from sessions that went well.

    What several sessions have in common comes first. Secrets are replaced, and so are values that belong to the old
    task: `{{date}}`, `{{email}}`. No model is called unless you pass --describe.
    """
    if not name.strip():
        raise click.UsageError("--name must not be empty")
    current = settings()
    with Warmstart(current) as app:
        kept = app.templates.extract(
            *sessions,
            name=name,
            author=author(),
            revise=partial(_describe, current=current) if describe else lambda template: template,
            skip=warn_skip,
            description=description,
            task_type=task_type,
            tags=tags,
            max_examples=max_examples,
            tools=tools,
            placeholders=not keep_values,
        )
        summaries = app.templates.store.summaries()
    others = [other.id for other in summaries if other.name == kept.name and other.id != kept.id]
    if as_json:
        print_json(template_dict(kept))
        return
    click.echo(f"{kept.id}  {printable(kept.name)}: {kinds(kept.seed)}")
    for note in kept.seed.notes:
        click.echo(f"Note: {one_line(note.text, 200)}", err=True)
    if others:
        click.echo(f"{others[0]} has the same name; use the ids to tell them apart.", err=True)
    click.echo(f'`warmstart templates test {kept.id} "MESSAGE"` shows how a session would start.', err=True)


def _describe(template: WarmTemplate, current: Settings) -> WarmTemplate:
    """The template with a description by the configured model."""
    if not current.templates_endpoint or not current.templates_model:
        raise ConfigError(
            "--describe needs a model: set templates.endpoint and templates.model in config.toml, "
            "or WARMSTART_TEMPLATES_ENDPOINT and WARMSTART_TEMPLATES_MODEL"
        )
    from warmstart.templates.describing import ask_model

    click.echo(
        f"Sending its tasks and the names of its tools and files to {without_password(current.templates_endpoint)}.",
        err=True,
    )
    return ask_model(
        template,
        endpoint=current.templates_endpoint,
        model=current.templates_model,
        key=current.templates_key,
        redactor=configured_redactor(current),
    )


@command.command("list", epilog="Example: warmstart templates list --state active --tags tidewatch")
@click.option("--type", "task_type", type=TYPES, help="Only this task type.")
@click.option("--tags", type=Tags(), default="", help="Only templates with all of these tags.")
@click.option("--state", type=STATES, help="Only this state.")
@project_options
@json_option
def list_command(
    task_type: TaskType | None,
    tags: tuple[str, ...],
    state: State | None,
    project: str,
    all_projects: bool,
    as_json: bool,
) -> None:
    """List the templates of the project, and those of no project."""
    current = settings()
    with templates(current) as store:
        scope = scope_of(project, all_projects, store.sessions.projects())
        settle_uses(store, current)
        found = store.list(TemplateFilter(type=task_type, tags=tags, state=state))
        if scope.project:
            found = [each for each in found if not each.project or _is_in(each.project, scope.project)]
        effects = {line.id: line.usage.effect for line in statistics(store).lines} if found else {}
    if as_json:
        rows = [replace(template, effect=effects.get(template.id)) for template in found]
        print_json([template_dict(row, seed=False) for row in rows])
    elif found:
        cells = [
            (template.id, one_line(template.name, 40), template.state, usage(template), template.description)
            for template in found
        ]
        columns = ("id", "name", "state", "usage", "description")
        table(columns, cells, spare=("usage",), flexible=("name", "description"))
    if not found or not as_json:
        filters = "matching" if task_type or tags or state else ""
        print_scope(len(found), "template", scope, filters, create=_CREATE)


def _is_in(path: str, project: str) -> bool:
    """Whether a project has this path, or a name that is the end of it."""
    return path == project or path.endswith(f"/{project}")


@command.command(
    epilog="Example: warmstart templates extract 58e3c7d9 --name surges && warmstart templates show surges"
)
@click.argument("id", shell_complete=complete_templates)
@click.option("--version", type=Count(1), help="An earlier version.")
@json_option
def show(id: str, version: int | None, as_json: bool) -> None:
    """Show the items of a template, and which session each comes from."""
    with templates() as store:
        template = store.get(id, version=version)
        template = replace(template, effect=effect(store, template.id))
    if as_json:
        print_json(template_dict(template))
    else:
        print_template(template)


@command.command(
    epilog="Example: warmstart templates extract 58e3c7d9 --name surges && "
    'warmstart templates test surges "keep the storm warnings in the database"'
)
@click.argument("id", shell_complete=complete_templates)
@click.argument("message")
@click.option(
    "--renderer",
    type=click.Choice(get_args(Renderer)),
    default="messages",
    show_default=True,
    help="Render as messages with tool calls, as text for the system prompt, or as XML.",
)
@click.option(
    "--shape",
    type=click.Choice(get_args(Shape)),
    default="openai",
    show_default=True,
    help="The API they are for.",
)
@click.option("--budget", type=Count(1), help="Maximum number of tokens. Default: templates.budget_tokens.")
@tools_option
@json_option
def test(
    id: str,
    message: str,
    renderer: Renderer,
    shape: Shape,
    budget: int | None,
    tools: list[Mapping[str, Any] | str] | None,
    as_json: bool,
) -> None:
    """Show exactly how a session whose first message is MESSAGE would start.

    Lists the tokens of each part, and what was left out and why. Nothing is sent or recorded.
    """
    current = settings()
    with templates(current) as store:
        template = store.get(id)
    warm = WarmSessionBootstrapper(
        template,
        tools=tools,
        renderer=renderer,
        shape=shape,
        budget_tokens=budget or current.templates_budget_tokens,
        redactor=configured_redactor(current),
        allow_quarantined=True,
    )
    messages = warm.inject([{"role": "user", "content": message}])
    if template.state in ("quarantined", "retired"):
        click.echo(
            f"Warning: {template.id} is {template.state}; no session starts from it "
            f"until you run `warmstart templates promote {template.id}`.",
            err=True,
        )
    if as_json:
        print_json(rendering_dict(template, warm.rendering, messages))
    else:
        print_rendering(template, warm.rendering, messages)
