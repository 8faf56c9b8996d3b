"""The index keeps up with the sessions, whatever happens to them."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import closing

import pytest

from tests.recall.stores import NOW, keep, opened, turns
from warmstart import Message
from warmstart.recall import index as upkeep
from warmstart.recall.recall import Recall
from warmstart.sessions.sql_store import SQLiteSessionStore, SQLSessionStore


def natives(recall: Recall, question: str, **options: object) -> list[str]:
    return [each.native_id for each in recall.search(question, **options)]  # type: ignore[arg-type]


def documents(store: SQLSessionStore) -> tuple[int, int]:
    row = store.database.connection.execute("SELECT documents, deleted FROM recall_state").fetchone()
    return row[0], row[1]


def test_only_what_changed_is_indexed(store, recall):
    keep(store, "one", "the tide table", "is wrong")
    keep(store, "two", "the weather")
    told: list[tuple[int, int]] = []
    assert recall.update(lambda *progress: told.append(progress)) == 2
    assert told[-1] == (2, 2)
    assert recall.update() == 0
    keep(store, "two", "the weather", "is fine")
    assert recall.update() == 1
    assert documents(store) == (4, 0)


def test_a_session_that_cannot_be_read_stays_as_it_was(store, recall, monkeypatch):
    keep(store, "bad", "the tide table", "half of the drawb")
    keep(store, "good", "the tide gauge")
    recall.update()
    index_terms = upkeep.index_terms

    def fail(text: str) -> tuple[int, set[str]]:
        if "gazebo" in text:
            raise ValueError(text)
        return index_terms(text)

    monkeypatch.setattr(upkeep, "index_terms", fail)
    store.append(keep(store, "bad"), turns("bad", ["the tide table", "the moat and the gazebo", "thanks"])[1:])
    keep(store, "good", "the tide gauge", "is new")
    assert recall.update() == 2
    assert documents(store) == (4, 0)
    assert natives(recall, "new") == ["good"]
    assert set(natives(recall, "tide")) == {"bad", "good"}


def test_a_session_that_grows_is_found_by_what_is_new(store, recall):
    texts = ["the tide table", "is wrong"]
    for word in ("drawbridge", "gazebo", "moat"):
        texts.append(f"now the {word}")
        keep(store, "one", *texts)
        assert natives(recall, word) == ["one"]
    assert documents(store) == (5, 0)


def test_a_message_that_was_replaced_is_no_longer_found(store, recall):
    keep(store, "one", "the tide table", "half of the drawb", "thanks")
    assert natives(recall, "drawb") == ["one"]
    store.append(keep(store, "one"), turns("one", ["the tide table", "all of the gazebo", "thanks"])[1:2])
    assert natives(recall, "drawb") == []
    assert natives(recall, "gazebo") == ["one"]
    assert documents(store) == (3, 1)


def test_a_deleted_session_is_gone_at_once(store, recall):
    kept = keep(store, "one", "the drawbridge")
    keep(store, "two", "the drawbridge")
    assert len(natives(recall, "drawbridge")) == 2
    store.delete(kept.id)
    assert natives(recall, "drawbridge") == ["two"]


def test_a_scrub_with_nothing_to_remove_leaves_the_index_alone(store, recall):
    keep(store, "one", "the tide table")
    recall.update()
    store.scrub()
    assert recall.update() == 0
    assert natives(recall, "tide") == ["one"]


def test_the_index_is_rebuilt_when_a_tenth_is_deleted(store, recall, monkeypatch):
    monkeypatch.setattr(upkeep, "MIN_DELETED", 10)
    for number in range(30):
        keep(store, f"s{number}", "the tide table", f"number{number}")
    recall.update()
    for number in range(10):
        store.delete(keep(store, f"s{number}").id)
    assert documents(store) == (40, 20)
    keep(store, "new", "the drawbridge")
    recall.update()
    assert documents(store) == (41, 0)
    assert len(natives(recall, "tide", limit=50)) == 20
    assert natives(recall, "number3") == []
    assert natives(recall, "drawbridge") == ["new"]


def test_the_index_can_be_rebuilt(store, recall):
    keep(store, "one", "the tide table")
    assert natives(recall, "tide") == ["one"]
    assert recall.rebuild() == 1
    assert natives(recall, "tide") == ["one"]


def test_a_very_long_session_has_several_parts(store, recall, monkeypatch):
    monkeypatch.setattr(upkeep, "MAX_POSITIONS", 10)
    keep(store, "long", *[f"word{number} and the tide" for number in range(35)])
    keep(store, "short", "the tide")
    for number in (0, 9, 10, 34):
        assert natives(recall, f"word{number}") == ["long"]
    assert set(natives(recall, "tide", limit=10)) == {"long", "short"}
    parts = store.database.connection.execute("SELECT count(*) FROM recall_parts").fetchone()[0]
    assert parts == 5


def test_words_that_came_after_the_last_count_are_found(store, recall):
    for number in range(40):
        keep(store, f"s{number}", "the tide table", "is wrong")
    recall.update()
    keep(store, "new", "the drawbridge")
    assert natives(recall, "drawbridge") == ["new"]


def test_sessions_that_were_there_before_recall_are_indexed(tmp_path):
    with closing(SQLiteSessionStore(tmp_path / "old.db")) as store:
        keep(store, "one", "the tide table")
        assert natives(Recall(store), "tide") == ["one"]


def test_another_process_s_writes_are_seen(store, recall, url):
    keep(store, "one", "the tide table")
    assert natives(recall, "tide") == ["one"]
    with closing(opened(url)) as other:
        keep(other, "two", "the tide table")
        Recall(other).update()
        other.delete(keep(other, "one").id)
    assert natives(recall, "tide") == ["two"]


@pytest.mark.parametrize("processes", [3, pytest.param(8, marks=pytest.mark.slow)])
def test_several_processes_update_at_once(store, url, processes):
    for number in range(60):
        keep(store, f"s{number}", *[f"word{number} the tide"] * 1, *[f"more {place}" for place in range(30)])
    program = (
        "import sys; from tests.recall.stores import opened; from warmstart.recall.recall import Recall; "
        "s = opened(sys.argv[1]); print(Recall(s).update()); s.close()"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", program, url], stdout=subprocess.PIPE, text=True)
        for _ in range(processes)
    ]
    done = sum(int(process.communicate(timeout=180)[0]) for process in started)
    assert done == 60
    assert documents(store) == (60 * 31, 0)
    recall = Recall(store)
    assert all(natives(recall, f"word{number}") == [f"s{number}"] for number in range(60))
    rows = store.database.connection.execute("SELECT count(*), count(DISTINCT session) FROM recall_parts").fetchone()
    assert rows == (60, 60)


def test_a_change_between_two_updates_is_not_missed(store, recall):
    """The revision that was indexed is the one that was read: a session that changes afterwards is stale again."""
    keep(store, "one", "the tide table")
    recall.update()
    keep(store, "one", "the tide table", "and the gazebo")
    keep(store, "one", "the tide table", "and the gazebo", "and the moat")
    assert set(natives(recall, "moat gazebo")) == {"one"}


# -- deadlines


@pytest.fixture(scope="module", params=[50, pytest.param(300, marks=pytest.mark.slow)])
def large(lasting, request):
    with lasting.transaction():
        for number in range(request.param):
            texts = [f"the tide table of harbour{place} and gauge{number % 7} is wrong" for place in range(100)]
            keep(lasting, f"s{number}", *texts, days=number)
            if number == 5:
                lasting.database.connection.execute("ANALYZE")  # as a server does by itself after a while
    Recall(lasting).update()
    return lasting


def test_a_deadline_is_kept(large):
    recall = Recall(large, clock=lambda: NOW)
    assert recall.search("the tide of harbour7 at gauge3 yesterday")
    question = "tide table harbour gauge wrong harbour_7.py yesterday " * 20
    for milliseconds in (0, 0.01, 1, 5, 20):
        began = time.process_time()
        found = recall.search(question, deadline_ms=milliseconds)
        assert time.process_time() - began < milliseconds / 1000 + 5
        assert isinstance(found, list)
    assert recall.search("harbour7 at gauge3")  # nothing interrupts what has no deadline


def test_with_a_deadline_what_is_there_is_searched(store, recall):
    keep(store, "one", "the tide table")
    recall.update()
    for number in range(10):
        keep(store, f"new{number}", "the tide table")
    assert natives(recall, "tide", deadline_ms=60_000) == ["one"]
    assert recall.pending == 10
    assert len(natives(recall, "tide", limit=20)) == 11
    assert recall.pending == 0


def test_few_changed_sessions_are_indexed_despite_a_deadline(store, recall):
    keep(store, "one", "the tide table")
    recall.update()
    keep(store, "two", "the tide table")
    assert sorted(natives(recall, "tide", deadline_ms=60_000)) == ["one", "two"]


def test_a_message_is_indexed_once_however_often_it_holds_a_text(store, recall):
    message = Message(native_id="m", role="assistant", text="the gazebo", reasoning="the gazebo")
    keep(store, "one", "hello", message)
    assert natives(recall, "gazebo") == ["one"]
    assert documents(store) == (3, 0)
