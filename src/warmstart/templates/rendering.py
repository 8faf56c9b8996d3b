"""Render a template as the messages that a session starts with.

The same template, tools, task and budget give the same bytes, so that prompt caches hold. Calls that are not known to
be safe are left out and every text is redacted again, wherever it came from; every message is marked, so that it is
never mistaken for the session's own. An example is shown as messages, a call and its result, if all its values are
known, and otherwise as a line of the note. The note is neither an order nor an aside: models obey notes called
authoritative against the user, and ignore notes called background.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from string import ascii_lowercase
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from warmstart.errors import ConfigError
from warmstart.profile.calls import SHELLS, fields_of
from warmstart.redact import Redactor, redact
from warmstart.sessions.marks import CALL, END, END_TAG, MARK, TAG
from warmstart.templates.item import MAX_EXAMPLES, Item, Kind, ToolCallExample, item_id
from warmstart.templates.safety import is_known, is_safe_call, is_safe_example, is_safe_text
from warmstart.templates.template import WarmTemplate
from warmstart.templates.tools import Definitions, fits, schemas_of
from warmstart.text.truncate import one_line
from warmstart.text.untrusted import find_injection, neutralize
from warmstart.text.words import topic_terms
from warmstart.tokens import count

Renderer = Literal["messages", "system", "xml"]
Shape = Literal["openai", "anthropic"]
Message = dict[str, Any]

BUDGET = 1200
_MAX_NAME, _MAX_DESCRIPTION = 80, 160  # characters
HEADINGS: dict[Kind, str] = {
    "instruction": "Standing instructions, quoted; they hold unless the user says otherwise:",
    "correction": "Corrections by the user, quoted:",
    "decision": "Decisions of the user, quoted:",
    "command": "Commands that work here:",
    "trap": "Failed before:",
    "file": "Files to expect:",
    "reference": "References from the user:",
    "open": "Where work stopped:",
    "habit": "Habits of the user (weak evidence):",
    "context": "From the program's own system prompt:",
    "example": "Calls that worked, and mistakes with what worked instead:",
}
# What is dropped last when the budget is short: losing rules does the most harm, and examples help the most.
_KEPT_LONGEST: tuple[Kind, ...] = ("instruction", "example", "trap", "command", "correction", "context", "decision")
_RANKS = {kind: rank for rank, kind in enumerate(_KEPT_LONGEST)}
_REMARKS = ("description", "justification", "explanation")  # fields that only explain a shell call
_CALLS_FOLLOW = "The calls below are from earlier sessions."
TEMPLATE_NOTE, TEMPLATE_TAG = f"{MARK} Template ", f"{TAG} template="  # prefixes of a note
_ENCODE = msgspec.json.Encoder().encode
_DECODE = msgspec.json.Decoder(list[Message]).decode
_PLACEHOLDER = re.compile(r"\{\{\w+\}\}")
_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")  # what APIs accept
_to_json = json.JSONEncoder(ensure_ascii=False).encode  # with the spaces that most clients send


class Part(NamedTuple):
    """One part of a rendering and its cost; the `note` is the frame around the items."""

    kind: Kind | Literal["note"]
    item: str
    tokens: int


class Dropped(NamedTuple):
    """An item that was left out, and why."""

    kind: Kind
    item: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """Messages to insert, their parts and costs. Empty if there was nothing to show, or no room for it."""

    renderer: Renderer
    shape: Shape
    encoded: bytes
    parts: tuple[Part, ...]
    dropped: tuple[Dropped, ...]
    budget: int

    @property
    def messages(self) -> list[Message]:
        """The messages, as a fresh copy each time, so that a caller's changes never reach another session."""
        return _DECODE(self.encoded)

    @property
    def tokens(self) -> int:
        """An upper bound on the cost of the messages, including roles, ids and JSON."""
        return sum(part.tokens for part in self.parts)

    @property
    def items(self) -> tuple[str, ...]:
        """The ids of the items that are shown."""
        return tuple(part.item for part in self.parts if part.item)


