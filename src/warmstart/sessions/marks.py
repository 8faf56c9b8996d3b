"""Marks on everything Warmstart adds to a conversation, so that it is never mistaken for someone's words.

A note begins with `MARK` and ends with `END`, or is a `TAG` element if it is XML; the id of a call begins with `CALL`.
Agents log all of it unchanged. Text quoted in a note cannot contain these marks.
"""

from __future__ import annotations

import re

from warmstart.tokens import count

TYPE_CHECKING = False  # hooks load this module, and `values` takes longer to load than everything else in it
if TYPE_CHECKING:
    from collections.abc import Iterable

    from warmstart.sessions.values import Message

MARK = "[warmstart]"
END = "[/warmstart]"
TAG = "<warmstart"
END_TAG = "</warmstart>"
PACKET = f"{MARK}\n# Handoff packet "  # how a packet begins; its id follows
BRIEF = f"{MARK} From earlier sessions here; verify before use:"  # how a brief begins
BRIEF_TOKENS = 200  # of a brief, unless somebody asks for another size
CALL = "call_warmstart_"

# A mark counts only at the start of a line, where a note has it; elsewhere someone only mentions it.
_NOTE = re.compile(
    rf"^[ \t]*(?:{re.escape(MARK)}.*?(?:{re.escape(END)}|\Z)|{TAG}(?=[\s>/]).*?(?:{END_TAG}|\Z))[ \t]*\n?",
    re.DOTALL | re.MULTILINE,
)


def frame_brief(sections: Iterable[tuple[str, Iterable[str]]]) -> str:
    """The text of a brief, from its headings and the lines under them; empty if there are none."""
    lines = [BRIEF]
    for heading, texts in sections:
        lines += [f"## {heading}", *(f"- {text}" for text in texts)]
    return "\n".join([*lines, END]) if len(lines) > 1 else ""


def lines_budget(tokens: int) -> int:
    """The tokens that a brief of this size has for its headings and lines."""
    return tokens - count(f"{BRIEF}\n{END}") - 1


def is_marked(text: str) -> bool:
    """Whether Warmstart wrote this text."""
    return text.lstrip()[:40].startswith((MARK, TAG))


def is_marked_call(call_id: str) -> bool:
    """Whether Warmstart added the call with this id."""
    return call_id.startswith(CALL)


def is_ours(message: Message) -> bool:
    """Whether Warmstart added this whole message to the conversation."""
    if message.tool_calls or message.tool_results:
        ids = [call.id for call in message.tool_calls] + [result.call_id for result in message.tool_results]
        return all(map(is_marked_call, ids))
    return is_marked(message.text)


def without_ours(text: str) -> str:
    """The text without Warmstart's notes, such as one that a host put into its system prompt.

    A note without an end extends to the end of the text: better to lose text than to keep our own words.
    """
    return _NOTE.sub("", text) if MARK in text or TAG in text else text


def without_hint(output: str) -> str:
    """The output of a call without the hint that a host put after it."""
    own = without_ours(output)
    return output if own == output else own.rstrip()
