"""Paired ratios within blocks, and the rule of the recommendation, on simulated studies whose truth is known."""

import numpy as np
import pytest

from marelab import recommend
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


def test_one_library_under_two_names_ties():
    rng = np.random.default_rng(5)
    ties = 0
    for s in range(300):
        st = recommend.standing("wall", ["a", "same-as-a", "slow"], study(rng, [1, 1, 1.5], cv=0.055), 0.05, resamples=600, seed=s)
        i, j = 0, 1
        ties += st.pairs.low[i, j] <= 0 <= st.pairs.high[i, j] and {"a", "same-as-a"} <= set(st.recommended)
    assert ties >= 0.95 * 300


def test_one_slowed_by_twice_the_margin_is_found_once_the_intervals_are_as_narrow_as_choose_demands():
    rng = np.random.default_rng(6)
    found = made = 0
    for s in range(150):
        values = study(rng, [1, 1.10, 1.01], blocks=60, cv=0.02)
        for n in range(10, 61, 5):
            st = recommend.standing("wall", ["a", "slowed", "b"], values[:n], 0.05, resamples=500, seed=s)
            if st.widest() <= 0.025:
                made += 1
                found += "slowed" not in st.recommended
                break
    assert made >= 140 and found >= 0.95 * made


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


# ---- the rule in words ----

def standings(time, memory, names):
    rng = np.random.default_rng(1)
    t = recommend.standing("wall", names, study(rng, time, cv=0.005), 0.05)
    m = recommend.standing("peak", names, study(rng, memory, cv=0.001, mood=0), 0.05)
    return t, m


def test_keep_it_when_what_is_used_today_is_among_the_best():
    t, m = standings([1.02, 1, 1.4], [1, 1, 1], ["glibc", "je", "slow"])
    v = recommend.verdict(t, m, "glibc", 0.05)
    assert v.keep and v.sentence == "Keep glibc." and v.alternatives == ["je"]


def test_when_it_is_the_best_the_next_one_is_named():
    t, m = standings([1, 1.2, 1.4], [1, 1, 1], ["glibc", "je", "slow"])
    v = recommend.verdict(t, m, "glibc", 0.05)
    assert v.keep and "with the next one, je" in v.reasons[0]


def test_change_when_it_is_not():
    t, m = standings([1.3, 1, 1.4], [1, 1, 1], ["glibc", "je", "slow"])
    v = recommend.verdict(t, m, "glibc", 0.05)
    assert not v.keep and v.choice == "je"
    assert "1.3" in v.reasons[0]


def test_among_equally_fast_ones_the_thrifty_one_is_named():
    t, m = standings([1.5, 1, 1.01], [1, 2, 1], ["glibc", "je", "mi"])
    assert recommend.verdict(t, m, "glibc", 0.05).choice == "mi"


@pytest.mark.parametrize("memory,words", [([1.5, 1, 1], "no other one takes less time"),
                                          ([1.5, 1, 1.02], "if time counts more: mi takes 1/1.30 of the run time, at 1.0")])
def test_where_peak_memory_decides_the_other_response_is_time(memory, words):
    t, m = standings([1.1, 1.3, 1] if "1/1.30" in words else [1, 1, 1], memory, ["glibc", "je", "mi"])
    v = recommend.verdict(m, t, "je", 0.05)
    assert v.keep and any(words in r for r in v.reasons), v.reasons
    assert not any("needs" in r or "memory counts" in r for r in v.reasons)


def test_the_front_leaves_out_whom_another_beats():
    t, m = standings([1, 1.3, 1.3, 1.5], [1.5, 1, 1.5, 1], ["fast", "small", "neither", "small but slow"])
    assert recommend.front(t, m, 0.05) == ["fast", "small"]


def test_wide_intervals_are_confessed():
    st = recommend.standing("wall", ["a", "b"], study(np.random.default_rng(2), [1, 1.4], blocks=5, cv=0.3), 0.05)
    v = recommend.verdict(st, recommend.standing("peak", ["a", "b"], np.ones((5, 2)), 0.05), "b", 0.05)
    assert "nothing better has been shown" in v.sentence and any("wider than the margin" in r for r in v.reasons)


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
