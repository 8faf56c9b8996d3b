"""The markers of a session: numbers that may tell a proficient session from another."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from math import comb

from warmstart.profile.feedback import count_corrections, is_request
from warmstart.profile.rules import load_table
from warmstart.profile.shell import reads
from warmstart.profile.tools import SHELLS, command_in, fields_of, path_in, tool_names
from warmstart.profile.values import AnnotatedStep, Markers
from warmstart.sessions.values import Message, Session
from warmstart.text.shell import parse_commands

EARLY_TURNS = 30
_DRAWN = 10  # calls drawn for the diversity of tools

_RANGE = ("offset", "limit", "start_line", "end_line", "view_range", "pages")


def measure(
    session: Session, messages: Sequence[Message], steps: Sequence[AnnotatedStep], *, compactions: int
) -> Markers:
    """The markers of a session."""
    outcomes = Counter(step.outcome for step in steps)
    early = [step for step in steps if step.turn <= EARLY_TURNS]
    first = next((step for step in steps if step.outcome == "ok"), None)
    times = [message.timestamp for message in messages if message.timestamp]
    used = [session.usage] if session.usage else [message.usage for message in messages if message.usage]
    return Markers(
        messages=len(messages),
        turns=sum(map(is_request, messages)),
        calls=len(steps),
        results=sum(len(message.tool_results) for message in messages),
        errors=outcomes["error"],
        rejected=outcomes["rejected"],
        unknown=outcomes["unknown"],
        error_rate=outcomes["error"] / len(steps) if steps else None,
        early_error_rate=sum(step.outcome == "error" for step in early) / len(early) if early else None,
        seconds_to_success=_ended(first) if first else None,
        calls_to_success=first.position + 1 if first else None,
        recovery_rate=sum(step.recovery is not None for step in steps) / outcomes["error"]
        if outcomes["error"]
        else None,
        diversity=_diversity([step.call.name for step in steps]),
        repeated_calls=_repeated(steps),
        rereads=_rereads(steps),
        corrections=count_corrections(messages),
        compactions=compactions,
        seconds=(max(times) - min(times)).total_seconds() if times else None,
        input_tokens=sum(usage.input for usage in used),
        output_tokens=sum(usage.output for usage in used),
        cached_tokens=sum(usage.cache_read + usage.cache_write for usage in used),
        context_share=_context_share(messages),
    )


def _ended(step: AnnotatedStep) -> float | None:
    return None if step.at is None else round(step.at + (step.seconds or 0.0), 3)


def _diversity(tools: Sequence[str]) -> float | None:
    """Hurlbert's rarefaction: how many different tools ten calls drawn at random have; `None` below ten calls."""
    if len(tools) < _DRAWN:
        return None
    total = comb(len(tools), _DRAWN)
    return sum(1 - comb(len(tools) - times, _DRAWN) / total for times in Counter(tools).values())


def _repeated(steps: Sequence[AnnotatedStep]) -> int:
    """How many calls are the same as an earlier one, as far as the log has the calls."""
    made = [(step.call.name, step.call.arguments) for step in steps if step.call.name]
    return len(made) - len(set(made))


def _rereads(steps: Sequence[AnnotatedStep]) -> int:
    """How often a file, or the same part of it, was read again."""
    seen: set[tuple[object, ...]] = set()
    again = 0
    for step in steps:
        for part in _parts_read(step):
            again += part in seen
            seen.add(part)
    return again


def _parts_read(step: AnnotatedStep) -> list[tuple[object, ...]]:
    if step.outcome != "ok":
        return []
    if step.call.name in tool_names("files", "read"):
        fields, path = fields_of(step.call.arguments), path_in(step.call.arguments)
        return [(path, *(str(fields.get(name)) for name in _RANGE))] if path else []
    if step.call.name in SHELLS:
        run = parse_commands(command_in(step.call.arguments))
        # The other words say which lines of the file are read.
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


_MILLION = 1_000_000


def context_share(model: str, tokens: int) -> float | None:
    """The share of the model's context window that a prompt of `tokens` fills; `None` if the window is unknown."""
    window = next((size for pattern, size in _windows() if pattern.search(model.lower())), None)
    if window is None or tokens <= 0:
        return None
    if tokens > window:
        # The same name also serves a larger window, which only the request states.
        window = _MILLION
    return tokens / window if tokens <= window else None


@cache
def _windows() -> tuple[tuple[re.Pattern[str], int], ...]:
    return tuple((re.compile(pattern), size) for pattern, size in load_table("tools")["context_windows"].items())
