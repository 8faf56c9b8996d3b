"""Compaction: a conversation that is too long for its budget becomes one that fits and still has what matters.

`mask` replaces old tool output by one line that says what it was and how to get it back. `ledger` replaces old turns by
the packet of the session. `hybrid` masks first, and replaces turns if that is not enough. A call stays with its result,
and the system prompt, what the session was started with, the first request and the last turns stay as they are.
Messages have the shape of OpenAI's or Anthropic's API; the caller's own are never changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple, Protocol

from warmstart.errors import ConfigError, HandoffRefused
from warmstart.handoff.ledger import Ledger, build_ledger, shown_call
from warmstart.handoff.packet import BUDGET, build_packet
from warmstart.redact.redactor import Redactor
from warmstart.sessions.marks import END, MARK, is_marked, is_marked_call
from warmstart.sessions.readers.openai import chat_message
from warmstart.sessions.values import Message, Session, ToolCall, ToolResult
from warmstart.templates.item import Item
from warmstart.tokens import count

KEEP = 6  # exchanges at the end that stay as they are: calls with their results, or single messages
_MIN_MASKED = 60  # tokens of an output that is worth masking
_OVERHEAD = 4  # tokens of a message beside its text
_PACKET = "# Handoff packet"

Fields = Mapping[str, Any]


class Report(NamedTuple):
    """What a compaction did. `items` is what worked in the session, for a template or the next session."""

    strategy: str
    fits: bool
    tokens_before: int
    tokens_after: int
    messages_before: int
    messages_after: int
    masked: int
    packet: str
    items: tuple[Item, ...]


class Compacted(NamedTuple):
    """The messages after a compaction, and what it did."""

    messages: list[Any]
    report: Report


@dataclass(slots=True)
class Unit:
    """Messages that stay together: one, or a call with its results. `pinned` ones always stay."""

    messages: list[Any]
    tokens: int = 0
    pinned: bool = False
    is_request: bool = False


@dataclass(slots=True)
class Conversation:
    """A conversation in units, with what a strategy needs to shorten it."""

    units: list[Unit]
    budget: int
    session: str
    counter: Callable[[str], int]
    get_ledger: Callable[[], Ledger]
    redactor: Redactor
    keep: int = KEEP
    masked: int = 0
    packet: str = ""
    calls: dict[str, ToolCall] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        return sum(unit.tokens for unit in self.units)

    def measure(self, unit: Unit) -> Unit:
        unit.tokens = sum(measure(message, self.counter) for message in unit.messages)
        return unit


class Strategy(Protocol):
    """Shortens a conversation in place, to its budget if it can."""

    def __call__(self, conversation: Conversation, /) -> None: ...


def compact(
    messages: Sequence[Any],
    *,
    budget_tokens: int,
    strategy: str | Strategy = "mask",
    session: str = "",
    ledger: Ledger | None = None,
    redactor: Redactor | None = None,
    keep: int = KEEP,
    counter: Callable[[str], int] = count,
) -> Compacted:
    """Shorten a conversation to a budget. One that fits is returned as it is.

    `session` is its id in the store, for the references; `ledger` is its ledger, if it was kept up. The report says
    whether the result fits. Raises `ConfigError` for an unknown strategy.
    """
    run = STRATEGIES.get(strategy) if isinstance(strategy, str) else strategy
    if run is None:
        raise ConfigError(f"unknown strategy {strategy!r}; known: {', '.join(STRATEGIES)}")
    get_ledger = cache(lambda: ledger or read_ledger(messages, session))
    talk = Conversation(split(messages), budget_tokens, session, counter, get_ledger, redactor or Redactor(), keep)
    for unit in talk.units:
        talk.measure(unit)
    before = talk.tokens
    items: tuple[Item, ...] = ()
    if before > budget_tokens:
        if ledger:  # it has what an earlier packet says
            talk.units = [one for one in talk.units if not (one.pinned and _PACKET in text_of(one.messages[0])[:60])]
        talk.calls = {call.id: call for unit in talk.units for call in calls_of(unit.messages[0])}
        run(talk)
        items = get_ledger().items() if talk.packet else ()
    after = [message for unit in talk.units for message in unit.messages]
    name = strategy if isinstance(strategy, str) else getattr(strategy, "__name__", "own")
    sizes = (before, talk.tokens, len(messages), len(after))
    return Compacted(after, Report(name, talk.tokens <= budget_tokens, *sizes, talk.masked, talk.packet, items))


# -- strategies


def mask(talk: Conversation) -> None:
    """Replace tool output, the oldest first, at last also in the last turns except the very last exchange."""
    over = talk.tokens - talk.budget
    for unit in talk.units[:-1]:
        if over > 0 and not unit.pinned:
            over += _mask_unit(talk, unit)


def replace_by_ledger(talk: Conversation) -> None:
    """Replace the oldest turns by the packet; as many of the last ones stay as fit."""
    tail = max(0, len(talk.units) - talk.keep)
    latest = next((unit for unit in reversed(talk.units) if unit.is_request), None)
    head = [unit for unit in talk.units[:tail] if unit.pinned or unit is latest]
    rest = sum(unit.tokens for unit in (*head, *talk.units[tail:]))
    try:
        packet = build_packet(
            talk.get_ledger(),
            redactor=talk.redactor,
            budget_tokens=max(0, min(BUDGET, talk.budget - rest - _OVERHEAD)),
            counter=talk.counter,
        )
    except HandoffRefused:
        mask(talk)
        return
    note = talk.measure(Unit([{"role": "user", "content": packet.text}]))
    room = talk.budget - rest - note.tokens
    while tail > 0:
        if head and head[-1] is talk.units[tail - 1]:
            head.pop()
        elif talk.units[tail - 1].tokens <= room:
            room -= talk.units[tail - 1].tokens
        else:
            break
        tail -= 1
    last = [unit for unit in head[-1:] if not unit.pinned]  # the latest request follows the packet
    talk.units = [*head[: len(head) - len(last)], note, *last, *talk.units[tail:]]
    talk.packet = packet.id


def hybrid(talk: Conversation) -> None:
    """Mask, and replace the oldest turns if that is not enough."""
    mask(talk)
    if talk.tokens > talk.budget:
        replace_by_ledger(talk)


STRATEGIES: dict[str, Strategy] = {"mask": mask, "ledger": replace_by_ledger, "hybrid": hybrid}


def _mask_unit(talk: Conversation, unit: Unit) -> int:
    """Mask the outputs in a unit; returns by how many tokens it grew, which is less than nothing."""

    def note(call_id: str, output: str) -> str | None:
        tokens = talk.counter(output)
        if tokens < _MIN_MASKED or is_marked(output):
            return None
        talk.masked += 1
        call = talk.calls.get(call_id)
        what = f"Output of `{shown_call(call)}`" if call else "Output"
        get = f" `warmstart sessions show {talk.session} --message {call_id}` shows it." if talk.session else ""
        return f"{MARK} {what} left out here: {output.count(chr(10)) + 1} lines, {tokens} tokens.{get} {END}"

    before = unit.tokens
    unit.messages = [replace_results(message, note) for message in unit.messages]
    return talk.measure(unit).tokens - before


# -- messages of either shape


def split(messages: Sequence[Any]) -> list[Unit]:
    """The messages in units. The system prompt, what Warmstart put in front and the first request are pinned."""
    units: list[Unit] = []
    waiting: set[str] = set()
    requested = False
    for message in messages:
        results = result_ids(message)
        if units and results and (waiting.intersection(results) or not waiting):
            units[-1].messages.append(message)
            waiting -= set(results)
            continue
        ids = [call.id for call in calls_of(message)]
        waiting = set(ids)
        role, text = message.get("role"), text_of(message)
        ours = all(map(is_marked_call, ids)) if ids else is_marked(text)
        is_request = role == "user" and not ours
        pinned = ours or role in ("system", "developer") or (is_request and not requested)
        requested = requested or is_request
        units.append(Unit([message], pinned=pinned, is_request=is_request))
    return units


def calls_of(message: Fields) -> list[ToolCall]:
    """The tool calls in a message."""
    calls = [
        ToolCall(
            id=str(one.get("id")),
            name=str(one["function"].get("name")),
            arguments=str(one["function"].get("arguments")),
        )
        for one in message.get("tool_calls") or ()
        if isinstance(one.get("function"), Mapping)
    ]
    return calls + [
        ToolCall(id=str(one.get("id")), name=str(one.get("name")), arguments=json.dumps(one.get("input")))
        for one in _blocks(message)
        if one.get("type") == "tool_use"
    ]


def result_ids(message: Fields) -> list[str]:
    """The ids of the calls whose results a message has."""
    if message.get("role") == "tool":
        return [str(message.get("tool_call_id"))]
    return [str(one.get("tool_use_id")) for one in _blocks(message) if one.get("type") == "tool_result"]


def replace_results(message: Any, note: Callable[[str, str], str | None]) -> Any:
    """The message with those results replaced for which `note` returns a text."""
    if message.get("role") == "tool":
        text = note(str(message.get("tool_call_id")), text_of(message))
        return message if text is None else {**message, "content": text}
    if not result_ids(message):
        return message
    blocks = []
    for block in message["content"]:
        if isinstance(block, Mapping) and block.get("type") == "tool_result":
            text = note(str(block.get("tool_use_id")), text_of(block))
            block = block if text is None else {**block, "content": text}
        blocks.append(block)
    return {**message, "content": blocks}


def text_of(message: Fields) -> str:
    """The text of a message, or of a result."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(str(one["text"]) for one in _blocks(message) if isinstance(one.get("text"), str))


