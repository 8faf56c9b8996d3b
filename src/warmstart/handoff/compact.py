"""Compaction: shorten a conversation to a token budget and keep what matters.

`mask` replaces old tool output with one line that says what it was and how to get it back, `ledger` replaces old turns
with the session's packet, and `hybrid` does so if masking is not enough. A call stays with its result; the system
prompt, what Warmstart inserted at the start, the first request and the last turns stay unchanged. Messages are in the
format of OpenAI's or Anthropic's API; the caller's are never modified.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

from warmstart.errors import ConfigError, HandoffRefused
from warmstart.handoff.ledger import Ledger, build_ledger, shown_call, words_of_refusal
from warmstart.handoff.packet import BUDGET, build_packet
from warmstart.profile.profiler import Profiler
from warmstart.redact.redactor import Redactor
from warmstart.sessions.marks import END, MARK, PACKET, is_marked, is_marked_call
from warmstart.sessions.readers.openai import chat_message
from warmstart.sessions.values import Message, Session, ToolResult
from warmstart.templates.extract import extract_items
from warmstart.templates.item import Item
from warmstart.tokens import count

KEEP = 6  # last exchanges that stay unchanged: calls with their results, or single messages
_MIN_MASKED = 60  # tokens of an output that is worth masking
_OVERHEAD = 4  # tokens per message on top of its text

Fields = Mapping[str, Any]


class Report(NamedTuple):
    """What a compaction did."""

    fits: bool
    tokens_before: int
    tokens_after: int
    masked: int
    packet: str


class Compacted(NamedTuple):
    """The messages after a compaction, its report, and the messages `before` it."""

    messages: list[Any]
    report: Report
    before: Sequence[Any] = ()

    def items(self, redactor: Redactor | None = None) -> tuple[Item, ...]:
        """What worked before the compaction, as template items: commands, and errors with their fixes."""
        session, messages = Session(agent="", native_id=""), list(_read(self.before, ""))
        steps = Profiler().steps(session, messages)
        found = extract_items(session, messages, steps, redactor=redactor or Redactor(), with_examples=True)
        return tuple(item for item in found.items if item.kind in ("command", "trap", "example"))


@dataclass(slots=True)
class Unit:
    """Messages that stay together, as given and parsed: one, or a call with its results. `pinned` ones always stay.

    `outputs` maps the ids of calls to the tokens of their results.
    """

    messages: list[Any]
    values: list[Message]
    tokens: int
    outputs: dict[str, int]
    pinned: bool
    is_request: bool


@dataclass(slots=True)
class Conversation:
    """A conversation in units, with what a strategy needs to shorten it."""

    units: list[Unit]
    budget: int
    session: str
    get_ledger: Callable[[], Ledger]
    redactor: Redactor
    keep: int = KEEP
    masked: int = 0
    packet: str = ""

    @property
    def tokens(self) -> int:
        return sum(unit.tokens for unit in self.units)


Strategy = Callable[[Conversation], None]  # shortens a conversation in place, to its budget if it can


def compact(
    messages: Sequence[Any],
    *,
    budget_tokens: int,
    strategy: str | Strategy = "mask",
    session: str = "",
    ledger: Ledger | None = None,
    redactor: Redactor | None = None,
    keep: int = KEEP,
) -> Compacted:
    """Shorten a conversation to a budget; one that fits is returned unchanged.

    `session` is its id in the store, for references; `ledger` is its ledger, if the caller has it. The report says
    whether the result fits. Raises `ConfigError` for an unknown strategy.
    """
    run = STRATEGIES.get(strategy) if isinstance(strategy, str) else strategy
    if run is None:
        raise ConfigError(f"unknown strategy {strategy!r}; known: {', '.join(STRATEGIES)}")
    get_ledger = cache(lambda: ledger or read_ledger(messages, session))
    units = split(messages)
    talk = Conversation(units, budget_tokens, session, get_ledger, redactor or Redactor(), keep)
    before = talk.tokens
    if before > budget_tokens:
        if ledger:  # it includes what an earlier packet says
            talk.units = [one for one in units if not (one.pinned and PACKET in one.values[0].text[:60])]
        run(talk)
    after = [message for unit in talk.units for message in unit.messages]
    report = Report(talk.tokens <= budget_tokens, before, talk.tokens, talk.masked, talk.packet)
    return Compacted(after, report, messages)


# -- strategies


def mask(talk: Conversation) -> None:
    """Replace tool output, oldest first, in every exchange but the last."""
    over = talk.tokens - talk.budget
    for unit in talk.units[:-1]:
        if over > 0 and not unit.pinned:
            before = unit.tokens
            _mask_unit(talk, unit)
            over += unit.tokens - before


def replace_by_ledger(talk: Conversation) -> None:
    """Replace the oldest turns with the packet, and keep as many recent ones as fit."""
    units, tail = talk.units, max(0, len(talk.units) - talk.keep)
    latest = next((unit for unit in reversed(units) if unit.is_request), None)
    staying = {id(unit) for unit in units if unit.pinned or unit is latest}
    room = talk.budget - sum(unit.tokens for unit in units[:tail] if id(unit) in staying)
    room -= sum(unit.tokens for unit in units[tail:])
    try:
        budget = max(0, min(BUDGET, room - _OVERHEAD))
        packet = build_packet(talk.get_ledger(), redactor=talk.redactor, budget_tokens=budget)
    except HandoffRefused:
        mask(talk)
        return
    note = split(packet.messages)
    room -= note[0].tokens
    while tail > 0 and (id(units[tail - 1]) in staying or units[tail - 1].tokens <= room):
        tail -= 1
        room -= 0 if id(units[tail]) in staying else units[tail].tokens
    head = [unit for unit in units[:tail] if unit.pinned]
    asked = [unit for unit in units[:tail] if unit is latest and not unit.pinned]  # it follows the packet
    talk.units = [*head, *note, *asked, *units[tail:]]
    talk.packet = packet.id


def hybrid(talk: Conversation) -> None:
    """Mask, and replace the oldest turns if that is not enough."""
    mask(talk)
    if talk.tokens > talk.budget:
        replace_by_ledger(talk)


STRATEGIES: dict[str, Strategy] = {"mask": mask, "ledger": replace_by_ledger, "hybrid": hybrid}


def _mask_unit(talk: Conversation, unit: Unit) -> None:
    """Mask the outputs in a unit, except the user's words about a call that they refused."""
    calls = {call.id: call for value in unit.values for call in value.tool_calls}
    notes: dict[str, str] = {}
    for result in (result for value in unit.values for result in value.tool_results):
        name, text, tokens = result.call_id, result.text, unit.outputs[result.call_id]
        if tokens >= _MIN_MASKED and not is_marked(text) and not words_of_refusal(result):
            of = f" of `{shown_call(calls[name])}`" if name in calls else ""
            get = f" `warmstart sessions show {talk.session} --message {name}` shows it." if talk.session else ""
            lines = text.count("\n") + 1
            notes[name] = f"{MARK} Output{of} left out here: {lines} lines, {tokens} tokens.{get} {END}"
            unit.tokens += count(notes[name]) - tokens
    talk.masked += len(notes)
    unit.messages = [_replace_results(*pair, notes) for pair in zip(unit.messages, unit.values, strict=True)]


