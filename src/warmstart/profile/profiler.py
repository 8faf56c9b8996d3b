"""From a session's messages to annotated steps, and from those to its profile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from warmstart.profile.feedback import is_request, writing_style
from warmstart.profile.markers import measure
from warmstart.profile.outcome import judge_session
from warmstart.profile.recoveries import find_dead_ends, find_recoveries
from warmstart.profile.rules import rules_version
from warmstart.profile.signatures import error_signature
from warmstart.profile.tools import Tools, role_of, task_type
from warmstart.profile.values import AnnotatedStep, Profile
from warmstart.sessions.values import Message, Session, Step, ToolCall, steps


class Analysis(NamedTuple):
    """A profile with the steps it was made from."""

    profile: Profile
    steps: tuple[AnnotatedStep, ...]


class Profiler:
    """Profiles sessions by one set of rules. `tools` is the user's own table of what tools are for."""

    def __init__(self, tools: Mapping[str, str] | None = None) -> None:
        self._tools = Tools(tools)
        self.rules = rules_version(self._tools.extra)

    def profile(self, session: Session, messages: Sequence[Message]) -> Profile:
        """How the session went."""
        return self.analyze(session, messages).profile

    def analyze(self, session: Session, messages: Sequence[Message]) -> Analysis:
        """How the session went, and its tool calls with what each one was for and came to."""
        annotated = self.steps(session, messages)
        calls = tuple(step.record for step in annotated)
        recoveries = tuple(step.recovery for step in annotated if step.recovery)
        compactions = tuple(_compactions(messages))
        profile = Profile(
            task_type=task_type(step.kind for step in annotated),
            markers=measure(session, messages, annotated, compactions=len(compactions)),
            outcome=judge_session(session, messages, annotated),
            style=writing_style(messages),
            calls=calls,
            recoveries=recoveries,
            dead_ends=tuple(find_dead_ends(calls, recoveries)),
            compactions=compactions,
        )
        return Analysis(profile, annotated)

    def steps(self, session: Session, messages: Sequence[Message]) -> tuple[AnnotatedStep, ...]:
        """The tool calls of a session, in order, each with all that the rules say about it."""
        began = next((message.timestamp for message in messages if message.timestamp), None)
        found = [
            self._annotate(position, session.agent, step, message, turn, model, began)
            for position, (step, message, turn, model) in enumerate(_walk(messages))
        ]
        for recovery in list(find_recoveries(found)):
            found[recovery.failed] = found[recovery.failed]._replace(recovery=recovery)
        return tuple(found)

    def _annotate(
        self, position: int, agent: str, step: Step, message: Message, turn: int, model: str, began: datetime | None
    ) -> AnnotatedStep:
        call, result = step.call, step.result
        at = (message.timestamp - began).total_seconds() if message.timestamp and began else None
        failed = result is not None and step.outcome == "error"
        return AnnotatedStep(
            position=position,
            call=call,
            result=result,
            message_id=message.native_id,
            turn=turn,
            kind=self._tools.kind(agent, call.name, call.arguments),
            role=role_of(call.name, call.arguments),
            outcome=step.outcome,
            at=at and max(0.0, round(at, 3)),
            seconds=step.seconds,
            model=model,
            signature=error_signature(call.name, result.text, arguments=call.arguments) if failed and result else "",
        )


def _walk(messages: Sequence[Message]) -> Iterator[tuple[Step, Message, int, str]]:
    """Every call with its result, its message, its turn and its model; also results whose call is not in the log."""
    paired = steps(messages)
    turn = 0
    model = ""
    known: set[str] = set()
    for message in messages:
        turn += is_request(message)
        model = message.model or model
        for result in message.tool_results:
            if result.call_id not in known:
                yield Step(ToolCall(id=result.call_id, name=""), result, result.duration), message, turn, model
        for call in message.tool_calls:
            known.add(call.id)
            yield next(paired), message, turn, model


def _compactions(messages: Sequence[Message]) -> Iterator[int]:
    """The positions of the calls before which the context was compacted."""
    if not any(message.compaction_summary for message in messages):
        return
    calls = Counter(id(message) for _, message, _, _ in _walk(messages))
    position = 0
    for message in messages:
        if message.compaction_summary:
            yield position
        position += calls[id(message)]
