"""What a program had not freed when it ended, by the places that allocated it (the last three numbers of sites.py's trees).

That is no list of leaks: what a program needs until its end it may leave to the system, and a tracer doesn't see which blocks are still pointed to. What tells them
apart is time: what is set up once and kept stems from the beginning, a leak goes on. So each place comes with the share of its blocks that was
allocated in the second half of the run, which is counted in calls of malloc and free.
"""

import heapq
import re
from pathlib import Path

from marelab import format, sites, units

BLOCKS, BYTES, LATE = 3, 4, 5  # where they are in `total` and, two further on, in a node
SHOWN, CHAIN = 10, 5  # places of the table, and functions of each
STARTS = re.compile(r"_start \(|__libc_start")  # of every program
STACKS = 5000  # of those that did not free, the most that are given names for a description
KEPT = "What a program needs until its end it need not free: the system takes all of it back, and that is no leak. A leak is what it goes on allocating and never frees"


def known(s: dict | None) -> bool:
    """Results of earlier versions don't have it."""
    return bool(s) and len(s.get("total", ())) > LATE


def table(s: dict, most: int = SHOWN) -> list[dict]:
    """The places with the most bytes that were not freed. A place is the function that called the allocator with its next callers, as many programs
    call the allocator by one function of their own; stacks that are folded, or differ further on, are one."""
    if not known(s):
        return []
    nodes, sums = s["up"]["nodes"], {}
    chain: list[tuple[int, ...]] = []  # of each node
    for n in nodes:  # parents come first
        above = chain[n[1]] if n[1] >= 0 else ()
        chain.append(above + (n[0],) if n[0] >= 0 and len(above) < CHAIN and not STARTS.match(s["names"][n[0]]) else above)
        here = sums.setdefault(chain[-1], [0, 0, 0])
        parent = sums[above] if n[1] >= 0 else [0, 0, 0]
        for k in range(3):  # what a node has is taken from its parent, where only the others stay
            here[k] += n[2 + BLOCKS + k]
            parent[k] -= n[2 + BLOCKS + k]
    rows = sorted((-of[1], -of[0], names) for names, of in sums.items() if of[0] and names)[:most]
    return [place(s, names, *sums[names]) for _, _, names in rows]


def place(s: dict, chain: tuple[int, ...], number: int, bytes_: int, late: int) -> dict:
    names = [s["names"][k] for k in chain]
    file = f" ({sites.file_of(names[0])})"
    return {"name": names[0], "callers": [sites.plain(n).removesuffix(file) for n in names[1:]], "number": number, "bytes": bytes_,
            "share": bytes_ / max(s["total"][BYTES], 1), "late": late / number}


def of_stacks(image: format.Image, by_stack: Path, every: int) -> dict:
    """For description.json, of what describe-trace wrote with --sites."""
    numbers, addresses, _ = sites.read(by_stack)
    total = [sum(column) for column in zip(*numbers)]
    first = heapq.nlargest(STACKS, (k for k, n in enumerate(numbers) if n[BLOCKS]), key=lambda k: numbers[k][BYTES])
    places = table(sites.named(image, [numbers[k] for k in first], [addresses[k] for k in first])[0], 50) if first else []
    return {"number": total[BLOCKS], "bytes": total[BYTES], "late": total[LATE] / max(total[BLOCKS], 1), "every": every,
            "places": [p | {"share": p["bytes"] / max(total[BYTES], 1)} for p in places]}


# ---- in words ----

def when(d: dict) -> str:
    """Which end it is that a description tells of."""
    t = d["trace"]
    if t.get("limit_reached"):
        return "When the trace reached its limit on disk, before the program's end,"
    if t.get("attached") or not t.get("complete", True):
        return "When the recording ended, before the program did,"
    return f"When signal {-t['status']} ended it," if (t.get("status") or 0) < 0 else "When it ended,"


def sentences(d: dict, s: dict | None = None) -> list[str]:
    """Of a description, and of the places where they are known."""
    never = d["retention"]["never_freed"]
    if not never["number"]:
        return [f"{when(d)} all blocks were freed."]
    said = f"{when(d)} {blocks(never['number'])} of {units.size(never['bytes'])} in all {'was' if never['number'] == 1 else 'were'} not freed"
    rows = table(s, 1) if s else []
    if rows and rows[0]["share"] > 0.02:
        said += f", {units.share(rows[0]['share'])} of these bytes allocated by {sites.spoken(rows[0])}"
    return [f"{said}. {KEPT}."]


def blocks(n: int) -> str:
    return f"{units.count(n)} block{'' if n == 1 else 's'}"


def late(row: dict) -> str:
    return f"{units.share(row['late'])} from the second half of the run"


def lines(f: dict) -> list[str]:
    """Of `found`, as text."""
    about = "about " if f["every"] > 1 else ""
    return [f"{about}{blocks(p['number'])}, {units.size(p['bytes'])}, {late(p)}: " + " < ".join([sites.plain(p["name"]), *p["callers"]]) for p in f["places"][:SHOWN]]
