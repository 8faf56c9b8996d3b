from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.postgres import Server
from warmstart.sessions.sql_store import PostgresSessionStore
from warmstart.testing.stores import SessionStoreSuite


class TestContract(SessionStoreSuite):
    @pytest.fixture
    def store(self, postgres_url: str) -> Iterator[PostgresSessionStore]:
        with closing(PostgresSessionStore(postgres_url)) as fresh:
            yield fresh
            assert fresh.database.integrity() == []


@pytest.mark.slow
def test_a_superuser_passes_the_store_suite(postgres: Server, subtests: pytest.Subtests) -> None:
    suite = SessionStoreSuite()
    for name in filter(lambda name: name.startswith("test_"), dir(suite)):
        with (
            subtests.test(name),
            postgres.database() as database,
            closing(PostgresSessionStore(postgres.url(database, "postgres"))) as store,
        ):
            getattr(suite, name)(store)
            assert store.database.integrity() == []
