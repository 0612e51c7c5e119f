"""Tukey, homogeneous groups, Games-Howell: published examples, scipy and statsmodels."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as sp
from statsmodels.stats.multicomp import pairwise_tukeyhsd

from marelab.stats import anova, posthoc

# Montgomery & Runger: tensile strength of paper by hardwood concentration 5, 10, 15, 20 %
PAPER = np.array([[7, 8, 15, 11, 9, 10], [12, 17, 13, 18, 19, 15], [14, 18, 19, 17, 16, 18], [19, 25, 22, 23, 18, 20.0]])


def paper():
    a = anova.balanced(PAPER, ["concentration"])
    return a, posthoc.tukey(["5", "10", "15", "20"], PAPER.mean(axis=1), [6] * 4, a.mse, a.error_df)


def test_tukey_as_published():
    a, t = paper()
    assert a.term("concentration").f == pytest.approx(19.61, abs=0.005)
    # printed as intervals of (column mean - row mean), with the table value 3.96 for 3.9583
    published = {(0, 1): (-9.791, -1.542), (0, 2): (-11.124, -2.876), (0, 3): (-15.291, -7.042),
                 (1, 2): (-5.458, 2.791), (1, 3): (-9.624, -1.376), (2, 3): (-8.291, -0.042)}
    for (i, j), (low, high) in published.items():
        assert t.low[i, j] == pytest.approx(low, abs=0.003) and t.high[i, j] == pytest.approx(high, abs=0.003)
    assert t.groups == ["a", "b", "b", "c"]  # all differ but 10 and 15 %


def test_tukey_equals_scipy_and_statsmodels():
    _, t = paper()
    theirs = sp.tukey_hsd(*PAPER).confidence_interval(0.95)
    assert t.low == pytest.approx(theirs.low, abs=1e-6)
    m = pairwise_tukeyhsd(PAPER.ravel(), np.repeat(["a", "b", "c", "d"], 6))
    assert [bool(t.different[i, j]) for i in range(4) for j in range(i + 1, 4)] == list(m.reject)


def test_tukey_kramer_with_unequal_counts_equals_scipy():
    groups = [PAPER[0], PAPER[1][:4], PAPER[2][:5], PAPER[3]]
    n = [len(g) for g in groups]
    df = sum(n) - 4
    mse = sum(((g - g.mean()) ** 2).sum() for g in groups) / df
    ours = posthoc.tukey(list("abcd"), [g.mean() for g in groups], n, mse, df)
    assert ours.high == pytest.approx(sp.tukey_hsd(*groups).confidence_interval(0.95).high, abs=1e-6)


def test_overlapping_groups_as_minitab_prints_them():
    """Minitab's paint hardness: only blends 2 and 4 differ, so 4 has A, 1 and 3 have A and B, 2 has B."""
    means = np.array([14.73, 8.57, 12.98, 18.07])
    different = np.zeros((4, 4), bool)
    different[1, 3] = different[3, 1] = True
    assert posthoc.letters(means, different) == ["ab", "a", "ab", "b"]


@settings(max_examples=200, deadline=None)
@given(st.integers(2, 7), st.randoms(use_true_random=False))
def test_sharing_a_letter_means_not_different(k, random):
    means = np.array([random.random() for _ in range(k)])
    different = np.zeros((k, k), bool)
    for i in range(k):
        for j in range(i):
            different[i, j] = different[j, i] = random.random() < 0.5
    groups = [set(g) for g in posthoc.letters(means, different)]
    for i in range(k):
        assert groups[i]
        for j in range(i):
            assert bool(groups[i] & groups[j]) != different[i, j]


def test_games_howell_equals_statsmodels():
    rng = np.random.default_rng(2)
    samples = [rng.normal(m, s, n) for m, s, n in ((0, 1, 8), (1, 5, 20), (3, 0.2, 12), (3.2, 2, 6))]
    ours = posthoc.games_howell(list("abcd"), samples)
    theirs = pairwise_tukeyhsd(np.concatenate(samples), np.repeat(list("abcd"), [len(s) for s in samples]), use_var="unequal")
    upper = [(i, j) for i in range(4) for j in range(i + 1, 4)]
    assert [ours.p[i, j] for i, j in upper] == pytest.approx(list(theirs.pvalues), abs=1e-6)
    assert [bool(ours.different[i, j]) for i, j in upper] == list(theirs.reject)
    assert [-ours.high[i, j] for i, j in upper] == pytest.approx(list(theirs.confint[:, 0]), abs=1e-3)


def test_games_howell_of_two_is_welch():
    a, b = np.array([1.0, 2, 4, 3, 7]), np.array([9.0, 30, 12, 2, 40, 11])
    assert posthoc.games_howell(["a", "b"], [a, b]).p[0, 1] == pytest.approx(sp.ttest_ind(a, b, equal_var=False).pvalue, abs=1e-6)


def test_constant_samples_are_compared_without_dividing_by_zero():
    c = posthoc.games_howell(["a", "b", "c"], [np.full(5, 2.0), np.full(5, 2.0), np.full(5, 3.0)])
    assert not c.different[0, 1] and c.different[0, 2]


def test_intervals_of_means_are_those_of_the_t_distribution():
    a, _ = paper()
    assert posthoc.mean_interval([0], [6], a.mse, a.error_df)[0] == pytest.approx(sp.t.ppf(0.975, 20) * np.sqrt(a.mse / 6))
