"""Paired ratios within blocks, bootstrapped over whole blocks, on simulated studies whose truth is known."""

import numpy as np
import pytest

from marelab.stats import diagnose, paired


def study(rng, factors, blocks=10, cv=0.02, mood=0.1, drift=0.0):
    """Run times: a common mood per block, a drift, noise with heavy tails; allocator i is slower by factors[i]."""
    k = len(factors)
    noise = cv * rng.standard_t(5, size=(blocks, k)) / np.sqrt(5 / 3)
    shared = mood * rng.normal(size=(blocks, 1)) + drift * np.linspace(0, 1, blocks)[:, None]
    return np.exp(np.log(np.asarray(factors)) + shared + noise)


def test_intervals_cover_all_true_differences_together():
    rng = np.random.default_rng(11)
    truth = np.log([1.0, 1.1, 1.3, 1.0])
    true = truth[:, None] - truth[None, :]
    hits = 0
    for s in range(300):
        p = paired.compare(np.log(study(rng, np.exp(truth), blocks=12, cv=0.05)), resamples=600, seed=s)
        hits += bool(np.all((p.low <= true + 1e-12) & (true - 1e-12 <= p.high)))
    assert hits >= 0.92 * 300  # nominal 95 %, less three standard errors of 300 studies


def test_pairing_takes_out_what_a_block_shares():
    rng = np.random.default_rng(8)
    calm = paired.compare(np.log(study(rng, [1, 1.1], cv=0.01, mood=0.0)))
    moody = paired.compare(np.log(study(np.random.default_rng(8), [1, 1.1], cv=0.01, mood=1.0)))
    assert np.max(moody.high - moody.low) < 3 * np.max(calm.high - calm.low)


def test_a_response_that_never_varies_is_no_problem():
    y = np.log(np.tile([100.0, 100.0, 120.0], (8, 1)))
    p = paired.compare(y)
    assert p.low[0, 1] == p.high[0, 1] == 0
    assert p.low[2, 0] == pytest.approx(np.log(1.2))


def test_runs_of_blocks_are_resampled_whole():
    rows = paired.resample_rows(10, 50, 3, np.random.default_rng(0))
    assert rows.shape == (50, 10) and rows.min() >= 0 and rows.max() <= 9
    assert all((r[1] - r[0]) % 10 == 1 and (r[2] - r[1]) % 10 == 1 for r in rows)


def test_too_few_blocks_are_refused():
    with pytest.raises(ValueError, match="3 blocks"):
        paired.compare(np.zeros((2, 3)))


def test_an_interval_of_one_mean_covers_it():
    rng = np.random.default_rng(4)
    hits = sum(low <= 0 <= high for low, high in (paired.interval(rng.standard_t(5, 12), resamples=500, seed=s) for s in range(300)))
    assert hits >= 0.92 * 300


# ---- diagnostics ----

def test_unequal_variances_and_drift_are_named():
    rng = np.random.default_rng(0)
    cells = [rng.normal(0, s, 30) for s in np.geomspace(1, 100, 40)]
    d = diagnose.diagnose(cells, in_order=np.linspace(0, 1, 100) + rng.normal(0, 0.1, 100))
    assert d.variance_ratio > 300 and d.autocorrelation > 0.5 and d.drift > 0.5
    assert any("one pooled error term does not fit" in s for s in d.sentences) and any("drift" in s for s in d.sentences)


def test_well_behaved_residuals_raise_no_alarm():
    rng = np.random.default_rng(0)
    d = diagnose.diagnose([rng.normal(size=30) for _ in range(40)], in_order=rng.normal(size=500))
    assert len(d.sentences) == 1 and "alike" in d.sentences[0]


def test_a_difference_of_infinities_is_refused_and_not_warned_of():
    for bad in (np.inf, -np.inf, np.nan):
        with pytest.raises(ValueError, match="finite"):
            paired.compare(np.array([[0.0, bad]] * 4))
