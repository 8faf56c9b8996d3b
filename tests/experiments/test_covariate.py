"""Adjustment for a covariate, against computations of its own and on data with a known truth."""

from __future__ import annotations

import csv
import json
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
import statsmodels.api as sm

import warmstart
from warmstart.cli import main
from warmstart.errors import ExperimentError
from warmstart.experiments.analysis import Question, adjusted_test, compare
from warmstart.experiments.results import evaluate
from warmstart.experiments.statistics import adjusted_mean, cluster_mean, difference, t_test
from warmstart.experiments.units import Arm, Row, Units, read_csv
from warmstart.sessions.values import Message, Session, ToolCall, ToolResult

BY_EXPERTISE = Question(lower_is_better=True, covariate="expertise")
EFFECT = -0.033
START = datetime(2026, 9, 7, 9, 30, tzinfo=UTC)


def draw(random, n, icc, *, confounded):
    """Two arms with about n sessions each. Experts make fewer errors; if `confounded`, they start warm more often."""
    expertise = np.minimum(random.geometric(0.25, 2 * n) - 1, 10).astype(float)
    is_warm = random.permutation(2 * n) < n
    if confounded:
        is_warm = random.random(2 * n) < 1 / (1 + np.exp((3 - expertise) / 2))
    sizes = np.maximum(1, np.rint(random.lognormal(np.log(30) - 0.32, 0.8, 2 * n)))
    rates = 0.3 - 0.02 * expertise + EFFECT * is_warm
    if icc:
        rates = random.beta(rates * (1 - icc) / icc, (1 - rates) * (1 - icc) / icc)
    sums = random.binomial(sizes.astype(int), rates).astype(float)
    arms = (Arm(sums[arm], sums[arm], sizes[arm], (expertise * sizes)[arm]) for arm in (~is_warm, is_warm))
    return Units(*arms)


def both_tests(units):
    """With and without adjustment."""
    arms = (cluster_mean(arm.sums, arm.sizes) for arm in (units.treatment, units.baseline))
    return adjusted_test(units, "expertise")[0], t_test(difference(*arms))


def covers(test):
    return test.low <= EFFECT <= test.high


def rows_of(units):
    return [
        Row(name, total, f"{name}{number}", size=size, square=total, covariate=covariate / size)
        for name, arm in (("cold", units.baseline), ("warm", units.treatment))
        for number, (total, size, covariate) in enumerate(zip(arm.sums, arm.sizes, arm.covariates, strict=True))
    ]


# -- the numbers


def test_the_variance_is_that_of_cr2_over_rows():
    """The textbook formula, with a matrix square root for each unit, over the rows one by one."""
    random, n = np.random.default_rng(1), 12
    sizes, covariate = random.integers(1, 9, n).astype(float), random.normal(size=n)
    means = 1 + covariate / 2 + random.normal(size=n)
    unit = np.repeat(np.arange(n), sizes.astype(int))
    design, outcome = np.stack([np.ones(unit.size), covariate[unit]], 1), means[unit]
    bread = np.linalg.inv(design.T @ design)
    hat = design @ bread @ design.T
    coefficients = bread @ design.T @ outcome
    meat, parts = 0.0, []
    for number in range(n):
        own = unit == number
        values, vectors = np.linalg.eigh(np.eye(own.sum()) - hat[np.ix_(own, own)])
        part = (bread @ design[own].T @ vectors @ np.diag(values**-0.5) @ vectors.T)[0]
        meat += (part @ (outcome - design @ coefficients)[own]) ** 2
        parts.append(part @ (np.eye(unit.size) - hat)[own])
    eigenvalues = np.linalg.eigvalsh(np.array(parts) @ np.array(parts).T)
    found, slope = adjusted_mean(means * sizes, sizes, covariate)
    assert (found.value, slope) == pytest.approx(tuple(coefficients))
    assert found.variance == pytest.approx(meat)
    assert found.df == pytest.approx(eigenvalues.sum() ** 2 / (eigenvalues**2).sum())


