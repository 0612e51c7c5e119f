"""What a choice says: better, the same, or undecided, beside intervals that say so, too."""

import numpy as np
import pytest
from studies import WIDE, simulated

from marelab import recommend, verdict

NAMES = ["glibc", "je", "mi"]


def made(time, memory=(1, 1, 1), names=NAMES, blocks=20, noise=(0.004, 0.005), seed=1, disturbed=0.0, margin=0.05, present="glibc"):
    rng = np.random.default_rng(seed)
    t = recommend.standing("wall", names, simulated(rng, time, blocks, noise, disturbed=disturbed), margin, present)
    m = recommend.standing("peak", names, simulated(rng, memory, blocks, (0.001, 0.0011), mood=0, drift=0), margin, present)
    return t, m


def said(*args, margin=0.05, present="glibc", pace=2.0, **more):
    t, m = made(*args, margin=margin, present=present, **more)
    return verdict.verdict(t, m, present, margin, pace), t, m


def test_the_same_within_the_margin_is_kept():
    v, t, _ = said([1.02, 1, 1.4])
    assert v.word == "same" and v.sentence == "Keep glibc." and v.alternatives == ["je"] and v.as_dict()["keep"]
    assert "no other one is better by more than" in v.reasons[0] and t.high[0] <= 1.05


def test_the_best_is_kept_and_the_next_one_named():
    v, _, _ = said([1, 1.2, 1.4])
    assert v.word == "same" and "times that with je" in v.reasons[0]


def test_another_one_is_better_by_at_least_so_much():
    v, t, _ = said([1.3, 1, 1.4])
    assert v.word == "better" and v.choice == "je" and not v.as_dict()["keep"]
    assert v.sentence.startswith("Use je: better by at least 2") and 0.25 < v.by < 0.3
    assert "better by at least" in v.sentence and t.low[0] > 1.05


def test_better_but_not_surely_by_the_margin_is_said_so():
    v, t, _ = said([1.055, 1, 1.4], noise=(0.01, 0.011), seed=4)
    assert v.word == "better" and v.choice == "je" and 0 < v.by < 0.05
    assert "not surely by 5 %" in v.sentence and 1 < t.low[0] < 1.05


