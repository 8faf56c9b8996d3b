"""A store of any earlier version opens, loses nothing, and ends up like a new one."""

from __future__ import annotations

import lzma
import os
import re
import sqlite3
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.cli.conftest import PROGRAM
from tests.postgres import OWNER, Server

from warmstart.memory.honcho.mirror import Mirror
from warmstart.memory.local import LocalBackend
from warmstart.memory.postgres import PostgresBackend
from warmstart.memory.sql import SQLBackend
from warmstart.memory.values import View
from warmstart.profile.store import SQLProfileStore
from warmstart.recall.recall import Recall
from warmstart.sessions.sql_store import PostgresSessionStore, SQLiteSessionStore, SQLSessionStore
from warmstart.storage.compression import register
from warmstart.templates.store import SQLTemplateStore
from warmstart.testing.stores import find_texts

LAYOUTS = Path(__file__).parent / "layouts"
SQLITE = sorted((LAYOUTS / "sqlite").iterdir())
POSTGRES = sorted((LAYOUTS / "postgres").iterdir())
HONCHO = sorted((LAYOUTS / "honcho").iterdir())


def unpacked(layout: Path, target: Path) -> Path:
    target.write_bytes(lzma.decompress(layout.read_bytes()))
    return target


def number(layout: Path) -> int:
    return int(layout.name[:2])


# -- what each store holds


def check_sessions(store: SQLSessionStore) -> None:
    sessions = sorted(store.list(), key=lambda summary: summary.session.native_id)
    assert [each.session.native_id[:8] for each in sessions] == ["a3f1c0de", "b7d2e0aa"]
    assert [each.session.project for each in sessions] == ["/home/mara/tides"] * 2
    texts = [message.text for each in sessions for message in store.messages(each.session.id)]
    assert len(texts) == 8
    assert texts[0] == "Please always use metres. Add a tide table for the harbour of Husum."
    assert not store.index.is_complete
    assert find_texts(store, "lighthouse") == []  # opening a store indexes nothing
    store.index.fill()
    assert store.index.is_complete
    assert find_texts(store, "lighthouse")
    assert find_texts(store, "surge forecast")
    assert any("surge" in found.text for found in Recall(store).search("surge forecast"))
    assert len(SQLProfileStore(store).stale("other rules")) == 2
    assert store.database.integrity() == []


def check_memories(memory: SQLBackend, *, there: bool) -> None:
    if not there:
        assert memory.retrieve("mara", "units") is None
        return
    assert memory.users() == ["mara", "nils"]
    values = {key: entry.value for key in memory.list_keys("mara") if (entry := memory.retrieve("mara", key))}
    assert values == {"tests": "pytest -q", "editor": "vim", "units": "metres"}
    assert memory.list_keys("mara") == ["tests", "editor", "units"]  # the newest first
    past = memory.history("mara", "units")
    assert [version.value for version in past] == ["metres", "fathoms", "feet"]
    assert [(version.session, version.source) for version in past] == [("", "chat"), ("", ""), ("a3f1", "chat")]
    assert past[0].until is None
    assert [version.until for version in past[1:]] == [version.since for version in past[:-1]]
    assert [version.value for version in memory.history("mara", "editor")] == ["vim"]
    assert memory.history("mara", "old_port") == []  # a deletion does not keep the key
    assert [entry.key for entry in memory.query("mara", "metres")] == ["units"]
    assert memory.at(View(project="/home/mara")).retrieve("mara", "tests") is None
    # What is written and forgotten now is as in a new store.
    memory.store("mara", "units", "yards")
    assert [version.value for version in memory.history("mara", "units")] == ["yards", "metres", "fathoms", "feet"]
    assert [entry.value for entry in memory.query("mara", "yards")] == ["yards"]
    assert [entry.value for entry in memory.query("mara", "fathoms")] == ["yards"]  # which it was once
    assert memory.delete("mara", "units")
    assert {version.value for version in memory.history("mara", "units")} == {None}
    assert memory.retrieve("nils", "drink") is not None


