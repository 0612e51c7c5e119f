"""`choose --serve --quick`: two minutes whatever the service, and no word about what they had no room for. Time is made up: a run moves a clock."""

import random
import time
from dataclasses import dataclass

import pytest

from marelab import answer, blocks, loads, measure, quick, service
from marelab.allocators import Allocator
from marelab.blocks import Plan
from marelab.proof import Proof
from marelab.rows import Rows

NAMES = ("glibc", "jemalloc", "mimalloc", "rpmalloc", "tbbmalloc", "tcmalloc")
SLOW = {"glibc": 1.1, "jemalloc": 1.0, "mimalloc": 1.05, "rpmalloc": 1.3, "tbbmalloc": 1.2, "tcmalloc": 1.4}


@dataclass(frozen=True)
class Made(measure.Target):
    """A service whose runs take so many seconds, by the clock."""

    seconds: float = 3.0
    clock: tuple = ()

    def conduct(self, allocator, extra=None, wrap=None):
        self.clock[0][0] += self.seconds
        rate = 1000 / SLOW[allocator.name] * random.Random(self.clock[0][0]).uniform(0.995, 1.005)
        return service.Run(self.seconds, 0.5, 0.1, 9000, 10, 0, 10, 1, 0, 0, None, 0, said=loads.Said(rate, {}), idle_kib=8000, whole_s=self.seconds)


@pytest.fixture
def chosen(monkeypatch, tmp_path):
    """A choice among all of them, from the proofs to the tempered result."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(quick.progress, "note", lambda text: now.append(text))

    def choose(seconds, names=NAMES, present="glibc", traced=True):
        now[1:] = []
        goal, began = Made(("made",), seconds=seconds, clock=(now,)), now[0]
        limit = quick.Limit(traced)
        plan = Plan(goal, "request", 0.05, 1, 10, 0.0, present=present, limit=limit)
        usable, out = [Allocator(n) for n in names], {}
        now[0] += 2 * seconds  # as it is, and which allocator it uses
        proofs = {a.name: Proof(outcome=measure.once(goal, a)) for a in usable}
        kept = quick.finalists(limit, "request", usable, present, proofs, out, tmp_path / "begun.json")
        now[0] += seconds  # where the time goes
        with Rows(tmp_path / f"runs-{now[0]}.csv") as rows:
            stopped = blocks.make(plan, {a.name: a for a in kept}, rows, out)
            result = {"response": "request", "stopped": stopped, **answer.assess([a.name for a in kept], rows.kept, "request", 0.05, present)}
        quick.temper(limit, result, seconds * len(kept), 0.8)
        return result, limit, out, now[0] + (2 * seconds + quick.WRITING) * traced - began

    choose.said = now
    return choose


@pytest.mark.parametrize("seconds,compared,blocks_made", [(0.4, 6, 30), (2.4, 3, 11), (3.4, 2, 12), (4, 2, 10), (12, 2, 4)])
def test_two_minutes_hold_ten_blocks_of_as_many_as_fit(chosen, seconds, compared, blocks_made):
    result, limit, out, took = chosen(seconds)
    made = result["standings"]["request"]["blocks"]
    assert len(limit.compared) == compared and {"glibc", "jemalloc"} <= set(limit.compared) and set(out) == set(NAMES) - set(limit.compared)
    assert made >= min(blocks_made, 10) and (took <= quick.SECONDS + quick.GRACE or made == blocks.LEAST)
    assert (made < 10) == any("will be undecided" in w for w in chosen.said[1:])


def test_what_was_not_compared_is_named_with_its_trial_and_the_time_that_it_takes(chosen):
    result, limit, out, _ = chosen(3.4)
    v = result["verdict"]
    assert v["word"] == "better" and v["choice"] == "jemalloc" and set(limit.passed_over) == {"mimalloc", "rpmalloc", "tbbmalloc", "tcmalloc"}
    assert any("would be better still, was not measured: all of them take 5 minutes" in r for r in v["reasons"])
    assert "1.27 times that under glibc" in out["tcmalloc"] or "1.28 times that under glibc" in out["tcmalloc"]
    assert not any("no other one" in r for r in v["reasons"])


def test_keep_is_not_said_when_some_were_not_compared(chosen):
    v = chosen(3.4, present="jemalloc")[0]["verdict"]
    assert v["word"] == "undecided" and v["sentence"].startswith("Undecided: jemalloc is as good as mimalloc, but there was no time to compare it with glibc")
    assert v["seconds"] > 200 and any("none that was compared is better" in r for r in v["reasons"])
    assert chosen(0.4, present="jemalloc")[0]["verdict"]["sentence"] == "Keep jemalloc."


def test_fewer_than_ten_blocks_decide_nothing_and_say_what_would(chosen):
    v = chosen(12)[0]["verdict"]
    assert v["word"] == "undecided" and any("6 further blocks, 2 minutes, are the least: the same command with  --blocks 10 --allocators glibc,jemalloc" in r for r in v["reasons"])


def test_what_was_begun_goes_on_with_the_same_ones(chosen, tmp_path):
    (tmp_path / "begun.json").write_text('{"allocators": {"glibc": "x", "tcmalloc": "y"}}')
    assert chosen(3.4)[1].compared == ["glibc", "tcmalloc"]


def test_a_number_of_blocks_is_made_as_without_a_limit():
    class Asked:
        quick, serve, blocks, no_trace, idle = True, "nginx", 25, False, None

    assert quick.limit_of(Asked) is None and service.idle(Asked) == service.IDLE
    Asked.blocks = None
    assert quick.limit_of(Asked).traced and service.idle(Asked) == quick.IDLE
