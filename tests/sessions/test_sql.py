"""What the shared SQL does beyond the contract."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from warmstart.errors import StoreError
from warmstart.sessions.sql_store import SQLiteSessionStore, SQLSessionStore
from warmstart.sessions.store import Appended
from warmstart.sessions.values import ToolCall, ToolResult
from warmstart.testing.stores import CALLED, RESULTS, find_texts, said, session


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLSessionStore]:
    with closing(SQLiteSessionStore(tmp_path / "store.db")) as fresh:
        yield fresh
        assert fresh.database.integrity() == []


def revisions(store: SQLSessionStore) -> dict[str, int]:
    return dict(store.database.connection.execute("SELECT native_id, revision FROM sessions").fetchall())


def test_a_revision_goes_up_with_what_is_appended_and_only_then(store: SQLSessionStore) -> None:
    store.append(session("a"), [said("a1", "one"), CALLED, RESULTS])
    store.append(session("b"), [said("b1", "x")])
    assert revisions(store) == {"a": 1, "b": 1}
    store.append(session("a", title="a title"), [said("a1", "one"), CALLED])
    assert revisions(store) == {"a": 1, "b": 1}
    store.append(session("a"), [said("a1", "one, grown")])
    store.append(session("a"), [said("a2", "two")])
    assert revisions(store) == {"a": 3, "b": 1}


def test_a_revision_goes_up_when_messages_move_away(store: SQLSessionStore) -> None:
    copied = [said("a1", "first", 0), said("a2", "second", 1)]
    store.append(session("new"), [*copied, said("b1", "third", 60)])
    store.append(session("old"), copied)
    assert revisions(store) == {"new": 2, "old": 1}
    store.append(session("new"), [*copied, said("b1", "third", 60)])
    assert revisions(store) == {"new": 2, "old": 1}


def test_a_revision_goes_up_with_an_outcome(store: SQLSessionStore) -> None:
    judged = session("a", outcome="failure", evidence="reward 0.0", judge="log")
    store.append(session("a"), [said("a1", "x")])
    for _ in range(2):
        store.append(judged)
    assert revisions(store) == {"a": 2}
    store.set_outcome(judged.id, "success")
    store.append(judged)
    assert revisions(store) == {"a": 3}


def test_revisions_go_up_when_texts_are_rewritten(store: SQLSessionStore) -> None:
    store.append(session("a"), [said("a1", "zanzibar")])
    store.append(session("b", title="a title"), [said("b1", "harbour")])
    store.rewrite(lambda text: text.replace("marmalade", "X"))
    assert revisions(store) == {"a": 1, "b": 1}
    store.rewrite(lambda text: text.replace("zanzibar", "X"))
    assert revisions(store) == {"a": 2, "b": 2}
    store.rewrite(lambda text: text.replace("title", "X"))
    assert revisions(store) == {"a": 3, "b": 3}


def test_revisions_go_up_where_results_are_judged_otherwise(store: SQLSessionStore) -> None:
    store.append(session("a"), [CALLED, RESULTS])
    store.append(session("b"), [said("b1", "x", 60)])
    store.rejudge(lambda agent, tool, result: result.outcome, 1001)
    assert revisions(store) == {"a": 1, "b": 1}
    store.rejudge(lambda agent, tool, result: "ok", 1002)
    assert revisions(store) == {"a": 2, "b": 1}


def test_a_rewrite_survives_rereading_a_rejudged_log(store: SQLSessionStore) -> None:
    ok = replace(RESULTS, tool_results=tuple(replace(result, outcome="ok") for result in RESULTS.tool_results))
    store.append(session(), [CALLED, RESULTS])
    store.rewrite(lambda text: text.replace("def tide", "X"))
    store.rejudge(lambda agent, tool, result: "ok", 1001)
    assert store.append(session(), [CALLED, ok]) == Appended(unchanged=2)
    assert find_texts(store, "def tide") == []


def test_rejudging_a_large_store_uses_little_memory(store: SQLSessionStore) -> None:
    for number in range(20):
        call = ToolCall(id=f"c{number}", name="read")
        results = [
            said(
                f"m{number}.{place}", role="tool", tool_results=(ToolResult(call_id=call.id, outcome="ok", text=text),)
            )
            for place, text in ((place, f"{number}.{place} {'x' * 50_000}") for place in range(20))
        ]
        store.append(session(f"s{number}"), [said(f"c{number}", role="assistant", tool_calls=(call,)), *results])
    tracemalloc.start()
    try:
        assert store.rejudge(lambda agent, tool, result: "error", 1001) == 400
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2_000_000  # of 20 MB


def test_messages_can_be_read_while_another_process_writes(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with closing(SQLiteSessionStore(path)) as reader, closing(SQLiteSessionStore(path)) as writer:
        writer.append(session(), [said(f"m{number}", "x") for number in range(500)])
        seen = reader.messages(session().id)
        next(seen)
        writer.append(session(), [said("late", "y")])
        assert sum(1 for _ in seen) >= 499


def test_foreign_keys_hold(store: SQLSessionStore) -> None:
    with pytest.raises(StoreError, match=r"(?i)foreign key"), store.transaction() as raw:
        raw.execute("INSERT INTO tool_calls (message, position, call_id, name) VALUES (99, 0, 'c', 'bash')")


def test_a_long_text_is_found_by_its_beginning(store: SQLSessionStore) -> None:
    long = "harbour " + " ".join(f"word{number}" for number in range(300_000))
    store.append(session("a"), [said("m1", long), said("m2", "漁港 " * 300_000), said("m3", "z" * 2_000_000)])
    store.append(session("b"), [said("m4", "Ein Café, 漁港")])
    assert find_texts(store, "harbour word17") == [long]
    assert find_texts(store, "CAFE 漁港") == ["Ein Café, 漁港"]


def test_titles_and_projects_may_contain_sql(store: SQLSessionStore) -> None:
    odd = "100 % ?1 :name %s 'quoted' \\"
    store.append(session(title=odd, project=f"/w/{odd}"), [said("m1", odd)])
    assert store.get(session().id).title == odd
    assert [message.text for message in store.messages(session().id)] == [odd]
