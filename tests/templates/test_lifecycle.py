from __future__ import annotations

from random import Random

import pytest

from tests.templates.crowd import PROJECT, happened, outcomes, template_for
from tests.templates.made import use
from warmstart.errors import TemplateChanged
from warmstart.templates.lifecycle import Counts, count_uses, promote, review
from warmstart.templates.selection import Policy, Selector, Task

TASK = "Fix the rounding of the invoice totals"
# What the template of `template_for` demonstrates.
EDIT = ("Edit", {"file_path": "src/cart.py", "old_string": "x", "new_string": "y"})
TEST = ("Bash", {"command": "cd shop && python -m pytest -q tests/test_other.py"})
LOOK = ("Bash", {"command": "ls -la && git status && cat README.md"})


@pytest.fixture
def first(sessions):
    return happened(sessions, "first", LOOK, EDIT, TEST, outcome="success")


@pytest.fixture
def candidate(store, first):
    return store.add(template_for(TASK, session=first.id, state="candidate", origin="auto"))


def state(store, template):
    return store.get(template.id).state


# -- becoming active


def test_nothing_becomes_active_by_recurring(store, sessions, candidate):
    for day in range(1, 5):
        happened(sessions, f"again-{day}", LOOK, EDIT, TEST, days=day, outcome="success")
    outcomes(store, candidate.id, successes=7, failures=0)
    assert review(store) == []
    assert state(store, candidate) == "candidate"


def test_a_measured_benefit_makes_a_candidate_active_and_nothing_else(store, candidate):
    imported = store.add(template_for(TASK, state="quarantined", origin="imported from a.json"))
    for kept in (candidate, imported):
        outcomes(store, kept.id, successes=20, failures=2)
        outcomes(store, kept.id, successes=3, failures=17, arm="holdout")
    (changed,) = review(store)
    assert (changed.template, changed.old, changed.new) == (candidate.id, "candidate", "active")
    assert changed.reason.startswith("measured benefit: +76%")
    assert state(store, imported) == "quarantined"
    assert review(store) == []
    assert Selector(store, policy=Policy(holdout=0.0)).choose(Task(TASK, project=PROJECT)).template.id == candidate.id


def test_a_benefit_of_what_a_candidate_said_before_does_not_count(store, candidate):
    outcomes(store, candidate.id, successes=20, failures=2)
    outcomes(store, candidate.id, successes=3, failures=17, arm="holdout")
    store.change(candidate.id, author="warmstart", reason="1 new session", description="Something else.")
    assert review(store) == []


@pytest.mark.parametrize(("origin", "before"), [("auto", "candidate"), ("imported from a.json", "quarantined")])
def test_what_an_earlier_version_made_active_goes_back_and_is_not_used(store, origin, before):
    kept = store.add(template_for(TASK, state=before, origin=origin), author="warmstart")
    store.change(
        kept.id, state="active", author="warmstart", reason="a demonstration recurs in two independent sessions"
    )
    assert Selector(store).choose(Task(TASK, project=PROJECT), seed=1).template is None
    store.change(kept.id, author="warmstart", reason="1 new session that went well", description="Changed")
    store.revert(kept.id, 2, author="mara")  # shows nobody what it says
    assert review(store, dry_run=True)
    assert state(store, kept) == "active"
    (changed,) = review(store)
    assert (changed.new, changed.reason) == (before, "no person has promoted it")
    promote(store, kept.id, author="mara")
    assert review(store) == []
    assert Selector(store, policy=Policy(holdout=0.0)).choose(Task(TASK, project=PROJECT)).template.id == kept.id


def test_a_version_that_nobody_saw_is_not_promoted(store, candidate):
    store.change(candidate.id, author="warmstart", reason="1 new session", description="Something else.")
    with pytest.raises(TemplateChanged):
        promote(store, candidate.id, author="mara", expected=candidate.version)


# -- being retired


def test_measured_harm_retires_a_template(store):
    harmful = store.add(template_for(TASK))
    harmless = store.add(template_for("Draw the label"))
    outcomes(store, harmful.id, successes=1, failures=11)
    outcomes(store, harmful.id, successes=10, failures=1, arm="holdout")
    outcomes(store, harmless.id, successes=6, failures=4)
    (changed,) = review(store)
    assert (changed.template, changed.new) == (harmful.id, "retired")
    assert "measured harm" in changed.reason
    assert "-" in changed.reason
    assert state(store, harmless) == "active"


def test_a_template_that_fails_where_cold_sessions_succeed_is_retired(store):
    harmful = store.add(template_for(TASK))
    other = store.add(template_for("Draw the label"))
    outcomes(store, harmful.id, successes=1, failures=9)
    outcomes(store, other.id, successes=38, failures=2, arm="holdout")
    assert [changed.template for changed in review(store)] == [harmful.id]


