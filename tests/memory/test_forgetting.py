"""Deleted text is gone: from rows, history, index segments and the free space of files."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from tests.memory.conftest import DATABASES
from warmstart.memory.honcho.mirror import Mirror
from warmstart.memory.local import LocalBackend
from warmstart.memory.values import View

TELLING = [b"quokka", b"wombat", b"mangosteen", b"old_value", b"oldvalu"]


def bytes_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file())


def fill(backend: LocalBackend, entries: int) -> None:
    for number in range(entries):
        backend.store("mara", f"note_{number}", f"entry {number} about tides and harbours")
        if number % 10 == 0:
            user = "wombat" if number % 20 == 0 else "mara"
            backend.store(user, f"quokka_{number}", "an old_value")
            backend.store(user, f"quokka_{number}", f"the mangosteen number {number}", {"topic": "quokka"})


@pytest.mark.parametrize("entries", [1_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_nothing_is_left_in_any_byte_after_a_vacuum(tmp_path: Path, entries: int) -> None:
    for kind in (LocalBackend, lambda path: Mirror(path, redact=True, send_scoped=False)):
        folder = tmp_path / str(kind is LocalBackend)
        with closing(kind(folder / "m.db")) as backend:
            fill(backend, entries)
            assert backend.query("mara", "mangosteen")
            for key in backend.list_keys("mara"):
                if key.startswith("quokka"):
                    assert backend.delete("mara", key)
            assert backend.forget_user("wombat") == entries // 20  # which vacuums too
            if isinstance(backend, Mirror):  # the outbox holds the name of the user until that was delivered
                with backend.writing() as connection:
                    connection.execute("DELETE FROM mirror_outbox")
                backend.vacuum()
            found = bytes_of(folder)
            assert [word for word in TELLING if word in found] == []
            assert len(backend.list_keys("mara")) == entries
            assert backend.query("mara", "tides harbours")


def test_a_deleted_key_is_gone_but_its_history_says_that_it_was_deleted(fresh, subtests) -> None:
    for database in DATABASES:
        with subtests.test(database=database), fresh(database) as backend:
            backend.store("ottilie", "quokka", "one", {"scope": "project", "project": "/secret"})
            assert backend.delete("ottilie", "quokka")
            assert [version.value for version in backend.history("ottilie", "quokka")] == [None]
            assert backend.at(View(project="/other")).history("ottilie", "quokka") == []
            run = backend._opened.database.connection.execute
            rows = str(run("SELECT * FROM memory_tombstones").fetchall())
            assert not [word for word in ("ottilie", "quokka", "secret") if word in rows]
            assert backend.forget_user("ottilie") == 0
            assert run("SELECT count(*) FROM memory_tombstones").fetchone()[0] == 0
            assert backend.users() == []


def test_expired_entries_leave_nothing_either(tmp_path: Path) -> None:
    with closing(LocalBackend(tmp_path / "m.db")) as backend:
        backend.store("ottilie", "quokka", "the mangosteen", {"expires_at": 1.0})
        backend.store("ottilie", "note", "value")
        backend._update_index("ottilie")
        backend.vacuum()
        assert b"mangosteen" not in bytes_of(tmp_path)
