from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.templates.made import Clock, revision, seed, template
from warmstart.errors import TemplateChanged, TemplateNotFound
from warmstart.templates.store import SQLTemplateStore, content_hash

ROOT = Path(__file__).resolve().parents[2]


def test_every_change_is_a_new_version(either: SQLTemplateStore, clock: Clock) -> None:
    first = either.add(template(), author="mara", reason="extracted")
    clock.go(hours=1)
    second = either.change(first.id, author="timo", reason="clearer", description="How to work on the shop.")
    clock.go(hours=1)
    third = either.change(first.id, author="mara", reason="no habits", seed=seed(habit=()), tags=["python"])
    assert [each.version for each in (first, second, third)] == [1, 2, 3]
    assert third.tags == ("python",)
    assert third.created_at == first.created_at
    assert third.updated_at == clock.at
    assert either.get(first.id) == third
    assert either.get(first.id, version=1) == first
    assert either.get(first.id, version=2) == second
    assert [(each.number, each.author, each.reason) for each in either.versions(first.id)] == [
        (3, "mara", "no habits"),
        (2, "timo", "clearer"),
        (1, "mara", "extracted"),
    ]
    assert [each.hash for each in either.versions(first.id)] == [content_hash(each) for each in (third, second, first)]
    assert [each.at for each in either.versions(first.id)] == [third.updated_at, second.updated_at, first.updated_at]


def test_a_change_of_nothing_makes_no_version(store: SQLTemplateStore, clock: Clock) -> None:
    kept = store.add(template())
    before = revision(store)
    clock.go(hours=1)
    assert store.change(kept.id, author="mara", reason="x", name="  shop ", tags=["python", "shop"]) == kept
    assert store.change(kept.id, state="active", author="", reason="") == kept
    assert store.revert(kept.id, 1) == kept
    assert len(store.versions(kept.id)) == 1
    assert revision(store) == before


def test_states_are_versions_too(store: SQLTemplateStore) -> None:
    kept = store.add(template(state="candidate"))
    changed = store.change(kept.id, state="active", author="auto", reason="seen in two sessions")
    assert (changed.state, changed.version) == ("active", 2)
    assert [each.state for each in store.versions(kept.id)] == ["active", "candidate"]
    assert store.summaries()[0].state == "active"
    assert store.get(kept.id, version=1).state == "candidate"
    assert len({each.hash for each in store.versions(kept.id)}) == 1


def test_a_change_to_an_old_version_is_refused(store: SQLTemplateStore) -> None:
    kept = store.add(template())
    store.change(kept.id, author="mara", reason="", expected=1, name="one")
    with pytest.raises(TemplateChanged, match=r"now at version 2.*made to version 1.*diff"):
        store.change(kept.id, author="timo", reason="", expected=1, name="two")
    assert store.get(kept.id).name == "one"


def test_only_what_is_the_users_can_be_changed(store: SQLTemplateStore) -> None:
    kept = store.add(template())
    for name in ("id", "version", "created_at", "used", "colour"):
        with pytest.raises(TypeError, match=repr(name)):
            store.change(kept.id, author="", reason="", **{name: 1})
    assert len(store.versions(kept.id)) == 1


def test_a_revert_brings_back_what_was_said_and_not_the_state(either: SQLTemplateStore) -> None:
    kept = either.add(template())
    either.change(kept.id, author="", reason="", seed=seed(trap=()), description="other")
    either.change(kept.id, state="quarantined", author="", reason="")
    back = either.revert(kept.id, 1, author="mara")
    assert (back.seed, back.description) == (kept.seed, kept.description)
    assert (back.version, back.state) == (4, "quarantined")
    newest = either.versions(kept.id)[0]
    assert (newest.author, newest.reason, newest.hash) == ("mara", "reverted to version 1", content_hash(kept))


def test_an_unknown_version_is_told_with_the_known_ones(store: SQLTemplateStore) -> None:
    kept = store.add(template())
    store.change(kept.id, author="", reason="", name="other")
    for unknown in (3, 0, -1, 10**30):
        for act in (store.get, store.revert):
            with pytest.raises(TemplateNotFound, match=rf"no version {unknown}; it has 1, 2"):
                act(kept.id, version=unknown)


def test_processes_that_change_one_template_lose_nothing(store: SQLTemplateStore) -> None:
    kept = store.add(template(tags=()))
    program = (
        "import sys\n"
        "from warmstart.errors import TemplateChanged\n"
        "from warmstart.sessions.sql_store import SQLiteSessionStore\n"
        "from warmstart.templates.store import SQLTemplateStore\n"
        "store = SQLTemplateStore(SQLiteSessionStore(sys.argv[1]))\n"
        "for number in range(10):\n"
        "    while True:\n"
        "        found = store.get(sys.argv[2])\n"
        "        try:\n"
        "            tags = (*found.tags, f'{sys.argv[3]}{number}')\n"
        "            store.change(found.id, author=sys.argv[3], reason='', expected=found.version, tags=tags)\n"
        "            break\n"
        "        except TemplateChanged:\n"
        "            pass\n"
        "store.sessions.close()\n"
    )
    command = [sys.executable, "-c", program, store.sessions.name, kept.id]
    running = [subprocess.Popen([*command, name], cwd=ROOT) for name in "abc"]
    assert [each.wait(180) for each in running] == [0, 0, 0]
    found = store.get(kept.id)
    assert sorted(found.tags) == sorted(f"{name}{number}" for name in "abc" for number in range(10))
    assert found.version == 31
    assert [each.number for each in store.versions(kept.id)] == list(range(31, 0, -1))
