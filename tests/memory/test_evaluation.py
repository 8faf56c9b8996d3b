"""The evaluation: nothing is left behind, a server is waited for, and failures are findings."""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import asdict
from pathlib import Path

import pytest

from warmstart.memory import LocalBackend, NullBackend, evaluation
from warmstart.memory.evaluation import evaluate_backend, labelled, measure_relevance, table_rows, throwaway_user
from warmstart.memory.search import stems
from warmstart.text.words import STOPWORDS


def test_the_questions_are_labelled_as_they_say() -> None:
    data = labelled()
    assert (len(data.questions), len({person for person, _ in data.memories})) == (200, 5)
    stopped = {stem for word in STOPWORDS for stem in stems(word)}
    for kind, person, text, key in data.questions:
        assert bool(key) == (kind not in evaluation.SILENT), text
        assert not key or (person, key) in data.memories, text
        if kind == "distant":
            memory = set(stems(f"{key} {data.memories[person, key][-1]}"))
            assert not memory & set(stems(text)) - stopped, text


def test_a_throwaway_user_is_gone_whatever_happens(tmp_path: Path) -> None:
    with closing(LocalBackend(tmp_path / "m.db")) as backend:
        with suppress(ZeroDivisionError), throwaway_user(backend) as user:
            backend.store(user, "k", "v")
            assert backend.users() == [user]
            raise ZeroDivisionError
        assert backend.users() == []


def test_an_evaluation_leaves_the_users_data_alone(tmp_path: Path) -> None:
    with closing(LocalBackend(tmp_path / "m.db")) as backend:
        backend.store("mara", "editor", "vim")
        found = evaluate_backend(backend)
        assert found.survival == {"writes": 200, "lost": 0, "doubled": 0}
        assert found.relevance is not None
        assert (found.relevance.leaked, found.relevance.stale) == (0, 0)
        assert (backend.users(), backend.list_keys("mara")) == (["mara"], ["editor"])


def test_what_a_backend_raises_is_a_note() -> None:
    class Broken(NullBackend):
        def retrieve(self, user_id: str, key: str) -> None:
            raise RuntimeError("no luck")

    found = evaluate_backend(Broken())
    assert any("RuntimeError: no luck" in note for note in found.notes)
    assert found.score == 0


def test_a_server_is_asked_when_it_has_derived(server, opened) -> None:
    server.pending = 3
    backend = opened(server.url)
    found = evaluate_backend(backend)
    assert server.pending == 0
    assert any("for the server to derive, which it finished" in note for note in found.notes)
    server.reap()
    assert server.entries() == []


def test_a_server_that_derives_too_long_is_asked_anyway(server, opened, monkeypatch) -> None:
    monkeypatch.setattr(evaluation, "DERIVATION_SECONDS", 0.5)
    monkeypatch.setattr(type(server), "pending", 9, raising=False)
    server.pending = 10**6
    found = evaluate_backend(opened(server.url))
    assert any("still deriving" in note for note in found.notes)


def store_labelled(backend: LocalBackend) -> None:
    for (person, key), values in labelled().memories.items():
        for value in values:
            backend.store(person, key, value)


def test_relevance_counts_what_must_not_come_back(tmp_path: Path) -> None:
    data = labelled()
    with closing(LocalBackend(tmp_path / "m.db")) as backend:
        store_labelled(backend)
        right = measure_relevance(lambda person, text: backend.query(person, text, 5), data)
        assert right.kinds["exact"]["first"] == 1.0
        others = measure_relevance(lambda person, text: backend.query("ines", text, 5), data)
        assert others.leaked > 10
    rows = table_rows([{**asdict(evaluate_backend(NullBackend())), "relevance": None}])
    assert rows[0] == ("score", "40")


def test_a_kind_without_questions_has_no_shares() -> None:
    data = labelled()
    data = data._replace(questions=[question for question in data.questions if question.kind == "exact"])
    found = measure_relevance(lambda person, text: [], data)
    assert found.kinds["exact"] == {"questions": 40, "first": 0, "among_five": 0}
    assert found.kinds["distant"] == found.kinds["other"] == {"questions": 0}


TARGETS = {  # share of silence; first and among five. As CPUs differ, one question less for wordllama, two for minilm
    "": (0.4, {"exact": (1.0, 1.0), "paraphrased": (0.73, 0.9), "superseded": (0.85, 0.95)}),
    "wordllama": (0.58, {"exact": (0.97, 0.97), "paraphrased": (0.73, 0.93), "superseded": (0.77, 0.9)}),
    "minilm": (
        0.61,
        {"exact": (0.95, 0.95), "paraphrased": (0.83, 0.93), "distant": (0.23, 0.4), "superseded": (0.82, 0.9)},
    ),
}


@pytest.mark.parametrize("embedder", ["", "wordllama", pytest.param("minilm", marks=pytest.mark.slow)])
def test_relevance_holds(embedder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, (silence, targets) = labelled(), TARGETS[embedder]
    monkeypatch.setattr("warmstart.memory.sql.installed_embedder", lambda: embedder)
    monkeypatch.setattr("warmstart.memory.semantic._UPDATE_SECONDS", 600.0)
    with closing(LocalBackend(tmp_path / "m.db")) as backend:
        store_labelled(backend)
        found = measure_relevance(lambda person, text: backend.query(person, text, 5), data)
    assert (found.leaked, found.stale) == (0, 0)
    assert sum(found.kinds[kind]["silent"] for kind in evaluation.SILENT) / 2 >= silence
    for kind, (first, five) in targets.items():
        assert found.kinds[kind]["first"] >= first, kind
        assert found.kinds[kind]["among_five"] >= five, kind
