from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

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


def test_tenants_never_see_each_other(postgres: Server) -> None:
    with postgres.database(empty=True) as name:
        with closing(PostgresBackend(postgres.url(name))) as owner:
            owner.store("mara", "pref_editor", "vim quokka")
        for role in ("memory_ann", "memory_ben"):
            postgres.run(f"DROP ROLE IF EXISTS {role}")
            postgres.run(f"CREATE ROLE {role} LOGIN")
        try:
            postgres.run(
                "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO memory_ann, memory_ben", name
            )
            with (
                closing(PostgresBackend(postgres.url(name, "memory_ann"))) as ann,
                closing(PostgresBackend(postgres.url(name, "memory_ben"))) as ben,
            ):
                ann.store("mara", "pref_editor", "emacs")
                assert ben.query("mara", "editor") == ann.query("mara", "quokka") == []
                assert ben.retrieve("mara", "pref_editor") is None
                assert ben.users() == []
                ben.store("mara", "pref_editor", "nano")
                assert ben.delete("mara", "pref_editor")
                assert [entry.value for entry in ann.query("mara", "editor")] == ["emacs"]
        finally:
            postgres.run("DROP OWNED BY memory_ann, memory_ben", name)
            postgres.run("DROP ROLE memory_ann, memory_ben")


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
