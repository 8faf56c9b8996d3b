"""What the overlay did: how often it showed something, what it cost, and what the agent and the user did then.

Turns with and without an overlay differ in more than the overlay, so their difference is not its effect; only the
holdout of templates can show one.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
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

_MIN_WORDS = 3  # of a memory that is recognised by its value alone
_DID = "t.changed || '\n' || t.read || '\n' || t.ran"
# What the overlay decided; and of the agent's log, if it is there: the session, where the turn begins (within two
# minutes of the hook), where the next one begins, and what the turn did.
_DECISIONS = f"""
    WITH decisions AS (
        SELECT p.*, s.pk, s.id AS log, (
            SELECT first_seq FROM (
                SELECT t.first_seq, abs(t.at - p.at) AS delay FROM session_turns t WHERE t.session = s.pk
            ) AS near WHERE delay < 120 ORDER BY delay LIMIT 1
        ) AS first_seq
        FROM preflight_turns p LEFT JOIN sessions s ON s.native_id = p.session
        WHERE p.event = 'prompt' AND (? = '' OR p.project = ?)
    )
    SELECT d.session, d.at, d.reason, d.evidence, d.tokens, d.milliseconds, d.pk, d.log, d.first_seq, coalesce((
        SELECT min(first_seq) FROM session_turns WHERE session = d.pk AND first_seq > d.first_seq
    ), 2147483647), {_DID}
    FROM decisions d LEFT JOIN session_turns t ON t.session = d.pk AND t.first_seq = d.first_seq
    ORDER BY d.session, d.pk, d.id
"""
_SHOWN = f"""
    SELECT s.id, {_DID} FROM session_turns t JOIN sessions s ON s.pk = t.session
    WHERE t.session = ? AND t.first_seq = ?
"""


class Mean(NamedTuple):
    """A mean, and the number of turns behind it."""

    value: float | None
    turns: int


class PreflightReport(NamedTuple):
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
    """A row of `_DECISIONS`."""

    session: str
    at: float
    reason: str
    evidence: str
    tokens: int
    milliseconds: float
    pk: int
    log: str | None
    first: int | None
    end: int
    did: str


class _Known(NamedTuple):
    """Something that the agent need not look up: a memory, or the id of a session that it was shown."""

    since: float
    key: str
    value: str


def report(store: SQLSessionStore, *, project: str = "", memories: Iterable[MemoryEntry] = ()) -> PreflightReport:
    """The report on one project, or on all of them. `memories` are what an agent need not look up."""
    decisions = [_Decision(*row) for row in store.fetch(_DECISIONS, (project, project))]
    memory = [_Known(entry.updated_at, _words(entry.key), _words(entry.value)) for entry in memories]
    lookup = SessionLookup(store.database.connection)
    calls = defaultdict[bool, list[int]](list)  # by whether the turn has an overlay
    corrections = defaultdict[bool, list[int]](list)
    used: list[bool] = []
    lookups: list[int] = []
    first: list[_Decision] = []
    for (_, log), group in groupby(decisions, key=lambda decision: (decision.session, decision.log)):
        of_session = list(group)
        first.append(of_session[0])
        messages = list(store.messages(log)) if log else []
        order = lookup.sequence(of_session[0].pk)
        corrected = {order[name] for name in _corrected(messages)}
        known = list(memory)
        for decision in of_session:
            if decision.first is None:
                continue
            has_overlay = decision.tokens > 0
            calls[has_overlay].append(lookup.count_calls(decision.pk, decision.first, decision.end))
            corrections[has_overlay].append(decision.first in corrected)
            shown = list(_shown(store, decision))
            if shown:
                used.append(any(_lines(did) & _lines(decision.did) for _, did in shown))
            known += [_Known(decision.at, "", _words(name)) for name, _ in shown]
        lookups += _known_lookups(messages, known)
    return PreflightReport(
        turns=len(decisions),
        injected=sum(decision.tokens > 0 for decision in decisions),
        tokens=sum(decision.tokens for decision in decisions),
        reasons=dict(Counter(decision.reason for decision in decisions).most_common()),
        calls_with=_mean(calls[True]),
        calls_without=_mean(calls[False]),
        corrections_with=_mean(corrections[True]),
        corrections_without=_mean(corrections[False]),
        used=sum(used),
        used_of=len(used),
        used_interval=wilson(sum(used), len(used)),
        known_lookups=len(lookups),
        known_lookup_tokens=sum(lookups),
        sessions=sum(decision.log is not None for decision in first),
        p50_ms=_quantile(decisions, 0.5),
        p95_ms=_quantile(decisions, 0.95),
        first_turn_p50_ms=_quantile(first, 0.5),
        first_turn_p95_ms=_quantile(first, 0.95),
    )


def _shown(store: SQLSessionStore, decision: _Decision) -> Iterator[tuple[str, str]]:
    """The earlier turns that a turn was shown: the session, and what was done."""
    for key in json.loads(decision.evidence):
        if key[0].isdigit():
            yield from store.fetch(_SHOWN, tuple(map(int, key.split(":")[:2])))


def _corrected(messages: Sequence[Message]) -> Iterator[str]:
    """The user's messages after whose turn the next one corrects the agent."""
    requests = [place for place, message in enumerate(messages) if own_words(message)]
    for place, following in pairwise(requests):
        if writing_style(messages[place : following + 1]).feedback.get("corrective"):
            yield messages[place].native_id


def _known_lookups(messages: Sequence[Message], known: Sequence[_Known]) -> Iterator[int]:
    """The tokens of each look-up whose result the session had already."""
    seen: set[tuple[str, str]] = set()
    times = [message.timestamp for message in messages for _ in message.tool_calls]
    for at, step in zip(times, steps(messages), strict=True):
        asked = (step.call.name, step.call.arguments)
        result = step.result.text if step.result else ""
        if result and _looks_up(*asked):
            now = at.timestamp() if at else 0.0
            words = _words(result)
            is_known = any(  # a short value counts only beside its key
                fact.since < now and fact.value in words and (fact.value.count(" ") > _MIN_WORDS or fact.key in words)
                for fact in known
            )
            if asked in seen or is_known:
                yield count(result)
            seen.add(asked)


def _words(text: str) -> str:
    return f" {' '.join(split_words(text))} "


def _lines(text: str) -> set[str]:
    return set(text.split("\n")) - {""}


def _looks_up(tool: str, arguments: str) -> bool:
    """Whether a call reads or searches something, such as files, past sessions or memories."""
    return "recall" in tool or "memory" in tool or role_of(tool, arguments) in ("read", "look")


def _mean(values: Sequence[int]) -> Mean:
    return Mean(sum(values) / len(values) if values else None, len(values))


def _quantile(decisions: Sequence[_Decision], share: float) -> float | None:
    times = sorted(decision.milliseconds for decision in decisions)
    return times[ceil(share * len(times)) - 1] if times else None
