"""How what Warmstart puts into a conversation is known again, so that it is never taken for somebody's words.

A note begins with `MARK`, or with `TAG` where it is XML, and the id of a call begins with `CALL`. Agents write all of
it into their logs as it is.
"""

from __future__ import annotations

from warmstart.sessions.values import Message

MARK = "[warmstart]"
TAG = "<warmstart"
CALL = "call_warmstart_"


def is_marked(text: str) -> bool:
    """Whether Warmstart wrote this text."""
    return text.lstrip()[:40].startswith((MARK, TAG))


def is_marked_call(call_id: str) -> bool:
    """Whether a call, or the result that answers it, is one that Warmstart showed."""
    return call_id.startswith(CALL)


def is_ours(message: Message) -> bool:
    """Whether Warmstart put this whole message into the conversation."""
    if message.tool_calls or message.tool_results:
        ids = [call.id for call in message.tool_calls] + [result.call_id for result in message.tool_results]
        return all(map(is_marked_call, ids))
    return is_marked(message.text)
