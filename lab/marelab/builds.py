"""`mare lab compare-builds A B`: two builds of one program in the same randomised blocks, and an exit code that CI can act on.

The measurement is that of choose (blocks.py), with two programs in place of allocators. The margin is what does not matter, so here *worse* and
*better* mean: by more than the margin, for sure; *same* means surely within it, in both directions. What is neither is undecided, and how many
blocks would decide is said.
"""

import os
import tempfile
import time
from pathlib import Path

import numpy as np

from marelab import answer, blocks, env, junit, measure, native, output, recommend, responses, target
from marelab.allocators import Allocator
from marelab.errors import LabError
from marelab.recommend import Standing
from marelab.rows import Rows, make_place
from marelab.verdict import at_most, minutes, share

A, B = "A", "B"
CODES = {"better": 0, "same": 0, "worse": 3, "undecided": 4}

EPILOG = """  mare lab compare-builds old/service new/service -- --once requests.txt
  mare lab compare-builds old/libx.so new/libx.so -- env LD_PRELOAD={} ./program

The words after `--` are the arguments of both; if {} is among them, they are the command, and {} is the build.

Exit code: 0 when B is better or the same, 3 when it is worse, 4 when that is undecided; others with --codes. 1 when a build fails, 2 for a
mistake in the input.
"""


TAIL = "words"


def add_arguments(parser) -> None:
    parser.add_argument("a", metavar="A", help="the build to compare with: a program's file")
    parser.add_argument("b", metavar="B", help="the build in question")
    parser.add_argument("--response", choices=list(responses.DECIDING), default="wall", help="what decides (default: wall)")
    parser.add_argument("--margin", type=float, default=5, metavar="PERCENT", help="differences up to this don't matter (default: 5)")
    parser.add_argument("--blocks", type=int, default=recommend.LEAST, metavar="N", help=f"at least N blocks (default, and least: {recommend.LEAST})")
    parser.add_argument("--budget", type=float, default=60, metavar="S", help="go on for up to S seconds in all while the interval is wide (default: 60)")
    parser.add_argument("--seed", type=int, help="for the order of runs (default: from the clock)")
    parser.add_argument("--stdin", metavar="FILE", help="standard input of both (default: empty)")
    parser.add_argument("--cpus", metavar="LIST", help="run on these CPUs only, as in 0,2-3")
    parser.add_argument("--timeout", type=float, default=120, metavar="S", help="limit of one run (default: 120 s)")
    parser.add_argument("--codes", metavar="WORD=N,…", help="other exit codes, as in better=10,undecided=0")
    parser.add_argument("-o", dest="out", metavar="DIR", help="keep runs.csv and builds.json there")
    parser.add_argument("--junit", metavar="FILE", help="write the result as a JUnit report, too")
    parser.add_argument("--json", action="store_true", help="the result as JSON on standard output")


def command(build: str, words: list[str]) -> tuple[str, ...]:
    if any("{}" in w for w in words):
        return tuple(w.replace("{}", build) for w in words)
    return (build, *words)


def plan_from(args) -> blocks.Plan:
    if not 0 < args.margin < 100:
        raise LabError("--margin is a percentage between 0 and 100, as in 5")
    if args.blocks < recommend.LEAST:
        raise LabError(f"--blocks: at least {recommend.LEAST} are needed for a verdict")
    if args.stdin and not os.path.isfile(args.stdin):
        raise LabError(f"--stdin {args.stdin}: there is no such file")
    goals = {}
    for name, build in ((A, args.a), (B, args.b)):
        if not os.path.isfile(build):
            raise LabError(f"{build}: there is no such file")
        argv = command(os.path.abspath(build), args.words)
        target.find(argv[0])
        goals[name] = measure.Target(argv, stdin=args.stdin, timeout=args.timeout, cpus=args.cpus, spare_kib=env.spare_kib())
    seed = args.seed if args.seed is not None else int(time.time()) % 1_000_000
    return blocks.Plan(goals[A], args.response, args.margin / 100, seed, args.blocks, args.budget, others=goals)


class Block(blocks.Block):
    """A build that fails is no verdict."""

    def failed(self, name: str, o: measure.Outcome, problem: str) -> None:
        if o.killed == "signal":
            raise KeyboardInterrupt
        raise LabError(f"build {name} failed in block {self.number}: {problem}{o.last_words()}\nIts command: {' '.join(self.plan.goal(name).argv)}", code=1)


# ---- the verdict ----

def word(low: float, high: float, margin: float) -> str:
    """Of B over A."""
    if low > 1 + margin:
        return "worse"
    if high < 1 / (1 + margin):
        return "better"
    return "same" if low >= 1 / (1 + margin) and high <= 1 + margin else "undecided"


