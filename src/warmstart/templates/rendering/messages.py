"""Messages in the OpenAI shape: a system note, then for every call an assistant message and the tool's answer."""

from __future__ import annotations

from hashlib import blake2b
from json.encoder import encode_basestring
from string import ascii_lowercase
from typing import Any

from warmstart.sessions.marks import CALL, MARK
from warmstart.templates.rendering.note import NO_RESULT, headline
from warmstart.templates.rendering.values import Piece
from warmstart.templates.values import Act

Fields = dict[str, Any]


def note(text: str) -> Fields:
    """The message that holds the note."""
    return {"role": "system", "content": text}


def demonstration(piece: Piece, number: int) -> list[Fields]:
    """A pair for each call."""
    messages: list[Fields] = []
    for place, act in enumerate(piece.acts):
        messages += pair(act, call_id(piece, place), said(piece, number) if place == 0 else "")
    return messages


def pair(act: Act, call: str, text: str = "") -> list[Fields]:
    """A call and its answer, with our mark or a text that begins with it."""
    function = {"name": act.tool, "arguments": act.arguments}
    calls = [{"id": call, "type": "function", "function": function}]
    return [
        {"role": "assistant", "content": text or MARK, "tool_calls": calls},
        {"role": "tool", "tool_call_id": call, "content": act.result or NO_RESULT},
    ]


def words(act: Act) -> str:
    """What a call says, as it stands in the JSON of its messages."""
    return f"{act.tool} {encode_basestring(act.arguments)} {encode_basestring(act.result)}"


def call_id(piece: Piece, place: int) -> str:
    """An id that the same call of the same demonstration always has, short since it is sent twice."""
    digest = blake2b(f"{piece.item}/{place}".encode(), digest_size=8).digest()
    return CALL + "".join(ascii_lowercase[byte % 26] for byte in digest)


def said(piece: Piece, number: int) -> str:
    """What stands beside the first call: what was asked for."""
    return f"{MARK} {headline(piece, number)}"