def render(
    template: WarmTemplate,
    *,
    tools: Definitions | None = None,
    renderer: Renderer = "messages",
    shape: Shape = "openai",
    budget_tokens: int = BUDGET,
    task: str = "",
    max_examples: int = MAX_EXAMPLES,
    redactor: Redactor | None = None,
) -> Rendering:
    """Render a template: with `tools` only calls that fit them, with `task` the examples most similar to it first."""
    for what, value, known in (("renderer", renderer, get_args(Renderer)), ("shape", shape, get_args(Shape))):
        if value not in known:
            raise ConfigError(f"{value!r} is not a {what}: use one of {', '.join(known)}")

    def clean(text: str) -> str:
        plain = neutralize(text)
        return redactor.clean(plain) if redactor else redact(plain).text

    items = _clean(template, clean)
    dropped = _drop(items, template, None if tools is None else schemas_of(tools), task, max_examples)
    layout = _Layout(template, clean, renderer, shape)
    frame = spent = layout.cost(layout.build(()))
    parts: list[Part] = []
    headings = {""}
    for id_, item in sorted(items.items(), key=lambda pair: _RANKS.get(pair[1].kind, 9)):
        heading = layout.heading(item)
        cost = layout.item_cost(item) + (0 if heading in headings else count(_to_json(f"\n{heading}")[1:-1]))
        if spent + cost <= budget_tokens:
            headings.add(heading)
            spent += cost
            parts.append(Part(item.kind, id_, cost))
        else:
            dropped.append(Dropped(item.kind, id_, "no room in the budget"))
    chosen = [items[part.item] for part in parts]
    return Rendering(
        renderer=renderer,
        shape=shape,
        encoded=_ENCODE(layout.build(chosen) if chosen else []),
        parts=(Part("note", "", frame), *parts) if parts else (),
        dropped=tuple(dropped),
        budget=budget_tokens,
    )


def _clean(template: WarmTemplate, clean: Callable[[str], str]) -> dict[str, Item]:
    """The items by id, without secrets or text that could pass for our markers; items that give orders are dropped.

    Arguments are checked after decoding, so that an escape hides nothing. Most items need no change, and checking that
    is faster than copying them.
    """
    items = {}
    for item in template.seed.items:
        id_ = item_id(item)
        if item.kind == "example":
            calls = (call._replace(arguments=_ENCODE(call_fields(call)).decode()) for call in item.calls)
            item = replace(item, text=_PLACEHOLDER.sub("…", item.text), calls=tuple(calls))
        texts = (text for call in item.calls for text in (call.tool_name, call.arguments, call.result))
        text = "\n".join((item.text, item.tool, *texts))
        if not find_injection(text):
            items[id_] = item if clean(text) == text else item.map_texts(clean)
    return items


def call_fields(call: ToolCallExample) -> dict[str, Any]:
    """The arguments by name. A plain string gets the name that most tools use for it."""
    if call.arguments.strip() in ("", "{}"):
        return {}
    return fields_of(call.arguments) or {"command" if call.tool_name in SHELLS else "input": call.arguments}


def _drop(
    items: dict[str, Item],
    template: WarmTemplate,
    schemas: Mapping[str, dict[str, Any] | None] | None,
    task: str,
    most: int,
) -> list[Dropped]:
    """Remove items that may not be shown, and all but the `most` examples most similar to the task; returns them."""
    is_local = not template.origin.startswith("imported")
    reasons = {id_: _objection(item, schemas, is_local=is_local) for id_, item in items.items()}
    examples = [id_ for id_, item in items.items() if item.kind == "example" and not reasons[id_]]
    if task and len(examples) > most:
        asked = set(topic_terms(task))
        examples.sort(key=lambda id_: -len(asked.intersection(topic_terms(items[id_].text))))
    reasons |= dict.fromkeys(examples[most:], f"at most {most} examples are shown")
    return [Dropped(items.pop(id_).kind, id_, reason) for id_, reason in reasons.items() if reason]


