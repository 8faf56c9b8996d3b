"""Start a session warm: put a template's messages where the conversation begins.

The caller's list is never changed, and a conversation that already holds a template is left as it is.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import msgspec

from warmstart.errors import InvalidTemplate
from warmstart.redact.redactor import Redactor
from warmstart.sessions.marks import CALL
from warmstart.templates.rendering import note, xml
from warmstart.templates.rendering.rendering import BUDGET, render
from warmstart.templates.rendering.values import Renderer, Rendering, Shape
from warmstart.templates.tools import Definitions
from warmstart.templates.values import WarmTemplate

_LEADING = ("system", "developer")
_ANTHROPIC_BLOCKS = {"tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document"}
_ENCODE = msgspec.json.Encoder(enc_hook=repr).encode

Fields = Mapping[str, Any]


def inject(
    template: WarmTemplate,
    messages: Sequence[Fields],
    *,
    tools: Definitions | None = None,
    renderer: Renderer = "messages",
    budget_tokens: int = BUDGET,
    shape: Shape | None = None,
    redactor: Redactor | None = None,
    allow_quarantined: bool = False,
) -> list[Any]:
    """A new list: the messages with the template's after the leading system messages.

    `shape` is told from the messages and tools where it is not given. What does not fit into `budget_tokens` is left
    out; when not even the note fits, nothing is inserted.
    """
    bootstrapper = WarmSessionBootstrapper(
        template,
        tools=tools,
        renderer=renderer,
        budget_tokens=budget_tokens,
        shape=shape,
        redactor=redactor,
        allow_quarantined=allow_quarantined,
    )
    return bootstrapper.inject(messages)


class WarmSessionBootstrapper:
    """Holds a template ready for sessions that all have the same tools."""

    def __init__(
        self,
        template: WarmTemplate,
        *,
        tools: Definitions | None = None,
        renderer: Renderer = "messages",
        budget_tokens: int = BUDGET,
        shape: Shape | None = None,
        redactor: Redactor | None = None,
        allow_quarantined: bool = False,
    ) -> None:
        _check_state(template, allow_quarantined=allow_quarantined)
        self._template = _Same(template)
        self._tools = _Tools(tools)
        self._renderer: Renderer = renderer
        self._budget = budget_tokens
        self._shape = shape
        self._redactor = redactor

    @property
    def rendering(self) -> Rendering:
        """What would be inserted, in the shape that was asked for or that the tools have."""
        return self._in(self._shape or self._tools.shape or "openai")

    def inject(self, messages: Sequence[Fields]) -> list[Any]:
        """A new list: the messages with the template's after the leading system messages."""
        own = list(messages)
        if holds_template(own):
            return own
        rendering = self.rendering_for(own)
        inserted: list[Any] = rendering.messages
        place = next((place for place, message in enumerate(own) if _role(message) not in _LEADING), len(own))
        if place and inserted and inserted[0]["role"] == "system":
            inserted[0]["role"] = _role(own[place - 1])  # who says "developer" may not say "system" as well
        if rendering.closing and place < len(own) and _role(own[place]) != "user":
            inserted.pop()
        return own[:place] + inserted + own[place:]

    def rendering_for(self, messages: Sequence[Fields]) -> Rendering:
        """What these messages would get: no standing instruction that their own system messages say already."""
        shape = self._shape or shape_of(messages) or self._tools.shape or "openai"
        return self._in(shape, _said_already(self._template.template, messages))

    def _in(self, shape: Shape, said: frozenset[int] = frozenset()) -> Rendering:
        return _rendered(self._template, self._tools, self._renderer, shape, self._budget, self._redactor, said)


def _said_already(template: WarmTemplate, messages: Sequence[Fields]) -> frozenset[int]:
    """The places of the standing instructions that stand word for word in the leading system messages."""
    contexts = template.seed.contexts
    if not contexts:
        return frozenset()
    own = itertools.takewhile(lambda message: _role(message) in _LEADING, messages)
    whole = " ".join(word for message in own for text in _texts(message) for word in text.split())
    return frozenset(place for place, one in enumerate(contexts) if " ".join(one.text.split()) in whole)


