"""Search by semantic: what is embedded when, and what vectors add to words."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from math import inf
from pathlib import Path

import numpy as np
import pytest

from tests.recall.stores import NOW, keep, opened, turns
from warmstart import Evidence, Message, Settings, ToolResult
from warmstart.embedding import open_vectors
from warmstart.embedding.embedders import Embedder, Matrix, WordLlamaEmbedder
from warmstart.errors import ConfigError, EmbedderError, StoreError
from warmstart.recall.index import Index
from warmstart.recall.recall import Recall
from warmstart.recall.search import Found, Scope
from warmstart.recall.semantic import SemanticIndex, create_semantic_index, delete_old_vectors, open_semantic_index


class Toy:
    """A small embedder that remembers what it was given, and stops working when told to."""

    additive = False
    local = True
    floor = -1.0

    def __init__(self, name: str = "toy", dimensions: int = 64) -> None:
        self.name = name
        self.dimensions = dimensions
        self.given: list[str] = []
        self.most = 10**9

    def embed(self, texts: Sequence[str], timeout: float | None = None) -> Matrix:
        if len(self.given) + len(texts) > self.most:
            raise EmbedderError("the toy is broken")
        self.given += texts
        rows = [np.random.default_rng(zlib.crc32(text.encode())).standard_normal(self.dimensions) for text in texts]
        return np.array(rows, np.float32).reshape(len(texts), self.dimensions)


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A file: what differs between databases is tested with the vector stores."""
    return str(tmp_path / "store.db")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, store_path=tmp_path / "store.db")


@pytest.fixture(scope="module")
def wordllama() -> WordLlamaEmbedder:
    return WordLlamaEmbedder()


@pytest.fixture
def semantic(store, settings, wordllama) -> Iterator[SemanticIndex]:
    with create_semantic_index(store, settings, wordllama) as made:
        yield made


def hybrid(store, semantic: SemanticIndex) -> Recall:
    recall = Recall(store, clock=lambda: NOW, semantic=semantic)
    recall.update()
    semantic.update()
    return recall


def natives(found: list[Evidence]) -> list[str]:
    return list(dict.fromkeys(each.native_id for each in found))


def embedded(store, settings, embedder: Embedder) -> int:
    """How many texts it takes to bring the vectors up to date."""
    Recall(store).update()
    with create_semantic_index(store, settings, embedder) as made:
        return made.update()


# -- what it finds


def test_other_words_for_the_same_thing_are_found(store, semantic):
    keep(store, "dog", "my puppy chewed the couch again", "Puppies need toys.")
    keep(store, "tax", "the invoice is due on friday", "Pay the invoice before then.")
    keep(store, "car", "the engine of the truck stalls", "Check its fuel pump.")
    recall = hybrid(store, semantic)
    assert Recall(store).search("dog destroyed furniture") == []
    found = recall.search("dog destroyed furniture", limit=1)
    assert natives(found) == ["dog"]
    assert "puppy chewed" in found[0].text
    assert found[0].components["vectors"] > 0


def test_a_turn_is_as_near_as_its_nearest_message(store, semantic):
    keep(store, "dog", "my puppy chewed the couch again", "The invoice is due on friday, and the tax after it. " * 30)
    keep(store, "tax", "the invoice is due on friday", "Pay the invoice before then.")
    keep(store, "mean", "pets and homes", "Some people have pets at home, and then the invoice is due on friday. " * 30)
    assert natives(hybrid(store, semantic).search("dog destroyed furniture"))[0] == "dog"


def test_words_are_not_replaced(store, semantic):
    keep(store, "exact", "what does ECONNREFUSED in dock_gate.py mean?", "Nobody listens there.")
    for number in range(30):
        keep(store, f"other{number}", f"the connection to server {number} was refused", "Start the server first.")
    recall = hybrid(store, semantic)
    assert natives(recall.search("ECONNREFUSED"))[0] == "exact"
    assert natives(recall.search("dock_gate.py"))[0] == "exact"


def test_vectors_stay_inside_the_project(store, semantic):
    for number in range(20):
        keep(store, f"a{number}", f"puppy {number} chewed the couch", project="/src/a", days=number)
        keep(store, f"b{number}", f"invoice {number} is due", project="/src/b", days=number)
    recall = hybrid(store, semantic)
    for question in ("dogs ruin furniture", "payment overdue"):
        assert {each.project for each in recall.search(question, project="/src/b", limit=50)} <= {"/src/b"}
        assert {each.project for each in recall.search(question, project="/src/a", limit=50)} <= {"/src/a"}
    assert recall.search("dogs ruin furniture", project="/src/a")
    assert recall.search("payment overdue", project="/src/b")


