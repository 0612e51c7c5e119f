"""The measurement of a choice: every allocator once per block, in a random order, until the intervals are narrow.

How many blocks are made follows from the widths of the intervals, the time and a limit; never from who is ahead. The first block is warm-up and is
left out; so is a block that is not whole.
"""

import datetime
import itertools
import random
import time
from dataclasses import dataclass

import numpy as np

from marelab import env, measure, progress, recommend, responses
from marelab.allocators import Allocator
from marelab.errors import LabError
from marelab.rows import Rows

MAX_BLOCKS, LEAST = 200, 4
INTERRUPTED = "it was interrupted"


@dataclass
class Plan:
    target: measure.Target
    response: str
    margin: float
    seed: int
    blocks: int  # always made, beside the warm-up
    budget: float  # seconds for further ones


def order_of(block: int, seed: int, names: list[str]) -> list[str]:
    """The same for the same seed, whatever was measured before."""
    shuffled = sorted(names)
    random.Random(f"{seed}/{block}").shuffle(shuffled)
    return shuffled


def one_block(block: int, plan: Plan, usable: dict[str, Allocator], rows: Rows, out: dict[str, str], bar) -> None:
    for place, name in enumerate(order_of(block, plan.seed, list(usable)), 1):
        if name not in usable:
            continue
        bar.set_postfix_str(name)
        o = measure.once(plan.target, usable[name])
        problem = o.problem(plan.target.good)
        rows.add({"block": block, "order": place, "warm_up": int(block == 0), "seed": plan.seed, "problem": problem or "", **o.columns(),
                  "exit": o.exit, "signal": o.signal, "left_behind": o.left_behind,
                  "when": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds"), **env.row(usable[name], plan.target.cpus)})
        bar.update(1)
        if problem:
            if o.killed == "signal":
                raise KeyboardInterrupt
            out[name] = f"in block {block} {problem}" + o.last_words()
            del usable[name]
            if len(usable) < 2:
                raise LabError("fewer than two allocators are left: " + "; ".join(f"{n}: {w}" for n, w in out.items()), code=1)


def table(rows: list[dict[str, str]], names: list[str], column: str) -> np.ndarray:
    """[block, allocator] without the warm-up and without blocks that are not whole."""
    found: dict[int, dict[str, float]] = {}
    for r in rows:
        if int(r["block"]) > 0 and r["allocator"] in names and not r["problem"]:
            found.setdefault(int(r["block"]), {})[r["allocator"]] = max(float(r[column]), responses.floor(column))
    return np.array([[b[n] for n in names] for _, b in sorted(found.items()) if len(b) == len(names)])


def make(plan: Plan, usable: dict[str, Allocator], rows: Rows, out: dict[str, str]) -> str:
    """Makes the blocks, beside those that are there; why it stopped."""
    start, column = time.monotonic(), responses.DECIDING[plan.response]
    last = max((int(r["block"]) for r in rows.kept), default=0)
    there = len(table(rows.kept, list(usable), column))
    with progress.bar((max(plan.blocks - there, 0) + 1) * len(usable), "measuring") as bar:
        for made, block in enumerate(itertools.chain([0], itertools.count(last + 1)), 1):
            try:
                one_block(block, plan, usable, rows, out, bar)
            except KeyboardInterrupt:
                if len(table(rows.kept, list(usable), column)) < LEAST:
                    progress.note(f"too few blocks for an answer; the same command with  -o {rows.path.parent}  goes on")
                    raise
                return INTERRUPTED
            values = table(rows.kept, list(usable), column)
            if len(values) < plan.blocks:
                continue
            if recommend.standing(plan.response, list(usable), values, plan.margin, resamples=1000).widest() <= plan.margin / 2:
                return f"the widest interval is within ±{plan.margin * 50:.1f} %"
            if len(values) >= MAX_BLOCKS:
                return f"{MAX_BLOCKS} blocks were made"
            spent = time.monotonic() - start
            if spent + spent / made > max(plan.budget, 0.0):
                return "the time for it was used up" if plan.budget else "--quick: no further blocks"
            bar.total += len(usable)
            bar.refresh()
    raise AssertionError