def test_the_difference_is_that_of_a_regression_with_interactions():
    units = draw(np.random.default_rng(2), 40, 0.05, confounded=True)
    sizes = np.concatenate([units.baseline.sizes, units.treatment.sizes])
    sums = np.concatenate([units.baseline.sums, units.treatment.sums])
    expertise = np.concatenate([units.baseline.covariates, units.treatment.covariates]) / sizes
    expertise -= np.average(expertise, weights=sizes)
    is_warm = np.repeat([0.0, 1.0], [units.baseline.sums.size, units.treatment.sums.size])
    columns = np.stack([np.ones_like(sums), is_warm, expertise, is_warm * expertise], 1)
    fit = sm.WLS(sums / sizes, columns, weights=sizes).fit(cov_type="HC2")
    found = compare(rows_of(units), "cold", "warm", BY_EXPERTISE)
    assert found.difference == pytest.approx(fit.params[1])
    # The standard error also has the uncertainty of the mean expertise.
    assert fit.bse[1] <= found.se < 1.05 * fit.bse[1]


def test_pairs_are_not_adjusted():
    """They are adjusted by design, and a field experiment has none."""
    rows = [Row(arm, float(n % 3), str(n), str(n), covariate=float(n)) for arm in "ab" for n in range(9)]
    with pytest.raises(ExperimentError, match="compared with themselves already"):
        compare(rows, "a", "b", BY_EXPERTISE)


# -- a known truth


def test_a_covariate_that_predicts_the_outcome_narrows_the_interval():
    found, plain = both_tests(draw(np.random.default_rng(4), 100, 0.0, confounded=False))
    assert found.high - found.low < 0.8 * (plain.high - plain.low)


def test_confounding_by_the_covariate_is_removed():
    random = np.random.default_rng(5)
    tests = [both_tests(draw(random, 50, 0.0, confounded=True)) for _ in range(200)]
    assert np.mean([covers(found) for found, _ in tests]) >= 0.9
    assert np.mean([covers(plain) for _, plain in tests]) <= 0.3


@pytest.mark.slow
@pytest.mark.parametrize("confounded", [False, True])
@pytest.mark.parametrize("icc", [0.0, 0.05, 0.2])
@pytest.mark.parametrize("n", [20, 50, 200])
def test_coverage(n, icc, confounded):
    """With 2,000 runs, so that a rate of 5 % is known to about half a point."""
    random = np.random.default_rng(n)
    tests = [adjusted_test(draw(random, n, icc, confounded=confounded), "x")[0] for _ in range(2000)]
    assert np.mean([covers(test) for test in tests]) >= 0.935


# -- what is said, and what is refused


def test_the_result_without_adjustment_is_noted():
    units = draw(np.random.default_rng(6), 40, 0.0, confounded=True)
    rows, plain = rows_of(units), both_tests(units)[1]
    rows[0] = rows[0]._replace(covariate=None)
    found = compare(rows, "cold", "warm", BY_EXPERTISE, resample=True)
    assert found.method == "regression on expertise in each arm (Lin, CR2)"
    assert "Rows without expertise were left out: 1." in found.notes
    assert "Without adjustment the difference is" in found.notes[-1]
    complete = compare(rows_of(units), "cold", "warm", BY_EXPERTISE)
    assert f"Without adjustment the difference is {plain.value:+.3g} (SE {plain.se:.3g})." in complete.notes[-1]
    assert (found.naive_p, found.p_permutation, found.bootstrap) == (None, None, None)  # they do not adjust


