from __future__ import annotations

from dataclasses import replace
from datetime import UTC, timedelta, timezone

import msgspec
import pytest
from hypothesis import given

from tests.templates.made import Clock, item, revision, seed, template, use
from tests.templates.strategies import templates
from warmstart.errors import AmbiguousId, InvalidTemplate, StoreCorrupt, TemplateNotFound
from warmstart.sessions.sql_store import SQLiteSessionStore
from warmstart.templates.store import Body, SQLTemplateStore, content_hash, decode
from warmstart.templates.template import WarmTemplate

SECRET = "ghp_" + "x8Kq2mWvT0RzB4nLd7YpHs3JcF6gA1eUo9Zi"  # made up, in the shape of a real one


def test_a_template_comes_back_as_it_was_kept(either: SQLTemplateStore) -> None:
    kept = either.add(template(), author="mara", reason="extracted")
    found = either.get(kept.id)
    assert found == kept
    assert found.seed == seed()
    assert (found.id, found.version, found.state) == ("warm_20260310_142530", 1, "active")
    assert found.created_at is not None
    assert found.created_at.tzinfo is UTC
    assert found.created_at == found.updated_at
    assert either.list() == [kept]
    (version,) = either.versions(kept.id)
    assert (version.author, version.reason, version.withdrawn) == ("mara", "extracted", False)
    assert version.hash == content_hash(kept)


def test_a_template_is_found_by_id_beginning_and_name(either: SQLTemplateStore, clock: Clock) -> None:
    first = either.add(template(name="the shop"))
    clock.go(days=1)
    second = either.add(template(name="another"))
    assert either.get(first.id).name == "the shop"
    assert either.get("warm_20260311").id == second.id
    assert either.get("the shop").id == first.id
    with pytest.raises(AmbiguousId, match=f"{first.id}, {second.id}"):
        either.get("warm_2026")
    for unknown in ("the", "", "warm_1999", "%", "the shop\0"):
        with pytest.raises(TemplateNotFound, match="templates list"):
            either.get(unknown)


def test_a_name_that_several_have_is_ambiguous(store: SQLTemplateStore) -> None:
    ids = [store.add(template()).id for _ in range(2)]
    with pytest.raises(AmbiguousId, match=", ".join(ids)):
        store.get("shop")


def test_a_template_without_a_name_is_refused(store: SQLTemplateStore) -> None:
    for name in ("", "  \n"):
        with pytest.raises(InvalidTemplate, match="needs a name"):
            store.add(template(name=name))
    assert store.list() == []


def test_no_secret_is_kept_wherever_it_stands(store: SQLTemplateStore) -> None:
    rule = item("instruction", f"the token is {SECRET}")
    telling = template(
        name=f"shop {SECRET}", description=SECRET, tags=(SECRET,), seed=seed(instruction=(rule,)), origin=SECRET
    )
    kept = store.add(telling, author=SECRET, reason=f"because of {SECRET}")
    changed = store.change(kept.id, author=SECRET, reason=SECRET, description=f"see {SECRET}")
    store.delete(store.add(template()).id, author=SECRET)
    assert "[redacted:" in changed.seed.items[0].text
    rows = [row for table in TABLES for row in store.database.connection.execute(f"SELECT * FROM {table}")]
    assert rows
    assert SECRET not in repr(rows)


TABLES = ("templates", "template_versions", "template_sources", "template_ids")


def test_characters_that_no_database_holds_are_replaced(either: SQLTemplateStore) -> None:
    odd = item("file", "\0")
    strange = template(description="a\0b \ud800", seed=seed(file=(odd,)), tools={"\0": ""})
    kept = either.add(strange, author="\0", reason="\ud800")
    assert either.get(kept.id) == kept
    assert kept.description == "a\ufffdb \ufffd"


def test_times_are_in_utc_whatever_the_clock_says(sessions: SQLiteSessionStore, clock: Clock) -> None:
    clock.at = clock.at.astimezone(timezone(timedelta(hours=9)))
    kept = SQLTemplateStore(sessions, clock=clock).add(template())
    assert kept.id == "warm_20260310_142530"
    assert kept.created_at is not None
    assert kept.created_at.isoformat() == "2026-03-10T14:25:30+00:00"


def test_summaries_tell_all_but_the_seed(either: SQLTemplateStore, clock: Clock) -> None:
    kept = either.add(template())
    clock.go(hours=1)
    either.add(template(name="newer", state="candidate"))
    newer, summary = either.summaries()
    assert (newer.name, newer.state) == ("newer", "candidate")
    assert summary._asdict() == {
        **{name: getattr(kept, name) for name in summary._fields if name != "tasks"},
        "tasks": ("Fix the rounding of the totals", "Add a column to the report"),
    }


def test_how_a_template_was_used_is_counted(either: SQLTemplateStore) -> None:
    kept, other = either.add(template()), either.add(template())
    for outcome in ("success", "success", "failure", ""):
        use(either, kept.id, outcome=outcome)
    use(either, kept.id, outcome="success", arm="holdout")
    found = either.get(kept.id)
    assert (found.used, found.successes, found.failures) == (4, 2, 1)
    assert found.success_rate == pytest.approx(2 / 3)
    assert {each.id: each.used for each in either.list()} == {kept.id: 4, other.id: 0}


