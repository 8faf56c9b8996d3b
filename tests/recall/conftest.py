from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.postgres import Server
from tests.recall.stores import NOW, opened
from warmstart.recall.recall import Recall
from warmstart.sessions.sql_store import SQLSessionStore

KINDS = ("sqlite", "postgres")


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a store of the test's own is, of either kind."""
    if request.param == "sqlite":
        return str(tmp_path / "store.db")
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def store(url: str) -> Iterator[SQLSessionStore]:
    with closing(opened(url)) as fresh:
        yield fresh


@pytest.fixture
def recall(store: SQLSessionStore) -> Recall:
    """A search in the test's store, at a time that does not pass."""
    return Recall(store, clock=lambda: NOW)


@pytest.fixture(scope="module", params=KINDS)
def lasting(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SQLSessionStore]:
    """A store of either kind for all tests of a module."""
    with ExitStack() as stack:
        place = str(tmp_path_factory.mktemp("lasting") / "store.db")
        if request.param == "postgres":
            server: Server = request.getfixturevalue("postgres")
            place = server.url(stack.enter_context(server.database()))
        yield stack.enter_context(closing(opened(place)))
