"""What is asked of memory in SQL: from a view, beside what has expired, by a key, in many words."""

from __future__ import annotations

import time
from contextlib import closing
from itertools import product
from pathlib import Path

from tests.memory.conftest import DATABASES
from warmstart.memory.local import LocalBackend
from warmstart.memory.sql import SQLBackend
from warmstart.memory.values import View

SECRET = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def catch_up(backend: SQLBackend) -> None:
    """So much that the index is brought up to date by the next question."""
    for number in range(70):
        backend.store("mara", f"filler_{number}", "nothing")
    backend.query("mara", "nothing")


def test_other_projects_do_not_use_up_the_limit(fresh, subtests) -> None:
    for database, indexed in product(DATABASES, [True, False]):
        with subtests.test(database=database, indexed=indexed), fresh(database) as backend:
            backend.store("mara", "test_command", "make check", {"scope": "project", "project": "/mine"})
            for number in range(41 if not indexed else 250):
                backend.store(
                    "mara", "test_command", f"tox {number}", {"scope": "project", "project": f"/other{number}"}
                )
            if indexed:
                catch_up(backend)
            here = backend.at(View(project="/mine"))
            for question in ("what is the test command", "test command", "comman", "ommand", "command"):
                assert [entry.value for entry in here.query("mara", question)] == ["make check"], question


def test_what_holds_everywhere_is_found_beside_many_projects(fresh, subtests) -> None:
    for database in DATABASES:
        with subtests.test(database=database), fresh(database) as backend:
            backend.store("mara", "lint_command", "ruff")
            for number in range(60):
                backend.store(
                    "mara", "lint_command", f"flake {number}", {"scope": "project", "project": f"/other{number}"}
                )
            for view in (View(), View(project="/mine")):
                assert [entry.value for entry in backend.at(view).query("mara", "the command to lint")] == ["ruff"]
            assert backend.at(View(project="/other7")).query("mara", "lint command")[0].value == "flake 7"


def test_what_is_hidden_by_a_narrower_scope_takes_no_place(fresh, subtests) -> None:
    for database in DATABASES:
        with subtests.test(database=database), fresh(database) as backend:
            backend.store("mara", "harbour", "the tide")
            for number in range(250):
                backend.store("mara", f"port_{number}", "the tide")
                backend.store("mara", f"port_{number}", "nothing", {"scope": "project", "project": "/mine"})
            catch_up(backend)
            here = backend.at(View(project="/mine"))
            began = time.perf_counter()
            assert [entry.key for entry in here.query("mara", "tide")] == ["harbour"]
            assert time.perf_counter() - began < 3  # also on a server that has no statistics of the tables yet


def test_expired_entries_take_no_place(fresh, subtests) -> None:
    for database in DATABASES:
        with subtests.test(database=database), fresh(database) as backend:
            backend.store("mara", "pref_editor", "helix")
            for number in range(60):
                backend.store("mara", f"editor_{number}", "the editor", {"expires_at": time.time() - 1})
            for question in ("editor", "which editor", "dito"):
                assert [entry.key for entry in backend.query("mara", question)] == ["pref_editor"], question


def test_a_part_of_a_word_is_looked_for_in_what_is_seen(tmp_path: Path) -> None:
    with closing(LocalBackend(tmp_path / "m.db", redact=False)) as backend:
        backend.store("mara", "test_command", "make quokkaesque")
        for number in range(3100):
            backend.store("mara", f"note_{number}", "x", {"scope": "project", "project": "/other"})
        assert [entry.key for entry in backend.at(View()).query("mara", "uokkaesq")] == ["test_command"]


def test_a_matching_key_ranks_first(fresh, subtests) -> None:
    for database in DATABASES:
        with subtests.test(database=database), fresh(database) as backend:
            backend.store("mara", "editor", "helix")
            for number in range(250):
                backend.store("mara", f"note_{number}", "the editor")
            for question in ("editor", " editor\n"):
                found = [entry.key for entry in backend.query("mara", question, 3)]
                assert found[0] == "editor", question
                assert len(set(found)) == 3, question


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


def test_a_key_that_is_kept_as_it_is_elsewhere_does_not_hide_the_one_here(tmp_path: Path) -> None:
    with closing(LocalBackend(tmp_path / "m.db", redact=False)) as plain:
        plain.store("mara", SECRET, "one", {"scope": "project", "project": "/other"})
    with closing(LocalBackend(tmp_path / "m.db")) as backend:
        here = backend.at(View(project="/mine"))
        here.store("mara", SECRET, "another")
        found = here.retrieve("mara", SECRET)
        assert found is not None
        assert found.value == "another"