def shape_of(messages: Iterable[Fields]) -> Shape | None:
    """The shape of messages, `None` where both would look like this."""
    kinds: set[str] = set()
    openai = False
    for message in messages:
        openai = openai or _role(message) in ("tool", "function", *_LEADING) or bool(_calls(message))
        kinds.update(str(block.get("type")) for block in _blocks(message))
    if kinds & _ANTHROPIC_BLOCKS:
        return "anthropic"
    if openai:
        return "openai"
    return "anthropic" if kinds == {"text"} else "openai" if kinds else None


def holds_template(messages: Iterable[Fields]) -> bool:
    """Whether a template was put into these messages before, with any renderer."""
    return any(_is_of_template(message) for message in messages if isinstance(message, Mapping))


def _is_of_template(message: Fields) -> bool:
    blocks = _blocks(message)
    ids = [message.get("tool_call_id"), *(call.get("id") for call in _calls(message))]
    ids += (block.get(name) for block in blocks for name in ("id", "tool_use_id"))
    if any(isinstance(one, str) and one.startswith(CALL) for one in ids):
        return True
    if _role(message) not in ("user", *_LEADING):
        return False
    return any(map(_begins, _texts(message)))


def _texts(message: Fields) -> list[str]:
    found = [message.get("content"), *(block.get("text") for block in _blocks(message))]
    return [text for text in found if isinstance(text, str)]


def _begins(text: str) -> bool:
    """Whether a line begins as a note does: it may stand inside a longer system prompt."""
    return any(text.lstrip().startswith(mark) or f"\n{mark}" in text for mark in (note.BEGINNING, xml.BEGINNING))


def _role(message: Any) -> str:
    return str(message.get("role", "")) if isinstance(message, Mapping) else ""


def _blocks(message: Any) -> list[Fields]:
    return _listed(message, "content")


def _calls(message: Any) -> list[Fields]:
    return _listed(message, "tool_calls")


def _listed(message: Any, name: str) -> list[Fields]:
    found = message.get(name) if isinstance(message, Mapping) else None
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def _check_state(template: WarmTemplate, *, allow_quarantined: bool) -> None:
    if template.state in ("quarantined", "retired") and not allow_quarantined:
        shown = template.id or template.name
        raise InvalidTemplate(f"template {shown!r} is {template.state}: warmstart templates promote {shown}")


class _Same:
    """A template by its identity, to find its rendering again. It is frozen, so what it says stays the same."""

    def __init__(self, template: WarmTemplate) -> None:
        self.template = template

    def __hash__(self) -> int:
        return id(self.template)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.template is self.template


class _Tools:
    """Tools by what they say."""

    def __init__(self, tools: Definitions | None) -> None:
        self.definitions = None if tools is None else list(tools)
        self._said = _ENCODE(self.definitions)

    @property
    def shape(self) -> Shape | None:
        """The shape of API that tools are written for, where it shows."""
        found = [tool for tool in self.definitions or () if isinstance(tool, Mapping)]
        if any("input_schema" in tool for tool in found):
            return "anthropic"
        return "openai" if any("function" in tool or "parameters" in tool for tool in found) else None

    def __hash__(self) -> int:
        return hash(self._said)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Tools) and other._said == self._said


@lru_cache(maxsize=16)
def _rendered(
    same: _Same,
    tools: _Tools,
    renderer: Renderer,
    shape: Shape,
    budget: int,
    redactor: Redactor | None,
    said: frozenset[int],
) -> Rendering:
    template = same.template
    if said:
        others = (one for place, one in enumerate(template.seed.contexts) if place not in said)
        template = replace(template, seed=replace(template.seed, contexts=tuple(others)))
    return render(
        template,
        tools=tools.definitions,
        renderer=renderer,
        shape=shape,
        budget_tokens=budget,
        redactor=redactor,
    )
