from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.templates.made import FIRST, SECOND, Clock, revision, template, use
from warmstart.errors import TemplateNotFound
from warmstart.sessions.sql_store import SQLiteSessionStore
from warmstart.templates.copies import copy_templates
from warmstart.templates.revoke import revoke
from warmstart.templates.store import SQLTemplateStore


@pytest.fixture
def other(tmp_path: Path, clock: Clock) -> Iterator[SQLTemplateStore]:
    with closing(SQLiteSessionStore(tmp_path / "other.db")) as opened:
        yield SQLTemplateStore(opened, clock=clock)


def test_templates_are_copied_whole_and_once(either: SQLTemplateStore, other: SQLTemplateStore) -> None:
    kept = other.add(template(), author="mara", reason="extracted")
    other.change(kept.id, author="timo", reason="clearer", name="store")
    use(other, kept.id, outcome="success", session="a")
    use(other, kept.id, session="b", task="mend it")
    assert copy_templates(other, either) == 1
    assert either.get(kept.id) == other.get(kept.id)
    assert either.get(kept.id).used == 2
    assert either.get(kept.id, version=1).name == "shop"
    assert either.versions(kept.id) == other.versions(kept.id)
    assert either.summaries() == other.summaries()
    before = revision(either)
    assert copy_templates(other, either) == 0
    assert revision(either) == before
    other.change(kept.id, state="retired", author="", reason="old")
    with other.database.transaction() as connection:
        connection.execute("UPDATE template_uses SET outcome = 'failure', settled_at = 1 WHERE session = 'b'")
    assert copy_templates(other, either) == 1
    assert either.get(kept.id) == other.get(kept.id)
    assert (either.get(kept.id).state, either.get(kept.id).failures) == ("retired", 1)


def test_another_template_with_the_same_id_is_left_alone(
    store: SQLTemplateStore, other: SQLTemplateStore, clock: Clock
) -> None:
    mine = store.add(template(name="mine"))
    clock.go(milliseconds=1)
    theirs = other.add(template(name="theirs"))
    use(other, theirs.id)
    assert mine.id == theirs.id
    assert copy_templates(other, store) == 1
    assert store.get(mine.id) == mine
    found = store.get("theirs")
    assert found == replace(other.get(theirs.id), id=f"{mine.id}_2")
    assert found.used == 1
    assert copy_templates(other, store) == 0


def test_what_was_changed_in_both_stores_is_left(
    store: SQLTemplateStore, other: SQLTemplateStore, clock: Clock
) -> None:
    kept = other.add(template())
    copy_templates(other, store)
    for number, each in enumerate((store, other, other)):
        clock.go(seconds=1)
        each.change(kept.id, author="", reason="", name=f"name {number}")
    assert copy_templates(other, store) == 0
    assert store.get(kept.id).name == "name 0"


def test_what_was_revoked_in_either_store_stays_away(store: SQLTemplateStore, other: SQLTemplateStore) -> None:
    kept = other.add(template())
    revoke(store, FIRST)
    assert copy_templates(other, store) == 1
    assert store.get(kept.id).sources == (SECOND,)
    assert [each.withdrawn for each in store.versions(kept.id)] == [False, True]
    revoke(other, SECOND)
    copy_templates(other, store)
    assert store.revoked() == {FIRST, SECOND}
    assert store.get(kept.id).state == "retired"


def test_deletions_are_copied(store: SQLTemplateStore, other: SQLTemplateStore, clock: Clock) -> None:
    kept = other.add(template())
    copy_templates(other, store)
    other.delete(kept.id)
    assert copy_templates(other, store) == 0
    with pytest.raises(TemplateNotFound):
        store.get(kept.id)
    clock.go(seconds=9)
    mine = other.add(template())
    copy_templates(other, store)
    store.delete(mine.id)
    assert copy_templates(other, store) == 0
    assert store.list() == []
