"""How a template, what it renders to, and what is known of it are shown."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import click

from warmstart.cli.output import as_data, counted, iso, local, one_line, printable, table
from warmstart.templates.items import items_of, sessions_of
from warmstart.templates.rendering.note import NAMES
from warmstart.templates.rendering.values import PieceKind, Rendering
from warmstart.templates.values import (
    Context,
    Demonstration,
    Effect,
    Item,
    Marker,
    Recovery,
    SessionSeed,
    ToolCard,
    UserPattern,
    WarmTemplate,
)

_KINDS = {
    "contexts": "instruction",
    "demonstrations": "demonstration",
    "cards": "tool card",
    "recoveries": "recovery",
    "patterns": "user pattern",
    "markers": "marker",
}
_PLURALS = {"recovery": "recoveries"}


def kinds(seed: SessionSeed) -> str:
    """How much of each kind a seed holds: `2 demonstrations, 3 tool cards`."""
    found = {noun: len(getattr(seed, field)) for field, noun in _KINDS.items()}
    parts = (
        f"{number} {_PLURALS[noun]}" if noun in _PLURALS and number > 1 else counted(number, noun)
        for noun, number in found.items()
        if number
    )
    return ", ".join(parts) or "nothing"


def usage(template: WarmTemplate) -> str:
    """How often sessions started from it, and how many of those whose outcome is known went well."""
    if not template.used:
        return "not used yet"
    rate = template.success_rate
    times = counted(template.used, "time")
    return f"{times}, outcome not known yet" if rate is None else f"{times}, {percent(rate)} success"


def percent(share: float) -> str:
    """A share as a person reads it."""
    return f"{share * 100:.0f} %"


def effect_said(effect: Effect | None) -> str:
    """A measured effect with its interval, or that there is none."""
    if effect is None:
        return "not yet known"
    low, high = effect.low * 100, effect.high * 100
    return (
        f"{effect.difference * 100:+.0f} points of success ({low:+.0f} to {high:+.0f}), "
        f"{effect.warm} warm against {effect.cold} cold sessions"
    )


def template_dict(template: WarmTemplate, *, seed: bool = True) -> dict[str, Any]:
    """A template as JSON; without its seed in a list."""
    row: dict[str, Any] = {
        "id": template.id,
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
        row["seed"] = as_data(template.seed)
    return row


def print_template(template: WarmTemplate) -> None:
    """A template for a person: what it is, what it carries, and where each piece is from."""
    head = f"{template.name}  {template.id}, version {template.version}, {template.state}"
    click.secho(printable(head), bold=True)
    if template.description:
        by = f" (written by {template.described_by})" if template.described_by not in ("", "rules") else ""
        click.echo(printable(template.description + by))
    facts = {
        "for": ", ".join(filter(None, (template.task_type, template.project, template.agent))),
        "tags": ", ".join(template.tags),
        "origin": template.origin,
        "made": f"{local(template.created_at)}, changed {local(template.updated_at)}",
        "sources": ", ".join(template.sources),
        "tools": ", ".join(sorted(template.tools)),
        "allowed": ", ".join(template.allowed),
        "usage": _usage_with_interval(template),
        "effect": effect_said(template.effect),
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
        lines = list(_lines(placed.item))
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
    "pattern": "How the user works (weak evidence)",
    "marker": "What mattered",
}


def _usage_with_interval(template: WarmTemplate) -> str:
    interval = template.success_interval
    if interval is None:
        return usage(template)
    return f"{usage(template)} ({percent(interval[0])} to {percent(interval[1])})"


def _lines(item: Item) -> Iterator[str]:
    """An item in a few lines; the first is indented least."""
    match item:
        case Context():
            first, *rest = printable(item.text).strip().splitlines() or [""]
            yield f"  {item.said_by}: {first}"
            yield from (f"    {line}" for line in rest)
        case ToolCard():
            yield f"  {printable(item.tool)}"
            yield from (f"    worked: {one_line(each.arguments, 160)}" for each in item.exemplars)
            yield from (f"    usual:  {one_line(each.text, 160)} ({each.count}×)" for each in item.conventions)
            for each in item.fixes:
                yield f"    error:  {one_line(each.error, 100)} → {one_line(each.change, 100)} ({each.count}×)"
        case Demonstration():
            yield f"  {one_line(item.task, 160)} ({one_line(item.evidence, 80)})"
            for act in item.acts:
                yield f"    {printable(act.tool)} {one_line(act.arguments, 160)}"
                yield f"      → {one_line(act.result, 160)}"
        case Recovery():
            yield f"  {printable(item.tool)}: {one_line(item.error, 140)} ({item.count}×)"
            yield f"    failed: {one_line(item.failed, 160)}"
            yield f"    worked: {one_line(item.worked, 160)}"
        case UserPattern():
            yield f"  {one_line(item.text, 200)}"
        case Marker():
            yield f"  {one_line(item.value, 160)} ({item.use}, {item.count}×)"


def carried_lines(template: WarmTemplate, items: Sequence[str]) -> Iterator[str]:
    """What the items with these ids say, in a line each."""
    known = {placed.id: placed for placed in items_of(template.seed)}
    for placed in (known[each] for each in items if each in known):
        yield f"  {placed.kind}: {one_line(next(_lines(placed.item)), 160).strip()}"


def rendering_dict(
    template: WarmTemplate, rendering: Rendering, messages: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """What `test --json` prints: the messages as they would be sent, and what they cost."""
    return {
        "template": template.id,
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
    """The messages for a person to read, then what each part costs and what was left out."""
    for message in messages:
        click.secho(str(message.get("role", "")), bold=True)
        for line in _said(message):
            click.echo(printable(line))
        click.echo()
    costs: dict[PieceKind | Literal["note"], list[int]] = {}
    for part in rendering.parts:
        costs.setdefault(part.kind, []).append(part.tokens)
    rows = [(_said_kind(kind, len(tokens)), len(tokens), sum(tokens)) for kind, tokens in costs.items()]
    total = ("in all", "", f"{rendering.tokens} of {rendering.budget}")
    table(("part", "number", "tokens"), [*rows, total], right=("number", "tokens"))
    left_out = Counter((dropped.kind, dropped.why) for dropped in rendering.dropped)
    for (kind, why), number in left_out.items():
        click.echo(f"Left out: {number} {_said_kind(kind, number)} ({why}).")


def _said_kind(kind: PieceKind | Literal["note"], number: int) -> str:
    if kind == "note":
        return "note"
    one, several = NAMES[kind]
    return one if number == 1 else several


def _said(message: Mapping[str, Any]) -> Iterator[str]:
    """A message's content and calls, in whichever API's shape."""
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
