"""Our statistics against those of scipy and statsmodels, and against values from the literature."""

from __future__ import annotations

import warnings
from itertools import combinations, product

import numpy as np
import pytest
from scipy import stats as scipy_stats

from warmstart.experiments import statistics
from warmstart.experiments.statistics import Test as Result
from warmstart.experiments.statistics import cluster_mean, difference, plan, t_test
from warmstart.stats import sequence_factor

RANDOM = np.random.default_rng(11)


def test_with_one_row_per_unit_it_is_welch():
    one, other = RANDOM.normal(0, 1, 12), RANDOM.normal(1, 3, 19)
    found = t_test(difference(cluster_mean(one, np.ones(12)), cluster_mean(other, np.ones(19))))
    reference = scipy_stats.ttest_ind(one, other, equal_var=False)
    interval = reference.confidence_interval()
    assert (found.p, found.df) == pytest.approx((reference.pvalue, reference.df))
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))


def test_with_equal_sizes_it_is_welch_on_unit_means():
    means = RANDOM.normal(0, 1, 12), RANDOM.normal(1, 3, 19)
    found = t_test(difference(*(cluster_mean(each * 7, np.full(each.size, 7.0)) for each in means)))
    reference = scipy_stats.ttest_ind(*means, equal_var=False)
    assert (found.p, found.df) == pytest.approx((reference.pvalue, reference.df))


def test_cr2_is_that_of_a_regression_with_the_leverages_computed_by_matrices():
    sizes = np.array([1, 4, 2, 9, 3])
    rows = [RANDOM.normal(size=size) for size in sizes]
    found = cluster_mean(np.array([each.sum() for each in rows]), sizes.astype(float))
    n, everything = int(sizes.sum()), np.concatenate(rows)
    residual = everything - everything.mean()
    hat = np.full((n, n), 1 / n)
    projections, start = [], 0
    for size in sizes:
        block = slice(start, start + size)
        values, vectors = np.linalg.eigh(np.eye(size) - hat[block, block])
        adjusted = vectors @ np.diag(values**-0.5) @ vectors.T
        projections.append((np.eye(n) - hat)[:, block] @ adjusted @ np.ones(size) / n)
        start += size
    form = np.array(projections)
    assert found.variance == pytest.approx(((form @ residual) ** 2).sum())
    gram = form @ form.T
    assert found.df == pytest.approx(np.trace(gram) ** 2 / (gram**2).sum())


def test_the_standard_error_is_near_that_of_statsmodels():
    import statsmodels.api as sm

    sizes = RANDOM.integers(5, 60, 80)
    groups = np.repeat(np.arange(80), sizes)
    outcome = RANDOM.normal(0, 0.5, 80)[groups] + RANDOM.normal(size=groups.size)
    is_treated = (groups < 40).astype(float)
    fit = sm.OLS(outcome, sm.add_constant(is_treated)).fit(cov_type="cluster", cov_kwds={"groups": groups})
    sums = np.bincount(groups, weights=outcome)
    parts = slice(40), slice(40, 80)
    found = t_test(difference(*(cluster_mean(sums[part], sizes[part].astype(float)) for part in parts)))
    assert found.value == pytest.approx(fit.params[1])
    assert found.se == pytest.approx(fit.bse[1], rel=0.02)  # statsmodels has the simpler correction CR1


def test_the_intraclass_correlation_is_that_of_the_analysis_of_variance():
    rows = RANDOM.normal(size=(9, 6)) + RANDOM.normal(size=(9, 1))
    between = 6 * rows.mean(1).var(ddof=1)
    within = ((rows - rows.mean(1, keepdims=True)) ** 2).sum() / (9 * 5)
    found = statistics.intraclass_correlation([rows.sum(1)], [(rows**2).sum(1)], [np.full(9, 6.0)])
    assert found == pytest.approx((between - within) / (between + 5 * within))
    assert statistics.design_effect([np.full(9, 6.0)], 0.1) == pytest.approx(1.5)


def test_mcnemar_is_that_of_statsmodels():
    from statsmodels.stats.contingency_tables import mcnemar

    for gained, lost in ((0, 0), (1, 0), (5, 5), (9, 2), (40, 21)):
        reference = mcnemar([[30, lost], [gained, 30]], exact=True).pvalue
        assert statistics.mcnemar(gained, lost, 60 + gained + lost).p == pytest.approx(reference)


