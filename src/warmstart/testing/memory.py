"""The contract of a memory backend as a test suite.

Subclass it and give it a fresh backend:

    class TestMyBackend(MemoryBackendSuite):
        @pytest.fixture
        def backend(self, tmp_path):
            with closing(MyBackend(tmp_path / "memory")) as fresh:
                yield fresh

A backend that does not do all of it says so in the class: `keeps = False` for one that keeps nothing,
`remembers = False` for one without history, `scopes = False` for one that knows no scopes. One that has a method
`reopen()`, which gives another backend on the same data, is also asked through that.
"""

from __future__ import annotations

import time
from contextlib import closing
from threading import Thread

import pytest

from warmstart.errors import InvalidEntry
from warmstart.memory.backend import MemoryBackend
from warmstart.memory.values import MemoryEntry, Version, View
from warmstart.testing.memory_asking import USER, AskingSuite

OTHER = "suite-other"

HOSTILE = (
    '"',
    "'; DROP TABLE memories; --",
    "key:value AND",
    "NEAR(a b)",
    "a* OR",
    "(((",
    "^x",
    "%",
    "_",
    "\\",
    "a\0b",
    "\ud800",
    "-",
    "{key value}: x",
    "*",
    "AND OR NOT",
    "🦀🦀",
    "x" * 5000,
    "word " * 3000,
    "\n\t",
    "the of and",
)


def _pass(moment: float) -> None:
    """Wait until a clock can tell this moment from now."""
    while time.time() < moment + 0.01:
        time.sleep(0.001)