def test_a_few_failures_prove_no_harm(store):
    kept = store.add(template_for(TASK))
    outcomes(store, kept.id, successes=0, failures=3)
    outcomes(store, kept.id, successes=3, failures=0, arm="holdout")
    assert review(store) == []


def test_a_template_that_is_not_used_for_long_is_retired(store, clock):
    old = store.add(template_for(TASK))
    used = store.add(template_for("Draw the label"))
    clock.go(days=179)
    use(store, used.id)
    assert review(store) == []
    clock.go(days=2)
    assert [changed.template for changed in review(store, max_age_days=1000)] == []
    (changed,) = review(store)
    assert (changed.template, changed.reason) == (old.id, "not used for 180 days")
    assert [changed.template for changed in review(store, max_age_days=1)] == [used.id]


def test_what_is_retired_stays_so(store, clock):
    kept = store.add(template_for(TASK, state="retired"))
    outcomes(store, kept.id, successes=20, failures=0)
    outcomes(store, kept.id, successes=0, failures=20, arm="holdout")
    assert review(store) == []


def test_the_user_promotes(store):
    kept = store.add(template_for(TASK, state="quarantined"))
    assert promote(store, kept.id, author="mara").state == "active"
    assert store.versions(kept.id)[0].author == "mara"


def test_over_time_a_harmful_template_goes_and_a_useful_one_is_chosen_more(store):
    """Sessions succeed with 50 % when cold, 85 % with the useful and 10 % with the harmful template.

    One course of events of many: with other seeds 31 of 40 had retired the harmful one by then.
    """
    useful = store.add(template_for(TASK, name="useful"))
    harmful = store.add(template_for(TASK, name="harmful"))
    rate = {useful.id: 0.85, harmful.id: 0.10}
    taken = {useful.id: [0, 0], harmful.id: [0, 0]}
    random = Random(4)
    selector = Selector(store, policy=Policy(holdout=0.3, explore=0.3))
    for number in range(240):
        choice = selector.choose(Task(TASK, project=PROJECT, session=f"s{number}"))
        if choice.template is None:
            continue
        chance = rate[choice.template.id] if choice.arm == "warm" else 0.5
        taken[choice.template.id][number >= 120] += choice.arm == "warm"
        came_to = "success" if random.random() < chance else "failure"
        use(store, choice.template.id, arm=choice.arm, session=f"s{number}", outcome=came_to)
        if number % 20 == 19:
            review(store)
    assert state(store, useful) == "active"
    assert state(store, harmful) == "retired"
    assert taken[useful.id][1] > taken[useful.id][0] * 0.8
    assert taken[harmful.id][1] <= taken[harmful.id][0]


# -- the effect


def test_the_effect_is_the_difference_with_its_interval(store):
    kept = store.add(template_for("Fix the totals"))
    outcomes(store, kept.id, successes=56, failures=14)
    outcomes(store, kept.id, successes=48, failures=32, arm="holdout")
    found = count_uses(store)[kept.id].effect
    assert found == pytest.approx((0.2, 0.0524, 0.3339, 70, 80), abs=5e-5)


def test_with_none_or_one_on_a_side_the_effect_is_not_yet_known(subtests):
    cases = [
        Counts(),
        Counts(successes=5),
        Counts(cold_successes=5),
        Counts(successes=1, cold_successes=9),
        Counts(successes=9, cold_failures=1),
    ]
    for counts in cases:
        with subtests.test(counts=counts):
            assert counts.effect is None


def test_two_on_each_side_are_an_effect_with_a_wide_interval():
    found = Counts(successes=2, cold_successes=1, cold_failures=1).effect
    assert found.low < 0 < found.high


def test_only_sessions_held_out_from_this_template_count_and_only_known_outcomes(store):
    one, other = store.add(template_for("Fix the totals")), store.add(template_for("Draw the label"))
    outcomes(store, one.id, successes=3, failures=0)
    outcomes(store, other.id, successes=5, failures=5, arm="holdout")
    for number in range(5):
        use(store, one.id, arm="holdout", session=f"open {number}")
    assert count_uses(store)[one.id].effect is None
    outcomes(store, one.id, successes=0, failures=2, arm="holdout")
    assert count_uses(store)[one.id].effect[3:] == (3, 2)


def test_a_confidence_sequence_shows_harm_however_often_it_is_looked_at():
    assert Counts(successes=2, failures=38, cold_successes=30, cold_failures=10).shows_harm
    assert not Counts(successes=0, failures=3, cold_successes=3).shows_harm
    assert not Counts().shows_harm
    random, wrong, runs = Random(5), 0, 400
    for _ in range(runs):
        tally = [0, 0, 0, 0]
        for _ in range(120):
            tally[2 * (random.random() < 0.5) + (random.random() < 0.6)] += 1
            counts = Counts(successes=tally[1], failures=tally[0], cold_successes=tally[3], cold_failures=tally[2])
            if counts.shows_harm:
                wrong += 1
                break
    assert wrong / runs <= 0.05  # that is two-sided: harm alone is half of it
