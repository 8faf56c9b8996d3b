"""The items of a seed, one by one: what an audit names, a budget drops and a revocation removes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import fields, replace
from hashlib import blake2b
from operator import attrgetter
from typing import NamedTuple, TypeVar

import msgspec

from warmstart.templates.values import (
    Context,
    Convention,
    Demonstration,
    Exemplar,
    Fix,
    Item,
    Kind,
    Marker,
    Recovery,
    SessionSeed,
    Source,
    Sources,
    ToolCard,
    UserPattern,
)

_FIELDS: dict[Kind, str] = {
    "context": "contexts",
    "card": "cards",
    "demonstration": "demonstrations",
    "recovery": "recoveries",
    "pattern": "patterns",
    "marker": "markers",
}
_EDIT = "edit:"
_ENCODE = msgspec.json.Encoder().encode

Part = Exemplar | Convention | Fix  # of a tool card
# What each kind of item says: all of it but its sources.
_SAYS: dict[type, Callable[[object], object]] = {
    kind: attrgetter(*(field.name for field in fields(kind) if field.name != "sources"))
    for kind in (Context, Exemplar, Convention, Fix, Demonstration, Recovery, UserPattern, Marker)
}

Sourced = TypeVar("Sourced")


class Placed(NamedTuple):
    """An item with its kind and an id that is made of what it says, whatever it came from."""

    kind: Kind
    id: str
    item: Item


def items_of(seed: SessionSeed) -> Iterator[Placed]:
    """Every item, kind by kind, best first."""
    for kind, name in _FIELDS.items():
        for item in getattr(seed, name):
            yield Placed(kind, item_id(kind, item), item)


def item_id(kind: Kind, item: Item) -> str:
    """Twelve hexadecimal digits of what the item says."""
    return blake2b(kind.encode() + _ENCODE(_said(item)), digest_size=6).hexdigest()


def _said(item: object) -> object:
    if says := _SAYS.get(type(item)):
        return says(item)
    if isinstance(item, ToolCard):
        return item.tool, *([_said(part) for part in parts] for parts in (item.exemplars, item.conventions, item.fixes))
    return item


def sessions_of(item: Item | Part) -> tuple[str, ...]:
    """The sessions that an item came from, each once."""
    sources = item.sources
    return (sources[0].session,) if len(sources) == 1 else tuple(dict.fromkeys(source.session for source in sources))


def kept(seed: SessionSeed, keep: Callable[[Placed], bool]) -> SessionSeed:
    """The seed with only the items that are to be kept; tasks and notes stay."""
    some = {
        name: tuple(item for item in getattr(seed, name) if keep(Placed(kind, item_id(kind, item), item)))
        for kind, name in _FIELDS.items()
    }
    return replace(seed, **some)


def without_sessions(seed: SessionSeed, sessions: Collection[str]) -> SessionSeed:
    """The seed without anything that one of these sessions had a part in.

    An item that others say just as well stays with the others as its sources: what it says is theirs too. Its count
    goes down by the sources that it lost.
    """

    def left(sources: Sources) -> Sources:
        return tuple(source for source in sources if source.session not in sessions)

    def some(parts: tuple[Sourced, ...]) -> tuple[Sourced, ...]:
        found = ((part, left(part.sources)) for part in parts)  # type: ignore[attr-defined]
        return tuple(_with_sources(part, rest) for part, rest in found if rest)

    def card(one: ToolCard) -> ToolCard:
        return replace(one, exemplars=some(one.exemplars), conventions=some(one.conventions), fixes=some(one.fixes))

    cards = (card(one) for one in seed.cards)
    return SessionSeed(
        contexts=some(seed.contexts),
        cards=tuple(one for one in cards if one.sources),
        demonstrations=some(seed.demonstrations),
        recoveries=some(seed.recoveries),
        patterns=some(seed.patterns),
        markers=some(seed.markers),
        tasks=tuple(task for task in seed.tasks if task.source.session not in sessions),
        notes=tuple(note for note in seed.notes if not set(note.sessions) & set(sessions)),
    )


def _with_sources(part: Sourced, sources: Sources) -> Sourced:
    lost = len(part.sources) - len(sources)  # type: ignore[attr-defined]
    count = getattr(part, "count", None)
    fewer = {} if count is None else {"count": max(len(sources), count - lost)}
    return replace(part, sources=sources, **fewer) if lost else part  # type: ignore[type-var]


def edited_by(author: str) -> Source:
    """The source of what a person wrote into a template by hand, and no session said."""
    return Source(f"{_EDIT}{author}")


def is_edit(source: Source | str) -> bool:
    """Whether a source, or the session that it names, is no session but a person's edit of the template."""
    return (source if isinstance(source, str) else source.session).startswith(_EDIT)


def sources_in(seed: SessionSeed) -> tuple[str, ...]:
    """The sessions that a seed came from, each once."""
    named: list[Source] = [source for placed in items_of(seed) for source in placed.item.sources]
    return tuple(dict.fromkeys([*(source.session for source in named), *(task.source.session for task in seed.tasks)]))
