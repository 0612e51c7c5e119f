"""Where a program allocates: the stacks of a trace (lab/reader/sites.h) as two trees of functions, bounded whatever the program is.

`down` begins with the program's first function, `up` with the one that called the allocator. A node is [name, parent, allocations, bytes, live at peak, blocks never
freed, their bytes, how many of them were late]: name an index into `names`, parent one into the tree (-1: none), which is always less than the node's
own; each number is that of the node with all that is below it, and all of them in this order are NUMBERS. A tree keeps the MOST nodes with the largest share of anything; what is below the others is folded into one node per parent, whose name is -1, so sums
stay whole. Calls of a function by itself are one node. While it is made a tree has up to MADE nodes, the largest stacks first; what is left of the
others is folded where their last node is.
"""

import heapq
import re
import tempfile
from pathlib import Path

from marelab import format, native, stacks, symbols

NUMBERS = 6
MOST, MADE = 1200, 500_000
FOLDED = -1  # the name of a node that stands for several
DEPTH = 64  # frames that the tracer takes
DEEPER = "callers beyond 64 calls"
NOWHERE = "places beyond the first 100 000"
TOP, LEAST = 8, 0.001  # rows of the table, and the share that one must have of something


def read(path: Path) -> tuple[list[tuple[int, ...]], list[list[int]], int]:
    """Numbers and addresses of all stacks, and the number of samples."""
    numbers, addresses, samples = [], [], 0
    with open(path) as f:
        for line in f:
            words = line.split()
            numbers.append(tuple(map(int, words[:NUMBERS])))
            samples += int(words[NUMBERS])
            addresses.append([int(w, 16) for w in words[NUMBERS + 1:]])
    return numbers, addresses, samples


def of_trace(trace: format.Trace) -> dict | None:
    """Of the process with the most events; None where the trace has no stacks."""
    image, every = trace.main(), max(int(trace.header["stack_every"]), 1)
    with tempfile.TemporaryDirectory(prefix="mare-lab-") as folder:
        file = Path(folder) / "sites"
        measured = native.answer("describe", str(image.file), "--partial", "--every", str(every), "--sites", str(file))
        numbers, addresses, samples = read(file)
    if not numbers:
        return None
    made, namer = named(image, numbers, addresses)
    return made | {
        "every": every, "samples": samples, "stacks": len(numbers), "peak": measured["live"]["peak_bytes"],
        "cut": sum(len(one) >= DEPTH for one in addresses), "limit": bool(trace.header["limit_reached"]),
        "nameless": sorted(Path(f).name for f in namer.files if symbols.nameless(f))}


def named(image: format.Image, numbers: list[tuple[int, ...]], addresses: list[list[int]]) -> tuple[dict, stacks.Namer]:
    """The trees of these stacks."""
    namer = stacks.Namer(image.maps)
    found = namer.names({a for one in addresses for a in one})
    names, index = [], {}
    known = {}
    for address, name in found.items():
        name = stacks.UNKNOWN if name.startswith("0x") else name
        if name not in index:
            index[name] = len(names)
            names.append(name)
        known[address] = index[name]
    deeper, nowhere = len(names), len(names) + 1
    paths = []
    for one in addresses:
        path = [known[a] for i, a in enumerate(one) if i == 0 or known[a] != known[one[i - 1]]]
        paths.append(path + [deeper] if len(one) >= DEPTH else path or [nowhere])
    return trees(names + [DEEPER, NOWHERE], paths, numbers), namer


def trees(names: list[str], paths: list[list[int]], numbers: list[tuple[int, ...]]) -> dict:
    """`paths` are innermost first."""
    up = tree(paths, numbers)
    down = tree([p[::-1] for p in paths], numbers)
    used = sorted({n[0] for t in (up, down) for n in t["nodes"] if n[0] >= 0})
    place = {old: new for new, old in enumerate(used)}
    for t in (up, down):
        for n in t["nodes"]:
            n[0] = place.get(n[0], -1)
    return {"names": [names[k] for k in used], "total": [sum(column) for column in zip(*numbers)], "up": up, "down": down}


