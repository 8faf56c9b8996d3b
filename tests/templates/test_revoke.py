from __future__ import annotations

import re
from dataclasses import replace
from itertools import count

import pytest

from tests.templates.made import FIRST, SECOND, both, item, seed, source, template, use
from warmstart.errors import AmbiguousId, InvalidTemplate, SessionNotFound, TemplateNotFound
from warmstart.sessions.values import Message, Session
from warmstart.templates.item import EDIT, Source
from warmstart.templates.revoke import Revoked, revoke
from warmstart.templates.store import SQLTemplateStore, map_texts
from warmstart.templates.template import SessionSeed

CANARY = re.compile(r"canary\d+")


def only(session: str, of: SessionSeed) -> SessionSeed:
    """The seed as if all of it came from one session."""
    return SessionSeed(items=tuple(replace(one, sources=source(session)) for one in of.items))


def joined(one: SessionSeed, other: SessionSeed) -> SessionSeed:
    return SessionSeed(items=one.items + other.items)


def everything(store: SQLTemplateStore) -> str:
    """All that can still be used of any template, in any version."""
    said = [repr(store.summaries())]
    for each in store.list():
        said += [repr(store.get(each.id, version=v.number)) for v in store.versions(each.id) if not v.withdrawn]
    bodies = store.database.connection.execute("SELECT body FROM template_versions WHERE body IS NOT NULL").fetchall()
    heads = store.database.connection.execute("SELECT head, name FROM templates").fetchall()
    return "".join([*said, repr(bodies), repr(heads)])


def test_everything_of_the_session_goes_from_every_version(either: SQLTemplateStore) -> None:
    numbers = count()
    marked = map_texts(template(seed=only(FIRST, seed())), lambda text: f"{text} canary{next(numbers)}").seed
    tools = {**template().tools, **{call.tool_name: "" for one in marked.items for call in one.calls}}
    kept = either.add(
        template(
            seed=joined(marked, only(SECOND, seed())),
            description="Do canary1",
            described_by="rules",
            tools=tools,
        )
    )
    either.change(kept.id, author="", reason="", name="other")
    either.revert(kept.id, 1)
    alone = either.add(template(name="untouched", seed=only(SECOND, seed()), sources=(SECOND,)))
    assert len(set(CANARY.findall(everything(either)))) > 25
    (done,) = revoke(either, FIRST, author="mara")
    assert done == Revoked(kept.id, "shop", 4, "active", len(seed().items), (1, 2, 3))
    left = everything(either)
    assert not CANARY.findall(left)
    assert FIRST not in left
    found = either.get(kept.id)
    assert found.seed == only(SECOND, seed())
    assert (found.sources, found.tags, found.state) == ((SECOND,), ("python", "shop"), "active")
    assert dict(found.tools) == {"Read": ""}  # what the items left show
    assert either.get(alone.id) == alone
    newest, *older = either.versions(kept.id)
    assert (newest.author, newest.reason, newest.withdrawn) == ("mara", f"revoked session {FIRST}", False)
    assert [each.withdrawn for each in older] == [True, True, True]
    for act in (either.get, either.revert):
        with pytest.raises(TemplateNotFound, match=r"version 2 of the template .* was withdrawn"):
            act(kept.id, version=2)
    assert revoke(either, FIRST) == []
    assert either.revoked() == {FIRST}


def test_what_another_session_says_as_well_stays(either: SQLTemplateStore) -> None:
    kept = either.add(template())
    revoke(either, FIRST)
    found = either.get(kept.id).seed
    assert [each.text for each in found.of("instruction")] == ["Run the tests before every commit."]
    assert found.of("instruction")[0].sources == (Source(SECOND, "m1"),)
    assert [(each.count, each.worked) for each in found.of("command", "trap")] == [(3, 3), (1, 1), (1, 0)]
    assert [each.text for each in found.of("file")] == ["tests/test_cart.py"]
    assert found.tasks == ("Add a column to the report",)
    assert found.of("habit", "decision") == ()


def test_a_template_with_nothing_left_is_emptied_and_retired(either: SQLTemplateStore) -> None:
    kept = either.add(template(seed=only(FIRST, seed()), sources=(FIRST,), description="The totals of the shop"))
    (done,) = revoke(either, FIRST)
    assert (done.state, done.version) == ("retired", 2)
    found = either.get(kept.id)
    assert found.seed == SessionSeed()
    assert (found.sources, found.tags, found.project, found.tools) == ((), (), "", {})
    assert "totals" not in everything(either)
    assert found.name == "shop"


def test_old_versions_alone_are_withdrawn_too(store: SQLTemplateStore) -> None:
    kept = store.add(template())
    rest = store.change(kept.id, author="", reason="", seed=only(SECOND, seed()), sources=(SECOND,))
    assert revoke(store, FIRST) == [Revoked(kept.id, "shop", 2, "active", 0, (1,))]
    assert store.get(kept.id) == rest
    assert [each.withdrawn for each in store.versions(kept.id)] == [False, True]


