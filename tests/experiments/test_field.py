"""Field experiments: live sessions are assigned when they start and measured when they end."""

from __future__ import annotations

from collections import Counter

import pytest

import warmstart
from warmstart.errors import ExperimentError
from warmstart.experiments.design import parse_design
from warmstart.experiments.results import check, evaluate, policy_values
from warmstart.experiments.store import HOLDOUT
from warmstart.stats import assign

FIELD = """
name = "brief"
kind = "field"
metric = "errors"
power = {baseline = 0.3, effect = 0.1, calls = 4}
sessions = 20
[arms.cold]
[arms.warm]
start = ["brief"]
"""


@pytest.fixture
def ws(tmp_path):
    (tmp_path / "project" / ".git").mkdir(parents=True)
    with warmstart.open(home=tmp_path / "home") as opened:
        yield opened


@pytest.fixture
def project(tmp_path):
    return str(tmp_path / "project")


def hold(ws, project, name, *, fails=False):
    """A session of one request with two calls; returns its arm and the messages it began with."""
    ask = {"role": "user", "content": "Add a table."}
    with ws.begin(name, task="Add a table.", project=project, messages=[ask], model="m") as run:
        if run.arm:  # it is stored before the session does anything
            stored = ws.experiments.trials("brief")[-1]
            assert (stored.session, stored.arm, stored.propensity, stored.measures) == (name, run.arm, 0.5, {})
        run.record(ask)
        for number in range(2):
            call = {"id": f"{name}-{number}", "function": {"name": "bash", "arguments": '{"command": "make test"}'}}
            run.record({"role": "assistant", "content": "", "tool_calls": [{"type": "function", **call}]})
            text = "Error: boom" if fails else "ok"
            run.record({"role": "tool", "tool_call_id": call["id"], "content": text})
    return run.arm, run.messages


def test_sessions_are_assigned_before_they_begin_and_measured_when_they_end(ws, project):
    ws.experiments.save(FIELD)
    ws.memory.set("port", "PostgreSQL listens on 5433")
    held = [hold(ws, project, f"s{n}", fails=n % 3 == 0) for n in range(12)]
    trials = ws.experiments.trials("brief")
    assert [trial.arm for trial in trials] == [arm for arm, _ in held]
    assert Counter(trial.arm for trial in trials) == {"cold": 6, "warm": 6}  # balanced in blocks
    assert {trial.propensity for trial in trials} == {0.5}
    assert all(trial.measures["errors"][1] == 2 for trial in trials)
    assert all(len(messages) == 2 for arm, messages in held if arm == "cold")  # the preflight block is in every arm
    results = evaluate(ws.experiments, "brief")
    assert results.state == "running"
    assert "confidence sequence" in results.primary[0].method
    assert results.checks == ()


def test_a_session_keeps_its_arm_and_an_experiment_ends(ws, project):
    design = ws.experiments.save(FIELD.replace("sessions = 20", "sessions = 1"))
    first = ws.experiments.assign(design, "one")
    assert ws.experiments.assign(design, "one") == first
    ws.experiments.assign(design, "two")
    assert ws.experiments.running_in(project) is None
    assert ws.experiments.running_in(project, "one") == design
    assert ws.experiments.get("brief")[1] == "complete"


def test_projects_stay_together_where_memory_carries_over(ws):
    design = ws.experiments.save(FIELD.replace('kind = "field"', 'kind = "field"\nassign_by = "project"'))
    trials = [ws.experiments.assign(design, f"s{n}", unit=f"/srv/{n % 4}") for n in range(12)]
    arms = {(trial.unit, trial.arm) for trial in trials}
    assert len(arms) == 4
    assert Counter(arm for _, arm in arms) == {"cold": 2, "warm": 2}  # balanced over projects
    assert ws.experiments.assign(design, "s7", unit="/srv/3") == trials[7]


def test_strata_are_balanced_each(ws):
    design = ws.experiments.save(FIELD)
    for n in range(24):
        ws.experiments.assign(design, f"s{n}", stratum=f"m{n % 3}")
    counts = Counter((trial.stratum, trial.arm) for trial in ws.experiments.trials("brief"))
    assert set(counts.values()) == {4}


