"""What a search does with little time."""

from __future__ import annotations

import pytest

from tests.recall.stores import keep
from tests.waiting import in_time, locked
from warmstart.recall.recall import Recall
from warmstart.storage.deadline import Interrupted

pytestmark = pytest.mark.parametrize("url", ["sqlite"], indirect=True)


def test_turns_are_returned_when_time_runs_out_after_ranking(store, recall, monkeypatch):
    keep(store, "tide", "the tide table of tide_table.py is wrong since yesterday")
    recall.update()

    def interrupt(*_: object, **__: object) -> None:
        raise Interrupted

    monkeypatch.setattr(Recall, "_add_names", interrupt)
    (found,) = recall.search("tide_table.py yesterday", deadline_ms=60_000)
    assert found.native_id == "tide"
    assert found.components.keys() == {"turn", "session"}


def test_a_search_with_a_deadline_waits_for_no_writer(store, recall):
    keep(store, "one", "the tide table")
    recall.update()
    keep(store, "two", "the tide gauge")
    store.database.connection.execute("PRAGMA busy_timeout = 600000")
    with locked(store.database.path) as holder:
        found = in_time(lambda deadline: recall.search("tide", deadline_ms=deadline))
        assert holder.is_alive()
    assert [evidence.native_id for evidence in found] == ["one"]
    assert len(recall.search("tide")) == 2
