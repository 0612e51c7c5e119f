"""`mare lab choose --serve --quick`: an answer about a service in two minutes, which says no more than they allow.

Every run of a service has its start, its load and its end, so two minutes hold few runs. Three things save runs, and none of them touches the intervals:

- The run that proves an allocator is its trial, too. Today's allocator and the most promising others go on: as many as there is time for in ten blocks, and
  at least one. The blocks are fresh; what a trial said counts for nothing in them.
- The trials have warmed up what a first block would, so no block is left out.
- The pause after the load is short unless --idle asks for one.

Allocators that did not go on were not compared. So nothing is said of them: not "keep", which is about all, and never that the chosen one is the best. Where
time runs out before ten blocks, the answer is *undecided*. Whoever names a number of --blocks wants these, and gets them as without a limit.
"""

import json
import re
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from marelab import progress, responses, verdict
from marelab.allocators import Allocator
from marelab.recommend import LEAST, SAME, UNDECIDED

SECONDS = 120.0  # for all of it
GRACE = 15.0  # more, where ten blocks are nearly made
IDLE = 0.2  # seconds after the load
WRITING = 8.0  # seconds for describing two traces and writing the page


@dataclass
class Limit:
    """The two minutes of one choice, and what had no place in them."""

    traced: bool = True  # whether two traces follow
    began: float = field(default_factory=lambda: time.monotonic())
    run: float = 0.0  # seconds of a whole run
    passed_over: list[str] = field(default_factory=list)
    compared: list[str] = field(default_factory=list)

    def left(self) -> float:
        """Seconds for blocks; traces have their share."""
        return self.began + SECONDS - time.monotonic() - (2 * self.run + WRITING if self.traced else 0.0)

    def over(self, blocks: int, block: float) -> bool:
        """Whether there is no time for one more block, of so many seconds."""
        return self.left() + (GRACE if blocks < LEAST else 0.0) < block

    def may_trace(self) -> bool:
        return self.began + SECONDS + GRACE - time.monotonic() > 2 * self.run


def limit_of(args) -> Limit | None:
    """Of a choice; tune has its own --minutes."""
    return Limit(not args.no_trace) if getattr(args, "quick", False) and args.serve and not args.blocks else None


def value(proof, response: str) -> float:
    """What the run that proved it said of this response; infinite where it said nothing."""
    said = proof.outcome.columns().get(responses.COLUMNS[response])
    return float(said) if said else float("inf")


def finalists(limit: Limit, response: str, usable: list[Allocator], present: str, proofs: dict, out: dict[str, str], begun: Path) -> list[Allocator]:
    """Those that go on; why not of the others, in `out`. What was begun goes on with the same ones."""
    limit.run = float(np.median([proofs[a.name].outcome.whole_s for a in usable]))
    room = max(2, int((limit.left() - limit.run) / (limit.run * LEAST)))  # a run less: where the time goes is sampled before
    trial = {a.name: value(proofs[a.name], response) for a in usable}
    others = sorted((n for n in trial if n != present), key=trial.get)
    kept = set(json.loads(begun.read_text())["allocators"]) if begun.exists() else {present, *others[:room - 1]}
    limit.compared = [a.name for a in usable if a.name in kept]
    limit.passed_over = [n for n in others if n not in kept]
    for n in limit.passed_over:
        out[n] = (f"not compared, for want of time; in its one trial run its {responses.NAMES[response]} was {trial[n] / trial[present]:.2f} times that under {present}")
    if limit.left() < limit.run * (2 * LEAST + 1) - GRACE:
        progress.note(f"a run takes {limit.run:.0f} s, so the two minutes of --quick hold no ten blocks, and the answer will be undecided; a shorter load, or fewer "
                      "--allocators, makes it fit")
    return [a for a in usable if a.name in kept]


def temper(limit: Limit, result: dict, pace: float, idle: float) -> None:
    """Makes the verdict say no more than what was compared. `idle`: seconds of the pause that a choice without --quick makes."""
    v, passed = result["verdict"], limit.passed_over
    names = f" --allocators {','.join(limit.compared)}"
    v["reasons"] = [re.sub(r"(--blocks \d+)", rf"\1{names if passed else ''}", r) for r in v["reasons"]]
    made = result["standings"][result["response"]]["blocks"]
    if made < LEAST:
        v["reasons"].append(f"{LEAST - made} further blocks, {verdict.minutes(pace * (LEAST - made))}, are the least: the same command with  --blocks {LEAST}{names}")
    if not passed:
        return
    v["reasons"] = [r.replace("no other one", "none that was compared") for r in v["reasons"]]
    everyone = len(passed) + len(limit.compared)
    seconds = (limit.run + idle) * everyone * (LEAST + 2)
    whole = f"all of them take {verdict.minutes(seconds)} at least: the same command without --quick"
    others = verdict.listed(passed)
    if v["word"] == SAME:
        v["word"], v["seconds"] = UNDECIDED, seconds
        rivals = verdict.listed([n for n in limit.compared if n != v["present"]])
        v["sentence"] = f"Undecided: {v['present']} is as good as {rivals}, but there was no time to compare it with {others}."
        v["reasons"].append(whole)
    elif v["word"] == UNDECIDED:
        v["reasons"].append(f"there was no time to compare {others}: {whole}")
    else:
        v["reasons"].append(f"whether {others} would be better still, was not measured: {whole}")