def check_templates(store: SQLSessionStore, *, there: bool) -> None:
    assert [template.name for template in SQLTemplateStore(store).list()] == ["tides"] * there


# -- SQLite


def schema(path: Path) -> dict[str, str]:
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT type || ' ' || name, sql FROM sqlite_master WHERE sql IS NOT NULL")
        # Renaming a table puts its name in quotes, and a column that was added has no line of its own.
        return {name: re.sub(r"\s*([(),;])\s*", r"\1", " ".join(sql.replace('"', "").split())) for name, sql in rows}


KEPT = ("texts", "sessions", "messages", "tool_calls", "tool_results", "positions", "deleted_sessions", "templates")


def kept(path: Path) -> dict[str, list[Any]]:
    """The content of the tables that are not derived, by the columns of the first layout."""
    columns = {
        "sessions": "id, agent, native_id, project, branch, model, title, started_at, ended_at, outcome",
        "texts": "id, hash, decompress(body)",
    }
    with closing(sqlite3.connect(path)) as connection:
        register(connection)
        found = {}
        for table in KEPT:
            with suppress(sqlite3.OperationalError):
                wanted = columns.get(table, "*")
                found[table] = connection.execute(f"SELECT {wanted} FROM {table}").fetchall()
        return found


def open_all(path: Path) -> None:
    with closing(SQLiteSessionStore(path)) as store, closing(LocalBackend(path)) as memory:
        Recall(store)
        SQLProfileStore(store)
        SQLTemplateStore(store)
        assert memory.is_available()