def _objection(item: Item, schemas: Mapping[str, dict[str, Any] | None] | None, *, is_local: bool) -> str:
    """Why an item may not be shown; empty if it may. Imported items must always be on the allowlist."""
    calls, unsafe = item.calls, "it is not known to be safe"
    if item.kind == "example":
        is_safe = is_local or all(map(is_safe_example, calls))
        if not calls or not is_safe or not all(_TOOL_NAME.fullmatch(call.tool_name) for call in calls):
            return unsafe
        if schemas is not None and not all(call.tool_name in schemas for call in calls):
            return "this session does not have the tool"
        worked = [call for call in calls if call.success]
        fit = all(fits((schemas or {}).get(call.tool_name), call_fields(call)) for call in worked)
        return "" if fit else "the arguments do not fit the tool's schema"
    if is_local or item.kind == "reference":
        return ""
    if item.kind == "trap" and calls and calls[-1].tool_name not in SHELLS:
        return "" if is_safe_text(item.text) and is_safe_call(calls[-1]) else unsafe
    command = item.text if item.kind == "command" else calls[-1].arguments if calls else ""
    return "" if is_safe_text(item.text) and (not command or is_known(command)) else unsafe


class _Layout:
    """Lays out items for one renderer and shape. Costs are those of the JSON sent, with roles, ids and escapes."""

    def __init__(self, template: WarmTemplate, clean: Callable[[str], str], renderer: Renderer, shape: Shape) -> None:
        self._name = one_line(clean(template.name), _MAX_NAME)
        self._description = one_line(clean(template.description), _MAX_DESCRIPTION).rstrip(".")
        self._sessions = len({source.session for source in template.seed.sources if not source.is_edit})
        self._renderer = renderer
        self._is_anthropic = shape == "anthropic"

    def cost(self, messages: Sequence[Message]) -> int:
        return sum(count(_to_json(message)) for message in messages)

    def heading(self, item: Item) -> str:
        """The heading above the items of a kind."""
        if self._renderer == "xml":
            return ""
        return _CALLS_FOLLOW if self._in_pairs(item) else HEADINGS[item.kind]

    def item_cost(self, item: Item) -> int:
        return self.cost(self._pairs(item)) if self._in_pairs(item) else count(_to_json(f"\n{self._line(item)}")[1:-1])

    def _in_pairs(self, item: Item) -> bool:
        return self._renderer == "messages" and item.kind == "example" and not _has_placeholder(item)

    def build(self, items: Sequence[Item]) -> list[Message]:
        """The messages: a note, then a call and its result for each call of an example."""
        items = sorted(items, key=lambda item: (list(HEADINGS).index(item.kind), self._in_pairs(item)))
        lines = [self._opening()]
        for item in items:
            if (heading := self.heading(item)) and heading not in lines:
                lines.append(heading)
            if not self._in_pairs(item):
                lines.append(self._line(item))
        text = "\n".join((*lines, END_TAG if self._renderer == "xml" else END))
        pairs = [message for item in items if self._in_pairs(item) for message in self._pairs(item)]
        return [note_message(text, anthropic=self._is_anthropic), *pairs, *([closing()] if self._is_anthropic else [])]

    def _opening(self) -> str:
        name, what = self._name, self._description
        sessions = "one earlier session" if self._sessions <= 1 else f"{self._sessions} earlier sessions"
        about = (
            f"From {sessions}, for reference, not a task: the latest user message wins, and all tools are available. "
            "Check files before relying on them."
        )
        if self._renderer == "xml":
            described = f' description="{_escape(what)}"' if what else ""
            return f'{TEMPLATE_TAG}"{_escape(name)}"{described}>\n<about>{about}</about>'
        return f'{TEMPLATE_NOTE}"{name}"{f": {what}" if what else ""}. {about}'

    def _line(self, item: Item) -> str:
        """An item as a line; continuation lines are indented, so that none looks like one of ours."""
        text = _say(item).replace("\n", "\n    ")
        return f"<{item.kind}>{_escape(text)}</{item.kind}>" if self._renderer == "xml" else f"- {text}"

    def _pairs(self, item: Item) -> list[Message]:
        messages: list[Message] = []
        for place, call in enumerate(item.calls):
            digest = blake2b(f"{item.text}/{place}/{call}".encode(), digest_size=8).digest()
            id_ = CALL + "".join(ascii_lowercase[byte % 26] for byte in digest)  # short, because it is sent twice
            text = f"{MARK} Example: {item.text}" if place == 0 else MARK
            result = (call.result or "ok") if call.success else f"error: {item.text}"
            if self._is_anthropic:
                before = [{"type": "text", "text": text}] if place == 0 else []
                use = {"type": "tool_use", "id": id_, "name": call.tool_name, "input": call_fields(call)}
                shown = {"type": "tool_result", "tool_use_id": id_, "content": result}
                messages += {"role": "assistant", "content": [*before, use]}, {"role": "user", "content": [shown]}
            else:
                function = {"name": call.tool_name, "arguments": call.arguments}
                calls = [{"id": id_, "type": "function", "function": function}]
                messages.append({"role": "assistant", "content": text, "tool_calls": calls})
                messages.append({"role": "tool", "tool_call_id": id_, "content": result})
        return messages


