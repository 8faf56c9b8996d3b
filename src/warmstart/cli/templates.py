"""`warmstart templates`: what worked in past sessions, for new ones to start from."""

from __future__ import annotations

import getpass
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args

import click

from warmstart.app import Warmstart
from warmstart.cli.completion import complete_sessions, complete_templates
from warmstart.cli.options import Count, Group, Tags, json_option, project_options, scope_of
from warmstart.cli.output import as_data, print_facts, print_json, print_rows, print_scope, rename_keys, settings, table
from warmstart.cli.terminal import counted, local, one_line, printable
from warmstart.profile.calls import SHELLS, command_in
from warmstart.profile.values import TaskType
from warmstart.templates.item import Item, Kind, item_id
from warmstart.templates.lifecycle import AUTHOR, Changed, Counts, count_uses, review
from warmstart.templates.store import SQLTemplateStore, Summary
from warmstart.templates.template import Effect, SessionSeed, State, WarmTemplate

if TYPE_CHECKING:
    from warmstart.templates.make import Explained
    from warmstart.templates.rendering import Renderer, Rendering

_TYPES = click.Choice(get_args(TaskType))
_STATES = click.Choice(get_args(State))
_TITLES: dict[Kind, str] = {
    "instruction": "Standing instructions",
    "correction": "Corrections",
    "decision": "Decisions",
    "command": "Commands",
    "trap": "Past mistakes and fixes",
    "file": "Files",
    "reference": "References",
    "context": "From the program's system prompt",
    "example": "Call examples",
    "open": "Where work stopped",
    "habit": "The user's habits (weak evidence)",
}
_MARKS = {True: "yes", False: "no"}
_SESSION_CHARS = 10  # of a session's id
_CREATE = "`warmstart templates extract SESSION` creates one"
NEW = "Example: warmstart templates extract 58e3c7d9 --name surges && "


@click.group(
    cls=Group,
    module="templates_manage",
    aliases={"create": "extract"},
    epilog=f"{NEW}warmstart templates list",
)
def command() -> None:
    """Start new sessions from what worked in past ones.

    A template is a named selection of what sessions learned: instructions, commands that work, past mistakes and
    fixes, examples of calls. A session that starts from it has them in its first messages. ID is a template's id, a
    prefix of it, or its name.
    """


