"""What the overlay did: how often it showed something, what it cost, and whether that was then used.

Turns with and without an overlay differ in more than the overlay, so their difference is not its effect; only the
holdout of templates can show one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, NamedTuple

from warmstart.profile.tools import role_of
from warmstart.sessions.lookup import SessionLookup
from warmstart.sessions.sql_store import SQLSessionStore
from warmstart.stats import Interval, wilson
from warmstart.tokens import count

_MAX_DELAY = 120.0  # seconds between a hook and the message in the agent's log
_NEXT = "SELECT coalesce(min(first_seq), 2147483647) FROM session_turns WHERE session = ? AND first_seq > ?"


class Mean(NamedTuple):
    """A mean, and the number of turns behind it."""

    value: float | None
    turns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PreflightReport:
    """The decisions of the overlay by reason, and what the agent did in the turns that were found in its log."""

    turns: int
    injected: int
    tokens: int
    reasons: Mapping[str, int]
    calls_with: Mean
    calls_without: Mean
    used: int
    used_of: int
    used_interval: Interval | None
    repeated_calls: int
    repeated_tokens: int
    sessions: int
    p50_ms: float | None
    p95_ms: float | None


def report(store: SQLSessionStore, *, project: str = "") -> PreflightReport:
    """The report on one project, or on all of them."""
    run, lookup = store.database.connection.execute, SessionLookup(store.database.connection)
    rows = run(
        "SELECT p.at, p.reason, p.evidence, p.tokens, p.milliseconds, s.pk FROM preflight_turns p "
        "LEFT JOIN sessions s ON s.native_id = p.session WHERE p.event = 'prompt' AND (? = '' OR p.project = ?) "
        "ORDER BY p.id",
        (project, project),
    ).fetchall()
    calls: dict[bool, list[int]] = {True: [], False: []}
    used = used_of = 0
    for at, _, evidence, tokens, _, session in rows:
        seq, own = _turn(run, "session = ? AND abs(at - ?) < ? ORDER BY abs(at - ?)", session, at, _MAX_DELAY, at)
        if seq is None:
            continue
        calls[tokens > 0].append(lookup.count_calls(session, seq, run(_NEXT, (session, seq)).fetchone()[0]))
        if tokens:
            keys = (key.split(":") for key in json.loads(evidence) if key[0].isdigit())
            shown = (_turn(run, "session = ? AND first_seq = ?", int(key[0]), int(key[1]))[1] for key in keys)
            used_of += 1
            used += not own.isdisjoint(set[str]().union(*shown))
    sessions = {row[5] for row in rows if row[5]}
    repeated = [_repeated(lookup, session) for session in sorted(sessions)]
    times = sorted(row[4] for row in rows)
    return PreflightReport(
        turns=len(rows),
        injected=sum(row[3] > 0 for row in rows),
        tokens=sum(row[3] for row in rows),
        reasons=dict(Counter(row[1] for row in rows).most_common()),
        calls_with=_mean(calls[True]),
        calls_without=_mean(calls[False]),
        used=used,
        used_of=used_of,
        used_interval=wilson(used, used_of),
        repeated_calls=sum(calls for calls, _ in repeated),
        repeated_tokens=sum(tokens for _, tokens in repeated),
        sessions=len(sessions),
        p50_ms=_quantile(times, 0.5),
        p95_ms=_quantile(times, 0.95),
    )


def _turn(run: Any, condition: str, *values: object) -> tuple[int | None, set[str]]:
    """Where a turn starts, and the files and commands that it used."""
    row = run(f"SELECT first_seq, changed, read, ran FROM session_turns WHERE {condition} LIMIT 1", values).fetchone()
    return (row[0], {one for text in row[1:] for one in text.split("\n") if one}) if row else (None, set())


def _repeated(lookup: SessionLookup, session: int) -> tuple[int, int]:
    """Repeated reads and searches of a session, and the tokens of their results."""
    calls = tokens = 0
    for tool, arguments, times, result in lookup.repeated_calls(session):
        if role_of(tool, arguments) in ("read", "look"):
            calls += times
            tokens += times * count(result or "")
    return calls, tokens


def _mean(values: Sequence[int]) -> Mean:
    return Mean(sum(values) / len(values) if values else None, len(values))


def _quantile(ordered: Sequence[float], share: float) -> float | None:
    return ordered[max(0, ceil(share * len(ordered)) - 1)] if ordered else None
