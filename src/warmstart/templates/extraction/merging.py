"""Several sessions made into one seed: what more of them say ranks higher, and where two clash the newest stays.

The order in which the sessions are given does not matter. An item names as its sources only sessions that say the very
same: one that says it in other words raises its rank, but when the first is revoked, its words go with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Generic, NamedTuple, Protocol, TypeVar

from warmstart.templates.extraction.contradicting import contradict
from warmstart.templates.extraction.diversity import diverse
from warmstart.templates.extraction.likeness import shape_of
from warmstart.templates.extraction.patterns import manner_of
from warmstart.templates.items import item_id, sources_in
from warmstart.templates.values import (
    Context,
    Convention,
    Demonstration,
    Exemplar,
    Fix,
    Marker,
    Note,
    Recovery,
    SessionSeed,
    Sources,
    Task,
    ToolCard,
    UserPattern,
)

CONTEXTS = 24
CARDS = 12
EXEMPLARS = 3
CONVENTIONS = 6
FIXES = 5
RECOVERIES = 16
PATTERNS = 8
MARKERS = 20
TASKS = 24
NOTES = 24
_SOURCES = 24  # of one item
_QUOTE = 80  # characters of a text in a note
_RUN_AS = " is run as "
_MANY = 3  # sessions: what one of so many does with a tool is no convention
_HABIT = re.compile(r"^always |` is always `")
_STRENGTH = ("changed", "run", "read", "fetched", "cited")


class Dated(NamedTuple):
    """A seed and when its session ended."""

    seed: SessionSeed
    at: datetime | None = None


class _Sourced(Protocol):
    @property
    def sources(self) -> Sources: ...


Item = TypeVar("Item", bound=_Sourced)


class _Said(NamedTuple, Generic[Item]):
    """An item in a seed: `age` is the place of the seed by age, `place` that of the item in it."""

    age: int
    place: int
    item: Item


class _Group(NamedTuple, Generic[Item]):
    """What is the same item in several seeds, the newest first."""

    said: tuple[_Said[Item], ...]

    @property
    def newest(self) -> Item:
        return self.said[0].item

    @property
    def sessions(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(source.session for each in self.said for source in each.item.sources))

    @property
    def rank(self) -> tuple[int, int, int]:
        """More sessions before fewer, newer before older, and what a seed has first before what follows."""
        return -len(self.sessions), -self.said[0].age, self.said[0].place


def merge(seeds: Sequence[Dated], *, max_examples: int = 3) -> SessionSeed:
    """One seed of all of them."""
    ordered = [each.seed for each in sorted(seeds, key=_age)]
    notes: dict[Note, None] = dict.fromkeys(note for seed in ordered for note in seed.notes)
    contexts = _contexts(ordered, notes)
    cards = _cards(ordered, notes)
    recoveries = _recoveries(ordered, notes)
    return SessionSeed(
        contexts=contexts[:CONTEXTS],
        cards=cards[:CARDS],
        demonstrations=_demonstrations(ordered, max_examples),
        recoveries=recoveries[:RECOVERIES],
        patterns=_patterns(ordered)[:PATTERNS],
        markers=_markers(ordered)[:MARKERS],
        tasks=_tasks(ordered)[:TASKS],
        notes=tuple(notes)[:NOTES],
    )


def _age(dated: Dated) -> tuple[float, tuple[str, ...], str]:
    at = dated.at
    if at is not None and at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return at.timestamp() if at else 0.0, sources_in(dated.seed), repr(dated.seed)


def _groups(
    seeds: Sequence[SessionSeed],
    items: Callable[[SessionSeed], Iterable[Item]],
    key: Callable[[Item], Hashable],
) -> list[_Group[Item]]:
    """The items of all seeds, those with the same key together, best first."""
    found: dict[Hashable, list[_Said[Item]]] = {}
    for age, seed in enumerate(seeds):
        for place, item in enumerate(items(seed)):
            found.setdefault(key(item), []).append(_Said(age, place, item))
    groups = [_Group(tuple(sorted(said, key=lambda each: (-each.age, each.place)))) for said in found.values()]
    return sorted(groups, key=lambda group: group.rank)


def _sources(said: Iterable[_Said[Item]]) -> Sources:
    return tuple(dict.fromkeys(source for each in said for source in each.item.sources))[:_SOURCES]


def _plain(text: str) -> str:
    return " ".join(text.lower().split()).rstrip(".!")


def _quoted(text: str) -> str:
    text = " ".join(text.split())
    return f"“{text if len(text) <= _QUOTE else text[: _QUOTE - 1] + '…'}”"


def _resolved(
    groups: Sequence[_Group[Item]], clash: Callable[[Item, Item], str], notes: dict[Note, None]
) -> list[_Group[Item]]:
    """The groups without those that a newer one speaks against; `clash` says in words what became of two."""
    kept: list[_Group[Item]] = []
    for group in sorted(groups, key=lambda each: (-each.said[0].age, each.said[0].place)):
        newer = next(((each, told) for each in kept if (told := clash(group.newest, each.newest))), None)
        if newer is None:
            kept.append(group)
        else:
            notes[Note(newer[1], tuple(dict.fromkeys((*newer[0].sessions, *group.sessions))))] = None
    return sorted(kept, key=lambda each: each.rank)


# -- kind by kind


def _contexts(seeds: Sequence[SessionSeed], notes: dict[Note, None]) -> tuple[Context, ...]:
    def clash(old: Context, new: Context) -> str:
        if not contradict(old.text, new.text):
            return ""
        return f"{_quoted(new.text)} is newer than {_quoted(old.text)} and holds instead of it"

    groups = _groups(seeds, lambda seed: seed.contexts, lambda context: _plain(context.text))
    return tuple(replace(group.newest, sources=_sources(group.said)) for group in _resolved(groups, clash, notes))


def _cards(seeds: Sequence[SessionSeed], notes: dict[Note, None]) -> tuple[ToolCard, ...]:
    groups = _groups(seeds, lambda seed: seed.cards, lambda card: card.tool)
    return tuple(_card(group.newest.tool, seeds, notes) for group in groups)


def _card(tool: str, seeds: Sequence[SessionSeed], notes: dict[Note, None]) -> ToolCard:
    def of(seed: SessionSeed) -> ToolCard:
        return next((card for card in seed.cards if card.tool == tool), ToolCard(tool=tool))

    def shape(exemplar: Exemplar) -> str:
        return shape_of(tool, exemplar.arguments)

    def other_way(old: Convention, new: Convention) -> str:
        if _subject(old.text) != _subject(new.text):
            return ""
        return f"{tool}: {_quoted(new.text)} is newer than {_quoted(old.text)} and holds instead of it"

    exemplars = [
        replace(
            group.newest, sources=_sources(each for each in group.said if each.item.arguments == group.newest.arguments)
        )
        for group in _groups(seeds, lambda seed: of(seed).exemplars, shape)
    ]
    said = _groups(seeds, lambda seed: of(seed).conventions, lambda convention: convention.text)
    users = len({source.session for seed in seeds for source in of(seed).sources})
    conventions = [
        replace(group.newest, count=sum(each.item.count for each in group.said), sources=_sources(group.said))
        for group in _resolved(said, other_way, notes)
        if users < _MANY or len(group.sessions) > 1 or not _HABIT.search(group.newest.text)
    ]
    fixes = [
        replace(group.newest, count=sum(each.item.count for each in same), sources=_sources(same))
        for group in _groups(seeds, lambda seed: of(seed).fixes, lambda fix: fix.error)
        if (same := _of_one_mind(tool, group, notes))
    ]
    return ToolCard(
        tool=tool,
        exemplars=tuple(exemplars[:EXEMPLARS]),
        conventions=tuple(conventions[:CONVENTIONS]),
        fixes=tuple(fixes[:FIXES]),
    )


def _subject(text: str) -> str:
    """What a convention speaks of: what stands before the value that it gives."""
    for told in (_RUN_AS, " is always ", " is "):
        if told in text:
            return text.split(told)[0] + told
    return text


Mended = TypeVar("Mended", Fix, Recovery)


def _of_one_mind(tool: str, group: _Group[Mended], notes: dict[Note, None]) -> list[_Said[Mended]]:
    """Those of a group that met an error as the newest did; of the others there is a note."""
    newest = group.newest
    same = [each for each in group.said if _act(each.item.change) == _act(newest.change)]
    others = [each for each in group.said if each not in same]
    for each in others:
        told = (
            f"{tool}: {_quoted(newest.error)} was met by “{each.item.change}”, later by “{newest.change}”, which holds"
        )
        sessions = dict.fromkeys(source.session for said in (group.said[0], each) for source in said.item.sources)
        if len(sessions) > 1:
            notes[Note(told, tuple(sessions))] = None
    exact = [each for each in same if each.item.change == newest.change]
    return exact or same


def _act(change: str) -> str:
    """What was done about an error, without what was looked at before."""
    return change.rpartition(", then ")[2]


def _recoveries(seeds: Sequence[SessionSeed], notes: dict[Note, None]) -> tuple[Recovery, ...]:
    groups = _groups(seeds, lambda seed: seed.recoveries, lambda recovery: (recovery.tool, recovery.error))
    found: list[Recovery] = []
    for group in groups:
        newest = group.newest
        same = _of_one_mind(newest.tool, group, notes)
        exact = [each for each in same if (each.item.failed, each.item.worked) == (newest.failed, newest.worked)]
        found.append(replace(newest, count=sum(each.item.count for each in group.said), sources=_sources(exact)))
    return tuple(found)


def _patterns(seeds: Sequence[SessionSeed]) -> tuple[UserPattern, ...]:
    groups = _groups(seeds, lambda seed: seed.patterns, lambda pattern: manner_of(pattern.text))
    return tuple(
        replace(group.newest, sources=_sources(each for each in group.said if each.item.text == group.newest.text))
        for group in groups
    )


def _markers(seeds: Sequence[SessionSeed]) -> tuple[Marker, ...]:
    groups = _groups(seeds, lambda seed: seed.markers, lambda marker: (marker.kind, marker.value))
    found = [
        replace(
            group.newest,
            use=min((each.item.use for each in group.said), key=_STRENGTH.index),
            count=sum(each.item.count for each in group.said),
            sources=_sources(group.said),
        )
        for group in groups
    ]
    sessions = {(group.newest.kind, group.newest.value): len(group.sessions) for group in groups}
    return tuple(
        sorted(
            found,
            key=lambda each: (
                -sessions[each.kind, each.value],
                _STRENGTH.index(each.use),
                -each.count,
                each.kind,
                each.value,
            ),
        )
    )


def _demonstrations(seeds: Sequence[SessionSeed], most: int) -> tuple[Demonstration, ...]:
    def done(one: Demonstration) -> Hashable:
        return tuple((act.tool, shape_of(act.tool, act.arguments)) for act in one.acts)

    def same(one: Demonstration, other: Demonstration) -> bool:
        return item_id("demonstration", one) == item_id("demonstration", other)

    groups = _groups(seeds, lambda seed: seed.demonstrations, done)
    found = [
        replace(group.newest, sources=_sources(each for each in group.said if same(each.item, group.newest)))
        for group in groups
    ]
    return diverse(found, most)


def _tasks(seeds: Sequence[SessionSeed]) -> tuple[Task, ...]:
    """The sub-tasks that more sessions had first, then the newer ones."""
    found: dict[str, list[tuple[int, int, Task]]] = {}
    for age, seed in enumerate(seeds):
        for place, task in enumerate(seed.tasks):
            found.setdefault(_plain(task.text), []).append((-age, place, task))
    ranked = sorted(
        found.values(), key=lambda some: (-len({task.source.session for _, _, task in some}), min(some)[:2])
    )
    return tuple(min(some)[2] for some in ranked)
