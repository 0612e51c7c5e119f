"""Which runs are made again: by what took the CPU away, and never by how they came out."""

import inspect

import numpy as np
import pytest

from marelab import allocators, blocks, disturbed, measure, rows


def run(name="a", preempted=10, steal=0, **more):
    return {"allocator": name, "preempted": str(preempted), "steal_ticks": str(steal), **more}


def test_far_more_preemptions_or_steal_than_usual_disturb():
    watch = disturbed.Watch([run(preempted=p) for p in (8, 10, 12, 9)])
    assert not watch.disturbed(run(preempted=35)) and watch.disturbed(run(preempted=60))
    assert not watch.disturbed(run(steal=2)) and watch.disturbed(run(steal=3))


def test_what_is_usual_is_each_allocators_own():
    watch = disturbed.Watch([run("quick", 5)] * 5 + [run("slow", 100)] * 5)
    assert not watch.disturbed(run("slow", 200)) and watch.disturbed(run("quick", 200))


def test_a_machine_that_is_always_busy_is_not_suspected():
    rng = np.random.default_rng(1)
    watch = disturbed.Watch([run(preempted=rng.poisson(300)) for _ in range(20)])
    assert not any(watch.disturbed(run(preempted=rng.poisson(300))) for _ in range(200))


def test_nothing_is_known_before_the_first_run():
    assert not disturbed.Watch([]).disturbed(run(preempted=10_000))


def test_the_rule_never_sees_an_outcome():
    """Neither times nor memory change its answer, and no such column is named in it."""
    watch = disturbed.Watch([run()] * 5)
    for column in ("wall_s", "cpu_s", "user_s", "sys_s", "peak_kib", "minor_faults"):
        assert column not in inspect.getsource(disturbed)
        assert [watch.disturbed(run(preempted=60, **{column: v})) for v in ("1e-9", "1e9")] == [True, True]


def outcomes(monkeypatch, preempted):
    """measure.once gives these one after another; the time says which one it was."""
    count = iter(range(10**6))

    def once(goal, allocator, *more, **options):
        n = next(count)
        return measure.Outcome(1.0 + n / 1000, 1.0, 0.0, 1000, 10, 0, 1, preempted(n), 0, 0, None, 0)

    monkeypatch.setattr(measure, "once", once)


def conducted(monkeypatch, tmp_path, preempted, response="wall"):
    outcomes(monkeypatch, preempted)
    used = {n: a for n, a in allocators.load().items() if n in ("glibc", "jemalloc")}
    plan = blocks.Plan(measure.Target(("true",)), response, 0.05, 1, 10, 0.0)
    with rows.Rows(tmp_path / "runs.csv") as kept:
        blocks.make(plan, used, kept, {})
        return kept.kept, list(used)


def test_a_disturbed_run_is_made_again_in_its_block_and_the_last_one_counts(monkeypatch, tmp_path):
    kept, names = conducted(monkeypatch, tmp_path, lambda n: 500 if n == 9 else 5)
    again = [r for r in kept if r["block"] == "4"]
    assert [r["disturbed"] for r in again] == ["0", "1", "0"] and again[2]["allocator"] == again[1]["allocator"] and again[2]["order"] == "3"
    values = blocks.table(kept, names, "wall_s")
    assert values.shape == (10, 2) and float(again[2]["wall_s"]) in values and float(again[1]["wall_s"]) not in values
    assert blocks.repeated(kept) == 1


def test_a_run_that_stays_disturbed_is_made_again_twice_and_then_counts(monkeypatch, tmp_path):
    kept, names = conducted(monkeypatch, tmp_path, lambda n: 500 if 9 <= n <= 11 else 5)
    assert [r["disturbed"] for r in kept if r["block"] == "4"] == ["0", "1", "1", "1"]
    assert blocks.table(kept, names, "wall_s").shape == (10, 2)


def test_no_more_than_a_quarter_of_the_runs_is_made_again(monkeypatch, tmp_path):
    kept, _ = conducted(monkeypatch, tmp_path, lambda n: 5 if n < 12 else 500 * (n + 1))
    assert 0 < blocks.repeated(kept) <= 0.25 * len(kept) + 1


def test_where_memory_decides_nothing_is_made_again(monkeypatch, tmp_path):
    kept, _ = conducted(monkeypatch, tmp_path, lambda n: 500 if n == 9 else 5, "peak")
    assert blocks.repeated(kept) == 0


@pytest.mark.parametrize("disturbed_part", [0.0, 0.15])
def test_repeating_does_not_favour_anyone(monkeypatch, tmp_path, disturbed_part):
    """Of two equal ones, one of which is disturbed more often, what remains is equal."""
    rng = np.random.default_rng(3)

    def once(goal, allocator, *more, **options):
        pushed = rng.random() < disturbed_part * (2 if allocator.name == "glibc" else 0.2)
        return measure.Outcome(float(np.exp(0.01 * rng.normal()) * (1.3 if pushed else 1)), 1, 0, 1000, 10, 0, 1, 300 if pushed else 5, 0, 0, None, 0)

    monkeypatch.setattr(measure, "once", once)
    used = {n: a for n, a in allocators.load().items() if n in ("glibc", "jemalloc")}
    with rows.Rows(tmp_path / "runs.csv") as kept:
        blocks.make(blocks.Plan(measure.Target(("true",)), "wall", 0.0001, 1, 40, 0.0), used, kept, {})
        values = blocks.table(kept.kept, ["glibc", "jemalloc"], "wall_s")
    assert abs(np.median(np.log(values[:, 0] / values[:, 1]))) < 0.01
