"""`warmstart templates`: what worked, made into something that the next session starts from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from typing import Any, get_args

import click

from warmstart.cli.output import counted, one_line, print_json, printable, settings, table
from warmstart.cli.templates_options import (
    STATES,
    TYPES,
    Tags,
    author,
    json_option,
    settled,
    templates,
    tools_option,
)
from warmstart.cli.templates_report import kinds, print_rendering, print_template, rendering_dict, template_dict, usage
from warmstart.config import Settings, without_password
from warmstart.errors import ConfigError
from warmstart.profile.values import TaskType
from warmstart.redact.configured import configured_redactor
from warmstart.templates.bootstrapper import WarmSessionBootstrapper
from warmstart.templates.choosing.effect import effect
from warmstart.templates.choosing.statistics import stats as statistics
from warmstart.templates.rendering.values import Renderer, Shape
from warmstart.templates.revoking import revoked
from warmstart.templates.store import TemplateFilter
from warmstart.templates.values import State, WarmTemplate

_NONE = "No templates. `warmstart templates extract SESSION --name NAME` makes one of a session that went well."


# The other commands, and where they are: each is loaded when it is called.
_ELSEWHERE = {
    "delete": ("versions", "delete"),
    "validate": ("moving", "validate"),
    "history": ("versions", "history"),
    "diff": ("versions", "diff"),
    "revert": ("versions", "revert"),
    "edit": ("versions", "edit"),
    "export": ("moving", "export_command"),
    "import": ("moving", "import_command"),
    "stats": ("choosing", "stats"),
    "auto": ("choosing", "auto"),
    "suggest": ("choosing", "suggest"),
    "revoke": ("versions", "revoke"),
    "promote": ("versions", "promote"),
    "retire": ("versions", "retire"),
    "why": ("choosing", "why"),
}


class _Group(click.Group):
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
    """Carry what worked from one session into the next.

    A template is made of sessions that went well: instructions, calls that worked, mistakes and how they were mended.
    A new session that starts from it has them in its first messages. Everywhere ID is a template's id, the beginning
    of it, or its name.
    """


@command.command(epilog='Example: warmstart templates extract 58e3c7d9 --name surges --description "Tide surges"')
@click.argument("sessions", metavar="SESSION...", nargs=-1, required=True)
@click.option("--name", required=True, help="What to call it.")
@click.option("--description", default="", help="What it is good for. Default: what the sessions did, by rule.")
@click.option("--type", "task_type", type=TYPES, help="What kind of work it is for. Default: as the sessions were.")
@click.option("--tags", type=Tags(), default="", help="Words to find it by.")
@click.option(
    "--max-examples",
    type=click.IntRange(1, 20),
    default=3,
    show_default=True,
    help="At most so many sub-tasks shown call by call.",
)
@click.option("--keep-values", is_flag=True, help="Keep values that are particular to the old task as they are.")
@click.option(
    "--allow",
    type=click.Choice(("destructive", "network")),
    multiple=True,
    help="Show calls of this kind too, which are left out otherwise; may be given twice.",
)
@tools_option
@click.option(
    "--describe", is_flag=True, help="Let the model in the settings write the description, from tasks, tools and files."
)
@json_option
def extract(
    sessions: tuple[str, ...],
    name: str,
    description: str,
    task_type: TaskType | None,
    tags: tuple[str, ...],
    max_examples: int,
    keep_values: bool,
    allow: tuple[str, ...],
    tools: list[Mapping[str, Any] | str] | None,
    describe: bool,
    as_json: bool,
) -> None:
    """Make a template of sessions that went well.

    From several sessions at once, what more of them have comes first. Only what ended well is shown, secrets are
    replaced, and so are values that belong to the old task: `{{date}}`, `{{email}}`. No model is asked, unless
    --describe is given.
    """
    if not name.strip():
        raise click.UsageError("--name needs a word to call the template by")
    from warmstart.templates.making import make  # with all of extraction, which the other commands do not need

    current = settings()
    with templates(current) as store:
        made = make(
            store.sessions,
            sessions,
            name=name,
            description=description,
            task_type=task_type,
            tags=tags,
            max_examples=max_examples,
            redactor=configured_redactor(current),
            tools=tools,
            allow=allow,
            placeholders=not keep_values,
            revoked=revoked(store),
            kinds=current.profile_tools,
        )
        if describe:
            made = _described(made, current)
        kept = store.add(made, author=author(), reason=f"extracted from {counted(len(made.sources), 'session')}")
        others = [other.id for other in store.summaries() if other.name == kept.name and other.id != kept.id]
    if as_json:
        print_json(template_dict(kept))
        return
    click.echo(f"{kept.id}  {printable(kept.name)}: {kinds(kept.seed)}")
    for note in kept.seed.notes:
        click.echo(f"Note: {one_line(note.text, 200)}", err=True)
    if others:
        click.echo(f"{others[0]} has this name too: from now on both are named by their ids.", err=True)
    click.echo(f'`warmstart templates test {kept.id} "MESSAGE"` shows what a session would start with.', err=True)


def _described(made: WarmTemplate, current: Settings) -> WarmTemplate:
    """The template with a description by the model in the settings."""
    if not current.templates_endpoint or not current.templates_model:
        raise ConfigError(
            "--describe needs a model: set templates.endpoint and templates.model in config.toml, "
            "or WARMSTART_TEMPLATES_ENDPOINT and WARMSTART_TEMPLATES_MODEL"
        )
    from warmstart.templates.describing import ask_model

    click.echo(
        f"Its tasks and the names of its tools and files are sent to {without_password(current.templates_endpoint)}.",
        err=True,
    )
    return ask_model(
        made,
        endpoint=current.templates_endpoint,
        model=current.templates_model,
        key=current.templates_key,
        redactor=configured_redactor(current),
    )


@command.command("list", epilog="Example: warmstart templates list --state active --tags tidewatch")
@click.option("--type", "task_type", type=TYPES, help="Only templates for this kind of work.")
@click.option("--tags", type=Tags(), default="", help="Only templates that have all of these.")
@click.option("--state", type=STATES, help="Only templates in this state.")
@json_option
def list_command(task_type: TaskType | None, tags: tuple[str, ...], state: State | None, as_json: bool) -> None:
    """List templates: what each is for, and how the sessions went that started from it."""
    current = settings()
    with templates(current) as store:
        settled(store, current)
        found = store.list(TemplateFilter(type=task_type, tags=tags, state=state))
        there = bool(found) or bool(store.summaries())
        effects = {line.id: line.usage.effect for line in statistics(store).lines} if found else {}
    if as_json:
        rows = [replace(template, effect=effects.get(template.id)) for template in found]
        print_json([template_dict(row, seed=False) for row in rows])
    elif not found:
        click.echo("No template is like that; `warmstart templates list` shows all." if there else _NONE, err=True)
    else:
        cells = [
            (template.id, one_line(template.name, 40), template.state, usage(template), template.description)
            for template in found
        ]
        table(("id", "name", "state", "usage", "description"), cells, spare=("state",))


@command.command(
    epilog="Example: warmstart templates extract 58e3c7d9 --name surges && warmstart templates show surges"
)
@click.argument("id")
@click.option("--version", type=click.IntRange(min=1), help="As it was in this version. Default: as it is.")
@json_option
def show(id: str, version: int | None, as_json: bool) -> None:
    """Show what a template carries, and which session each piece is from."""
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
@click.argument("id")
@click.argument("message")
@click.option(
    "--renderer",
    type=click.Choice(get_args(Renderer)),
    default="messages",
    show_default=True,
    help="As messages with tool calls, as text in the system prompt, or as XML there.",
)
@click.option(
    "--shape", type=click.Choice(get_args(Shape)), default="openai", show_default=True, help="Whose API it is for."
)
@click.option("--budget", type=click.IntRange(min=1), help="At most so many tokens. Default: as in the settings.")
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
    """Show exactly the messages that a session that begins with MESSAGE would start with.

    Nothing is sent, and nothing is recorded. With the tokens of each part, and what was left out, and why.
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
            f"before `warmstart templates promote {template.id}`.",
            err=True,
        )
    if as_json:
        print_json(rendering_dict(template, warm.rendering, messages))
    else:
        print_rendering(template, warm.rendering, messages)
