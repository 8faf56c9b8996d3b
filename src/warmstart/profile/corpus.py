"""The statistics of a corpus of sessions: rates, error signatures, recoveries, diagnostics."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from typing import NamedTuple

from warmstart.profile.diagnostics import Diagnostics, Rate, diagnose, rate, rates_by_length
from warmstart.profile.recoveries import MAX_TRIES, usual_fix
from warmstart.profile.values import Call, Profiled, Recovery

MAX_SIGNATURES = 50


@dataclass(frozen=True, slots=True)
class SignatureCount:
    """An error signature with its tool, how often and in how many sessions it occurred, and its usual fix.

    `fix` says what usually changed before the tool worked again; `None` if no change helped twice.
    """

    signature: str
    tool: str
    count: int
    sessions: int
    fix: str | None


class Instruction(NamedTuple):
    """A standing instruction that the user repeated, in its latest wording, and the number of sessions."""

    text: str
    sessions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryRates:
    """The share of errors that the same tool recovered from, at its next call and within its next three."""

    errors: int
    next_call: float | None
    next_call_low: float | None
    next_call_high: float | None
    within_three: float | None
    within_three_low: float | None
    within_three_high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The statistics of all sessions. `instructions` are those repeated in several sessions; weak evidence."""

    sessions: int
    calls: int
    results: int
    errors: int
    rejected: int
    rate: float | None
    low: float | None
    high: float | None
    by_length: tuple[Rate, ...]
    by_tool: tuple[Rate, ...]
    by_task_type: tuple[Rate, ...]
    by_agent: tuple[Rate, ...]
    by_model: tuple[Rate, ...]
    by_project: tuple[Rate, ...]
    by_week: tuple[Rate, ...]
    signatures: tuple[SignatureCount, ...]
    recovery: RecoveryRates
    diagnostics: Diagnostics
    outcomes: dict[str, int] = field(default_factory=dict)
    instructions: tuple[Instruction, ...] = ()


def summarize(profiled: Iterable[Profiled], *, redact: Callable[[str], str] = str) -> Report:
    """The statistics of these sessions. `redact` is applied to every text that is shown.

    A rate is the share of all calls that failed; rejected calls and those with an unknown outcome count as not failed.
    """
    sessions = list(profiled)
    markers = [each.profile.markers for each in sessions]
    overall = rate("all", [each.errors for each in markers], [each.calls for each in markers])
    return Report(
        sessions=len(sessions),
        calls=overall.calls,
        results=sum(each.results for each in markers),
        errors=overall.errors,
        rejected=sum(each.rejected for each in markers),
        rate=overall.rate,
        low=overall.low,
        high=overall.high,
        by_length=rates_by_length(sessions),
        by_tool=_by(sessions, lambda each, call: call.tool or "(unknown)"),
        by_task_type=_by(sessions, lambda each, call: each.profile.task_type),
        by_agent=_by(sessions, lambda each, call: each.session.agent),
        by_model=_by(sessions, lambda each, call: call.model or each.session.model),
        by_project=_by(sessions, lambda each, call: each.session.project),
        by_week=tuple(sorted(_by(sessions, lambda each, call: week(each)))),
        signatures=_signatures(sessions, redact),
        recovery=_recovery(sessions),
        diagnostics=diagnose(sessions),
        outcomes=dict(Counter(each.profile.outcome.value for each in sessions)),
        instructions=_instructions(sessions, redact),
    )


def week(each: Profiled) -> str:
    """The ISO week in which a session began."""
    started = each.session.started_at
    return f"{started.astimezone(UTC):%G-W%V}" if started else ""


def _by(sessions: Sequence[Profiled], key: Callable[[Profiled, Call], str]) -> tuple[Rate, ...]:
    """A rate for every key, those with the most calls first. Calls with an empty key are left out."""
    errors: dict[str, list[int]] = defaultdict(list)
    calls: dict[str, list[int]] = defaultdict(list)
    for each in sessions:
        total = Counter(key(each, call) for call in each.profile.calls)
        failed = Counter(key(each, call) for call in each.profile.calls if call.outcome == "error")
        for name, number in total.items():
            calls[name].append(number)
            errors[name].append(failed[name])
    rates = (rate(name, errors[name], calls[name]) for name in calls if name)
    return tuple(sorted(rates, key=lambda found: (-found.calls, found.key)))


# -- signatures and recoveries


def _signatures(sessions: Sequence[Profiled], redact: Callable[[str], str]) -> tuple[SignatureCount, ...]:
    grouped: dict[tuple[str, str], list[tuple[str, Recovery | None]]] = defaultdict(list)
    for each in sessions:
        recovered = {recovery.failed: recovery for recovery in each.profile.recoveries}
        for place, call in enumerate(each.profile.calls):
            if call.outcome == "error":
                grouped[call.signature, call.tool].append((each.session.id, recovered.get(place)))
    return tuple(
        SignatureCount(
            signature=redact(signature),
            tool=tool or "(unknown)",
            count=len(occurred),
            sessions=len({session for session, _ in occurred}),
            fix=(fix := usual_fix([recovery for _, recovery in occurred if recovery], len(occurred))) and redact(fix),
        )
        for (signature, tool), occurred in sorted(grouped.items(), key=lambda item: (-len(item[1]), item[0]))
    )[:MAX_SIGNATURES]


def _recovery(sessions: Sequence[Profiled]) -> RecoveryRates:
    failed = [each for each in sessions if each.profile.markers.errors]
    errors = [each.profile.markers.errors for each in failed]
    at_once, soon = (
        rate("", [sum(r.tries <= tries for r in each.profile.recoveries) for each in failed], errors)
        for tries in (1, MAX_TRIES)
    )
    return RecoveryRates(
        errors=sum(errors),
        next_call=at_once.rate,
        next_call_low=at_once.low,
        next_call_high=at_once.high,
        within_three=soon.rate,
        within_three_low=soon.low,
        within_three_high=soon.high,
    )


def _instructions(sessions: Sequence[Profiled], redact: Callable[[str], str]) -> tuple[Instruction, ...]:
    wordings: dict[str, list[str]] = defaultdict(list)
    for each in sessions:
        own = {" ".join(re.findall(r"\w+", text.lower())): text for text in each.profile.style.instructions}
        for words, text in own.items():
            wordings[words].append(text)
    repeated = sorted((-len(texts), texts[0]) for texts in wordings.values() if len(texts) > 1)
    return tuple(Instruction(redact(text), -number) for number, text in repeated)
