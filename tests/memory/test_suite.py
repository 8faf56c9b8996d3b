"""The shipped suite: whoever passes it keeps every promise of the contract, or nearly so."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from tests.memory.mutants import MUTANTS
from warmstart.memory.local import LocalBackend
from warmstart.testing.memory import MemoryBackendSuite


def cases() -> Iterator[tuple[str, Callable[[LocalBackend], None]]]:
    """Every test of the suite, for every value that it is run with."""
    suite = MemoryBackendSuite()
    for name, test in inspect.getmembers(suite, inspect.ismethod):
        if not name.startswith("test_"):
            continue
        marks = [mark for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
        if not marks:
            yield name, test
        for mark in marks:
            yield from ((name, partial(test, **{mark.args[0]: value})) for value in mark.args[1])


def failed(kind: type[LocalBackend], folder: Path) -> str:
    """The first test that a backend does not pass."""
    for number, (name, test) in enumerate(cases()):
        with closing(LocalBackend(folder / f"{number}.db")):
            pass
        backend = kind(folder / f"{number}.db")
        try:
            test(backend)
        except pytest.skip.Exception:
            continue
        except (Exception, pytest.fail.Exception):
            return name
        finally:
            LocalBackend.close(backend)
    return ""


def test_a_sound_backend_passes(tmp_path):
    assert len(list(cases())) > 50
    assert failed(LocalBackend, tmp_path) == ""


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_backend_that_breaks_one_promise_is_found_out(mutant, tmp_path):
    assert failed(mutant, tmp_path)
