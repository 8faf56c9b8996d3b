"""What a search does with little time."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing

import numpy as np
import pytest

from tests.recall.stores import keep
from warmstart.recall import recall as searching
from warmstart.recall import sizes
from warmstart.recall.deadline import Deadline
from warmstart.recall.engine import Interrupted
from warmstart.recall.index import Index
from warmstart.recall.query import parse
from warmstart.recall.sizes import Sizes
from warmstart.recall.sqlite import SQLiteEngine


class Steps(Deadline):
    """Passes after so many looks at the clock."""

    def __init__(self, steps: int) -> None:
        super().__init__(None)
        self._steps = steps

    def check(self) -> None:
        self._steps -= 1
        if self._steps < 0:
            raise Interrupted


def test_reading_sizes_goes_on_where_it_was_interrupted(store, recall, monkeypatch):
    monkeypatch.setattr(sizes, "_AT_ONCE", 2)
    monkeypatch.setattr(sizes, "_DEAD", 2)
    monkeypatch.setattr(sizes, "_WRITES", 1)
    for number in range(9):
        keep(store, f"s{number}", "the tide table", "fixed", "thanks")
        recall.update()
    for row in store.list()[:3]:
        store.delete(row.session.id)
    recall.update()
    index = Index(store.database, SQLiteEngine(store.database))
    whole, slow = Sizes(store.database), Sizes(store.database)
    for turn in range(100):
        try:
            slow.refresh(index.state(), Steps(1))
            break
        except Interrupted:
            if turn == 3:
                keep(store, "new", "another tide")
                recall.update()
    assert turn > 3
    whole.refresh(index.state(), Deadline(None))
    assert (slow.parts, slow.lines) == (whole.parts, whole.lines) == (7, 19)
    for name in ("session", "said", "words", "dead", "totals"):
        np.testing.assert_array_equal(getattr(slow, name), getattr(whole, name))


def test_what_words_find_is_given_when_time_is_over_for_the_rest(store, recall, monkeypatch):
    keep(store, "tide", "the tide table of tide_table.py is wrong since yesterday")
    recall.update()

    def interrupted(*_: object, **__: object) -> None:
        raise Interrupted

    monkeypatch.setattr(searching.Texts, "exact", interrupted)
    monkeypatch.setattr(searching.Recall, "_dated", interrupted)
    (found,) = recall.search("tide_table.py yesterday", deadline_ms=60_000)
    assert found.native_id == "tide"
    assert set(found.parts) <= {"said", "windows"}


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_search_with_a_deadline_waits_for_no_writer(store, recall):
    keep(store, "one", "the tide table")
    recall.update()
    keep(store, "two", "the tide gauge")
    with closing(sqlite3.connect(store.database.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        found = recall.search("tide", deadline_ms=200)
        assert time.monotonic() - began < 20
        other.execute("ROLLBACK")
    assert [each.native_id for each in found] == ["one"]
    assert len(recall.search("tide")) == 2


@pytest.mark.parametrize("text", ["word{} " * 20_000, "漢字{}テスト" * 20_000], ids=["ascii", "unspaced"])
def test_of_a_long_question_as_much_is_read_as_there_is_time(store, text):
    engine = SQLiteEngine(store.database)
    question = text.format(*range(20_000))
    sizes_of = [len(parse(question, engine, seconds).text) for seconds in (0.0, 0.004, 10.0, None)]
    assert sizes_of == sorted(sizes_of)
    assert sizes_of[0] < 500 < sizes_of[2] == sizes_of[3] == 20_001
