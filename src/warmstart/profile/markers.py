"""The proficiency markers of a session."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import comb

from warmstart.profile.arguments import command_in, fields_of, path_in
from warmstart.profile.shell import commands, reads
from warmstart.profile.tasks import SHELLS
from warmstart.profile.values import Call, Markers, Recovery
from warmstart.profile.windows import context_share
from warmstart.sessions.values import Message, Step

EARLY_TURNS = 30
RAREFIED = 10  # calls drawn for the diversity of tools

_READERS = frozenset(("Read", "NotebookRead", "read_file", "read", "view", "ReadFile", "view_file", "file_read"))
_RANGE = ("offset", "limit", "start_line", "end_line", "view_range", "pages")


def markers(
    messages: Sequence[Message],
    calls: Sequence[Call],
    steps: Sequence[Step],
    recovered: Sequence[Recovery],
    *,
    corrections: int,
    compactions: int,
) -> Markers:
    """What the messages and calls of a session say about how proficient it was."""
    outcomes = Counter(call.outcome for call in calls)
    early = [call for call in calls if call.turn <= EARLY_TURNS]
    first = next((place for place, call in enumerate(calls) if call.outcome == "ok"), None)
    times = [message.timestamp for message in messages if message.timestamp]
    used = [message.usage for message in messages if message.usage]
    return Markers(
        messages=len(messages),
        turns=sum(is_turn(message) for message in messages),
        calls=len(calls),
        results=sum(len(message.tool_results) for message in messages),
        errors=outcomes["error"],
        rejected=outcomes["rejected"],
        unknown=outcomes["unknown"],
        error_rate=outcomes["error"] / len(calls) if calls else None,
        early_error_rate=sum(call.outcome == "error" for call in early) / len(early) if early else None,
        seconds_to_success=_ended(calls[first]) if first is not None else None,
        calls_to_success=first + 1 if first is not None else None,
        recovery_rate=len(recovered) / outcomes["error"] if outcomes["error"] else None,
        diversity=_diversity([call.tool for call in calls]),
        repeated_calls=_repeated(steps),
        rereads=_rereads(steps),
        corrections=corrections,
        compactions=compactions,
        seconds=(max(times) - min(times)).total_seconds() if times else None,
        input_tokens=sum(usage.input for usage in used),
        output_tokens=sum(usage.output for usage in used),
        cached_tokens=sum(usage.cache_read + usage.cache_write for usage in used),
        context_share=_context_share(messages),
    )


def is_turn(message: Message) -> bool:
    """Whether a message is a request of the person, with which a turn begins."""
    return message.role == "user" and bool(message.text) and not (message.injected or message.compaction_summary)


def _ended(call: Call) -> float | None:
    return None if call.at is None else round(call.at + (call.seconds or 0.0), 3)


def _diversity(tools: Sequence[str]) -> float | None:
    """Hurlbert's rarefaction: how many different tools ten calls drawn at random would have; `None` below ten."""
    if len(tools) < RAREFIED:
        return None
    total = comb(len(tools), RAREFIED)
    return sum(1 - comb(len(tools) - times, RAREFIED) / total for times in Counter(tools).values())


def _repeated(steps: Sequence[Step]) -> int:
    """How many calls are the same as an earlier one; of a call that is not in the log nobody can tell."""
    made = [(step.call.name, step.call.arguments) for step in steps if step.call.name]
    return len(made) - len(set(made))


def _rereads(steps: Sequence[Step]) -> int:
    """How often a file, or the same part of it, was read again."""
    seen: set[tuple[object, ...]] = set()
    again = 0
    for step in steps:
        for part in _parts_read(step):
            again += part in seen
            seen.add(part)
    return again


def _parts_read(step: Step) -> list[tuple[object, ...]]:
    if step.outcome != "ok":
        return []
    if step.call.name in _READERS:
        fields, path = fields_of(step.call.arguments), path_in(step.call.arguments)
        return [(path, *(str(fields.get(name)) for name in _RANGE))] if path else []
    if step.call.name in SHELLS:
        run = commands(command_in(step.call.arguments))
        # What a pipe leaves of the file, and which lines of it, is in the other words.
        return [(path, command.program, *command.words) for command in run for path in reads(command)]
    return []


def _context_share(messages: Sequence[Message]) -> float | None:
    prompts = (
        (message.model, message.usage.input + message.usage.cache_read + message.usage.cache_write)
        for message in messages
        if message.usage
    )
    shares = [share for model, tokens in prompts if (share := context_share(model, tokens)) is not None]
    return round(max(shares), 4) if shares else None
