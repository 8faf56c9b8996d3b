"""Annotate the steps of a session, build its profile from them, and update the profiles of stored sessions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import comb
from typing import NamedTuple

from warmstart.errors import SessionNotFound
from warmstart.profile.calls import SHELLS, command_in, fields_of, path_in
from warmstart.profile.feedback import is_request, writing_style
from warmstart.profile.outcome import judge_session
from warmstart.profile.recoveries import find_dead_ends, find_recoveries
from warmstart.profile.rules import pattern_rows, rules_version
from warmstart.profile.signatures import error_signature
from warmstart.profile.store import SQLProfileStore, Stale
from warmstart.profile.tools import Tools, reads, role_of, task_type, tool_names
from warmstart.profile.values import AnnotatedStep, Markers, Profile, Profiled
from warmstart.sessions.schema import OUTCOME_RULES
from warmstart.sessions.sql_store import BAD_SESSION, Skip, SQLSessionStore, log_skip
from warmstart.sessions.store import Filter
from warmstart.sessions.values import Message, Session, Step, ToolCall, steps
from warmstart.storage.database import batches
from warmstart.text.shell import parse_commands

_EARLY_TURNS = 30
_DRAWN = 10  # calls sampled for the diversity of tools
_RANGE = ("offset", "limit", "start_line", "end_line", "view_range", "pages")
_MILLION = 1_000_000
_BATCH = 50  # profiles written per transaction

Progress = Callable[[int, int], None]


class Analysis(NamedTuple):
    """A profile with the steps it was computed from."""

    profile: Profile
    steps: tuple[AnnotatedStep, ...]


class Profiler:
    """Profiles sessions with one set of rules. `tools` is the user's own table of tool kinds."""

    def __init__(self, tools: Mapping[str, str] | None = None) -> None:
        self._tools = Tools(tools)
        self.rules = rules_version(self._tools.extra)

    def profile(self, session: Session, messages: Sequence[Message]) -> Profile:
        """How the session went."""
        return self.analyze(session, messages).profile

    def analyze(self, session: Session, messages: Sequence[Message]) -> Analysis:
        """How the session went, and its annotated tool calls."""
        annotated = self.steps(session, messages)
        calls = tuple(step.record for step in annotated)
        recoveries = tuple(step.recovery for step in annotated if step.recovery)
        style = writing_style(messages)
        profile = Profile(
            task_type=task_type(step.kind for step in annotated),
            markers=_measure(session, messages, annotated, style.feedback.get("corrective", 0)),
            outcome=judge_session(session, messages, annotated),
            style=style,
            calls=calls,
            recoveries=recoveries,
            dead_ends=tuple(find_dead_ends(calls, recoveries)),
            compactions=tuple(_compactions(messages)),
        )
        return Analysis(profile, annotated)

    def steps(self, session: Session, messages: Sequence[Message]) -> tuple[AnnotatedStep, ...]:
        """The annotated tool calls of a session, in order."""
        began = next((message.timestamp for message in messages if message.timestamp), None)
        annotated: list[AnnotatedStep] = []
        for step, message, turn, model in _walk(messages):
            at = (message.timestamp - began).total_seconds() if message.timestamp and began else None
            one = self.annotate(session.agent, step, message.native_id, turn, len(annotated))
            annotated.append(one._replace(at=at and max(0.0, round(at, 3)), model=model))
        for recovery in list(find_recoveries(annotated)):
            annotated[recovery.failed] = annotated[recovery.failed]._replace(recovery=recovery)
        return tuple(annotated)

    def annotate(
        self, agent: str, step: Step, message_id: str, turn: int, position: int, *, signature: bool = True
    ) -> AnnotatedStep:
        """One tool call, annotated without its context. Computing the signature is slow, so it can be left out."""
        call, result = step.call, step.result
        return AnnotatedStep(
            position=position,
            call=call,
            result=result,
            message_id=message_id,
            turn=turn,
            kind=self._tools.kind(agent, call.name, call.arguments),
            role=role_of(call.name, call.arguments),
            outcome=step.outcome,
            seconds=step.seconds,
            signature=error_signature(call.name, result.text, arguments=call.arguments)
            if signature and result and step.outcome == "error"
            else "",
        )


def _walk(messages: Sequence[Message]) -> Iterator[tuple[Step, Message, int, str]]:
    """Every call with its result, message, turn and model, including results whose call is not in the log."""
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
    position = 0
    known: set[str] = set()
    for message in messages:
        if message.compaction_summary:
            yield position
        position += len(message.tool_calls) + sum(result.call_id not in known for result in message.tool_results)
        known.update(call.id for call in message.tool_calls)


# -- markers: numbers that may distinguish a proficient session from others


