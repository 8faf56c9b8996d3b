"""The statistics of a corpus of sessions as frozen values: rates, signatures, diagnostics, the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from warmstart.stats import NOTHING, Estimate, cluster_rate

Reading = Literal["selection", "learning", "both", "neither", "not enough data"]


class Rate(NamedTuple):
    """An error rate: errors among all calls, with its 95 % interval over sessions.

    The interval is `None` for fewer than two sessions: one session says nothing about the next.
    """

    key: str
    sessions: int
    calls: int
    errors: int
    rate: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class SignatureCount:
    """An error signature with the tool it belongs to, how often and in how many sessions it occurred, and its fix.

    `fix` says what usually changed before the tool worked again; `None` if nothing helped twice.
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
    """How many errors the same tool recovered from: at its next call, and within its next three."""

    errors: int
    next_call: float | None
    next_call_low: float | None
    next_call_high: float | None
    within_three: float | None
    within_three_low: float | None
    within_three_high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyErrors:
    """The error rate in the first calls of a session by its final length.

    `estimate` is the rate of sessions that ended short (with at most `split` messages) minus that of the others, over
    the first ten calls, compared call number by call number.
    """

    estimate: float | None
    low: float | None
    high: float | None
    first_10: tuple[Rate, ...]
    first_30: tuple[Rate, ...]
    split: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Slope:
    """The change of the error rate inside a session: `estimate` is per 100 calls, with session fixed effects.

    The end of each session is left out. `per_doubling` is the same over the logarithm of the call number, because most
    is learned early, and `within_tool` compares every tool with itself. `first_half` and `second_half` are the rates of
    the halves of all sessions with at least 20 calls, `by_position` those of their tenths.
    """

    estimate: float | None
    low: float | None
    high: float | None
    sessions: int
    calls: int
    first_half: float | None
    second_half: float | None
    by_position: tuple[Rate, ...]
    per_doubling: Estimate = NOTHING
    within_tool: Estimate = NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Hazard:
    """How likely a session is to end after a call: `estimate` is the risk after an error divided by that after none.

    `recent` is the same for an error among the last five calls: people often wait a little before they give up.
    """

    estimate: float | None
    low: float | None
    high: float | None
    after_error: float | None
    after_success: float | None
    errors: int
    sessions: int
    recent: Estimate = NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """Error rates in the 20 calls before and after a compaction; `estimate` is after minus before."""

    estimate: float | None
    low: float | None
    high: float | None
    before: float | None
    after: float | None
    compactions: int
    sessions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostics:
    """Do sessions learn, or do the bad ones end early? `explanation` says in words what the numbers support."""

    early_error_by_length: EarlyErrors
    within_session_slope: Slope
    hazard_after_error: Hazard
    around_compaction: Compaction
    reading: Reading
    explanation: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The statistics of all sessions. `instructions`, weak evidence, are those repeated in several sessions."""

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


def rate(key: str, errors: Sequence[float], calls: Sequence[float]) -> Rate:
    """The error rate of sessions, from the errors and calls of each; those without calls are left out."""
    y, x = np.asarray(errors, float), np.asarray(calls, float)
    y, x = y[x > 0], x[x > 0]
    return Rate(key, int(y.size), int(x.sum()), int(y.sum()), *cluster_rate(y, x))
