"""Does choose tell the truth? Two questions whose answers are known, each asked in many small studies of a real program.

  truth.py ties STUDIES     one library under two names must tie: the interval of the two holds 1. Wanted: 95 % of studies
  truth.py slowed STUDIES   a wrapper slowed by twice the margin (its spin is calibrated first), used today, must be found: worse by more than the
                            margin. Wanted: 90 % of studies

Prints JSON. Run it on a quiet machine; each study takes some seconds. A study ends, as choose does, when the intervals are within half the margin,
or after 200 blocks: then the machine was too noisy for the question, and choose says so. Both are counted.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from marelab import allocators, blocks, env, measure, progress, recommend

PROGRAM = ("lua5.4", "-e", "local t = {} for i = 1, 4e5 do t[i % 5000] = { i } end")
MARGIN, BLOCKS, MOST = 0.05, recommend.LEAST, blocks.MAX_BLOCKS
HERE = Path(__file__).parent


def slowed_library(folder: str) -> str:
    library = os.path.join(folder, "libslowed.so")
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-fno-builtin", "-o", library, str(HERE / "slowed.c")], check=True)
    return library


def ratio_of(slow: allocators.Allocator, plain: allocators.Allocator, pairs: int = 40) -> float:
    """Geometric mean of CPU time ratios of runs made in turn."""
    goal, logs = measure.Target(PROGRAM), []
    for i in range(pairs):
        used = (slow, plain) if i % 2 else (plain, slow)
        seen = {a.name: measure.once(goal, a).cpu_s for a in used}
        logs.append(np.log(seen[slow.name] / seen[plain.name]))
    return float(np.exp(np.mean(logs)))


def calibrate(plain: allocators.Allocator) -> tuple[allocators.Allocator, float]:
    """The number of turns that slows the program by twice the margin, by proportional steps; and the slowing that was reached."""
    def slow(n):
        return replace(plain, name="slowed", env=(("SLOWED_SPIN", str(n)),))

    turns = 20
    for _ in range(4):
        extra = ratio_of(slow(turns), plain) - 1
        turns = max(1, round(turns * min(max(2 * MARGIN / max(extra, 0.005), 0.2), 5)))
    return slow(turns), ratio_of(slow(turns), plain, 100)


def study(used: list[allocators.Allocator], present: str, seed: int, response: str = "cpu_s") -> recommend.Standing:
    """Blocks by choose's rule: at least ten, then until the intervals are within half the margin."""
    goal, names, rows = measure.Target(PROGRAM), [a.name for a in used], []
    for block in range(MOST + 1):
        order = list(used)
        random.Random(f"{seed}/{block}").shuffle(order)
        found = {a.name: getattr(measure.once(goal, a), response) for a in order}
        if block:
            rows.append([found[n] for n in names])
        if block >= BLOCKS:
            s = recommend.standing("cpu", names, np.array(rows), MARGIN, present)
            if s.widest() <= MARGIN / 2 or block == MOST:
                return s
    raise AssertionError


def main() -> None:
    question, studies = sys.argv[1], int(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        found = allocators.load()
        if question == "ties":
            library = found["jemalloc"]
            used = [library, replace(library, name="jemalloc-again"), found["glibc"]]
            pair = ("jemalloc", "jemalloc-again")
        else:
            plain = allocators.Allocator("plain", slowed_library(folder))
            slow, reached = calibrate(plain)
            used, pair = [plain, slow], ("plain", "slowed")
            print(f"calibrated: {reached:.3f} times, {dict(slow.env)}", file=sys.stderr)
        right, narrow, narrow_right, blocks, ratios = 0, 0, 0, [], []
        with progress.bar(studies, question, "study") as bar:
            for seed in range(studies):
                s = study(used, pair[1], seed)
                ratio, low, high = s.more(pair[1], pair[0])
                ratios.append(ratio)
                blocks.append(s.blocks)
                answer = low <= 1 <= high if question == "ties" else s.low[s.names.index("slowed")] > 1 + MARGIN
                right += answer
                if s.widest() <= MARGIN / 2:
                    narrow, narrow_right = narrow + 1, narrow_right + answer
                bar.update(1)
    print(json.dumps({"question": question, "studies": studies, "right": int(right), "share": right / studies,
                      "narrow": narrow, "narrow_right": int(narrow_right),  # those that ended because the intervals were within half the margin
                      "blocks_median": float(np.median(blocks)),
                      "ratio_median": float(np.median(ratios)), "ratio_range": [min(ratios), max(ratios)], "margin": MARGIN, "response": "cpu",
                      "program": list(PROGRAM), "machine": env.machine()}, indent=1))


main()
