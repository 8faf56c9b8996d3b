"""The part of the contract of a memory backend that is about what else is there: it takes nobody's place."""

from __future__ import annotations

import time
from typing import Any, ClassVar

import pytest

from warmstart.errors import InvalidEntry
from warmstart.memory.backend import MemoryBackend
from warmstart.memory.values import View

USER = "suite-user"


class AskingSuite:
    """Part of `MemoryBackendSuite`."""

    keeps: ClassVar = True
    remembers: ClassVar = True
    scopes: ClassVar = True

    def _needs(self, *abilities: str) -> None:
        for ability in ("keeps", *abilities):
            if not getattr(self, ability):
                pytest.skip(f"this backend says {ability} = False")

    def test_other_projects_take_no_place_in_an_answer(self, backend: MemoryBackend) -> None:
        self._needs("scopes")
        backend.store(USER, "test_command", "make check", {"scope": "project", "project": "/mine"})
        for number in range(45):
            backend.store(USER, "test_command", f"tox {number}", {"scope": "project", "project": f"/other{number}"})
        here = backend.at(View(project="/mine"))
        assert [entry.value for entry in here.query(USER, "what is the test command")] == ["make check"]
        backend.store(USER, "test_command", "make test")
        assert [entry.value for entry in backend.at(View()).query(USER, "test command")] == ["make test"]

    def test_what_has_expired_takes_no_place_in_an_answer(self, backend: MemoryBackend) -> None:
        self._needs()
        backend.store(USER, "pref_editor", "helix")
        for number in range(45):
            backend.store(USER, f"editor_{number}", "the editor", {"expires_at": time.time() - 1})
        assert [entry.key for entry in backend.query(USER, "which editor")] == ["pref_editor"]

    def test_a_key_that_is_asked_for_comes_first(self, backend: MemoryBackend) -> None:
        self._needs()
        backend.store(USER, "editor", "helix")
        for number in range(45):
            backend.store(USER, f"note_{number}", "the editor")
        found = [entry.key for entry in backend.query(USER, "editor", 3)]
        assert (found[0], len(set(found))) == ("editor", 3)

    def test_words_that_nobody_has_take_no_place_in_a_question(self, backend: MemoryBackend) -> None:
        self._needs()
        backend.store(USER, "fruit", "a mangosteen")
        unknown = " ".join(f"un{letter}known" for letter in "abcdefghijklmnopqrst")
        assert [entry.key for entry in backend.query(USER, f"{unknown} mangosteen")] == ["fruit"]

    def test_as_many_are_found_as_are_wanted(self, backend: MemoryBackend) -> None:
        self._needs()
        for number in range(220):
            backend.store(USER, f"editor_{number}", "vim")
        assert len({entry.key for entry in backend.query(USER, "editor", limit=220)}) == 220

    @pytest.mark.parametrize("metadata", ["abc", [1], {"notes": "x" * 70_000}], ids=lambda each: ascii(each)[:20])
    def test_metadata_that_cannot_be_kept_is_refused(self, backend: MemoryBackend, metadata: Any) -> None:
        self._needs()
        with pytest.raises(InvalidEntry):
            backend.store(USER, "key", "value", metadata)
        assert backend.list_keys(USER) == []

    def test_a_key_that_is_too_long_is_refused(self, backend: MemoryBackend) -> None:
        self._needs()
        with pytest.raises(InvalidEntry):
            backend.store(USER, "key" * 3000, "value")
        assert backend.list_keys(USER) == []

    def test_names_tell_what_is_a_secret(self, backend: MemoryBackend) -> None:
        self._needs()
        backend.store(
            USER, "note", "value", {"passwords": ["Tr0ub4dor&3xyz!"], "db": {"password": {"value": 48151623}}}
        )
        found = backend.retrieve(USER, "note")
        assert found is not None
        assert not [secret for secret in ("Tr0ub4dor", "48151623") if secret in str(found.metadata)]