def test_undecided_says_how_many_blocks_and_minutes_would_decide():
    v, t, _ = said([1.03, 1, 1.0], noise=(0.03, 0.031), blocks=12, seed=2, pace=9.0)
    assert v.word == "undecided" and v.choice == "glibc" and "may be better by up to" in v.sentence
    assert v.further > 0 and v.seconds == 9 * v.further
    assert f"about {v.further} further blocks, {verdict.minutes(v.seconds)}, would decide" in v.reasons[1]
    assert f"--blocks {12 + v.further}" in v.reasons[1]
    again = np.tile(t.values, (1 + -(-(12 + v.further) // 12), 1))  # more blocks like those
    assert verdict.verdict(recommend.standing("wall", NAMES, again, 0.05, "glibc"), made([1, 1, 1])[1], "glibc", 0.05).word != "undecided"


def test_a_difference_at_the_margin_itself_is_not_promised_to_be_decided():
    t, m = made([1.05, 1], [1, 1], NAMES[:2], noise=(0.02, 0.021), blocks=40)
    t.pairs.difference[0, 1] = np.log(1.05)
    t.pairs.difference[1, 0] = -np.log(1.05)
    assert recommend.to_decide(t, "glibc") is None
    assert "so near the margin" in verdict.blocks_text(t, None, 1.0)


@pytest.mark.parametrize("seed", range(60))
def test_words_and_intervals_never_contradict_each_other(seed):
    """Whatever the noise: nothing 25 % slower is green, and an interval that excludes 1 is never called undecided."""
    rng = np.random.default_rng(seed)
    v, t, _ = said(rng.uniform(1, 1.15, 3), noise=(0.005, 0.08), blocks=int(rng.integers(10, 25)), seed=seed, disturbed=0.1)
    high, low = t.high[0], t.low[0]
    assert v.word == ("same" if high <= 1.05 else "better" if low > 1 else "undecided")
    for row in t.rows():
        assert row["low"] <= max(row["ratio"], 1) and row["ratio"] <= row["high"] + 1e-12
        assert (row["word"] == "same") == (row["high"] <= 1.05)
        assert row["word"] != "worse" or row["low"] > 1
    assert v.by is None or v.by > 0
    assert [r["ratio"] for r in t.rows()] == sorted(r["ratio"] for r in t.rows())


def test_which_of_two_better_ones_is_the_best_may_stay_open():
    v, t, _ = said([1.5, 1, 1.005], noise=(0.05, 0.051), blocks=12)
    assert v.word == "better" and v.sentence.startswith(f"Use {v.choice}: better by at least")
    other = ({"je", "mi"} - {v.choice}).pop()
    assert any(f"whether {other} would be better still, by up to" in r and "would decide" in r for r in v.reasons)


def test_a_noisy_rival_does_not_hide_what_is_surely_better():
    """The allocator used today is compared with each other one, and not only with whoever might be the best."""
    rng = np.random.default_rng(5)
    values = simulated(rng, [1.15, 1, 1.02], 14, (0.005, 0.006))
    values[:, 2] *= np.exp(0.4 * rng.normal(size=14))
    t = recommend.standing("wall", NAMES, values, 0.05, "glibc")
    assert "mi" in t.candidates and t.low[0] > 1.05 and t.high[0] > 1.3


def test_fewer_than_ten_blocks_give_no_verdict():
    v, t, _ = said([1.5, 1, 2], blocks=9)
    assert v.word == "undecided" and "only 9 whole blocks were made, and a verdict needs 10" in v.sentence and v.further == 1
    assert set(t.words.values()) == {"undecided"}


def test_where_the_mean_says_something_else_than_typical_runs_it_is_said():
    rng = np.random.default_rng(6)
    values = simulated(rng, [1.3, 1, 1.5], 20, (0.004, 0.005))
    values[::7, 1] *= 4  # now and then je takes four times as long
    t = recommend.standing("wall", NAMES, values, 0.05, "glibc")
    v = verdict.verdict(t, made([1, 1, 1])[1], "glibc", 0.05)
    assert v.choice == "je" and t.mean_ratio("glibc") < 1
    assert any("by the mean of all of them glibc is 0.88" in r and "some runs of je are much slower" in r for r in v.reasons)
    assert not any("mean of all" in r for r in said([1.3, 1, 1.5])[0].reasons)


def test_among_equally_fast_ones_the_thrifty_one_is_named():
    assert said([1.5, 1, 1.01], [1, 2, 1])[0].choice == "mi"


@pytest.mark.parametrize("time,memory,words", [([1, 1, 1], [1.5, 1, 1], "no other one surely takes less time"),
                                               ([1.1, 1.3, 1], [1.5, 1, 1.02], "if time counts more: mi takes 1/1.30 of the run time, at 1.0")])
def test_where_peak_memory_decides_the_other_response_is_time(time, memory, words):
    t, m = made(time, memory, present="je")
    v = verdict.verdict(m, t, "je", 0.05)
    assert v.word == "same" and any(words in r for r in v.reasons), v.reasons
    assert not any("needs" in r or "memory counts" in r for r in v.reasons)


def test_the_front_leaves_out_whom_another_beats():
    t, m = made([1, 1.3, 1.3, 1.5], [1.5, 1, 1.5, 1], ["fast", "small", "neither", "small but slow"], present="fast")
    assert recommend.front(t, m, 0.05) == ["fast", "small"]


def test_bounds_in_words_promise_no_more_than_the_figures():
    assert [verdict.share(x) for x in (0.1299, 0.0449, 0.3)] == ["12 %", "4.4 %", "30 %"]
    assert [verdict.at_most(x) for x in (0.1201, 0.0441, 0.05)] == ["13 %", "4.5 %", "5 %"]
    assert [verdict.minutes(x) for x in (30, 200, 7200)] == ["a minute", "3 minutes", "2.0 hours"]


# ---- how often it is right ----

def outcome(factors, seed, blocks, disturbed) -> str:
    """Right: it names none that is truly worse by more than the margin, and decides where the truth exceeds twice the margin."""
    names = [f"a{i}" for i in range(len(factors))]
    values = simulated(np.random.default_rng(seed), factors, blocks, disturbed=disturbed)
    t = recommend.standing("wall", names, values, 0.05, names[0])
    v = verdict.verdict(t, t, names[0], 0.05)
    truth = np.array(factors) / min(factors)
    if v.word != "undecided" and truth[names.index(v.choice)] > 1.05:
        return "wrong"
    return "right" if v.word == "better" or truth[0] < 1.1 else "undecided"


def test_nineteen_of_twenty_programs_are_judged_rightly_with_every_seventh_run_disturbed():
    """Twenty programs, today's allocator between the best and a third slower; 17 blocks of 8 allocators."""
    rng, counts = np.random.default_rng(7), {"right": 0, "wrong": 0, "undecided": 0}
    for seed in range(200):
        factors = np.concatenate([[rng.uniform(1, 1.35)], WIDE[1:]])
        counts[outcome(factors, seed, 17, 0.15)] += 1
    assert counts["right"] >= 0.95 * 200 and counts["wrong"] <= 0.01 * 200, counts
