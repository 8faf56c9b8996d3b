"""From a session's messages to its profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import NamedTuple

from warmstart.profile.markers import is_turn, markers
from warmstart.profile.patterns import corrections, patterns
from warmstart.profile.recoveries import dead_ends, recoveries
from warmstart.profile.signatures.signature import signature
from warmstart.profile.tasks import Tools, task_type
from warmstart.profile.values import Call, Profile
from warmstart.profile.verdicts import verdict
from warmstart.sessions.outcomes import OUTCOME_RULES
from warmstart.sessions.values import Message, Session, Step, ToolCall, steps

RULES = 2  # to be raised whenever a rule of this room changes what a profile says


class _Place(NamedTuple):
    """Where a call stands: its turn, the model that made it, and when."""

    turn: int
    model: str
    time: datetime | None


class Profiler:
    """Profiles sessions by one set of rules. `tools` is the user's own table of what tools are for."""

    def __init__(self, tools: Mapping[str, str] | None = None) -> None:
        self._tools = Tools(tools)
        own = repr(self._tools.extra)  # in its order, which decides between patterns
        mark = blake2b(own.encode(), digest_size=4).hexdigest() if self._tools.extra else ""
        # What a kept profile was made by; one made by other rules is made again.
        self.rules = f"{RULES}.{OUTCOME_RULES}{mark and '-'}{mark}"

    def profile(self, session: Session, messages: Sequence[Message]) -> Profile:
        """How the session went."""
        paired, places, compactions = _walk(messages)
        began = next((message.timestamp for message in messages if message.timestamp), None)
        calls = tuple(self._call(session.agent, step, place, began) for step, place in zip(paired, places, strict=True))
        recovered = tuple(recoveries(calls, paired))
        return Profile(
            task_type=task_type(call.kind for call in calls),
            markers=markers(
                messages,
                calls,
                paired,
                recovered,
                corrections=corrections(messages),
                compactions=len(compactions),
            ),
            verdict=verdict(session, messages, paired),
            patterns=patterns(messages),
            calls=calls,
            recoveries=recovered,
            dead_ends=tuple(dead_ends(calls, recovered)),
            compactions=compactions,
        )

    def _call(self, agent: str, step: Step, place: _Place, began: datetime | None) -> Call:
        call = step.call
        at = (place.time - began).total_seconds() if place.time and began else None
        failed = step.result is not None and step.outcome == "error"
        return Call(
            tool=call.name,
            outcome=step.outcome,
            kind=self._tools.kind(agent, call.name, call.arguments),
            turn=place.turn,
            at=at and max(0.0, round(at, 3)),
            seconds=step.seconds,
            model=place.model,
            signature=signature(call.name, step.result.text, arguments=call.arguments)
            if failed and step.result
            else "",
        )


def _walk(messages: Sequence[Message]) -> tuple[list[Step], list[_Place], tuple[int, ...]]:
    """Every call with its result and its place, and the calls before which the context was compacted.

    A result whose call is not in the log proves a call all the same: it counts as one of a tool without a name.
    """
    paired = steps(messages)
    calls: list[Step] = []
    places: list[_Place] = []
    compactions: list[int] = []
    turn = 0
    model = ""
    known: set[str] = set()
    for message in messages:
        turn += is_turn(message)
        model = message.model or model
        place = _Place(turn, model, message.timestamp)
        if message.compaction_summary:
            compactions.append(len(calls))
        for result in message.tool_results:
            if result.call_id not in known:
                calls.append(Step(ToolCall(id=result.call_id, name=""), result, result.duration))
                places.append(place)
        for call in message.tool_calls:
            known.add(call.id)
            calls.append(next(paired))
            places.append(place)
    return calls, places, tuple(compactions)