def tree(paths: list[list[int]], numbers: list[tuple[int, ...]]) -> dict:
    """All nodes first, each with what ends there; sums go up to the parents afterwards, which always come before their children."""
    known: dict[tuple[int, int], int] = {}
    each = range(len(numbers[0]))
    parent, name, values = [-1], [-1], [[0] * len(each)]

    def below(at: int, step: int) -> int:
        if (at, step) not in known and len(name) > MADE:
            step = FOLDED
        if (at, step) not in known:
            known[at, step] = len(name)
            parent.append(at)
            name.append(step)
            values.append([0] * len(each))
        return known[at, step]

    whole = [max(sum(column), 1) for column in zip(*numbers)]
    for k in sorted(range(len(paths)), key=lambda k: -max(n / w for n, w in zip(numbers[k], whole))):
        at = 0
        for step in paths[k]:
            at = below(at, step)
            if name[at] == FOLDED:
                break
        for i in each:
            values[at][i] += numbers[k][i]
    children: dict[int, list[int]] = {}
    for node in range(len(name) - 1, 0, -1):
        children.setdefault(parent[node], []).append(node)
        for i in each:
            values[parent[node]][i] += values[node][i]
    return kept(name, values, children)


def kept(name: list[int], values: list[list[int]], children: dict[int, list[int]]) -> dict:
    """The largest nodes, each after its parent: those with the largest share of anything are taken first, and a child never has more than its parent."""
    whole = [max(v, 1) for v in values[0]]
    nodes: list[list[int]] = []
    heap: list[tuple[float, int, int]] = []  # share, node, its parent's place in `nodes`
    waiting: dict[int, list[int]] = {}  # that place -> nodes to fold

    def offer(node: int, place: int) -> None:
        for child in children.get(node, ()):
            if name[child] == FOLDED:
                waiting.setdefault(place, []).append(child)
                continue
            heapq.heappush(heap, (-max(v / w for v, w in zip(values[child], whole)), child, place))

    offer(0, -1)
    while heap and len(nodes) < MOST:
        _, node, place = heapq.heappop(heap)
        nodes.append([name[node], place, *values[node]])
        offer(node, len(nodes) - 1)
    for _, node, place in heap:
        waiting.setdefault(place, []).append(node)
    for place, several in waiting.items():
        nodes.append([FOLDED, place, *(sum(values[n][i] for n in several) for i in range(len(whole)))])
    return {"nodes": nodes, "folded": sum(map(len, waiting.values()))}


# ---- in words ----

def table(s: dict) -> list[dict]:
    """The places with the largest share of anything, the largest of them first, with who calls them."""
    first = {}
    for i, n in enumerate(s["up"]["nodes"]):  # a parent's largest child comes first
        first.setdefault(n[1], i)
    rows = [{"name": s["names"][n[0]], "callers": callers(s, first, i), "number": n[2], "bytes": n[3], "at_peak": n[4],
             "shares": [n[2 + k] / max(s["total"][k], 1) for k in range(3)]} for i, n in enumerate(s["up"]["nodes"]) if n[1] < 0 and n[0] >= 0]
    rows.sort(key=lambda r: -max(r["shares"]))
    return [r for i, r in enumerate(rows[:TOP]) if i == 0 or max(r["shares"]) >= LEAST]


def callers(s: dict, first: dict[int, int], at: int) -> list[str]:
    """Who calls it in at least half of the cases, as far as that is one function, and three at most."""
    nodes, found = s["up"]["nodes"], []
    whole, file = nodes[at][2], f" ({file_of(s['names'][nodes[at][0]])})"
    while len(found) < 3 and at in first and nodes[first[at]][0] >= 0 and nodes[first[at]][2] * 2 >= whole:
        at = first[at]
        found.append(plain(s["names"][nodes[at][0]]).removesuffix(file))
    return found


def file_of(name: str) -> str:
    """Which file a name of `names` is in."""
    named = re.search(r" \(([^()]*)\)$", name)
    return named[1] if named else name.partition("+0x")[0]


def plain(name: str) -> str:
    """For a sentence: the function without its arguments."""
    return re.sub(r"\(.*\)(?= \()", "", name)


def spoken(row: dict) -> str:
    """A row of the table in a sentence."""
    file, _, nameless = row["name"].partition("+0x")
    by = f", called by {row['callers'][0]}" if row["callers"] else ""
    return f"a nameless function of {file}{by}" if nameless else plain(row["name"])
