from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.recall.stores import NOW
from warmstart import Recall, SQLiteSessionStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteSessionStore]:
    with closing(SQLiteSessionStore(tmp_path / "store.db")) as fresh:
        yield fresh


@pytest.fixture
def recall(store: SQLiteSessionStore) -> Recall:
    """A search in the test's store, at a time that does not pass."""
    return Recall(store, clock=lambda: NOW)
