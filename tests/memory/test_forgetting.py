"""What is deleted is gone: from the answers, from the tables, and from the bytes of the file."""

from __future__ import annotations

import random
import resource
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import product
from pathlib import Path
from tempfile import mkdtemp

from tests.memory.conftest import DATABASES
from warmstart.memory.local import LocalBackend
from warmstart.memory.sql import SQLBackend
from warmstart.storage.sqlite import SQLiteDatabase

TABLES = ("memories", "memory_history", "memory_deletions", "memory_words", "memory_indexed", "memory_users")


def rows(backend: SQLBackend) -> str:
    run = backend._held.database.connection.execute
    return "".join(str(row) for table in TABLES for row in run(f"SELECT * FROM {table}").fetchall())


def written(folder: Path) -> bytes:
    """All that the files of a store hold."""
    return b"".join(path.read_bytes() for path in sorted(folder.glob("m.db*")))


def fill(backend: SQLBackend, user: str = "mara") -> None:
    for number in range(70):
        backend.store(user, f"note_{number}", f"filler {number}")


def test_an_entry_leaves_nothing_in_any_table_but_that_it_was_there(fresh, subtests) -> None:
    for database in DATABASES:
        with subtests.test(database=database), fresh(database) as backend:
            fill(backend)
            backend.store("mara", "animal", "quokkaesque", {"session": "numbatlike"})
            backend.query("mara", "quokkaesque")
            backend.store("mara", "animal", "wombatlike")
            backend.query("mara", "wombatlike")
            assert all(word in rows(backend) for word in ("quokkaesque", "wombatlike", "numbatlike"))
            assert backend.delete("mara", "animal")
            kept = rows(backend)
            assert not [word for word in ("quokka", "wombat", "numbat") if word in kept]
            assert kept.count("animal") == 1


def test_the_bytes_of_an_entry_are_gone_from_the_file(tmp_path: Path, subtests) -> None:
    for length, indexed in product([1, 3000], [True, False]):
        with subtests.test(length=length, indexed=indexed):
            folder = Path(mkdtemp(dir=tmp_path))
            with closing(LocalBackend(folder / "m.db")) as backend:
                fill(backend)
                backend.store("mara", "animal", "quokkaesque " + "and so on " * length)
                if indexed:
                    fill(backend)
                    backend.query("mara", "quokkaesque")
                backend.store("mara", "animal", "wombatlike " + "or so " * length)
                if indexed:
                    fill(backend)
                    backend.query("mara", "wombatlike")
                assert all(word in written(folder) for word in (b"quokkaesque", b"wombatlike"))
                assert backend.delete("mara", "animal")
                left = written(folder)
                assert not [word for word in (b"quokka", b"wombat") if word in left]
                assert len(backend.list_keys("mara")) == 70


def test_what_expired_leaves_no_bytes_either(tmp_path: Path) -> None:
    with closing(LocalBackend(tmp_path / "m.db")) as backend:
        backend.store("mara", "animal", "quokkaesque", {"expires_at": 1})
        assert b"quokkaesque" in written(tmp_path)
        backend.expire()
        assert b"quokka" not in written(tmp_path)


def test_what_another_reader_holds_is_gone_when_he_is_done(tmp_path: Path) -> None:
    with closing(LocalBackend(tmp_path / "m.db")) as backend:
        backend.store("mara", "animal", "quokkaesque")
        with closing(sqlite3.connect(tmp_path / "m.db", isolation_level=None)) as reader:
            reader.execute("BEGIN")
            assert reader.execute("SELECT count(*) FROM memories WHERE value = 'quokkaesque'").fetchone() == (1,)
            assert backend.delete("mara", "animal")
            assert b"quokkaesque" in written(tmp_path)
            reader.execute("ROLLBACK")
            backend.delete("mara", "nothing")
            assert b"quokka" not in written(tmp_path)


def test_nothing_of_many_users_is_left_once_the_store_is_vacuumed(tmp_path: Path) -> None:
    """SQLite leaves a copy in a page now and then as it divides it, which only rewriting the file removes."""
    choose = random.Random(6)
    gone: set[str] = set()
    there: dict[tuple[str, str], list[str]] = {}
    with closing(LocalBackend(tmp_path / "m.db", redact=False)) as backend:
        for _ in range(1500):
            mark = "zq" + "".join(choose.choices("bcdfghjklmnp", k=10))
            place = f"user{choose.randrange(4)}", f"note_{choose.randrange(500)}"
            if place in there and choose.random() < 0.3:
                assert backend.delete(*place)
                gone.update(there.pop(place))
            else:
                backend.store(*place, f"the {mark} " + "word " * choose.choice((1, 20, 400)))
                there.setdefault(place, []).append(mark)
            if choose.random() < 0.05:
                assert backend.query(place[0], "word")
        backend.forget_user("user0")
        gone.update(mark for place, marks in there.items() if place[0] == "user0" for mark in marks)
        kept = rows(backend)
        assert not [mark for mark in gone if mark[:-1] in kept]
        database = backend._held.database
        assert isinstance(database, SQLiteDatabase)
        database.vacuum()
        left = written(tmp_path)
        assert not [mark for mark in gone if mark.encode() in left]
        for (user, key), marks in there.items():
            found = backend.retrieve(user, key)
            assert (found is None) == (user == "user0")
            assert found is None or marks[-1] in found.value


