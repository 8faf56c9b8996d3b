"""The contract, on every backend of our own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import ClassVar

import pytest

from tests.postgres import Server
from warmstart.memory.local import LocalBackend
from warmstart.memory.null import NullBackend
from warmstart.memory.postgres import PostgresBackend
from warmstart.testing.memory import MemoryBackendSuite


class TestNull(MemoryBackendSuite):
    keeps: ClassVar = False

    @pytest.fixture
    def backend(self) -> NullBackend:
        return NullBackend()


class TestLocal(MemoryBackendSuite):
    @pytest.fixture
    def backend(self, tmp_path: Path) -> Iterator[LocalBackend]:
        with closing(LocalBackend(tmp_path / "store.db")) as fresh:
            yield fresh


class TestPostgres(MemoryBackendSuite):
    @pytest.fixture
    def backend(self, postgres_url: str) -> Iterator[PostgresBackend]:
        with closing(PostgresBackend(postgres_url)) as fresh:
            yield fresh


class TestPostgresAsSuperuser(MemoryBackendSuite):
    @pytest.fixture
    def backend(self, postgres: Server) -> Iterator[PostgresBackend]:
        with postgres.database() as name, closing(PostgresBackend(postgres.url(name, "postgres"))) as fresh:
            yield fresh
