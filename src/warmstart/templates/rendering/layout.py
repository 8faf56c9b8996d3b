"""How pieces become messages, for each renderer and shape, and what each of them costs there."""

from __future__ import annotations

import json
from collections import Counter as Counts
from collections.abc import Sequence
from functools import cache
from json.encoder import encode_basestring

from warmstart.sessions.marks import CALL, MARK
from warmstart.templates.rendering import anthropic, messages, note, xml
from warmstart.templates.rendering.budget import Costs
from warmstart.templates.rendering.pieces import Pieces
from warmstart.templates.rendering.values import Dropped, Piece, PieceKind, Renderer, Shape, Weighed
from warmstart.templates.values import Act
from warmstart.tokens import Counter

_json = json.JSONEncoder(ensure_ascii=False).encode  # with the spaces that most clients send


class Layout:
    """Writes pieces in one way. Costs are of the JSON that is sent, so that roles, ids and escapes count."""

    def __init__(self, renderer: Renderer, shape: Shape, about: note.About, counter: Counter) -> None:
        self._shape = anthropic if shape == "anthropic" else messages
        self._in_pairs = renderer == "messages"
        self._in_xml = renderer == "xml"
        self._opening = xml.opening(about) if self._in_xml else note.opening(about)
        self._closing = [anthropic.closing()] if shape == "anthropic" else []
        self._counter = counter
        self._known: dict[Act, int] = {}
        self._pair, self._wrapping = _wrapping(shape, counter)  # type: ignore[arg-type]

    def cost(self, inserted: Sequence[messages.Fields]) -> int:
        """The tokens of messages as JSON."""
        return sum(self._counter(_json(message)) for message in inserted)

    def costs(self, pieces: Pieces, *, balance: bool) -> Costs:
        """What the frame of these pieces costs, and what saying that all of them were left out would."""
        if self._in_xml:
            headings = dict.fromkeys(note.HEADINGS, ("", 0))
        else:
            headings = _headings(self._counter, in_pairs=self._in_pairs)  # type: ignore[arg-type]
        return Costs(self.cost(self.build((), ())), self._left_out(pieces, balance=balance), headings)

    def _left_out(self, pieces: Pieces, *, balance: bool) -> int:
        shown = Counts(piece.kind for piece in pieces.shown)
        gone = shown + Counts(one.kind for one in pieces.dropped if one.reason in note.SAID)
        said = note.left_out({note.SAID["length"]: gone, note.SAID["half"]: shown if balance else {}})
        return self._counter(_line(xml.left_out(said) if self._in_xml else said)) if said else 0

    def weighed(self, piece: Piece) -> Weighed:
        """The piece with what it costs."""
        if not (self._in_pairs and piece.acts):
            return Weighed(piece, self._counter(_line(xml.line(piece) if self._in_xml else note.line(piece))))
        words = self._counter(_line(note.headline(piece, 1))) + sum(map(self._words, piece.acts))
        return Weighed(piece, self._wrapping + self._pair * len(piece.acts) + words)

    def _words(self, act: Act) -> int:
        """What the words of a call cost inside a message; counted once for all versions of an example."""
        if (known := self._known.get(act)) is None:
            known = self._known[act] = self._counter(self._shape.words(act))
        return known

    def build(self, pieces: Sequence[Piece], dropped: Sequence[Dropped]) -> list[messages.Fields]:
        """The messages."""
        pairs = [piece for piece in pieces if self._in_pairs and piece.acts]
        lines = [piece for piece in pieces if not (self._in_pairs and piece.acts)]
        if self._in_xml:
            text = xml.write(self._opening, lines, dropped)
        else:
            text = note.write(self._opening, lines, dropped, note.CALLS_FOLLOW if pairs else "")
        inserted = [self._shape.note(text)]
        for number, piece in enumerate(pairs, 1):
            inserted += self._shape.demonstration(piece, number)
        return inserted + self._closing


def _line(text: str) -> str:
    """A line as it stands inside the JSON of a message."""
    return encode_basestring(f"\n{text}")[1:-1]


@cache
def _wrapping(shape: Shape, counter: Counter) -> tuple[int, int]:
    """What a call costs beside its words, and what the text before the first call of an example does."""
    pair = (anthropic if shape == "anthropic" else messages).pair(Act("", "{}", " "), f"{CALL}abcdefgh")
    return sum(counter(_json(message)) for message in pair), counter(_json({"type": "text", "text": f"{MARK} "}))


@cache
def _headings(counter: Counter, *, in_pairs: bool) -> dict[PieceKind, tuple[str, int]]:
    """The heading of each kind with its cost."""
    headings = {**note.HEADINGS, "demonstration": note.CALLS_FOLLOW} if in_pairs else note.HEADINGS
    return {kind: (heading, counter(_line(heading))) for kind, heading in headings.items()}
