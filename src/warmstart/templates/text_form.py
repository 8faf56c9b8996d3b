"""A template as a text that a person can edit, and back.

The text is TOML. Each part has a key, `item`, by which it is known again when the text is read: what it came from stays
with it, changed or not. A part that was taken out is gone, and a new one, which has no key, came from the person's edit
(`items.edited_by`). What the text does not show (sources, tools, notes) stays as it is in the template.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NoReturn, cast

import msgspec

from warmstart.errors import InvalidTemplate
from warmstart.templates.items import edited_by, item_id
from warmstart.templates.text_parts import CardForm, Form
from warmstart.templates.toml_text import lines_of, quoted
from warmstart.templates.values import (
    Act,
    Context,
    Convention,
    Demonstration,
    Exemplar,
    Fix,
    Marker,
    Recovery,
    SessionSeed,
    Sources,
    Task,
    ToolCard,
    UserPattern,
    WarmTemplate,
)

_HEAD = """\
# The template {id}, version {version}. Save and close the editor to make a new version of it.
#
# Change any text, take out whole parts (from one [[...]] to the next), put them in another order (the best first), or
# add new ones. The line `item = ...` says where a part came from: leave it as it is, and leave it out of a new part.
# A text may stand in "..." with \\n and the like, or as it is in '...' and, over several lines, between ''' and '''.
# Values that differ from task to task are written {{{{date}}}}, {{{{email}}}} and so on.
"""

# The parts in the order in which they are written, with the fields of each.
_FIELDS: dict[str, tuple[str, ...]] = {
    "context": ("said_by", "text"),
    "demonstration": ("task", "evidence"),
    "act": ("tool", "arguments", "result"),
    "exemplar": ("arguments",),
    "convention": ("text", "count"),
    "fix": ("error", "change", "count"),
    "recovery": ("tool", "failed", "error", "worked", "change", "count"),
    "pattern": ("text",),
    "marker": ("kind", "value", "use", "count"),
    "task": ("text",),
}


def to_text(template: WarmTemplate) -> str:
    """The template as a text to edit."""
    seed = template.seed
    lines = [_HEAD.format(id=template.id or "that is not kept yet", version=template.version)]
    lines += [
        f"name = {quoted(template.name)}",
        f"description = {quoted(template.description)}",
        f'type = "{template.task_type}"  # code, file, research or mixed',
        f"tags = [{', '.join(map(quoted, template.tags))}]",
    ]
    lines += _tables("context", "context", seed.contexts)
    for key, shown in zip(_keys("demonstration", seed.demonstrations), seed.demonstrations, strict=True):
        lines += _table("demonstration", "demonstration", key, shown)
        lines += (line for act in shown.acts for line in _table("demonstration.act", "act", "", act))
    keys = {name: iter(each for _, each in parts) for name, parts in _card_parts(seed).items()}
    for card in seed.cards:
        lines += ["", "[[card]]", f"tool = {quoted(card.tool)}"]
        for kind, some in _parts_of(card):
            lines += (line for part in some for line in _table(f"card.{kind}", kind, next(keys[kind]), part))
    lines += _tables("recovery", "recovery", seed.recoveries)
    lines += _tables("pattern", "pattern", seed.patterns)
    lines += _tables("marker", "marker", seed.markers)
    lines += _tables("task", "task", seed.tasks)
    return "\n".join(lines) + "\n"


def from_text(text: str, template: WarmTemplate, *, author: str = "") -> WarmTemplate:
    """The template as the text has it. Raises `InvalidTemplate` with the line of what is wrong."""
    text = text.removeprefix("\ufeff")  # which some editors put in front
    form = _read(text)
    known = _Known(text, template.seed, author)
    seed = replace(
        template.seed,
        contexts=tuple(
            Context(text=each.text, said_by=each.said_by, sources=known.sources("context", number, each.item))
            for number, each in enumerate(form.context)
        ),
        cards=tuple(_card(each, number, known) for number, each in enumerate(form.card)),
        demonstrations=tuple(
            Demonstration(
                task=each.task,
                acts=tuple(Act(act.tool, act.arguments, act.result) for act in each.act),
                evidence=each.evidence,
                sources=known.sources("demonstration", number, each.item),
            )
            for number, each in enumerate(form.demonstration)
        ),
        recoveries=tuple(
            Recovery(
                **{name: getattr(each, name) for name in _FIELDS["recovery"]},
                sources=known.sources("recovery", number, each.item),
            )
            for number, each in enumerate(form.recovery)
        ),
        patterns=tuple(
            UserPattern(text=each.text, sources=known.sources("pattern", number, each.item))
            for number, each in enumerate(form.pattern)
        ),
        markers=tuple(
            Marker(
                kind=each.kind,
                value=each.value,
                use=each.use,
                count=each.count,
                sources=known.sources("marker", number, each.item),
            )
            for number, each in enumerate(form.marker)
        ),
        tasks=tuple(
            Task(each.text, known.sources("task", number, each.item)[0]) for number, each in enumerate(form.task)
        ),
    )
    return replace(
        template,
        name=form.name,
        description=form.description,
        # Whoever changes a description makes it theirs.
        described_by=template.described_by if form.description == template.description else "",
        task_type=form.type,
        tags=tuple(form.tags),
        seed=seed,
    )


# -- writing


def _tables(table: str, kind: str, parts: Sequence[Any]) -> Iterator[str]:
    for key, part in zip(_keys(kind, parts), parts, strict=True):
        yield from _table(table, kind, key, part)


def _table(table: str, kind: str, key: str, part: Any) -> Iterator[str]:
    yield ""
    yield f"[[{table}]]"
    if key:
        yield f'item = "{key}"'
    for name in _FIELDS[kind]:
        value = getattr(part, name)
        yield f"{name} = {quoted(value) if isinstance(value, str) else value}"


def _keys(kind: str, parts: Iterable[Any]) -> list[str]:
    """What each part is known by: the id that its content has, with a number where several say the same."""
    keys: list[str] = []
    for part in parts:
        said = part.text if isinstance(part, Task) else part
        key = plain = item_id(cast("Any", kind), cast("Any", said))
        number = 1
        while key in keys:
            number += 1
            key = f"{plain}-{number}"
        keys.append(key)
    return keys


def _parts_of(card: ToolCard) -> tuple[tuple[str, tuple[Any, ...]], ...]:
    return ("exemplar", card.exemplars), ("convention", card.conventions), ("fix", card.fixes)


def _card_parts(seed: SessionSeed) -> dict[str, list[tuple[Any, str]]]:
    """The parts of all cards by kind, each with its key."""
    found: dict[str, list[Any]] = {"exemplar": [], "convention": [], "fix": []}
    for card in seed.cards:
        for kind, some in _parts_of(card):
            found[kind] += some
    return {kind: list(zip(some, _keys(kind, some), strict=True)) for kind, some in found.items()}


# -- reading


class _Known:
    """What the parts of the template came from, by their keys; each key is for one part of the text."""

    def __init__(self, text: str, seed: SessionSeed, author: str) -> None:
        self._text = text
        self._author = author
        self._sources: dict[tuple[str, str], Sources] = {}
        self._taken: set[tuple[str, str]] = set()
        whole: dict[str, tuple[Any, ...]] = {
            "context": seed.contexts,
            "demonstration": seed.demonstrations,
            "recovery": seed.recoveries,
            "pattern": seed.patterns,
            "marker": seed.markers,
            "task": seed.tasks,
        }
        for kind, parts in whole.items():
            self._note(kind, zip(parts, _keys(kind, parts), strict=True))
        for kind, keyed in _card_parts(seed).items():
            self._note(kind, keyed)

    def _note(self, kind: str, parts: Iterable[tuple[Any, str]]) -> None:
        for part, key in parts:
            self._sources[kind, key] = (part.source,) if isinstance(part, Task) else part.sources

    def sources(self, kind: str, number: int, key: str, *, card: int | None = None) -> Sources:
        """Where a part of the text came from."""
        if not key:
            return (edited_by(self._author),)
        place: tuple[str | int, ...] = (kind, number) if card is None else ("card", card, kind, number)
        if (kind, key) not in self._sources:
            _refuse(self._text, (*place, "item"), f"this template has no {kind} {key!r}; leave `item` out of a new one")
        if (kind, key) in self._taken:
            _refuse(self._text, (*place, "item"), f"{key!r} stands here twice; leave `item` out of the new one")
        self._taken.add((kind, key))
        return self._sources[kind, key]


def _card(form: CardForm, card: int, known: _Known) -> ToolCard:
    return ToolCard(
        tool=form.tool,
        exemplars=tuple(
            Exemplar(arguments=each.arguments, sources=known.sources("exemplar", number, each.item, card=card))
            for number, each in enumerate(form.exemplar)
        ),
        conventions=tuple(
            Convention(
                text=each.text, count=each.count, sources=known.sources("convention", number, each.item, card=card)
            )
            for number, each in enumerate(form.convention)
        ),
        fixes=tuple(
            Fix(
                error=each.error,
                change=each.change,
                count=each.count,
                sources=known.sources("fix", number, each.item, card=card),
            )
            for number, each in enumerate(form.fix)
        ),
    )


def _read(text: str) -> Form:
    try:
        return msgspec.convert(tomllib.loads(text), Form)
    except tomllib.TOMLDecodeError as error:
        said = str(error)
        at = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)$", said)
        line = int(at[1]) if at and at[1] else text.count("\n") + 1
        raise InvalidTemplate(f"line {line}: {said[: at.start()] if at else said}; mend it and save again") from error
    except RecursionError as error:
        raise InvalidTemplate("line 1: it is nested far deeper than a template is; mend it and save again") from error
    except msgspec.ValidationError as error:
        said, _, path = str(error).partition(" - at `$")
        found = re.findall(r"\.?([\w-]+)|\[(\d+)\]", path.rstrip("`"))
        _refuse(text, tuple(name or int(number) for name, number in found), said.replace("Object", "this part"))


def _refuse(text: str, place: tuple[str | int, ...], what: str) -> NoReturn:
    lines = lines_of(text)
    unknown = re.search(r"unknown field `([\w-]+)`", what)
    places = [(*place, unknown[1]), (*place, unknown[1], 0)] if unknown else [(*place, 0)]
    places += [place[:length] for length in range(len(place), 0, -1)]
    line = next((lines[each] for each in places if each in lines), 1)
    raise InvalidTemplate(f"line {line}: {what[:1].lower()}{what[1:]}")
