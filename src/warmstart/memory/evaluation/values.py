"""What an evaluation finds. Times are milliseconds, shares are between 0 and 1, and nothing stands for not measured."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from warmstart.stats import Interval

Verdict = Literal["recommended", "acceptable", "marginal", "not recommended"]


@dataclass(frozen=True, slots=True)
class Points:
    """What the score is made of."""

    availability: int = 0  # of 20
    store: int = 0  # of 15
    retrieve: int = 0  # of 15
    query: int = 0  # of 10
    latency: int = 0  # of 20
    privacy: int = 0  # of 20

    @property
    def total(self) -> int:
        return self.availability + self.store + self.retrieve + self.query + self.latency + self.privacy


@dataclass(frozen=True, slots=True)
class KindRelevance:
    """How the questions of one kind were answered.

    `hit_at_1` and `hit_at_5` are nothing where the right answer is silence. `wrong` is the share of questions for which
    something came back that must not: anything at all where silence is right, a former value elsewhere. Each share has
    its interval, which a difference between two backends has to exceed to mean something.
    """

    kind: str
    questions: int
    hit_at_1: float | None
    hit_at_5: float | None
    wrong: float
    hit_at_1_interval: Interval | None = None
    hit_at_5_interval: Interval | None = None
    wrong_interval: Interval | None = None


@dataclass(frozen=True, slots=True)
class Relevance:
    """How well questions find their memory. `leaked` counts entries of another user that came back: it has to be 0."""

    memories: int
    questions: int
    hit_at_1: float | None
    hit_at_5: float | None
    leaked: int
    kinds: tuple[KindRelevance, ...]
    hit_at_1_interval: Interval | None = None
    hit_at_5_interval: Interval | None = None


@dataclass(frozen=True, slots=True)
class Percentiles:
    """The median of an operation and what nineteen of twenty stay under."""

    p50: float
    p95: float
    count: int


@dataclass(frozen=True, slots=True)
class LatencyAt:
    """How long operations take for a user who has so many entries. `entries` is less than `wanted` where it had to be
    stopped, as `note` says.
    """

    wanted: int
    entries: int
    store: Percentiles | None = None
    retrieve: Percentiles | None = None
    query: Percentiles | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Trial:
    """What became of writes under strain: of those that were acknowledged, how many are lost, doubled or stale.

    `refused` were not acknowledged, which is honest; nothing is lost with them. What there was no way to try has no
    writes and is not `tried`.
    """

    name: str
    writes: int
    refused: int
    lost: int
    doubled: int
    stale: int
    note: str = ""
    tried: bool = True


@dataclass(frozen=True, slots=True)
class Cost:
    """What left the machine for `operations` stores and queries. Tokens are estimated from bytes, four to one."""

    operations: int
    calls: int
    bytes: int
    tokens: int
    source: str  # how it is known


@dataclass(frozen=True, slots=True)
class Forgetting:
    """Whether deleted entries are gone, and after how long at the latest; nothing where they still were in the end."""

    entries: int
    retrieve_ms: float | None
    query_ms: float | None
    list_ms: float | None
    in_history: int  # of how many the value can still be read in the history
    waited_ms: float
    in_files: int | None = (
        None  # of how many bytes are still in the backend's files; nothing where it does not say which
    )

    @property
    def is_gone(self) -> bool:
        return None not in (self.retrieve_ms, self.query_ms, self.list_ms)


@dataclass(frozen=True, slots=True)
class BackendEvaluation:
    """One backend: the score, and beside it what the score does not say."""

    backend_name: str
    is_cloud: bool
    is_available: bool
    score: int
    verdict: Verdict
    points: Points
    mean_ms: float | None = None
    relevance: Relevance | None = None
    latency: tuple[LatencyAt, ...] = ()
    reliability: tuple[Trial, ...] = ()
    cost: Cost | None = None
    forgetting: Forgetting | None = None
    notes: tuple[str, ...] = ()

    @property
    def is_working(self) -> bool:
        """Whether it keeps and finds what it is given."""
        return bool(self.points.store and self.points.retrieve and self.points.query)

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class EvaluationReport:
    """Several backends side by side, and which of them to take."""

    timestamp: str
    backends_evaluated: list[str]
    evaluations: list[BackendEvaluation]
    recommendation: str
    warnings: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)


def verdict_of(score: int) -> Verdict:
    """What a score means in a word."""
    if score >= 80:
        return "recommended"
    if score >= 60:
        return "acceptable"
    return "marginal" if score >= 40 else "not recommended"
