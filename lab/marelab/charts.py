"""What the page's script draws (templates/page.js): data of the figures that can be hovered over and zoomed, each bounded whatever was measured.

Colours are numbers of the page's palette; times are in seconds, memory in bytes.
"""

import csv

from marelab import leaks, plots, responses, results, sites

POINTS = 400  # of a line
INK = 10  # the number of the page's own ink, for what belongs to no allocator
SIZES = ((6, "tiny", "up to 64 B"), (10, "small", "up to 1 KiB"), (15, "medium", "up to 32 KiB"), (20, "large", "up to 1 MiB"), (99, "huge", "above 1 MiB"))


def thinned(points: list, most: int = POINTS) -> list:
    step = -(-len(points) // most)
    return points[::step] + ([points[-1]] if step > 1 and (len(points) - 1) % step else [])


def line(name: str, colour: int, points: list, **more) -> dict:
    return {"name": name, "colour": colour, "points": thinned(points), **more}


def colour_of(names: list[str]) -> dict[str, int]:
    return {n: i % len(plots.PALETTE) for i, n in enumerate(sorted(names))}


# ---- every run ----

def runs(r: results.Results, response: str) -> dict:
    cube, colour = r.cube(responses.COLUMNS[response])[:, 0, :], colour_of(r.allocators)
    unit, scale = {"MiB": ("size", 1024.0), "": ("count", 1.0)}.get(responses.UNITS[response][0], ("seconds", 1.0))
    return {"x": {"name": "block", "unit": "count"}, "y": {"name": responses.NAMES[response], "unit": unit}, "dots": True,
            "lines": [line(n, colour[n], [[b + 1, v * scale] for b, v in enumerate(cube[:, i].tolist())]) for i, n in enumerate(r.allocators)]}


# ---- memory over time ----

def service_memory(r: results.Results) -> dict | None:
    """Of each allocator the run whose largest value is the median."""
    path = r.place / "memory.csv"
    if not path.exists():
        return None
    found: dict[str, dict[str, list]] = {n: {} for n in r.allocators}
    with open(path, newline="") as f:
        for row in csv.reader(f):
            if len(row) == 4 and row[1] in found:
                points = found[row[1]].setdefault(row[0], [])
                if points and float(row[2]) < points[-1][0]:
                    points.clear()  # of a run that was made again, the last counts
                points.append([float(row[2]), float(row[3]) * 1024])
    colour, lines = colour_of(r.allocators), []
    for name, by_block in found.items():
        ordered = sorted(by_block.values(), key=lambda points: max(p[1] for p in points))
        if ordered:
            lines.append(line(name, colour[name], ordered[len(ordered) // 2]))
    return {"x": {"name": "time since its start", "unit": "seconds"}, "y": {"name": "memory of all its processes", "unit": "size"}, "lines": lines} if lines else None


def parts(seconds: list[float], bytes_: list[float]) -> list:
    """Points over the part of the run that has passed."""
    end = max(seconds[-1], 1e-9)
    return [[s / end, b, s] for s, b in zip(seconds, bytes_)]


def memory(r: results.Results, e: dict) -> dict | None:
    """Of a program: resident memory under each allocator, and what the program had asked for and not freed."""
    colour, lines = colour_of(r.allocators), []
    for name, seen in ((e.get("memory") or {}).get("by") or {}).items():
        if name in colour and len(seen["seconds"]) > 1:
            lines.append(line(name, colour[name], parts(seen["seconds"], [k * 1024 for k in seen["kib"]])))
    live = e["description"].get("live", {}).get("curve") or {}
    if lines and len(live.get("seconds", [])) > 1:
        lines.append(line("asked for and not freed", INK, parts(live["seconds"], live["bytes"]), dashed=True, step=True))
    return {"x": {"name": "part of the run", "unit": "share"}, "y": {"name": "memory", "unit": "size"}, "lines": lines} if lines else None


# ---- what is allocated ----

def live(d: dict) -> dict | None:
    """What is asked for and not freed; the clock of a trace is coarse, so a short program is shown over its calls."""
    clock, curve, unit, name = ("seconds", "curve", "seconds", "time") if d["seconds"] >= 2 else ("operations", "curve_operations", "count", "calls of malloc or free")
    found = d.get("live", {}).get(curve) or {}
    if len(found.get(clock, [])) < 2:
        return None
    return {"x": {"name": name, "unit": unit}, "y": {"name": "memory", "unit": "size"},
            "lines": [line("asked for and not freed", INK, [list(p) for p in zip(found[clock], found["bytes"])], step=True)]}


def long_lived(d: dict) -> dict | None:
    found = d.get("long_lived", {})
    so_far = found.get("cumulative", [])
    if len(so_far) < 2 or not so_far[-1]:
        return None
    points = [[(i + 1) * found["block_operations"], n] for i, n in enumerate(so_far)]
    return {"x": {"name": "calls of malloc or free", "unit": "count"}, "y": {"name": "long-lived blocks so far", "unit": "count"},
            "lines": [line("long-lived blocks so far", INK, points)]}


def grid(d: dict) -> dict | None:
    g = d.get("grid")
    return {"clock": "milliseconds" if d["seconds"] >= 2 else "operations", **{k: g[k] for k in ("never", "operations", "milliseconds")}} if g and g["operations"] else None


def classes(d: dict) -> list[dict]:
    """Blocks by size and by how long they live, under names: for each size, the shares of blocks and bytes in each of the four classes of lifetime."""
    cells = d.get("grid", {}).get("kinds", [])
    sums = [max(sum(c[i] for c in cells), 1) for i in (2, 3)]
    rows, below = [], -1
    for limit, name, words in SIZES:
        mine = [c for c in cells if below < c[0] <= limit]
        below = limit
        if mine:
            rows.append({"name": name, "words": words, "number": sum(c[2] for c in mine),
                         "kinds": [[sum(c[i] for c in mine if c[1] == k) / sums[i - 2] for i in (2, 3)] for k in range(4)]})
    return rows


def of_choice(r: results.Results) -> dict:
    """Everything for the page of a choice, by the names that its template uses."""
    e = r.about.get("explanation") or {}
    made = {"runs": runs(r, r.about["response"]), "service": service_memory(r)}
    if e.get("description"):
        d = e["description"]
        made |= {"memory": None if r.about.get("service") else memory(r, e), "grid": grid(d), "long": long_lived(d)}
        made["live"] = None if made["memory"] else live(d)
    found = e.get("sites")
    if found and "left_out" not in found:
        made["sites"] = {"names": found["names"], "total": found["total"][:leaks.LATE]} | {k: {"nodes": [n[:2 + leaks.LATE] for n in found[k]["nodes"]]}
                                                                                           for k in ("up", "down")}
    return {k: v for k, v in made.items() if v}


def places(found: dict | None) -> list[dict]:
    return sites.table(found) if found and "left_out" not in found else []
