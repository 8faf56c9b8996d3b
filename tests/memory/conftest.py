from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.memory.honcho_server import HonchoServer, running
from warmstart.memory.honcho import HonchoBackend
from warmstart.memory.local import LocalBackend
from warmstart.memory.postgres import PostgresBackend
from warmstart.memory.sql import SQLBackend


@pytest.fixture(params=["local", "postgres"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SQLBackend]:
    """Memory in either database."""
    if request.param == "local":
        opened: SQLBackend = LocalBackend(tmp_path / "m.db")
    else:
        opened = PostgresBackend(request.getfixturevalue("postgres_url"))
    with closing(opened):
        yield opened


@pytest.fixture
def server() -> Iterator[HonchoServer]:
    with running() as server:
        yield server


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., HonchoBackend]]:
    """Makes backends that are closed in the end. `machine` names the folder of the index.

    They wait for answers longer than is usual, so that a busy machine does not change what they say.
    """
    backends: list[HonchoBackend] = []

    def open_backend(url: str, machine: str = "here", **options: object) -> HonchoBackend:
        given = {"settle_seconds": 0.0, "fresh_seconds": 0.0, "timeout_ms": 5000, **options}
        backends.append(HonchoBackend(base_url=url, path=tmp_path / machine, **given))
        return backends[-1]

    yield open_backend
    for backend in backends:
        backend.close()


@pytest.fixture
def honcho(server: HonchoServer, opened: Callable[..., HonchoBackend]) -> HonchoBackend:
    """A memory whose server is there."""
    return opened(server.url)
