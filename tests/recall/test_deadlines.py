"""What a search does with little time."""

from __future__ import annotations

from itertools import count
from math import inf

import numpy as np
import pytest

from tests.recall.stores import keep
from tests.waiting import in_time, locked
from warmstart.recall import ranking
from warmstart.recall import recall as searching
from warmstart.recall.index import Index
from warmstart.recall.ranking import CorpusStats
from warmstart.storage.database import Interrupted

pytestmark = pytest.mark.parametrize("url", ["sqlite"], indirect=True)


def test_reading_statistics_continues_where_it_was_interrupted(store, recall, monkeypatch):
    monkeypatch.setattr(ranking, "_BATCH_PARTS", 2)
    monkeypatch.setattr(ranking, "_BATCH_DELETED", 2)
    monkeypatch.setattr(ranking, "_BATCH_WRITES", 1)
    for number in range(9):
        keep(store, f"s{number}", "the tide table", "fixed", "thanks")
        recall.update()
    for row in store.list()[:3]:
        store.delete(row.session.id)
    recall.update()
    index = Index(store)
    whole, slow = CorpusStats(store.database), CorpusStats(store.database)
    for turn in range(100):
        monkeypatch.setattr(ranking, "monotonic", count(1).__next__)  # the second look at the clock is too late
        try:
            slow.refresh(index.read_state(), 1)
            break
        except Interrupted:
            if turn == 3:
                keep(store, "new", "another tide")
                recall.update()
    assert turn > 3
    whole.refresh(index.read_state(), inf)
    assert (whole.everything.parts, whole.everything.said) == (7, 19)
    np.testing.assert_array_equal(slow.session, whole.session)
    np.testing.assert_array_equal(slow.deleted, whole.deleted)
    for ours, theirs in zip(slow.everything, whole.everything, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_lexical_results_are_returned_when_time_runs_out(store, recall, monkeypatch):
    keep(store, "tide", "the tide table of tide_table.py is wrong since yesterday")
    recall.update()

    def interrupted(*_: object, **__: object) -> None:
        raise Interrupted

    monkeypatch.setattr(searching.Recall, "_search_names", interrupted)
    monkeypatch.setattr(searching.Recall, "_search_dates", interrupted)
    (found,) = recall.search("tide_table.py yesterday", deadline_ms=60_000)
    assert found.native_id == "tide"
    assert set(found.components) <= {"said", "windows"}


def test_a_search_with_a_deadline_waits_for_no_writer(store, recall):
    keep(store, "one", "the tide table")
    recall.update()
    keep(store, "two", "the tide gauge")
    store.database.connection.execute("PRAGMA busy_timeout = 600000")
    with locked(store.database.path) as holder:
        found = in_time(lambda deadline: recall.search("tide", deadline_ms=deadline))
        assert holder.is_alive()
    assert [each.native_id for each in found] == ["one"]
    assert len(recall.search("tide")) == 2
