"""The search for settings, and its confirmation: simulated with effects that are known, and once for real."""

import json

import numpy as np
import pytest

from marelab import allocators, blocks, cli, knobs, measure, tune
from marelab.rows import Rows

ALL = allocators.load()


@pytest.fixture
def simulated(monkeypatch, tmp_path):
    """A search whose times follow from the settings: `effect(settings, base) -> (factor of time, factor of memory)`."""

    def search(effect, bases=("glibc", "jemalloc", "mimalloc"), noise=0.02, seconds=60, seed=1):
        rng = np.random.default_rng(seed)
        found = [tune.Candidate(ALL[b], b, {}) for b in bases]
        for b in bases:
            found += [tune.Candidate(knobs.with_settings(ALL[b], s), b, s) for s in knobs.singles(ALL[b], "madvise")[0]]
        made = {c.name: c for c in found}

        def once(goal, treatment, *more, **options):
            c = s.all[treatment.name] if treatment.name in s.all else made[treatment.name]
            slow, large = effect(c.settings, c.base)
            t = float(slow * np.exp(noise * rng.normal() + mood[0]))
            return measure.Outcome(t, t, 0.0, int(1e5 * large * np.exp(0.002 * rng.normal())), 10, 0, 1, 0, 0, 0, None, 0)

        mood = [0.0]
        monkeypatch.setattr(measure, "once", once)
        monkeypatch.setattr(knobs, "untrue", lambda a, settings: None)
        plan = blocks.Plan(measure.Target(("/bin/true",)), "wall", 0.05, seed, 10, 0.0, present="glibc")
        with Rows(tmp_path / f"search{seed}.csv") as rows:
            s = tune.Search(plan, found, rows, seconds)
            left = s.run()
        return s, left

    return search


def planted(settings, base):
    """jemalloc with narenas=1 takes 15 % less time, with background_thread 10 % less, mimalloc with decommit_delay=0 half the memory."""
    time, memory = 1.0, 1.0
    if base == "jemalloc":
        time *= 0.85 if settings.get("narenas") == "1" else 1.0
        time *= 0.90 if settings.get("background_thread") == "true" else 1.0
    if base == "mimalloc" and settings.get("decommit_delay") == "0":
        memory = 0.5
    return time, memory


@pytest.mark.parametrize("seed", range(3))
def test_what_was_planted_is_found_alone_and_together(simulated, seed):
    s, left = simulated(planted, noise=0.01, seed=seed)
    final = s.finalists(left)
    assert final[0].settings == {"narenas": "1", "background_thread": "true"} and final[0].base == "jemalloc"
    assert any(c.settings == {"decommit_delay": "0"} for c in final), "the thriftiest is kept, too"
    assert {c.name for c in final if not c.settings} == {"jemalloc", "glibc"}
    assert final[0].scores["wall"] == pytest.approx(np.log(0.85 * 0.9), abs=0.04)


@pytest.mark.parametrize("seed", range(3))
def test_settings_that_do_nothing_are_not_named(simulated, seed):
    """Where nothing matters, whoever is ahead is so by luck: what is confirmed has at most one setting, and nothing joins."""
    s, left = simulated(lambda settings, base: (1.0, 1.0), noise=0.004, seed=seed)
    assert all(len(c.settings) <= 1 for c in s.finalists(left)) and not any(len(c.settings) > 1 for c in s.all.values())


def test_half_of_the_runs_go_to_what_is_promising(simulated):
    s, _ = simulated(planted)
    runs = {n: c.rungs for n, c in s.all.items()}
    assert runs["jemalloc narenas=1"] >= 2 * np.median(list(runs.values())) and runs["glibc"] == s.rungs < 12


def test_a_search_out_of_time_ends_with_what_it_has(simulated):
    s, left = simulated(planted, seconds=0.0)
    assert s.rungs == 1 and "jemalloc narenas=1" in [c.name for c in left]


def test_a_setting_under_which_the_program_fails_is_left_out_and_said(monkeypatch, tmp_path):
    bad = tune.Candidate(knobs.with_settings(ALL["jemalloc"], {"narenas": "1"}), "jemalloc", {"narenas": "1"})
    found = [tune.Candidate(ALL["glibc"], "glibc", {}), tune.Candidate(ALL["jemalloc"], "jemalloc", {}), bad]
    fails = {bad.name: 134}
    monkeypatch.setattr(measure, "once", lambda goal, a, *m, **o: measure.Outcome(1.0, 1.0, 0.0, 1000, 10, 0, 1, 0, fails.get(a.name, 0), 0, None, 0))
    with Rows(tmp_path / "s.csv") as rows:
        s = tune.Search(blocks.Plan(measure.Target(("/bin/true",)), "wall", 0.05, 1, 10, 0.0, present="glibc"), found, rows, 10)
        left = s.run()
    assert "ended with exit code 134" in s.out[bad.name] and bad not in left and bad not in s.finalists(left)
    assert s.as_dict()["candidates"][-1]["out"] == s.out[bad.name]


LUA = "local t = {} for i = 1, 30000 do t[i % 3000] = {i, tostring(i)} end"


def test_a_whole_tuning_of_a_real_program(lab, tmp_path):
    r = lab("tune", "--minutes", "0.25", "--allocators", "glibc,mimalloc", "--try", "GLIBC_TUNABLES=glibc.malloc.mmap_max=0", "-o", "out", "--json", "--",
            "lua5.4", "-e", LUA)
    assert r.returncode == 0, r.stderr
    result = json.loads(r.stdout)
    assert json.loads((tmp_path / "out/choose.json").read_text()) == result
    names = [c["name"] for c in result["tuning"]["candidates"]]
    assert "glibc mmap_max=0" in names and "mimalloc" in names and len(names) >= 8
    final = {a["name"]: a for a in result["allocators"]}
    assert "glibc" in final and result["present"] == "glibc" and result["standings"]["wall"]["blocks"] >= 10
    for name, a in final.items():
        said = [line for line in a["seen"] if line.startswith("it says itself: ")]
        assert bool(said) == ("=" in name) and ("=" not in name or any("=" in v for v in a["env"].values()) or a["env"])
    page = (tmp_path / "out/report.html").read_text()
    assert "How the settings were found" in page and "mmap_max=0" in page and "measured afresh" in page


@pytest.mark.parametrize("words,message", [(["--minutes", "0"], "--minutes"), (["--try", "MALLOC_CONF=nosuch:1", "--allocators", "jemalloc"], "nosuch"),
                                           (["--margin", "0"], "--margin")])
def test_mistakes_are_said_before_anything_is_measured(tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["tune", *words, "-o", "out", "--", "lua5.4", "-e", "x = 1"]) == 2
    assert message in capsys.readouterr().err and not list(tmp_path.glob("*"))


def test_exit_codes_are_those_of_choose(capsys):
    assert cli.main(["tune", "--codes", "best=1", "--", "/bin/true"]) == 2
    assert "better, same, undecided" in capsys.readouterr().err