def test_a_scope_of_projects_brings_nothing_from_others(store, semantic):
    keep(store, "mine", "my puppy chewed the couch", project="/src/a")
    keep(store, "theirs", "their puppy chewed the sofa", project="/src/b")
    hybrid(store, semantic)
    found = Found({}, 0)
    semantic.add(found, "dog destroyed furniture", Scope(projects=["/src/a"]), inf)
    mine = store.fetch("SELECT pk FROM sessions WHERE native_id = 'mine'")
    assert [(turn.session,) for turn in found.turns] == mine


def test_injected_text_and_summaries_have_no_vectors(store, semantic):
    said = turns("s", ["my puppy chewed the couch"])
    injected = Message(native_id="i", role="user", text="the dog destroyed furniture", injected=True)
    keep(store, "s", *said, injected)
    found = hybrid(store, semantic).search("dog destroyed furniture", limit=10)
    assert [each.text for each in found] == ["my puppy chewed the couch"]


def test_whatever_is_asked_there_is_an_answer(store, semantic):
    keep(store, "dog", "my puppy chewed the couch again", "Puppies need toys.")
    recall = hybrid(store, semantic)
    for question in ("", " ", "?", "🐶", "犬", '"', "a" * 100_000, "dog " * 30_000, "NOT AND OR", "\0", "--"):
        assert isinstance(recall.search(question), list)


def test_without_time_for_vectors_words_are_searched(store, settings):
    class Slow(Toy):
        def embed(self, texts: Sequence[str], timeout: float | None = None) -> Matrix:
            if timeout is not None:
                raise EmbedderError("too slow")
            return super().embed(texts)

    keep(store, "dog", "my puppy chewed the couch again")
    with create_semantic_index(store, settings, Slow()) as slow:
        recall = hybrid(store, slow)
        assert natives(recall.search("puppy", deadline_ms=60_000)) == ["dog"]


def test_what_only_a_tool_said_is_found_beside_what_is_near(store, semantic):
    output = Message(
        native_id="o", role="tool", tool_results=(ToolResult(call_id="c", outcome="error", text="pod gate: OOMKilled"),)
    )
    keep(store, "pod", "why does the deployment fail?", output, "It needs more memory.")
    for number in range(10):
        keep(store, f"other{number}", f"the module {number} was refactored", "All tests pass.")
    recall = hybrid(store, semantic)
    for question in ("OOMKilled", "oomkilled module refactored tests"):
        found = {each.native_id: each for each in recall.search(question, limit=5)}
        assert "OOMKilled" in found["pod"].text, question
        assert all(each.score > 0 for each in found.values())


def test_nothing_is_near_what_has_no_words(store, semantic):
    keep(store, "dog", "my puppy chewed the couch again", "Puppies need toys.")
    recall = hybrid(store, semantic)
    for question in ("", "?", "...", "\n", "😀", '" "', "-- ;"):
        assert recall.search(question) == []


def test_words_decide_which_passage_is_shown(store, semantic):
    turns_of = [f"we talked about ships and boats {number}" for number in range(30)]
    keep(store, "ships", *turns_of, "the anchor code is 4711", *turns_of)
    keep(store, "cars", "cars and engines")
    for recall in (Recall(store, clock=lambda: NOW), hybrid(store, semantic)):
        assert recall.search("anchor code", limit=1)[0].text.startswith("the anchor code is 4711")


# -- what is kept


def test_nothing_is_embedded_twice(store, settings):
    toy = Toy()
    keep(store, "one", "first", "second")
    keep(store, "two", "first", "third")
    assert embedded(store, settings, toy) == 3
    assert sorted(toy.given) == ["first", "second", "third"]
    assert embedded(store, settings, toy) == 0
    keep(store, "one", "first", "second", "fourth")
    assert embedded(store, settings, toy) == 1
    assert toy.given[-1] == "fourth"


def test_a_rebuilt_index_keeps_its_vectors(store, settings):
    toy = Toy()
    for number in range(30):
        keep(store, f"s{number}", *(f"text {number} {place}" for place in range(20)))
    assert embedded(store, settings, toy) == 600
    Index(store).rebuild()
    assert embedded(store, settings, toy) == 0
    assert len(toy.given) == 600


def test_a_run_that_was_interrupted_goes_on_where_it_was(store, settings):
    toy = Toy()
    for number in range(60):
        keep(store, f"s{number}", *(f"text {number} {place}" for place in range(60)))
    toy.most = 2500
    with pytest.raises(EmbedderError):
        embedded(store, settings, toy)
    done = len(toy.given)
    assert 1000 <= done <= 2500
    toy.most = 10**9
    assert embedded(store, settings, toy) == 3600 - done
    assert len(toy.given) == len(set(toy.given)) == 3600