def test_an_earlier_file_opens_and_becomes_like_a_new_one(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for layout in SQLITE:
        with subtests.test(layout.name.split(".")[0]):
            path = unpacked(layout, tmp_path / f"{layout.name}.db")
            before = kept(path)
            open_all(path)
            after = kept(path)
            assert {table: after[table] for table in before} == before
            upgraded = path.read_bytes()
            open_all(path)
            assert path.read_bytes() == upgraded
            open_all(tmp_path / f"{layout.name}.new.db")
            assert schema(path) == schema(tmp_path / f"{layout.name}.new.db")
            with closing(SQLiteSessionStore(path)) as store, closing(LocalBackend(path)) as memory:
                check_sessions(store)
                check_memories(memory, there=number(layout) >= 10)
                check_templates(store, there=number(layout) >= 13)
            assert b"fathoms" not in path.read_bytes()  # was forgotten, also where the upgrade had a copy of it


def test_processes_may_open_an_earlier_file_at_once(tmp_path: Path) -> None:
    path = unpacked(SQLITE[9], tmp_path / "store.db")
    environment = {**os.environ, "WARMSTART_HOME": str(tmp_path), "WARMSTART_STORE": str(path)}
    commands = [["memory", "get", "units", "--user", "mara"], ["recall", "surge"], ["sessions", "list"]] * 2
    running = [
        subprocess.Popen([*PROGRAM, *command], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for command in commands
    ]
    for command, process in zip(commands, running, strict=True):
        said = process.communicate(timeout=180)[0]
        assert process.returncode == 0, (command, said)
    with closing(LocalBackend(path)) as memory:
        check_memories(memory, there=True)


def test_an_earlier_index_of_honcho_opens(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for layout in HONCHO:
        with subtests.test(layout.name.split(".")[0]):
            path = unpacked(layout, tmp_path / f"{layout.name}.db")
            with closing(Mirror(path, redact=True, send_scoped=False)) as mirror:
                assert mirror.list_keys("mara") == ["editor", "units"]
                assert [entry.key for entry in mirror.query("mara", "metres", 5)] == ["units"]
                assert [version.value for version in mirror.history("mara", "units")] == ["metres", "feet"]
                # Nothing on its way is lost, except deletions of conclusions, which are not ours to delete.
                assert mirror.waiting() >= 4
                batch = mirror.batch(100)
                assert all(parcel.change.session.startswith("warmstart-memory-") for parcel in batch)
                mirror.store("mara", "units", "yards")
                assert [entry.value for entry in mirror.query("mara", "units", 5)][:1] == ["yards"]
            with closing(Mirror(tmp_path / f"{layout.name}.new.db", redact=True, send_scoped=False)) as new:
                new.waiting()
            assert schema(path) == schema(tmp_path / f"{layout.name}.new.db")


# -- PostgreSQL


@contextmanager
def restored(postgres: Server, layout: Path) -> Iterator[str]:
    with suppress(psycopg.errors.DuplicateObject):
        postgres.run("CREATE ROLE nils LOGIN")
    with postgres.database(empty=True) as name:
        with psycopg.connect(postgres.url(name), autocommit=True) as connection:
            connection.execute(lzma.decompress(layout.read_bytes()))
        yield name


def described(postgres: Server, database: str) -> set[str]:
    """Columns, keys, indexes, functions, triggers and policies."""
    rows = postgres.run(
        """
        SELECT 'column', concat_ws(' ', c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
            a.attstorage, pg_get_expr(d.adbin, d.adrelid), row_number() OVER (PARTITION BY c.oid ORDER BY a.attnum))
            FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid AND c.relkind = 'r'
            AND c.relnamespace = 'public'::regnamespace
            LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum WHERE a.attnum > 0 AND NOT a.attisdropped
        UNION ALL SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint
            WHERE connamespace = 'public'::regnamespace
        UNION ALL SELECT 'index', indexdef FROM pg_indexes WHERE schemaname = 'public'
        UNION ALL SELECT proname, pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'public'::regnamespace
        UNION ALL SELECT 'trigger', pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal
        UNION ALL SELECT tablename, concat_ws(' ', policyname, cmd, qual) FROM pg_policies
        UNION ALL SELECT relname, concat_ws(' ', relrowsecurity, relforcerowsecurity) FROM pg_class
            WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
        """,
        database,
    )
    return {f"{name}: {' '.join(str(text).split())}" for name, text in rows}


def open_all_on_server(url: str) -> None:
    with closing(PostgresSessionStore(url)) as store, closing(PostgresBackend(url)) as memory:
        Recall(store)
        SQLProfileStore(store)
        SQLTemplateStore(store)
        assert memory.is_available()


@pytest.fixture(scope="module")
def new_on_server(postgres: Server) -> set[str]:
    with postgres.database(empty=True) as name:
        open_all_on_server(postgres.url(name))
        return described(postgres, name)


def test_an_earlier_server_opens_and_becomes_like_a_new_one(
    postgres: Server, new_on_server: set[str], subtests: pytest.Subtests
) -> None:
    for layout in POSTGRES:
        with subtests.test(layout.name.split(".")[0]), restored(postgres, layout) as name:
            url = postgres.url(name)
            before = postgres.run("SELECT tenant, id, body FROM texts ORDER BY 1, 2", name)
            open_all_on_server(url)
            assert postgres.run("SELECT tenant, id, body FROM texts ORDER BY 1, 2", name) == before
            now = described(postgres, name)
            if number(layout) > 1:  # the keys of the first one are in another order
                assert now == new_on_server
            open_all_on_server(url)
            assert described(postgres, name) == now
            with closing(PostgresSessionStore(url)) as store, closing(PostgresBackend(url)) as memory:
                check_sessions(store)
                check_memories(memory, there=number(layout) >= 15)
                check_templates(store, there=number(layout) >= 18)
            if number(layout) >= 15:  # another tenant's memory, which may still use the tables
                postgres.run("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO nils", name)
                with closing(PostgresBackend(postgres.url(name, "nils"))) as theirs:
                    assert [version.value for version in theirs.history("mara", "units")] == ["knots", "miles"]


def test_processes_may_open_an_earlier_server_at_once(postgres: Server) -> None:
    with restored(postgres, POSTGRES[14]) as name, ThreadPoolExecutor(4) as pool:
        list(pool.map(open_all_on_server, [postgres.url(name), postgres.url(name, "postgres")] * 2))
        with closing(PostgresBackend(postgres.url(name, OWNER))) as memory:
            check_memories(memory, there=True)