class MemoryBackendSuite(AskingSuite):
    """Every backend passes all of these."""

    # -- what it is

    def test_it_says_what_it_is(self, backend: MemoryBackend) -> None:
        assert isinstance(backend, MemoryBackend)
        assert backend.backend_name
        assert backend.is_cloud in (True, False)
        assert backend.is_available() is True

    # -- store and retrieve

    def test_a_store_is_accepted(self, backend: MemoryBackend) -> None:
        assert backend.store(USER, "pref_editor", "vim") is True

    def test_a_value_comes_back_as_it_was(self, backend: MemoryBackend) -> None:
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

    def test_what_was_never_stored_is_not_there(self, backend: MemoryBackend) -> None:
        backend.store(USER, "pref_editor", "vim")
        assert backend.retrieve(USER, "pref") is None
        assert backend.retrieve(USER, "PREF_EDITOR") is None
        assert backend.retrieve(USER, "pref_editor ") is None
        assert backend.retrieve("nobody", "pref_editor") is None

    def test_a_key_that_is_stored_again_has_the_new_value_and_the_old_birthday(self, backend: MemoryBackend) -> None:
        self._needs()
        backend.store(USER, "pref_editor", "vim", {"session": "s-1"})
        first = backend.retrieve(USER, "pref_editor")
        assert first is not None
        _pass(first.created_at)
        backend.store(USER, "pref_editor", "emacs")
        second = backend.retrieve(USER, "pref_editor")
        assert second is not None
        assert second.value == "emacs"
        assert "session" not in second.metadata
        assert second.created_at == pytest.approx(first.created_at, abs=0.001)
        assert second.updated_at >= first.updated_at + 0.009
        assert backend.list_keys(USER) == ["pref_editor"]

    def test_what_comes_back_is_the_callers_own(self, backend: MemoryBackend) -> None:
        self._needs()
        metadata = {"tags": ["a"]}
        backend.store(USER, "pref_editor", "vim", metadata)
        metadata["tags"].append("b")
        for _ in range(2):
            found = backend.retrieve(USER, "pref_editor")
            assert found is not None
            assert (found.value, found.metadata["tags"]) == ("vim", ["a"])
            found.value = "emacs"
            found.metadata["tags"].append("c")
        assert [entry.value for entry in backend.query(USER, "")] == ["vim"]

    def test_what_is_stored_is_there_for_whoever_opens_it_next(self, backend: MemoryBackend) -> None:
        self._needs()
        reopen = getattr(backend, "reopen", None)
        if reopen is None:
            pytest.skip("this backend has no method reopen")
        with closing(reopen()) as other:
            assert other.list_keys(USER) == []
            backend.store(USER, "pref_editor", "vim")
            found = other.retrieve(USER, "pref_editor")
            assert found is not None
            assert (found.value, [entry.key for entry in other.query(USER, "vim")]) == ("vim", ["pref_editor"])
            assert other.delete(USER, "pref_editor") is True
        assert backend.retrieve(USER, "pref_editor") is None
        assert backend.query(USER, "vim") == []

    def test_it_can_be_closed_twice(self, backend: MemoryBackend) -> None:
        backend.store(USER, "pref_editor", "vim")
        backend.close()
        backend.close()
        assert backend.is_available() in (True, False)

    def test_empty_and_long_values_and_odd_keys_are_kept(self, backend: MemoryBackend) -> None:
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
            found = backend.retrieve(USER, key)
            assert found is not None, key
            assert found.value == value

    def test_text_that_no_database_can_hold_does_no_harm(self, backend: MemoryBackend) -> None:
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
        assert backend.delete(OTHER, "pref_editor") is False
        if self.keeps:
            assert backend.retrieve(USER, "pref_editor") is not None
            assert {entry.user_id for entry in backend.query(OTHER, "")} == {OTHER}

    def test_users_may_have_the_same_keys(self, backend: MemoryBackend) -> None:
        self._needs()
        backend.store(USER, "pref_editor", "vim")
        backend.store(OTHER, "pref_editor", "emacs")
        assert [entry.value for entry in backend.query(USER, "editor")] == ["vim"]
        assert backend.delete(USER, "pref_editor") is True
        found = backend.retrieve(OTHER, "pref_editor")
        assert found is not None
        assert (found.value, backend.list_keys(OTHER), backend.list_keys(USER)) == ("emacs", ["pref_editor"], [])

    # -- query

    def test_a_question_finds_the_entry_by_other_forms_of_its_words(self, backend: MemoryBackend) -> None:
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

    def test_what_shares_more_comes_first(self, backend: MemoryBackend) -> None:
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

    def test_an_empty_question_lists_the_newest(self, backend: MemoryBackend) -> None:
        self._needs()
        for number in range(5):
            backend.store(USER, f"key_{number}", "value")
        backend.store(USER, "key_1", "again")
        assert [entry.key for entry in backend.query(USER, "", limit=3)] == ["key_1", "key_4", "key_3"]
        assert [entry.key for entry in backend.query(USER, "  \n", limit=1)] == ["key_1"]
        assert backend.query(USER, "", limit=0) == []
        assert backend.query("nobody", "") == []

    def test_limits_hold(self, backend: MemoryBackend) -> None:
        for number in range(15):
            backend.store(USER, f"note_{number}", "the same words")
        assert len(backend.query(USER, "same words")) == (10 if self.keeps else 0)
        assert len(backend.query(USER, "same words", limit=3)) == (3 if self.keeps else 0)
        assert len({entry.key for entry in backend.query(USER, "same words", limit=100)}) == (15 if self.keeps else 0)
        assert len(backend.query(USER, "same words", limit=100)) == (15 if self.keeps else 0)
        assert backend.query(USER, "same words", limit=0) == []
        assert backend.query(USER, "same words", limit=-1) == []

    @pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text)[:20])
    def test_any_text_gives_an_answer_or_nothing(self, backend: MemoryBackend, text: str) -> None:
        backend.store(USER, "pref_editor", "vim")
        assert len(backend.query(USER, text)) <= 1
        assert backend.retrieve(USER, text) is None
        assert backend.delete(USER, text) is False

    def test_what_was_stored_last_is_found_at_once(self, backend: MemoryBackend) -> None:
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
        assert backend.query(USER, "Lisbon") == []
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
        assert backend.delete(USER, "pref_editor") is self.keeps
        assert backend.retrieve(USER, "pref_editor") is None
        assert backend.query(USER, "quokka") == []
        assert "pref_editor" not in backend.list_keys(USER)
        assert backend.delete(USER, "pref_editor") is False
        if self.keeps:
            backend.store(USER, "pref_editor", "nano")
            assert [entry.value for entry in backend.query(USER, "editor")] == ["nano"]

    def test_what_is_stored_after_a_deletion_is_new(self, backend: MemoryBackend) -> None:
        self._needs()
        backend.store(USER, "pref_editor", "vim", {"session": "s-1"})
        first = backend.retrieve(USER, "pref_editor")
        assert first is not None
        backend.delete(USER, "pref_editor")
        _pass(first.created_at)
        backend.store(USER, "pref_editor", "nano")
        second = backend.retrieve(USER, "pref_editor")
        assert second is not None
        assert second.created_at >= first.created_at + 0.009
        assert "session" not in second.metadata

    def test_what_follows_a_deletion_is_found(self, backend: MemoryBackend) -> None:
        self._needs()
        for number in range(80):
            backend.store(USER, f"note_{number}", "wombat" if number == 79 else "filler")
        assert backend.query(USER, "wombat")
        assert backend.delete(USER, "note_79")
        backend.store(USER, "note_80", "quokka")
        assert [entry.key for entry in backend.query(USER, "quokka")] == ["note_80"]
        assert backend.query(USER, "wombat") == []

    # -- expiry

    def test_an_expired_entry_is_not_there(self, backend: MemoryBackend) -> None:
        self._needs()
        backend.store(USER, "old", "quokka", {"expires_at": time.time() - 1})
        backend.store(USER, "lasting", "wombat", {"expires_at": time.time() + 3600})
        assert backend.retrieve(USER, "old") is None
        assert backend.query(USER, "quokka") == []
        assert backend.list_keys(USER) == ["lasting"]
        assert [entry.key for entry in backend.query(USER, "")] == ["lasting"]
        assert backend.retrieve(USER, "lasting") is not None
        backend.store(USER, "old", "quokka again")
        found = backend.retrieve(USER, "old")
        assert found is not None
        assert found.value == "quokka again"

    def test_an_entry_expires_while_it_is_held(self, backend: MemoryBackend) -> None:
        self._needs()
        end = time.time() + 0.4
        backend.store(USER, "short", "quokka", {"expires_at": end})
        found = backend.retrieve(USER, "short")
        backend.query(USER, "quokka")
        assert found is not None or time.time() >= end  # it may have taken that long
        while time.time() <= end:
            time.sleep(0.01)
        assert backend.retrieve(USER, "short") is None
        assert backend.query(USER, "quokka") == []
        assert backend.list_keys(USER) == []
        assert backend.delete(USER, "short") is False

    # -- history

    def test_history_tells_what_was_when_and_from_which_session(self, backend: MemoryBackend) -> None:
        self._needs("remembers")
        backend.store(USER, "home_city", "Lisbon", {"session": "s-1", "source": "chat"})
        backend.store(USER, "home_city", "Porto", {"session": "s-2"})
        now, before = backend.history(USER, "home_city")
        assert (now.value, now.until, now.session) == ("Porto", None, "s-2")
        assert (before.value, before.session, before.source) == ("Lisbon", "s-1", "chat")
        assert before.since <= now.since
        assert before.until == pytest.approx(now.since, abs=0.001)
        assert backend.history(USER, "never") == []

    def test_a_value_that_stays_the_same_is_one_version(self, backend: MemoryBackend) -> None:
        self._needs("remembers")
        for _ in range(3):
            backend.store(USER, "home_city", "Lisbon")
        assert [version.value for version in backend.history(USER, "home_city")] == ["Lisbon"]

    def test_of_what_is_forgotten_only_that_it_was_remains(self, backend: MemoryBackend) -> None:
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

    def test_the_narrowest_scope_that_fits_wins(self, backend: MemoryBackend) -> None:
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

    def test_without_a_view_everything_of_the_user_is_seen(self, backend: MemoryBackend) -> None:
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

    def test_a_view_says_which_project_an_entry_is_for(self, backend: MemoryBackend) -> None:
        self._needs("scopes")
        backend.at(View(project="/tides")).store(USER, "port", "5433", {"scope": "project"})
        found = backend.at(View(project="/tides")).retrieve(USER, "port")
        assert found is not None
        assert found.metadata["project"] == "/tides"
        assert backend.at(View(project="/other")).retrieve(USER, "port") is None

    def test_from_a_view_the_entry_that_is_seen_is_forgotten(self, backend: MemoryBackend) -> None:
        self._needs("scopes")
        backend.store(USER, "style", "tabs")
        backend.store(USER, "style", "spaces", {"scope": "project", "project": "/tides"})
        here = backend.at(View(project="/tides"))
        assert here.delete(USER, "style") is True
        found = here.retrieve(USER, "style")
        assert found is not None
        assert found.value == "tabs"

    @pytest.mark.parametrize(
        "metadata", [{"scope": "galaxy"}, {"scope": "project"}, {"expires_at": "soon"}, {"what": object()}]
    )
    def test_what_cannot_be_kept_is_refused(self, backend: MemoryBackend, metadata: dict[str, object]) -> None:
        self._needs("scopes")
        with pytest.raises(InvalidEntry):
            backend.store(USER, "key", "value", metadata)
        assert backend.list_keys(USER) == []

    # -- secrets, users, threads

    def test_secrets_are_replaced_before_they_are_kept(self, backend: MemoryBackend) -> None:
        self._needs()
        token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"[:36]
        backend.store(USER, "note", f"the token is {token}", {"header": f"Authorization: Bearer {token}"})
        backend.store(USER, "db_password", "kX9#vQ2!pL7w")
        kept = backend.query(USER, "")
        assert len(kept) == 2
        assert all(token not in f"{entry.value} {entry.metadata}" for entry in kept)
        assert all("kX9#vQ2" not in entry.value for entry in kept)

    def test_users_that_have_entries_are_told(self, backend: MemoryBackend) -> None:
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
