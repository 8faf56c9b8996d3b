"""What every vector store does, and the embedders that need no service."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from tests.recall.stores import opened
from warmstart import Settings
from warmstart.embedding import open_vectors
from warmstart.embedding.embedders import MiniLMEmbedder, WordLlamaEmbedder, open_embedder
from warmstart.embedding.vectors import Model, Row, SQLiteVectors, VectorStore, quantize
from warmstart.errors import ConfigError, StoreError
from warmstart.recall import Index

MODEL = Model("toy", "toy", 64)


@pytest.fixture(params=("sqlite", "postgres"))
def vectors(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[VectorStore]:
    url = str(tmp_path / "store.db") if request.param == "sqlite" else str(request.getfixturevalue("postgres_url"))
    with closing(opened(url)) as store:
        Index(store)  # creates the tables
        vectors = open_vectors(store.database)
        vectors.reset(MODEL)
        yield vectors
        vectors.close()


@pytest.fixture(scope="module")
def wordllama() -> WordLlamaEmbedder:
    return WordLlamaEmbedder()


def rows(count: int, groups: int = 3) -> list[Row]:
    made = quantize(np.random.default_rng(1).standard_normal((count, 64)).astype(np.float32))
    return [Row(1000 + number, number % groups, 7 * number, made[number]) for number in range(count)]


def distances(stored: list[Row], vector: np.ndarray) -> dict[int, int]:
    return {row.key: int(((row.vector > 0) != (vector > 0)).sum()) for row in stored}


def test_what_is_written_is_read(vectors):
    stored = rows(9)
    vectors.write(MODEL, stored, {0: 11, 1: 12}, (), ())
    assert vectors.model() == MODEL
    assert vectors.stamps() == {0: 11, 1: 12}
    assert vectors.groups() == {0, 1, 2}
    assert vectors.hashes(0) == {1000: 0, 1003: 21, 1006: 42}
    assert np.array_equal(vectors.by_hash([42, 43])[42], stored[6].vector)


def test_cosines_are_those_that_numpy_finds(vectors):
    stored = rows(9)
    vectors.write(MODEL, stored, {}, (), ())
    direction = np.linspace(-1, 1, 64, dtype=np.float32)
    direction /= np.linalg.norm(direction)
    expected = {}
    for row in (stored[1], stored[3]):
        expected[row.key] = float(row.vector @ direction / np.linalg.norm(row.vector.astype(np.float32)))
    assert vectors.cosines([1003, 1001, 9999], direction) == pytest.approx(expected, abs=1e-5)
    assert vectors.cosines([9999], direction) == {}
    assert vectors.cosines([1003], np.ones(128, np.float32)) == {}  # of another model


def test_rows_are_replaced_and_deleted(vectors):
    first, *others = rows(9)
    vectors.write(MODEL, [first, *others], {0: 1, 1: 1, 2: 1}, (), ())
    vectors.write(MODEL, [first._replace(hash=5, vector=others[0].vector)], {0: 2}, [1003], [2])
    assert vectors.hashes(0) == {1000: 5, 1006: 42}
    assert vectors.stamps() == {0: 2, 1: 1}
    near = vectors.nearest(others[0].vector.astype(np.float32), None, 100, None)
    assert set(near.tolist()) == {1000, 1001, 1004, 1006, 1007}
    assert set(near[:2].tolist()) == {1000, 1001}


def test_the_nearest_are_those_that_numpy_finds(vectors):
    stored = rows(300, groups=10)
    vectors.write(MODEL, stored, {}, (), ())
    query = stored[7].vector.astype(np.float32)
    expected = distances(stored, query)
    near = vectors.nearest(query, None, 20, None)
    assert [expected[key] for key in near.tolist()] == sorted(expected.values())[:20]
    some = vectors.nearest(query, np.array([0, 4, 99]), 500, None)
    assert set(some.tolist()) == {row.key for row in stored if row.group in (0, 4)}
    assert len(vectors.nearest(query, np.array([99]), 10, None)) == 0


def test_an_empty_vector_is_never_near(vectors):
    empty = Row(1, 1, 1, np.zeros(64, np.int8))
    vectors.write(MODEL, [empty, *rows(3)], {}, (), ())
    assert 1 not in vectors.nearest(np.ones(64, np.float32), None, 10, None).tolist()


def test_vectors_of_two_models_never_mix(vectors):
    vectors.write(MODEL, rows(3), {0: 1}, (), ())
    vectors.reset(Model("large", "large", 128))
    assert vectors.groups() == set()
    with pytest.raises(StoreError, match="vectors of large instead of toy"):
        vectors.write(MODEL, rows(3), {}, (), ())


def test_a_file_of_another_program_is_left_alone(tmp_path):
    path = tmp_path / "store.vectors.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE recipes (id)")
    before = path.read_bytes()
    with pytest.raises(StoreError, match="another program"):
        SQLiteVectors(path)
    assert path.read_bytes()[100:] == before[100:]


def test_vectors_of_an_earlier_version_are_dropped(tmp_path):
    path = tmp_path / "store.vectors.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        for table in ("made", "parts", "blocks"):
            connection.execute(f"CREATE TABLE {table} (id)")
        connection.execute("PRAGMA user_version = 1")
    with closing(SQLiteVectors(path)) as vectors:
        assert vectors.model() is None
        assert vectors.check() == ""


def test_quantizing_keeps_the_direction():
    vectors = np.random.default_rng(1).standard_normal((50, 256)).astype(np.float32) * 1000
    small = quantize(vectors).astype(np.float32)
    cosine = (vectors * small).sum(axis=1) / np.linalg.norm(vectors, axis=1) / np.linalg.norm(small, axis=1)
    assert cosine.min() > 0.999
    assert not quantize(np.zeros((1, 8), np.float32)).any()


def test_wordllama_gives_a_row_for_each_text(wordllama):
    vectors = wordllama.embed(["a dog barks", "", "a dog barks", "x " * 100_000])
    assert vectors.shape == (4, 256)
    assert not vectors[1].any()
    assert np.array_equal(vectors[0], vectors[2])
    assert wordllama.embed([]).shape == (0, 256)


def test_wordllama_is_additive(wordllama):
    whole = wordllama.embed(["the dog chewed the couch"])[0]
    parts = wordllama.embed(["the", "dog", "chewed", "the", "couch"]).sum(axis=0)
    assert whole @ parts / np.linalg.norm(whole) / np.linalg.norm(parts) > 0.98


def test_an_unknown_embedder_is_refused(tmp_path):
    settings = Settings(home=tmp_path, store_path=tmp_path / "s.db")
    for name in ("nonsense", "openai:", "sentence-transformers:", ""):
        with pytest.raises(ConfigError, match="unknown embedder"):
            open_embedder(name, settings)
    with pytest.raises(ConfigError, match=r"recall\.endpoint"):
        open_embedder("openai:some-model", settings)


def test_minilm_finds_what_shares_no_word_and_gives_a_text_the_same_vector_in_any_company() -> None:
    minilm = MiniLMEmbedder()
    question, answer, other = minilm.embed(["float or decimal for money", "Amounts are integers of a cent", "No calls"])
    assert question @ answer > 1.5 * (question @ other)
    assert (minilm.embed(["No calls"])[0] == other).all()
    assert not minilm.embed([" "]).any()
    assert minilm.embed([]).shape == (0, minilm.dimensions)
