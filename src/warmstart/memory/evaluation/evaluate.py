"""Evaluate backends: all measures on one, and several side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from warmstart.config import ambient_settings
from warmstart.errors import WarmstartError
from warmstart.memory.backend import MemoryBackend
from warmstart.memory.evaluation.advice import recommendation, warnings
from warmstart.memory.evaluation.forgetting import forgetting
from warmstart.memory.evaluation.hooks import Hooks, Sent, hooks_of
from warmstart.memory.evaluation.labelled import labelled
from warmstart.memory.evaluation.latency import latency
from warmstart.memory.evaluation.relevance import relevance
from warmstart.memory.evaluation.reliability import reliability
from warmstart.memory.evaluation.score import Scored, score
from warmstart.memory.evaluation.values import (
    BackendEvaluation,
    Cost,
    EvaluationReport,
    Forgetting,
    LatencyAt,
    Points,
    Relevance,
    Trial,
    verdict_of,
)
from warmstart.memory.evaluation.visitors import Visitors, left_there
from warmstart.memory.remote import Remote

SIZES = (10, 1_000, 100_000)
QUICK = (10, 1_000)
SECONDS = 120.0  # for each measure, and for each size
_BYTES_A_TOKEN = 4

Progress = Callable[[int, int], None]


def evaluate_backend(
    backend: MemoryBackend,
    test_user: str = "eval_user",
    *,
    sizes: Sequence[int] = QUICK,
    seconds: float = SECONDS,
    hooks: Hooks | None = None,
    progress: Progress | None = None,
) -> BackendEvaluation:
    """Measure a backend with users of its own, whose names begin with `test_user`; nothing of them stays.

    Can be run against a backend in use. No measure takes much longer than `seconds`: what was cut short says so in the
    notes. A backend that fails gets no points for it, and what it raised stands in the notes; this never raises for it.
    """
    run = _Run(backend, hooks or hooks_of(backend), test_user, sizes, seconds, progress)
    if not run.is_available():
        return BackendEvaluation(
            backend.backend_name,
            backend.is_cloud,
            False,
            0,
            verdict_of(0),
            Points(),
            notes=("not available", *run.notes),
        )
    with Visitors(backend, run.hooks, test_user) as visitors:
        run.measure(visitors)
    if visitors.left_behind or visitors.trouble:
        why = f" ({visitors.trouble})" if visitors.trouble else ""
        run.notes.append(
            f"{visitors.left_behind} entries of the evaluation could not be removed{why}; their users are called "
            f"{visitors.name}…, and an evaluation removes them when a day is over"
        )
    if visitors.leaves_marks:
        run.notes.append("its history still tells that entries of the evaluation were there, not what they were")
    if isinstance(backend, Remote):
        run.notes += left_there(backend, visitors.users, seconds)
    return run.result()


def evaluate_backends(
    backends: Mapping[str, MemoryBackend] | Sequence[MemoryBackend] | None = None,
    *,
    test_user: str = "eval_user",
    sizes: Sequence[int] = QUICK,
    seconds: float = SECONDS,
    reopen: Callable[[MemoryBackend], MemoryBackend] | None = None,
    progress: Progress | None = None,
) -> EvaluationReport:
    """Evaluate several backends on the same questions: those given, or all that can be opened here.

    `reopen` opens one of them anew on the same data, so that writers do not share it and a restart can be tried.
    """
    if backends is None:
        return _evaluate_all(test_user, sizes, seconds, progress)
    chosen = list(backends.values()) if isinstance(backends, Mapping) else list(backends)
    evaluations = []
    for number, backend in enumerate(chosen):
        hooks = hooks_of(backend)
        if reopen is not None and hooks.reopen is None:
            hooks = replace(hooks, reopen=partial(reopen, backend))
        share = _share(progress, number, len(chosen))
        evaluations.append(
            evaluate_backend(backend, test_user, sizes=sizes, seconds=seconds, hooks=hooks, progress=share)
        )
    return EvaluationReport(
        timestamp=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        backends_evaluated=[each.backend_name for each in evaluations],
        evaluations=evaluations,
        recommendation=recommendation(evaluations),
        warnings=warnings(evaluations),
    )


def _evaluate_all(test_user: str, sizes: Sequence[int], seconds: float, progress: Progress | None) -> EvaluationReport:
    """Every backend that can be opened here."""
    from warmstart.memory.selection import backend_names, open_backend

    settings = ambient_settings()
    opened: dict[str, MemoryBackend] = {}
    left_out = []
    for name in backend_names():
        try:
            opened[name] = open_backend(name, settings)
        except WarmstartError as error:
            left_out.append(f"{name} is left out: {error}")
    names = {id(backend): name for name, backend in opened.items()}
    try:
        report = evaluate_backends(
            opened,
            test_user=test_user,
            sizes=sizes,
            seconds=seconds,
            reopen=lambda backend: open_backend(names[id(backend)], settings),
            progress=progress,
        )
        return replace(report, warnings=[*report.warnings, *left_out])
    finally:
        for backend in opened.values():
            backend.close()


class _Run:
    """One evaluation, as far as it has come. A measure that fails leaves a note and the others go on."""

    def __init__(
        self,
        backend: MemoryBackend,
        hooks: Hooks,
        test_user: str,
        sizes: Sequence[int],
        seconds: float,
        progress: Progress | None,
    ) -> None:
        self.backend = backend
        self.hooks = hooks
        self.notes: list[str] = []
        self._sizes = sizes
        self._seconds = seconds
        self._progress = progress
        self._done = 0
        self._scored = Scored(Points(availability=20, privacy=5 if backend.is_cloud else 20), None, [])
        self._relevance: Relevance | None = None
        self._cost: Cost | None = None
        self._latency: list[LatencyAt] = []
        self._reliability: list[Trial] = []
        self._forgetting: Forgetting | None = None

    def is_available(self) -> bool:
        """Whether there is anything to measure: a backend whose server does not answer only seems to keep things."""
        try:
            if not self.backend.is_available():
                return False
            if not isinstance(self.backend, Remote) or self.backend.is_reachable():
                return True
            self.notes.append(f"its server {self.backend.status().base_url} does not answer")
        except Exception as error:  # the contract says never, but this is what tells
            self.notes.append(f"asking whether it is available raised {_said(error)}")
        return False

    def measure(self, visitors: Visitors) -> None:
        """Take all measures."""
        self._try("the score", lambda: self._score(visitors))
        if not self._scored.points.store:
            return  # what keeps nothing has nothing to measure
        self._try("relevance", lambda: self._ask(visitors))
        self._try("forgetting", lambda: self._forget(visitors))
        self._try("reliability", lambda: self._strain(visitors))
        self._try("latency", lambda: self._fill(visitors))

    def result(self) -> BackendEvaluation:
        """What was found."""
        points = self._scored.points
        return BackendEvaluation(
            backend_name=self.backend.backend_name,
            is_cloud=self.backend.is_cloud,
            is_available=True,
            score=points.total,
            verdict=verdict_of(points.total),
            points=points,
            mean_ms=self._scored.mean_ms,
            relevance=self._relevance,
            latency=tuple(self._latency),
            reliability=tuple(self._reliability),
            cost=self._cost,
            forgetting=self._forgetting,
            notes=(*self._scored.notes, *self.notes),
        )

    def _try(self, name: str, measure: Callable[[], None]) -> None:
        try:
            measure()
        except Exception as error:  # whatever another's backend raises is a finding, not an end
            self.notes.append(f"{name} could not be measured: {_said(error)}")
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, 5)

    def _score(self, visitors: Visitors) -> None:
        self._scored = score(self.backend, visitors, self.hooks, seconds=self._seconds)

    def _ask(self, visitors: Visitors) -> None:
        before = self.hooks.sent() if self.hooks.sent else None
        asked = relevance(self.backend, visitors, labelled(), seconds=self._seconds)
        self._relevance = asked.relevance
        if asked.note:
            self.notes.append(asked.note)
        elif asked.relevance is not None:
            if self.hooks.flush is not None:
                self.hooks.flush(self._seconds)
            operations = asked.relevance.memories + asked.relevance.questions
            self._cost = self._costs(operations, before)

    def _costs(self, operations: int, before: Sent | None) -> Cost | None:
        if self.hooks.sent is not None and before is not None:
            after = self.hooks.sent()
            sent = after.bytes - before.bytes
            tokens = -(-sent // _BYTES_A_TOKEN)
            return Cost(
                operations, after.calls - before.calls, sent, tokens, "counted by the backend; tokens are estimated"
            )
        if not self.backend.is_cloud:
            return Cost(operations, 0, 0, 0, "nothing leaves the machine")
        self.notes.append("what it sends away is not known: it does not count it")
        return None

    def _forget(self, visitors: Visitors) -> None:
        self._forgetting = forgetting(self.backend, visitors, self.hooks, seconds=self._seconds)
        if isinstance(self.backend, Remote) and self._forgetting:
            self.backend.flush(self._seconds)
            told = [each for user in visitors.users for each in self.backend.forgotten(user)]
            if texts := sum(each.messages for each in told):
                self.notes.append(f"its server keeps the text of {texts} entries that were deleted")

    def _strain(self, visitors: Visitors) -> None:
        for trial in reliability(self.backend, visitors, self.hooks, seconds=self._seconds):
            self._reliability.append(trial)
            if trial.tried and trial.name == "server gone" and trial.note:
                self.notes.append(trial.note)

    def _fill(self, visitors: Visitors) -> None:
        for at in latency(self.backend, visitors, labelled(), self._sizes, seconds=self._seconds):
            self._latency.append(at)
            if at.note:
                self.notes.append(f"latency at {at.wanted:,} entries: {at.note}")


def _share(progress: Progress | None, number: int, total: int) -> Progress | None:
    """Progress of one backend as a part of the progress of all."""
    if progress is None:
        return None
    return lambda done, all_: progress(number * all_ + done, total * all_)


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
