"""What the overlay did: how often it showed something, what it cost, and what the agent and the user did then.

Turns with and without an overlay differ in more than the overlay, so their difference is not its effect; only the
holdout of templates can show one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from math import ceil
from typing import NamedTuple

from warmstart.memory.values import MemoryEntry
from warmstart.profile.feedback import own_words, writing_style
from warmstart.profile.tools import role_of
from warmstart.sessions.lookup import SessionLookup
from warmstart.sessions.sql_store import SQLSessionStore
from warmstart.sessions.values import Message, steps
from warmstart.stats import Interval, wilson
from warmstart.text.words import split_words
from warmstart.tokens import count

_MAX_DELAY = 120.0  # seconds between a hook and the message in the agent's log
_MIN_WORDS = 3  # of a memory that is recognised by its value alone
_NEXT = "SELECT coalesce(min(first_seq), 2147483647) FROM session_turns WHERE session = ? AND first_seq > ?"
_TURN = "SELECT first_seq, changed, read, ran FROM session_turns WHERE session = ? AND"
_DECISIONS = """
    SELECT p.session, p.at, p.reason, p.evidence, p.tokens, p.milliseconds, s.pk, s.id
    FROM preflight_turns p LEFT JOIN sessions s ON s.native_id = p.session
    WHERE p.event = 'prompt' AND (? = '' OR p.project = ?) ORDER BY p.session, s.pk, p.id
"""


class Mean(NamedTuple):
    """A mean, and the number of turns behind it."""

    value: float | None
    turns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PreflightReport:
    """The decisions of the overlay by reason, and what happened in the turns that were found in the agent's log.

    `known_lookups` are the reads and searches whose result the session had already: it repeats an earlier one, names a
    session that an overlay had shown, or returns a memory that was stored before. `corrections` are the user's next
    messages that correct the agent.
    """

    turns: int
    injected: int
    tokens: int
    reasons: Mapping[str, int]
    calls_with: Mean
    calls_without: Mean
    corrections_with: Mean
    corrections_without: Mean
    used: int
    used_of: int
    used_interval: Interval | None
    known_lookups: int
    known_lookup_tokens: int
    sessions: int
    p50_ms: float | None
    p95_ms: float | None
    first_turn_p50_ms: float | None
    first_turn_p95_ms: float | None


class _Decision(NamedTuple):
    """What the overlay decided for one message. `pk` and `id` are those of the session in the agent's log, if any."""

    session: str
    at: float
    reason: str
    evidence: str
    tokens: int
    milliseconds: float
    pk: int
    id: str | None


class _Turn(NamedTuple):
    """What happened in a turn that is in the agent's log; `used` is unknown if it was shown no earlier turn."""

    has_overlay: bool
    calls: int
    corrections: int
    used: bool | None


class _Known(NamedTuple):
    """Something that the agent need not look up: a memory, or the name of a session that it was shown."""

    since: float
    key: str
    value: str

    def is_in(self, result: str) -> bool:
        """Whether a result has its value; a short one counts only beside its key."""
        return self.value in result and (self.value.count(" ") > _MIN_WORDS or self.key in result)


def report(store: SQLSessionStore, *, project: str = "", memories: Iterable[MemoryEntry] = ()) -> PreflightReport:
    """The report on one project, or on all of them. `memories` are what an agent need not look up."""
    rows = store.database.connection.execute(_DECISIONS, (project, project)).fetchall()
    decisions = [_Decision(*row) for row in rows]
    known = [_Known(entry.updated_at, _words(entry.key), _words(entry.value)) for entry in memories]
    turns: list[_Turn] = []
    lookups: list[int] = []
    first: list[_Decision] = []
    for _, group in groupby(decisions, key=lambda decision: (decision.session, decision.pk)):
        of_session = list(group)
        first.append(of_session[0])
        if of_session[0].id is not None:
            lookups += _follow(store, of_session, known, turns)
    used = [turn.used for turn in turns if turn.used is not None]
    return PreflightReport(
        turns=len(decisions),
        injected=sum(decision.tokens > 0 for decision in decisions),
        tokens=sum(decision.tokens for decision in decisions),
        reasons=dict(Counter(decision.reason for decision in decisions).most_common()),
        calls_with=_mean([turn.calls for turn in turns if turn.has_overlay]),
        calls_without=_mean([turn.calls for turn in turns if not turn.has_overlay]),
        corrections_with=_mean([turn.corrections for turn in turns if turn.has_overlay]),
        corrections_without=_mean([turn.corrections for turn in turns if not turn.has_overlay]),
        used=sum(used),
        used_of=len(used),
        used_interval=wilson(sum(used), len(used)),
        known_lookups=len(lookups),
        known_lookup_tokens=sum(lookups),
        sessions=sum(decision.id is not None for decision in first),
        p50_ms=_quantile(decisions, 0.5),
        p95_ms=_quantile(decisions, 0.95),
        first_turn_p50_ms=_quantile(first, 0.5),
        first_turn_p95_ms=_quantile(first, 0.95),
    )


