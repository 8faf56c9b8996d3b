from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from warmstart.errors import StoreError
from warmstart.sessions.sqlite import SQLiteSessionStore
from warmstart.testing.stores import SessionStoreSuite, said, session


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


def test_foreign_keys_hold(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with (
        closing(SQLiteSessionStore(path)) as store,
        pytest.raises(StoreError, match="FOREIGN KEY"),
        store.transaction() as raw,
    ):
        raw.execute("INSERT INTO tool_calls (message, position, call_id, name) VALUES (99, 0, 'c', 'bash')")