def to_decide(s: Standing) -> int | None:
    d, limit = s.pairs.difference[1, 0], np.log1p(s.margin)
    return recommend.further(s, lambda reach: abs(d) - reach[1, 0] > limit or abs(d) + reach[1, 0] <= limit)


def sentence(found: str, low: float, high: float, margin: float, what: str) -> str:
    unsure = f", not surely {margin * 100:g} %" if found == "undecided" else ""
    if found == "same":
        return f"The same: B's {what} is within {margin * 100:g} % of A's."
    if low > 1:
        return f"{found.capitalize()}: B takes at least {share(low - 1)} more {what}{unsure}."
    if high < 1:
        return f"{found.capitalize()}: B takes at least {share(1 - high)} less {what}{unsure}."
    return f"Undecided: B takes between {at_most(1 - low)} less and {at_most(high - 1)} more {what}."


def assess(plan: blocks.Plan, kept: list[dict[str, str]], stopped: str) -> dict:
    found = {}
    for key in responses.PROGRAM:
        s = recommend.standing(key, [A, B], blocks.table(kept, [A, B], responses.COLUMNS[key]), plan.margin)
        ratio, low, high = s.more(B, A)
        found[key] = {"ratio": ratio, "low": low, "high": high, "a": s.typical[0], "b": s.typical[1], "standing": s}
    main = found[plan.response]
    s = main["standing"]
    verdict = word(main["low"], main["high"], plan.margin) if s.blocks >= recommend.LEAST else "undecided"
    more = to_decide(s) if verdict == "undecided" else None
    pace = answer.pace(kept, 2)
    return {"kind": "builds", "version": 1, "word": verdict, "sentence": sentence(verdict, main["low"], main["high"], plan.margin, responses.NAMES[plan.response]),
            "response": plan.response, "margin": plan.margin, "seed": plan.seed, "blocks": s.blocks, "stopped": stopped,
            "repeated": blocks.repeated(kept), "further": more, "seconds": None if more is None else more * pace,
            "responses": {k: {x: y for x, y in v.items() if x != "standing"} for k, v in found.items()},
            "commands": {n: list(plan.goal(n).argv) for n in (A, B)}, "machine": env.machine()}


def further_text(r: dict) -> list[str]:
    if r["word"] != "undecided":
        return []
    if r["further"] is None:
        return ["  the difference lies so near the margin, or the machine is so restless, that no sensible number of blocks would decide"]
    return [f"  about {r['further']} further blocks, {minutes(r['seconds'])}, would decide:  --blocks {r['blocks'] + r['further']}"]


def text(r: dict) -> str:
    lines = [r["sentence"], *further_text(r), "", f"{'typical run':<14} {'A':>10} {'B':>10}   B / A, 95 % interval"]
    for key, x in r["responses"].items():
        mark = "   decides" if key == r["response"] else ""
        scale = 1024 if key == "peak" else 1
        name = responses.NAMES[key] + {"wall": ", s", "cpu": ", s", "peak": ", MiB", "faults": ""}[key]
        lines.append(f"{name:<14.16} {x['a'] / scale:>10.4g} {x['b'] / scale:>10.4g}   {x['ratio']:.3f} [{x['low']:.3f}, {x['high']:.3f}]{mark}")
    lines.append(f"{r['blocks']} blocks after a warm-up{answer.again(r)}; stopped because {r['stopped']}")
    return "\n".join(lines)


def report(r: dict, path: str) -> None:
    """One case, named after what decides: failed when worse, skipped when undecided."""
    problem = {"worse": "failure", "undecided": "skipped"}.get(r["word"])
    junit.write(path, "compare-builds", [junit.Case(responses.NAMES[r["response"]], problem, r["sentence"], text(r))])


def conduct(plan: blocks.Plan, builds: dict[str, str], place: Path) -> dict:
    # as treatments: the file that differs, and the environment as it is
    used = {n: Allocator(n, library=os.path.realpath(path), as_is=True) for n, path in builds.items()}
    with Rows(place / "runs.csv") as rows:
        if rows.kept:
            raise LabError(f"{place} already holds results; name another folder with -o")
        stopped = blocks.make(plan, used, rows, {}, Block)
        return assess(plan, rows.kept, stopped)


def run(args) -> int:
    plan, exits = plan_from(args), answer.codes(args.codes, CODES)
    native.path("measure")
    with tempfile.TemporaryDirectory(prefix="mare-lab-") as folder:
        place = Path(args.out or folder)
        make_place(place)
        result = conduct(plan, {A: args.a, B: args.b}, place)
        if args.out:
            output.save(place / "builds.json", result)
    if args.junit:
        report(result, args.junit)
    print(output.text(result) if args.json else text(result))
    return exits[result["word"]]
