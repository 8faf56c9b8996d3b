from __future__ import annotations

import csv
from itertools import combinations

import numpy as np
import pytest
from scipy import stats as scipy_stats

from warmstart.errors import ExperimentError
from warmstart.experiments.analysis import Question, analyze, compare, in_words
from warmstart.experiments.units import Row, read_csv

RANDOM = np.random.default_rng(4)

# Student 1908, the hours of sleep that two drugs added in ten patients.
SLEEP = ([0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0], [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4])


def rows(first, second, *, paired=False, **more):
    return [
        Row(arm, float(value), f"{arm}{number}", pair=str(number) if paired else "", **more)
        for arm, values in (("a", first), ("b", second))
        for number, value in enumerate(values)
    ]


def test_paired_measurements():
    (found,) = analyze(rows(*SLEEP, paired=True))
    assert found.method == "paired t-test"
    assert found.difference == pytest.approx(1.58)
    assert found.p == pytest.approx(0.002833, abs=1e-6)
    assert (found.ci_low, found.ci_high) == pytest.approx((0.7001, 2.4599), abs=1e-4)
    assert (found.n_units, found.verdict) == (10, "helps")


def test_independent_measurements():
    (found,) = analyze(rows(*SLEEP))
    assert found.method == "Welch's t-test"
    assert (found.difference, found.p) == pytest.approx((1.58, 0.07939), abs=1e-5)
    assert (found.ci_low, found.ci_high) == pytest.approx((-0.2055, 3.3655), abs=1e-4)
    assert (found.n_units, found.icc, found.deff, found.verdict) == (20, None, 1.0, "inconclusive")


def test_a_unit_in_both_arms_is_a_pair():
    found = analyze([row._replace(unit=row.pair, pair="") for row in rows(*SLEEP, paired=True)])
    assert found[0].p == pytest.approx(0.002833, abs=1e-6)
    assert "compared with themselves" in found[0].notes[0]


def test_pairs_of_zeros_and_ones():
    table = {(1, 1): 20, (1, 0): 2, (0, 1): 11, (0, 0): 7}
    pairs = [pair for pair, count in table.items() for _ in range(count)]
    (found,) = analyze(rows(*zip(*pairs, strict=True), paired=True))
    assert found.method.startswith("McNemar's exact test")
    assert found.p == pytest.approx(scipy_stats.binomtest(2, 13).pvalue)
    assert (found.difference, found.verdict) == (pytest.approx(9 / 40), "helps")


def test_arms_without_variance_that_differ():
    (found,) = analyze(rows([0] * 8, [1] * 8))
    assert (found.difference, found.naive_p, found.verdict) == (1.0, None, "helps")
    (paired,) = analyze(rows([0] * 8, [1] * 8, paired=True))
    assert (paired.difference, paired.p, paired.verdict) == (1.0, pytest.approx(2 / 2**8), "helps")


def test_shares_of_independent_units():
    (found,) = analyze(rows([1] * 30 + [0] * 70, [1] * 45 + [0] * 55))
    assert found.method.startswith("two-proportion z-test")
    assert found.p == pytest.approx(scipy_stats.chi2_contingency([[30, 70], [45, 55]], correction=False)[1])
    assert found.se == pytest.approx((0.3 * 0.7 / 100 + 0.45 * 0.55 / 100) ** 0.5)


def test_several_rows_of_a_unit_are_one_piece_of_evidence():
    data = [
        Row(arm, float(RANDOM.random() < rate), f"{arm}{unit}")
        for arm in "ab"
        for unit in range(25)
        for rate in [RANDOM.beta(1, 4)]
        for _ in range(20)
    ]
    (found,) = analyze(data)
    means = [[np.mean([r.total for r in data if r.unit == f"{arm}{unit}"]) for unit in range(25)] for arm in "ab"]
    reference = scipy_stats.ttest_ind(means[1], means[0], equal_var=False)
    assert found.method.startswith("cluster-robust t-test")
    assert (found.p, found.n_units) == (pytest.approx(reference.pvalue), 50)
    assert found.icc > 0.05
    assert found.deff == pytest.approx(1 + 19 * found.icc)
    assert found.naive_p < found.p


