"""`mare lab rank`: rankings in the form of the study's tables 5.4 to 5.7.

A place is by the ratio of geometric means, paired within block and cell, and its interval: allocators share a place when that interval, of one to
the first of the place, holds 1. The published study's places are by grand means, which the few largest cells rule; where an allocator would stand by
them is beside it.
"""

from dataclasses import dataclass

import numpy as np

from marelab import output, published, results
from marelab.errors import LabError
from marelab.stats import paired

DEFECTS = [
    "Its appendices C and D hold p values that contradict their own F: in table C.3, F = 21,950.1 with p = 0.09. With one degree of freedom "
    "that F has p < 10^-300, so \"AL does not matter for time\" is unsupported.",
    "Its memory is RSS at the end of the run: after the frees, where an allocator that gives memory back looks small whatever its peak was "
    "(Hoard in table 5.5). Here memory is the peak of the timed part, and what is left after the last free is a response of its own.",
    "Its memory tables hold some 54 bytes per allocation of the test program's own arrays, the same for all allocators, which shrinks every ratio.",
    "TA is 1 to 64 bytes in its text and 16 to 64 in its table 5.3; here it is 16 to 64.",
    "Its grand means are ruled by the cells of 10 million allocations; variances within cells differ by orders of magnitude, so its pooled error "
    "term and Tukey groups are too sure of large cells and too unsure of small ones.",
]

EPILOG = """Tables are numbered as in the study where they answer its question: 5.4 time, 5.5 and 5.6 memory for each long-lived pattern (factor AL),
5.7 all together. --by FACTOR ranks per level of another factor.
"""


def add_arguments(parser) -> None:
    parser.add_argument("result", help="the folder of a study")
    parser.add_argument("--by", metavar="FACTOR", help="a ranking per level of this factor, for every response (default: AL, for memory)")
    parser.add_argument("--json", action="store_true", help="JSON on standard output")


@dataclass
class Place:
    place: int
    allocators: list[str]


def ranking(cube: np.ndarray, names: list[str], seed: int = 1) -> dict:
    """`cube`: [block, cell, allocator]."""
    grand = cube.mean(axis=(0, 1))
    logs = paired.cell_log_ratios(cube)
    geometric = np.exp(logs.mean(axis=0))
    order = [int(i) for i in np.argsort(geometric, kind="stable")]
    best, by_mean = order[0], np.argsort(np.argsort(grand, kind="stable"))
    least = float(grand.min())
    known = cube.shape[0] >= 3 and len(names) > 1
    pairs = paired.compare(logs, seed=seed) if known else None
    lines, places, first = [], [], None
    for at, i in enumerate(order):
        tied = first is not None and pairs is not None and pairs.low[i, first] <= 0 <= pairs.high[i, first]
        if not tied:
            first = i
            places.append(Place(at + 1, []))
        places[-1].allocators.append(names[i])
        lines.append({"place": places[-1].place, "allocator": names[i], "mean": float(grand[i]), "place_by_mean": int(by_mean[i]) + 1,
                      "percent": float((grand[i] / least - 1) * 100), "geometric_mean": float(geometric[i]),
                      "ratio": float(geometric[i] / geometric[best]),
                      "low": float(np.exp(pairs.low[i, best])) if pairs else None, "high": float(np.exp(pairs.high[i, best])) if pairs else None})
    return {"lines": lines, "order": [" / ".join(p.allocators) for p in places], "places": [p.place for p in places], "blocks": int(cube.shape[0]),
            "cells": int(cube.shape[1])}


def split_by(r: results.Results, by: str | None, response: str) -> str | None:
    if by is not None:
        return by
    return "AL" if "AL" in r.factors and response != "time" else None


def rank(r: results.Results, by: str | None = None) -> dict:
    if by is not None and by not in r.factors:
        raise LabError(f"--by {by}: no such factor with several levels; there are {', '.join(r.factors) or 'none'}")
    as_study = r.kind == "study" and "AL" in r.about["factors"] and {"NA", "TA"} <= set(r.about["factors"])
    tables = []
    for name, column in r.responses.items():
        tables.append({"response": name, "column": column, "factor": None, "level": None, "number": "5.4" if name == "time" and as_study else None,
                       **ranking(r.cube(column), r.allocators)})
        factor = split_by(r, by, name)
        for level in r.factors.get(factor, []) if factor else []:
            number = {"peak": "5.5", "growing": "5.6"}.get(str(level)) if name == "memory" and factor == "AL" and as_study else None
            tables.append({"response": name, "column": column, "factor": factor, "level": str(level), "number": number,
                           **ranking(r.cube(column, factor, level), r.allocators)})
    return {"kind": "ranking", "version": 1, "of": str(r.place), "allocators": r.allocators, "notes": r.notes, "tables": tables,
            "published": published.rankings() if as_study else None, "defects": DEFECTS if as_study else None}


def heading(t: dict) -> str:
    number = f"Table {t['number']}. " if t["number"] else ""
    where = f", {t['factor']} = {t['level']}" if t["factor"] else ""
    return f"{number}{t['response'].capitalize()} ({t['column']}){where}: {t['cells']} cells, {t['blocks']} blocks"


def text(a: dict) -> str:
    lines = [f"note: {n}" for n in a["notes"]]
    for t in a["tables"]:
        lines += ["", heading(t), f"  {'place':<6} {'allocator':<16} {'ratio, 95 % interval':<24} {'grand mean':>12} {'to its least':>13} {'place by it':>12}"]
        for line in t["lines"]:
            percent = "-" if line["place_by_mean"] == 1 else f"{line['percent']:+.1f} %"
            ratio = f"{line['ratio']:.3f}" + (f" [{line['low']:.3f}, {line['high']:.3f}]" if line["low"] is not None else "")
            lines.append(f"  #{line['place']:<5} {line['allocator']:<16} {ratio:<24} {line['mean']:>12.6g} {percent:>13} {'#' + str(line['place_by_mean']):>12}")
        theirs = (a["published"] or {}).get(t["number"])
        if theirs:
            lines.append("  published: " + ", ".join(f"{n} {'-' if not p else f'+{p:g} %'}" for n, p in theirs.items()))
    lines += ["", ("Table 5.7. " if a["published"] else "") + "All together"]
    for t in a["tables"]:
        where = f" ({t['factor']} = {t['level']})" if t["factor"] else ""
        lines.append(f"  {t['response'] + where:<28} " + "   ".join(f"#{p} {o}" for p, o in zip(t["places"], t["order"])))
    if a["defects"]:
        lines += ["", "Of the published study, to be read beside its tables:"] + [f"  - {d}" for d in a["defects"]]
    return "\n".join(lines)


def run(args) -> int:
    r = results.load(args.result)
    a = rank(r, args.by)
    output.save(r.place / "ranking.json", a, 1)
    print(output.text(a) if args.json else text(a))
    return 0
