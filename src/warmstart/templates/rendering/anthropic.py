"""Messages in the Anthropic shape: roles alternate from a user's on, and every call is answered in the next message.

There is no system role among these messages, so that the note is a user's message, marked as ours like all the rest.
"""

from __future__ import annotations

import json
from json.encoder import encode_basestring

import msgspec

from warmstart.sessions.marks import MARK
from warmstart.templates.rendering.messages import Fields, call_id, said
from warmstart.templates.rendering.note import NO_RESULT
from warmstart.templates.rendering.values import Piece
from warmstart.templates.values import Act

_SPACED = json.JSONEncoder(ensure_ascii=False).encode


def note(text: str) -> Fields:
    """The message that holds the note."""
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def demonstration(piece: Piece, number: int) -> list[Fields]:
    """A pair for each call."""
    messages: list[Fields] = []
    for place, act in enumerate(piece.acts):
        messages += pair(act, call_id(piece, place), said(piece, number) if place == 0 else "")
    return messages


def pair(act: Act, call: str, text: str = "") -> list[Fields]:
    """A call and its answer; the call's id marks them, a text does so too where there is one."""
    use = {"type": "tool_use", "id": call, "name": act.tool, "input": msgspec.json.decode(act.arguments)}
    result = {"type": "tool_result", "tool_use_id": call, "content": act.result or NO_RESULT}
    before = [{"type": "text", "text": text}] if text else []
    return [{"role": "assistant", "content": [*before, use]}, {"role": "user", "content": [result]}]


def words(act: Act) -> str:
    """What a call says, as it stands in the JSON of its messages."""
    return f"{act.tool} {_SPACED(msgspec.json.decode(act.arguments))} {encode_basestring(act.result)}"


def closing() -> Fields:
    """What hands over to the user's own first message."""
    return {"role": "assistant", "content": [{"type": "text", "text": f"{MARK} End of the examples."}]}
