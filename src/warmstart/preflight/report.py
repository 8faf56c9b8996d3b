"""What the overlay did: how often it showed something, what it cost, and what the agent and the user did then.

Turns with and without an overlay differ in more than the overlay, so their difference is not its effect; only the
holdout of templates can show one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil
from typing import Any, NamedTuple

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
_DECISIONS = """
    SELECT p.session, p.at, p.reason, p.evidence, p.tokens, p.milliseconds, s.pk, s.id
    FROM preflight_turns p LEFT JOIN sessions s ON s.native_id = p.session
    WHERE p.event = 'prompt' AND (? = '' OR p.project = ?) ORDER BY p.id
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
    """What the overlay decided for one message."""

    session: str
    at: float
    reason: str
    evidence: str
    tokens: int
    milliseconds: float
    pk: int | None
    id: str | None

    @property
    def turns(self) -> list[tuple[int, int]]:
        """The earlier turns that it showed: session and first message."""
        keys = (key.split(":") for key in json.loads(self.evidence) if key[0].isdigit())
        return [(int(key[0]), int(key[1])) for key in keys]


@dataclass(slots=True)
class _Tally:
    """What happened in the turns that were found."""

    calls: dict[bool, list[int]] = field(default_factory=lambda: {True: [], False: []})
    corrections: dict[bool, list[int]] = field(default_factory=lambda: {True: [], False: []})
    used: list[bool] = field(default_factory=list)
    lookups: list[int] = field(default_factory=list)  # tokens


def report(store: SQLSessionStore, *, project: str = "", memories: Iterable[MemoryEntry] = ()) -> PreflightReport:
    """The report on one project, or on all of them. `memories` are what an agent need not look up."""
    run = store.database.connection.execute
    decisions = [_Decision(*row) for row in run(_DECISIONS, (project, project)).fetchall()]
    sessions: dict[int, list[_Decision]] = {}
    first: dict[str, float] = {}
    for decision in decisions:
        first.setdefault(decision.session, decision.milliseconds)
        if decision.pk is not None:
            sessions.setdefault(decision.pk, []).append(decision)
    tally, known = _Tally(), [_Known(entry) for entry in memories]
    for pk, some in sessions.items():
        _follow(store, pk, some, known, tally)
    times, first_times = (sorted(some) for some in ((one.milliseconds for one in decisions), first.values()))
    return PreflightReport(
        turns=len(decisions),
        injected=sum(decision.tokens > 0 for decision in decisions),
        tokens=sum(decision.tokens for decision in decisions),
        reasons=dict(Counter(decision.reason for decision in decisions).most_common()),
        calls_with=_mean(tally.calls[True]),
        calls_without=_mean(tally.calls[False]),
        corrections_with=_mean(tally.corrections[True]),
        corrections_without=_mean(tally.corrections[False]),
        used=sum(tally.used),
        used_of=len(tally.used),
        used_interval=wilson(sum(tally.used), len(tally.used)),
        known_lookups=len(tally.lookups),
        known_lookup_tokens=sum(tally.lookups),
        sessions=len(sessions),
        p50_ms=_quantile(times, 0.5),
        p95_ms=_quantile(times, 0.95),
        first_turn_p50_ms=_quantile(first_times, 0.5),
        first_turn_p95_ms=_quantile(first_times, 0.95),
    )


def _follow(
    store: SQLSessionStore, pk: int, decisions: Sequence[_Decision], known: list[_Known], tally: _Tally
) -> None:
    """Add what happened in the turns of one session."""
    run, lookup = store.database.connection.execute, SessionLookup(store.database.connection)
    messages, order = list(store.messages(str(decisions[0].id))), lookup.sequence(pk)
    corrected = {order.get(message.native_id) for message in _corrected(messages)}
    shown: dict[str, int] = {}  # earlier sessions by id, and where this one was first shown them
    for decision in decisions:
        at = decision.at
        seq, own = _turn(run, "session = ? AND abs(at - ?) < ? ORDER BY abs(at - ?)", pk, at, _MAX_DELAY, at)
        if seq is None:
            continue
        has_overlay = decision.tokens > 0
        tally.calls[has_overlay].append(lookup.count_calls(pk, seq, run(_NEXT, (pk, seq)).fetchone()[0]))
        tally.corrections[has_overlay].append(seq in corrected)
        if decision.turns:
            turns = (_turn(run, "session = ? AND first_seq = ?", *turn)[1] for turn in decision.turns)
            tally.used.append(not own.isdisjoint(set[str]().union(*turns)))
            for earlier, _ in decision.turns:
                for names in store.fetch("SELECT id, native_id FROM sessions WHERE pk = ?", (earlier,)):
                    shown |= {str(name): min(seq, shown.get(name, seq)) for name in names}
    tally.lookups += _known_lookups(messages, order, shown, known)


def _turn(run: Any, condition: str, *values: object) -> tuple[int | None, set[str]]:
    """Where a turn starts, and the files and commands that it used."""
    row = run(f"SELECT first_seq, changed, read, ran FROM session_turns WHERE {condition} LIMIT 1", values).fetchone()
    return (row[0], {one for text in row[1:] for one in text.split("\n") if one}) if row else (None, set())


def _corrected(messages: Sequence[Message]) -> Iterator[Message]:
    """The user's messages after whose turn the next one corrects the agent."""
    requests = [place for place, message in enumerate(messages) if own_words(message)]
    for place, following in pairwise(requests):
        if writing_style(messages[place : following + 1]).feedback.get("corrective"):
            yield messages[place]


class _Known:
    """A memory as it is found in a result."""

    def __init__(self, entry: MemoryEntry) -> None:
        self.since = entry.updated_at
        self.key, self.value = _words(entry.key), _words(entry.value)

    def is_in(self, text: str) -> bool:
        """Whether a result has its value; a short one counts only beside its key."""
        return self.value in text and (self.value.count(" ") > _MIN_WORDS or self.key in text)


def _words(text: str) -> str:
    return f" {' '.join(split_words(text))} "


def _known_lookups(
    messages: Sequence[Message], order: Mapping[str, int], shown: Mapping[str, int], known: Sequence[_Known]
) -> Iterator[int]:
    """The tokens of each look-up whose result the session had already."""
    seen: set[tuple[str, str]] = set()
    calls = {call.id: message for message in messages for call in message.tool_calls}
    for step in steps(messages):
        call, result = step.call, step.result.text if step.result else ""
        if not result or not _looks_up(call.name, call.arguments):
            continue
        message, words = calls[call.id], _words(result)
        seq, at = order.get(message.native_id, 0), message.timestamp
        was_shown = any(name in result and seq >= first for name, first in shown.items())
        was_stored = any(one.is_in(words) for one in known if at and one.since < at.timestamp())
        if (call.name, call.arguments) in seen or was_shown or was_stored:
            yield count(result)
        seen.add((call.name, call.arguments))


def _looks_up(tool: str, arguments: str) -> bool:
    """Whether a call reads or searches something, such as files, past sessions or memories."""
    name = tool.lower()
    return "recall" in name or "memory" in name or role_of(tool, arguments) in ("read", "look")


def _mean(values: Sequence[int]) -> Mean:
    return Mean(sum(values) / len(values) if values else None, len(values))


def _quantile(ordered: Sequence[float], share: float) -> float | None:
    return ordered[max(0, ceil(share * len(ordered)) - 1)] if ordered else None