def test_pairs_within_clusters():
    """Ten tasks each in six repositories: the repositories are the units."""
    data = [
        Row(arm, task_effect + (arm == "b") * repo_effect + RANDOM.normal(0, 0.1), f"r{repo}", pair=f"{repo}/{task}")
        for repo in range(6)
        for repo_effect in [RANDOM.normal(0.2, 0.4)]
        for task in range(10)
        for task_effect in [RANDOM.normal()]
        for arm in "ab"
    ]
    (found,) = analyze(data)
    means = {}
    for row in data:
        means.setdefault(row.unit, []).append(row.total if row.arm == "b" else -row.total)
    reference = scipy_stats.ttest_1samp([np.sum(each) / 10 for each in means.values()], 0)
    assert found.method == "cluster-robust paired t-test (CR2)"
    assert (found.p, found.n_units) == (pytest.approx(reference.pvalue), 6)


def test_the_words_of_a_verdict():
    better, worse = rows([0] * 40 + [1] * 10, [0] * 10 + [1] * 40), rows([0] * 10 + [1] * 40, [0] * 40 + [1] * 10)
    assert (
        in_words(*analyze(better)) == "b helps: 60.0 points better than a (95 % interval: 41.6 to 72.4 points better)."
    )
    assert in_words(*analyze(worse)) == "b harms: 60.0 points worse than a (95 % interval: 41.6 to 72.4 points worse)."
    assert in_words(*analyze(worse, Question(lower_is_better=True))).startswith("b helps: 60.0 points better than a")
    small = in_words(*analyze(rows([0, 1] * 10, [0, 1, 1, 1, 0] * 4)), unit="sessions")
    assert small.startswith("Not yet known whether b helps: 10.0 points better than a so far, and anything from 19.")
    assert "points worse to 37." in small
    assert small.endswith("more sessions would show a difference of 10.0 points.")


def test_censored_times_of_a_project_are_one_piece_of_evidence():
    """Ten copies of every session say no more than one."""
    data = [
        Row(arm, min(time, 8.0), f"{arm}{number}", observed=time <= 8.0)
        for arm, scale in (("cold", 9.0), ("warm", 5.0))
        for number, time in enumerate(RANDOM.exponential(scale, 30))
    ]
    (once,), (often,) = analyze(data), analyze([row for row in data for _ in range(10)])
    assert often.se == pytest.approx(once.se)
    assert (often.difference, often.n_units) == (pytest.approx(once.difference), 60)


def test_censored_times_of_the_same_tasks_are_paired():
    effort = RANDOM.exponential(9.0, 30)
    data = [
        Row(arm, min(time * factor, 12.0), f"{arm}{task}", pair=str(task), observed=time * factor <= 12.0)
        for arm, factor in (("cold", 1.0), ("warm", 0.8))
        for task, time in enumerate(effort)
    ]
    (paired,), (unpaired,) = analyze(data), analyze([row._replace(pair="") for row in data])
    assert paired.method == "paired t-test of restricted mean times up to 12 (Kaplan-Meier)"
    assert paired.difference == pytest.approx(unpaired.difference)
    assert paired.se < unpaired.se / 2


def test_censored_times():
    data = [
        Row(arm, min(time, end), f"{arm}{number}", observed=time <= end)
        for arm, scale in (("cold", 9.0), ("warm", 3.0))
        for number, (time, end) in enumerate(zip(RANDOM.exponential(scale, 60), RANDOM.uniform(5, 15, 60), strict=True))
    ]
    (found,) = analyze(data, Question(lower_is_better=True))
    assert "Kaplan-Meier" in found.method
    assert found.verdict == "helps"


