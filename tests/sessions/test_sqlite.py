from __future__ import annotations

import stat
import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from warmstart.errors import StoreError
from warmstart.sessions.outcomes import OUTCOME_RULES
from warmstart.sessions.rows import message_key
from warmstart.sessions.schema import MIGRATIONS
from warmstart.sessions.sqlite import SQLiteSessionStore
from warmstart.sessions.store import Appended
from warmstart.sessions.values import ToolCall, ToolResult
from warmstart.storage.sqlite import Database
from warmstart.testing.stores import CALLED, RESULTS, SessionStoreSuite, said, session


class TestContract(SessionStoreSuite):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[SQLiteSessionStore]:
        with closing(SQLiteSessionStore(tmp_path / "store.db")) as fresh:
            yield fresh
            assert fresh.integrity() == []


def test_the_file_and_its_logs_are_private(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "store.db"
    with closing(SQLiteSessionStore(path)) as store:
        store.append(session(), [said("m1", "x")])
        modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()}
    assert modes == {"store.db": 0o600, "store.db-wal": 0o600, "store.db-shm": 0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_large_text_is_stored_once(tmp_path: Path) -> None:
    big = "the same page of a file, read again and again. " * 20_000
    path = tmp_path / "store.db"
    with closing(SQLiteSessionStore(path)) as store:
        for number in range(20):
            store.append(session(f"s{number}"), [said(f"m{number}", big)])
        store.scrub()
    assert path.stat().st_size < 3 * len(big)


def test_a_scrubbed_store_holds_no_trace_of_what_was_deleted(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with closing(SQLiteSessionStore(path)) as store:
        store.append(session("kept"), [said("k1", "harbour")])
        store.append(session("gone"), [said("g1", "xylophone marmalade"), said("g2", "xylophone " * 5000)])
        store.delete(session("gone").id)
        store.scrub()
        assert store.search("harbour")
        for file in tmp_path.glob("store.db*"):
            content = file.read_bytes()
            assert b"xylophon" not in content, file
            assert b"marmalad" not in content, file


def test_messages_can_be_read_while_another_process_writes(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with closing(SQLiteSessionStore(path)) as reader, closing(SQLiteSessionStore(path)) as writer:
        writer.append(session(), [said(f"m{number}", "x") for number in range(500)])
        seen = reader.messages(session().id)
        next(seen)
        writer.append(session(), [said("late", "y")])
        assert sum(1 for _ in seen) >= 499


def revisions(store: SQLiteSessionStore) -> dict[str, int]:
    return dict(store.database.connection.execute("SELECT native_id, revision FROM sessions").fetchall())


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteSessionStore]:
    with closing(SQLiteSessionStore(tmp_path / "store.db")) as fresh:
        yield fresh
        assert fresh.integrity() == []


def test_a_revision_goes_up_with_what_is_appended_and_only_then(store: SQLiteSessionStore) -> None:
    store.append(session("a"), [said("a1", "one"), CALLED, RESULTS])
    store.append(session("b"), [said("b1", "x")])
    assert revisions(store) == {"a": 1, "b": 1}
    store.append(session("a", title="a title"), [said("a1", "one"), CALLED])
    assert revisions(store) == {"a": 1, "b": 1}
    store.append(session("a"), [said("a1", "one, grown")])
    store.append(session("a"), [said("a2", "two")])
    assert revisions(store) == {"a": 3, "b": 1}


def test_a_revision_goes_up_where_messages_are_taken_away(store: SQLiteSessionStore) -> None:
    copied = [said("a1", "first", 0), said("a2", "second", 1)]
    store.append(session("new"), [*copied, said("b1", "third", 60)])
    store.append(session("old"), copied)
    assert revisions(store) == {"new": 2, "old": 1}
    store.append(session("new"), [*copied, said("b1", "third", 60)])
    assert revisions(store) == {"new": 2, "old": 1}


def test_a_revision_goes_up_with_an_outcome(store: SQLiteSessionStore) -> None:
    judged = session("a", outcome="failure", evidence="reward 0.0", judge="log")
    store.append(session("a"), [said("a1", "x")])
    for _ in range(2):
        store.append(judged)
    assert revisions(store) == {"a": 2}
    store.set_outcome(judged.id, "success")
    store.append(judged)
    assert revisions(store) == {"a": 3}


def test_revisions_go_up_when_texts_are_rewritten(store: SQLiteSessionStore) -> None:
    store.append(session("a"), [said("a1", "zanzibar")])
    store.append(session("b", title="a title"), [said("b1", "harbour")])
    store.rewrite(lambda text: text.replace("marmalade", "X"))
    assert revisions(store) == {"a": 1, "b": 1}
    store.rewrite(lambda text: text.replace("zanzibar", "X"))
    assert revisions(store) == {"a": 2, "b": 2}
    store.rewrite(lambda text: text.replace("title", "X"))
    assert revisions(store) == {"a": 3, "b": 3}


def test_revisions_go_up_where_results_are_judged_otherwise(store: SQLiteSessionStore) -> None:
    store.append(session("a"), [CALLED, RESULTS])
    store.append(session("b"), [said("b1", "x", 60)])
    store.rejudge(lambda agent, tool, result: result.outcome, 1001)
    assert revisions(store) == {"a": 1, "b": 1}
    store.rejudge(lambda agent, tool, result: "ok", 1002)
    assert revisions(store) == {"a": 2, "b": 1}


def test_what_was_rewritten_stays_so_when_a_judged_log_is_read_again(store: SQLiteSessionStore) -> None:
    ok = replace(RESULTS, tool_results=tuple(replace(result, outcome="ok") for result in RESULTS.tool_results))
    store.append(session(), [CALLED, RESULTS])
    store.rewrite(lambda text: text.replace("def tide", "X"))
    store.rejudge(lambda agent, tool, result: "ok", 1001)
    assert store.append(session(), [CALLED, ok]) == Appended(unchanged=2)
    assert store.search("def tide") == []


def test_judging_again_is_one_query(store: SQLiteSessionStore) -> None:
    store.append(session(), [CALLED, RESULTS])
    store.rejudge(lambda agent, tool, result: "ok", 1001)
    seen: list[str] = []
    store.database.connection.set_trace_callback(seen.append)
    store.rejudge(lambda agent, tool, result: "ok", 1001)
    assert len(seen) == 1


def test_judging_a_large_store_holds_little_of_it(store: SQLiteSessionStore) -> None:
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
    assert peak < 1_000_000  # of 20 MB


def test_a_store_of_the_first_version_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with closing(Database(path, MIGRATIONS[:1])) as old, old.transaction() as connection:
        connection.execute(
            "INSERT INTO sessions (pk, id, agent, native_id) VALUES (1, ?, 'tester', 'one')", (session().id,)
        )
        connection.execute("INSERT INTO texts (id, hash, body) VALUES (1, x'01', '1 failed')")
        connection.execute("INSERT INTO texts_index (rowid, body) VALUES (1, '1 failed')")
        connection.execute(
            "INSERT INTO messages (session, seq, key, native_id, digest, role) VALUES (1, 1, ?, 'm3', ?, 'tool')",
            (message_key("tester", "m3"), b"twelve bytes"),
        )
        connection.execute(
            "INSERT INTO tool_results (message, position, call_id, outcome, text) VALUES (1, 0, 'c1', 'ok', 1)"
        )
    with closing(SQLiteSessionStore(path)) as store:
        assert revisions(store) == {"one": 0}
        assert store.rejudge(lambda agent, tool, result: "error", OUTCOME_RULES) == 1
        assert revisions(store) == {"one": 1}
        (message,) = store.messages(session().id)
        assert [(result.outcome, result.text) for result in message.tool_results] == [("error", "1 failed")]
        again = [store.append(session(), [message]) for _ in range(2)]
        assert [(appended.new, appended.replaced, appended.unchanged) for appended in again] == [(0, 1, 0), (0, 0, 1)]
        assert store.integrity() == []


def test_foreign_keys_hold(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with (
        closing(SQLiteSessionStore(path)) as store,
        pytest.raises(StoreError, match="FOREIGN KEY"),
        store.transaction() as raw,
    ):
        raw.execute("INSERT INTO tool_calls (message, position, call_id, name) VALUES (99, 0, 'c', 'bash')")
