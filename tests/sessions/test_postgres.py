from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.postgres import Server
from warmstart.sessions.postgres import PostgresSessionStore
from warmstart.testing.stores import SessionStoreSuite, said, session


class TestContract(SessionStoreSuite):
    @pytest.fixture
    def store(self, postgres_url: str) -> Iterator[PostgresSessionStore]:
        with closing(PostgresSessionStore(postgres_url)) as fresh:
            yield fresh
            assert fresh.integrity() == []


class TestContractAsSuperuser(SessionStoreSuite):
    @pytest.fixture
    def store(self, postgres: Server) -> Iterator[PostgresSessionStore]:
        with (
            postgres.database() as name,
            closing(PostgresSessionStore(postgres.url(name, "postgres"))) as fresh,
        ):
            yield fresh
            assert fresh.integrity() == []


def test_of_very_many_matches_the_newest_are_ranked(postgres_url: str) -> None:
    with closing(PostgresSessionStore(postgres_url)) as store:
        store.append(session(), [said("old", "tide tide tide")])
        store.append(session(), [said(f"m{n}", f"the tide at noon of day {n}") for n in range(600)])
        assert "old" not in {match.message_id for match in store.search("tide")}
        assert store.search("tide", limit=1000)[0].message_id == "old"
        assert len(store.search("tide", limit=1000)) == 601
        assert [match.message_id for match in store.search("day 7 noon")] == ["m7"]