def test_a_long_session_that_was_interrupted_goes_on_inside(store, settings):
    toy = Toy()
    keep(store, "long", *(f"text {place}" for place in range(2560)))
    toy.most = 1500
    with pytest.raises(EmbedderError):
        embedded(store, settings, toy)
    done = len(toy.given)
    toy.most = 10**9
    assert done > 1000
    assert embedded(store, settings, toy) == 2560 - done


def test_vectors_of_two_embedders_never_mix(store, settings):
    keep(store, "one", "first", "second")
    keep(store, "two", "third")
    assert embedded(store, settings, Toy("small", 64)) == 3
    broken = Toy("large", 128)
    broken.most = 0
    with pytest.raises(EmbedderError):
        embedded(store, settings, broken)
    index = open_vectors(store.database)
    assert index.model().name == "large"
    assert index.stamps() == {}
    assert index.groups() == set()
    index.close()
    assert embedded(store, settings, Toy("large", 128)) == 3
    index = open_vectors(store.database)
    keys = [key for group in index.groups() for key in index.hashes(group)]
    assert len(index.cosines(keys, np.ones(128, np.float32))) == 3
    index.close()


def test_vectors_of_a_newer_embedder_are_not_overwritten(store, settings, url):
    keep(store, "one", "first", "second")
    Recall(store).update()
    with (
        create_semantic_index(store, settings, Toy("small", 64)) as small,
        create_semantic_index(store, settings, Toy("large", 128)),
    ):
        with pytest.raises(StoreError, match="large"):
            small.update()
        assert Recall(store, semantic=small).search("first")
    assert embedded(store, settings, Toy("large", 128)) == 2


def test_a_session_that_was_embedded_in_part_can_be_forgotten(store, settings):
    toy = Toy()
    long = keep(store, "long", *(f"text {place}" for place in range(2560)))
    toy.most = 1500
    with pytest.raises(EmbedderError):
        embedded(store, settings, toy)
    store.delete(long.id)
    delete_old_vectors(store)
    index = open_vectors(store.database)
    assert index.groups() == set()
    index.close()


def test_another_process_may_index_in_the_middle_of_a_search(store, settings, url, monkeypatch):
    toy = Toy()
    keep(store, "one", "first", "second")
    embedded(store, settings, toy)
    with create_semantic_index(store, settings, toy) as semantic, closing(opened(url)) as other:
        nearest = semantic._vectors.nearest

        def late(*arguments):
            Index(other).rebuild()
            embedded(other, settings, toy)
            return nearest(*arguments)

        monkeypatch.setattr(semantic._vectors, "nearest", late)
        assert isinstance(Recall(store, semantic=semantic).search("first"), list)


def test_a_service_is_not_asked_where_nothing_is_new(store, settings):
    class Counting(Toy):
        asked = 0

        @property
        def dimensions(self) -> int:
            self.asked += 1
            return 64

        @dimensions.setter
        def dimensions(self, value: int) -> None: ...

    keep(store, "one", "first", "second")
    counting = Counting()
    Recall(store).update()
    with create_semantic_index(store, settings, counting) as made:
        made.update()
        before = counting.asked
        assert made.update() == 0
        assert counting.asked == before


def test_vectors_of_deleted_sessions_are_deleted(store, settings):
    toy = Toy()
    kept = [keep(store, f"s{number}", f"text {number}", f"answer {number}") for number in range(3)]
    embedded(store, settings, toy)
    store.delete(kept[1].id)
    delete_old_vectors(store)
    index = open_vectors(store.database)
    assert len(index.stamps()) == 2
    everything = index.nearest(np.ones(64, np.float32), None, 100, None)
    assert len(everything) == 4
    index.close()
    assert embedded(store, settings, toy) == 0


def test_a_message_that_is_gone_is_no_longer_near(store, settings):
    toy = Toy()
    keep(store, "one", "first", "second", "third")
    embedded(store, settings, toy)
    with store.database.transaction() as connection:
        connection.execute("UPDATE messages SET flags = 2 WHERE native_id = 'one/1'")
        connection.execute("UPDATE sessions SET revision = revision + 1")
    assert embedded(store, settings, toy) == 0
    index = open_vectors(store.database)
    (group,) = index.groups()
    first, third = (row[0] for row in store.fetch("SELECT pk FROM messages WHERE flags = 0 ORDER BY seq"))
    assert index.hashes(group).keys() == {first, third}
    assert len(index.nearest(np.ones(64, np.float32), None, 10, None)) == 2
    index.close()


def test_vectors_are_opened_with_the_embedder_that_made_them(store, settings):
    assert open_semantic_index(store, settings) is None
    create_semantic_index(store, settings, "wordllama").close()
    with open_semantic_index(store, settings) as opened:
        assert opened.embedder.name == "wordllama"
    create_semantic_index(store, settings, Toy()).close()
    with pytest.raises(ConfigError, match="unknown embedder 'toy'"):
        open_semantic_index(store, settings)
