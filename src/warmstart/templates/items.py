"""The items of a seed, one by one: what an audit names, a budget drops and a revocation removes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from hashlib import blake2b
from typing import NamedTuple, TypeVar

import msgspec

from warmstart.templates.values import Item, Kind, SessionSeed, Source, Sources, ToolCard

_FIELDS: dict[Kind, str] = {
    "context": "contexts",
    "card": "cards",
    "demonstration": "demonstrations",
    "recovery": "recoveries",
    "pattern": "patterns",
    "marker": "markers",
}
_ENCODE = msgspec.json.Encoder(order="deterministic").encode

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
    said = _ENCODE(_unsourced(msgspec.to_builtins(item)))
    return blake2b(kind.encode() + said, digest_size=6).hexdigest()


def _unsourced(value: object) -> object:
    if isinstance(value, dict):
        return {name: _unsourced(part) for name, part in value.items() if name != "sources"}
    if isinstance(value, (list, tuple)):
        return [_unsourced(part) for part in value]
    return value


def sessions_of(item: Item) -> tuple[str, ...]:
    """The sessions that an item came from, each once."""
    return tuple(dict.fromkeys(source.session for source in item.sources))


def kept(seed: SessionSeed, keep: Callable[[Placed], bool]) -> SessionSeed:
    """The seed with only the items that are to be kept; tasks and notes stay."""
    some = {
        name: tuple(item for item in getattr(seed, name) if keep(Placed(kind, item_id(kind, item), item)))
        for kind, name in _FIELDS.items()
    }
    return replace(seed, **some)


def without_sessions(seed: SessionSeed, sessions: Collection[str]) -> SessionSeed:
    """The seed without anything that one of these sessions had a part in.

    An item that others say just as well stays with the others as its sources: what it says is theirs too.
    """

    def left(sources: Sources) -> Sources:
        return tuple(source for source in sources if source.session not in sessions)

    def some(parts: tuple[Sourced, ...]) -> tuple[Sourced, ...]:
        found = ((part, left(part.sources)) for part in parts)  # type: ignore[attr-defined]
        return tuple(replace(part, sources=rest) for part, rest in found if rest)  # type: ignore[type-var]

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


def sources_in(seed: SessionSeed) -> tuple[str, ...]:
    """The sessions that a seed came from, each once."""
    named: list[Source] = [source for placed in items_of(seed) for source in placed.item.sources]
    return tuple(dict.fromkeys([*(source.session for source in named), *(task.source.session for task in seed.tasks)]))
