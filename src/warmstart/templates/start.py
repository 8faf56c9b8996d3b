"""Start a session warm: put the brief of its project and the template that fits its task before the conversation.

The caller's list is never changed, and a conversation that already contains a template is left as it is. A session that
was started before gets exactly the same template again, and no second row: hosts retry, and a prompt cache needs the
same bytes. A host that must never break catches `WarmstartError` and continues with its own messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from warmstart.errors import InvalidTemplate, TemplateNotFound
from warmstart.sessions.marks import is_marked
from warmstart.templates.audit import Use, record, started
from warmstart.templates.brief import Brief
from warmstart.templates.rendering import TEMPLATE_NOTE, TEMPLATE_TAG, Rendering, Shape, closing, note_message, render
from warmstart.templates.selection import DEFAULT_POLICY, Choice, Selector, Suggestion, Task
from warmstart.templates.store import SQLTemplateStore
from warmstart.templates.template import SessionSeed, WarmTemplate
from warmstart.templates.tools import Definitions

if TYPE_CHECKING:
    from warmstart.recall.recall import Recall

_LEADING = ("system", "developer")
_ANTHROPIC_BLOCKS = {"text", "tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document"}

Fields = Mapping[str, Any]


def inject(template: WarmTemplate, messages: Sequence[Fields], *, brief: Brief | str = "", **options: Any) -> list[Any]:
    """A new list: the messages with the brief and the template after the leading system messages.

    `options` are those of `WarmSessionBootstrapper`. Items that do not fit into the budget are left out; if none fits,
    the template is not inserted.
    """
    return WarmSessionBootstrapper(template, **options).inject(messages, brief)


class WarmSessionBootstrapper:
    """Injects one template into sessions that all have the same tools. `options` are those of `render`."""

    def __init__(
        self, template: WarmTemplate, *, shape: Shape | None = None, allow_quarantined: bool = False, **options: Any
    ) -> None:
        if template.state in ("quarantined", "retired") and not allow_quarantined:
            name = template.id or template.name
            raise InvalidTemplate(f"template {name!r} is {template.state}: warmstart templates promote {name}")
        self._template = template
        self._tools = None if options.get("tools") is None else list(options["tools"])
        self._options = {**options, "tools": self._tools}
        self._shape = shape

    @property
    def rendering(self) -> Rendering:
        """What would be inserted into an empty conversation."""
        return self.rendering_for(())

    def rendering_for(self, messages: Sequence[Fields]) -> Rendering:
        """What would be inserted into these messages, without instructions that their system messages already state."""
        leading = takewhile(lambda message: _get(message, "role") in _LEADING, messages)
        prompt = " ".join(word for message in leading for text in _texts(message) for word in text.split())
        items = (one for one in self._template.seed.items if one.kind != "instruction" or one.text not in prompt)
        template = replace(self._template, seed=SessionSeed(items=tuple(items)))
        return render(template, shape=self._shape or shape_of(messages, self._tools or ()), **self._options)

    def inject(self, messages: Sequence[Fields], brief: Brief | str = "") -> list[Any]:
        """A new list: the messages with the brief and the template after the leading system messages."""
        if holds_template(messages):
            return list(messages)
        rendering = self.rendering_for(messages)
        return _insert(messages, str(brief), rendering.messages, rendering.shape)


def insert_brief(messages: Sequence[Fields], brief: Brief | str, shape: Shape | None = None) -> list[Any]:
    """A new list: the messages with the brief after the leading system messages."""
    return _insert(messages, str(brief), [], shape or shape_of(messages))


def _insert(messages: Sequence[Fields], brief: str, template: list[dict[str, Any]], shape: Shape) -> list[Any]:
    own, anthropic = list(messages), shape == "anthropic"
    if brief and not any(brief in text for message in own for text in _texts(message)):
        if anthropic and template:
            template[0]["content"].insert(0, {"type": "text", "text": brief})
        else:
            after = template or ([closing()] if anthropic else [])
            template = [note_message(brief, anthropic=anthropic), *after]
    place = next((place for place, message in enumerate(own) if _get(message, "role") not in _LEADING), len(own))
    for message in template if place else ():
        if message["role"] == "system":
            message["role"] = own[place - 1]["role"]  # "developer" and "system" must not be mixed
    if anthropic and template and place < len(own) and _get(own[place], "role") != "user":
        template.pop()  # the closing assistant message would come before another one
    return own[:place] + template + own[place:]


def is_prompt(message: Fields) -> bool:
    """Whether a message is the program's own, not a part of the conversation."""
    return _get(message, "role") in _LEADING


def shape_of(messages: Iterable[Fields], tools: Iterable[Fields | str] = ()) -> Shape:
    """The shape of messages, or of tools if the messages do not tell: Anthropic's have blocks and no system role."""
    kinds: set[str] = set()
    for message in messages:
        if _get(message, "role") in ("tool", *_LEADING) or _get(message, "tool_calls"):
            return "openai"
        kinds.update(str(block.get("type")) for block in _blocks(message))
    if kinds:
        return "anthropic" if kinds <= _ANTHROPIC_BLOCKS else "openai"
    return "anthropic" if any("input_schema" in tool for tool in tools if isinstance(tool, Mapping)) else "openai"


