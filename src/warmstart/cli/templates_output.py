"""What the `warmstart templates` commands share: the store, and how templates are printed."""

from __future__ import annotations

import getpass
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, get_args

import click

from warmstart.cli.output import as_data, counted, local, one_line, settings
from warmstart.cli.terminal import printable
from warmstart.config import Settings
from warmstart.profile.values import TaskType
from warmstart.redact.redactor import configured_redactor
from warmstart.sessions.sql_store import open_store
from warmstart.templates.item import Item, Kind, item_id
from warmstart.templates.lifecycle import AUTHOR, Changed, Counts, review
from warmstart.templates.store import SQLTemplateStore
from warmstart.templates.template import Effect, SessionSeed, State, WarmTemplate

if TYPE_CHECKING:
    from warmstart.templates.rendering import Rendering

TYPES = click.Choice(get_args(TaskType))
STATES = click.Choice(get_args(State))
_TITLES: dict[Kind, str] = {
    "instruction": "Standing instructions",
    "correction": "Corrections",
    "decision": "Decisions",
    "command": "Commands",
    "trap": "Past mistakes and fixes",
    "file": "Files",
    "reference": "References",
    "procedure": "Procedures",
    "open": "Where work stopped",
    "habit": "The user's habits (weak evidence)",
}
_SESSION_CHARS = 10  # of a session's id


@contextmanager
def templates(current: Settings | None = None) -> Iterator[SQLTemplateStore]:
    """The configured template store, with the user's redaction rules."""
    current = current or settings()
    with open_store(current) as store:
        yield SQLTemplateStore(store, redactor=configured_redactor(current))


def settle_uses(store: SQLTemplateStore, current: Settings, *, always: bool = False) -> None:
    """Record the outcomes of sessions that started from templates, and update the states of these."""
    from warmstart.templates.audit import settle

    if settle(store, tools=current.profile_tools) or always:
        for changed in review(store, max_age_days=current.templates_max_age_days):
            click.echo(describe_change(changed), err=True)


def describe_change(changed: Changed, *, would: bool = False) -> str:
    """A change of state in one line."""
    verb = "would change" if would else "changed"
    return f"{changed.template} {verb} from {changed.old} to {changed.new}: {one_line(changed.reason, 200)}"


