"""The contract of a memory backend as a test suite.

Subclass it and give it a fresh backend:

    class TestMyBackend(MemoryBackendSuite):
        @pytest.fixture
        def backend(self, tmp_path):
            with closing(MyBackend(tmp_path / "memory")) as fresh:
                yield fresh

A backend that does less says so in the class: `keeps = False` if it stores nothing, `remembers = False` if it has no
history, `scopes = False` if it has no scopes. If it has a method `reopen()`, which returns another backend on the same
data, the suite tests that too.
"""

from __future__ import annotations

import time
from contextlib import closing
from threading import Thread
from typing import Any, ClassVar

import pytest

from warmstart.errors import InvalidEntry
from warmstart.memory.backend import MemoryBackend
from warmstart.memory.values import MemoryEntry, Version, View

USER, OTHER = "suite-user", "suite-other"

HOSTILE = (
    *('"', "'; DROP TABLE memories; --", "key:value AND", "NEAR(a b)", "a* OR", "(((", "^x", "%", "_", "\\", "a\0b"),
    *("\ud800", "-", "{key value}: x", "*", "AND OR NOT", "🦀🦀", "x" * 5000, "word " * 3000, "\n\t", "the of and"),
)


def _pass(moment: float) -> None:
    """Wait until the clock has moved on from this moment."""
    while time.time() < moment + 0.01:
        time.sleep(0.001)


def _get(backend: MemoryBackend, key: str, user: str = USER) -> MemoryEntry:
    """The entry of a key, which must exist."""
    found = backend.retrieve(user, key)
    assert found is not None, key
    return found