@pytest.mark.parametrize(
    ("covariates", "message"),
    [
        ([1.0] * 8, "does not vary enough within an arm"),
        ([1.0, 1.0, 1.0, 2.0] * 2, "does not vary enough within an arm"),
        ([None] * 8, "not known for any row"),
    ],
)
def test_a_covariate_that_says_nothing_is_refused(covariates, message):
    rows = [
        Row("ab"[number // 4], float(number % 3), str(number), covariate=covariate)
        for number, covariate in enumerate(covariates)
    ]
    with pytest.raises(ExperimentError, match=message):
        compare(rows, "a", "b", BY_EXPERTISE)


# -- where it comes from


def test_a_column_of_a_file(tmp_path, capsys, home):
    path = tmp_path / "results.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("arm", "error_count", "expertise"))
        for arm in ("cold", "warm"):
            writer.writerows((arm, number % 4 + (arm == "cold"), number or "") for number in range(20))
    rows = read_csv(path, arm="arm", outcome="error_count", covariate="expertise")
    assert [row.covariate for row in rows[:3]] == [None, 1.0, 2.0]
    main(["experiment", "analyze", str(path), "--metric", "error_count", "--covariate", "expertise", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert (found["lower_is_better"], found["verdict"]) == (True, "helps")
    assert found["method"].startswith("regression on expertise")
    assert "Rows without expertise were left out: 2." in found["notes"]


def told(store, number, project, *, started, fails=False, parent_kind=None):
    session = Session(
        agent="codex", native_id=f"n{number}", project=project, started_at=started, parent_kind=parent_kind
    )
    call = ToolCall(id="c", name="bash", arguments='{"command": "make test"}')
    result = ToolResult(call_id="c", text="Error: boom" if fails else "ok", outcome="error" if fails else "ok")
    messages = [
        Message(native_id=f"{number}-1", role="user", text="Go on."),
        Message(native_id=f"{number}-2", role="assistant", tool_calls=(call,)),
        Message(native_id=f"{number}-3", role="tool", tool_results=(result,)),
    ]
    store.append(session, messages)
    return session


DESIGN = """
name = "brief"
kind = "field"
metric = "errors"
power = {baseline = 0.3, effect = 0.1, calls = 4}
[arms.cold]
[arms.warm]
start = ["brief"]
"""


def test_expertise_counts_the_sessions_that_the_user_began_before(tmp_path):
    with warmstart.open(home=tmp_path) as ws:
        for number, (project, kind) in enumerate(
            [("/a", None), ("/a", "subagent"), ("/b", None), ("/a", "resume"), ("/a", "compaction"), ("/a", None)]
        ):
            told(ws.store, number, project, started=START + timedelta(days=number), parent_kind=kind)
        told(ws.store, 6, "", started=START)
        told(ws.store, 7, "/a", started=None)
        told(ws.store, 8, "/a", started=START - timedelta(days=1))  # imported late
        found = ws.experiments.expertise()
        assert {name: found[name] for name in found if name.startswith("n")} == {
            "n8": 0, "n0": 1, "n1": 2, "n2": 0, "n3": 2, "n4": 3, "n5": 3,
        }  # fmt: skip
        assert found[Session(agent="codex", native_id="n5").id] == 3


def test_a_field_experiment_is_adjusted_for_expertise(tmp_path):
    random = np.random.default_rng(7)
    with warmstart.open(home=tmp_path) as ws:
        design = ws.experiments.save(DESIGN)
        for number in range(60):
            fails = random.random() < 0.9 - 0.05 * (number // 4)
            session = told(ws.store, number, f"/{number % 4}", started=START + timedelta(days=number), fails=fails)
            ws.experiments.assign(design, session.id)
        assert ws.experiments.settle() == 60
        ws.experiments.finish("brief")
        plain, found = evaluate(ws.experiments, "brief"), evaluate(ws.experiments, "brief", covariate="expertise")
        assert [row.covariate for row in found.rows] == [number // 4 for number in range(60)]
        assert found.primary[0].se < plain.primary[0].se
        assert "Mean expertise" in found.primary[0].notes[-1]
        assert any(each.method.startswith("regression") for each in found.secondary["error_count"])
        with pytest.raises(ExperimentError, match="only 'expertise'"):
            evaluate(ws.experiments, "brief", covariate="mood")