def test_without_an_experiment_nothing_is_assigned(ws, project):
    assert hold(ws, project, "s")[0] == ""
    assert ws.experiments.all() == []


def test_a_design_cannot_change_once_it_has_sessions(ws):
    design = ws.experiments.save(FIELD)
    ws.experiments.assign(design, "one")
    ws.experiments.save(FIELD)
    with pytest.raises(ExperimentError, match="another design"):
        ws.experiments.save(FIELD.replace("0.1", "0.2"))
    with pytest.raises(ExperimentError, match="no experiment 'other'"):
        ws.experiments.get("other")


def test_a_sample_ratio_mismatch_is_reported(ws):
    design = ws.experiments.save(FIELD)
    trials = [ws.experiments.assign(design, f"s{n}") for n in range(80)]
    assert check(trials, design, ()) == []
    lost = [trial for number, trial in enumerate(trials) if trial.arm == "cold" or number % 4 == 0]
    (problem,) = check(lost, design, ())
    assert "Sample-ratio mismatch" in problem


def test_the_same_project_in_two_arms_is_contamination(ws):
    design = ws.experiments.save(FIELD)
    trials = [ws.experiments.assign(design, f"s{n}")._replace(unit="/srv/a") for n in range(4)]
    assert "leaked" in check(trials, design, ())[0]


def test_the_holdout_of_templates_is_an_experiment_too(ws, project):
    ws.templates  # noqa: B018 - creates its tables
    with ws.store.transaction() as connection:
        for n in range(60):
            arm = "holdout" if n % 3 == 0 else "warm"
            outcome = "success" if (arm == "warm" and n % 5) or n % 2 else "failure"
            policy = '{"holdout": 0.3, "odds": {}}' if n < 57 else '{"holdout": 0.0, "odds": {}}'
            connection.execute(
                "INSERT INTO template_uses (session, arm, at, project, agent, task, why, propensity, tokens, items, "
                "policy, outcome) VALUES (?, ?, ?, '', '', '', '', ?, 0, '[]', ?, ?)",
                (f"s{n}", arm, float(n), 0.3 if arm == "holdout" else 0.7, policy, outcome),
            )
    found = evaluate(ws.experiments, HOLDOUT)
    assert len(found.trials) == 57  # the others were not decided by chance
    assert (found.primary[0].baseline.name, found.primary[0].treatment.name) == ("cold", "warm")
    assert found.primary[0].difference > 0
    assert found.design.arms["cold"].share == pytest.approx(0.3)
    assert found.checks == ()
    with pytest.raises(ExperimentError, match="choose another"):
        ws.experiments.save(FIELD.replace('"brief"', '"holdout"', 1))


def test_off_policy_values_are_those_of_the_policies():
    uses = []
    for n in range(4000):
        arm, chance = assign({"holdout": 0.2, "warm": 0.8}, "arm", f"s{n}")
        template, share = assign({"a": 0.75, "b": 0.25}, "template", f"s{n}")
        truth = {"holdout": 0.4}.get(arm, 0.9 if template == "a" else 0.3)
        reward = assign({"yes": truth, "no": 1 - truth}, "reward", f"s{n}")[0] == "yes"
        uses.append(
            {"arm": arm, "template": template, "propensity": chance * share, "reward": reward}
            | {"odds": {"a": 0.75, "b": 0.25}}
        )
    found = {value.policy: value for value in policy_values(uses)}
    for policy, truth in {"cold": 0.4, "a": 0.9, "b": 0.3, "selector": 0.75 * 0.9 + 0.25 * 0.3}.items():
        assert found[policy].low - 0.01 <= truth <= found[policy].high + 0.01
    assert found["b"].effective < found["a"].effective < 4000


def test_a_harmful_arm_of_an_a_a_experiment_is_a_check(ws):
    design = parse_design(FIELD.replace('kind = "field"', 'kind = "field"\naa = true'))
    assert design.arm("warm") == design.arm("cold")
