"""What is asked of memory in SQL: from a view, beside what has expired, by a key, in many words."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from pathlib import Path

from tests.memory.conftest import DATABASES
from tests.waiting import is_quicker
from warmstart.memory.local import LocalBackend
from warmstart.memory.values import View

SECRET = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def test_what_is_hidden_by_a_narrower_scope_takes_no_place(fresh, subtests) -> None:
    for database in DATABASES:
        with subtests.test(database=database), fresh(database) as backend:
            backend.store("mara", "harbour", "the tide")
            for number in range(250):
                backend.store("mara", f"port_{number}", "the tide")
                backend.store("mara", f"port_{number}", "nothing", {"scope": "project", "project": "/mine"})
            for number in range(70):  # so much that the index is brought up to date by the next question
                backend.store("mara", f"filler_{number}", "nothing")
            backend.query("mara", "nothing")
            here = backend.at(View(project="/mine"))
            assert [entry.key for entry in here.query("mara", "tide")] == ["harbour"]
            # Also on a server that has no statistics of the tables yet.
            assert is_quicker(partial(here.query, "mara", "tide"), 3)


def test_a_part_of_a_word_is_looked_for_in_what_is_seen(tmp_path: Path) -> None:
    with closing(LocalBackend(tmp_path / "m.db", redact=False)) as backend:
        backend.store("mara", "test_command", "make quokkaesque")
        for number in range(3100):
            backend.store("mara", f"note_{number}", "x", {"scope": "project", "project": "/other"})
        assert [entry.key for entry in backend.at(View()).query("mara", "uokkaesq")] == ["test_command"]


def test_a_key_that_is_asked_for_is_the_one_that_is_seen(fresh, subtests) -> None:
    for database in DATABASES:
        with subtests.test(database=database), fresh(database) as backend:
            backend.store("mara", "editor", "helix")
            backend.store("mara", "editor", "vim", {"scope": "project", "project": "/tides"})
            backend.store("mara", "editor", "nano", {"scope": "project", "project": "/moon"})
            for number in range(50):
                backend.store("mara", f"note_{number}", "the editor")
            here = backend.at(View(project="/tides")).query("mara", "editor", 3)
            assert (here[0].value, len(here)) == ("vim", 3)
            assert "nano" not in [entry.value for entry in here]
            assert [entry.value for entry in backend.query("mara", "editor", 3)] == ["helix", "nano", "vim"]


def test_a_key_with_a_secret_is_found_by_the_key_that_was_given(fresh, subtests) -> None:
    for database in DATABASES:
        with subtests.test(database=database), fresh(database) as backend:
            backend.store("mara", SECRET, "a token")
            for number in range(50):
                backend.store("mara", f"note_{number}", "redacted github token")
            found = backend.retrieve("mara", SECRET)
            assert found is not None
            assert found.value == "a token"
            assert SECRET not in found.key
            assert backend.query("mara", SECRET, 1)[0].value == "a token"
            assert [version.value for version in backend.history("mara", SECRET)] == ["a token"]
            assert backend.delete("mara", SECRET)


def test_capitals_of_any_alphabet_are_found_in_the_middle_of_a_word(fresh, subtests) -> None:
    for database in DATABASES:
        with subtests.test(database=database), fresh(database) as backend:
            backend.store("mara", "one", "STRASSENGEBÜHREN der brÜcken")
            backend.store("mara", "two", "nothing")
            backend.store("mara", "οδόςνόμος", "αποδοσμένος")
            for question in ("engebühr", "ENGEBÜHR", "assengeb", "ΔΟΣ", "ücke"):
                expected = "οδόςνόμος" if question == "ΔΟΣ" else "one"
                assert [entry.key for entry in backend.query("mara", question)] == [expected], question
