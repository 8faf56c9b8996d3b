from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from warmstart.sessions.postgres import PostgresSessionStore
from warmstart.testing.stores import SessionStoreSuite


class TestContract(SessionStoreSuite):
    @pytest.fixture
    def store(self, postgres_url: str) -> Iterator[PostgresSessionStore]:
        with closing(PostgresSessionStore(postgres_url)) as fresh:
            yield fresh
            assert fresh.integrity() == []
