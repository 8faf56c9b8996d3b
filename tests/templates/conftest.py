from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.templates.made import Clock
from warmstart.sessions.sql_store import PostgresSessionStore, SQLiteSessionStore, SQLSessionStore
from warmstart.templates.store import SQLTemplateStore


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[SQLSessionStore]:
    """A session store of the test's own."""
    with closing(SQLiteSessionStore(tmp_path / "store.db")) as opened:
        yield opened


@pytest.fixture
def clock() -> Clock:
    """A clock that stands still until it is told otherwise."""
    return Clock()


@pytest.fixture
def store(sessions: SQLSessionStore, clock: Clock) -> SQLTemplateStore:
    """A template store in that session store."""
    return SQLTemplateStore(sessions, clock=clock)


@pytest.fixture(params=["sqlite", "postgres"])
def either(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[SQLTemplateStore]:
    """A template store in either database."""
    if request.param == "sqlite":
        opened: SQLSessionStore = SQLiteSessionStore(tmp_path / "either.db")
    else:
        opened = PostgresSessionStore(request.getfixturevalue("postgres_url"))
    with closing(opened):
        yield SQLTemplateStore(opened, clock=clock)