def creation_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the arguments and options of the commands that create a template."""
    options = (
        click.argument("sessions", metavar="SESSION...", nargs=-1, required=True, shell_complete=complete_sessions),
        click.option("--name", default="", help="The name of the template. Default: its type, session and time."),
        click.option("--description", default="", help="What it is for. Default: derived from the sessions."),
        click.option("--type", "task_type", type=_TYPES, help="The task type. Default: that of the sessions."),
        click.option("--tags", type=Tags(), default="", help="Tags to find it by."),
        click.option(
            "--max-examples", type=Count(1, 20), default=10, show_default=True, help="Maximum number of examples."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


@command.command(epilog='Example: warmstart templates extract 58e3c7d9 --name surges --description "Tide surges"')
@creation_options
@click.option(
    "--allow",
    metavar="COMMAND",
    multiple=True,
    help="Also carry this command even though it is not known to be safe; repeatable.",
)
@click.option("--keep-values", is_flag=True, help="Keep values that belong to the old task.")
@click.option("--explain", is_flag=True, help="Also list the calls that are examples, and why the others are not.")
@json_option
def extract(sessions: tuple[str, ...], keep_values: bool, explain: bool, as_json: bool, **options: Any) -> None:
    """Create a template from sessions that went well.

    Ten to twenty different sessions work well. Items that several have in common come first. Secrets are replaced,
    and so are values of the old task in API calls: `{{email}}`. `templates create` is the same command.
    """
    with Warmstart(settings()) as ws:
        calls = ws.templates.explain_examples(*sessions, max_examples=options["max_examples"]) if explain else []
        if calls and not as_json:
            _print_calls(calls)
        template = ws.templates.extract(*sessions, author=author(), placeholders=not keep_values, **options)
        note_failures(ws, template)
        summaries = ws.templates.store.summaries()
    if as_json:
        explained = {"calls": [rename_keys(call, session="session_id") for call in calls]} if explain else {}
        print_json({**template_dict(template), **explained})
    else:
        print_created(template, summaries)


def _print_calls(calls: Sequence[Explained]) -> None:
    """Print which calls are examples, and why the others are not."""
    rows = [
        (
            call.session[:_SESSION_CHARS],
            call.turn,
            call.tool,
            one_line(command_in(call.call) or call.call, 60),
            _MARKS[call.is_carried],
            call.why,
        )
        for call in calls
    ]
    table(
        ("session", "turn", "tool", "call", "example", "why"), rows, spare=("session", "turn"), flexible=("call", "why")
    )


def note_failures(ws: Warmstart, template: WarmTemplate) -> None:
    """Say on standard error which sources of a template ended in failure, and why."""
    for session in map(ws.sessions.get, template.sources):
        if session.outcome == "failure":
            evidence = one_line(session.evidence, 120)
            click.echo(f"Session {session.id} ended in failure ({evidence}); what worked in it is carried.", err=True)


def print_created(template: WarmTemplate, summaries: Sequence[Summary]) -> None:
    """Print what a new template holds, and what to do next."""
    click.echo(f"{template.id}  {printable(template.name)}: {kinds(template.seed)}")
    others = [other.id for other in summaries if other.name == template.name and other.id != template.id]
    if others:
        click.echo(f"{others[0]} has the same name; use the ids to tell them apart.", err=True)
    click.echo(f'`warmstart templates test {template.id} "MESSAGE"` shows how a session would start.', err=True)


@command.command("list", epilog="Example: warmstart templates list --state active --tags tidewatch")
@click.option("--type", "task_type", type=_TYPES, help="Only this task type.")
@click.option("--tags", type=Tags(), default="", help="Only templates with any of these tags.")
@click.option("--state", type=_STATES, help="Only this state.")
@click.option("--long", "is_long", is_flag=True, help="Print each template as a block of lines.")
@project_options
@json_option
def list_command(
    task_type: TaskType | None,
    tags: tuple[str, ...],
    state: State | None,
    is_long: bool,
    project: str,
    all_projects: bool,
    as_json: bool,
) -> None:
    """List the project's templates, and those without a project, newest first."""
    with Warmstart(settings()) as ws:
        scope = scope_of(project, all_projects, ws.store.projects())
        settle_uses(ws)
        found = ws.templates.list_templates(task_type, tags, project=scope.project or None)
        counts = count_uses(ws.templates.store)
    rows = [
        replace(template, effect=counts.get(template.id, Counts()).effect)
        for template in found
        if state in (None, template.state)
    ]
    if is_long and not as_json:
        _print_blocks(rows)
    else:
        print_rows(
            rows,
            ("id", "name", "state", "usage", "description"),
            lambda row: (row.id, one_line(row.name, 40), row.state, usage(row), row.description),
            as_json=as_json,
            data=lambda row: template_dict(row, seed=False),
            spare=("usage",),
            flexible=("name", "description"),
        )
    if not rows or not as_json:
        filters = "matching" if task_type or tags or state else ""
        print_scope(len(rows), "template", scope, filters, create=_CREATE)


def _print_blocks(templates: Sequence[WarmTemplate]) -> None:
    """Print a heading, and four lines for each template."""
    if templates:
        click.secho("=== Warm Session Templates ===", bold=True)
    for template in templates:
        click.echo(f"\nID: {template.id}")
        click.echo(f"Name: {one_line(template.name, 200)}")
        click.echo(f"Description: {one_line(template.description, 400) or 'none'}")
        click.echo(f"Usage: {usage(template)}")


@command.command(epilog=f"{NEW}warmstart templates show surges")
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


