"""Long texts are compressed in a SQLite store, and nobody who reads them notices."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import warmstart
from tests.postgres import Server
from warmstart.errors import StoreCorrupt
from warmstart.recall.recall import Recall
from warmstart.sessions.copy import copy_store
from warmstart.sessions.export import Format, export
from warmstart.sessions.sql_store import PostgresSessionStore, SQLiteSessionStore, SQLSessionStore
from warmstart.sessions.tables import MIGRATIONS
from warmstart.sessions.values import Message, ToolCall, ToolResult, clean
from warmstart.storage.compression import MIN_COMPRESSED, compress, decompress
from warmstart.storage.sqlite import SQLiteDatabase
from warmstart.testing.stores import find_texts, said, session

LONG = "The surge reached the northern harbours before the gauge of Husum did. " * 40
FORMATS: tuple[Format, ...] = ("openai", "markdown", "jsonl")
SECRET = "correct-horse-battery-7"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteSessionStore]:
    with closing(SQLiteSessionStore(tmp_path / "store.db")) as fresh:
        yield fresh
        assert fresh.database.integrity() == []


def texts(store: SQLSessionStore) -> list[str]:
    return [message.text for message in store.messages(session().id)]


def kinds(path: Path) -> list[str]:
    """The type of each stored body: `blob` if it is compressed."""
    with closing(sqlite3.connect(path)) as connection:
        return [kind for (kind,) in connection.execute("SELECT typeof(body) FROM texts ORDER BY id")]


def everything_in(path: Path) -> bytes:
    """The file and its log, and every text in it as plain text."""
    found = [each.read_bytes() for each in path.parent.glob(f"{path.name}*")]
    with closing(sqlite3.connect(path)) as connection:
        found += [decompress(body).encode() for (body,) in connection.execute("SELECT body FROM texts")]
    return b"\n".join(found)


WEIRD = {
    "emoji": "🌊 Sturmflut 漁港 e\u0301\r\n\t" * 200,
    "NUL": "before\0after " * 100,
    "a lone surrogate": "\ud83c broken " * 100,
    "non-characters": "\ufffe\uffff\x7f\x1b[31m\u2028" * 100,
    "noise": "".join(chr(33 + number * 7919 % 60_000 % 55_000) for number in range(5_000)),
    "huge": "".join(f"line {number}\n" for number in range(400_000)),
    "looks compressed": "x\x01" + "\xff" * 600,
}


@pytest.mark.parametrize("text", WEIRD.values(), ids=WEIRD)
def test_every_text_is_read_as_it_was_stored(store: SQLiteSessionStore, text: str) -> None:
    message = Message(
        native_id="m1",
        role="assistant",
        text=text,
        reasoning=f"{text}.",
        tool_calls=(ToolCall(id="c1", name="bash", arguments=f"{text}!"),),
        tool_results=(ToolResult(call_id="c1", outcome="ok", text=f"{text}?"),),
    )
    store.append(session(), [message])
    (read,) = store.messages(session().id)
    assert read.text == clean(text)
    assert read.reasoning == clean(f"{text}.")
    assert read.tool_calls[0].arguments == clean(f"{text}!")
    assert read.tool_results[0].text == clean(f"{text}?")
    assert kinds(store.path) == ["blob"] * 4


@given(st.text())
def test_any_text_survives(text: str) -> None:
    text = clean(text)
    assert decompress(compress(text)) == text
    assert decompress(compress(text * 100)) == text * 100


def test_short_texts_stay_text(store: SQLiteSessionStore) -> None:
    limit = "ü" * (MIN_COMPRESSED // 2)
    store.append(session(), [said("m1", "short"), said("m2", limit), said("m3", f"{limit}!")])
    assert kinds(store.path) == ["text", "text", "blob"]
    assert texts(store) == ["short", limit, f"{limit}!"]


def test_a_compressed_text_takes_less_space(store: SQLiteSessionStore) -> None:
    store.append(session(), [said(f"m{number}", f"{number} {LONG}") for number in range(500)])
    store.database.vacuum()
    assert store.path.stat().st_size < 500 * len(LONG) / 4


def test_a_compressed_text_is_stored_once(store: SQLiteSessionStore) -> None:
    store.append(session(), [said("m1", LONG)])
    store.append(session("two"), [said("m2", LONG)])
    assert kinds(store.path) == ["blob"]
    assert store.append(session(), [said("m1", LONG)]).unchanged == 1


def test_search_and_export_see_plain_text(store: SQLiteSessionStore) -> None:
    output = "\n".join(f"line {number} of the build" for number in range(200)) + "\nsurge_gauge_v2 is missing"
    messages = [
        said("m1", f"Why is it wrong? {LONG}"),
        said("m2", role="assistant", tool_calls=(ToolCall(id="c1", name="bash", arguments=json.dumps({"x": LONG})),)),
        said("m3", role="tool", tool_results=(ToolResult(call_id="c1", outcome="error", text=output),)),
    ]
    store.append(session(), messages)
    assert find_texts(store, "surge_gauge_v2") == [output]
    assert "surge_gauge_v2 is missing" in Recall(store).search("surge_gauge_v2")[0].text
    assert store.list()[0].session.title.startswith("Why is it wrong? The surge")
    assert store.opened_with("northern harbours", within=2, since=0) == {session().id: messages[0].text}
    for kind in FORMATS:
        exported = "".join(export(store.get(session().id), store.messages(session().id), kind))
        assert "surge_gauge_v2 is missing" in exported


def test_a_rewrite_leaves_no_trace_of_a_secret_in_a_compressed_text(store: SQLiteSessionStore) -> None:
    before = f"{LONG}password={SECRET}"
    store.append(session(), [said("m1", before)])
    assert SECRET.encode() in everything_in(store.path)
    assert store.rewrite(lambda text: text.replace(SECRET, "[redacted]")) == 1
    store.scrub()
    assert texts(store) == [f"{LONG}password=[redacted]"]
    content = everything_in(store.path)
    assert SECRET.encode() not in content
    compressed = compress(before)
    assert isinstance(compressed, bytes)
    assert compressed not in content
    assert compressed[-100:] not in content


def test_stores_of_both_kinds_copy_plain_text(store: SQLiteSessionStore, tmp_path: Path, postgres: Server) -> None:
    store.append(session(), [said("m1", LONG), said("m2", "🌊" * 400), said("m3", "short")])
    wanted = list(store.messages(session().id))
    with postgres.database() as name, closing(PostgresSessionStore(postgres.url(name))) as server:
        assert copy_store(store, server).differences == ()
        assert list(server.messages(session().id)) == wanted
        assert {body for (body,) in server.fetch("SELECT body FROM texts")} == {LONG, "🌊" * 400, "short"}
        with closing(SQLiteSessionStore(tmp_path / "back.db")) as back:
            assert copy_store(server, back).differences == ()
            assert list(back.messages(session().id)) == wanted
            assert sorted(kinds(back.path)) == ["blob", "blob", "text"]


def old_store(path: Path, bodies: list[str]) -> None:
    """A store from before texts were compressed."""
    with closing(SQLiteDatabase(path, MIGRATIONS[:8])) as old, old.transaction() as connection:
        connection.execute(
            "INSERT INTO sessions (pk, id, agent, native_id) VALUES (1, ?, 'tester', 'one')", (session().id,)
        )
        for number, body in enumerate(bodies, 1):
            key = number.to_bytes(16, "big")
            connection.execute("INSERT INTO texts (id, hash, body) VALUES (?, ?, ?)", (number, key, body))
            connection.execute(
                "INSERT INTO messages (session, seq, key, native_id, digest, role, text) VALUES (1, ?, ?, ?, ?, ?, ?)",
                (number, key, f"m{number}", b"twelve bytes", "user", number),
            )


def test_an_upgrade_compresses_texts_and_loses_none(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    bodies = ["short", LONG, *(clean(text) for text in WEIRD.values())]
    old_store(path, bodies)
    assert set(kinds(path)) == {"text"}
    with closing(SQLiteSessionStore(path)) as store:
        assert texts(store) == bodies
        assert kinds(path) == ["text"] + ["blob"] * (len(bodies) - 1)
        assert store.database.integrity() == []


def test_an_upgrade_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "store.db"
    bodies = [f"{number} {LONG}" for number in range(50)]
    old_store(path, bodies)
    with closing(sqlite3.connect(path)) as broken, broken:
        broken.execute(
            "CREATE TRIGGER stop BEFORE UPDATE ON texts WHEN old.id = 40 BEGIN SELECT RAISE(ABORT, 'x'); END"
        )
    with pytest.raises(warmstart.WarmstartError):
        SQLiteSessionStore(path)
    assert set(kinds(path)) == {"text"}
    with closing(sqlite3.connect(path)) as broken, broken:
        broken.execute("DROP TRIGGER stop")
    with closing(SQLiteSessionStore(path)) as store:
        assert texts(store) == bodies


def test_a_damaged_text_does_not_prevent_an_upgrade(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    old_store(path, [LONG, LONG[1:]])
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE texts SET body = CAST(? AS TEXT) WHERE id = 2", (b"\xff" * 2 * MIN_COMPRESSED,))
    with closing(SQLiteSessionStore(path)) as store:
        with pytest.raises(StoreCorrupt, match="damaged"):
            texts(store)
        assert find_texts(store, "surge") == []
        assert store.fetch("SELECT decompress(body) FROM texts WHERE id = 1") == [(LONG,)]


def test_a_damaged_text_is_reported(store: SQLiteSessionStore) -> None:
    store.append(session(), [said("m1", LONG)])
    store.database.connection.execute("UPDATE texts SET body = substr(body, 1, 40)")
    with pytest.raises(StoreCorrupt, match="damaged"):
        texts(store)
    with pytest.raises(StoreCorrupt, match="damaged"):
        store.fetch("SELECT decompress(body) FROM texts")
