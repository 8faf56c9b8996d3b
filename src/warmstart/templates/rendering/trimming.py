"""Demonstrations cut to size, so that up to three have room beside the rest.

Each gets its share of the room and is shown as whole as that allows: first its results are shortened, then calls from
its beginning are left out, and the example says so. Its last calls are those that show that it ended well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from warmstart.templates.rendering.values import Piece, Weighed
from warmstart.text.truncate import head_and_tail

_RESULT = 140  # characters of a result, when it has to be shortened
_CALLS = (6, 5, 4, 3, 2, 1)
_FEWEST = 2  # calls of an example that makes room for others; only what would not be shown at all is cut to one

Weigh = Callable[[Piece], Weighed]


class Trimmer:
    """Makes shorter versions of demonstrations, each once and only when it is asked for."""

    def __init__(self, weigh: Weigh) -> None:
        self._weigh = weigh
        self._made: dict[int, tuple[list[Weighed], Iterator[Weighed]]] = {}

    def trimmed(self, pieces: Sequence[Piece], room: int) -> list[Weighed]:
        """The demonstrations, the first of them cut so that as many as can be have room together."""
        whole = [self._weigh(piece) for piece in pieces]
        for number in range(len(pieces), 0, -1):
            if fitted := self._shared(whole[:number], room):
                return [*fitted, *whole[number:]]
        return whole

    def shorter(self, entry: Weighed) -> Iterator[Weighed]:
        """The same demonstration with less and less of it; nothing for anything else."""
        if entry.piece.acts:
            versions = map(self._weigh, _versions(entry.piece))
            made, more = self._made.setdefault(entry.piece.place, ([entry], versions))
            place = made.index(entry) + 1
            yield from made[place:]
            for version in more:
                made.append(version)
                yield version

    def _shared(self, whole: Sequence[Weighed], room: int) -> list[Weighed]:
        """Each with an equal share of the room and of what shorter ones left of theirs; nothing if one has none."""
        fitted: dict[int, Weighed] = {}
        for place in sorted(range(len(whole)), key=lambda place: whole[place].tokens):
            share = room // (len(whole) - len(fitted))
            one = self._within(whole[place], share)
            if one is None:
                return []
            room -= one.tokens
            fitted[place] = one
        return [fitted[place] for place in range(len(whole))]

    def _within(self, whole: Weighed, share: int) -> Weighed | None:
        """The longest version that has room, and still shows how one call followed another."""
        if whole.tokens <= share:
            return whole
        fewest = min(_FEWEST, len(whole.piece.acts))
        versions = (one for one in self.shorter(whole) if len(one.piece.acts) >= fewest)
        return next((one for one in versions if one.tokens <= share), None)


def _versions(piece: Piece) -> Iterator[Piece]:
    """Shorter and shorter versions of a demonstration."""
    acts = tuple(act._replace(result=head_and_tail(act.result, _RESULT)) for act in piece.acts)
    if acts != piece.acts:
        piece = piece._replace(acts=acts)
        yield piece
    for number in _CALLS:
        if number < len(piece.acts):
            yield piece._replace(acts=piece.acts[-number:])
