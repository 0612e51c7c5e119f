"""A fit resembles its trace, or is refused for a reason that is named; one whose lifetimes were dealt out anew over the sizes is always refused."""

import json
import os
import random
import subprocess
import sys

import numpy as np
import pytest
from traces import Writer
from tracing import case, record

from marelab import fit, format, native, workload
from marelab.errors import LabError


def service() -> Writer:
    """Small blocks that die at once, middle ones after a while, large ones late or never."""
    rng, w, due = random.Random(3), Writer(), {}
    for i in range(40000):
        for block in due.pop(i, ()):
            w.free(block)
        kind = rng.random()
        if kind < 0.7:
            size, life = rng.choice([16, 24, 32]), rng.randint(1, 4)
        elif kind < 0.95:
            size, life = rng.randint(100, 200), rng.randint(200, 400)
        else:
            size, life = rng.randint(1000, 3000), rng.choice([5000, 10**9])
        w.malloc(i, size)
        due.setdefault(i + life, []).append(i)
    return w


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return format.load(service().save(tmp_path_factory.mktemp("fit") / "service"))


def joint_rows(path):
    head, names, *rows = path.read_text().splitlines()
    return [head, names], [r.split(",") for r in rows]


def test_a_fit_of_a_synthetic_service_is_accepted(original, tmp_path):
    before = fit.facts(original, None, tmp_path / "joint")
    tests = fit.compare(before, fit.synthesise(tmp_path / "joint", tmp_path, original.main().words))
    assert all(t["passed"] for t in tests.values()), tests
    assert set(tests) == set(fit.LIMITS)


def test_a_fit_with_lifetimes_shuffled_over_sizes_is_rejected(original, tmp_path):
    before = fit.facts(original, None, tmp_path / "joint")
    head, rows = joint_rows(tmp_path / "joint")
    by_phase = {}
    for r in rows:
        by_phase.setdefault((r[0], r[9] == "-1"), []).append(r)
    rng = random.Random(1)
    for part in by_phase.values():  # the marginals stay: each life of a block goes to some size of the same phase
        lives = [(r[2], r[6], r[7]) for r in part for _ in range(int(r[8]))]
        rng.shuffle(lives)
        for r in part:
            n, taken = int(r[8]), lives
            r[8] = "1"
            r[2], r[6], r[7] = taken.pop()
            for _ in range(n - 1):
                life = taken.pop()
                rows.append([*r[:2], life[0], *r[3:6], life[1], life[2], *r[8:]])
    (tmp_path / "shuffled").write_text("\n".join(head + [",".join(r) for r in rows]) + "\n")
    tests = fit.compare(before, fit.synthesise(tmp_path / "shuffled", tmp_path, original.main().words))
    assert tests["sizes"]["passed"] and tests["lifetimes"]["distance"] < 0.05
    assert not tests["size_given_lifetime"]["passed"] and tests["size_given_lifetime"]["distance"] > 0.2


def test_threads_and_reallocs_are_kept(tmp_path):
    t = record(tmp_path, case("exchange"), 3, 20000)
    before = fit.facts(t, None, tmp_path / "joint")
    tests = fit.compare(before, fit.synthesise(tmp_path / "joint", tmp_path, t.main().words))
    assert tests["cross"]["passed"] and tests["routines"]["passed"] and tests["sizes"]["passed"], tests


def test_the_limits_are_at_least_twice_the_distance_of_two_traces():
    a = {"sizes": {"size": [1, 2], "number": [50, 50]}, "lifetimes": {"operations": {"upper": [1], "number": [100]}, "never_freed": 0},
         "joint": np.array([[0, 0, 0, 0, 0, 1, 1, 1, 50, -1], [0, 0, 0, 0, 0, 2, 1, 1, 50, -1]]), "operations": 200,
         "live": {"peak_bytes": 100, "curve_operations": {"operations": [200], "bytes": [100]}}, "frees": {"by_another_thread_share": 0.0},
         "allocations": {"routines": {"malloc": {"share": 1.0}}}}
    b = a | {"frees": {"by_another_thread_share": 0.04}}
    assert not fit.compare(a, b)["cross"]["passed"]
    t = fit.compare(a, b, {"cross": 0.03})["cross"]
    assert t["passed"] and t["limit"] == pytest.approx(0.06)


def test_kolmogorovs_distance_is_scipys():
    from scipy import stats
    rng = np.random.default_rng(1)
    for _ in range(20):
        x, y = rng.integers(0, 30, 200), rng.integers(5, 40, 300)
        assert fit.kolmogorov(x, np.ones(200), y, np.ones(300)) == pytest.approx(stats.ks_2samp(x, y).statistic)


def test_ratios_are_compared_free_of_their_unit():
    same = fit.ratio_test({"a": 1.0, "b": 2.0, "c": 4.0}, {"a": 3.0, "b": 6.0, "c": 12.0})
    assert same["passed"] and same["distance"] == pytest.approx(0)
    other = fit.ratio_test({"a": 1.0, "b": 2.0}, {"a": 1.0, "b": 3.0})
    assert not other["passed"]


def test_na_can_be_another(original, tmp_path):
    fit.facts(original, None, tmp_path / "joint")
    for n in (4000, 80000):
        r = workload.response(["--profile", str(tmp_path / "joint"), "--allocations", str(n)], dict(os.environ))
        assert r["allocations"] == pytest.approx(n, rel=0.02)


def test_the_command_writes_an_accepted_profile_and_no_other(original, tmp_path):
    def lab(*args):
        return subprocess.run([sys.executable, "-m", "marelab", "fit", *map(str, args)], capture_output=True, text=True, timeout=100)

    r = lab(original.folder, "--no-ratios", "-o", tmp_path / "profile", "--again", original.folder)
    assert r.returncode == 0 and "accepted" in r.stdout, r.stdout + r.stderr
    assert subprocess.run([native.path("workload"), "--profile", tmp_path / "profile"], capture_output=True).returncode == 0
    w = Writer()  # a saw-tooth finer than any phase: its height is lost
    for i in range(0, 60000, 2000):
        for k in range(2000):
            w.malloc(i + k, 64 + k)
        for k in range(2000):
            w.free(i + k)
    saw = w.save(tmp_path / "saw")
    r = lab(saw, "--no-ratios", "-o", tmp_path / "none", "--json")
    result = json.loads(r.stdout)
    failed = [n for n, t in result["tests"].items() if not t["passed"]]
    assert (r.returncode == 1) == bool(failed) and result["accepted"] == (not failed) and (tmp_path / "none").exists() == (not failed)


def test_too_little_to_fit_is_said(tmp_path):
    w = Writer()
    w.malloc(0, 1)
    t = format.load(w.save(tmp_path / "tiny"))
    with pytest.raises(LabError, match="1 allocations are too few for a fit"):
        fit.facts(t, None, tmp_path / "joint")
