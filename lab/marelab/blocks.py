"""The measurement of a choice: every allocator once per block, in a random order, until the intervals are narrow.

How many blocks are made follows from the widths of the intervals, the time and a limit; never from who is ahead. The first block is warm-up and is
left out; so is a block that is not whole. Runs that something else disturbed are made again (disturbed.py); of a block's runs under one allocator
the last one counts.
"""

import datetime
import itertools
import random
import time
from dataclasses import dataclass, field

import numpy as np

from marelab import disturbed, env, flaky, measure, progress, quick, recommend, responses
from marelab.allocators import Allocator
from marelab.errors import LabError
from marelab.rows import Rows

MAX_BLOCKS, LEAST = 200, 4  # with fewer there are no intervals; a verdict needs more (recommend.LEAST)
INTERRUPTED = "it was interrupted"


@dataclass
class Plan:
    target: measure.Target
    response: str
    margin: float
    seed: int
    blocks: int  # always made, beside the warm-up
    budget: float  # seconds for further ones
    present: str | None = None  # what the program uses today
    limit: quick.Limit | None = None  # of all of it; then nothing is left out as a warm-up
    others: dict[str, measure.Target] = field(default_factory=dict)  # treatments that run something else than `target`

    def goal(self, name: str) -> measure.Target:
        return self.others.get(name, self.target)


def order_of(block: int, seed: int, names: list[str]) -> list[str]:
    """The same for the same seed, whatever was measured before."""
    shuffled = sorted(names)
    random.Random(f"{seed}/{block}").shuffle(shuffled)
    return shuffled


class Block:
    """One pass over all allocators, and what has to be made again of it."""

    def __init__(self, number: int, plan: Plan, usable: dict[str, Allocator], rows: Rows, out: dict[str, str], watch: disturbed.Watch, bar):
        self.number, self.plan, self.usable, self.rows, self.out, self.watch, self.bar = number, plan, usable, rows, out, watch, bar
        self.place = 0

    def make(self) -> None:
        again = [n for n in order_of(self.number, self.plan.seed, list(self.usable)) if self.one(n)]
        if self.number == 0 or self.plan.response == "peak":
            return  # the warm-up doesn't count, and memory is nothing that others take
        for _ in range(disturbed.AGAIN):
            again = [n for n in again if self.repeat(n)]

    def repeat(self, name: str) -> bool:
        if name not in self.usable or not self.watch.may_repeat():
            return False
        self.watch.repeated += 1
        self.bar.total += 1
        return self.one(name)

    def one(self, name: str) -> bool:
        """One run, as a row; whether it was disturbed."""
        if name not in self.usable:
            return False
        self.bar.set_postfix_str(name)
        self.place += 1
        plan, goal = self.plan, self.plan.goal(name)
        o = measure.once(goal, self.usable[name])
        problem = o.problem(goal.good)
        counts = {"allocator": name, **o.columns()}
        pushed = self.watch.disturbed(counts)
        self.watch.learn(counts)
        self.rows.add({"block": self.number, "order": self.place, "warm_up": int(self.number == 0), "seed": plan.seed, "problem": problem or "",
                       **o.columns(), "exit": o.exit, "signal": o.signal, "left_behind": o.left_behind, "disturbed": int(pushed),
                       "when": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds"),
                       **env.row(self.usable[name], goal.cpus)})
        self.keep_memory(name, o)
        self.bar.update(1)
        if problem:
            self.failed(name, o, problem)
        return pushed and not problem

    def keep_memory(self, name: str, o: measure.Outcome) -> None:
        """A service's memory over time, beside the rows."""
        if getattr(o, "memory", None) and self.number > 0:
            with open(self.rows.path.with_name("memory.csv"), "a") as f:
                f.writelines(f"{self.number},{name},{seconds:.2f},{kib}\n" for seconds, kib in o.memory)

    def failed(self, name: str, o: measure.Outcome, problem: str) -> None:
        if o.killed == "signal":
            raise KeyboardInterrupt
        said = f"in block {self.number} {problem}{o.last_words()}"
        if name == self.plan.present:
            raise LabError(f"the program fails by itself, now and then: under the allocator it uses today, {name}, {said}", code=1)
        flaky.check(self.plan.target, f"under {name} {said}")
        self.out[name] = said
        del self.usable[name]
        if len(self.usable) < 2:
            raise LabError("fewer than two allocators are left: " + "; ".join(f"{n}: {w}" for n, w in self.out.items()), code=1)


def table(rows: list[dict[str, str]], names: list[str], column: str) -> np.ndarray:
    """[block, allocator] without the warm-up and without blocks that are not whole; of a run that was made again, the last."""
    found: dict[int, dict[str, float]] = {}
    for r in rows:
        if int(r["block"]) > 0 and r["allocator"] in names and not r["problem"]:
            found.setdefault(int(r["block"]), {})[r["allocator"]] = max(float(r[column]), responses.floor(column))
    return np.array([[b[n] for n in names] for _, b in sorted(found.items()) if len(b) == len(names)])


def repeated(rows: list[dict[str, str]]) -> int:
    """How many runs were made again."""
    runs = [(r["block"], r["allocator"]) for r in rows if int(r["block"]) > 0]
    return len(runs) - len(set(runs))


def make(plan: Plan, usable: dict[str, Allocator], rows: Rows, out: dict[str, str], kind=Block) -> str:
    """Makes the blocks, beside those that are there; why it stopped."""
    start, column = time.monotonic(), responses.COLUMNS[plan.response]
    last = max((int(r["block"]) for r in rows.kept), default=0)
    there, watch = len(table(rows.kept, list(usable), column)), disturbed.Watch(rows.kept)
    warm_up = [] if plan.limit else [0]
    with progress.bar((max(plan.blocks - there, 0) + len(warm_up)) * len(usable), "measuring") as bar:
        for made, block in enumerate(itertools.chain(warm_up, itertools.count(last + 1)), 1):
            try:
                kind(block, plan, usable, rows, out, watch, bar).make()
            except KeyboardInterrupt:
                if len(table(rows.kept, list(usable), column)) < LEAST:
                    progress.note(f"too few blocks for an answer; the same command with  -o {rows.path.parent}  goes on")
                    raise
                return INTERRUPTED
            stopped = enough(plan, table(rows.kept, list(usable), column), list(usable), time.monotonic() - start, made)
            if stopped:
                return stopped
            if len(table(rows.kept, list(usable), column)) >= plan.blocks:
                bar.total += len(usable)
                bar.refresh()
    raise AssertionError


def enough(plan: Plan, values: np.ndarray, names: list[str], spent: float, made: int) -> str | None:
    """Why to stop; None: go on."""
    if plan.limit and len(values) >= LEAST and plan.limit.over(len(values), spent / made):
        return "the two minutes of --quick were used up"
    if len(values) < plan.blocks:
        return None
    if recommend.standing(plan.response, names, values, plan.margin).widest() <= plan.margin / 2:
        return f"the widest interval is within ±{plan.margin * 50:.1f} %"
    if len(values) >= MAX_BLOCKS:
        return f"{MAX_BLOCKS} blocks were made"
    if not plan.limit and spent + spent / made > max(plan.budget, 0.0):
        return "the time for it was used up" if plan.budget else "no further ones were asked for"
    return None