def holds_template(messages: Iterable[Fields]) -> bool:
    """Whether these messages already contain a template, from any renderer: each starts with a note."""
    texts = (
        f"\n{text.lstrip()}"
        for message in messages
        for text in _texts(message)
        if _get(message, "role") in ("user", *_LEADING)
    )
    return any(f"\n{TEMPLATE_NOTE}" in text or f"\n{TEMPLATE_TAG}" in text for text in texts)


def last_request(messages: Iterable[Fields]) -> str:
    """The text of the last user message, not counting tool results and what Warmstart itself inserted."""
    request = ""
    for message in messages:
        if _get(message, "role") == "user":
            request = "\n".join(text for text in _texts(message) if not is_marked(text)).strip() or request
    return request


def _get(message: Any, name: str) -> Any:
    return message.get(name) if isinstance(message, Mapping) else None  # clients may mix objects into their messages


def _texts(message: Fields) -> list[str]:
    texts = [_get(message, "content"), *(block.get("text") for block in _blocks(message))]
    return [text for text in texts if isinstance(text, str)]


def _blocks(message: Fields) -> list[Fields]:
    content = _get(message, "content")
    return [block for block in content if isinstance(block, Mapping)] if isinstance(content, list) else []


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The messages that a session starts with, the choice behind them, and the row that records it.

    `rendering` is what was inserted of a template, `None` for a start without one. `use_id` is 0 if there is no row.
    """

    messages: list[Any]
    choice: Choice
    use_id: int
    rendering: Rendering | None = None


def start_warm(
    store: SQLTemplateStore,
    session_id: str,
    messages: Sequence[Fields],
    *,
    task: str | None = None,
    project: str = "",
    agent: str = "",
    tools: Definitions | None = None,
    brief: Brief | str = "",
    holdout: float = DEFAULT_POLICY.holdout,
    explore: float = DEFAULT_POLICY.explore,
    recall: Recall | None = None,
    selector: Selector | None = None,
    **rendering: Any,
) -> Started:
    """The messages of a session with the brief and, unless it is held out, the template that fits its task.

    `session_id` is the agent's own id or ours, and seeds the draw. The task defaults to the last user message. A host
    that starts many sessions keeps one `selector`, which has its own `recall`, `holdout` and `explore`. `rendering` are
    further options of `render`.
    """
    text = last_request(messages) if task is None else task
    tools = None if tools is None else list(tools)
    asked = Task(text, project=project, agent=agent, tools=tools, session=session_id)
    options = {"task": text, "tools": tools, **rendering}
    use = started(store, session_id)
    if use is None:
        if holds_template(messages):
            choice = Choice(arm="abstained", why="the conversation already contains a template")
            return Started(messages=list(messages), choice=choice, use_id=0)
        if selector is None and not text.strip():
            choice = Choice(arm="abstained", why="the session has no task yet")
            return _start(messages, str(brief), choice, 0, None)
        if selector is None:
            selector = Selector(store, recall=recall, policy=DEFAULT_POLICY._replace(holdout=holdout, explore=explore))
        choice, shown = selector.choose(asked), None
        if choice.arm == "warm" and choice.template is not None:
            shown = _render(store.get(choice.template.id, version=choice.template.version), messages, options)
            if shown is None:
                why = f"nothing of the template {choice.template.name!r} fits into the budget with these tools"
                choice = replace(choice, arm="abstained", template=None, why=why)
        tokens, items = (shown.tokens, shown.items) if shown else (0, ())
        use = record(store, choice, asked, tokens=tokens, items=items)
        if (use.arm, use.template) == (choice.arm, choice.template.id if choice.template else ""):
            return _start(messages, str(brief), choice, use.id, shown)
    # It was started before, or another process was faster: repeat that start.
    choice, template = _choice_of(use, store)
    shown = _render(template, messages, options) if template and use.arm == "warm" else None
    return _start(messages, str(brief), choice, use.id, shown)


def _render(template: WarmTemplate, messages: Sequence[Fields], options: Mapping[str, Any]) -> Rendering | None:
    """The template for a session, which may have been retired since; `None` if nothing of it can be shown."""
    rendering = WarmSessionBootstrapper(template, allow_quarantined=True, **options).rendering_for(messages)
    return rendering if rendering.parts else None


def _start(messages: Sequence[Fields], brief: str, choice: Choice, use_id: int, rendering: Rendering | None) -> Started:
    warm = list(messages)
    if not holds_template(messages):
        shape = rendering.shape if rendering else shape_of(messages)
        warm = _insert(messages, brief, rendering.messages if rendering else [], shape)
    return Started(messages=warm, choice=choice, use_id=use_id, rendering=rendering)


def _choice_of(use: Use, store: SQLTemplateStore) -> tuple[Choice, WarmTemplate | None]:
    """The choice that a row records, and its template; `None` if that has been revoked or deleted since."""
    choice = Choice(arm=use.arm, why=use.why, propensity=use.propensity, odds=use.policy.get("odds") or {})
    if not use.template:
        return choice, None
    try:
        template = store.get(use.template, version=use.version)
    except TemplateNotFound:
        return replace(choice, why="the template that this session started from is gone"), None
    scores = {name: use.policy.get(name, 0.0) for name in ("sure", "similarity", "utility")}
    return replace(choice, template=Suggestion.of(template, **scores, why=use.why)), template
