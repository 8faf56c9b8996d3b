"""What the `warmstart templates` commands share: the store, and how templates are printed."""

from __future__ import annotations

import getpass
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, get_args

import click

from warmstart.cli.output import as_data, counted, iso, local, one_line, settings, table
from warmstart.cli.terminal import printable
from warmstart.config import Settings
from warmstart.profile.values import TaskType
from warmstart.redact.configured import configured_redactor
from warmstart.sessions.sql_store import open_store
from warmstart.templates.allowlist import showable
from warmstart.templates.choosing.audit import settle
from warmstart.templates.choosing.lifecycle import AUTHOR, Changed, review
from warmstart.templates.items import items_of, sessions_of
from warmstart.templates.rendering.note import NAMES
from warmstart.templates.rendering.values import PieceKind, Rendering
from warmstart.templates.store import SQLTemplateStore
from warmstart.templates.values import (
    Context,
    Demonstration,
    Effect,
    Item,
    Marker,
    Recovery,
    SessionSeed,
    State,
    ToolCard,
    UserPattern,
    WarmTemplate,
)

TYPES = click.Choice(get_args(TaskType))
STATES = click.Choice(get_args(State))
_KINDS = {
    "contexts": "instruction",
    "demonstrations": "demonstration",
    "cards": "tool card",
    "recoveries": "recovery",
    "patterns": "user pattern",
    "markers": "marker",
}
_PLURALS = {"recovery": "recoveries"}


@contextmanager
def templates(current: Settings | None = None) -> Iterator[SQLTemplateStore]:
    """The template store that the settings name, with their redaction rules."""
    current = current or settings()
    with open_store(current) as store:
        yield SQLTemplateStore(store, redactor=configured_redactor(current))


def settle_uses(store: SQLTemplateStore, current: Settings, *, always: bool = False) -> None:
    """Record the outcomes of sessions that started from templates, and update the states of these."""
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
    """The items of a seed, counted: `2 demonstrations, 3 tool cards`."""
    found = {noun: len(getattr(seed, field)) for field, noun in _KINDS.items()}
    parts = (
        f"{number} {_PLURALS[noun]}" if noun in _PLURALS and number > 1 else counted(number, noun)
        for noun, number in found.items()
        if number
    )
    return ", ".join(parts) or "nothing"


def usage(template: WarmTemplate) -> str:
    """How many sessions started from a template, and how many of them succeeded."""
    if not template.used:
        return "not used yet"
    rate = template.success_rate
    times = counted(template.used, "time")
    return f"{times}, outcome unknown" if rate is None else f"{times}, {percent(rate)} success"


def percent(share: float) -> str:
    """A share in per cent."""
    return f"{share * 100:.0f} %"


def describe_effect(effect: Effect | None) -> str:
    """A measured effect with its interval, or that it is not known."""
    if effect is None:
        return "not yet known"
    low, high = effect.low * 100, effect.high * 100
    return (
        f"{effect.difference * 100:+.0f} percentage points of success ({low:+.0f} to {high:+.0f}), "
        f"{effect.warm} warm against {effect.cold} cold sessions"
    )


def template_dict(template: WarmTemplate, *, seed: bool = True) -> dict[str, Any]:
    """A template for JSON output; lists leave out the seed."""
    row: dict[str, Any] = {
        "template_id": template.id,
        "name": template.name,
        "description": template.description,
        "task_type": template.task_type,
        "tags": list(template.tags),
        "state": template.state,
        "version": template.version,
        "project": template.project,
        "agent": template.agent,
        "origin": template.origin,
        "sources": list(template.sources),
        "created_at": iso(template.created_at),
        "updated_at": iso(template.updated_at),
        "tools": dict(template.tools),
        "allowed": list(template.allowed),
        "described_by": template.described_by,
        "used": template.used,
        "successes": template.successes,
        "failures": template.failures,
        "success_rate": template.success_rate,
        "success_interval": as_data(template.success_interval),
        "effect": as_data(template.effect),
        "usage": usage(template),
    }
    if seed:
        row["seed"] = as_data(showable(template).seed)
    return row