def _replace_results(given: Any, value: Message, notes: Mapping[str, str]) -> Any:
    """Replace some results of a message."""
    found = [notes.get(result.call_id) for result in value.tool_results]
    if not any(found):
        return given
    if given.get("role") == "tool":
        return {**given, "content": found[0]}
    left = iter(found)
    blocks = [(block, next(left) if _is(block, "tool_result") else None) for block in given["content"]]
    return {**given, "content": [block if note is None else {**block, "content": note} for block, note in blocks]}


# -- messages of either shape


def split(messages: Sequence[Any]) -> list[Unit]:
    """Group messages into units. The system prompt, what Warmstart inserted and the first request are pinned."""
    units: list[Unit] = []
    waiting: set[str] = set()
    requested = False
    for given in messages:
        value = read_message(given, "") or Message(native_id="", role="assistant", text=str(given.get("content")))
        outputs = {result.call_id: count(result.text) for result in value.tool_results}
        calls = {call.id for call in value.tool_calls}
        texts = (value.text, *(f"{call.name} {call.arguments}" for call in value.tool_calls))
        tokens = _OVERHEAD + sum(map(count, texts)) + sum(outputs.values())
        ours = all(map(is_marked_call, calls)) if calls else is_marked(value.text)
        is_request = value.role == "user" and not ours
        if units and outputs and (waiting & outputs.keys() or not waiting):
            unit = units[-1]
            unit.messages.append(given)
            unit.values.append(value)
            unit.outputs |= outputs
            unit.tokens += tokens
            unit.is_request = is_request  # with Anthropic, the user's words follow the results
            waiting -= outputs.keys()
            continue
        waiting = calls
        pinned = ours or value.role == "system" or (is_request and not requested)
        requested = requested or is_request
        units.append(Unit([given], [value], tokens, outputs, pinned, is_request))
    return units


def latest(messages: Sequence[Any]) -> list[Any]:
    """The latest request, and the last exchange if that comes after it: what a fresh session has to answer."""
    units = split(messages)
    asked = [number for number, unit in enumerate(units) if unit.is_request][-1:]
    return [message for number in dict.fromkeys((*asked, len(units) - 1)) for message in units[number].messages]


def measure(message: Fields) -> int:
    """The number of tokens in the texts of a message."""
    return split([message])[0].tokens


def read_message(fields: Fields, native_id: str) -> Message | None:
    """Parse a message; `None` if it has no role."""
    blocks = fields["content"] if isinstance(fields.get("content"), list) else []
    calls = [one for one in blocks if _is(one, "tool_use")]
    answers = [one for one in blocks if _is(one, "tool_result")]
    if not calls and not answers:
        return chat_message(fields, native_id)
    rest = [one for one in blocks if not (_is(one, "tool_use") or _is(one, "tool_result"))]
    message = chat_message({**fields, "content": rest, "tool_calls": calls}, native_id)
    results: list[ToolResult] = []
    for one in answers:
        answer = chat_message({**one, "role": "tool", "tool_call_id": one.get("tool_use_id")}, native_id)
        results += answer.tool_results if answer else ()
    role = message.role if message and (rest or not results) else "tool"
    return message and replace(message, role=role, tool_results=tuple(results))


def _is(block: Any, kind: str) -> bool:
    return isinstance(block, Mapping) and block.get("type") == kind


def read_ledger(messages: Iterable[Fields], session: str) -> Ledger:
    """The ledger of a conversation."""
    return build_ledger(Session(agent="", native_id=session, stored_id=session), _read(messages, session))


def _read(messages: Iterable[Fields], session: str) -> Iterable[Message]:
    read = (read_message(fields, f"{session}#{number}") for number, fields in enumerate(messages, 1))
    return filter(None, read)
