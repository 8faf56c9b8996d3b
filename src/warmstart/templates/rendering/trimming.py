"""Demonstrations cut to size, so that up to three have room beside the rest.

Each gets its share of the room and is shown as whole as that allows: first its results are shortened, then calls from
its beginning are left out, and the example says so. Its last calls are those that show that it ended well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from warmstart.templates.extraction.cutting import cut
from warmstart.templates.rendering.values import Piece, Weighed

_RESULT = 140  # characters of a result, when it has to be shortened
_CALLS = (6, 5, 4, 3, 2, 1)
_FEWEST = 2  # calls of an example that makes room for others; only what would not be shown at all is cut to one
_SAYING = 30  # characters that say how much was left out
_LEFT_OUT = re.compile(r"… (\d+) lines? left out …")  # as results say it that were shortened before
_GAP = re.compile(r"\s+|[/,;](?=\w)")
_WHOLE = re.compile(r"\{\{\w{1,60}\}\}|\[redacted:[^\]\n]{1,80}\]")

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
    acts = tuple(act._replace(result=shortened(act.result, _RESULT)) for act in piece.acts)
    if acts != piece.acts:
        piece = piece._replace(acts=acts)
        yield piece
    for number in _CALLS:
        if number < len(piece.acts):
            yield piece._replace(acts=piece.acts[-number:])


def shortened(text: str, most: int) -> str:
    """The beginning and the end of a result: what a program was asked, and what it came to.

    Whole lines where they fit, else whole words; no placeholder is cut, and what is left out is said.
    """
    if len(text) <= most:
        return text
    lines = text.split("\n")
    if len(lines) == 1:
        return cut(text, most * 2 // 3) + _end(text, most // 3)[1:]
    room = most - _SAYING
    first = _number(lines, room * 2 // 3)
    head = lines[:first] or [cut(lines[0], room * 2 // 3)]
    used = sum(map(len, head)) + len(head)
    last = _number(lines[:0:-1], room - used)
    tail = lines[len(lines) - last :] or [_end(lines[-1], room - used)]
    between = lines[len(head) : len(lines) - len(tail)]
    for side, end in ((head, -1), (tail, 0)):
        if _LEFT_OUT.fullmatch(side[end]):
            between.append(side.pop(end))
    number = sum(int(said[1]) if (said := _LEFT_OUT.fullmatch(line)) else 1 for line in between)
    saying = [f"… {number} line{'s' * (number > 1)} left out …"] if number else []
    return "\n".join([*head, *saying, *tail])


def _number(lines: Sequence[str], room: int) -> int:
    """How many lines have room, from the first on."""
    for number, line in enumerate(lines):
        room -= len(line) + 1
        if room < 0:
            return number
    return len(lines)


def _end(line: str, most: int) -> str:
    """The last words of a line, after a `…` that says that there was more."""
    if len(line) <= most:
        return line
    start = max(0, len(line) - most + 2)
    for found in _WHOLE.finditer(line, max(0, start - 100)):
        if found.start() < start < found.end():
            start = found.end()
    gap = _GAP.search(line, start, start + 40)
    return f"… {line[gap.end() if gap else start :].strip()}"