def _measure(
    session: Session, messages: Sequence[Message], steps: Sequence[AnnotatedStep], corrections: int
) -> Markers:
    outcomes = Counter(step.outcome for step in steps)
    errors = outcomes["error"]
    early = [step.outcome == "error" for step in steps if step.turn <= _EARLY_TURNS]
    first = next((step for step in steps if step.outcome == "ok"), None)
    times = [message.timestamp for message in messages if message.timestamp]
    used = [session.usage] if session.usage else [message.usage for message in messages if message.usage]
    calls = [(step.call.name, step.call.arguments) for step in steps if step.call.name]
    parts_read = [part for step in steps if step.outcome == "ok" for part in _parts_read(step)]
    return Markers(
        messages=len(messages),
        turns=sum(map(is_request, messages)),
        calls=len(steps),
        results=sum(len(message.tool_results) for message in messages),
        errors=errors,
        rejected=outcomes["rejected"],
        unknown=outcomes["unknown"],
        error_rate=errors / len(steps) if steps else None,
        early_error_rate=sum(early) / len(early) if early else None,
        seconds_to_success=None if first is None or first.at is None else round(first.at + (first.seconds or 0.0), 3),
        calls_to_success=first.position + 1 if first else None,
        recovery_rate=sum(step.recovery is not None for step in steps) / errors if errors else None,
        diversity=_diversity([step.call.name for step in steps]),
        repeated_calls=len(calls) - len(set(calls)),
        rereads=len(parts_read) - len(set(parts_read)),
        corrections=corrections,
        compactions=sum(message.compaction_summary for message in messages),
        seconds=(max(times) - min(times)).total_seconds() if times else None,
        input_tokens=sum(usage.input for usage in used),
        output_tokens=sum(usage.output for usage in used),
        cached_tokens=sum(usage.cache_read + usage.cache_write for usage in used),
        context_share=_max_context_share(messages),
    )


def _diversity(tools: Sequence[str]) -> float | None:
    """Hurlbert's rarefaction: the expected number of different tools among ten random calls; `None` below ten calls."""
    if len(tools) < _DRAWN:
        return None
    total = comb(len(tools), _DRAWN)
    return sum(1 - comb(len(tools) - times, _DRAWN) / total for times in Counter(tools).values())


def _parts_read(step: AnnotatedStep) -> list[tuple[object, ...]]:
    """The files that a call reads, each with the arguments that select a part of it."""
    if step.call.name in tool_names("files", "read"):
        fields, path = fields_of(step.call.arguments), path_in(step.call.arguments)
        return [(path, *(str(fields.get(name)) for name in _RANGE))] if path else []
    if step.call.name in SHELLS:
        run = parse_commands(command_in(step.call.arguments))
        # The other words select the lines to read.
        return [(path, command.program, *command.words) for command in run for path in reads(command)]
    return []


def _max_context_share(messages: Sequence[Message]) -> float | None:
    prompts = ((message.model, message.usage) for message in messages if message.usage)
    shares = (context_share(model, usage.input + usage.cache_read + usage.cache_write) for model, usage in prompts)
    most = max((share for share in shares if share is not None), default=None)
    return most and round(most, 4)


def context_share(model: str, tokens: int) -> float | None:
    """The share of the model's context window that a prompt of `tokens` fills; `None` if the window is unknown."""
    windows = pattern_rows("tools", "context_windows")
    window: int | None = next((size for name, size in windows if name.search(model.lower())), None)
    if window is None or tokens <= 0:
        return None
    # The same model may also have a larger window, which only the request shows.
    window = window if tokens <= window else _MILLION
    return tokens / window if tokens <= window else None


# -- the profiles of stored sessions


def profiled(
    store: SQLSessionStore,
    *,
    tools: Mapping[str, str] | None = None,
    filter: Filter = Filter(),  # noqa: B008 - Filter is frozen
    progress: Progress | None = None,
    skip: Skip | None = log_skip,
) -> Iterator[Profiled]:
    """The selected sessions with their profiles, newest first; missing or outdated profiles are computed first.

    `tools` is the user's own table of tool kinds. `progress` receives the number of profiles done and to do, `skip`
    each session that cannot be profiled and the error; without `skip` the error is raised.
    """
    profiler = Profiler(tools)
    profiles = SQLProfileStore(store)
    update(store, profiles, profiler, filter=filter, progress=progress, skip=skip)
    return profiles.profiles(profiler.rules, filter)


def update(
    store: SQLSessionStore,
    profiles: SQLProfileStore,
    profiler: Profiler,
    *,
    filter: Filter = Filter(),  # noqa: B008 - Filter is frozen
    progress: Progress | None = None,
    skip: Skip | None = log_skip,
) -> int:
    """Profile new and changed sessions, and those profiled by other rules. Returns how many there were.

    Afterwards the selected sessions have the outcome of their profiles. With `skip=None`, a session that cannot be
    profiled raises its error.
    """
    from warmstart.sessions.readers.registry import judge  # deferred: the readers are slow to load

    store.rejudge(judge, OUTCOME_RULES)
    stale = profiles.stale(profiler.rules, filter)
    for batch in batches(enumerate(stale, 1), _BATCH):
        new: list[tuple[Stale, Profile]] = []
        for number, each in batch:
            try:
                messages = list(store.messages(each.session_id))
                new.append((each, profiler.profile(store.get(each.session_id), messages)))
            except SessionNotFound:
                continue  # another process deleted it
            except BAD_SESSION as error:
                if skip is None:
                    raise
                skip(each.session_id, error)
                continue
            if progress is not None:
                progress(number, len(stale))
        profiles.save(new, profiler.rules)
    return len(stale)


def profile_of(store: SQLSessionStore, session: Session, *, tools: Mapping[str, str] | None = None) -> Profile:
    """The profile of one session, computed if it is missing or outdated."""
    return next(profiled(store, tools=tools, filter=Filter(id=session.id), skip=None)).profile