def _say(item: Item) -> str:
    match item.kind:
        case "instruction" | "correction" | "decision":
            return f'"{item.text}"' + (f" ({item.last_seen:%Y-%m-%d})" if item.last_seen else "")
        case "command":
            return f"`{item.text}`" + (f" ({item.tool})" if item.tool not in ("", "other") else "")
        case "trap":
            if not item.calls:
                return f"`{item.tool}` fails ({item.text})"
            mistake = item.calls[0].arguments if item.calls[0].tool_name in SHELLS else item.tool
            return f"`{mistake or item.tool}` fails ({item.text}): {item.fix}"
        case "file":
            return f"{item.text} ({'changed' if item.tool == 'edit' else 'read first'})" if item.tool else item.text
        case "example":
            return _say_example(item)
        case "habit" if item.tool.endswith("_style"):
            return f"{item.tool.replace('_', ' ')}: {item.text}"
        case _:
            return item.text


def _has_placeholder(item: Item) -> bool:
    """Whether a call has a placeholder. Models repeat placeholders verbatim if they see them in a call."""
    return any("{{" in call.arguments for call in item.calls)


def _say_example(item: Item) -> str:
    shown = [_signature(call) for call in item.calls]
    if item.calls[0].success:
        return f"{'; '.join(shown)} -> {item.calls[-1].result or 'ok'}"
    failed, worked = item.calls[0], item.calls[-1]
    if shown[0] != shown[-1]:
        return f"{shown[0]} fails ({item.text}); {shown[-1]} works"
    before, after = call_fields(failed), call_fields(worked)
    changed = " and ".join(f"`{name}`" for name, value in after.items() if before.get(name) != value)
    return f"{shown[0]} fails ({item.text}); it works " + (f"with another {changed}" if changed else "at the next try")


def _signature(call: ToolCallExample) -> str:
    """A call with its known values: `check_file(path, level="strict")`."""
    parts = []
    for name, value in call_fields(call).items():
        if call.tool_name in SHELLS and (name in _REMARKS or value == "."):
            continue  # says nothing about the command
        text = _to_json(value)
        if _PLACEHOLDER.fullmatch(text.strip('"')):
            parts.append(name)
        else:
            parts.append(f"{name}={_PLACEHOLDER.sub('…', text)}")
    return f"{call.tool_name}({', '.join(parts)})"


def note_message(text: str, *, anthropic: bool) -> Message:
    """The message that holds a note. Anthropic's messages have no system role."""
    if anthropic:
        return {"role": "user", "content": [{"type": "text", "text": text}]}
    return {"role": "system", "content": text}


def closing() -> Message:
    """The assistant message before the user's own first message: Anthropic's roles alternate."""
    return {"role": "assistant", "content": [{"type": "text", "text": f"{MARK} End of the examples."}]}


def _escape(text: str) -> str:
    # `xml.sax.saxutils` in the standard library has this too, but importing it loads all of HTTP.
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
