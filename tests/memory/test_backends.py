"""The contract, on every backend of our own: test by test on each kind, in one test on each variant."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import ClassVar

import pytest

from tests.memory.suite import run_suite
from tests.postgres import Server
from warmstart.memory.backend import NullBackend
from warmstart.memory.local import LocalBackend
from warmstart.memory.postgres import PostgresBackend
from warmstart.testing.memory import MemoryBackendSuite


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


class TestWithoutVectors(TestLocal):
    @pytest.fixture(autouse=True)
    def _no_vectors(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("warmstart.memory.sql.installed_embedder", str)


@pytest.mark.slow
def test_the_suite_passes_as_superuser(postgres: Server, subtests: pytest.Subtests) -> None:
    @contextmanager
    def fresh() -> Iterator[PostgresBackend]:
        with postgres.database() as name, closing(PostgresBackend(postgres.url(name, "postgres"))) as backend:
            yield backend

    run_suite(subtests, fresh)


class NullSuite(MemoryBackendSuite):
    keeps: ClassVar = False


def test_the_suite_passes_where_nothing_is_stored(subtests: pytest.Subtests) -> None:
    run_suite(subtests, lambda: closing(NullBackend()), NullSuite)
