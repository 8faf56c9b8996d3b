"""The statistics of a corpus of sessions."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC

from warmstart.profile.corpus import Instruction, Rate, RecoveryRates, Report, SignatureCount, rate
from warmstart.profile.diagnostics import BINS, diagnose, length_bin
from warmstart.profile.recoveries import MAX_TRIES, usual_fix
from warmstart.profile.values import Call, Profiled, Recovery

MAX_SIGNATURES = 50

_WORD = re.compile(r"\w+")

# The group that a call is counted in; calls in no group are left out (a session without a date has no week).
_Key = Callable[[Profiled, Call], str]


def summarize(profiled: Iterable[Profiled], *, redact: Callable[[str], str] = str) -> Report:
    """The statistics of these sessions. `redact` is applied to every text that is shown.

    A rate is errors among all calls: rejected calls, and those whose outcome is not known, are calls that did not fail.
    """
    sessions = list(profiled)
    overall = _overall(sessions)
    return Report(
        sessions=len(sessions),
        calls=sum(each.profile.markers.calls for each in sessions),
        results=sum(each.profile.markers.results for each in sessions),
        errors=overall.errors,
        rejected=sum(each.profile.markers.rejected for each in sessions),
        rate=overall.rate,
        low=overall.low,
        high=overall.high,
        by_length=_by_length(sessions),
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
    if started is None:
        return ""
    year, number, _ = started.astimezone(UTC).isocalendar()
    return f"{year}-W{number:02d}"


def _overall(sessions: Sequence[Profiled]) -> Rate:
    numbers = [(each.profile.markers.errors, each.profile.markers.calls) for each in sessions]
    return rate("all", [errors for errors, _ in numbers], [calls for _, calls in numbers])


def _by_length(sessions: Sequence[Profiled]) -> tuple[Rate, ...]:
    """Always the same three bins. Subagents are in none, because no person decides when they end.

    A session without a call is in none either: it has no rate.
    """
    main = [each for each in sessions if each.session.parent_kind != "subagent"]
    found = {each.key: each for each in _by(main, lambda each, call: length_bin(each.profile.markers.messages))}
    return tuple(found.get(name, Rate(name, 0, 0, 0, None, None, None)) for name, _, _ in BINS)


def _by(sessions: Sequence[Profiled], key: _Key) -> tuple[Rate, ...]:
    """A rate for every key, those with the most calls first."""
    errors: dict[str, list[int]] = defaultdict(list)
    calls: dict[str, list[int]] = defaultdict(list)
    for each in sessions:
        made: Counter[str] = Counter()
        failed: Counter[str] = Counter()
        for call in each.profile.calls:
            name = key(each, call)
            made[name] += 1
            failed[name] += call.outcome == "error"
        for name, number in made.items():
            calls[name].append(number)
            errors[name].append(failed[name])
    rates = (rate(name, errors[name], calls[name]) for name in calls if name)
    return tuple(sorted(rates, key=lambda found: (-found.calls, found.key)))


# -- signatures and recoveries


def _errors(sessions: Sequence[Profiled]) -> Iterator[tuple[str, Call, Recovery | None]]:
    """Every error with its session and how it was recovered from."""
    for each in sessions:
        recovered = {recovery.failed: recovery for recovery in each.profile.recoveries}
        for place, call in enumerate(each.profile.calls):
            if call.outcome == "error":
                yield each.session.id, call, recovered.get(place)


def _signatures(sessions: Sequence[Profiled], redact: Callable[[str], str]) -> tuple[SignatureCount, ...]:
    grouped: dict[tuple[str, str], list[tuple[str, Recovery | None]]] = defaultdict(list)
    for session, call, recovery in _errors(sessions):
        grouped[call.signature, call.tool].append((session, recovery))
    counted = sorted(grouped.items(), key=lambda item: (-len(item[1]), item[0]))
    return tuple(
        SignatureCount(
            signature=redact(signature),
            tool=tool or "(unknown)",
            count=len(occurred),
            sessions=len({session for session, _ in occurred}),
            fix=_redacted(usual_fix([recovery for _, recovery in occurred if recovery], len(occurred)), redact),
        )
        for (signature, tool), occurred in counted[:MAX_SIGNATURES]
    )


def _redacted(text: str | None, redact: Callable[[str], str]) -> str | None:
    return None if text is None else redact(text)


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
    said: dict[str, list[str]] = defaultdict(list)
    for each in sessions:
        own = {" ".join(_WORD.findall(text.lower())): text for text in each.profile.style.instructions}
        for words, text in own.items():
            said[words].append(text)
    again = sorted((-len(texts), texts[0]) for texts in said.values() if len(texts) > 1)
    return tuple(Instruction(redact(text), -number) for number, text in again)
