"""The explanation of choose's result: trace, replay, fit, study; each left out with a word when it can't be."""

import pytest

from marelab import allocators, explain, fit, native, trace
from marelab.errors import LabError
from marelab.measure import Target

PROGRAM = ("lua5.4", "-e", "local t = {} for i = 1, 20000 do t[i % 500] = { i } end")
NAMES = ("glibc", "jemalloc")
RESULT = {"standings": {k: {"allocators": [{"name": n, "typical": 0.05 + i} for i, n in enumerate(NAMES)]} for k in ("wall", "cpu")}}


@pytest.fixture
def used():
    return allocators.select(allocators.load(), ",".join(NAMES))


def test_an_accepted_fit_leads_to_a_small_study(tmp_path, used, monkeypatch):
    """A script in Lua with its collector's teeth. Only the ratios of times are left out: they depend on the machine's load."""
    monkeypatch.setattr(fit, "ratios", lambda *a: {})
    monkeypatch.setattr(explain, "SECONDS", 600.0)
    e = explain.explain(Target(PROGRAM), used, tmp_path, RESULT)
    assert e["problem"] is None
    assert set(e["replay"]["seconds"]) == set(NAMES) and e["replay"]["runs"] >= 1
    assert (tmp_path / "fit.profile").exists() and e["fit"]["left_out"] is None
    assert e["study"]["left_out"] is None, e["study"]
    assert {x["allocator"] for x in e["study"]["ratios"]["time"]["lines"]} == set(NAMES)
    assert (tmp_path / "study" / "runs.csv").read_text().count("\n") == 1 + 4 * 2 * 5


def test_a_rejected_fit_is_named_and_not_used(tmp_path, used, monkeypatch):
    monkeypatch.setattr(fit, "compare", lambda a, b: {"peak": {"distance": 0.5, "limit": 0.05, "passed": False}})
    e = explain.explain(Target(PROGRAM), used, tmp_path, RESULT)
    assert "differs in peak" in e["fit"]["left_out"] and e["study"] is None
    assert not (tmp_path / "fit.profile").exists() and any("No fit" in s for s in e["sentences"])


def test_a_machine_too_busy_to_compare_is_told(tmp_path, used, monkeypatch):
    monkeypatch.setattr(fit, "ratios", lambda *a: {"time": {"distance": 1.0, "limit": 0.1, "passed": False, "restless": True, "noise": 0.5}})
    monkeypatch.setattr(explain, "SECONDS", 600.0)
    e = explain.explain(Target(PROGRAM), used, tmp_path, RESULT)
    assert "too busy to compare" in e["fit"]["left_out"] and not (tmp_path / "fit.profile").exists()


def test_without_time_it_says_how_to_do_it_by_hand(tmp_path, used, monkeypatch):
    monkeypatch.setattr(explain, "SECONDS", 0.0)
    monkeypatch.setattr(fit, "synthesise", lambda *a: (_ for _ in ()).throw(LabError("left out by this test")))
    e = explain.explain(Target(PROGRAM), used, tmp_path, RESULT)
    assert "mare lab replay" in e["replay"]["left_out"]


def test_a_quick_choice_only_describes(tmp_path, used):
    e = explain.explain(Target(PROGRAM), used, tmp_path, RESULT, quick=True)
    assert e["replay"] is None and e["description"]["allocations"]["number"] > 10_000


def test_a_program_that_can_not_be_traced_is_told(tmp_path, used, monkeypatch):
    monkeypatch.setattr(trace, "record", lambda *a, **k: (_ for _ in ()).throw(LabError("no room")))
    e = explain.explain(Target(PROGRAM), used, tmp_path, RESULT)
    assert e["problem"] == "No trace: no room"
    assert native.path("tracer")
