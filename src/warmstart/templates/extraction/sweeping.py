"""A seed without whatever passes on the words of an output that speaks to the reader, or what no tool would take.

The last thing that is done to a seed, to all of its kinds alike: a rule that makes items cannot forget it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from warmstart.templates.extraction.taint import passing_on
from warmstart.templates.extraction.walk import Walk
from warmstart.templates.schemas import argument_problem
from warmstart.templates.values import Demonstration, Recovery, SessionSeed, ToolCard

Schemas = Mapping[str, Mapping[str, Any] | None]


def swept(seed: SessionSeed, walk: Walk, schemas: Schemas) -> SessionSeed:
    """The seed with only what nobody but the person, the system or the agent itself said, and what its tool takes."""
    texts = tuple(dict.fromkeys(_texts(seed)))
    run = {marker.value for marker in seed.markers if marker.use not in ("changed", "read")}
    sieve = _Sieve({texts[number] for number in passing_on(texts, walk, whole=run)}, schemas)
    demonstrations = map(sieve.demonstration, seed.demonstrations)
    cards = map(sieve.card, seed.cards)
    return replace(
        seed,
        demonstrations=tuple(each for each in demonstrations if each.acts),
        cards=tuple(card for card in cards if card.sources),
        recoveries=tuple(filter(sieve.mends, seed.recoveries)),
        markers=tuple(each for each in seed.markers if sieve.is_clean(each.value)),
    )


class _Sieve:
    """What may be carried: none of the texts that pass something on, and arguments that fit."""

    def __init__(self, passed_on: set[str], schemas: Schemas) -> None:
        self._passed_on = passed_on
        self._schemas = schemas

    def is_clean(self, *said: str) -> bool:
        return self._passed_on.isdisjoint(said)

    def fits(self, tool: str, arguments: str) -> bool:
        """Whether arguments may be shown; those that nothing could stand for are empty."""
        schema = self._schemas.get(tool)
        return bool(arguments) and self.is_clean(arguments) and not (schema and argument_problem(schema, arguments))

    def demonstration(self, one: Demonstration) -> Demonstration:
        return replace(one, acts=tuple(act for act in one.acts if self.fits(act.tool, act.arguments)))

    def card(self, one: ToolCard) -> ToolCard:
        return replace(
            one,
            exemplars=tuple(each for each in one.exemplars if self.fits(one.tool, each.arguments)),
            conventions=tuple(each for each in one.conventions if self.is_clean(each.text)),
            fixes=tuple(each for each in one.fixes if self.is_clean(each.error, each.change)),
        )

    def mends(self, one: Recovery) -> bool:
        # What failed may well be what the tool did not take.
        return bool(one.failed) and self.fits(one.tool, one.worked) and self.is_clean(one.failed, one.error, one.change)


def _texts(seed: SessionSeed) -> Iterator[str]:
    """What is carried besides the words of the person and the system."""
    yield from (act.arguments for each in seed.demonstrations for act in each.acts)
    for card in seed.cards:
        yield from (each.arguments for each in card.exemplars)
        yield from (each.text for each in card.conventions)
        yield from (text for each in card.fixes for text in (each.error, each.change))
    for recovery in seed.recoveries:
        yield from (recovery.failed, recovery.worked, recovery.error, recovery.change)
    yield from (marker.value for marker in seed.markers)