def test_the_baseline_is_the_first_arm_unless_it_is_named():
    data = rows([0, 1, 2, 3], [4, 5, 6, 8])
    assert analyze(data)[0].difference == pytest.approx(4.25)
    assert analyze(data, baseline="b")[0].difference == pytest.approx(-4.25)


def test_lower_can_be_better():
    data = rows([4, 5, 6, 8, 5, 4], [0, 1, 2, 3, 1, 2])
    assert analyze(data)[0].verdict == "harms"
    assert analyze(data, Question(lower_is_better=True))[0].verdict == "helps"


def test_a_difference_that_does_not_matter_is_equivalence():
    data = rows(*RANDOM.normal(0, 1, (2, 400)))
    (found,) = analyze(data, Question(smallest_effect=0.5))
    assert found.verdict == "equivalent"
    assert "no difference that matters" in in_words(found)


def test_an_inconclusive_verdict_says_how_many_more_units_would_settle_it():
    values = np.random.default_rng(0).normal(0, 1, (2, 20))
    (found,) = analyze(rows(*values), Question(smallest_effect=0.3))
    assert found.verdict == "inconclusive"
    assert 200 < found.more_units + 40 < 500  # 2 * (2.8 / 0.3)² sessions in each of two arms
    assert "more sessions" in in_words(found, unit="sessions")


def test_several_arms_are_adjusted_as_a_family():
    data = rows(*RANDOM.normal(0, 1, (2, 30))) + [Row("c", float(v), f"c{n}") for n, v in enumerate(RANDOM.random(30))]
    found = analyze(data)
    assert [each.treatment.name for each in found] == ["b", "c"]
    assert all(each.p_adjusted >= each.p for each in found)
    assert len(analyze(data, only=("a", "c"))) == 1


def test_an_arm_that_cannot_be_compared_does_not_stop_the_others():
    (found,) = analyze([*rows([0, 1, 2, 3], [4, 5, 6, 8]), Row("c", 1.0, "c0")])
    assert found.treatment.name == "b"
    assert found.notes[-1].startswith("Not compared: c (arm 'c' has only one unit")


def test_a_share_cannot_differ_by_more_than_everything():
    (found,) = analyze(rows([0, 1], [1, 1]), Question(sequential=True))
    assert (found.ci_low, found.ci_high) == (-1.0, 1.0)


def test_while_it_runs_the_interval_is_a_confidence_sequence():
    data = rows(RANDOM.normal(0, 1, 40), RANDOM.normal(0.7, 1, 40))
    (fixed,), (running,) = analyze(data), analyze(data, Question(sequential=True))
    assert running.ci_low < fixed.ci_low < fixed.ci_high < running.ci_high
    assert running.p > fixed.p
    assert "confidence sequence" in running.method


# -- bad data


def test_missing_outcomes_are_counted_and_said():
    data = rows([1, 0, 1, 1, 0, 1], [0, 0, 1, 0, 0, 0]) + [Row("b", None, f"x{n}") for n in range(6)]
    (found,) = analyze(data)
    assert "0 of 6 in 'a', 6 of 12 in 'b'" in found.notes[0]
    assert "counted as failures (0) the difference is -0.583" in found.notes[1]
    (worse,) = analyze(data, Question(lower_is_better=True))
    assert "counted as failures (1) the difference is -0.0833" in worse.notes[1]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (rows([1, 1, 1], [1, 1, 1]), "every outcome is 1"),
        (rows([1.5, 1.5], [2.5, 2.5]), "do not vary"),
        (rows([1], [2, 3]), "only one unit"),
        (rows([1], [0], paired=True), "only one pair"),
        (rows([1, 2], []), "only one arm"),
        ([*rows([1, 2], []), Row("b", None, "x")], "'b' has no outcome"),
        ([Row("a", 1.0, "x", pair="1"), Row("b", 1.0, "y", pair="2")], "no pair is in both"),
        ([Row("a", 1.0, "x"), Row("b", 1.0, "x"), Row("b", 0.0, "y")], "--paired-by"),
    ],
)
def test_what_allows_no_number_is_refused(data, message):
    with pytest.raises(ExperimentError, match=message):
        analyze(data)


