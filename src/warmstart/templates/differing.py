"""What changed from one version of a template to another, in lines for people to read.

Parts are known again by what they say. Of a part that was changed, only the lines that differ are shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher, unified_diff
from typing import Any, NamedTuple

from warmstart.templates.values import (
    Context,
    Demonstration,
    Marker,
    Note,
    Recovery,
    Task,
    ToolCard,
    UserPattern,
    WarmTemplate,
)

_FIELDS = {
    "name": "name",
    "description": "description",
    "type": "task_type",
    "state": "state",
    "tags": "tags",
    "project": "project",
    "agent": "agent",
    "origin": "origin",
    "described by": "described_by",
    "allowed": "allowed",
    "sources": "sources",
    "tools": "tools",
}
_PARTS = {
    "context": "contexts",
    "card": "cards",
    "demonstration": "demonstrations",
    "recovery": "recoveries",
    "pattern": "patterns",
    "marker": "markers",
    "task": "tasks",
    "note": "notes",
}
_WIDTH = 100  # of a part that is named in one line
_LOOKED_AT = 400  # characters that tell whether a part is another one or the same one changed
_ALIKE = 0.5


class _Part(NamedTuple):
    kind: str
    number: int  # in its kind, from 1
    value: Any
    lines: tuple[str, ...]


class _Compared(NamedTuple):
    """The parts of a kind: changed ones as pairs, those that only one side has, and what else is different."""

    changed: list[tuple[_Part, _Part]]
    gone: list[_Part]
    new: list[_Part]
    resourced: list[tuple[_Part, _Part]]
    moved: bool


def diff(old: WarmTemplate, new: WarmTemplate) -> list[str]:
    """What is different, in lines; none if nothing is. `-` is what was, `+` what is, `~` what was changed."""
    lines = [line for label, name in _FIELDS.items() for line in _field(label, getattr(old, name), getattr(new, name))]
    for kind, name in _PARTS.items():
        lines += _shown(kind, _compare(kind, getattr(old.seed, name), getattr(new.seed, name)))
    return lines


def summary(old: WarmTemplate, new: WarmTemplate) -> str:
    """What is different, in one line such as `name, 1 context changed, 2 markers removed`; empty if nothing is."""
    said = [label for label, name in _FIELDS.items() if getattr(old, name) != getattr(new, name)]
    for kind, name in _PARTS.items():
        found = _compare(kind, getattr(old.seed, name), getattr(new.seed, name))
        counts: dict[str, Sequence[object]] = {
            "changed": found.changed,
            "added": found.new,
            "removed": found.gone,
            "with other sources": found.resourced,
        }
        for what, some in counts.items():
            if some:
                said.append(f"{len(some)} {kind if len(some) == 1 else name} {what}")
        if found.moved:
            said.append(f"{name} in another order")
    return ", ".join(said)


# -- fields


def _field(label: str, old: Any, new: Any) -> Iterator[str]:
    if old == new:
        return
    if isinstance(old, str) and "\n" in f"{old}{new}":
        yield f"~ {label}:"
        yield from _changed_lines(old.split("\n"), new.split("\n"))
    else:
        yield f"{label}: {_said(old)} -> {_said(new)}"


def _said(value: Any) -> str:
    if isinstance(value, str):
        return repr(value)
    if isinstance(value, (tuple, list)):
        return ", ".join(map(repr, value)) or "none"
    return ", ".join(f"{name} {mark}".rstrip() for name, mark in sorted(value.items())) or "none"


# -- parts


def _compare(kind: str, old: Sequence[Any], new: Sequence[Any]) -> _Compared:
    before = [_Part(kind, number, value, _lines(value)) for number, value in enumerate(old, 1)]
    after = [_Part(kind, number, value, _lines(value)) for number, value in enumerate(new, 1)]
    same, before_left, after_left = _same(before, after)
    pairs = _pairs(before_left, after_left)
    paired = {id(part) for pair in pairs for part in pair}
    return _Compared(
        changed=pairs,
        gone=[part for part in before_left if id(part) not in paired],
        new=[part for part in after_left if id(part) not in paired],
        resourced=[(one, other) for one, other in same if one.value != other.value],
        moved=[one.number for one, _ in same] != sorted(one.number for one, _ in same),
    )


def _same(
    before: Iterable[_Part], after: Iterable[_Part]
) -> tuple[list[tuple[_Part, _Part]], list[_Part], list[_Part]]:
    """Parts that say the same, in the new order, and what is left of both."""
    waiting: dict[tuple[str, ...], list[_Part]] = {}
    for part in before:
        waiting.setdefault(part.lines, []).append(part)
    same: list[tuple[_Part, _Part]] = []
    left: list[_Part] = []
    for part in after:
        if found := waiting.get(part.lines):
            exact = next((one for one in found if one.value == part.value), found[0])
            found.remove(exact)
            same.append((exact, part))
        else:
            left.append(part)
    return same, [part for parts in waiting.values() for part in parts], left


def _pairs(before: Sequence[_Part], after: Sequence[_Part]) -> list[tuple[_Part, _Part]]:
    """Parts that are the same one before and after a change: the likest first."""
    likeness = [
        (score, -one.number, -other.number, one, other)
        for one in before
        for other in after
        if (score := _likeness(one, other)) >= _ALIKE
    ]
    taken: set[int] = set()
    pairs: list[tuple[_Part, _Part]] = []
    for *_, one, other in sorted(likeness, key=lambda each: each[:3], reverse=True):
        if id(one) not in taken and id(other) not in taken:
            taken |= {id(one), id(other)}
            pairs.append((one, other))
    return sorted(pairs, key=lambda pair: pair[1].number)


def _likeness(one: _Part, other: _Part) -> float:
    if isinstance(one.value, ToolCard):
        return float(one.value.tool == other.value.tool)
    if isinstance(one.value, Recovery) and one.value.tool != other.value.tool:
        return 0.0
    if isinstance(one.value, Demonstration) and one.value.task == other.value.task:
        return 1.0
    said, says = ("\n".join(part.lines)[:_LOOKED_AT] for part in (one, other))
    matcher = SequenceMatcher(None, said, says, autojunk=False)
    return matcher.ratio() if matcher.quick_ratio() >= _ALIKE else 0.0


def _shown(kind: str, found: _Compared) -> Iterator[str]:
    for part in sorted(found.gone, key=lambda part: part.number):
        yield f"- {_title(part)}"
    for old, new in found.changed:
        yield f"~ {_title(new)}"
        yield from _changed_lines(old.lines, new.lines)
    for part in found.new:
        yield f"+ {_title(part)}"
    for old, new in found.resourced:
        was, now = _sessions(old.value), _sessions(new.value)
        yield f"~ {_title(new)}: from {f'{now}, before from {was}' if now != was else f'other messages of {now}'}"
    if found.moved:
        yield f"~ {_PARTS[kind]}: in another order"


def _sessions(value: Any) -> str:
    if isinstance(value, Note):
        named = value.sessions
    else:
        named = tuple(source.session for source in ((value.source,) if isinstance(value, Task) else value.sources))
    return " ".join(f"{name} ({count})" if count > 1 else name for name, count in Counter(named).items()) or "nowhere"


def _title(part: _Part) -> str:
    value = part.value
    match value:
        case ToolCard():
            return f"card {_visible(value.tool)}"
        case Demonstration():
            label, text = f"demonstration {part.number}", value.task
        case Recovery():
            label, text = f"recovery ({_visible(value.tool)})", value.error
        case Marker():
            label, text = f"marker ({value.kind})", value.value
        case Context():
            label, text = f"context ({value.said_by})", value.text
        case _:
            label, text = part.kind, value.text
    line = _visible(" ".join(text.split()))
    return f"{label}: {line if len(line) <= _WIDTH else line[: _WIDTH - 1] + '…'}"


def _lines(value: Any) -> tuple[str, ...]:
    """All that a part says, without where it came from."""
    return tuple(line for text in _texts(value) for line in text.split("\n"))


def _texts(value: Any) -> Iterator[str]:
    match value:
        case Context():
            yield from (f"said by {value.said_by}", value.text)
        case ToolCard():
            yield f"tool {value.tool}"
            yield from (f"called with {each.arguments}" for each in value.exemplars)
            yield from (f"convention ({each.count}): {each.text}" for each in value.conventions)
            yield from (f"fix ({each.count}): {each.error} -> {each.change}" for each in value.fixes)
        case Demonstration():
            yield from (f"task: {value.task}", f"evidence: {value.evidence}")
            for act in value.acts:
                yield from (f"{act.tool} {act.arguments}", f"    {act.result}")
        case Recovery():
            yield from (f"tool: {value.tool}", f"failed: {value.failed}", f"error: {value.error}")
            yield from (f"worked: {value.worked}", f"change: {value.change}", f"count: {value.count}")
        case Marker():
            yield from (f"{value.kind} {value.value}", f"{value.use} {value.count} times")
        case UserPattern() | Task() | Note():
            yield value.text


def _changed_lines(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    """The lines that differ, and one around them."""
    for line in list(unified_diff(old, new, lineterm="", n=1))[2:]:
        yield "    ..." if line.startswith("@@") else f"    {_visible(line)}"


def _visible(text: str) -> str:
    """The text with escapes in place of characters that would not be seen, or would move the cursor."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