def test_generated_names_and_descriptions_go(either: SQLTemplateStore) -> None:
    made = either.add(template(name="shop code", origin="auto", described_by="some-model"))
    own = either.add(template(name="rounding totals", description="The way we like it"))
    for used in (made, own, None):
        use(either, used.id if used else "warm_other")
    with either.database.transaction() as connection:
        connection.execute("UPDATE template_uses SET why = 'the nearest is ''shop code'' with 0.12'")
    revoke(either, FIRST)
    found = either.get(made.id)
    assert (found.name, found.description, found.described_by) == ("code work", "", "")
    assert (either.get(own.id).name, either.get(own.id).description) == ("rounding totals", "The way we like it")
    rows = either.database.connection.execute("SELECT why FROM template_uses ORDER BY id").fetchall()
    assert [row[0] for row in rows] == [
        "it came from a session that has been revoked",
        "it came from a session that has been revoked",
        "the nearest is 'code work' with 0.12",
    ]


def test_what_a_person_wrote_stays(store: SQLTemplateStore) -> None:
    mine = item("instruction", "Say please.", sources=(Source(f"{EDIT}mara"),))
    kept = store.add(template(seed=SessionSeed(items=(*only(FIRST, seed()).items, mine)), sources=(FIRST,)))
    revoke(store, FIRST)
    found = store.get(kept.id)
    assert (found.seed, found.state) == (SessionSeed(items=(mine,)), "active")


def test_the_children_of_a_session_go_with_it(store: SQLTemplateStore) -> None:
    message = Message(native_id="m", role="user", text="hello")
    parent = Session(agent="claude-code", native_id="first")
    child = Session(agent="claude-code", native_id="first/agent", parent_id=FIRST, parent_kind="subagent")
    later = Session(agent="claude-code", native_id="third", parent_id=child.id, parent_kind="resume")
    for number, each in enumerate((parent, child)):
        store.sessions.append(each, [replace(message, native_id=str(number))])
    kept = store.add(template(seed=joined(only(child.id, seed()), only(SECOND, seed())), sources=(child.id, SECOND)))
    assert len(revoke(store, "first")) == 1
    assert store.get(kept.id).sources == (SECOND,)
    assert store.revoked() == {FIRST, child.id}
    store.sessions.append(later, [message])
    assert store.revoked() == {FIRST, child.id, later.id}


def test_sessions_are_named_as_everywhere(store: SQLTemplateStore) -> None:
    for name in ("one", "once"):
        store.sessions.append(Session(agent="codex", native_id=name), [Message(native_id=name, role="user", text="x")])
    with pytest.raises(AmbiguousId):
        revoke(store, "on")
    for unknown in ("nobody", "", "0123456789abcde", "0123456789ABCDEF"):
        with pytest.raises(SessionNotFound):
            revoke(store, unknown)
    assert revoke(store, "0123456789abcdef") == []
    revoke(store, "one")
    assert store.revoked() == {"0123456789abcdef", Session(agent="codex", native_id="one").id}


def test_nothing_of_a_revoked_session_comes_back(store: SQLTemplateStore) -> None:
    kept = store.add(template(seed=only(SECOND, seed()), sources=(SECOND,)))
    revoke(store, FIRST)
    with pytest.raises(InvalidTemplate, match=f"session '{FIRST}', which was revoked"):
        store.add(template(sources=()))
    with pytest.raises(InvalidTemplate):
        store.change(kept.id, author="", reason="", seed=seed())
    assert len(store.list()) == 1


def test_a_child_that_comes_after_the_revocation_is_not_taken_either(store: SQLTemplateStore) -> None:
    child = Session(agent="claude-code", native_id="fork", parent_id=FIRST, parent_kind="branch")
    revoke(store, FIRST)
    store.sessions.append(child, [Message(native_id="m", role="user", text="hello")])
    assert store.revoked() == {FIRST, child.id}
    with pytest.raises(InvalidTemplate, match=f"items from session {child.id!r}, which was revoked"):
        store.add(template(seed=only(child.id, seed()), sources=(child.id,)))


def test_the_task_of_a_revoked_session_goes_from_the_audit(either: SQLTemplateStore) -> None:
    either.sessions.append(
        Session(agent="claude-code", native_id="first"), [Message(native_id="m1", role="user", text="a")]
    )
    for session, task in ((FIRST, "mine"), ("first", "mine too"), (SECOND, "another's")):
        use(either, "warm_x", session=session, task=task)
    revoke(either, FIRST)
    rows = either.database.connection.execute("SELECT session, task FROM template_uses ORDER BY id").fetchall()
    assert rows == [(FIRST, ""), ("first", ""), (SECOND, "another's")]


def test_only_tools_that_the_items_left_show_stay(store: SQLTemplateStore) -> None:
    kept = store.add(template(tools={"SecretTool": "", "shell": ""}))
    revoke(store, FIRST)
    assert dict(store.get(kept.id).tools) == {"shell": ""}


def test_a_revocation_that_fails_changes_nothing(store: SQLTemplateStore) -> None:
    kept, broken = store.add(template()), store.add(template())
    with store.database.transaction() as connection:
        connection.execute("UPDATE template_versions SET body = '{' WHERE template = ?", (broken.id,))
    with pytest.raises(Exception, match="damaged"):
        revoke(store, FIRST)
    assert store.get(kept.id) == kept
    assert store.revoked() == frozenset()


def test_a_count_goes_down_by_what_was_lost(store: SQLTemplateStore) -> None:
    file = item("file", "a.py", tool="read", count=5, sources=(*both(), *source(message="m2")))
    kept = store.add(template(seed=SessionSeed(items=(file,))))
    revoke(store, FIRST)
    assert store.get(kept.id).seed.items[0].count == 3