def test_unknown_words_do_not_hide_a_match(fresh, subtests) -> None:
    for database, indexed in product(DATABASES, [True, False]):
        with subtests.test(database=database, indexed=indexed), fresh(database) as backend:
            backend.store("mara", "fruit", "a mangosteen")
            for number in range(30):
                backend.store(
                    "mara", f"note_{number}", "common words of all notes that are written every day at sea by mara"
                )
            if indexed:
                catch_up(backend)
            unknown = " ".join(f"un{chr(97 + number)}known" for number in range(20))
            assert [entry.key for entry in backend.query("mara", f"{unknown} mangosteen")] == ["fruit"]
            common = "common words notes written every day sea mara one two three four five six seven eight"
            assert "fruit" in [entry.key for entry in backend.query("mara", f"{common} mangosteen", 40)]
            assert backend.query("mara", f"un7known8x {unknown} fruit9mangosteen")[0].key == "fruit"


def test_words_that_only_others_see_take_no_place_either(fresh, subtests) -> None:
    for database in DATABASES:
        with subtests.test(database=database), fresh(database) as backend:
            names = [f"{first}{second}zon" for first in "bcdfg" for second in "aeiou"]
            backend.store("mara", "fruit", "a mangosteen")
            backend.store("mara", "fruit_again", "a mangosteen")
            for name in names:
                backend.store("mara", f"note_{name}", name, {"scope": "project", "project": "/other"})
            asked = " ".join([*names, "mangosteen"])
            assert {entry.key for entry in backend.at(View()).query("mara", asked)} == {"fruit", "fruit_again"}


def test_a_large_limit_returns_all_matches(fresh, subtests) -> None:
    for database in DATABASES:
        with subtests.test(database=database), fresh(database) as backend:
            for number in range(300):
                backend.store("mara", f"editor_{number}", f"vim {number}")
            for question in ("editor", "the editor", "edit", "editor vim", "ditor"):
                found = backend.query("mara", question, limit=300)
                assert len({entry.key for entry in found}) == 300, question
                assert len(backend.query("mara", question, limit=250)) == 250, question


def test_a_beginning_finds_more_than_a_few_words(fresh, subtests) -> None:
    for database in DATABASES:
        with subtests.test(database=database), fresh(database) as backend:
            for first in "abcdefgh":
                for second in "xyzuvw":
                    backend.store("mara", f"tide{first}{second}", "nothing")
            assert len(backend.query("mara", "tide", limit=48)) == 48


def test_a_word_alone_also_finds_what_begins_so_after_it(fresh, subtests) -> None:
    for database in DATABASES:
        with subtests.test(database=database), fresh(database) as backend:
            backend.store("mara", "note", "a pref of mara's")
            backend.store("mara", "preference_editor", "helix")
            assert [entry.key for entry in backend.query("mara", "pref")] == ["note", "preference_editor"]
            assert [entry.key for entry in backend.query("mara", "pref", 1)] == ["note"]
            assert [entry.key for entry in backend.query("mara", "which pref is it")] == ["note"]


def test_capitals_of_any_alphabet_are_found_in_the_middle_of_a_word(fresh, subtests) -> None:
    for database in DATABASES:
        with subtests.test(database=database), fresh(database) as backend:
            backend.store("mara", "one", "STRASSENGEBÜHREN der brÜcken")
            backend.store("mara", "two", "nothing")
            backend.store("mara", "οδόςνόμος", "αποδοσμένος")
            for question in ("engebühr", "ENGEBÜHR", "assengeb", "ΔΟΣ", "ücke"):
                expected = "οδόςνόμος" if question == "ΔΟΣ" else "one"
                assert [entry.key for entry in backend.query("mara", question)] == [expected], question


def test_a_sign_finds_all_that_have_it_and_first_its_own_key(fresh, subtests) -> None:
    for database in DATABASES:
        with subtests.test(database=database), fresh(database) as backend:
            backend.store("mara", "🦀", "a crab")
            backend.store("mara", "language", "Rust 🦀")
            assert [entry.key for entry in backend.query("mara", "🦀")] == ["🦀", "language"]


def test_an_entry_written_over_is_found_once_by_its_key(fresh, subtests) -> None:
    for database in DATABASES:
        with subtests.test(database=database), fresh(database) as backend:
            for number in range(80):
                backend.store("mara", f"note_{number}", "filler")
            backend.store("mara", "note_3", "another filler")
            assert [entry.key for entry in backend.query("mara", "note_3")].count("note_3") == 1
            assert backend.query("mara", "note_3")[0].value == "another filler"