def test_the_revision_changes_with_whatever_summaries_show(either: SQLTemplateStore) -> None:
    seen = [revision(either)]

    def note() -> None:
        assert revision(either) == revision(either)
        seen.append(revision(either))

    kept = either.add(template())
    note()
    either.change(kept.id, author="", reason="", description="other")
    note()
    use(either, kept.id)
    note()
    with either.database.transaction() as connection:
        connection.execute("UPDATE template_uses SET outcome = 'success'")
    note()
    either.delete(kept.id)
    note()
    assert len(set(seen)) == 6
    assert seen == sorted(seen)


def test_a_deleted_template_is_gone_and_its_uses_stay(either: SQLTemplateStore, clock: Clock) -> None:
    kept = either.add(template())
    either.change(kept.id, author="", reason="", name="other")
    use(either, kept.id, outcome="success")
    either.delete("other", author="mara")
    with pytest.raises(TemplateNotFound):
        either.get(kept.id)
    with pytest.raises(TemplateNotFound):
        either.delete(kept.id)
    run = either.database.connection.execute
    for table in ("templates", "template_versions", "template_sources"):
        assert run(f"SELECT count(*) FROM {table}").fetchone()[0] == 0
    assert run("SELECT template FROM template_uses").fetchall() == [(kept.id,)]
    assert either.add(template()).id == f"{kept.id}_2"


def test_a_damaged_template_is_reported(store: SQLTemplateStore) -> None:
    kept, whole = store.add(template(name="broken")), store.add(template())
    for body in ("{", "[]", '{"name": 1}', ""):
        with store.database.transaction() as connection:
            connection.execute("UPDATE template_versions SET body = ? WHERE template = ?", (body, kept.id))
        with pytest.raises(StoreCorrupt, match=f"version 1 of the template '{kept.id}' is damaged"):
            store.get(kept.id)
    assert store.get(whole.id) == whole
    with store.database.transaction() as connection:
        connection.execute("UPDATE templates SET head = '[1]' WHERE id = ?", (kept.id,))
    with pytest.raises(StoreCorrupt, match=f"'{kept.id}' is damaged"):
        store.summaries()
    store.delete(kept.id)
    assert [each.id for each in store.summaries()] == [whole.id]


def test_texts_that_are_stored_can_be_rewritten(either: SQLTemplateStore) -> None:
    kept = either.add(template(), reason="for the shop")
    either.change(kept.id, author="", reason="", name="the shop")
    use(either, kept.id, task="mend the shop")
    assert either.rewrite(lambda text: text.replace("shop", "store")) == 4
    assert either.rewrite(lambda text: text.replace("shop", "store")) == 0
    found = either.get(kept.id)
    assert (found.name, found.tags, found.version) == ("the store", ("python", "store"), 2)
    assert found.sources == kept.sources
    assert found.seed.of("file")[0].text == "src/store/cart.py"
    assert either.get(kept.id, version=1).name == "store"
    assert [each.reason for each in either.versions(kept.id)] == ["", "for the store"]
    assert either.versions(kept.id)[0].hash == content_hash(found)
    assert either.summaries()[0].name == "the store"
    assert either.database.connection.execute("SELECT task FROM template_uses").fetchone()[0] == "mend the store"


def test_a_failure_in_the_middle_leaves_what_was(store: SQLTemplateStore) -> None:
    kept = store.add(template())
    with store.database.transaction() as connection:
        connection.execute(
            "CREATE TRIGGER full BEFORE INSERT ON template_sources BEGIN SELECT raise(ABORT, 'no room'); END"
        )
    with pytest.raises(Exception, match="no room"):
        store.change(kept.id, author="", reason="", name="other")
    with pytest.raises(Exception, match="no room"):
        store.add(template())
    assert store.list() == [kept]
    assert len(store.versions(kept.id)) == 1


@given(templates)
def test_whatever_a_template_holds_is_read_back(given: WarmTemplate) -> None:
    row = ("warm_x", 1.0, 1, 1.0, "active", msgspec.json.encode(Body.of(given)).decode(), 0, 0, 0)
    found = decode(row)
    assert replace(found, id="", version=0, created_at=None, updated_at=None) == given


def test_the_hash_is_of_what_is_said(store: SQLTemplateStore) -> None:
    kept = store.add(template())
    moved = template(project="/Users/mara/work/shop", state="retired", used=3, id="x", version=9, origin="auto")
    assert content_hash(kept) == content_hash(moved) == content_hash(template())
    others = [
        template(**{name: value})
        for name, value in {
            "name": "x",
            "description": "x",
            "task_type": "mixed",
            "tags": ("x",),
            "agent": "x",
            "project": "/x",
            "sources": ("x",),
            "tools": {"Bash": "x"},
            "described_by": "x",
            "seed": seed(habit=()),
        }.items()
    ]
    assert len({content_hash(each) for each in (kept, *others)}) == 11
