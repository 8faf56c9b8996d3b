"""Evaluations side by side: a row a finding, a cell a backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from warmstart.memory.evaluation.values import (
    BackendEvaluation,
    KindRelevance,
    LatencyAt,
    Percentiles,
    Trial,
)
from warmstart.stats import Interval

NONE = "–"
_SILENT = {"other": "another user's", "unanswerable": "unanswerable"}


class Row(NamedTuple):
    """A finding about each backend, under the name of what it belongs to."""

    group: str
    name: str
    cells: list[str]


def rows(evaluations: Sequence[BackendEvaluation]) -> list[Row]:
    """Everything that was found out about any of them."""
    return [
        *_score(evaluations),
        *_relevance(evaluations),
        *_latency(evaluations),
        *_reliability(evaluations),
        *_forgetting(evaluations),
        *_cost(evaluations),
    ]


def _row(
    group: str, name: str, evaluations: Sequence[BackendEvaluation], show: Callable[[BackendEvaluation], str]
) -> Row:
    return Row(group, name, [show(each) for each in evaluations])


def _score(evaluations: Sequence[BackendEvaluation]) -> list[Row]:
    def functionality(each: BackendEvaluation) -> str:
        points = each.points
        return f"{points.store + points.retrieve + points.query} of 40"

    return [
        _row("Score", "of 100", evaluations, lambda each: f"{each.score} {each.verdict}"),
        _row("Score", "availability", evaluations, lambda each: f"{each.points.availability} of 20"),
        _row("Score", "functionality", evaluations, functionality),
        _row("Score", "latency", evaluations, lambda each: f"{each.points.latency} of 20"),
        _row("Score", "privacy", evaluations, lambda each: f"{each.points.privacy} of 20"),
    ]


def _relevance(evaluations: Sequence[BackendEvaluation]) -> list[Row]:
    kinds = dict.fromkeys(kind.kind for each in evaluations if each.relevance for kind in each.relevance.kinds)
    found: list[Row] = []
    for name in kinds:

        def show(each: BackendEvaluation, name: str = name) -> str:
            kind = kind_of(each, name)
            if kind is None:
                return NONE
            if kind.hit_at_1 is None or kind.hit_at_5 is None:
                return f"{share(kind.wrong, kind.wrong_interval)} wrong"
            wrong = f", {kind.wrong:.0%} former" if kind.wrong else ""
            first, five = share(kind.hit_at_1, kind.hit_at_1_interval), share(kind.hit_at_5, kind.hit_at_5_interval)
            return f"{first} first, {five} in five{wrong}"

        found.append(_row("Relevance", _SILENT.get(name, name), evaluations, show))
    if kinds:
        found.append(
            _row(
                "Relevance", "leaked", evaluations, lambda each: str(each.relevance.leaked) if each.relevance else NONE
            )
        )
    return found


def share(value: float, interval: Interval | None) -> str:
    """A share, and in brackets where the true one lies."""
    if interval is None:
        return f"{value:.0%}"
    return f"{value:.0%} ({interval.low * 100:.0f}–{interval.high * 100:.0f}%)"


def kind_of(each: BackendEvaluation, name: str) -> KindRelevance | None:
    """What was found about one kind of questions."""
    kinds = each.relevance.kinds if each.relevance else ()
    return next((kind for kind in kinds if kind.kind == name), None)


def latency_at(each: BackendEvaluation, wanted: int) -> LatencyAt | None:
    """What was measured for this size."""
    return next((at for at in each.latency if at.wanted == wanted), None)


def _latency(evaluations: Sequence[BackendEvaluation]) -> list[Row]:
    sizes = sorted({at.wanted for each in evaluations for at in each.latency})
    found = []
    for size in sizes:
        for name in ("store", "retrieve", "query"):

            def show(each: BackendEvaluation, size: int = size, name: str = name) -> str:
                at = latency_at(each, size)
                measured: Percentiles | None = getattr(at, name) if at else None
                if at is None or measured is None:
                    return NONE
                fewer = "" if at.entries == at.wanted else f" at {at.entries:,}"
                return f"{milliseconds(measured.p50)} / {milliseconds(measured.p95)} ms{fewer}"

            found.append(_row("Latency p50/p95", f"{name}, {size:,} entries", evaluations, show))
    return found


def _reliability(evaluations: Sequence[BackendEvaluation]) -> list[Row]:
    names = dict.fromkeys(trial.name for each in evaluations for trial in each.reliability)
    found = []
    for name in names:

        def show(each: BackendEvaluation, name: str = name) -> str:
            trial = next((trial for trial in each.reliability if trial.name == name), None)
            return NONE if trial is None else _trial(trial)

        found.append(_row("Reliability", name, evaluations, show))
    return found


def _trial(trial: Trial) -> str:
    if not trial.tried:
        return "not tried"
    bad = {"lost": trial.lost, "doubled": trial.doubled, "stale": trial.stale, "refused": trial.refused}
    said = [f"{count} {name}" for name, count in bad.items() if count]
    return f"{', '.join(said)} of {trial.writes}" if said else f"all {trial.writes} right"


def _forgetting(evaluations: Sequence[BackendEvaluation]) -> list[Row]:
    if not any(each.forgetting for each in evaluations):
        return []

    def show(each: BackendEvaluation) -> str:
        found = each.forgetting
        if found is None:
            return NONE
        places = {"retrieve": found.retrieve_ms, "query": found.query_ms, "list": found.list_ms}
        still = [name for name, gone in places.items() if gone is None]
        if still:
            return f"still in {', '.join(still)} after {found.waited_ms / 1000:g} s"
        latest = max(gone for gone in places.values() if gone is not None)
        return f"gone within {milliseconds(latest)} ms"

    def history(each: BackendEvaluation) -> str:
        found = each.forgetting
        return NONE if found is None else f"{found.in_history} of {found.entries}"

    def files(each: BackendEvaluation) -> str:
        found = each.forgetting
        if found is None:
            return NONE
        return "not tried" if found.in_files is None else f"{found.in_files} of {found.entries}"

    return [
        _row("Forgetting", "deleted entries", evaluations, show),
        _row("Forgetting", "readable in history", evaluations, history),
        _row("Forgetting", "readable in its files", evaluations, files),
    ]


def _cost(evaluations: Sequence[BackendEvaluation]) -> list[Row]:
    def show(each: BackendEvaluation) -> str:
        cost = each.cost
        if cost is None:
            return "not known" if each.is_cloud and each.is_working else NONE
        if not cost.calls:
            return "nothing"
        return f"{cost.calls:,} calls, {cost.bytes / 1000:,.0f} kB, about {cost.tokens:,} tokens (estimated)"

    operations = next((each.cost.operations for each in evaluations if each.cost), 0)
    return [_row("Cost", f"sent away in {operations} operations", evaluations, show)] if operations else []


def milliseconds(value: float) -> str:
    """`0.002`, `0.02`, `1.3`, `250`: no more figures than matter."""
    if value >= 100:
        return f"{value:,.0f}"
    if value >= 1:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 0.01 else f"{value:.3f}"
