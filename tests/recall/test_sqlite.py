"""What the index leaves behind in a SQLite file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.recall.stores import keep
from tests.recall.test_index import natives
from warmstart.sessions.sql_store import SQLiteSessionStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteSessionStore]:
    with closing(SQLiteSessionStore(tmp_path / "store.db")) as fresh:
        yield fresh


def held(store: SQLiteSessionStore, word: str) -> bool:
    """Whether any byte of the store's files holds the word."""
    files = [store.path, *(Path(f"{store.path}{end}") for end in ("-wal", "-shm"))]
    return any(word.encode() in path.read_bytes() for path in files if path.exists())


def test_after_a_scrub_no_word_of_a_deleted_session_is_in_the_file(store, recall):
    kept = keep(store, "one", "the xylophonist plays", title="zitherist")
    keep(store, "two", "the drawbridge")
    assert natives(recall, "xylophonist") == ["one"]
    assert held(store, "xylophonist")
    store.delete(kept.id)
    store.scrub()
    assert not held(store, "xylophonist")
    assert not held(store, "zitherist")
    assert natives(recall, "drawbridge") == ["two"]


def test_a_redacted_word_is_neither_found_nor_in_the_file(store, recall):
    keep(store, "one", "the key is hunterhunter2 okay", "thanks", "and the drawbridge")
    assert natives(recall, "hunterhunter2") == ["one"]
    store.rewrite(lambda text: text.replace("hunterhunter2", "[secret]"))
    assert natives(recall, "hunterhunter2") == []
    assert natives(recall, "drawbridge") == ["one"]
    store.scrub()
    assert not held(store, "hunterhunter2")
    assert natives(recall, "drawbridge") == ["one"]
    assert natives(recall, "hunterhunter2") == []


def test_a_scrub_before_the_index_heard_of_a_change_is_thorough_too(store, recall):
    keep(store, "one", "the key is hunterhunter2 okay")
    recall.update()
    store.rewrite(lambda text: text.replace("hunterhunter2", "[secret]"))
    store.scrub()
    assert not held(store, "hunterhunter2")
    assert natives(recall, "key") == ["one"]


def test_an_index_that_is_up_to_date_takes_one_query(store, recall):
    keep(store, "one", "the tide table")
    recall.update()
    statements: list[str] = []
    store.database.connection.set_trace_callback(statements.append)
    assert recall.update() == 0
    assert len(statements) == 1
