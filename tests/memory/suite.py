"""The shipped suite, case by case, for backends that run all of it in one test."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import pytest

from warmstart.memory.backend import MemoryBackend
from warmstart.testing.memory import MemoryBackendSuite

Case = Callable[[Any], None]


def cases(suite: type[MemoryBackendSuite] = MemoryBackendSuite) -> Iterator[tuple[str, Case]]:
    """Every test of the suite, for every value that it is run with."""
    for name, test in inspect.getmembers(suite(), inspect.ismethod):
        if not name.startswith("test_"):
            continue
        marks = [mark for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
        if not marks:
            yield name, test
        for mark in marks:
            for value in mark.args[1]:
                yield f"{name}[{ascii(value)[:20]}]", partial(test, **{mark.args[0]: value})


def run_suite(
    subtests: pytest.Subtests,
    fresh: Callable[[], AbstractContextManager[MemoryBackend]],
    suite: type[MemoryBackendSuite] = MemoryBackendSuite,
) -> None:
    """Run each case on a fresh backend and report all that failed."""
    known = list(cases(suite))
    assert len(known) > 50
    for name, test in known:
        with subtests.test(name), fresh() as backend:
            test(backend)
