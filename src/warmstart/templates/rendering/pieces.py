"""The items of a template as pieces to show: what this session cannot use left out, every text redacted and safe.

The rank is the order in which things are kept: standing instructions first, since losing them does most harm; then one
raw example, since examples as messages help most; then what is known of each tool. Weak evidence goes first. An
argument example that a demonstration shows as a call would say the same twice, and is passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from operator import itemgetter
from typing import Any, NamedTuple

from warmstart.templates.items import Part, Placed, items_of, sessions_of
from warmstart.templates.rendering.arguments import Arguments, Schemas
from warmstart.templates.rendering.values import Dropped, PieceKind, Reason, Waiting
from warmstart.templates.trust import is_tool_name
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
    ToolCard,
    UserPattern,
)
from warmstart.text.truncate import one_line

MOST_DEMONSTRATIONS = 3
_FIRST_RECOVERIES = 3
_TASK, _EVIDENCE = 300, 80  # characters

# Ranks, from what is kept longest to what is dropped first.
CONTEXT, FIRST_DEMONSTRATION, FIRST_OF_CARD, FIRST_RECOVERY, DEMONSTRATION = range(5)
REST_OF_CARD, EXEMPLAR, RECOVERY, MARKER, PATTERN = range(5, 10)


class Pieces(NamedTuple):
    """What can be shown, in its places, and what cannot."""

    shown: tuple[Waiting, ...]
    dropped: tuple[Dropped, ...]


def pieces_of(seed: SessionSeed, clean: Callable[[str], str], schemas: Schemas | None = None) -> Pieces:
    """The seed in pieces, every text made ready by `clean`. With `schemas` only what the tools of this session can do.

    The words of what is no demonstration are made only when it is asked for them.
    """
    placed: dict[str, Placed] = {}
    for one in items_of(replace(seed, demonstrations=_in_turns(seed.demonstrations))):
        placed.setdefault(one.id, one)  # the same words twice would be the same call ids twice
    making = _Making(clean, schemas)
    making.choose(placed.values())
    for one in placed.values():
        making.take(one)
    return Pieces(tuple(making.shown), tuple(making.dropped))


class _Making:
    def __init__(self, clean: Callable[[str], str], schemas: Schemas | None) -> None:
        self.shown: list[Waiting] = []
        self.dropped: list[Dropped] = []
        self._clean = clean
        self._arguments = Arguments(clean, schemas)
        self._has = cache(is_tool_name) if schemas is None else schemas.__contains__
        self._chosen: dict[str, tuple[Act, ...] | Reason] = {}
        self._calls: dict[tuple[str, str], tuple[str, int]] = {}
        self._demonstrations = self._recoveries = 0

    def choose(self, items: Iterable[Placed]) -> None:
        """Choose the demonstrations that are shown: the first three that can be."""
        number = 0
        for _, id_, item in items:
            if isinstance(item, Demonstration):
                made = self._chosen[id_] = self._acts(item) if number < MOST_DEMONSTRATIONS else "three"
                if isinstance(made, tuple) and made:
                    number += 1
                    for place, act in enumerate(reversed(item.acts), 1):
                        self._calls.setdefault((act.tool, act.arguments), (id_, place))

    def _acts(self, item: Demonstration) -> tuple[Act, ...] | Reason:
        if not all(self._has(act.tool) for act in item.acts):
            return "tool"
        made = tuple(
            Act(act.tool, self._arguments.called(act.tool, act.arguments), self._clean(act.result)) for act in item.acts
        )
        return made if all(self._arguments.fit(act.tool, act.arguments) for act in made) else "arguments"

    def take(self, placed: Placed) -> None:
        match placed.item:
            case Context(text=text, said_by=said_by):
                self._show(placed, "context", CONTEXT, lambda: {"text": self._clean(text), "label": said_by})
            case ToolCard() as card:
                self._take_card(placed, card)
            case Demonstration() as demonstration:
                self._take_demonstration(placed, demonstration)
            case Recovery() as recovery:
                self._take_recovery(placed, recovery)
            case Marker() as marker:
                self._show(placed, "marker", MARKER, lambda: self._marker(marker))
            case UserPattern(text=text):
                self._show(placed, "pattern", PATTERN, lambda: {"text": self._clean(text)})

    def _take_card(self, placed: Placed, card: ToolCard) -> None:
        if not self._has(card.tool):
            parts = (("convention", card.conventions), ("fix", card.fixes), ("exemplar", card.exemplars))
            for kind, some in parts:
                self.dropped += [Dropped(kind, placed.id, "tool")] * len(some)  # type: ignore[arg-type]
            return
        for place, part in enumerate(card.conventions):
            self._show_convention(placed, card.tool, part, FIRST_OF_CARD if place == 0 else REST_OF_CARD)
        for place, fix in enumerate(card.fixes):
            self._show_fix(placed, card.tool, fix, FIRST_OF_CARD if place == 0 else REST_OF_CARD)
        for exemplar in card.exemplars:
            self._show_exemplar(placed, card.tool, exemplar)

    def _show_convention(self, placed: Placed, tool: str, part: Convention, rank: int) -> None:
        def words() -> dict[str, Any]:
            return {"tool": tool, "text": self._clean(part.text), "number": part.count}

        self._show(placed, "convention", rank, words, part)

    def _show_fix(self, placed: Placed, tool: str, part: Fix, rank: int) -> None:
        def words() -> dict[str, Any]:
            error, change = self._clean(part.error), self._clean(part.change)
            return {"tool": tool, "error": error, "change": change, "number": part.count}

        self._show(placed, "fix", rank, words, part)

    def _show_exemplar(self, placed: Placed, tool: str, part: Exemplar) -> None:
        if self._arguments.fit(tool, part.arguments):
            words = lambda: {"tool": tool, "text": self._arguments.shown(part.arguments)}  # noqa: E731
            self._show(placed, "exemplar", EXEMPLAR, words, part, self._calls.get((tool, part.arguments)))
        else:
            self.dropped.append(Dropped("exemplar", placed.id, "arguments"))

    def _take_demonstration(self, placed: Placed, item: Demonstration) -> None:
        acts = self._chosen[placed.id]
        if isinstance(acts, str):
            self.dropped.append(Dropped("demonstration", placed.id, acts))
        elif acts:
            self._demonstrations += 1
            rank = FIRST_DEMONSTRATION if self._demonstrations == 1 else DEMONSTRATION
            text, label = one_line(self._clean(item.task), _TASK), one_line(self._clean(item.evidence), _EVIDENCE)
            words = {"text": text, "label": label, "acts": acts, "number": len(acts)}
            self._show(placed, "demonstration", rank, lambda: words)

    def _take_recovery(self, placed: Placed, item: Recovery) -> None:
        if not self._has(item.tool):
            self.dropped.append(Dropped("recovery", placed.id, "tool"))
        elif not self._arguments.fit(item.tool, item.worked):
            self.dropped.append(Dropped("recovery", placed.id, "arguments"))
        else:
            self._recoveries += 1
            rank = FIRST_RECOVERY if self._recoveries <= _FIRST_RECOVERIES else RECOVERY
            self._show(placed, "recovery", rank, lambda: self._recovery(item))

    def _recovery(self, item: Recovery) -> dict[str, Any]:
        return {
            "tool": item.tool,
            "failed": self._arguments.shown(item.failed),
            "error": self._clean(item.error),
            "text": self._arguments.shown(item.worked),
            "change": self._clean(item.change),
            "number": item.count,
        }

    def _marker(self, item: Marker) -> dict[str, Any]:
        return {"text": self._clean(item.value), "label": f"{item.kind} {item.use}", "number": item.count}

    def _show(
        self,
        placed: Placed,
        kind: PieceKind,
        rank: int,
        words: Callable[[], dict[str, Any]],
        part: Part | None = None,
        again: tuple[str, int] | None = None,
    ) -> None:
        sessions = sessions_of(part or placed.item)
        self.shown.append(Waiting(kind, placed.id, len(self.shown), rank, sessions, words, again))


def _in_turns(demonstrations: Iterable[Demonstration]) -> tuple[Demonstration, ...]:
    """The best of every session, then the second, and so on: three of one would leave no room for the others."""
    before: dict[str, int] = {}
    turns: list[tuple[int, Demonstration]] = []
    for one in demonstrations:
        sessions = sessions_of(one)
        turns.append((min((before.get(session, 0) for session in sessions), default=0), one))
        before.update((session, before.get(session, 0) + 1) for session in sessions)
    return tuple(one for _, one in sorted(turns, key=itemgetter(0)))
