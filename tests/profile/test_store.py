"""Profiles in the store: kept, found, filtered, and gone with whatever they were made from."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from warmstart.errors import StoreTooNew
from warmstart.profile.store import SQLProfileStore
from warmstart.profile.values import Call, Change, DeadEnd, Markers, Outcome, Profile, Recovery, WritingStyle
from warmstart.sessions.sql_store import SQLiteSessionStore
from warmstart.sessions.store import Filter
from warmstart.storage.compression import register
from warmstart.testing.stores import at, said, session

EVERYTHING = Profile(
    task_type="research",
    markers=Markers(
        messages=1,
        turns=2,
        calls=3,
        results=4,
        errors=5,
        rejected=6,
        unknown=7,
        error_rate=0.1,
        early_error_rate=1 / 3,
        seconds_to_success=1.5,
        calls_to_success=8,
        recovery_rate=0.0,
        diversity=2.718281828459045,
        repeated_calls=9,
        rereads=10,
        corrections=11,
        compactions=12,
        input_tokens=2**53,
        output_tokens=14,
        cached_tokens=15,
        context_share=0.9999,
        seconds=86_400.25,
    ),
    outcome=Outcome("failure", "“no, revert that” \n\u2028 émoji 🦀", "words"),
    style=WritingStyle(
        messages=4,
        length=3.5,
        directness=0.25,
        language="de",
        feedback={"corrective": 1, "approving": 2, "terse": 3, "plain": 4},
        instructions=("use uv, not pip", "never push"),
    ),
    calls=(
        Call("Bash", "error", "code", 1, 0.0, 2.5, "model-1", "exit <n>"),
        Call("", "rejected", "other"),
        Call("mcp__a__b", "unknown", "research", 30, 1e6, None, "", ""),
        Call("Read", "ok", "file", 2, None, 0.125),
    ),
    recoveries=(
        Recovery(0, 3, 2, (Change("git --stat", "added"), Change("x", "removed"), Change("y", "changed")), ("Read",)),
        Recovery(1, 2, 1),
    ),
    dead_ends=(DeadEnd("Bash", "exit <n>", 3),),
    compactions=(0, 2, 4),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def store(path: Path) -> Iterator[SQLiteSessionStore]:
    with closing(SQLiteSessionStore(path)) as fresh:
        yield fresh


def keep(store: SQLiteSessionStore, profile: Profile = EVERYTHING, rules: str = "1") -> None:
    """Keep this profile for every session that has none."""
    kept = SQLProfileStore(store)
    kept.save([(each, profile) for each in kept.stale(rules)], rules)


def rows(path: Path) -> list[tuple[str, str]]:
    """What is in the table, as another program sees it."""
    with closing(sqlite3.connect(path)) as connection:
        register(connection)
        return connection.execute(
            "SELECT s.native_id, decompress(p.body) FROM profiles p JOIN sessions s ON s.pk = p.session ORDER BY 1"
        ).fetchall()


def test_a_profile_with_every_field_comes_back_as_it_was(store: SQLiteSessionStore) -> None:
    store.append(session(), [said("m1", "hello")])
    keep(store)
    (found,) = SQLProfileStore(store).profiles("1")
    assert found.profile == EVERYTHING
    assert found.session.id == session().id
    assert all(isinstance(call, Call) for call in found.profile.calls)
    assert isinstance(found.profile.recoveries[0].changes[0], Change)


def test_a_verdict_is_the_outcome_of_its_session_until_that_changes(store: SQLiteSessionStore) -> None:
    store.append(session("a"), [said("m1", "hello")])
    store.append(session("b"), [said("m2", "hello")])
    (stale, other) = sorted(SQLProfileStore(store).stale("1"), key=lambda each: each.session_id != session("a").id)
    store.append(session("a"), [said("m3", "changed meanwhile")])
    SQLProfileStore(store).save([(each, EVERYTHING) for each in (stale, other)], "1")
    assert store.get(session("a").id).outcome == "unknown"
    found = store.get(session("b").id)
    assert (found.outcome, found.evidence, found.judge) == (*EVERYTHING.outcome[:2], "")
    assert [row.session.native_id for row in store.list(Filter(outcome="failure"))] == ["b"]
    store.append(session("b"), [said("m2", "hello")])
    assert store.get(session("b").id).outcome == "failure"
    store.append(session("b"), [said("m4", "goodbye")])
    assert store.get(session("b").id).outcome == "unknown"


def test_every_field_is_set_in_that_test() -> None:
    for value in (EVERYTHING, EVERYTHING.markers, EVERYTHING.style):
        fresh = type(value)()
        assert [name for name in value.__slots__ if getattr(value, name) == getattr(fresh, name)] == []


def test_an_empty_profile_comes_back_as_it_was(store: SQLiteSessionStore) -> None:
    store.append(session(), [said("m1", "hello")])
    keep(store, Profile())
    assert [found.profile for found in SQLProfileStore(store).profiles("1")] == [Profile()]


def test_a_session_without_a_profile_is_stale_until_it_has_one(store: SQLiteSessionStore) -> None:
    store.append(session(), [said("m1", "hello")])
    kept = SQLProfileStore(store)
    (stale,) = kept.stale("1")
    assert stale.session_id == session().id
    assert list(kept.profiles("1")) == []
    keep(store)
    assert kept.stale("1") == []
    assert kept.stale("2") == [stale]
    assert list(kept.profiles("2")) == []


def test_one_profile_is_kept_per_session_whatever_the_rules(store: SQLiteSessionStore, path: Path) -> None:
    store.append(session(), [said("m1", "hello")])
    keep(store, rules="1")
    keep(store, Profile(), rules="2")
    assert len(rows(path)) == 1
    assert len(list(SQLProfileStore(store).profiles("2"))) == 1
    assert list(SQLProfileStore(store).profiles("1")) == []


def test_a_session_that_grows_loses_its_profile(store: SQLiteSessionStore, path: Path) -> None:
    store.append(session("a"), [said("a1", "hello")])
    store.append(session("b"), [said("b1", "hello")])
    keep(store)
    store.append(session("a"), [said("a1", "hello")])
    assert [name for name, _ in rows(path)] == ["a", "b"]  # nothing was new
    store.append(session("a"), [said("a2", "more", 1)])
    assert [name for name, _ in rows(path)] == ["b"]
    assert [stale.session_id for stale in SQLProfileStore(store).stale("1")] == [session("a").id]


def test_a_users_verdict_makes_a_profile_outdated(store: SQLiteSessionStore, path: Path) -> None:
    store.append(session("a"), [said("a1", "hello")])
    keep(store)
    store.set_outcome(session("a").id, "success")
    assert rows(path) == []


def test_a_deleted_session_deletes_its_profile(store: SQLiteSessionStore, path: Path) -> None:
    store.append(session("a"), [said("a1", "hello")])
    store.append(session("a/1", parent_id=session("a").id, parent_kind="subagent"), [said("c1", "hello")])
    store.append(session("b"), [said("b1", "hello")])
    keep(store)
    store.delete(session("a").id)
    assert [name for name, _ in rows(path)] == ["b"]
    assert store.database.integrity() == []


def test_what_changed_since_it_was_looked_at_is_not_kept(store: SQLiteSessionStore, path: Path) -> None:
    for name in ("a", "b", "c"):
        store.append(session(name), [said(name, "hello")])
    kept = SQLProfileStore(store)
    stale = kept.stale("1")
    with closing(SQLiteSessionStore(path)) as other:
        other.append(session("a"), [said("a2", "more", 1)])
        other.delete(session("b").id)
    kept.save([(each, EVERYTHING) for each in stale], "1")
    assert [name for name, _ in rows(path)] == ["c"]
    assert [each.session_id for each in kept.stale("1")] == [session("a").id]


def test_redaction_leaves_no_old_text(store: SQLiteSessionStore, path: Path) -> None:
    word = "zanzibar"
    store.append(session("a"), [said("a1", f"the word is {word}")])
    store.append(session("b"), [said("b1", "nothing of it")])
    keep(store, Profile(style=WritingStyle(instructions=(f"never say {word}",))))
    assert all(word in body for _, body in rows(path))
    assert store.rewrite(lambda text: text.replace(word, "X")) == 1
    assert word not in repr(rows(path))
    store.scrub()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert word.encode() not in path.read_bytes()


def test_redaction_of_a_title_alone_does_so_too(store: SQLiteSessionStore, path: Path) -> None:
    store.append(session("a", title="about zanzibar"), [said("a1", "hello")])
    keep(store, Profile(outcome=Outcome("success", "zanzibar", "user")))
    store.rewrite(lambda text: text.replace("zanzibar", "X"))
    assert rows(path) == []


def test_newest_first_and_those_without_a_date_last(store: SQLiteSessionStore) -> None:
    store.append(session("old"), [said("1", "hello", 0)])
    store.append(session("undated"), [said("2", "hello", timestamp=None)])
    store.append(session("new"), [said("3", "hello", 60)])
    assert [each.session_id for each in SQLProfileStore(store).stale("1")] == [
        session(name).id for name in ("new", "old", "undated")
    ]
    keep(store)
    found = [each.session.native_id for each in SQLProfileStore(store).profiles("1")]
    assert found == ["new", "old", "undated"]


def test_filters(store: SQLiteSessionStore) -> None:
    store.append(session("a", project="/w/tide"), [said("a1", "hello", 0)])
    store.append(session("b", project="/w/moon", parent_id=session("a").id), [said("b1", "hello", 60)])
    store.append(session("c", agent="other", project="/v/tide"), [said("c1", "hello", 120)])
    kept = SQLProfileStore(store)

    def found(**fields: object) -> list[str]:
        chosen = Filter(**fields)  # type: ignore[arg-type]
        keep(store)
        return [each.session.native_id for each in kept.profiles("1", chosen)]

    assert [each.session_id for each in kept.stale("1", Filter(agent="other"))] == [session("c", agent="other").id]
    assert len(kept.stale("1", Filter(limit=2))) == 2
    assert found() == ["c", "b", "a"]
    assert found(agent="tester") == ["b", "a"]
    assert found(project="tide") == ["c", "a"]
    assert found(project="/w/tide") == ["a"]
    assert found(since=at(60)) == ["c", "b"]
    assert found(since=at(60) + timedelta(seconds=1)) == ["c"]
    assert found(agent="other", project="moon") == []
    assert found(limit=1) == ["c"]


def test_many_profiles_come_in_order(store: SQLiteSessionStore) -> None:
    with store.transaction():
        for number in range(250):
            store.append(session(f"s{number:03}"), [said(f"m{number}", "hello", number)])
    keep(store, Profile())
    found = [each.session.native_id for each in SQLProfileStore(store).profiles("1")]
    assert found == [f"s{number:03}" for number in reversed(range(250))]


def test_a_store_of_a_newer_version_is_refused(store: SQLiteSessionStore) -> None:
    SQLProfileStore(store)
    with store.transaction() as connection:
        connection.execute("INSERT INTO migrations (name) VALUES ('profile/0999_later')")
    with pytest.raises(StoreTooNew, match="profile/0999_later"):
        SQLProfileStore(store)
