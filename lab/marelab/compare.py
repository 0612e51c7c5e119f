"""`mare lab compare A B`: two results, allocator by allocator. Did anything change, and by how much?

The two were measured at different times, so nothing pairs them: per allocator and response, block means of logarithms are compared by Welch's
interval, at a level shared out among all comparisons (Bonferroni). A machine that changed its mood in between looks like a difference of all
allocators alike; that is said, and so is every difference of environment.
"""

from pathlib import Path

import numpy as np
from scipy import stats

from marelab import output, results
from marelab.errors import LabError
from marelab.stats import paired

LEVEL = 0.95
EPILOG = """  mare lab compare before after          two folders of study or of choose

Exit code 0 whatever the difference is.
"""


def add_arguments(parser) -> None:
    parser.add_argument("a", metavar="A", help="the folder of a result")
    parser.add_argument("b", metavar="B", help="another one of the same kind")
    parser.add_argument("--json", action="store_true", help="JSON on standard output")


def welch(a: np.ndarray, b: np.ndarray, level: float) -> tuple[float, float, float]:
    """Difference of means b - a with its interval."""
    d, va, vb = b.mean() - a.mean(), a.var(ddof=1) / len(a), b.var(ddof=1) / len(b)
    se = np.sqrt(va + vb)
    if se == 0:
        return float(d), float(d), float(d)
    df = (va + vb) ** 2 / (va**2 / (len(a) - 1) + vb**2 / (len(b) - 1))
    half = stats.t.ppf((1 + level) / 2, df) * se
    return float(d), float(d - half), float(d + half)


def machine_differences(a: results.Results, b: results.Results) -> list[str]:
    out = []
    for key in ("cpu", "cpus", "affinity", "kernel", "libc", "thp", "governor", "variables"):
        x, y = a.about["machine"].get(key), b.about["machine"].get(key)
        if x != y:
            out.append(f"{key}: {x or 'none'} and {y or 'none'}")
    versions = [{e["name"]: e["sha256"] for e in r.about["allocators"]} for r in (a, b)]
    names = [{e["name"]: e["version"] for e in r.about["allocators"]} for r in (a, b)]
    for n in versions[0]:
        if n in versions[1] and versions[0][n] != versions[1][n]:
            out.append(f"{n}: {names[0][n]} and {names[1][n]}, other files")
    return out


def common(a: results.Results, b: results.Results):
    if a.kind != b.kind:
        raise LabError(f"{a.place} is a {a.kind}, {b.place} a {b.kind}: compare two of a kind")
    names = [n for n in a.allocators if n in b.allocators]
    cells = [c for c in a.cells if c in b.cells]
    responses = {n: c for n, c in a.responses.items() if b.responses.get(n) == c}
    if not names or not cells or not responses:
        what = "allocator" if not names else "cell" if not cells else "response"
        raise LabError(f"{a.place} and {b.place} have no {what} in common")
    return names, cells, responses


def compare(a: results.Results, b: results.Results) -> dict:
    names, cells, responses = common(a, b)
    for r in (a, b):
        if r.blocks < 3:
            raise LabError(f"{r.place} has {r.blocks} whole blocks; at least 3 are needed")
    notes = [f"only in {r.place}: {n}" for r, other in ((a, b), (b, a)) for n in r.allocators if n not in other.allocators]
    skipped = (len(a.cells) - len(cells)) + (len(b.cells) - len(cells))
    notes += [f"{skipped} cells are in one of them only and left out"] if skipped else []
    if a.kind == "choose" and a.about["program"] != b.about["program"]:
        notes.append(f"the programs differ: {' '.join(a.about['program'])} and {' '.join(b.about['program'])}")
    level = 1 - (1 - LEVEL) / (len(names) * len(responses))
    out = {}
    for name, column in responses.items():
        means = []
        for r in (a, b):
            r.cells = cells
            r.frame = r.frame[r.frame["cell"].isin(cells)]
            means.append(paired.cell_log_ratios(r.cube(column)))
        lines = []
        for n in names:
            x, y = means[0][:, a.allocators.index(n)], means[1][:, b.allocators.index(n)]
            d, low, high = welch(x, y, level)
            lines.append({"allocator": n, "a": float(np.exp(x.mean())), "b": float(np.exp(y.mean())), "ratio": float(np.exp(d)),
                          "low": float(np.exp(low)), "high": float(np.exp(high)), "significant": bool(low > 0 or high < 0)})
        logs = np.log([line["ratio"] for line in lines])
        alike = len(lines) > 2 and all(x["significant"] for x in lines) and np.ptp(logs) < 0.5 * abs(logs.mean())
        out[name] = {"column": column, "lines": lines, "all_alike": bool(alike)}
    return {"kind": "comparison", "version": 1, "a": str(a.place), "b": str(b.place), "blocks": [a.blocks, b.blocks], "cells": len(cells),
            "notes": notes, "environment": machine_differences(a, b), "responses": out}


def text(c: dict) -> str:
    lines = [f"A: {c['a']} ({c['blocks'][0]} blocks)", f"B: {c['b']} ({c['blocks'][1]} blocks)"]
    lines += [f"note: {n}" for n in c["notes"]] + [f"differs: {d}" for d in c["environment"]]
    for name, r in c["responses"].items():
        lines += ["", f"{name} ({r['column']}): B / A, with intervals that hold together"]
        for x in r["lines"]:
            word = "" if x["significant"] else "   not significant"
            lines.append(f"  {x['allocator']:<16} {x['a']:>12.6g} {x['b']:>12.6g}   {x['ratio']:.3f} [{x['low']:.3f}, {x['high']:.3f}]{word}")
        if r["all_alike"]:
            lines.append("  All changed alike: the machine, more likely than the allocators.")
    return "\n".join(lines)


def run(args) -> int:
    c = compare(results.load(Path(args.a)), results.load(Path(args.b)))
    print(output.text(c) if args.json else text(c))
    return 0
