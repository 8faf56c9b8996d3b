from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path
from threading import Timer

import pytest
from tests.unprivileged import as_nobody, let_in

from warmstart.errors import StoreBusy, StoreCorrupt, StoreError, StoreFull, StoreReadOnly, StoreTooNew
from warmstart.memory.sql import MIGRATIONS as MEMORY
from warmstart.sessions.tables import MIGRATIONS as SESSIONS
from warmstart.storage.database import Migration
from warmstart.storage.sqlite import SQLiteDatabase, use_wal

FOLDER = Path(__file__).parent / "migrations"
FIRST = (Migration("test/0001_notes", FOLDER),)
BOTH = (*FIRST, Migration("test/0002_dates", FOLDER))


def open_database(path: Path, migrations: tuple[Migration, ...] = BOTH) -> closing[SQLiteDatabase]:
    return closing(SQLiteDatabase(path, migrations))


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
    path = tmp_path / "store.db"
    with open_database(path, FIRST) as database, database.transaction() as connection:
        connection.execute("INSERT INTO notes VALUES ('kept')")
    with pytest.raises(StoreError):
        SQLiteDatabase(path, (*FIRST, Migration("test/0002_broken", FOLDER)))
    with open_database(path, FIRST) as database:
        assert database.connection.execute("SELECT body FROM notes").fetchall() == [("kept",)]


