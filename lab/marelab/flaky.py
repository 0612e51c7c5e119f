"""Whose fault is a failure? A program that fails now and then by itself must not cost an allocator its place.

Before an allocator is left out for a failed run, the program is run as it is, without any change, until it has ended well many times or for long
enough; if it fails there, too, the program is named and not the allocator.
"""

import time

from marelab import allocators, measure, progress
from marelab.errors import LabError

RUNS, SECONDS = 12, 30.0  # one that fails in 30 % of its runs ends well twelve times in a row in one of 70 cases


def check(goal: measure.Target, failure: str) -> None:
    """Returns when the program is steady as it is; else an error that says how often it failed."""
    progress.note(f"{failure}; trying whether the program fails as it is, too")
    until = time.monotonic() + SECONDS
    for run in range(1, RUNS + 1):
        o = measure.once(goal, allocators.AS_IS)
        problem = o.problem(goal.good)
        if o.killed == "signal":
            raise KeyboardInterrupt
        if problem:
            meant = "" if o.signal or o.killed else "; an exit code that is meant to be so is named by --exit"
            raise LabError(f"the program fails by itself, now and then: {failure}; and as it is, without any change, run {run} of at most {RUNS} "
                           f"failed, too: {problem}{o.last_words()}\nThat is no allocator's fault: make it steady first{meant}", code=1)
        if time.monotonic() > until:
            return
