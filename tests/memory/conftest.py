from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple

import pytest

from tests.memory.honcho_server import HonchoServer, running
from tests.postgres import Server
from warmstart.memory.honcho import HonchoBackend
from warmstart.memory.honcho.link import Timeouts
from warmstart.memory.local import LocalBackend
from warmstart.memory.postgres import PostgresBackend
from warmstart.memory.sql import SQLBackend

DATABASES = ("local", "postgres")

PATIENT = Timeouts(read=60.0)

OpenHoncho = Callable[..., HonchoBackend]


class Honcho(NamedTuple):
    """A server, and what opens backends that speak to it."""

    server: HonchoServer
    opened: OpenHoncho


@pytest.fixture
def fresh(tmp_path: Path, postgres: Server) -> Callable[[str], AbstractContextManager[SQLBackend]]:
    """Opens an empty memory in one of `DATABASES`."""

    @contextmanager
    def open_fresh(database: str) -> Iterator[SQLBackend]:
        if database == "local":
            with closing(LocalBackend(Path(mkdtemp(dir=tmp_path)) / "m.db")) as local:
                yield local
        else:
            with postgres.database() as name, closing(PostgresBackend(postgres.url(name))) as backend:
                yield backend

    return open_fresh


@pytest.fixture
def server() -> Iterator[HonchoServer]:
    with running() as server:
        yield server


@contextmanager
def opening(folder: Path) -> Iterator[OpenHoncho]:
    """Makes backends that are closed in the end. `machine` names the folder of the index.

    They wait for answers longer than is usual, so that a busy machine does not change what they say.
    """
    backends: list[HonchoBackend] = []

    def open_backend(url: str, machine: str = "here", **options: object) -> HonchoBackend:
        given = {"settle_seconds": 0.0, "fresh_seconds": 0.0, "timeouts": PATIENT, **options}
        backends.append(HonchoBackend(base_url=url, path=folder / machine, **given))
        return backends[-1]

    yield open_backend
    for backend in backends:
        backend.close()


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[OpenHoncho]:
    with opening(tmp_path) as open_backend:
        yield open_backend


@pytest.fixture
def fresh_honcho(tmp_path: Path) -> Callable[[], AbstractContextManager[Honcho]]:
    """Starts a server that knows nothing, for backends with empty indexes."""

    @contextmanager
    def start() -> Iterator[Honcho]:
        with running() as server, opening(Path(mkdtemp(dir=tmp_path))) as open_backend:
            yield Honcho(server, open_backend)

    return start


@pytest.fixture
def honcho(server: HonchoServer, opened: OpenHoncho) -> HonchoBackend:
    """A memory whose server is there."""
    return opened(server.url)
