"""Items: the unit of what a session teaches. Briefs and templates are selections of items.

An item names the messages it came from, so that everything derived from a session can be revoked with it. Its texts
are redacted at extraction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import blake2b
from typing import Any, Literal, NamedTuple

import msgspec

from warmstart.profile.calls import SHELLS, fields_of

Kind = Literal[
    "instruction",  # a standing rule in the user's words
    "correction",  # what the user told the agent to do differently, in the user's words
    "command",  # a shell command that works here; `tool` says what for: test, build, lint, format, run
    "trap",  # an error and what worked instead; `calls` are the failed call and the fix
    "decision",  # what the user decided, in the user's words
    "reference",  # a URL or document that the user typed
    "file",  # a file that was changed (`tool` is `edit`) or read before the first change (`read`)
    "example",  # a call that worked, or an error and what worked instead; `tool` says what it teaches
    "context",  # a fact or rule of the program's own system prompt
    "habit",  # how the user writes; weak; `tool` is `request_style` or `feedback_style`
    "open",  # where work stopped
]


class Source(NamedTuple):
    """Where an item came from: the public id of a session, and the agent's own id of a message in it."""

    session: str
    message: str = ""

    @property
    def is_edit(self) -> bool:
        """Whether the source is a person who edited a template, not a session."""
        return self.session.startswith(EDIT)


class Turn(NamedTuple):
    """A request on one line, and what was done for it. `message` is the agent's own id of the request."""

    message: str
    at: float | None
    asked: str
    changed: tuple[str, ...]
    read: tuple[str, ...]
    ran: tuple[str, ...]


MAX_EXAMPLES = 10  # in a template
NO_REQUEST = "a call that worked"  # the text of an example whose request says nothing
EDIT = "edit:"  # prefix of the name of a person who wrote an item into a template by hand


class ToolCallExample(NamedTuple):
    """A tool call as shown in an item: the arguments as JSON or as a shell command, the result as its shape.

    `turn_number` is the number of the user's request that it was made for, from 1; 0 if it is not known.
    """

    tool_name: str
    arguments: str
    result: str = ""
    success: bool = True
    turn_number: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The example as JSON values, with the arguments as an object if they are one."""
        return {**self._asdict(), "arguments": fields_of(self.arguments) or self.arguments}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ToolCallExample:
        """The inverse of `to_dict`."""
        arguments = values["arguments"]
        text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
        return cls(**{**values, "arguments": text})

    def map_texts(self, change: Callable[[str], str]) -> ToolCallExample:
        """The example with `change` applied to each of its texts."""
        return self._replace(
            tool_name=change(self.tool_name), arguments=change(self.arguments), result=change(self.result)
        )


class Refused(NamedTuple):
    """A successful call that is no example, and why. `turn` is as in `ToolCallExample.turn_number`."""

    tool: str
    turn: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One thing that a session teaches.

    `count` is how often it occurred. For a command, `worked` and `failed` count the runs known to have worked and to
    have failed; a pipe hides the outcome of the others. An item that is not `clean` has words that first appeared in
    tool output: it is not carried if this is the first session that has it.
    """

    kind: Kind
    text: str
    tool: str = ""
    calls: tuple[ToolCallExample, ...] = ()
    count: int = 1
    worked: int = 0
    failed: int = 0
    clean: bool = True
    first_seen: datetime | None = None
    last_seen: datetime | None = None
    sources: tuple[Source, ...] = ()

    @property
    def commands(self) -> tuple[str, ...]:
        """The shell commands in a command or a trap."""
        return (self.text,) if self.kind == "command" else tuple(call.arguments for call in self.calls)

    def map_texts(self, change: Callable[[str], str]) -> Item:
        """The item with `change` applied to each of its texts, including the names of tools."""
        calls = tuple(call.map_texts(change) for call in self.calls)
        return replace(self, text=change(self.text), tool=change(self.tool), calls=calls)

    @property
    def fix(self) -> str:
        """The fix of a trap: another command, a call to make first, or different arguments."""
        tool, arguments = self.calls[-1][:2]
        if tool in SHELLS:
            return f"use `{arguments}`"
        fields = " and ".join(f"`{name}`" for name in fields_of(arguments))
        return f"change {fields}" if fields else f"call `{tool}` first"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionItems:
    """The items of one session. `terms` counts the words of its requests and of the files it changed.

    `typed` holds the words of its commands that the user typed or that are in a manifest of the project, one per line;
    `refused` are the successful calls that are no examples.
    """

    session_id: str
    started_at: datetime | None = None
    ended_at: datetime | None = None
    title: str = ""
    branch: str = ""
    typed: str = ""
    is_subagent: bool = False
    terms: dict[str, int] = field(default_factory=dict)
    items: tuple[Item, ...] = ()
    turns: tuple[Turn, ...] = ()
    refused: tuple[Refused, ...] = ()

    def of(self, kind: Kind) -> tuple[Item, ...]:
        return tuple(item for item in self.items if item.kind == kind)


def item_id(item: Item) -> str:
    """A hash of an item's content in twelve hexadecimal digits, independent of its sources."""
    content = msgspec.json.encode((item.kind, item.text, item.tool, item.calls))
    return blake2b(content, digest_size=6).hexdigest()
