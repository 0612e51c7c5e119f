"""Analysis of variance: published worked examples, and statsmodels on the same data."""

import time

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy import stats
from statsmodels.stats.anova import anova_lm

from marelab.stats import anova

# Montgomery, Design and Analysis of Experiments: plasma etching (one factor), batteries (two), vascular grafts (randomised blocks)
ETCHING = np.array([[575, 542, 530, 539, 570], [565, 593, 590, 579, 610], [600, 651, 610, 637, 629], [725, 700, 715, 685, 710.0]])
BATTERY = np.array([[[130, 155, 74, 180], [34, 40, 80, 75], [20, 70, 82, 58]],
                    [[150, 188, 159, 126], [136, 122, 106, 115], [25, 70, 58, 45]],
                    [[138, 110, 168, 160], [174, 120, 150, 139], [96, 104, 82, 60.0]]])
GRAFT = np.array([[90.3, 89.2, 98.2, 93.9, 87.4, 97.9], [92.5, 89.5, 90.6, 94.7, 87.0, 95.8],
                  [85.5, 90.8, 89.6, 86.2, 88.0, 93.4], [82.5, 89.5, 85.6, 87.4, 78.9, 90.7]])


def test_one_factor_as_published():
    a = anova.balanced(ETCHING, ["power"])
    assert a.term("power").ss == pytest.approx(66870.55, abs=0.005) and a.error_ss == pytest.approx(5339.20, abs=0.005)
    assert (a.term("power").df, a.error_df) == (3, 16)
    assert a.term("power").f == pytest.approx(66.80, abs=0.005) and a.term("power").p < 0.01


def test_two_factors_as_published():
    a = anova.balanced(BATTERY, ["material", "temperature"])
    assert a.term("material").ss == pytest.approx(10683.72, abs=0.01)
    assert a.term("temperature").ss == pytest.approx(39118.72, abs=0.01)
    assert a.term("temperature", "material").ss == pytest.approx(9613.78, abs=0.01)
    assert (a.error_ss, a.total_ss) == (pytest.approx(18230.75, abs=0.01), pytest.approx(77646.97, abs=0.01))
    assert [t.df for t in a.terms] == [2, 2, 4] and a.error_df == 27
    assert [round(t.f, 2) for t in a.terms] == [7.91, 28.97, 3.56]
    assert a.term("material", "temperature").p == pytest.approx(0.0186, abs=0.0001)


def test_randomised_blocks_as_published():
    a = anova.balanced(GRAFT, ["pressure"], blocks=True)
    assert a.term("pressure").ss == pytest.approx(178.17, abs=0.005) and a.term("block").ss == pytest.approx(192.25, abs=0.005)
    assert a.error_ss == pytest.approx(109.89, abs=0.005) and a.error_df == 15
    assert a.term("pressure").f == pytest.approx(8.11, abs=0.005) and a.term("pressure").p == pytest.approx(0.0019, abs=0.0001)


def frame(y, factors):
    grid = np.indices(y.shape).reshape(y.ndim, -1)
    return pd.DataFrame({**{f: grid[i] for i, f in enumerate(factors)}, "block": grid[-1], "y": y.ravel()})


@pytest.mark.parametrize("blocks", [False, True])
def test_all_terms_of_three_factors_equal_those_of_statsmodels(blocks):
    rng = np.random.default_rng(7)
    y = rng.normal(size=(3, 2, 4, 5)) + np.arange(3)[:, None, None, None] * np.array([1, 3])[None, :, None, None]
    ours = anova.balanced(y, ["A", "B", "D"], blocks=blocks)
    theirs = anova_lm(smf.ols("y ~ C(A)*C(B)*C(D)" + ("+C(block)" if blocks else ""), frame(y, "ABD")).fit())
    for t in ours.terms:
        line = theirs.loc[":".join(f"C({f})" for f in t.factors)]
        assert (t.ss, t.df) == (pytest.approx(line.sum_sq, rel=1e-9), line.df)
        assert t.f == pytest.approx(line.F, rel=1e-9) and t.p == pytest.approx(line["PR(>F)"], rel=1e-7)
    assert ours.error_ss == pytest.approx(theirs.loc["Residual", "sum_sq"], rel=1e-9)


def test_a_refit_of_balanced_data_agrees_with_the_closed_form():
    y = np.random.default_rng(3).normal(size=(3, 4, 6))
    a, b = anova.balanced(y, ["A", "B"], blocks=True), anova.refit(frame(y, "AB"), "y", ["A", "B"], blocks=True)
    for t in a.terms:
        assert b.term(*t.factors).ss == pytest.approx(t.ss, rel=1e-8) and b.term(*t.factors).p == pytest.approx(t.p, rel=1e-6)


def test_sums_of_squares_add_up_and_survive_a_large_mean():
    y = np.random.default_rng(5).normal(size=(2, 3, 2, 4)) + 1e9
    a = anova.balanced(y, ["A", "B", "C"])
    assert sum(t.ss for t in a.terms) + a.error_ss == pytest.approx(a.total_ss)
    assert a.error_ss == pytest.approx(((y - y.mean(axis=-1, keepdims=True)) ** 2).sum(), rel=1e-6)


def test_the_studys_own_table_contradicts_itself():
    """Table C.3 prints F = 21,950.1 with p = 0.09 for AL; with one and any plausible error degrees of freedom, p is zero to the last digit."""
    assert stats.f.sf(21950.1, 1, 18144) < 1e-300
    ms = 9.999058e08
    mse = 2.096502e09 / 5 / 9204.6  # from its line NP
    assert ms / mse == pytest.approx(21950.1, rel=1e-3)


def test_effect_sizes_of_no_effect_are_small_and_of_all_effect_one():
    noise = np.random.default_rng(1).normal(size=(4, 200))
    assert anova.balanced(noise, ["A"]).term("A").omega2 < 0.02
    exact = np.repeat(np.arange(4.0)[:, None], 5, axis=1)
    assert anova.balanced(exact, ["A"]).term("A").eta2 == pytest.approx(1)


def test_missing_replication_and_missing_values_are_refused():
    with pytest.raises(ValueError, match="degrees of freedom"):
        anova.balanced(np.zeros((3, 2, 1)), ["A", "B"])
    with pytest.raises(ValueError, match="every cell"):
        anova.balanced(np.array([[1.0, np.nan], [2, 3]]), ["A"])


def test_the_whole_study_is_analysed_without_a_design_matrix():
    y = np.random.default_rng(0).normal(size=(3, 3, 6, 6, 2, 6, 28))
    start = time.process_time()
    a = anova.balanced(y, ["NA", "TA", "NT", "NP", "AL", "allocator"], blocks=True)
    assert len(a.terms) == 64 and a.n == 108864
    assert time.process_time() - start < 30  # some 20 ms; statsmodels would need gigabytes and minutes