def print_template(template: WarmTemplate, *, whole: bool = False) -> None:
    """Print a template: what it is, its items and their sources. `whole` truncates nothing."""
    template = showable(template)
    head = f"{template.name}  {template.id}, version {template.version}, {template.state}"
    click.secho(printable(head), bold=True)
    if template.description:
        by = f" (by {template.described_by})" if template.described_by not in ("", "rules") else ""
        click.echo(printable(template.description + by))
    facts = {
        "for": ", ".join(filter(None, (template.task_type, template.project, template.agent))),
        "tags": ", ".join(template.tags),
        "origin": template.origin,
        "made": f"{local(template.created_at)}, changed {local(template.updated_at)}",
        "sources": ", ".join(template.sources),
        "tools": ", ".join(sorted(template.tools)),
        "usage": _usage_with_interval(template),
        "effect": describe_effect(template.effect),
    }
    for name, value in facts.items():
        if value:
            click.echo(printable(f"{name + ':':<9} {value}"))
    kind = ""
    for placed in items_of(template.seed):
        if placed.kind != kind:
            kind = placed.kind
            click.echo()
            click.secho(_TITLES[kind], bold=True)
        lines = list(_lines(placed.item, uncut if whole else one_line))
        lines[0] += click.style(f"  [{', '.join(session[:10] for session in sessions_of(placed.item))}]", dim=True)
        for line in lines:
            click.echo(line)
    for note in template.seed.notes:
        click.echo()
        click.echo(f"Note: {one_line(note.text, 300)}")


_TITLES = {
    "context": "Standing instructions and key context",
    "card": "Tool cards",
    "demonstration": "Demonstrations",
    "recovery": "Recoveries",
    "pattern": "The user's habits (weak evidence)",
    "marker": "What mattered",
}


def uncut(text: str, _: int) -> str:
    """The text on one line, not truncated."""
    return one_line(text, len(text) + 1)


def _usage_with_interval(template: WarmTemplate) -> str:
    interval = template.success_interval
    if interval is None:
        return usage(template)
    return f"{usage(template)} ({percent(interval[0])} to {percent(interval[1])})"


def _lines(item: Item, cut: Callable[[str, int], str] = one_line) -> Iterator[str]:
    """An item in a few lines."""
    match item:
        case Context():
            first, *rest = printable(item.text).strip().splitlines() or [""]
            yield f"  {item.said_by}: {first}"
            yield from (f"    {line}" for line in rest)
        case ToolCard():
            yield f"  {printable(item.tool)}"
            yield from (f"    worked: {cut(each.arguments, 160)}" for each in item.exemplars)
            yield from (f"    usual:  {cut(each.text, 160)} ({each.count}×)" for each in item.conventions)
            for each in item.fixes:
                yield f"    error:  {cut(each.error, 100)} → {cut(each.change, 100)} ({each.count}×)"
        case Demonstration():
            yield f"  {cut(item.task, 160)} ({cut(item.evidence, 80)})"
            for act in item.acts:
                yield f"    {printable(act.tool)} {cut(act.arguments, 160)}"
                yield f"      → {cut(act.result, 160)}"
        case Recovery():
            yield f"  {printable(item.tool)}: {cut(item.error, 140)} ({item.count}×)"
            yield f"    failed: {cut(item.failed, 160)}"
            yield f"    worked: {cut(item.worked, 160)}"
        case UserPattern():
            yield f"  {cut(item.text, 200)}"
        case Marker():
            yield f"  {cut(item.value, 160)} ({item.use}, {item.count}×)"


def carried_lines(template: WarmTemplate, items: Sequence[str]) -> Iterator[str]:
    """The items with these ids, one line each."""
    known = {placed.id: placed for placed in items_of(showable(template).seed)}
    for placed in (known[each] for each in items if each in known):
        yield f"  {placed.kind}: {one_line(next(_lines(placed.item)), 160).strip()}"


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


def print_rendering(template: WarmTemplate, rendering: Rendering, messages: Sequence[Mapping[str, Any]]) -> None:
    """Print the messages, then the tokens of each part and what was left out."""
    for message in messages:
        click.secho(str(message.get("role", "")), bold=True)
        for line in _content_lines(message):
            click.echo(printable(line))
        click.echo()
    costs: dict[PieceKind | Literal["note"], list[int]] = {}
    for part in rendering.parts:
        costs.setdefault(part.kind, []).append(part.tokens)
    rows = [(_kind_name(kind, len(tokens)), len(tokens), sum(tokens)) for kind, tokens in costs.items()]
    total = ("total", "", f"{rendering.tokens} of {rendering.budget}")
    table(("part", "number", "tokens"), [*rows, total], right=("number", "tokens"))
    left_out = Counter((dropped.kind, dropped.why) for dropped in rendering.dropped)
    for (kind, why), number in left_out.items():
        click.echo(f"Left out: {number} {_kind_name(kind, number)} ({why}).")


def _kind_name(kind: PieceKind | Literal["note"], number: int) -> str:
    if kind == "note":
        return "note"
    one, several = NAMES[kind]
    return one if number == 1 else several


def _content_lines(message: Mapping[str, Any]) -> Iterator[str]:
    """The content and tool calls of a message, in the shape of any API."""
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