def measure(message: Fields, counter: Callable[[str], int] = count) -> int:
    """The tokens of a message, as far as its texts go."""
    parts = [text_of(message)]
    parts += (f"{call.name} {call.arguments}" for call in calls_of(message))
    parts += (text_of(one) for one in _blocks(message) if one.get("type") == "tool_result")
    return _OVERHEAD + sum(counter(part) for part in parts if part)


def _blocks(message: Fields) -> list[Fields]:
    content = message.get("content")
    return [one for one in content if isinstance(one, Mapping)] if isinstance(content, list) else []


def read_message(fields: Fields, native_id: str) -> Message | None:
    """A message of OpenAI's or Anthropic's shape as a value; `None` if it has no role."""
    results = tuple(
        ToolResult(
            call_id=str(one.get("tool_use_id")),
            outcome="error" if one.get("is_error") else "ok",
            text=text_of(one),
            flag=bool(one.get("is_error")),
        )
        for one in _blocks(fields)
        if one.get("type") == "tool_result"
    )
    message = chat_message(fields, native_id)
    calls = tuple(calls_of(fields)) if _blocks(fields) else ()
    if message is None or not (calls or results):
        return message
    return replace(message, role="tool" if results else message.role, tool_calls=calls, tool_results=results)


def read_ledger(messages: Iterable[Fields], session: str) -> Ledger:
    """The ledger of a conversation in either shape."""
    read = (read_message(fields, f"{session}#{number}") for number, fields in enumerate(messages, 1))
    return build_ledger(Session(agent="", native_id=session, stored_id=session), filter(None, read))
