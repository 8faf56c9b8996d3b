"""What fits: into the budget, and so that no session supplies more than half of what is shown.

Pieces are taken in a fixed order as long as there is room: standing instructions; the first demonstration; the first
convention and fix of each tool; three recoveries; two more demonstrations; further conventions and fixes; argument
examples; further recoveries; markers; habits. So the last of these go first, and of each kind its last. A demonstration
without room is shortened or passed over; whatever else has none ends it: what comes later in the order has none either,
and is not even looked at.

Then a session that supplies more than half loses the last of what it alone supplies, its demonstrations bit by bit,
until none does; others take the room that it leaves, and what has room after that is taken, in the same order. Half is
of all that is shown, our own words included; an item of several sessions counts for each of them in equal shares.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from warmstart.templates.rendering.values import Dropped, PieceKind, Waiting, Weighed

Shorter = Callable[[Weighed], Iterator[Weighed]]
Weigh = Callable[[Waiting], Weighed]


class Costs(NamedTuple):
    """What a frame costs: with nothing in it, with the line on what was left out, and each heading."""

    frame: int
    left_out: int
    headings: Mapping[PieceKind, tuple[str, int]]


class Fitted(NamedTuple):
    """What is shown, in its places, what it costs with its frame, and what went, in the order in which it did."""

    kept: tuple[Weighed, ...]
    tokens: int
    dropped: tuple[Dropped, ...]


def fit(
    order: Sequence[Waiting], budget: int, costs: Costs, *, weigh: Weigh, shorter: Shorter, balance: bool
) -> Fitted:
    """Take what fits, shortened where it has to be; with `balance` so that no session supplies more than half."""
    held = _Held(costs, budget, shorter, leaves_out=not _has_room(map(weigh, order), budget, costs))
    _fill(held, order, weigh)
    halves: list[int] = []
    if balance and held.dominant():
        while session := held.dominant():
            halves += held.give_up(session)
            _fill(held, (one for one in order if session not in one.sessions), weigh, tolerated=(session,))
        held.lengthen({one.place: weigh(one) for one in order if one.kind == "demonstration"})
        while _fill(held, order, weigh, tolerated=()):
            pass  # what one session adds may make room for another
    left = {one.place: one for one in reversed(order) if not (one.place in held.places or held.shows(one))}
    dropped = [Dropped(one.kind, one.item, "length") for one in left.values() if one.place not in halves]
    dropped += (Dropped(left[place].kind, left[place].item, "half") for place in halves if place in left)
    kept = tuple(sorted(held.entries, key=lambda entry: entry.piece.place))
    return Fitted(kept, held.tokens, tuple(dropped))


def _has_room(entries: Iterable[Weighed], budget: int, costs: Costs) -> bool:
    """Whether there is room for all of it."""
    headings: dict[str, int] = {}
    room = budget - costs.frame
    for piece, tokens in entries:
        heading, cost = costs.headings[piece.kind]
        room -= tokens + (0 if heading in headings else headings.setdefault(heading, cost))
        if room < 0:
            return False
    return True


def _fill(held: _Held, order: Iterable[Waiting], weigh: Weigh, *, tolerated: Collection[str] | None = None) -> int:
    """Hold what has room of what is not held yet, and say how many pieces that were."""
    before = len(held.entries)
    for one in order:
        if not (one.place in held.places or held.shows(one)):
            entry = weigh(one)
            if not held.takes(entry, tolerated=tolerated) and held.is_full(entry):
                break
    return len(held.entries) - before


class _Held:
    """What is held at a time, in the order in which it was taken, with its cost and what each session has of it."""

    def __init__(self, costs: Costs, budget: int, shorter: Shorter, *, leaves_out: bool) -> None:
        self.entries: list[Weighed] = []
        self.places: set[int] = set()
        self.leaves_out = leaves_out
        self._costs = costs
        self._budget = budget
        self._shorter = shorter
        self._shown = costs.frame
        self._under: dict[str, int] = {}
        self._shares: dict[str, float] = {}

    @property
    def tokens(self) -> int:
        """What all of it costs."""
        return self._shown + (self._costs.left_out if self.leaves_out else 0)

    def _add(self, entry: Weighed, place: int | None = None) -> None:
        self.entries.insert(len(self.entries) if place is None else place, entry)
        self.places.add(entry.piece.place)
        self._count(entry, 1)

    def _remove(self, place: int) -> Weighed:
        entry = self.entries.pop(place)
        self.places.remove(entry.piece.place)
        self._count(entry, -1)
        return entry

    def _count(self, entry: Weighed, sign: int) -> None:
        piece, tokens = entry
        heading, cost = self._costs.headings[piece.kind]
        number = self._under[heading] = self._under.get(heading, 0) + sign
        if number == (sign > 0):
            tokens += cost  # the first below its heading comes with it, the last goes with it
        self._shown += sign * tokens
        for session in piece.sessions:
            self._shares[session] = self._shares.get(session, 0.0) + sign * entry.tokens / len(piece.sessions)

    def takes(self, entry: Weighed, *, tolerated: Collection[str] | None) -> bool:
        """Hold a piece if there is room for it, or for a shorter version of it.

        Only the tolerated sessions may supply more than half then; any may when none are given.
        """
        for version in chain((entry,), self._shorter(entry)):
            if self.tokens + version.tokens <= self._budget:
                self._add(version)
                session = None if tolerated is None else self.dominant()
                if self.tokens <= self._budget and (session is None or session in (tolerated or ())):
                    return True
                self._remove(-1)
        return False

    def shows(self, one: Waiting) -> bool:
        """Whether a call of an example says the same already."""
        if one.again is None:
            return False
        item, calls = one.again
        return any(piece.item == item and len(piece.acts) >= calls for piece, _ in self.entries)

    def is_full(self, entry: Weighed) -> bool:
        """Whether what has no room says that nothing after it has any: it is no example, and not too long by itself."""
        cost = self._costs.headings[entry.piece.kind][1] + entry.tokens
        too_long = self._costs.frame + self._costs.left_out + cost > self._budget
        return not (entry.piece.acts or too_long) and self.tokens + entry.tokens > self._budget

    def give_up(self, session: str) -> list[int]:
        """Shorten or remove the last that a session alone supplies; its place if it went."""
        own = (place for place, entry in enumerate(self.entries) if entry.piece.sessions == (session,))
        place = max(own)
        entry = self._remove(place)
        less = next(self._shorter(entry), None)
        if less is None:
            self.leaves_out = True
            return [entry.piece.place]
        self._add(less, place)
        return []

    def lengthen(self, whole: Mapping[int, Weighed]) -> None:
        """Show more of the examples that were shortened, where there is room after all."""
        for entry in [entry for entry in self.entries if entry.piece.acts]:
            self._remove(self.entries.index(entry))
            if not self.takes(whole[entry.piece.place], tolerated=()):
                self._add(entry)

    def dominant(self) -> str | None:
        """The session that supplies more than half, if one does."""
        return next((session for session, share in self._shares.items() if 2 * share > self._shown), None)
