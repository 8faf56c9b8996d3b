from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from tests.postgres import Server
from warmstart.errors import StoreUnreachable
from warmstart.memory.local import LocalBackend
from warmstart.memory.postgres import PostgresBackend

_WORDS = """
tide harbour boat rope anchor sail wind chart lamp buoy current depth shoal reef mast deck hull keel oar
editor python colour shell port database review commit branch release
"""
WORDS = _WORDS.split()


def test_both_databases_answer_alike(postgres_url: str, tmp_path: Path) -> None:
    choose = random.Random(6)
    with closing(LocalBackend(tmp_path / "m.db")) as local, closing(PostgresBackend(postgres_url)) as shared:
        for number in range(150):
            key = f"{choose.choice(WORDS)}_{choose.choice(WORDS)}_{number % 90}"
            value = " ".join(choose.choices(WORDS, k=6))
            for backend in (local, shared):
                backend.store("mara", key, value)
        for _ in range(60):
            question = " ".join(choose.choices(WORDS, k=choose.randint(1, 4)))[: choose.randint(3, 40)]
            asked = [[entry.key for entry in backend.query("mara", question)] for backend in (local, shared)]
            assert asked[0] == asked[1], question
        assert local.list_keys("mara") == shared.list_keys("mara")


@pytest.fixture
def tenants(postgres: Server) -> Iterator[str]:
    """A database that `memory_ann` and `memory_ben` may use."""
    with postgres.database(empty=True) as name:
        with closing(PostgresBackend(postgres.url(name))) as owner:
            owner.store("mara", "pref_editor", "vim quokka")
        for role in ("memory_ann", "memory_ben"):
            postgres.run(f"DROP ROLE IF EXISTS {role}")
            postgres.run(f"CREATE ROLE {role} LOGIN")
        try:
            everything = "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO memory_ann, memory_ben"
            postgres.run(everything, name)
            yield name
        finally:
            postgres.run("DROP OWNED BY memory_ann, memory_ben", name)
            postgres.run("DROP ROLE memory_ann, memory_ben")


def test_tenants_never_see_each_other(postgres: Server, tenants: str) -> None:
    with (
        closing(PostgresBackend(postgres.url(tenants, "memory_ann"))) as ann,
        closing(PostgresBackend(postgres.url(tenants, "memory_ben"))) as ben,
    ):
        ann.store("mara", "pref_editor", "emacs")
        assert ben.query("mara", "editor") == ann.query("mara", "quokka") == []
        assert ben.retrieve("mara", "pref_editor") is None
        assert ben.users() == []
        ben.store("mara", "pref_editor", "nano")
        assert ben.delete("mara", "pref_editor")
        assert [entry.value for entry in ann.query("mara", "editor")] == ["emacs"]


def test_no_statement_shows_another_tenants_memory(postgres: Server, tenants: str) -> None:
    """With raw SQL, whatever role and table: not even through the index, or with the tenant's name given."""
    tables = ("memory_entries", "memory_versions", "memory_tombstones", "memory_vectors", "memory_index")
    with closing(PostgresBackend(postgres.url(tenants, "memory_ann"))) as ann:
        ann.store("mara", "pref_editor", "vim")
        ann.store("mara", "pref_editor", "emacs quokka")
        ann.store("mara", "gone", "value")
        ann.delete("mara", "gone")
        ann._update_index("mara")
        assert ann.query("mara", "quokka")
    assert postgres.run("SELECT count(*) FROM memory_entries", tenants) == [(2,)]  # as superuser
    with psycopg.connect(postgres.url(tenants, "memory_ben"), autocommit=True) as ben:
        for table in tables:
            assert ben.execute(f"SELECT count(*) FROM {table}".encode()).fetchone() == (0,), table
            assert ben.execute(f"DELETE FROM {table}".encode()).rowcount == 0
        ben.execute("SET warmstart.tenant = 'memory_ann'")
        assert ben.execute("SELECT count(*) FROM memory_entries").fetchone() == (0,)
        found = "SELECT count(*) FROM warmstart_memory_find(ARRAY['quokka'], '{}', 10)"
        assert ben.execute(found.encode()).fetchone() == (0,)
        ben.execute("SELECT warmstart_memory_remove(ARRAY[1, 2, 3]::bigint[])")
        columns = "tenant, user_id, key, place, value, metadata, created_at, updated_at, since"
        forged = "'memory_ann', 'mara', 'k', '', 'v', '', 0, 0, 0"
        with pytest.raises(psycopg.Error):
            ben.execute(f"INSERT INTO memory_entries ({columns}) VALUES ({forged})".encode())
    with closing(PostgresBackend(postgres.url(tenants, "memory_ann"))) as ann:
        assert [entry.value for entry in ann.query("mara", "quokka")] == ["emacs quokka"]


def test_a_server_that_is_away_is_not_available() -> None:
    assert PostgresBackend("postgresql://nobody@127.0.0.1:1/none").is_available() is False


def test_a_server_that_was_started_again_is_asked_again(postgres: Server, postgres_url: str) -> None:
    with closing(PostgresBackend(postgres_url)) as backend:
        assert backend.store("mara", "pref_editor", "Helix")
        with postgres.stopped(), pytest.raises(StoreUnreachable):
            backend.store("mara", "pref_shell", "fish")
        entry = backend.retrieve("mara", "pref_editor")
        assert entry is not None
        assert entry.value == "Helix"
        assert backend.store("mara", "pref_shell", "fish")
        assert backend.list_keys("mara") == ["pref_shell", "pref_editor"]
