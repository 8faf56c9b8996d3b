"""The shipped suite: whoever passes it keeps every promise of the contract, or nearly so."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from tests.memory.mutants import MUTANTS
from tests.memory.suite import cases
from warmstart.memory.local import LocalBackend


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