class MemoryBackendSuite:
    """Every backend passes all of these."""

    keeps: ClassVar = True
    remembers: ClassVar = True
    scopes: ClassVar = True

    def _needs(self, *abilities: str) -> None:
        for ability in ("keeps", *abilities):
            if not getattr(self, ability):
                pytest.skip(f"this backend says {ability} = False")

    # -- what it is

    def test_the_backend_describes_itself(self, backend: MemoryBackend) -> None:
        assert isinstance(backend, MemoryBackend)
        assert backend.backend_name
        assert backend.is_cloud in (True, False)
        assert backend.is_available() is True

    # -- store and retrieve

    def test_a_store_is_accepted(self, backend: MemoryBackend) -> None:
        assert backend.store(USER, "pref_editor", "vim") is True

    def test_a_value_is_returned_unchanged(self, backend: MemoryBackend) -> None:
        self._needs()
        before = time.time()
        metadata = {"session": "s-1", "tags": ["a", "b"], "deep": {"n": 1.5, "none": None, "yes": True}}
        assert backend.store(USER, "pref_editor", "vim, with\n  spaces  — ünïcode 東京 🦀", metadata)
        found = backend.retrieve(USER, "pref_editor")
        assert isinstance(found, MemoryEntry)
        assert (found.key, found.value) == ("pref_editor", "vim, with\n  spaces  — ünïcode 東京 🦀")
        assert found.user_id == USER
        assert {name: found.metadata[name] for name in metadata} == metadata
        assert before - 1 <= found.created_at <= time.time() + 1
        assert found.created_at == found.updated_at

    def test_an_unknown_key_is_not_found(self, backend: MemoryBackend) -> None:
        backend.store(USER, "pref_editor", "vim")
        assert backend.retrieve(USER, "pref") is None
        assert backend.retrieve(USER, "PREF_EDITOR") is None
        assert backend.retrieve(USER, "pref_editor ") is None
        assert backend.retrieve("nobody", "pref_editor") is None

    def test_storing_a_key_again_replaces_the_value_and_keeps_created_at(self, backend: MemoryBackend) -> None:
        self._needs()
        backend.store(USER, "pref_editor", "vim", {"session": "s-1"})
        first = _get(backend, "pref_editor")
        _pass(first.created_at)
        backend.store(USER, "pref_editor", "emacs")
        second = _get(backend, "pref_editor")
        assert second.value == "emacs"
        assert "session" not in second.metadata
        assert second.created_at == pytest.approx(first.created_at, abs=0.001)
        assert second.updated_at >= first.updated_at + 0.009
        assert backend.list_keys(USER) == ["pref_editor"]

    def test_changing_a_returned_entry_changes_nothing_stored(self, backend: MemoryBackend) -> None:
        self._needs()
        metadata = {"tags": ["a"]}
        backend.store(USER, "pref_editor", "vim", metadata)
        metadata["tags"].append("b")
        for _ in range(2):
            found = _get(backend, "pref_editor")
            assert (found.value, found.metadata["tags"]) == ("vim", ["a"])
            found.value = "emacs"
            found.metadata["tags"].append("c")
        assert [entry.value for entry in backend.query(USER, "")] == ["vim"]

    def test_entries_survive_reopening(self, backend: MemoryBackend) -> None:
        self._needs()
        reopen = getattr(backend, "reopen", None)
        if reopen is None:
            pytest.skip("this backend has no method reopen")
        with closing(reopen()) as other:
            assert other.list_keys(USER) == []
            backend.store(USER, "pref_editor", "vim")
            found = _get(other, "pref_editor")
            assert (found.value, [entry.key for entry in other.query(USER, "vim")]) == ("vim", ["pref_editor"])
            assert other.delete(USER, "pref_editor") is True
        assert backend.retrieve(USER, "pref_editor") is None
        assert backend.query(USER, "vim") == []

    def test_it_can_be_closed_twice(self, backend: MemoryBackend) -> None:
        backend.store(USER, "pref_editor", "vim")
        backend.close()
        backend.close()
        assert backend.is_available() in (True, False)

    def test_empty_and_long_values_and_odd_keys_are_stored(self, backend: MemoryBackend) -> None:
        self._needs()
        odd = {
            "empty": "",
            "long": "word " * 20_000,
            "a key with spaces/and:signs": "x",
            "ключ": "значение",
            "'\"%_": "y",
        }
        for key, value in odd.items():
            assert backend.store(USER, key, value)
        for key, value in odd.items():
            assert _get(backend, key).value == value

    def test_text_that_databases_reject_does_no_harm(self, backend: MemoryBackend) -> None:
        backend.store(USER, "a\0b", "nul \0 and half \ud800 a pair", {"note": "\udc00"})
        assert backend.list_keys(USER) is not None
        if self.keeps:
            assert backend.retrieve(USER, "a\0b") is not None

    # -- users

    def test_users_never_see_each_other(self, backend: MemoryBackend) -> None:
        backend.store(USER, "pref_editor", "vim secretword")
        backend.store(OTHER, "pref_shell", "fish otherword")
        assert backend.retrieve(OTHER, "pref_editor") is None
        assert [entry.key for entry in backend.query(OTHER, "vim secretword editor pref")] in ([], ["pref_shell"])
        assert "pref_editor" not in backend.list_keys(OTHER)
        assert backend.history(OTHER, "pref_editor") == []
        if self.keeps:
            assert backend.delete(OTHER, "pref_editor") is False
            assert backend.retrieve(USER, "pref_editor") is not None
            assert {entry.user_id for entry in backend.query(OTHER, "")} == {OTHER}

    def test_users_may_have_the_same_keys(self, backend: MemoryBackend) -> None:
        self._needs()
        backend.store(USER, "pref_editor", "vim")
        backend.store(OTHER, "pref_editor", "emacs")
        assert [entry.value for entry in backend.query(USER, "editor")] == ["vim"]
        assert backend.delete(USER, "pref_editor") is True
        found = _get(backend, "pref_editor", OTHER)
        assert (found.value, backend.list_keys(OTHER), backend.list_keys(USER)) == ("emacs", ["pref_editor"], [])

    # -- query

    def test_a_query_matches_other_forms_of_a_word(self, backend: MemoryBackend) -> None:
        self._needs()
        backend.store(USER, "pref_editor", "vim")
        backend.store(USER, "home_city", "lives in Lisbon")
        backend.store(USER, "pref_testing", "runs pytest with xdist")
        assert backend.query(USER, "which editor do I like?")[0].key == "pref_editor"
        assert backend.query(USER, "where am I living")[0].key == "home_city"
        assert backend.query(USER, "how do I run tests")[0].key == "pref_testing"

    def test_key_value_and_metadata_are_searched(self, backend: MemoryBackend) -> None:
        self._needs()
        backend.store(USER, "first", "nothing special")
        backend.store(USER, "quokka", "one")
        backend.store(USER, "second", "about a quokka")
        backend.store(USER, "third", "two", {"topic": "quokka"})
        assert {entry.key for entry in backend.query(USER, "quokka")} == {"quokka", "second", "third"}
        assert backend.query(USER, "quokka")[0].key == "quokka"

    def test_parts_of_words_are_found(self, backend: MemoryBackend) -> None:
        self._needs()
        backend.store(USER, "pref_python", "3.12")
        backend.store(USER, "buildTool", "hatchling")
        for part in ("pref", "pyth", "ytho", "build", "tool", "buildtool", "hatch", "chling", "PREF_PY"):
            assert backend.query(USER, part), part

    def test_more_words_in_common_rank_higher(self, backend: MemoryBackend) -> None:
        self._needs()
        backend.store(USER, "db_port", "the database listens on port 5433")
        backend.store(USER, "web_port", "the web server listens on port 8080")
        backend.store(USER, "db_name", "the database is called tides")
        assert backend.query(USER, "database port")[0].key == "db_port"

    def test_languages_without_spaces_are_searched(self, backend: MemoryBackend) -> None:
        self._needs()
        backend.store(USER, "city", "東京に住んでいます")
        backend.store(USER, "food", "寿司が好きです")
        assert [entry.key for entry in backend.query(USER, "東京")] == ["city"]
        assert backend.query(USER, "寿司")[0].key == "food"

    def test_an_empty_query_lists_the_newest(self, backend: MemoryBackend) -> None:
        self._needs()
        for number in range(5):
            backend.store(USER, f"key_{number}", "value")
        backend.store(USER, "key_1", "again")
        assert [entry.key for entry in backend.query(USER, "", limit=3)] == ["key_1", "key_4", "key_3"]
        assert [entry.key for entry in backend.query(USER, "  \n", limit=1)] == ["key_1"]
        assert backend.query(USER, "", limit=0) == []
        assert backend.query("nobody", "") == []

    def test_limits_are_respected(self, backend: MemoryBackend) -> None:
        for number in range(15):
            backend.store(USER, f"note_{number}", "the same words")
        assert len(backend.query(USER, "same words")) == (10 if self.keeps else 0)
        assert len(backend.query(USER, "same words", limit=3)) == (3 if self.keeps else 0)
        assert len({entry.key for entry in backend.query(USER, "same words", limit=100)}) == (15 if self.keeps else 0)
        assert len(backend.query(USER, "same words", limit=100)) == (15 if self.keeps else 0)
        assert backend.query(USER, "same words", limit=0) == []
        assert backend.query(USER, "same words", limit=-1) == []

    @pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text)[:20])
    def test_no_query_text_raises(self, backend: MemoryBackend, text: str) -> None:
        backend.store(USER, "pref_editor", "vim")
        assert len(backend.query(USER, text)) <= 1
        assert backend.retrieve(USER, text) is None
        assert backend.delete(USER, text) is not self.keeps

    def test_a_new_entry_is_found_at_once(self, backend: MemoryBackend) -> None:
        self._needs()
        for number in range(200):
            backend.store(USER, f"note_{number}", f"entry with word{number}")
            if number % 23 == 0:
                assert backend.query(USER, f"word{number}")[0].key == f"note_{number}"

    def test_a_superseded_value_is_not_found(self, backend: MemoryBackend) -> None:
        self._needs()
        for number in range(70):
            backend.store(USER, f"note_{number}", "filler")
        backend.store(USER, "home_city", "Lisbon")
        assert backend.query(USER, "Lisbon")
        backend.store(USER, "home_city", "Porto")
        assert {entry.value for entry in backend.query(USER, "Lisbon")} <= {"Porto"}  # by meaning
        assert [entry.value for entry in backend.query(USER, "city")] == ["Porto"]

    # -- list and delete

    def test_keys_are_listed_newest_first(self, backend: MemoryBackend) -> None:
        for key in ("one", "two", "three"):
            backend.store(USER, key, "value")
        backend.store(USER, "one", "other value")
        assert backend.list_keys(USER) == (["one", "three", "two"] if self.keeps else [])
        assert backend.list_keys("nobody") == []

    def test_a_deleted_entry_is_gone_at_once(self, backend: MemoryBackend) -> None:
        backend.store(USER, "pref_editor", "vim quokka")
        backend.store(USER, "pref_shell", "fish")
        assert backend.delete(USER, "pref_editor") is True
        assert backend.retrieve(USER, "pref_editor") is None
        assert backend.query(USER, "quokka") == []
        assert "pref_editor" not in backend.list_keys(USER)
        if self.keeps:
            assert backend.delete(USER, "pref_editor") is False
            backend.store(USER, "pref_editor", "nano")
            assert [entry.value for entry in backend.query(USER, "editor")] == ["nano"]

    def test_storing_after_a_deletion_creates_a_new_entry(self, backend: MemoryBackend) -> None:
        self._needs()
        backend.store(USER, "pref_editor", "vim", {"session": "s-1"})
        first = _get(backend, "pref_editor")
        backend.delete(USER, "pref_editor")
        _pass(first.created_at)
        backend.store(USER, "pref_editor", "nano")
        second = _get(backend, "pref_editor")
        assert second.created_at >= first.created_at + 0.009
        assert "session" not in second.metadata

    def test_an_entry_stored_after_a_deletion_is_found(self, backend: MemoryBackend) -> None:
        self._needs()
        for number in range(80):
            backend.store(USER, f"note_{number}", "wombat" if number == 79 else "filler")
        assert backend.query(USER, "wombat")
        assert backend.delete(USER, "note_79")
        backend.store(USER, "note_80", "quokka")
        assert [entry.key for entry in backend.query(USER, "quokka")] == ["note_80"]
        assert backend.query(USER, "wombat") == []

    # -- expiry

    def test_an_expired_entry_is_not_returned(self, backend: MemoryBackend) -> None:
        self._needs()
        backend.store(USER, "old", "quokka", {"expires_at": time.time() - 1})
        backend.store(USER, "lasting", "wombat", {"expires_at": time.time() + 3600})
        assert backend.retrieve(USER, "old") is None
        assert backend.query(USER, "quokka") == []
        assert backend.list_keys(USER) == ["lasting"]
        assert [entry.key for entry in backend.query(USER, "")] == ["lasting"]
        assert backend.retrieve(USER, "lasting") is not None
        backend.store(USER, "old", "quokka again")
        assert _get(backend, "old").value == "quokka again"

    def test_an_entry_expires_over_time(self, backend: MemoryBackend) -> None:
        self._needs()
        end = time.time() + 0.4
        backend.store(USER, "short", "quokka", {"expires_at": end})
        found = backend.retrieve(USER, "short")
        backend.query(USER, "quokka")
        assert found is not None or time.time() >= end  # the test may have taken that long
        while time.time() <= end:
            time.sleep(0.01)
        assert backend.retrieve(USER, "short") is None
        assert backend.query(USER, "quokka") == []
        assert backend.list_keys(USER) == []
        assert backend.delete(USER, "short") is False

    # -- history

    def test_history_has_values_times_and_sessions(self, backend: MemoryBackend) -> None:
        self._needs("remembers")
        backend.store(USER, "home_city", "Lisbon", {"session": "s-1", "source": "chat"})
        backend.store(USER, "home_city", "Porto", {"session": "s-2"})
        now, before = backend.history(USER, "home_city")
        assert (now.value, now.until, now.session) == ("Porto", None, "s-2")
        assert (before.value, before.session, before.source) == ("Lisbon", "s-1", "chat")
        assert before.since <= now.since
        assert before.until == pytest.approx(now.since, abs=0.001)
        assert backend.history(USER, "never") == []

    def test_storing_the_same_value_again_adds_no_version(self, backend: MemoryBackend) -> None:
        self._needs("remembers")
        for _ in range(3):
            backend.store(USER, "home_city", "Lisbon")
        assert [version.value for version in backend.history(USER, "home_city")] == ["Lisbon"]

    def test_after_a_deletion_the_history_has_no_values(self, backend: MemoryBackend) -> None:
        self._needs("remembers")
        backend.store(USER, "home_city", "Lisbon")
        backend.store(USER, "home_city", "Porto")
        backend.delete(USER, "home_city")
        (gone,) = backend.history(USER, "home_city")
        assert isinstance(gone, Version)
        assert (gone.value, gone.until) == (None, None)
        backend.store(USER, "home_city", "Faro")
        assert [version.value for version in backend.history(USER, "home_city")] == ["Faro", None]

    # -- scopes

    def test_the_narrowest_scope_wins(self, backend: MemoryBackend) -> None:
        self._needs("scopes")
        backend.store(USER, "style", "tabs")
        backend.store(USER, "style", "spaces", {"scope": "project", "project": "/tides"})
        backend.store(USER, "style", "two spaces", {"scope": "agent", "agent": "codex"})

        def seen(view: View) -> tuple[str | None, list[str], list[str]]:
            here = backend.at(view)
            found = here.retrieve(USER, "style")
            asked = [entry.value for entry in here.query(USER, "style")]
            return (found.value if found else None), asked, here.list_keys(USER)

        assert seen(View()) == ("tabs", ["tabs"], ["style"])
        assert seen(View(project="/tides")) == ("spaces", ["spaces"], ["style"])
        assert seen(View(project="/other")) == ("tabs", ["tabs"], ["style"])
        assert seen(View(agent="codex")) == ("two spaces", ["two spaces"], ["style"])
        assert seen(View(project="/tides", agent="codex")) == ("two spaces", ["two spaces"], ["style"])

    def test_projects_do_not_bleed(self, backend: MemoryBackend) -> None:
        self._needs("scopes")
        backend.store(USER, "port", "5433 quokka", {"scope": "project", "project": "/tides"})
        elsewhere = backend.at(View(project="/other"))
        assert elsewhere.retrieve(USER, "port") is None
        assert elsewhere.query(USER, "quokka") == []
        assert elsewhere.query(USER, "") == []
        assert elsewhere.list_keys(USER) == []
        assert elsewhere.delete(USER, "port") is False
        assert backend.at(View(project="/tides")).retrieve(USER, "port") is not None

    def test_without_a_view_all_entries_of_the_user_are_visible(self, backend: MemoryBackend) -> None:
        self._needs("scopes")
        backend.store(USER, "port", "5433", {"scope": "project", "project": "/tides"})
        backend.store(USER, "style", "tabs")
        assert backend.list_keys(USER) == ["style", "port"]
        backend.store(USER, "port", "5434", {"scope": "project", "project": "/moon"})
        assert backend.list_keys(USER) == ["port", "style"]
        assert {entry.value for entry in backend.query(USER, "port")} == {"5433", "5434"}
        assert backend.retrieve(USER, "port") is not None
        assert backend.delete(USER, "port") is True
        assert backend.list_keys(USER) == ["style"]

    def test_a_view_fills_in_the_project(self, backend: MemoryBackend) -> None:
        self._needs("scopes")
        backend.at(View(project="/tides")).store(USER, "port", "5433", {"scope": "project"})
        assert _get(backend.at(View(project="/tides")), "port").metadata["project"] == "/tides"
        assert backend.at(View(project="/other")).retrieve(USER, "port") is None

    def test_deleting_from_a_view_deletes_the_visible_entry(self, backend: MemoryBackend) -> None:
        self._needs("scopes")
        backend.store(USER, "style", "tabs")
        backend.store(USER, "style", "spaces", {"scope": "project", "project": "/tides"})
        here = backend.at(View(project="/tides"))
        assert here.delete(USER, "style") is True
        assert _get(here, "style").value == "tabs"

    @pytest.mark.parametrize(
        "metadata", [{"scope": "galaxy"}, {"scope": "project"}, {"expires_at": "soon"}, {"what": object()}]
    )
    def test_invalid_entries_are_rejected(self, backend: MemoryBackend, metadata: dict[str, object]) -> None:
        self._needs("scopes")
        with pytest.raises(InvalidEntry):
            backend.store(USER, "key", "value", metadata)
        assert backend.list_keys(USER) == []

    # -- secrets, users, threads

    def test_secrets_are_replaced_before_they_are_stored(self, backend: MemoryBackend) -> None:
        self._needs()
        token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"[:36]
        backend.store(USER, "note", f"the token is {token}", {"header": f"Authorization: Bearer {token}"})
        backend.store(USER, "db_password", "kX9#vQ2!pL7w")
        kept = backend.query(USER, "")
        assert len(kept) == 2
        assert all(token not in f"{entry.value} {entry.metadata}" for entry in kept)
        assert all("kX9#vQ2" not in entry.value for entry in kept)

    def test_users_with_entries_are_listed(self, backend: MemoryBackend) -> None:
        backend.store(USER, "key", "value")
        backend.store(OTHER, "key", "value")
        backend.delete(OTHER, "key")
        assert set(backend.users()) <= {USER}

    def test_threads_may_share_it(self, backend: MemoryBackend) -> None:
        errors: list[BaseException] = []

        def work(name: str) -> None:
            try:
                for number in range(20):
                    backend.store(USER, f"{name}_{number}", f"value {number} of {name}")
                    backend.query(USER, name)
                    found = backend.retrieve(USER, f"{name}_{number}")
                    assert (found.value if found else None) == (f"value {number} of {name}" if self.keeps else None)
            except BaseException as error:
                errors.append(error)

        threads = [Thread(target=work, args=(name,)) for name in ("ann", "ben", "cem", "dot")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert len(backend.list_keys(USER)) == (80 if self.keeps else 0)

    # -- ranking, limits

    def test_other_projects_do_not_use_up_the_limit(self, backend: MemoryBackend) -> None:
        self._needs("scopes")
        backend.store(USER, "test_command", "make check", {"scope": "project", "project": "/mine"})
        for number in range(45):
            backend.store(USER, "test_command", f"tox {number}", {"scope": "project", "project": f"/other{number}"})
        here = backend.at(View(project="/mine"))
        assert [entry.value for entry in here.query(USER, "what is the test command")] == ["make check"]
        backend.store(USER, "test_command", "make test")
        assert [entry.value for entry in backend.at(View()).query(USER, "test command")] == ["make test"]

    def test_expired_entries_do_not_use_up_the_limit(self, backend: MemoryBackend) -> None:
        self._needs()
        backend.store(USER, "pref_editor", "helix")
        for number in range(45):
            backend.store(USER, f"editor_{number}", "the editor", {"expires_at": time.time() - 1})
        assert [entry.key for entry in backend.query(USER, "which editor")] == ["pref_editor"]

    def test_a_matching_key_ranks_first(self, backend: MemoryBackend) -> None:
        self._needs()
        backend.store(USER, "editor", "helix")
        for number in range(45):
            backend.store(USER, f"note_{number}", "the editor")
        found = [entry.key for entry in backend.query(USER, "editor", 3)]
        assert (found[0], len(set(found))) == ("editor", 3)

    def test_unknown_words_do_not_hide_a_match(self, backend: MemoryBackend) -> None:
        self._needs()
        backend.store(USER, "fruit", "a mangosteen")
        unknown = " ".join(f"un{letter}known" for letter in "abcdefghijklmnopqrst")
        assert [entry.key for entry in backend.query(USER, f"{unknown} mangosteen")] == ["fruit"]

    def test_a_large_limit_returns_all_matches(self, backend: MemoryBackend) -> None:
        self._needs()
        for number in range(220):
            backend.store(USER, f"editor_{number}", "vim")
        assert len({entry.key for entry in backend.query(USER, "editor", limit=220)}) == 220

    @pytest.mark.parametrize("metadata", ["abc", [1], {"notes": "x" * 70_000}], ids=lambda each: ascii(each)[:20])
    def test_invalid_metadata_is_rejected(self, backend: MemoryBackend, metadata: Any) -> None:
        self._needs()
        with pytest.raises(InvalidEntry):
            backend.store(USER, "key", "value", metadata)
        assert backend.list_keys(USER) == []

    def test_a_key_that_is_too_long_is_rejected(self, backend: MemoryBackend) -> None:
        self._needs()
        with pytest.raises(InvalidEntry):
            backend.store(USER, "key" * 3000, "value")
        assert backend.list_keys(USER) == []

    def test_names_in_metadata_reveal_secrets(self, backend: MemoryBackend) -> None:
        self._needs()
        backend.store(
            USER, "note", "value", {"passwords": ["Tr0ub4dor&3xyz!"], "db": {"password": {"value": 48151623}}}
        )
        found = _get(backend, "note")
        assert not [secret for secret in ("Tr0ub4dor", "48151623") if secret in str(found.metadata)]