def test_a_user_is_forgotten_with_his_name(fresh, subtests) -> None:
    for database in DATABASES:
        with subtests.test(database=database), fresh(database) as backend:
            fill(backend, "zelda of the harbour")
            backend.store("zelda of the harbour", "note_0", "quokka")
            backend.store("ben", "note", "filler")
            backend.delete("zelda of the harbour", "note_1")
            backend.query("zelda of the harbour", "filler")
            assert backend.forget_user("zelda of the harbour") == 69
            kept = rows(backend)
            assert not [word for word in ("zelda", "quokka", "note_") if word in kept]
            assert backend.users() == ["ben"]
            assert [entry.value for entry in backend.query("ben", "filler")] == ["filler"]
            assert backend.forget_user("zelda of the harbour") == backend.forget_user("nobody") == 0


def test_a_user_who_comes_back_is_another_one(fresh, subtests) -> None:
    for database in DATABASES:
        with subtests.test(database=database), fresh(database) as backend, closing(backend.reopen()) as other:
            for user in ("ben", "mara"):
                backend.store(user, "pet", f"a wombat of {user}")
                assert other.retrieve(user, "pet") is not None
            backend.forget_user("mara")
            backend.store("cleo", "pet", "a numbat")
            other.store("mara", "pet", "a quokka")  # by the number that she had, as far as this one knows
            for each in (backend, other):
                assert [entry.value for entry in each.query("mara", "quokka")] == ["a quokka"]
                assert [version.value for version in each.history("mara", "pet")] == ["a quokka"]
                assert [entry.value for entry in each.query("cleo", "numbat")] == ["a numbat"]
            numbers = backend._held.database.connection.execute("SELECT user_id, number FROM memory_users").fetchall()
            assert {user: number for user, number in numbers if user} == {"ben": 1, "cleo": 3, "mara": 4}
            other.forget_user("mara")
            assert backend.retrieve("mara", "pet") is None
            assert backend.query("mara", "quokka") == backend.list_keys("mara") == backend.history("mara", "pet") == []


def test_the_number_of_the_last_user_is_not_given_again(fresh, subtests) -> None:
    for database in DATABASES:
        with subtests.test(database=database), fresh(database) as backend:
            for _ in range(3):
                backend.store("visitor", "pet", "a wombat")
                backend.forget_user("visitor")
            run = backend._held.database.connection.execute
            assert [tuple(row) for row in run("SELECT number, user_id FROM memory_users").fetchall()] == [(3, None)]
            backend.store("mara", "pet", "a quokka")
            assert run("SELECT number FROM memory_users WHERE user_id = 'mara'").fetchone()[0] == 4


def test_a_number_is_not_given_twice_when_the_newest_are_deleted(fresh, subtests) -> None:
    for database in DATABASES:
        with subtests.test(database=database), fresh(database) as backend:
            backend.store("mara", "old", "wombat")
            for number in range(3):
                backend.store("mara", "new", f"quokka {number}")
                backend.query("mara", "quokka")
                backend.store("mara", "new", f"numbat {number}")
                assert backend.delete("mara", "new")
                assert backend.query("mara", "quokka") == backend.query("mara", "numbat") == []
            backend.store("mara", "new", "bilby")
            run = backend._held.database.connection.execute
            newest = run("SELECT max(id) FROM memories WHERE scope >= 0").fetchone()[0]
            assert newest - (1 << 40) == 8
            assert backend.list_keys("mara") == ["new", "old"]


@contextmanager
def full_disk(least: int) -> Iterator[None]:
    """In which no file can be written beyond so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (least, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def large(path: Path) -> LocalBackend:
    """A memory in a file that is larger than its log."""
    with closing(LocalBackend(path, redact=False)) as backend:
        for number in range(200):
            backend.store("mara", f"note_{number}", f"filler {number} " * 200)
        backend.query("mara", "filler")
    return LocalBackend(path, redact=False)


def test_what_is_forgotten_on_a_full_disk_is_forgotten_and_the_file_is_let_go(tmp_path: Path) -> None:
    backend = large(tmp_path / "m.db")
    assert backend.retrieve("mara", "note_199") is not None
    with full_disk(300_000):
        assert backend.delete("mara", "note_199") is True
        assert backend.retrieve("mara", "note_199") is None
        assert b"filler 199" in written(tmp_path)
        backend.close()
        assert backend._held.is_open is False
    assert backend.retrieve("mara", "note_199") is None
    backend.close()
    assert b"filler 199" not in written(tmp_path)


def test_traces_are_removed_when_there_is_room_again(tmp_path: Path) -> None:
    with closing(large(tmp_path / "m.db")) as backend:
        with full_disk(300_000):
            assert backend.delete("mara", "note_199") is True
        assert b"filler 199" in written(tmp_path)
        assert backend.delete("mara", "nothing") is False
        assert b"filler 199" not in written(tmp_path)


def test_a_question_is_answered_where_the_index_cannot_be_written(tmp_path: Path) -> None:
    with closing(large(tmp_path / "m.db")) as backend:
        for number in range(80):
            backend.store("mara", f"word_{number}", "quokka")
        with full_disk(4096):
            assert len(backend.query("mara", "quokka", 100)) == 80