def test_the_interval_of_bonett_and_price_worked_out_by_hand():
    """(8 - 2) / 23 = .2609, with the variance (10 / 23 - .2609²) / 23 = .01594."""
    found = statistics.mcnemar(7, 1, 21)
    assert (found.low, found.high) == pytest.approx((0.0134, 0.5084), abs=5e-5)


def test_two_proportions_is_the_chi_square_test():
    for counts in ((9, 20, 3, 22), (50, 100, 60, 100), (0, 10, 4, 10)):
        a, n, b, m = counts
        reference = scipy_stats.chi2_contingency([[a, n - a], [b, m - b]], correction=False)[1]
        assert statistics.two_proportions(*counts).p == pytest.approx(reference)
    assert statistics.two_proportions(5, 5, 6, 6).p == 1.0


def test_permutation_tests_worked_out():
    """Darwin's maize, as Fisher (1935) permutes it: 863 of 32,768 signs give at least the sum of 314 eighths."""
    differences = np.array([49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48], float)
    assert statistics.permutation_p(differences) == pytest.approx(2 * 863 / 2**15, abs=0.006)
    assert statistics.permutation_p(differences[:10]) == pytest.approx(
        np.mean([abs(differences[:10] @ signs) >= 147 for signs in product((-1, 1), repeat=10)])
    )
    one, other = np.array([1.0, 2.0, 3.0, 4.0]), np.array([3.5, 5.0, 6.0])  # 35 ways to choose three of seven
    sums = [sum(each) for each in combinations([*one, *other], 3)]
    assert statistics.permutation_p(one, other) == pytest.approx(2 * np.mean([each >= 14.5 for each in sums]))
    assert statistics.permutation_p(np.ones(2001)) is None


# Freireich et al. 1963: weeks in remission with 6-MP, and with placebo.
MERCAPTOPURINE = [(6, 3, 1), (7, 1, 0), (9, 0, 1), (10, 1, 1), (11, 0, 1), (13, 1, 0), (16, 1, 0), (17, 0, 1)]
MERCAPTOPURINE += [(19, 0, 1), (20, 0, 1), (22, 1, 0), (23, 1, 0), (25, 0, 1), (32, 0, 2), (34, 0, 1), (35, 0, 1)]
PLACEBO = np.array([1, 1, 2, 2, 3, 4, 4, 5, 5, 8, 8, 8, 8, 11, 11, 12, 12, 15, 17, 22, 23], float)


def remissions():
    times = [week for week, events, censored in MERCAPTOPURINE for _ in range(events + censored)]
    observed = [n < events for _, events, censored in MERCAPTOPURINE for n in range(events + censored)]
    return np.array(times, float), np.array(observed)


def test_kaplan_meier_of_the_leukaemia_trial():
    found = statistics.kaplan_meier(*remissions())
    assert found.times.tolist() == [6, 7, 10, 13, 16, 22, 23]
    assert found.share == pytest.approx([0.857, 0.807, 0.753, 0.690, 0.627, 0.538, 0.448], abs=5e-4)


def test_restricted_means_of_the_leukaemia_trial():
    """As R's `survfit` prints them with `rmean = 35`: 23.29 with a standard error of 2.83, and 8.67."""
    values = statistics.restricted_means(*remissions(), 35.0)
    assert values.mean() == pytest.approx(23.29, abs=5e-3)
    assert (values.var() / 21) ** 0.5 == pytest.approx(2.83, abs=5e-3)
    assert statistics.restricted_means(PLACEBO, np.ones(21, bool), 35.0) == pytest.approx(PLACEBO)


def test_kaplan_meier_is_that_of_statsmodels():
    from statsmodels.duration.survfunc import SurvfuncRight

    times = np.round(RANDOM.exponential(5, 40), 1)
    observed = RANDOM.random(40) < 0.7
    ours = statistics.kaplan_meier(times, observed)
    reference = SurvfuncRight(times, observed.astype(int))
    assert ours.times == pytest.approx(reference.surv_times)
    assert ours.share == pytest.approx(reference.surv_prob)


def test_the_variance_of_a_restricted_mean_is_greenwoods():
    times, observed, until = np.round(RANDOM.exponential(5, 60), 1), RANDOM.random(60) < 0.7, 6.0
    values = statistics.restricted_means(times, observed, until)
    at, events, at_risk, share = statistics.kaplan_meier(np.minimum(times, until), observed & (times <= until))
    steps = np.diff(np.concatenate(([0.0], at, [until]))) * np.concatenate(([1.0], share))
    right = np.array([steps[n + 1 :].sum() for n in range(at.size)])
    assert values.mean() == pytest.approx(steps.sum())
    assert values.var() / 60 == pytest.approx((right**2 * events / (at_risk * (at_risk - events))).sum())


