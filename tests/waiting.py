"""Time in tests: waiting for something to happen, measuring an act, and a clock that is put forward."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

SECONDS = 180.0  # for a machine that does other things too


def wait_until(happened: Callable[[], object], *, every: float = 0.005) -> None:
    """Return once it happened; looks `every` so many seconds."""
    deadline = time.monotonic() + SECONDS
    while not happened():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(every)


def seconds(act: Callable[[], object]) -> float:
    """How long an act takes."""
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def is_quicker(act: Callable[[], object], limit: float) -> bool:
    """Whether an act takes less than `limit` seconds in one of many attempts: a busy machine is slow only at times."""
    return any(seconds(act) < limit for _ in range(20))


def put_forward(monkeypatch: pytest.MonkeyPatch, by: float) -> None:
    """Let `by` seconds pass at once."""
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + by)