def _follow(
    store: SQLSessionStore, decisions: Sequence[_Decision], memories: Iterable[_Known], turns: list[_Turn]
) -> Iterator[int]:
    """Add what happened in the turns of one session; the tokens of each look-up of what was known."""
    session, lookup = decisions[0].pk, SessionLookup(store.database.connection)
    messages, order = list(store.messages(str(decisions[0].id))), lookup.sequence(session)
    corrected = {order.get(message.native_id) for message in _corrected(messages)}
    known = list(memories)
    for decision in decisions:
        near = "abs(at - ?) < ? ORDER BY abs(at - ?)"
        seq, own = _turn(store, near, session, decision.at, _MAX_DELAY, decision.at)
        if seq is None:
            continue
        earlier = [key.split(":") for key in json.loads(decision.evidence) if key[0].isdigit()]
        used = False
        for number, first_seq, *_ in earlier:
            used = used or not own.isdisjoint(_turn(store, "first_seq = ?", int(number), int(first_seq))[1])
            for names in store.fetch("SELECT id, native_id FROM sessions WHERE pk = ?", (int(number),)):
                known += [_Known(decision.at, "", _words(name)) for name in names]
        calls = lookup.count_calls(session, seq, store.fetch(_NEXT, (session, seq))[0][0])
        turns.append(_Turn(decision.tokens > 0, calls, seq in corrected, used if earlier else None))
    return _known_lookups(messages, known)


def _turn(store: SQLSessionStore, condition: str, *values: object) -> tuple[int | None, set[str]]:
    """Where a turn of a session starts, and the files and commands that it used."""
    for first_seq, *texts in store.fetch(f"{_TURN} {condition} LIMIT 1", values):
        return first_seq, {*"\n".join(texts).split("\n")} - {""}
    return None, set()


def _corrected(messages: Sequence[Message]) -> Iterator[Message]:
    """The user's messages after whose turn the next one corrects the agent."""
    requests = [place for place, message in enumerate(messages) if own_words(message)]
    for place, following in pairwise(requests):
        if writing_style(messages[place : following + 1]).feedback.get("corrective"):
            yield messages[place]


def _known_lookups(messages: Sequence[Message], known: Sequence[_Known]) -> Iterator[int]:
    """The tokens of each look-up whose result the session had already."""
    seen: set[tuple[str, str]] = set()
    times = [message.timestamp for message in messages for _ in message.tool_calls]
    for at, step in zip(times, steps(messages), strict=True):
        call, result = step.call, step.result.text if step.result else ""
        if result and _looks_up(call.name, call.arguments):
            words = _words(result)
            now = at.timestamp() if at else 0.0
            is_repeated = (call.name, call.arguments) in seen
            if is_repeated or any(fact.since < now and fact.is_in(words) for fact in known):
                yield count(result)
            seen.add((call.name, call.arguments))


def _words(text: str) -> str:
    return f" {' '.join(split_words(text))} "


def _looks_up(tool: str, arguments: str) -> bool:
    """Whether a call reads or searches something, such as files, past sessions or memories."""
    name = tool.lower()
    return "recall" in name or "memory" in name or role_of(tool, arguments) in ("read", "look")


def _mean(values: Sequence[int]) -> Mean:
    return Mean(sum(values) / len(values) if values else None, len(values))


def _quantile(decisions: Sequence[_Decision], share: float) -> float | None:
    times = sorted(decision.milliseconds for decision in decisions)
    return times[max(0, ceil(share * len(times)) - 1)] if times else None
