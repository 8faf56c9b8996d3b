from __future__ import annotations

import pytest

from tests.templates.crowd import PROJECT, happened, outcomes
from warmstart.templates.lifecycle import promote, review
from warmstart.templates.make import auto
from warmstart.templates.revoke import revoke

TASKS = (
    "Fix the rounding of the invoice totals",
    "Draw the shipping label in the new format",
    "Cache the product feed for an hour",
    "Rename the loyalty points in the mobile checkout",
)

# What the first session of `worked` does.
EDIT_AND_TEST = (
    ("Edit", {"file_path": "src/part0.py", "old_string": "c", "new_string": "d"}),
    ("Bash", {"command": "python -m pytest -q tests/test_part0.py"}),
)


def worked(store, number, *, task=None, calls=6, **options):
    """A session that went well: an edit, a few looks, and tests that pass."""
    made = [
        ("Edit", {"file_path": f"src/part{number}.py", "old_string": "a", "new_string": "b"}),
        *(("Bash", {"command": f"python -m pytest -q tests/test_part{each}.py"}) for each in range(calls - 1)),
    ]
    given = {"request": task or TASKS[number % 4], "outcome": "success", "days": number, **options}
    return happened(store.sessions, f"session-{number}", *made, **given)


def test_sessions_that_went_well_become_a_candidate_for_their_project_and_type(store):
    sessions = [worked(store, number) for number in range(3)]
    worked(store, 3, project="/home/mara/other")
    worked(store, 4, outcome="failure")
    worked(store, 5, calls=4)
    made = {each.project: each for each in auto(store)}
    assert set(made) == {PROJECT, "/home/mara/other"}
    shop = made[PROJECT]
    assert (shop.action, set(shop.sessions)) == ("created", {session.id for session in sessions})
    assert "1 failed" in shop.why
    assert "1 with fewer than 5 calls" in shop.why
    kept = store.get(shop.template.id)
    assert (kept.state, kept.origin, kept.project, kept.task_type) == ("candidate", "auto", PROJECT, shop.task_type)
    assert set(kept.sources) <= {session.id for session in sessions}
    assert store.versions(kept.id)[0].author == "warmstart"


def test_the_same_sessions_make_no_second_template_and_new_ones_a_new_version(store):
    worked(store, 0)
    (first,) = auto(store)
    (again,) = auto(store)
    assert (again.action, again.template) == ("skipped", None)
    assert "nothing new" in again.why
    worked(store, 1)
    (changed,) = auto(store)
    assert (changed.action, changed.template.id, changed.template.version) == ("changed", first.template.id, 2)
    assert "new sessions that went well: 1" in store.versions(first.template.id)[0].reason
    assert len(store.summaries()) == 1


def test_a_dry_run_says_what_would_be_made_and_writes_nothing(store):
    worked(store, 0)
    (made,) = auto(store, dry_run=True)
    assert (made.action, made.template.id) == ("created", "")
    assert store.summaries() == []


def test_limits_decide_which_sessions_are_good_enough(store):
    worked(store, 0, calls=6)
    assert auto(store, min_calls=7)[0].why == "no session went well enough: 1 with fewer than 7 calls"
    assert auto(store, min_calls=6, dry_run=True)[0].action == "created"


def test_too_many_errors_are_not_good_enough(store):
    worked(store, 0, worked=False)
    (made,) = auto(store)
    assert (made.action, made.why) == ("skipped", "no session went well enough: 1 with more than 10% errors")


def test_a_revoked_session_is_left_out(store):
    session = worked(store, 0)
    revoke(store, session.id)
    (made,) = auto(store)
    assert (made.action, made.why) == ("skipped", "no session went well enough: 1 revoked")


def test_sessions_of_subagents_are_left_out(store):
    parent = worked(store, 0)
    worked(store, 1, parent_id=parent.id, parent_kind="subagent")
    (made,) = auto(store, dry_run=True)
    assert made.sessions == (parent.id,)
    assert "1 from a subagent" in made.why