def test_without_censoring_the_restricted_mean_is_the_mean_of_what_was_cut():
    times = RANDOM.exponential(5, 200)
    assert statistics.restricted_means(times, np.ones(200, bool), 6.0) == pytest.approx(np.minimum(times, 6.0))


def test_mcnemar_of_the_approval_ratings():
    """Agresti, Categorical Data Analysis, table 10.1: 794, 150, 86, 570; the difference is -.04 (-.06, -.02)."""
    found = statistics.mcnemar(86, 150, 1600)
    assert (found.value, found.low, found.high) == pytest.approx((-0.04, -0.0587, -0.0213), abs=5e-4)
    assert found.se == pytest.approx(0.0095, abs=5e-5)
    assert found.p == pytest.approx(scipy_stats.binomtest(86, 236).pvalue)


def test_the_intraclass_correlation_of_shrout_and_fleiss():
    """Shrout and Fleiss 1979, table 2: six targets and four judges, ICC(1, 1) = .17."""
    scores = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]
    rows = np.array(scores, float)
    found = statistics.intraclass_correlation([rows.sum(1)], [(rows**2).sum(1)], [np.full(6, 4.0)])
    assert found == pytest.approx(0.17, abs=5e-3)


def test_holm_and_benjamini_hochberg_on_the_example_of_1995():
    """Benjamini and Hochberg 1995: of 15 p-values their procedure rejects four, Bonferroni's and Holm's three."""
    given = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459]
    given += [0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0]
    assert sum(p <= 0.05 for p in statistics.adjust(given, "fdr_bh")) == 4
    assert sum(p <= 0.05 for p in statistics.adjust(given, "holm")) == 3
    assert statistics.adjust(given, "holm")[:3] == pytest.approx([0.0015, 0.0056, 0.0247])


def test_power_in_cohens_table():
    """Cohen 1988: 64 in each of two groups show half a standard deviation with a power of .80."""
    assert statistics.power_of(0.5, (2 / 64) ** 0.5, 126) == pytest.approx(0.80, abs=5e-3)
    assert statistics.smallest_detectable((2 / 64) ** 0.5, 126) == pytest.approx(0.5, abs=5e-3)


def test_adjustments_for_many_comparisons():
    assert statistics.adjust([0.01, 0.04, 0.03], "holm") == pytest.approx([0.03, 0.06, 0.06])
    assert statistics.adjust([0.01, 0.04, 0.03], "fdr_bh") == pytest.approx([0.03, 0.04, 0.04])
    assert statistics.adjust([0.2], "holm") == [0.2]
    assert statistics.adjust([], "holm") == []


def test_a_confidence_sequence_is_wider_than_an_interval_and_its_p_value_agrees_with_it():
    """The boundary of Waudby-Smith et al., theorem 2.2: sqrt(2 * 8.936 / 7.936 * log(sqrt(8.936) / .05))."""
    assert sequence_factor(100) == pytest.approx(3.0352, abs=5e-5)
    for units in (10, 100, 1000):
        factor = float(sequence_factor(units))
        assert 1.96 < factor < 6
        assert statistics.sequence_p(factor, units) == pytest.approx(0.05)
        half = statistics.at_every_look(Result(0.0, 1.0, units - 1, 0, 0, 0), units).high
        assert half > factor  # the variance is not known
        at_the_edge = statistics.at_every_look(Result(half, 1.0, units - 1, 0, 0, 0), units)
        assert (at_the_edge.low, at_the_edge.p) == pytest.approx((0.0, 0.05), abs=1e-6)
    assert statistics.sequence_p(0.0, 10) == 1.0


@pytest.mark.parametrize(("icc", "sessions"), [(0.05, 80), (0.10, 128), (0.20, 222)])
def test_sessions_needed_to_see_an_error_rate_fall_from_9_to_5_7_percent(icc, sessions):
    assert plan(0.09, 0.033, icc=icc, calls=30).sessions_needed == sessions


def test_power_is_near_that_of_statsmodels():
    from statsmodels.stats.power import TTestIndPower

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reference = TTestIndPower().power(0.5, 50, 0.05)
    assert statistics.power_of(0.5, (2 / 50) ** 0.5, 98) == pytest.approx(reference, abs=1e-6)
