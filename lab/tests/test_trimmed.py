"""Trimmed means of paired differences and bounds of the distance to the best, on published examples and simulated studies whose truth is known."""

import numpy as np
import pytest
from scipy import stats
from studies import WIDE, simulated

from marelab.stats import trimmed

MARGIN = 0.05
FOUR = [1.1, 1.0, 1.005, 1.2]


def test_the_parts_give_yuens_test_of_the_published_example():
    """SciPy's reference documentation of ttest_ind, trim=0.2 (Yuen and Dixon 1973, with variances taken for equal): t = 3.4464, p = 0.0137."""
    a, b = np.array([56, 128.6, 12, 123.8, 64.34, 78, 763.3]), np.array([1.1, 2.9, 4.2])
    kept = [len(x) - 2 * int(0.2 * len(x)) for x in (a, b)]
    squares = [trimmed.error(x, 0.2) ** 2 * h * (h - 1) for x, h in zip((a, b), kept)]  # Winsorised, summed
    df = sum(kept) - 2
    t = (stats.trim_mean(a, 0.2) - stats.trim_mean(b, 0.2)) / np.sqrt(sum(squares) / df * sum(1 / h for h in kept))
    assert t == pytest.approx(3.4463884028073513, rel=1e-9)
    assert 2 * stats.t.sf(t, df) == pytest.approx(0.01369338726499547, rel=1e-9)


def test_errors_are_those_of_another_implementation():
    """Of a pair with a constant, Yuen's test is that of one sample."""
    rng = np.random.default_rng(0)
    for n in (8, 10, 11, 17, 34):
        x = rng.standard_t(3, n)
        p = trimmed.pairs(np.column_stack([x, np.zeros(n)]))
        theirs = stats.ttest_ind(x, rng.normal(size=n) * 1e-12, equal_var=False, trim=0.25)
        assert p.difference[0, 1] / p.error[0, 1] == pytest.approx(theirs.statistic, rel=1e-6)
        assert p.kept == n - 2 * (n // 4)


def test_comparisons_that_hold_together_are_bonferronis():
    p = trimmed.pairs(np.random.default_rng(0).normal(size=(17, 8)))
    assert p.critical(7) == pytest.approx(stats.t.ppf(1 - 0.025 / 7, 8))


def shares(factors, blocks, disturbed, studies=300, seed=1):
    """In how many of the studies all bounds hold; the present one is found to be worse than the margin; the best one named is really within it."""
    rng, truth = np.random.default_rng(seed), np.log(factors) - np.log(min(factors))
    held = found = named = 0
    for _ in range(studies):
        d = trimmed.to_best(trimmed.pairs(np.log(simulated(rng, factors, blocks, disturbed=disturbed))), 0)
        held += bool(np.all((d.low <= truth + 1e-12) & (truth <= d.high + 1e-12)))
        found += d.low[0] > np.log1p(MARGIN)
        named += truth[d.best] <= np.log1p(MARGIN)
    return held / studies, found / studies, named / studies


@pytest.mark.parametrize("factors", [WIDE, np.ones(8), FOUR, [1.1, 1.0]], ids=["wide", "ties", "four", "two"])
@pytest.mark.parametrize("disturbed", [0.0, 0.15])
@pytest.mark.parametrize("blocks", [10, 17])
def test_all_bounds_hold_together_whichever_is_the_best(factors, disturbed, blocks):
    held, _, named = shares(factors, blocks, disturbed)
    assert held >= 0.93 - 1.65 * np.sqrt(0.93 * 0.07 / 300)  # 93 %, less what 300 studies may be off by chance
    assert named >= 0.98


def test_twice_the_margin_is_found_among_eight_with_every_seventh_run_disturbed():
    assert shares(WIDE, 17, 0.15)[1] >= 0.90
    assert shares(WIDE, 34, 0.15, 150)[1] >= 0.97


def test_bounds_hold_where_blocks_are_made_until_they_are_narrow():
    rng, studies, held, made = np.random.default_rng(2), 120, 0, []
    truth = np.log([1.1, 1.0, 1.0])
    for _ in range(studies):
        logs = np.log(simulated(rng, np.exp(truth), 60, disturbed=0.1))
        for n in range(10, 61):
            p = trimmed.pairs(logs[:n])
            d = trimmed.to_best(p, 0)
            if np.expm1(p.critical(2) * p.error[:, d.best].max()) <= MARGIN / 2:
                break
        made.append(n)
        held += bool(np.all((d.low <= truth + 1e-12) & (truth <= d.high + 1e-12)))
    assert held >= 0.91 * studies and 10 <= np.median(made) < 60


def test_the_true_best_is_a_candidate():
    rng = np.random.default_rng(3)
    kept = sum(1 in trimmed.candidates(trimmed.pairs(np.log(simulated(rng, FOUR, 12, disturbed=0.1)))) for _ in range(300))
    assert kept >= 0.95 * 300


def test_a_few_disturbed_runs_move_the_estimate_little():
    rng = np.random.default_rng(4)
    logs = np.log(simulated(rng, [1.1, 1.0], 20, noise=(0.005, 0.006)))
    spoilt = logs.copy()
    spoilt[[2, 7, 11], 0] += 1.0
    before, after = trimmed.pairs(logs), trimmed.pairs(spoilt)
    assert abs(after.difference[0, 1] - before.difference[0, 1]) < 0.005 < abs((spoilt - logs).mean(axis=0)[0])


def test_what_a_blocks_runs_share_falls_out():
    calm, moody = (trimmed.pairs(np.log(simulated(np.random.default_rng(8), [1, 1.1], mood=m, drift=0.0))) for m in (0.0, 1.0))
    assert moody.error[0, 1] == pytest.approx(calm.error[0, 1]) and moody.difference[0, 1] == pytest.approx(calm.difference[0, 1])


def test_a_response_that_never_varies_has_exact_bounds():
    d = trimmed.to_best(trimmed.pairs(np.log(np.tile([100.0, 100.0, 120.0], (10, 1)))))
    assert d.candidates == [0, 1] and d.low.tolist() == d.high.tolist() == pytest.approx([0, 0, np.log(1.2)])


def test_too_few_blocks_are_refused():
    with pytest.raises(ValueError, match="4 blocks"):
        trimmed.pairs(np.zeros((3, 3)))
