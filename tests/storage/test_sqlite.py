from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
from contextlib import closing, suppress
from pathlib import Path

import pytest
from tests.unprivileged import as_nobody, let_in

from warmstart.errors import StoreBusy, StoreCorrupt, StoreError, StoreFull, StoreReadOnly, StoreTooNew
from warmstart.storage.sqlite import Database, Migration


def _notes(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE notes (body TEXT)")


def _dates(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE notes ADD COLUMN at TEXT")


FIRST = (Migration("test/0001_notes", _notes),)
BOTH = (*FIRST, Migration("test/0002_dates", _dates))


def open_database(path: Path, migrations: tuple[Migration, ...] = BOTH) -> closing[Database]:
    return closing(Database(path, migrations))


def test_migrations_are_applied_once_and_in_order(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with open_database(path, FIRST) as database, database.transaction() as connection:
        connection.execute("INSERT INTO notes VALUES ('kept')")
    for _ in range(2):
        with open_database(path) as database:
            assert database.connection.execute("SELECT body, at FROM notes").fetchall() == [("kept", None)]
            applied = database.connection.execute("SELECT name FROM migrations ORDER BY name").fetchall()
    assert [name for (name,) in applied] == ["test/0001_notes", "test/0002_dates"]


def test_a_failing_migration_leaves_the_store_as_it_was(tmp_path: Path) -> None:
    def broken(connection: sqlite3.Connection) -> None:
        connection.execute("DROP TABLE notes")
        connection.execute("THIS IS NOT SQL")

    path = tmp_path / "store.db"
    with open_database(path, FIRST) as database, database.transaction() as connection:
        connection.execute("INSERT INTO notes VALUES ('kept')")
    with pytest.raises(StoreError):
        Database(path, (*FIRST, Migration("test/0002_broken", broken)))
    with open_database(path, FIRST) as database:
        assert database.connection.execute("SELECT body FROM notes").fetchall() == [("kept",)]


def test_a_store_from_a_newer_version_is_refused_and_untouched(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    open_database(path).thing.close()
    before = path.read_bytes()
    with pytest.raises(StoreTooNew, match=r"newer Warmstart.*0002_dates"):
        Database(path, FIRST)
    assert path.read_bytes() == before


def test_another_room_may_migrate_later(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    other = (Migration("other/0001", lambda connection: connection.execute("CREATE TABLE others (x)") and None),)
    with open_database(path) as database:
        database.migrate(other)
        seen: list[str] = []
        database.connection.set_trace_callback(seen.append)
        database.migrate(other)
        assert len(seen) == 2  # and no transaction
        database.connection.set_trace_callback(None)
        with database.transaction() as connection:
            connection.execute("INSERT INTO others VALUES (1)")
            database.migrate(
                (*other, Migration("other/0002", lambda connection: connection.execute("DROP TABLE others") and None))
            )
        with pytest.raises(StoreTooNew, match="other/0002"):
            database.migrate(other)
    with open_database(path) as database:
        tables = {row[0] for row in database.connection.execute("SELECT name FROM sqlite_master")}
    assert "notes" in tables
    assert "others" not in tables


def test_rooms_migrate_apart(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    open_database(path).thing.close()
    other = (Migration("other/0001", lambda connection: connection.execute("CREATE TABLE others (x)") and None),)
    with open_database(path, other) as database:
        assert database.connection.execute("SELECT count(*) FROM others").fetchone() == (0,)


@pytest.mark.parametrize(
    "content", [b"not a database at all, but long enough to look like one" * 50, b"SQLite format 3\0" + b"\xff" * 4080]
)
def test_a_file_that_is_no_database_is_refused_and_untouched(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(content)
    with pytest.raises(StoreCorrupt, match="damaged or is not a store"):
        Database(path, BOTH)
    assert path.read_bytes() == content


def test_another_programs_database_is_refused_and_untouched(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    before = path.read_bytes()
    with pytest.raises(StoreCorrupt, match="not a Warmstart store"):
        Database(path, BOTH)
    assert path.read_bytes() == before


def test_a_damaged_page_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with open_database(path) as database:
        with database.transaction() as connection:
            connection.executemany("INSERT INTO notes (body) VALUES (?)", [("x" * 500,)] * 500)
        database.vacuum()
    with path.open("r+b") as file:
        file.seek(5 * 4096)
        file.write(b"\xaa" * 4096)
    with open_database(path) as database, suppress(StoreCorrupt):
        assert database.integrity() != []


def test_a_folder_or_a_file_in_the_way_is_said(tmp_path: Path) -> None:
    with pytest.raises(StoreCorrupt, match="is a folder"):
        Database(tmp_path, BOTH)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError):
        Database(tmp_path / "file" / "store.db", BOTH)


def test_a_file_that_is_not_ours_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("these are somebody's notes, and long enough to be mistaken for a database header")
    path.chmod(0o644)
    with pytest.raises(StoreCorrupt):
        Database(path, BOTH)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(StoreCorrupt, match="no file"):
        Database(pipe, BOTH)


def test_a_vacuum_that_leaves_old_pages_says_so(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with open_database(path) as one, closing(Database(path, BOTH, timeout=0.05)) as two:
        with one.transaction() as connection:
            connection.execute("INSERT INTO notes (body) VALUES ('x')")
        one.connection.execute("BEGIN")
        one.connection.execute("SELECT * FROM notes").fetchall()
        with pytest.raises(StoreBusy):
            two.vacuum()
        one.connection.execute("ROLLBACK")
        two.vacuum()


def test_a_lax_mode_is_tightened(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.touch(0o644)
    open_database(path).thing.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_write_may_end_in_the_background(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with open_database(path) as database:
        for number in range(5):
            last = [("INSERT INTO notes (body) VALUES (?)", (f"last {number}",))]
            with database.transaction(last, wait=False) as connection:
                connection.execute("INSERT INTO notes (body) VALUES (?)", (f"first {number}",))
        with database.translated():
            assert database.connection.execute("SELECT count(*) FROM notes").fetchone() == (10,)


def test_what_goes_wrong_in_the_background_is_said_next_and_kept_out(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with open_database(path) as database:
        with database.transaction([("INSERT INTO nothing VALUES (1)", ())], wait=False) as connection:
            connection.execute("INSERT INTO notes (body) VALUES ('half')")
        with pytest.raises(StoreError, match="nothing"), database.transaction():
            pass
        with database.transaction() as connection:
            assert connection.execute("SELECT count(*) FROM notes").fetchone() == (0,)


def test_a_store_held_too_long_is_busy(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with (
        open_database(path) as one,
        closing(Database(path, BOTH, timeout=0.05)) as two,
        one.transaction(),
        pytest.raises(StoreBusy, match="another process"),
        two.transaction(),
    ):
        pass


def test_a_full_disk_keeps_nothing_of_the_write(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with open_database(path) as database:
        # SQLite's own limit gives the very error that a full disk gives.
        database.connection.execute("PRAGMA max_page_count = 20")
        with pytest.raises(StoreFull, match="no room"), database.transaction() as connection:
            connection.executemany("INSERT INTO notes (body) VALUES (?)", [("x" * 1000,)] * 500)
        assert database.connection.execute("SELECT count(*) FROM notes").fetchone() == (0,)


def test_a_read_only_home_is_said_in_one_line(tmp_path: Path) -> None:
    let_in(tmp_path)
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o555)
    with pytest.raises(StoreReadOnly, match="cannot write the store") as refused:
        as_nobody(lambda: Database(locked / "store.db", BOTH) and None)
    assert "\n" not in str(refused.value)
    assert list(locked.iterdir()) == []


def test_a_disk_that_fills_up_is_said_in_one_line(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    if (
        os.geteuid() != 0
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", small], check=False).returncode
    ):
        pytest.skip("no small disk can be made here")
    try:
        with open_database(small / "store.db") as database:
            with pytest.raises(StoreFull, match="no room"), database.transaction() as connection:
                connection.executemany("INSERT INTO notes (body) VALUES (?)", [("x" * 1000,)] * 5000)
            assert database.connection.execute("SELECT count(*) FROM notes").fetchone() == (0,)
            assert database.integrity() == []
    finally:
        subprocess.run(["umount", small], check=True)