def test_a_task_in_one_arm_only_is_left_out_and_said():
    data = [*rows(*SLEEP, paired=True), Row("b", 9.0, "extra", pair="extra")]
    (found,) = analyze(data)
    assert found.p == pytest.approx(0.002833, abs=1e-6)
    assert found.notes == ("1 of 11 pairs are in one arm only and were left out.",)


def test_there_is_no_wrong_arm():
    with pytest.raises(ExperimentError, match="no arm 'c'; the arms are a, b"):
        analyze(rows([1, 2], [3, 4]), baseline="c")


def write(path, lines):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(lines)
    return path


def test_a_file(tmp_path):
    lines = [("arm", "y"), ("a", "1"), ("a", "no"), ("b", ""), ("b", "NaN"), ("b", " true "), ("b", "0.5")]
    found = read_csv(write(tmp_path / "x.csv", lines), arm="arm", outcome="y")
    assert [row.total for row in found] == [1.0, 0.0, None, None, 1.0, 0.5]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([("arm", "y"), ("a", "many")], "line 2 of .* has 'many' as 'y', which is not a number"),
        ([("arm", "y"), ("a", "inf")], "not finite"),
        ([("arm", "y"), ("", "1")], "line 2 of .* has no 'arm'"),
        ([("arm", "z"), ("a", "1")], "no column 'y'; it has arm, z"),
        ([("arm", "y")], "no rows"),
        ([], "no column 'arm'; it has none at all"),
        ([("arm", "y", "y"), ("a", "1", "0")], "several columns 'y'"),
        ([("arm", "y"), ("a", "1", "2")], "line 2 of .* more values than the file has columns"),
    ],
)
def test_a_bad_file_is_refused_with_the_line(tmp_path, lines, message):
    with pytest.raises(ExperimentError, match=message):
        read_csv(write(tmp_path / "x.csv", lines), arm="arm", outcome="y")


def test_a_file_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "x.csv").write_bytes(b"arm,y\na,\xff")
    with pytest.raises(ExperimentError, match="not UTF-8 text: invalid start byte at byte 8"):
        read_csv(tmp_path / "x.csv", arm="arm", outcome="y")


@pytest.mark.corpus
def test_two_agents_on_terminal_bench(corpus):
    path = corpus / "terminal_bench" / "trials.csv"
    data = read_csv(path, arm="submission", outcome="is_resolved", paired_by="task_id")
    arms = sorted({row.arm for row in data})
    for one, other in combinations(arms, 2):
        (found,) = analyze(data, only=(one, other))
        means = {}
        for row in data:
            means.setdefault((row.arm, row.pair), []).append(row.total)
        shared = sorted({pair for arm, pair in means if arm == one} & {pair for arm, pair in means if arm == other})
        per_task = [[np.mean(means[arm, pair]) for pair in shared] for arm in (other, one)]
        reference = scipy_stats.ttest_rel(*per_task)
        assert found.p == pytest.approx(reference.pvalue)
        assert found.difference == pytest.approx(np.mean(per_task[0]) - np.mean(per_task[1]))
        flat = [[row.total for row in data if row.arm == arm and row.pair in shared] for arm in (other, one)]
        assert found.naive_p == pytest.approx(scipy_stats.ttest_ind(*flat, equal_var=False).pvalue)


def test_an_arm_without_rows_is_refused_even_if_an_outcome_is_missing_in_the_other() -> None:
    with pytest.raises(ExperimentError, match="'b' has no rows yet"):
        compare([Row("a", 1.0, "x"), Row("a", None, "y")], "a", "b")