def test_no_more_than_twenty_sessions_are_taken(store):
    things = "anchor basket candle dragon engine feather garden hammer island jacket kettle ladder magnet needle"
    more = "orchid pepper quarry ribbon saddle tunnel umbrella velvet window yellow zipper"
    for number, thing in enumerate(f"{things} {more}".split()):
        worked(store, number, task=f"Polish the {thing}", calls=5)
    (made,) = auto(store, dry_run=True)
    assert len(made.sessions) == 20


def test_what_a_person_edited_or_retired_is_left_alone(store):
    worked(store, 0)
    (made,) = auto(store)
    store.change(made.template.id, author="mara", reason="clearer", name="My shop")
    worked(store, 1)
    (again,) = auto(store)
    assert (again.action, again.why) == ("skipped", f"{made.template.id} was edited by mara and is no longer updated")
    store.change(made.template.id, state="retired", author="warmstart", reason="harm")
    (again,) = auto(store)
    assert "is retired and is not updated" in again.why


@pytest.mark.parametrize(
    ("project", "name"),
    [
        (PROJECT, "shop code"),
        ("", "sessions code"),
        ("/a", "a code"),
    ],
)
def test_a_template_is_called_after_its_project(store, project, name):
    worked(store, 0, project=project)
    assert auto(store, dry_run=True)[0].template.name == name


def test_templates_of_projects_with_the_same_last_part_have_different_names(store):
    worked(store, 0, project="/home/mara/shop")
    worked(store, 1, project="/home/ben/shop")
    assert [each.template.name for each in auto(store)] == ["ben/shop code", "mara/shop code"]
    worked(store, 2, project="/home/mara/shop")
    assert [each.template.name for each in auto(store) if each.template] == ["mara/shop code"]
    assert len(store.summaries()) == 2


def test_a_revocation_does_not_make_a_template_somebodys_own(store):
    first, _ = worked(store, 0), worked(store, 1)
    auto(store)
    revoke(store, first.id, author="mara")
    worked(store, 2)
    (made,) = auto(store)
    assert made.action == "changed"
    assert first.id not in made.template.sources


def test_a_life_from_good_sessions_to_retirement_in_either_database(either):
    worked(either, 0)
    (made,) = auto(either)
    for number in range(1, 4):
        happened(either.sessions, f"another-{number}", *EDIT_AND_TEST, days=number)
    assert review(either) == []
    promote(either, made.template.id, author="mara")
    assert review(either) == []
    outcomes(either, made.template.id, successes=0, failures=12)
    outcomes(either, made.template.id, successes=12, failures=0, arm="holdout")
    assert [changed.new for changed in review(either)] == ["retired"]


def test_what_a_person_promoted_stays_what_they_saw(store):
    worked(store, 0)
    (made,) = auto(store)
    promote(store, made.template.id, author="mara")
    worked(store, 1)
    (again,) = auto(store)
    assert again.action == "skipped"
    assert "is active and is not updated" in again.why
    assert store.get(made.template.id).seed == made.template.seed


def test_a_session_that_cannot_be_read_is_named_and_the_others_are_used(store, caplog):
    worked(store, 0)
    bad = worked(store, 1)
    worked(store, 2, project="/home/mara/other")
    with store.database.transaction() as connection:
        pk = connection.execute("SELECT pk FROM sessions WHERE id = ?", (bad.id,)).fetchone()[0]
        connection.execute("UPDATE messages SET at = 1e300 WHERE session = ?", (pk,))
    with caplog.at_level("WARNING", logger="warmstart"):
        made = auto(store)
    assert [each.action for each in made] == ["created", "created"]
    (line,) = caplog.messages
    assert line.startswith(f"skipped session {bad.id}: ")
    assert "StoreCorrupt" not in line


def test_a_store_without_sessions_makes_nothing(store):
    assert auto(store) == []
