"""What becomes of writes under strain: many writers at once, a server that goes away, a new start.

Only an acknowledged write can be lost. One that is refused is counted apart: whoever wrote knows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

from warmstart.memory.backend import MemoryBackend
from warmstart.memory.evaluation.hooks import Hooks
from warmstart.memory.evaluation.values import Trial
from warmstart.memory.evaluation.visitors import Visitors

_WRITERS = 8
_EACH = 25
_VALUES = 2  # every key is written so often; the last value holds
_PATIENCE = 10.0  # seconds for what was written while the server was away to arrive
_PAUSE = 0.05


@dataclass(slots=True)
class _Written:
    """What was written: by key the acknowledged values in their order, and how many were not acknowledged."""

    values: dict[str, list[str]] = field(default_factory=dict)
    unsure: dict[str, list[str]] = field(default_factory=dict)  # refused, which does not say that it was not done
    refused: int = 0
    stale: int = 0

    @property
    def writes(self) -> int:
        return sum(map(len, self.values.values())) + self.refused


def reliability(backend: MemoryBackend, visitors: Visitors, hooks: Hooks, *, seconds: float) -> Iterator[Trial]:
    """Each trial that this backend can be put to."""
    user = visitors.new("writers")
    written = _write_together(backend, visitors, hooks, user, seconds)
    several = "each with a backend of its own" if hooks.reopen else "sharing one backend"
    yield _trial("concurrent writers", backend, user, written, f"{_WRITERS} writers, {several}")
    if hooks.reopen is not None:
        with _closed(hooks.reopen()) as fresh:
            yield _trial("restart", fresh, user, written)
    else:
        yield _untried("restart", "there is no way to open it anew")
    if hooks.outage is not None:
        yield _outage(backend, visitors, hooks)
    else:
        yield _untried("server gone", "nobody's server is taken down without being told to")


def _write_together(backend: MemoryBackend, visitors: Visitors, hooks: Hooks, user: str, seconds: float) -> _Written:
    until = time.monotonic() + seconds
    for writer in range(_WRITERS):
        for number in range(_EACH):
            visitors.wrote(user, f"writer{writer}_{number}")

    def write(writer: int) -> _Written:
        if hooks.reopen is None:
            return _write(backend, user, f"writer{writer}", until)
        with _closed(hooks.reopen()) as own:
            return _write(own, user, f"writer{writer}", until)

    with ThreadPoolExecutor(_WRITERS) as pool:
        parts = list(pool.map(write, range(_WRITERS)))
    return _Written(
        values={key: values for part in parts for key, values in part.values.items()},
        unsure={key: values for part in parts for key, values in part.unsure.items()},
        refused=sum(part.refused for part in parts),
        stale=sum(part.stale for part in parts),
    )


def _write(backend: MemoryBackend, user: str, name: str, until: float) -> _Written:
    """Write keys that nobody else writes, and read each again at once: it must be what was just written."""
    written = _Written()
    for number in range(_EACH):
        for version in range(_VALUES):
            if time.monotonic() > until:
                return written
            key, value = f"{name}_{number}", f"value {version} of {name} {number}"
            if not _acknowledged(backend, user, key, value):
                written.refused += 1
                written.unsure.setdefault(key, []).append(value)
                continue
            written.values.setdefault(key, []).append(value)
            written.stale += _reads_other(backend, user, key, value)
    return written


def _acknowledged(backend: MemoryBackend, user: str, key: str, value: str) -> bool:
    try:
        return backend.store(user, key, value) is True
    except Exception:  # whatever another's backend raises: it was not acknowledged
        return False


def _reads_other(backend: MemoryBackend, user: str, key: str, value: str) -> bool:
    try:
        entry = backend.retrieve(user, key)
    except Exception:  # it does not answer, which is no wrong answer
        return False
    return entry is not None and entry.value != value


def _outage(backend: MemoryBackend, visitors: Visitors, hooks: Hooks) -> Trial:
    """Write before, while and after the server is away; all that was acknowledged has to be there in the end."""
    assert hooks.outage is not None  # noqa: S101
    user = visitors.new("outage")
    written = _Written()
    far = time.monotonic() + 1e6
    for phase in ("before", "during", "after"):
        for number in range(_EACH):
            visitors.wrote(user, f"{phase}_{number}")
    _join(written, _write(backend, user, "before", far))
    with hooks.outage():
        _join(written, _write(backend, user, "during", far))
    _join(written, _write(backend, user, "after", far))
    until = time.monotonic() + _PATIENCE
    trial = _after_outage(backend, hooks, user, written)
    while trial.lost and time.monotonic() < until:
        time.sleep(_PAUSE)
        trial = _after_outage(backend, hooks, user, written)
    return trial


def _after_outage(backend: MemoryBackend, hooks: Hooks, user: str, written: _Written) -> Trial:
    """What is there; as a new process finds it, where this one has not found back to its server."""
    try:
        return _trial("server gone", backend, user, written)
    except Exception:  # whatever another's backend raises
        if hooks.reopen is None:
            raise
        with _closed(hooks.reopen()) as fresh:
            return _trial("server gone", fresh, user, written, "it did not find back to its server by itself")


def _join(written: _Written, more: _Written) -> None:
    written.values |= more.values
    written.unsure |= more.unsure
    written.refused += more.refused
    written.stale += more.stale


def _trial(name: str, backend: MemoryBackend, user: str, written: _Written, note: str = "") -> Trial:
    """Compare what is there with what was acknowledged."""
    listed = backend.list_keys(user)
    lost, stale = 0, written.stale
    doubled = len(listed) - len(set(listed))
    for key, values in written.values.items():
        entry = backend.retrieve(user, key)
        unsure = written.unsure.get(key, [])
        if entry is None or key not in listed:
            lost += 1
        elif entry.value not in (values[-1], *unsure):
            stale += 1
        versions = [version.value for version in backend.history(user, key)]
        doubled += max(len(versions) - len(values) - len(unsure), 0)
    return Trial(name, written.writes, written.refused, lost, doubled, stale, note)


def _untried(name: str, why: str) -> Trial:
    return Trial(name, 0, 0, 0, 0, 0, why, tried=False)


@contextmanager
def _closed(backend: MemoryBackend) -> Iterator[MemoryBackend]:
    try:
        yield backend
    finally:
        backend.close()
