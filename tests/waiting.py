"""Time in tests: waiting for something to happen, measuring an act, and a clock that is put forward."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import TypeVar

import pytest

SECONDS = 180.0  # for a machine that does other things too
Found = TypeVar("Found", bound=Sequence[object])


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


def in_time(search: Callable[[float], Found]) -> Found:
    """What is found within the first deadline, in milliseconds, that is enough for this machine."""
    found = search(500)
    for milliseconds in (2_000, 8_000, 32_000, 59_000):
        if not found:
            found = search(milliseconds)
    return found


@contextmanager
def locked(path: Path) -> Iterator[Thread]:
    """Hold the write lock of a SQLite file; who waits for it gets it after three minutes, when the thread ends."""
    held, done = Event(), Event()

    def hold() -> None:
        with closing(sqlite3.connect(path, timeout=SECONDS, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            held.set()
            done.wait(SECONDS)

    holder = Thread(target=hold)
    holder.start()
    assert held.wait(SECONDS)
    try:
        yield holder
    finally:
        done.set()
        holder.join()


def put_forward(monkeypatch: pytest.MonkeyPatch, by: float) -> None:
    """Let `by` seconds pass at once."""
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + by)
