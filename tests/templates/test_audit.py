from __future__ import annotations

from dataclasses import replace

import pytest

from tests.templates.crowd import PROJECT, happened, template_for
from tests.templates.made import uses
from warmstart.errors import SessionNotFound
from warmstart.templates.audit import record, settle, started, why
from warmstart.templates.selection import Policy, Selector, Task

ROUNDING = "Fix the rounding of the invoice totals"
NEVER = Policy(holdout=0.0)
TEST = ("Bash", {"command": "python -m pytest -q"})


def begun(store, session, *, text=ROUNDING, policy=NEVER, agent="", **options):
    task = Task(text, project=PROJECT, session=session)
    return record(store, Selector(store, policy=policy).choose(task), replace(task, agent=agent), **options)


def test_a_start_leaves_a_row_with_all_that_was_decided(either, clock):
    kept = either.add(template_for(ROUNDING))
    begun(either, "abc", agent="claude-code", tokens=420, items=("i1", "i2"))
    (use,) = why(either, "abc")
    assert (use.session, use.arm, use.template, use.version) == ("abc", "warm", kept.id, 1)
    assert (use.tokens, use.items, use.propensity, use.at) == (420, ("i1", "i2"), 1.0, clock())
    assert (use.project, use.agent, use.task, use.outcome) == (PROJECT, "claude-code", ROUNDING, "")
    assert "'rounding'" in use.why.lower()
    assert use.policy["odds"] == {kept.id: 1.0}


def test_sessions_that_start_cold_leave_rows_too(store):
    kept = store.add(template_for(ROUNDING))
    held = begun(store, "one", policy=Policy(holdout=1.0))
    none = begun(store, "two", text="Compose a lullaby about owls")
    assert (held.arm, held.template, held.propensity) == ("holdout", kept.id, 1.0)
    assert held.policy["template"] == kept.id
    assert (none.arm, none.template, none.version) == ("abstained", "", 0)
    assert store.get(kept.id).used == 0


def test_a_session_has_one_row_however_often_it_starts(either):
    either.add(template_for(ROUNDING))
    first = begun(either, "abc")
    second = begun(either, "abc", text="Something else entirely")
    assert second == first
    assert len(uses(either)) == 1


def test_a_row_is_found_by_our_id_and_by_the_agents_own(either):
    session = happened(either.sessions, "native-1", TEST)
    either.add(template_for(ROUNDING))
    begun(either, "native-1")
    assert [use.session for use in why(either, session.id)] == ["native-1"]
    assert why(either, "native-1") == why(either, session.id) == why(either, session.id[:6])
    assert started(either, session.id) == started(either, "native-1") is not None


def test_a_secret_in_the_name_of_a_session_is_not_kept_and_the_session_is_known_again(either):
    secret = f"ghp_{'aB3dE6gH9jK2' * 3}"
    either.add(template_for(ROUNDING))
    first = begun(either, f"run-{secret}", agent=f"bot-{secret}", text="fix it " * 70 + secret)
    assert secret[:12] not in repr(first)
    assert begun(either, f"run-{secret}") == first == started(either, f"run-{secret}")
    begun(either, f"run-{secret[::-1]}")
    assert len(uses(either)) == 2


def test_a_known_session_without_a_row_has_none_and_an_unknown_one_is_an_error(store):
    session = happened(store.sessions, "native-1", TEST)
    assert why(store, session.id) == []
    with pytest.raises(SessionNotFound, match="'nobody'"):
        why(store, "nobody")


def test_a_secret_in_the_task_is_not_kept(store):
    store.add(template_for(ROUNDING))
    secret = "ghp_" + "a1B2c3D4e5F6" * 3
    use = begun(store, "abc", text=f"{ROUNDING} with the token {secret}")
    assert secret not in use.task
    assert ROUNDING in use.task


def test_the_task_of_a_session_that_is_deleted_goes_with_it(either):
    one, other = happened(either.sessions, "native-1", TEST), happened(either.sessions, "native-2", TEST)
    for name in ("native-1", "native-2", "native-3"):
        begun(either, name)
    either.sessions.delete(one.id)
    assert [use.task != "" for use in uses(either)] == [True, True, False]
    either.sessions.delete(other.id)
    assert [use.task != "" for use in uses(either)] == [True, False, False]


def test_a_long_task_is_kept_in_part(store):
    assert len(begun(store, "abc", text="totals " * 1000).task) <= 300


# -- what came of it


def test_outcomes_come_from_the_profiles_of_the_sessions(either):
    kept = either.add(template_for(ROUNDING))
    begun(either, "good")
    bad = happened(either.sessions, "bad", TEST, TEST, worked=False, outcome="failure")
    begun(either, bad.id)
    begun(either, "unheard of")
    happened(either.sessions, "good", TEST, outcome="success")
    happened(either.sessions, "open", ("Read", {"file_path": "a.py"}))
    begun(either, "open")
    assert settle(either) == 2
    found = {use.session: (use.outcome, use.errors, use.calls) for use in uses(either)}
    assert found == {
        "good": ("success", 0, 1),
        bad.id: ("failure", 2, 2),
        "unheard of": ("", None, None),
        "open": ("", None, None),
    }
    assert (either.get(kept.id).successes, either.get(kept.id).failures) == (1, 1)
    assert settle(either) == 0


def test_a_session_that_goes_on_is_judged_again(store, clock):
    store.add(template_for(ROUNDING))
    begun(store, "abc")
    happened(store.sessions, "abc", TEST, outcome="success")
    settle(store)
    happened(store.sessions, "abc", TEST, outcome="failure", days=30)
    assert settle(store) == 1
    assert why(store, "abc")[0].outcome == "failure"
    clock.go(days=60)
    assert settle(store) == 1
    assert settle(store) == 0


def test_what_a_person_says_afterwards_counts(either):
    either.add(template_for(ROUNDING))
    begun(either, "abc")
    session = happened(either.sessions, "abc", TEST, outcome="success")
    assert settle(either) == 1
    either.sessions.set_outcome(session.id, "failure", "it broke the build")
    assert settle(either) == 1
    assert why(either, "abc")[0].outcome == "failure"
    assert settle(either) == 0


def test_sessions_of_two_agents_with_the_same_native_id_are_kept_apart(store):
    store.add(template_for(ROUNDING))
    happened(store.sessions, "1", TEST, outcome="failure", agent="codex")
    happened(store.sessions, "1", TEST, outcome="success", agent="hermes")
    begun(store, "1", agent="hermes")
    settle(store)
    assert why(store, "1")[0].outcome == "success"
