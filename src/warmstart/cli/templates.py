"""`warmstart templates`: what worked in past sessions, for new ones to start from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from warmstart.app import Warmstart
from warmstart.cli.completion import complete_agents, complete_sessions, complete_templates
from warmstart.cli.options import SHARE, Count, Group, Tags, json_option, project_options, scope_of, tools_option
from warmstart.cli.output import (
    as_data,
    counted,
    local,
    one_line,
    print_json,
    print_scope,
    progress_bar,
    rename_keys,
    settings,
    table,
    warn_skip,
)
from warmstart.cli.templates_output import (
    STATES,
    TYPES,
    author,
    carried_lines,
    describe_change,
    describe_effect,
    describe_rate,
    kinds,
    percent,
    print_costs,
    print_facts,
    print_messages,
    print_template,
    rendering_dict,
    settle_uses,
    template_dict,
    templates,
    usage,
)
from warmstart.cli.terminal import printable
from warmstart.config import Settings, without_password
from warmstart.errors import ConfigError, TemplateNotFound
from warmstart.profile.values import TaskType
from warmstart.redact.redactor import configured_redactor
from warmstart.sessions.projects import short_names
from warmstart.templates.lifecycle import Counts, count_uses, review
from warmstart.templates.store import SQLTemplateStore
from warmstart.templates.template import State, WarmTemplate

if TYPE_CHECKING:
    from warmstart.templates.audit import Statistics, Use
    from warmstart.templates.rendering import Renderer, Shape
    from warmstart.templates.selection import Choice, Suggestion

_CREATE = "`warmstart templates extract SESSION --name NAME` creates one"
_NEW = "warmstart templates extract 58e3c7d9 --name surges && "
_DEADLINE_MS = 5000.0  # a person waits longer than a host does

# Commands in `templates_versions`, which is loaded when one of them is called.
_VERSIONS = [
    "delete",
    "validate",
    "history",
    "diff",
    "revert",
    "edit",
    "export",
    "import",
    "revoke",
    "promote",
    "retire",
]


class _Group(Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.commands, *_VERSIONS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _VERSIONS:
            return super().get_command(ctx, cmd_name)
        command: click.Command = getattr(import_module("warmstart.cli.templates_versions"), f"{cmd_name}_command")
        return command


@click.group(
    cls=_Group,
    epilog="Example: warmstart templates extract 58e3c7d9 --name surges && warmstart templates list",
)
def command() -> None:
    """Start new sessions from what worked in past ones.

    A template is a named selection of what sessions taught: instructions, commands that work, past mistakes and
    fixes, procedures. A session that starts from it has them in its first messages. ID is a template's id, the
    beginning of it, or its name.
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
    help="Maximum number of procedures.",
)
@click.option(
    "--allow",
    metavar="COMMAND",
    multiple=True,
    help="Also carry this command, which is not known to be safe. Repeatable.",
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
    allow: tuple[str, ...],
    keep_values: bool,
    tools: list[Mapping[str, Any] | str] | None,
    describe: bool,
    as_json: bool,
) -> None:
    """Create a template from sessions that went well.

    Ten to twenty different sessions are a good warm-up. What several have in common comes first. Secrets are replaced,
    and in API calls values of the old task are too: `{{email}}`. No model is called unless you pass --describe.
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
            allow=allow,
            placeholders=not keep_values,
        )
        summaries = app.templates.store.summaries()
    others = [other.id for other in summaries if other.name == kept.name and other.id != kept.id]
    if as_json:
        print_json(template_dict(kept))
        return
    click.echo(f"{kept.id}  {printable(kept.name)}: {kinds(kept.seed)}")
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
    from warmstart.templates.describe import ask_model

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
    from warmstart.templates.selection import is_project

    current = settings()
    with templates(current) as store:
        scope = scope_of(project, all_projects, store.sessions.projects())
        settle_uses(store, current)
        found = [
            each
            for each in store.list()
            if (task_type in (None, each.task_type) and state in (None, each.state))
            and {tag.casefold() for tag in tags} <= {tag.casefold() for tag in each.tags}
            and (not each.project or not scope.project or is_project(each.project, scope.project))
        ]
        counts = count_uses(store) if as_json else {}
    if as_json:
        rows = [replace(each, effect=counts.get(each.id, Counts()).effect) for each in found]
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
        template = replace(template, effect=count_uses(store).get(template.id, Counts()).effect)
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
    type=click.Choice(("messages", "system", "xml")),
    default="messages",
    show_default=True,
    help="Render as messages with tool calls, as text for the system prompt, or as XML.",
)
@click.option(
    "--shape",
    type=click.Choice(("openai", "anthropic")),
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
    """Show exactly how a session whose first message is MESSAGE would start from a template.

    The messages go to standard output; their tokens, and what was left out and why, to standard error. Nothing is sent
    or recorded. The brief of the project (`warmstart brief`) comes in addition.
    """
    from warmstart.templates.start import WarmSessionBootstrapper

    current = settings()
    with templates(current) as store:
        template = store.get(id)
    warm = WarmSessionBootstrapper(
        template,
        tools=tools,
        renderer=renderer,
        shape=shape,
        budget_tokens=budget or current.templates_budget_tokens,
        task=message,
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
        print_messages(messages)
        print_costs(warm.rendering)


@command.command(epilog=f'Example: {_NEW}warmstart templates suggest "keep a table of storm warnings" --all-projects')
@click.argument("task", nargs=-1, required=True)
@project_options
@click.option("--agent", default="", shell_complete=complete_agents, help="The agent of the session.")
@click.option("--seed", type=Count(0), help="Also draw an arm as a session would, with this random seed.")
@tools_option
@json_option
def suggest(
    task: tuple[str, ...],
    project: str,
    all_projects: bool,
    agent: str,
    seed: int | None,
    tools: list[Mapping[str, Any] | str] | None,
    as_json: bool,
) -> None:
    """Show which template a session with this TASK would start from, how confident the choice is, and why.

    If nothing fits, a session starts cold. Nothing is recorded.
    """
    from warmstart.recall.recall import Recall  # loads numpy
    from warmstart.templates.selection import Policy, Selector, Task

    current = settings()
    text = " ".join(task)
    policy = Policy(holdout=current.templates_holdout, explore=current.templates_explore)
    with templates(current) as store:
        scope = scope_of(project, all_projects, store.sessions.projects())
        settle_uses(store, current)
        recall = Recall(store.sessions)
        with progress_bar("Indexing") as progress:
            recall.update(progress)
        selector = Selector(store, recall=recall, policy=policy, deadline_ms=_DEADLINE_MS)
        asked = Task(text, project=scope.project or None, agent=agent, tools=tools)
        found = selector.suggest(asked)
        choice = selector.choose(asked, seed=seed)
    if as_json:
        print_json(_suggestions_dict(text, found, choice, seed))
        return
    if not found:
        click.echo(f"Start cold: {one_line(choice.why, 400)}.")
        if "of another project" in choice.why:
            click.echo("--all-projects also considers templates of other projects.", err=True)
        return
    for number, each in enumerate(found, 1):
        click.secho(f"{number}. {printable(each.name)}  {each.id}", bold=True)
        share = choice.odds.get(each.id)
        drawn = "" if share is None else f"; chosen for {percent(share)} of such sessions"
        click.echo(f"   confidence: {each.sure:.2f}{drawn}")
        click.echo(f"   why: {one_line(each.why, 400)}")
    click.echo(f"{percent(choice.policy.holdout)} of sessions start cold as a control group.", err=True)
    if seed is not None:
        click.echo(f"With seed {seed}: {choice.arm}, {one_line(choice.why, 400)}.")


def _suggestions_dict(task: str, found: Sequence[Suggestion], choice: Choice, seed: int | None) -> dict[str, Any]:
    drawn = None
    if seed is not None:
        drawn = {
            "seed": seed,
            "arm": choice.arm,
            "template_id": choice.template.id if choice.template else None,
            "why": choice.why,
            "propensity": choice.propensity,
        }
    return {
        "task": task,
        "abstain": not found,
        "why": choice.why if not found else found[0].why,
        "suggestions": [
            {
                **rename_keys(each, id="template_id"),
                "odds": choice.odds.get(each.id),
            }
            for each in found
        ],
        "holdout": choice.policy.holdout,
        "drawn": drawn,
    }


@command.command(epilog="Example: warmstart templates why 58e3c7d9")
@click.argument("session", shell_complete=complete_sessions)
@json_option
def why(session: str, as_json: bool) -> None:
    """Show what a session started with: which template and version, which items, and why.

    Sessions that started cold are explained too.
    """
    from warmstart.templates.audit import why as find_uses

    current = settings()
    with templates(current) as store:
        settle_uses(store, current)
        found = find_uses(store, session)
        carried = {use.id: _carried(store, use) for use in found}
    if as_json:
        print_json(
            [rename_keys(use, session="session_id", template="template_id", calls="tool_calls") for use in found]
        )
    elif not found:
        click.echo(f"No record of how session {one_line(session, 60)} started: no template was involved.", err=True)
    else:
        for use in found:
            _print_use(use)
            for line in carried[use.id]:
                click.echo(line)


def _carried(store: SQLTemplateStore, use: Use) -> list[str]:
    """The items that a session started with; none if they were revoked or deleted since."""
    if use.arm != "warm":
        return []
    try:
        return list(carried_lines(store.get(use.template, version=use.version), use.items))
    except TemplateNotFound:
        return []


def _print_use(use: Use) -> None:
    arms = {
        "warm": f"started from {use.template}, version {use.version}",
        "holdout": f"started cold, in the control group of {use.template}, version {use.version}",
        "abstained": "started cold",
    }
    click.secho(printable(f"{local(use.at)}  {use.session} {arms[use.arm]}"), bold=True)
    facts = {
        "why": use.why,
        "task": use.task,
        "project": use.project,
        "propensity": percent(use.propensity),
        "outcome": use.outcome or "not yet known",
        "errors": f"{use.errors} of {counted(use.calls, 'call')}" if use.calls is not None else "",
        "carried": f"{counted(len(use.items), 'item')}, {use.tokens} tokens" if use.arm == "warm" else "",
    }
    print_facts(facts)


@command.command(epilog="Example: warmstart templates stats")
@json_option
def stats(as_json: bool) -> None:
    """Compare sessions that started from templates with sessions that started cold.

    Rates and effects come with 95 % intervals.
    """
    from warmstart.templates.audit import stats as count_all

    current = settings()
    with templates(current) as store:
        settle_uses(store, current, always=True)
        found = count_all(store)
    if as_json:
        names = ("name", "state", "task_type", "version")
        lines = [
            {"template_id": each.id, **{name: getattr(each, name) for name in names}, "usage": _usage_dict(counts)}
            for each, counts in found.lines
        ]
        print_json({**as_data(found), "usage": _usage_dict(found.usage), "lines": lines})
    else:
        _print_statistics(found)


def _usage_dict(counts: Counts) -> dict[str, Any]:
    rate = counts.successes / counts.known if counts.known else None
    return {**counts._asdict(), "rate": rate, "interval": counts.interval, "effect": counts.effect}


def _print_statistics(found: Statistics) -> None:
    click.echo(f"{counted(found.templates, 'template')}, {counted(found.examples, 'example')}.")
    for name, numbers in (("By state", found.states), ("By type", found.types)):
        parts = ", ".join(f"{number} {each}" for each, number in sorted(numbers.items()))
        if parts:
            click.echo(f"{name}: {parts}.")
    usage = found.usage
    if not (usage.used or usage.held_out or found.abstained):
        click.echo("No session has started from them yet, so their effect is not yet known.")
        return
    click.echo(
        f"{counted(usage.used, 'session')} started warm, {usage.held_out} cold as a control group, "
        f"{found.abstained} cold because nothing fit; {found.open} outcomes are not yet known."
    )
    click.echo(f"Effect: {describe_effect(usage.effect)}.")
    if found.lines:
        click.echo()
        rows = [
            (
                each.id,
                one_line(each.name, 40),
                each.state,
                counts.used,
                describe_rate(counts),
                describe_effect(counts.effect),
            )
            for each, counts in found.lines
        ]
        table(
            ("id", "name", "state", "used", "success", "effect"),
            rows,
            right=("used",),
            spare=("success", "used"),
            flexible=("name", "effect"),
        )


@command.command(epilog="Example: warmstart templates auto --min-calls 10 --dry-run")
@click.option(
    "--min-calls",
    type=Count(1),
    default=5,
    show_default=True,
    help="Minimum number of tool calls of a session.",
)
@click.option(
    "--max-error-rate",
    type=SHARE,
    default=0.1,
    show_default=True,
    help="Maximum share of failed calls of a session.",
)
@project_options
@click.option("--dry-run", is_flag=True, help="Show what would be created, but create nothing.")
@json_option
def auto(min_calls: int, max_error_rate: float, project: str, all_projects: bool, dry_run: bool, as_json: bool) -> None:
    """Create templates from sessions that went well, one per project and task type.

    They are candidates: no session starts from one until you promote it. Earlier candidates are updated, and templates
    that did harm or were not used for long are retired.
    """
    from warmstart.templates.audit import settle
    from warmstart.templates.auto import auto as make_all

    current = settings()
    with templates(current) as store:
        scope = scope_of(project, all_projects, store.sessions.projects())
        settle(store, tools=current.profile_tools)
        with progress_bar("Profiling") as progress:
            made = make_all(
                store,
                min_calls=min_calls,
                max_error_rate=max_error_rate,
                dry_run=dry_run,
                project=scope.project,
                kinds=current.profile_tools,
                redactor=configured_redactor(current),
                progress=progress,
                skip=warn_skip,
            )
        changed = review(store, max_age_days=current.templates_max_age_days, dry_run=dry_run)
    if as_json:
        groups = [
            {
                **rename_keys(each, sessions="session_ids"),
                "template": template_dict(each.template, seed=False) if each.template else None,
            }
            for each in made
        ]
        print_json({"groups": groups, "states": as_data(changed), "dry_run": dry_run})
        return
    print_scope(sum(len(each.sessions) for each in made), "session", scope)
    names = short_names(each.project for each in made)
    rows = [
        (
            each.action if not dry_run or each.action == "skipped" else f"would be {each.action}",
            each.task_type,
            names[each.project] or "no project",
            len(each.sessions),
            each.template.id if each.template else "",
            each.why,
        )
        for each in made
    ]
    if not rows:
        return
    table(
        ("what", "type", "project", "sessions", "template", "why"),
        rows,
        right=("sessions",),
        spare=("sessions",),
        flexible=("project", "why"),
    )
    for each in changed:
        click.echo(describe_change(each, would=dry_run), err=True)
