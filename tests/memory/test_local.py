from __future__ import annotations

import sqlite3
import stat
from contextlib import closing
from pathlib import Path

from warmstart.config import load_settings
from warmstart.memory.local import LocalBackend
from warmstart.memory.values import View
from warmstart.redact.redactor import Redactor
from warmstart.sessions.sql_store import SQLiteSessionStore
from warmstart.testing.stores import said, session


def test_the_file_is_private_and_in_wal_mode(tmp_path: Path) -> None:
    path = tmp_path / "kept" / "memory.db"
    with closing(LocalBackend(path)) as backend:
        backend.store("mara", "key", "value")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with closing(sqlite3.connect(path)) as other:
            assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_nothing_is_made_before_it_is_used(tmp_path: Path) -> None:
    backend = LocalBackend(tmp_path / "memory.db")
    backend.at(View(project="/tides"))
    backend.close()
    assert list(tmp_path.glob("memory.db*")) == []


def test_by_default_it_is_in_the_store(home: Path) -> None:
    with closing(LocalBackend()) as backend:
        backend.store("mara", "key", "value")
    path = load_settings({}).store_path
    with closing(SQLiteSessionStore(path)) as store:
        store.append(session(), [said("m1", "hello")])
    with closing(LocalBackend(path)) as backend:
        assert backend.retrieve("mara", "key") is not None


def test_a_file_that_cannot_be_used_is_not_available(tmp_path: Path) -> None:
    (tmp_path / "other.db").write_text("no database, but long enough to be taken for one " * 50)
    assert LocalBackend(tmp_path / "other.db").is_available() is False
    assert LocalBackend(tmp_path).is_available() is False


def test_redaction_can_be_turned_off_or_be_ones_own(tmp_path: Path) -> None:
    secret = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    with closing(LocalBackend(tmp_path / "off.db", redact=False)) as backend:
        backend.store("mara", "note", secret)
        found = backend.retrieve("mara", "note")
        assert found is not None
        assert found.value == secret
    own = Redactor(patterns={"ship": "Nautilus"})
    with closing(LocalBackend(tmp_path / "own.db", redact=own)) as backend:
        backend.store("mara", "Nautilus", "the Nautilus")
        found = backend.retrieve("mara", "Nautilus")
        assert found is not None
        assert "Nautilus" not in found.key + found.value
        assert backend.delete("mara", "Nautilus") is True


def test_a_common_word_does_not_hide_what_is_old(tmp_path: Path) -> None:
    with closing(LocalBackend(tmp_path / "m.db", redact=False)) as backend:
        backend.store("mara", "pref_boat", "the user prefers the blue boat")
        for number in range(600):
            backend.store("mara", f"pref_{number}", f"the user prefers the {'blue' if number % 2 else 'red'} one")
        for number in range(600):
            backend.store("mara", f"boat_{number}", "a boat")
        assert backend.query("mara", "blue boat")[0].key == "pref_boat"


def test_a_key_written_very_often_keeps_others_findable(tmp_path: Path) -> None:
    with closing(LocalBackend(tmp_path / "m.db", redact=False)) as backend:
        backend.store("mara", "tide_old", "the tide table")
        for number in range(1500):
            backend.store("mara", "tide_now", f"the tide is at {number}")
        assert {entry.key for entry in backend.query("mara", "tide")} == {"tide_now", "tide_old"}
        with closing(sqlite3.connect(tmp_path / "m.db")) as connection:
            assert connection.execute("SELECT count(*) FROM memory_index").fetchone()[0] <= 2


def test_a_list_of_words_finds_each_and_a_question_about_something_else_nothing(tmp_path: Path) -> None:
    with closing(LocalBackend(tmp_path / "m.db")) as backend:
        for key, value in {"pref_editor": "vim", "pref_shell": "fish", "home_city": "Lisbon", "pet": "a cat"}.items():
            backend.store("mara", key, value)
        for number in range(40):
            backend.store("mara", f"note_{number}", f"filler of type {number}")
        found = {entry.key for entry in backend.query("mara", "editor shell city cat unknown")}
        assert found == {"pref_editor", "pref_shell", "home_city", "pet"}
        assert backend.query("mara", "what blood type does grandmother have") == []


def test_a_former_value_finds_the_current_one_until_it_is_deleted(tmp_path: Path) -> None:
    with closing(LocalBackend(tmp_path / "m.db")) as backend:
        backend.store("mara", "billing_db", "billing stores its data in MySQL")
        backend.store("mara", "billing_db", "billing stores its data in PostgreSQL")
        for number in range(100):
            backend.store("mara", f"note_{number}", "something else")
        for _ in range(2):  # the second time by the index
            found = backend.query("mara", "are we still on MySQL?")
            assert [entry.value for entry in found] == ["billing stores its data in PostgreSQL"]
            backend._update_index("mara")
        backend.delete("mara", "billing_db")
        assert backend.query("mara", "are we still on MySQL?") == []


def test_the_order_of_writes_stays_when_the_index_catches_up(tmp_path: Path) -> None:
    with closing(LocalBackend(tmp_path / "m.db", redact=False)) as backend:
        for number in range(100):
            backend.store("mara", f"note_{number}", f"value {number}")
        for number in (3, 1, 2):
            backend.store("mara", f"note_{number}", f"another {number}")
        backend.store("mara", "note_50", "value 50")  # the same again
        order = ["note_50", "note_2", "note_1", "note_3", "note_99"]
        assert backend.list_keys("mara")[:5] == [entry.key for entry in backend.query("mara", "", 5)] == order
        former = [version.value for version in backend.history("mara", "note_3")]
        backend.query("mara", "another")  # which is when it does
        with closing(sqlite3.connect(tmp_path / "m.db")) as connection:
            assert connection.execute("SELECT count(*) FROM memory_index").fetchone() == (100,)
        assert backend.list_keys("mara")[:5] == [entry.key for entry in backend.query("mara", "", 5)] == order
        assert len(backend.list_keys("mara")) == 100
        assert {entry.key for entry in backend.query("mara", "another")} == {"note_1", "note_2", "note_3"}
        assert [entry.key for entry in backend.query("mara", "nother")] == ["note_2", "note_1", "note_3"]
        assert [version.value for version in backend.history("mara", "note_3")] == former == ["another 3", "value 3"]
        backend.store("mara", "note_3", "a third")
        assert [version.value for version in backend.history("mara", "note_3")] == ["a third", *former]
        assert backend.list_keys("mara")[:2] == ["note_3", "note_50"]


def test_a_common_word_alone_answers_no_question_and_a_telling_one_does(tmp_path: Path, subtests) -> None:
    for others in [0, 60, 700]:
        path = tmp_path / f"{others}.db"
        with subtests.test(others=others), closing(LocalBackend(path, redact=False)) as backend:
            for key, value in {"pref_editor": "vim with the gruvbox theme", "pet": "a cat called Miso"}.items():
                backend.store("mara", key, value)
            for number in range(others):
                backend.store("mara", f"note_{number}", f"the user prefers type {number} work in the morning")
            for question in ("what work does grandmother prefer", "what type of blood does grandmother have"):
                assert backend.query("mara", question) == []
            for question, key in {
                "which theme": "pref_editor",
                "what is my cat called": "pet",
                "Miso?": "pet",
            }.items():
                assert [entry.key for entry in backend.query("mara", question)] == [key]
