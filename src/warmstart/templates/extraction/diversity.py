"""Few demonstrations out of many: the best first, then whatever differs most from those already taken."""

from __future__ import annotations

import re
from collections.abc import Sequence

from warmstart.templates.extraction.likeness import shape_of
from warmstart.templates.values import Demonstration

_WORD = re.compile(r"\w{3,}")
_RANK = 0.05  # what a place further down costs
_ALONE = 0.3  # what it costs to be a single call: others show how one leads to the next
_SAME_SESSION = 0.5  # what another from a session costs that gave one already


def diverse(ranked: Sequence[Demonstration], most: int) -> tuple[Demonstration, ...]:
    """At most so many of them; `ranked` has the best first."""
    left = list(enumerate(ranked))
    chosen: list[Demonstration] = []
    while left and len(chosen) < most:
        place, best = max(left, key=lambda each: (_gain(each[0], each[1], chosen), -each[0]))
        left.remove((place, best))
        chosen.append(best)
    return tuple(chosen)


def _gain(place: int, one: Demonstration, chosen: Sequence[Demonstration]) -> float:
    sessions = {source.session for each in chosen for source in each.sources}
    again = _SAME_SESSION if sessions & {source.session for source in one.sources} else 0.0
    alone = _ALONE if len(one.acts) == 1 else 0.0
    return -_RANK * place - alone - again - max((_likeness(one, each) for each in chosen), default=0.0)


def _likeness(one: Demonstration, other: Demonstration) -> float:
    """How alike two are: half by what was asked, half by what was done."""
    return (_overlap(_asked(one), _asked(other)) + _overlap(_done(one), _done(other))) / 2


def _asked(one: Demonstration) -> frozenset[str]:
    return frozenset(_WORD.findall(one.task.lower()))


def _done(one: Demonstration) -> frozenset[str]:
    return frozenset(f"{act.tool} {shape_of(act.tool, act.arguments)}" for act in one.acts)


def _overlap(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other) if one | other else 0.0
