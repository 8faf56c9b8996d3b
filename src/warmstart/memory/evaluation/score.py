"""The score from 0 to 100. No point is given for an answer that was not checked."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeVar

from warmstart.memory.backend import MemoryBackend
from warmstart.memory.evaluation.forgetting import invented_word
from warmstart.memory.evaluation.hooks import Hooks
from warmstart.memory.evaluation.values import Points
from warmstart.memory.evaluation.visitors import Visitors

T = TypeVar("T")

_CLASSES = ((10.0, 20), (50.0, 15), (200.0, 10))  # mean milliseconds below which there are so many points
_SLOWEST = 5


class _Probe(NamedTuple):
    key: str
    value: str
    asked: str


def _probes() -> tuple[_Probe, ...]:
    """Entries that nobody can know beforehand.

    Nothing in common but the user: a query that gives whatever is there gives the wrong one.
    """
    one, two, three = (invented_word() for _ in range(3))
    return (
        _Probe(_key("pref_editor"), f"Writes code in {one} with evil mode.", f"{one} evil mode"),
        _Probe(_key("project_database"), f"The inventory is kept in {two} on a port.", f"inventory {two} port"),
        _Probe(_key("coffee"), f"Drinks {three} without sugar.", f"{three} sugar"),
    )


def _key(name: str) -> str:
    return f"{name}_{uuid.uuid4().hex[:8]}"


@dataclass(slots=True)
class Scored:
    """The points, and the mean of what worked in milliseconds."""

    points: Points
    mean_ms: float | None
    notes: list[str]


def score(backend: MemoryBackend, visitors: Visitors, hooks: Hooks, *, seconds: float) -> Scored:
    """Give the points of an available backend: 20 for that, the others as they are earned.

    Storing counts when the value can be read afterwards, by its key or by a query, and, where writes are queued, has
    arrived within `seconds`; retrieving when it is that entry, and a query when it gives the entry before any other.
    Whoever raises has not earned that point, and keeps the others. Latency is the mean of the operations that did what
    they should: to do nothing quickly earns nothing. Privacy is where things would go, which holds for one that keeps
    nothing as well: nothing leaves the machine. A backend that is not available is not asked and earns nothing at all,
    for privacy neither.
    """
    user = visitors.new("score")
    spent: list[float] = []
    notes: list[str] = []
    probes = _probes()

    def each(operation: Callable[[_Probe], bool]) -> list[bool]:
        return [_tried(notes, partial(operation, probe)) or False for probe in probes]

    stored = each(lambda probe: _timed_store(backend, visitors, user, probe, spent))
    flush = hooks.flush
    arrived = flush is None or bool(_tried(notes, lambda: flush(seconds)))
    retrieved = each(lambda probe: _timed_retrieve(backend, user, probe, spent))
    queried = each(lambda probe: _timed_query(backend, user, probe, spent))
    visible = [any(seen) for seen in zip(retrieved, queried, strict=True)]
    keeps = all(stored) and all(visible) and arrived
    if not keeps:
        spent = []
    mean = sum(spent) / len(spent) * 1000 if spent else None
    if all(stored) and not any(visible):
        notes.append("accepts what it is given and keeps nothing")
    elif not arrived:
        notes.append(f"what it is given did not arrive at its server within {seconds:g} s")
    elif not keeps:
        notes.append("does not keep all that it is given")
    points = Points(
        availability=20,
        store=15 if keeps else 0,
        retrieve=15 if all(retrieved) else 0,
        query=10 if all(queried) else 0,
        latency=_latency(mean),
        privacy=5 if backend.is_cloud else 20,
    )
    return Scored(points, mean, list(dict.fromkeys(notes)))


def _tried(notes: list[str], operation: Callable[[], T]) -> T | None:
    try:
        return operation()
    except Exception as error:  # whatever another's backend raises is a finding
        notes.append(f"raised {type(error).__name__}: {error}")
        return None


def _latency(mean: float | None) -> int:
    if mean is None:
        return 0
    return next((points for limit, points in _CLASSES if mean < limit), _SLOWEST)


def _timed_store(backend: MemoryBackend, visitors: Visitors, user: str, probe: _Probe, spent: list[float]) -> bool:
    visitors.wrote(user, probe.key)
    start = time.perf_counter()
    done = backend.store(user, probe.key, probe.value)
    spent.append(time.perf_counter() - start)
    return done is True


def _timed_retrieve(backend: MemoryBackend, user: str, probe: _Probe, spent: list[float]) -> bool:
    start = time.perf_counter()
    entry = backend.retrieve(user, probe.key)
    taken = time.perf_counter() - start
    right = entry is not None and (entry.key, entry.value) == (probe.key, probe.value)
    if right:
        spent.append(taken)
    return right


def _timed_query(backend: MemoryBackend, user: str, probe: _Probe, spent: list[float]) -> bool:
    start = time.perf_counter()
    found = backend.query(user, probe.asked)
    taken = time.perf_counter() - start
    right = bool(found) and (found[0].key, found[0].value) == (probe.key, probe.value)
    if right:
        spent.append(taken)
    return right