def author() -> str:
    """The login name of the user."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container whose user has no name
        return "user"
    return "user" if name == AUTHOR else name  # reserved for automatic changes


def kinds(seed: SessionSeed) -> str:
    """The items of a seed, counted: `2 procedures, 3 commands`."""
    found = Counter(item.kind for item in seed.items)
    nouns = {"open": "open point"}
    return ", ".join(counted(found[kind], nouns.get(kind, kind)) for kind in _TITLES if found[kind]) or "nothing"


def usage(template: WarmTemplate) -> str:
    """How many sessions started from a template, and how many of them succeeded."""
    if not template.used:
        return "not used yet"
    rate = template.success_rate
    result = "outcome unknown" if rate is None else f"{percent(rate)} success"
    return f"used {counted(template.used, 'time')}, {result}"


def percent(share: float) -> str:
    """A share as a percentage."""
    return f"{share * 100:.0f} %"


def describe_rate(counts: Counts) -> str:
    """The share of successes with its interval, or that it is not known."""
    if counts.interval is None:
        return "not yet known"
    low, high = map(percent, counts.interval)
    return f"{percent(counts.successes / counts.known)} ({low} to {high})"


def describe_effect(effect: Effect | None) -> str:
    """A measured effect with its interval, or a note that it is not known."""
    if effect is None:
        return "not yet known"
    low, high = effect.low * 100, effect.high * 100
    return (
        f"{effect.difference * 100:+.0f} percentage points of success ({low:+.0f} to {high:+.0f}), "
        f"{effect.warm} warm against {effect.cold} cold sessions"
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
        row["seed"] = {"items": [{"id": item_id(item), **as_data(item)} for item in template.seed.items]}
    return row


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
        "made": f"{local(template.created_at)}, changed {local(template.updated_at)}",
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
            first, *rest = _lines(item, _uncut if whole else one_line)
            sessions = dict.fromkeys(source.session[:_SESSION_CHARS] for source in item.sources)
            click.echo(f"  {first}" + click.style(f"  [{', '.join(map(printable, sessions))}]", dim=True))
            for line in rest:
                click.echo(f"    {line}")


def print_facts(facts: Mapping[str, str]) -> None:
    """Print names with their values, one line each; those without a value are left out."""
    width = max(map(len, facts)) + 1
    for name, value in facts.items():
        if value:
            click.echo(f"{name + ':':<{width}} {printable(' '.join(value.split()))}")


def _uncut(text: str, _: int) -> str:
    return one_line(text, len(text) + 1)


def _lines(item: Item, cut: Callable[[str, int], str] = one_line) -> Iterator[str]:
    """An item in a few lines."""
    seen = f", last {item.last_seen:%Y-%m-%d}" if item.last_seen else ""
    times = f" ({item.count}×{seen})" if item.count > 1 else ""
    tool = f"{cut(item.tool, 60)}: " if item.tool else ""
    yield f"{tool}{cut(item.text, 200)}{times}"
    if item.kind == "trap" and item.calls:
        failed, worked = item.calls[0], item.calls[-1]
        yield f"failed: {cut(failed.arguments, 160)}"
        yield f"worked: {cut(worked.arguments, 160)}"
        return
    for call in item.calls:
        yield f"{cut(call.tool, 60)} {cut(call.arguments, 160)}" + (
            f" → {cut(call.result, 160)}" if call.result else ""
        )


def carried_lines(template: WarmTemplate, items: Sequence[str]) -> Iterator[str]:
    """The items with these ids, one line each."""
    known = {item_id(item): item for item in template.seed.items}
    for item in (known[each] for each in items if each in known):
        yield f"  {item.kind}: {next(_lines(item))}"


def rendering_dict(
    template: WarmTemplate, rendering: Rendering, messages: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The output of `test --json`: the messages as they would be sent, and their tokens."""
    return {
        "template_id": template.id,
        "version": template.version,
        "state": template.state,
        "messages": list(messages),
        "tokens": rendering.tokens,
        "budget": rendering.budget,
        "renderer": rendering.renderer,
        "shape": rendering.shape,
        "parts": as_data(rendering.parts),
        "items": as_data(rendering.items),
        "dropped": [{**dropped._asdict(), "why": dropped.why} for dropped in rendering.dropped],
    }


def print_messages(messages: Sequence[Mapping[str, Any]]) -> None:
    """Print the messages of a session."""
    for message in messages:
        click.secho(str(message.get("role", "")), bold=True)
        for line in _content_lines(message):
            click.echo(printable(line))
        click.echo()


def print_costs(rendering: Rendering) -> None:
    """Print on standard error what a rendering costs, and what was left out."""
    costs: Counter[str] = Counter()
    for part in rendering.parts:
        costs[part.kind] += part.tokens
    parts = ", ".join(f"{kind} {tokens}" for kind, tokens in costs.items())
    click.echo(f"{rendering.tokens} of {rendering.budget} tokens{f': {parts}' if parts else ''}.", err=True)
    left_out = Counter((dropped.kind, dropped.why) for dropped in rendering.dropped)
    for (kind, why), number in left_out.items():
        click.echo(f"Left out: {counted(number, kind)} ({why}).", err=True)


def _content_lines(message: Mapping[str, Any]) -> Iterator[str]:
    """The content and tool calls of a message, in OpenAI's or Anthropic's format."""
    content = message.get("content")
    for block in content if isinstance(content, list) else [{"type": "text", "text": content or ""}]:
        if block.get("type") == "tool_use":
            yield f"{block['name']} {json.dumps(block['input'], ensure_ascii=False)}"
        elif block.get("type") == "tool_result":
            yield str(block.get("content", ""))
        elif block.get("text"):
            yield str(block["text"])
    for call in message.get("tool_calls") or ():
        yield f"{call['function']['name']} {call['function']['arguments']}"
