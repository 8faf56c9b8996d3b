"""What a rendering is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import msgspec

from warmstart.templates.values import Act

Renderer = Literal["messages", "system", "xml"]
Shape = Literal["openai", "anthropic"]
PieceKind = Literal[
    "context", "convention", "fix", "exemplar", "demonstration", "recovery", "marker", "pattern"
]  # a tool card comes in its pieces, since they are dropped one by one
Reason = Literal["tool", "arguments", "three", "length", "half"]

WHY: dict[Reason, str] = {
    "tool": "this session does not have the tool",
    "arguments": "the arguments do not fit the tool's schema",
    "three": "three demonstrations are enough",
    "length": "no room in the budget",
    "half": "one session would supply more than half",
}


class Piece(NamedTuple):
    """The least that is shown or left out, its texts safe to show.

    `place` is where it stands among all; `rank` is smaller for what is kept longer.
    """

    kind: PieceKind
    item: str  # the id of the item that it is, or is part of
    place: int
    rank: int
    sessions: tuple[str, ...]
    text: str = ""  # a context, convention, pattern or marker; the task of a demonstration; arguments that worked
    tool: str = ""
    label: str = ""  # who said it, what was done with it, what says that it ended well
    error: str = ""
    failed: str = ""
    change: str = ""
    number: int = 1  # how often it was seen; of a demonstration its calls, shown or not
    acts: tuple[Act, ...] = ()


class Waiting(NamedTuple):
    """A piece whose words are not made yet: most of a large template never has room, and making them takes time."""

    kind: PieceKind
    item: str
    place: int
    rank: int
    sessions: tuple[str, ...]
    words: Callable[[], dict[str, Any]]
    again: tuple[str, int] | None = None  # a demonstration that shows the same, in which call from its end

    def made(self) -> Piece:
        return Piece(self.kind, self.item, self.place, self.rank, self.sessions, **self.words())


class Weighed(NamedTuple):
    """A piece with the tokens that it takes."""

    piece: Piece
    tokens: int


class Part(NamedTuple):
    """What a rendering holds and what it costs; the `note` is what frames the others."""

    kind: PieceKind | Literal["note"]
    item: str
    tokens: int


class Dropped(NamedTuple):
    """What was left out, in the order in which it went."""

    kind: PieceKind
    item: str
    reason: Reason

    @property
    def why(self) -> str:
        return WHY[self.reason]


_DECODE = msgspec.json.Decoder(list[dict[str, Any]]).decode


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """Messages to insert, with what they hold and cost. Without messages there was nothing, or no room for it.

    `closing` says that the last message only hands over to a user's message and can go where none follows.
    """

    renderer: Renderer
    shape: Shape
    encoded: bytes
    parts: tuple[Part, ...]
    dropped: tuple[Dropped, ...]
    budget: int
    closing: bool = False

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages, made anew so that nobody's changes reach another session."""
        return _DECODE(self.encoded)

    @property
    def tokens(self) -> int:
        """What is inserted costs at most this, roles, ids and JSON included."""
        return sum(part.tokens for part in self.parts)

    @property
    def items(self) -> tuple[str, ...]:
        """The ids of the items that are carried, each once."""
        return tuple(dict.fromkeys(part.item for part in self.parts if part.item))