@command.command(epilog=f'{NEW}warmstart templates test surges "keep the storm warnings in the database"')
@click.argument("id", shell_complete=complete_templates)
@click.argument("message")
@click.option(
    "--renderer",
    type=click.Choice(("messages", "system", "xml")),
    default="messages",
    show_default=True,
    help="Render as messages with tool calls, as text for the system prompt, or as XML.",
)
@json_option
def test(id: str, message: str, renderer: Renderer, as_json: bool) -> None:
    """Show exactly how a session whose first message is MESSAGE would start from a template.

    The messages go to standard output; their tokens, and what was left out and why, to standard error. Nothing is sent
    or recorded. The project's brief (`warmstart brief`) is not part of this.
    """
    from warmstart.templates.start import WarmSessionBootstrapper

    with Warmstart(settings()) as ws:
        template = ws.templates.get(id)
        warm = WarmSessionBootstrapper(
            template,
            renderer=renderer,
            budget_tokens=ws.settings.templates_budget_tokens,
            task=message,
            redactor=ws.redactor,
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
        head = {"template_id": template.id, "version": template.version, "state": template.state}
        names = ("tokens", "budget", "renderer", "parts", "items", "dropped")
        costs = {name: getattr(warm.rendering, name) for name in names}
        print_json({**head, "messages": messages, **costs})
    else:
        _print_messages(messages)
        _print_costs(warm.rendering)


# -- shared by the commands


@contextmanager
def templates() -> Iterator[SQLTemplateStore]:
    """The configured template store, with the user's redaction rules."""
    with Warmstart(settings()) as ws:
        yield ws.templates.store


def settle_uses(ws: Warmstart, *, always: bool = False) -> None:
    """Record the outcomes of sessions that started from templates, and update the states of the templates."""
    from warmstart.templates.audit import settle

    store = ws.templates.store
    if settle(store, tools=ws.settings.profile_tools) or always:
        for changed in review(store, max_age_days=ws.settings.templates_max_age_days):
            click.echo(describe_change(changed), err=True)


def author() -> str:
    """The login name of the user."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container whose user has no name
        return "user"
    return "user" if name == AUTHOR else name  # reserved for automatic changes


def kinds(seed: SessionSeed) -> str:
    """The items of a seed, counted: `2 examples, 3 commands`."""
    counts = Counter(item.kind for item in seed.items)
    nouns = {"open": "open point"}
    return ", ".join(counted(counts[kind], nouns.get(kind, kind)) for kind in _TITLES if counts[kind]) or "nothing"


def usage(template: WarmTemplate) -> str:
    """How many sessions started from a template, their success rate, and its effect if it is known to help."""
    if not template.used:
        return "not used yet"
    rate = template.success_rate
    result = "outcome unknown" if rate is None else f"{percent(rate)} success"
    effect = template.effect
    known = f", {effect.difference * 100:+.0f} points vs. cold" if effect and effect.low > 0 else ""
    return f"{counted(template.used, 'time')}, {result}{known}"


def percent(share: float) -> str:
    """A share as a percentage."""
    return f"{share:.0%}"


def describe_effect(effect: Effect | None) -> str:
    """A measured effect with its interval, or a note that it is not known."""
    if effect is None:
        return "not yet known"
    low, high = effect.low * 100, effect.high * 100
    return (
        f"{effect.difference * 100:+.0f} percentage points of success ({low:+.0f} to {high:+.0f}), "
        f"{effect.warm} warm vs. {effect.cold} cold sessions"
    )


def template_dict(template: WarmTemplate, *, seed: bool = True) -> dict[str, Any]:
    """A template for JSON output; lists leave out the seed."""
    row: dict[str, Any] = as_data(template)
    del row["seed"]
    row |= {
        "template_id": row.pop("id"),
        "tools": dict(template.tools),
        "success_rate": template.success_rate,
        "success_interval": as_data(template.success_interval),
        "usage": usage(template),
    }
    if seed:
        row["seed"] = {"items": [_item_dict(item) for item in template.seed.items]}
    return row


def _item_dict(item: Item) -> dict[str, Any]:
    sources = [rename_keys(source, session="session_id", message="message_id") for source in item.sources]
    return {"id": item_id(item), **as_data(item), "sources": sources}


def print_template(template: WarmTemplate, *, whole: bool = False) -> None:
    """Print a template: what it is, its items and their sources. `whole` truncates nothing."""
    head = f"{template.name}  {template.id}, version {template.version}, {template.state}"
    click.secho(printable(head), bold=True)
    if template.description:
        by = f" (by {template.described_by})" if template.described_by not in ("", "rules") else ""
        click.echo(printable(template.description + by))
    interval = template.success_interval
    between = f" ({percent(interval.low)} to {percent(interval.high)})" if interval else ""
    facts = {
        "for": ", ".join(filter(None, (template.task_type, template.project, template.agent))),
        "tags": ", ".join(template.tags),
        "origin": template.origin,
        "created": f"{local(template.created_at)}, changed {local(template.updated_at)}",
        "sources": ", ".join(template.sources),
        "tools": ", ".join(sorted(template.tools)),
        "usage": usage(template) + between,
        "effect": describe_effect(template.effect),
    }
    print_facts(facts)
    for kind, title in _TITLES.items():
        items = template.seed.of(kind)
        if items:
            click.echo()
            click.secho(title, bold=True)
        for item in items:
            first, *rest = item_lines(item, whole=whole)
            sessions = dict.fromkeys(source.session[:_SESSION_CHARS] for source in item.sources)
            click.echo(f"  {first}" + click.style(f"  [{', '.join(map(printable, sessions))}]", dim=True))
            for line in rest:
                click.echo(f"    {line}")


def item_lines(item: Item, *, whole: bool = False) -> Iterator[str]:
    """An item in a few lines, truncated unless `whole`."""

    def cut(text: str, width: int) -> str:
        return one_line(text, sys.maxsize if whole else width)

    seen = f", last {item.last_seen:%Y-%m-%d}" if item.last_seen else ""
    times = f" ({item.count}×{seen})" if item.count > 1 else ""
    label = {"edit": "changed", "read": "read first"}.get(item.tool, item.tool)
    tool = f"{cut(label, 60)}: " if label else ""
    yield f"{tool}{cut(item.text, 200)}{times}"
    if item.kind == "trap" and item.calls:
        failed, worked = item.calls[0], item.calls[-1]
        if worked.tool_name not in SHELLS:
            yield item.fix
            return
        yield f"failed: {cut(failed.arguments, 160)}"
        yield f"worked: {cut(worked.arguments, 160)}"
        return
    for call in item.calls:
        result = f" → {cut(call.result, 160)}" if call.result else ""
        failed_mark = "" if call.success else "failed: "
        yield f"{failed_mark}{cut(call.tool_name, 60)} {cut(call.arguments, 160)}{result}"


def _print_messages(messages: Sequence[Mapping[str, Any]]) -> None:
    """Print the messages of a session."""
    for message in messages:
        click.secho(message["role"], bold=True)
        if message["content"]:
            click.echo(printable(message["content"]))
        for call in message.get("tool_calls", ()):
            click.echo(printable(f"{call['function']['name']} {call['function']['arguments']}"))
        click.echo()


def _print_costs(rendering: Rendering) -> None:
    """Print on standard error what a rendering costs, and what was left out."""
    costs: Counter[str] = Counter()
    for part in rendering.parts:
        costs[part.kind] += part.tokens
    parts = ", ".join(f"{kind} {tokens}" for kind, tokens in costs.items())
    click.echo(f"{rendering.tokens} of {rendering.budget} tokens{f': {parts}' if parts else ''}.", err=True)
    left_out = Counter((dropped.kind, dropped.why) for dropped in rendering.dropped)
    for (kind, why), number in left_out.items():
        click.echo(f"Left out: {counted(number, kind)} ({why}).", err=True)


def describe_change(changed: Changed, *, would: bool = False) -> str:
    """A change of state in one line."""
    verb = "would change" if would else "changed"
    return f"{changed.template} {verb} from {changed.old} to {changed.new}: {one_line(changed.reason, 200)}"
