from __future__ import annotations

import pytest

from tests.memory.conftest import DATABASES
from warmstart.memory.search import Question, stems
from warmstart.memory.sql import _MAX_UNINDEXED


def test_texts_are_divided_into_stems(subtests):
    for text, words in (
        ("pref_python", ["pref", "python"]),
        ("camelCase", ["camelcas", "camel", "case"]),
        ("HTTPServer", ["httpserver", "http", "server"]),
        ("python3", ["python3", "python", "3"]),
        ("prefers running", ["prefer", "run"]),
        ("Résumé naïve", ["resum", "naiv"]),
        ("東京タワー", ["東京", "京タ", "タワ", "ワー"]),
        ("東", ["東"]),
        ("서울에", ["서울", "울에"]),
        ("Ｆｕｌｌ ﬁne", ["full", "fine"]),
        ("", []),
        ("?!_-", []),
        ("🦀", []),
    ):
        with subtests.test(text):
            assert stems(text) == words


def test_a_question_is_its_telling_words() -> None:
    assert list(Question("Which editor do I use for the editor?").stems) == ["editor", "us"]
    assert list(Question("who are you").stems) == ["who", "ar", "you"]
    assert list(Question("").stems) == []
    assert list(Question("東京タワー").stems) == ["東京", "京タ", "タワ", "ワー"]


def test_a_name_that_nothing_has_is_asked_for_by_its_parts() -> None:
    assert Question("python3").stems == ["python3", "python", "3"]
    assert list(Question("python3").resolve({"python3": 1, "python": 5})) == ["python3"]
    assert list(Question("python3").resolve({"python": 5})) == ["python"]


@pytest.mark.parametrize("database", DATABASES)
def test_a_rare_word_is_found_beside_many_new_entries(fresh, database: str) -> None:
    with fresh(database) as backend:
        backend.store(
            "mara", "harbour", "The ferry to the northern islands leaves at dawn, says the harbour master: zq17."
        )
        for number in range(_MAX_UNINDEXED):
            backend.store("mara", f"own {number}", f"value {number}")
        backend.query("mara", "value")  # which indexes them
        for number in range(_MAX_UNINDEXED):
            backend.store("mara", f"apple {number}", f"pear {number}")
        assert backend.query("mara", "value zq17")[0].key == "harbour"


@pytest.mark.parametrize("database", DATABASES)
def test_an_entry_without_a_vector_is_found_by_its_words(fresh, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with fresh(database) as backend:
        for number in range(10):
            backend.store("mara", f"own {number}", f"value w1n{number}")
        backend.query("mara", "value")  # which embeds them
        monkeypatch.setattr("warmstart.memory.semantic._UPDATE_SECONDS", -1.0)
        backend.store("mara", "own 10", "value w2n10")
        assert backend.query("mara", "value w2n10")[0].key == "own 10"


@pytest.mark.parametrize("database", DATABASES)
def test_the_nearest_of_many_are_compared_by_meaning(fresh, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warmstart.memory.semantic._UPDATE_SECONDS", 600.0)
    monkeypatch.setattr("warmstart.memory.semantic._COMPARED", 60)
    with fresh(database) as backend:
        for number in range(300):
            backend.store("mara", f"own {number}", f"value w1n{number}")
        backend.store("mara", "pet", "value w1n300")
        backend.query("mara", "value")  # which embeds it
        backend.store("mara", "pet", "A cat called Tinka, who is seven")
        assert backend.query("mara", "kitten")[0].key == "pet"
