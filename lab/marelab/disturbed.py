"""Which runs are made again, because something else had the CPU while they were made. The rule never sees an outcome.

A run is disturbed when it was pushed off its CPU (preempted), or when the hypervisor took ticks (steal), far more often than is usual: more than
three times the median of that allocator's earlier runs, and a little more. What is usual is learned from these two counts alone, so a program whose
own threads push each other is not suspected, nor a machine that is always like that. Neither time nor memory is looked at: leaving out what came
out slow would make everything look quick.

A disturbed run is made again at the end of its block, at most twice; the last one counts, whatever it is. The first rows stay in runs.csv.
"""

from collections import defaultdict

import numpy as np

TIMES, FEW = 3, 3  # earlier runs of an allocator, until its own are the measure
SLACK = {"preempted": 10, "steal_ticks": 2}
AGAIN = 2  # how often a run is repeated
PART = 0.25  # repeated runs, as a part of all


class Watch:
    def __init__(self, rows: list[dict[str, str]]):
        self.seen: dict[str, list[tuple[int, ...]]] = defaultdict(list)
        self.made = self.repeated = 0
        for row in rows:
            self.learn(row)

    def learn(self, row: dict) -> None:
        self.seen[row["allocator"]].append(tuple(int(row[c]) for c in SLACK))
        self.made += 1

    def usual(self, name: str) -> np.ndarray | None:
        own = self.seen[name]
        counts = own if len(own) >= FEW else [c for runs in self.seen.values() for c in runs]
        return np.median(counts, axis=0) if counts else None

    def disturbed(self, row: dict) -> bool:
        """Whether this run, which wasn't learned yet, was."""
        usual = self.usual(row["allocator"])
        if usual is None:
            return False
        return any(int(row[c]) > TIMES * u + slack for (c, slack), u in zip(SLACK.items(), usual))

    def may_repeat(self) -> bool:
        return self.repeated < PART * self.made