def test_a_store_from_a_newer_version_is_refused_and_untouched(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    open_database(path).thing.close()
    before = path.read_bytes()
    with pytest.raises(StoreTooNew, match=r"newer Warmstart.*0002_dates"):
        SQLiteDatabase(path, FIRST)
    assert path.read_bytes() == before


def test_a_script_may_have_triggers_comments_and_a_condition(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    more = [Migration(f"test/{name}", FOLDER) for name in ("0003_odd", "0004_conditional")]
    with open_database(path, (*BOTH, more[0])) as database, database.transaction() as connection:
        connection.execute("INSERT INTO odd DEFAULT VALUES")
        assert connection.execute("SELECT odd.body, notes.body FROM odd, notes").fetchall() == [("a;b;", "a;b")]
    for name, applied in (("unwanted", False), ("wanted", True)):
        path = tmp_path / f"{name}.db"
        with open_database(path) as database, database.transaction() as connection:
            connection.execute("INSERT INTO notes (body) VALUES (?)", (name,))
        with open_database(path, (*BOTH, more[1])) as database:
            bodies = [row[0] for row in database.connection.execute("SELECT body FROM notes")]
        assert ("applied" in bodies) is applied


def test_another_package_may_migrate_later(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    other = (*BOTH, Migration("other/0001_others", FOLDER))
    with open_database(path) as database:
        database.migrate(other)
        seen: list[str] = []
        database.connection.set_trace_callback(seen.append)
        database.migrate(other)
        assert len(seen) == 2  # and no transaction
        database.connection.set_trace_callback(None)
        with database.transaction() as connection:
            connection.execute("INSERT INTO others VALUES (1)")
            database.migrate((*other, Migration("other/0002_no_others", FOLDER)))
        with pytest.raises(StoreTooNew, match="other/0002"):
            database.migrate(other)
    with closing(sqlite3.connect(path)) as connection:
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    assert "notes" in tables
    assert "others" not in tables
    # Packages migrate on their own.
    path = tmp_path / "packages.db"
    open_database(path, SESSIONS).thing.close()
    with open_database(path, MEMORY) as database:
        assert database.connection.execute("SELECT count(*) FROM memory_entries, sessions").fetchone() == (0,)


def test_a_file_that_is_not_a_database_is_rejected_and_unchanged(tmp_path: Path, subtests: pytest.Subtests) -> None:
    path = tmp_path / "store.db"
    for content in (b"not a database, but long enough to look like one" * 50, b"SQLite format 3\0" + b"\xff" * 4080):
        with subtests.test(content[:20]):
            path.write_bytes(content)
            with pytest.raises(StoreCorrupt, match="damaged or is not a store"):
                SQLiteDatabase(path, BOTH)
            assert path.read_bytes() == content


def test_another_programs_database_is_refused_and_untouched(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    before = path.read_bytes()
    with pytest.raises(StoreCorrupt, match="not a Warmstart store"):
        SQLiteDatabase(path, BOTH)
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


def test_a_folder_or_a_file_in_the_way_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreCorrupt, match="is not a file"):
        SQLiteDatabase(tmp_path, BOTH)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError):
        SQLiteDatabase(tmp_path / "file" / "store.db", BOTH)


def test_a_file_that_is_not_ours_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("these are somebody's notes, and long enough to be mistaken for a database header")
    path.chmod(0o644)
    with pytest.raises(StoreCorrupt):
        SQLiteDatabase(path, BOTH)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(StoreCorrupt, match="is not a file"):
        SQLiteDatabase(pipe, BOTH)


def test_a_vacuum_that_leaves_old_pages_says_so(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with open_database(path) as one, closing(SQLiteDatabase(path, BOTH, timeout=0.05)) as two:
        with one.transaction() as connection:
            connection.execute("INSERT INTO notes (body) VALUES ('x')")
        one.connection.execute("BEGIN")
        one.connection.execute("SELECT * FROM notes").fetchall()
        with pytest.raises(StoreBusy):
            two.vacuum()
        one.connection.execute("ROLLBACK")
        two.vacuum()


def test_a_store_that_others_can_read_is_made_private(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.touch(0o644)
    open_database(path).thing.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_commit_may_run_in_the_background(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with open_database(path) as database:
        for number in range(5):
            last = [("INSERT INTO notes (body) VALUES (?)", (f"last {number}",))]
            with database.transaction(last, wait=False) as connection:
                connection.execute("INSERT INTO notes (body) VALUES (?)", (f"first {number}",))
        with database.translate_errors():
            assert database.connection.execute("SELECT count(*) FROM notes").fetchone() == (10,)


def test_an_error_in_the_background_is_raised_by_the_next_use_and_rolled_back(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with open_database(path) as database:
        with database.transaction([("INSERT INTO nothing VALUES (1)", ())], wait=False) as connection:
            connection.execute("INSERT INTO notes (body) VALUES ('half')")
        with pytest.raises(StoreError, match="nothing"), database.transaction():
            pass
        with database.transaction() as connection:
            assert connection.execute("SELECT count(*) FROM notes").fetchone() == (0,)


def test_a_store_locked_for_too_long_is_busy(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with (
        open_database(path) as one,
        closing(SQLiteDatabase(path, BOTH, timeout=0.05)) as two,
        one.transaction(),
        pytest.raises(StoreBusy, match="another process"),
        two.transaction(),
    ):
        pass


def test_a_full_disk_rolls_back_the_write(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with open_database(path) as database:
        # SQLite's own limit gives the very error that a full disk gives.
        database.connection.execute("PRAGMA max_page_count = 20")
        with pytest.raises(StoreFull, match="no space"), database.transaction() as connection:
            connection.executemany("INSERT INTO notes (body) VALUES (?)", [("x" * 1000,)] * 500)
        assert database.connection.execute("SELECT count(*) FROM notes").fetchone() == (0,)


def test_a_read_only_home_is_one_line(tmp_path: Path) -> None:
    let_in(tmp_path)
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o555)
    with pytest.raises(StoreReadOnly, match="cannot write the store") as refused:
        as_nobody(lambda: SQLiteDatabase(locked / "store.db", BOTH) and None)
    assert "\n" not in str(refused.value)
    assert list(locked.iterdir()) == []


def test_a_full_small_disk_is_one_line(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    if (
        os.geteuid() != 0
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", small], check=False).returncode
    ):
        pytest.skip("no small disk can be made here")
    try:
        with open_database(small / "store.db") as database:
            with pytest.raises(StoreFull, match="no space"), database.transaction() as connection:
                connection.executemany("INSERT INTO notes (body) VALUES (?)", [("x" * 1000,)] * 5000)
            assert database.connection.execute("SELECT count(*) FROM notes").fetchone() == (0,)
            assert database.integrity() == []
    finally:
        subprocess.run(["umount", small], check=True)


def test_a_new_store_waits_for_the_process_that_creates_it(tmp_path: Path) -> None:
    """SQLite's busy timeout does not cover the switch to WAL mode, which fails at once beside another writer."""
    first = sqlite3.connect(tmp_path / "store.db", isolation_level=None, check_same_thread=False)
    first.execute("BEGIN IMMEDIATE")
    release = Timer(0.2, first.execute, ["COMMIT"])
    release.start()
    with closing(first), closing(SQLiteDatabase(tmp_path / "store.db", SESSIONS)) as store:
        assert store.integrity() == []
        release.join()


def test_apsw_waits_for_another_process_to_switch_to_wal_mode(tmp_path: Path) -> None:
    apsw = pytest.importorskip("apsw")
    code = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('BEGIN IMMEDIATE'); print(); input()"
    command = [sys.executable, "-c", code, tmp_path / "vectors.db"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with closing(apsw.Connection(str(tmp_path / "vectors.db"))) as connection:
            with pytest.raises(apsw.BusyError):
                use_wal(connection.execute, timeout=0.05)
            other.communicate(b"\n")
            use_wal(connection.execute)
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
