from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from warmstart.sessions.schema import OUTCOME_RULES, message_key
from warmstart.sessions.sql_store import SQLiteSessionStore
from warmstart.sessions.tables import MIGRATIONS
from warmstart.storage.sqlite import SQLiteDatabase
from warmstart.testing.stores import CALLED, RESULTS, SessionStoreSuite, find_texts, said, session


class TestContract(SessionStoreSuite):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[SQLiteSessionStore]:
        with closing(SQLiteSessionStore(tmp_path / "store.db")) as fresh:
            yield fresh
            assert fresh.database.integrity() == []


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


def test_scrubbing_leaves_no_trace_of_deleted_data(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with closing(SQLiteSessionStore(path)) as store:
        store.append(session("kept"), [said("k1", "harbour")])
        store.append(session("gone"), [said("g1", "xylophone marmalade"), said("g2", "xylophone " * 5000)])
        store.delete(session("gone").id)
        store.scrub()
        assert find_texts(store, "harbour")
        for file in tmp_path.glob("store.db*"):
            content = file.read_bytes()
            assert b"xylophon" not in content, file
            assert b"marmalad" not in content, file


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteSessionStore]:
    with closing(SQLiteSessionStore(tmp_path / "store.db")) as fresh:
        yield fresh
        assert fresh.database.integrity() == []


def revisions(store: SQLiteSessionStore) -> dict[str, int]:
    return dict(store.database.connection.execute("SELECT native_id, revision FROM sessions").fetchall())


def test_rejudging_again_is_one_query(store: SQLiteSessionStore) -> None:
    store.append(session(), [CALLED, RESULTS])
    store.rejudge(lambda agent, tool, result: "ok", 1001)
    seen: list[str] = []
    store.database.connection.set_trace_callback(seen.append)
    store.rejudge(lambda agent, tool, result: "ok", 1001)
    assert len(seen) == 1


def test_a_store_of_the_first_version_is_upgraded(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with closing(SQLiteDatabase(path, MIGRATIONS[:1])) as old, old.transaction() as connection:
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
        assert store.database.integrity() == []
