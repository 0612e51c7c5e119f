"""The experiments, each a function of a runner and a size (quick, usual, full) that gives tables. The seeds' figures stand here as their texts have them."""
import math
import os
import statistics
from dataclasses import dataclass, field

from harness.commands import erlang, go, mare
from harness.seeds_rows import knapsack as knapsack_command
from harness.seeds_rows import scatter as scatter_command

from . import fit as least_squares


@dataclass
class Table:
    name: str                                   # of the .csv
    title: str
    head: list
    rows: list = field(default_factory=list)
    notes: list = field(default_factory=list)

    def markdown(self):
        lines = [f"## {self.title}", "", "| " + " | ".join(self.head) + " |", "|" + "---|" * len(self.head)]
        lines += ["| " + " | ".join(shown(cell) for cell in row) + " |" for row in self.rows]
        return lines + [line for note in self.notes for line in ("", note)]


def shown(cell):
    if cell is None:
        return "–"
    if isinstance(cell, float):
        digits = max(0, 2 - math.floor(math.log10(abs(cell)))) if cell else 0
        return f"{cell:,.{min(digits, 6)}f}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


def mean(runs, metric):
    return statistics.fmean(r[metric] for r in runs) if runs else None


def deviation(runs, metric):
    return statistics.stdev(r[metric] for r in runs) if len(runs) > 1 else None


def divided(a, b):
    return a / b if a is not None and b else None


# ---- knapsack: tables 4.1 and 4.3 of Millán Fernández 2016 ----

MODES = ("direct", "luabins", "packed")
# Lua processes: seconds of "Current" (Luabins) and "Modified" (direct) with 4 threads
TABLE_4_1 = {4: (30.33, 18.33), 8: (29.0, 20.0), 16: (40.33, 23.33), 32: (76.33, 40.33)}
# instance: capacity, objects, weight, MB of "Current" and "Modified"
TABLE_4_3 = {"A": (1000, 500, 4, 53.6, 20.6), "B": (3000, 2000, 3, 670.7, 316.7), "C": (6000, 4000, 3, 2675.9, 1258.4), "D": (9000, 6000, 3, 6387.8, 3762.6)}


def _labelled(cells):
    """{(…, mode): command} with the label that tells whose program it is."""
    return {" ".join(map(str, key)): ("luabins 2" if key[-1] == "luabins" else "mare 2", command) for key, command in cells.items()}


def knapsack(runner, size):
    capacity, objects = {"quick": (60, 12), "usual": (12000, 200), "full": (12000, 8000)}[size]
    counts = (2, 4) if size == "quick" else tuple(TABLE_4_1)
    cpus = len(os.sched_getaffinity(0))
    taken = runner.all("knapsack", _labelled({(n, mode): knapsack_command(mode, n, capacity, objects, 3, cpus) for n in counts for mode in MODES}))
    times = Table("knapsack-time", f"Table 4.1: knapsack, {capacity:,} units, {objects:,} objects (seeds: 8,000) of 3 units, {cpus} workers: seconds",
                  ["processes", "direct", "SD", "Luabins", "SD", "string.pack", "SD", "Luabins / direct", "string.pack / direct", "seeds: Luabins", "seeds: direct",
                   "seeds: Luabins / direct"])
    for n in counts:
        runs = [taken[f"{n} {mode}"] for mode in MODES]
        t = [mean(r, "time") for r in runs]
        seeds = TABLE_4_1.get(n, (None, None))
        times.rows.append([n, *[cell for value, r in zip(t, runs) for cell in (value, deviation(r, "time"))], divided(t[1], t[0]), divided(t[2], t[0]),
                           *seeds, divided(*seeds)])
    return [times, _knapsack_memory(runner, size, cpus)]


def _knapsack_memory(runner, size, cpus):
    chosen = {"quick": "A", "usual": "ABC", "full": "ABCD"}[size]
    instances = {name: TABLE_4_3[name] for name in chosen}
    if size == "quick":
        instances["A"] = (100, 20, 4, *TABLE_4_3["A"][3:])
    taken = runner.all("knapsack memory", _labelled({(name, mode): knapsack_command(mode, 4, *i[:3], cpus) for name, i in instances.items() for mode in MODES}))
    table = Table("knapsack-memory", "Table 4.3: knapsack, 4 processes: greatest resident memory beyond the program's own, MiB",
                  ["instance", "capacity", "objects", "direct", "Luabins", "string.pack", "direct / Luabins", "seconds direct", "seconds Luabins",
                   "seeds: direct, MB", "seeds: Luabins, MB", "seeds: direct / Luabins"],
                  notes=["The seeds added up what Lua's functions had allocated; ours is what the system gave at most. The matrix itself is in both: 16 bytes a cell, "
                         "twice while the last rows travel."])
    for name, (capacity, objects, _, current, modified) in instances.items():
        m = {mode: taken[f"{name} {mode}"] for mode in MODES}
        memory = {mode: mean(m[mode], "memory") for mode in MODES}
        table.rows.append([name, capacity, objects, memory["direct"], memory["luabins"], memory["packed"], divided(memory["direct"], memory["luabins"]),
                           mean(m["direct"], "time"), mean(m["luabins"], "time"), modified, current, divided(modified, current)])
    return table


# ---- scatter: section 3.3 of the same ----

def scatter(runner, size):
    receivers, rounds, items = ((2, 3), 20, 12) if size == "quick" else ((4, 8, 32), 4000, 800)
    modes = ("simulated", "barrier", "collective")
    taken = runner.all("scatter", {f"{n} {mode}": ("mare 2", scatter_command(mode, n, rounds, items)) for n in receivers for mode in modes})
    table = Table("scatter", f"Section 3.3: a table of {items:,} items dealt out to receivers: times each second, 2 workers",
                  ["receivers", "notices", "luaproc.barrier", "mare.collective", "barrier / notices", "collective / notices"],
                  notes=["The seeds give no figures: “the implementation using the barrier function achieved a better performance”."])
    for n in receivers:
        rates = [mean(taken[f"{n} {mode}"], "scatters") for mode in modes]
        table.rows.append([n, *rates, divided(rates[1], rates[0]), divided(rates[2], rates[0])])
    return [table]


# ---- messages: tables 6.1 and 6.12 of Skyrme 2008 ----

# bytes: messages we copy, seconds for 1,000 messages of luaproc, and of Erlang (compiled, SMP; 1.24 s of them is its start)
TABLE_6_1 = {10: (200000, 0.012, 1.247), 104: (200000, 0.011, 1.247), 1048: (200000, 0.019, 1.249), 10485: (100000, 0.053, 1.246),
             104857: (20000, 0.400, 1.246), 1048576: (2000, 4.267, 1.250), 10485760: (200, 24.190, 1.290)}


def messages(runner, size):
    by_reference = 200 if size == "quick" else 600000
    cells, ways = {}, ("copied", "shared", "moved", "frozen", "erlang", "go")
    sizes = list(TABLE_6_1)[::3] if size == "quick" else list(TABLE_6_1)
    for n in sizes:
        copied = 20 if size == "quick" else TABLE_6_1[n][0]
        cells |= {f"{n} copied": ("mare 1", mare("messages", "strings", n, copied)), f"{n} shared": ("mare 1", mare("messages", "buffers", n, by_reference)),
                  f"{n} moved": ("mare 1", mare("moved", n, by_reference)), f"{n} frozen": ("mare 1", mare("messages", "frozen", n, by_reference)),
                  f"{n} erlang": ("erlang 1", erlang("strings", n, by_reference)), f"{n} go": ("go 1", go("strings", n, by_reference))}
    taken = runner.all("messages", cells)
    table = Table("messages", "Tables 6.1 and 6.12: messages of so many bytes, microseconds each, 1 worker",
                  ["bytes", "string, copied", "buffer, shared", "buffer, moved", "frozen table", "Erlang's binary", "Go's string", "Erlang / shared", "Erlang / frozen",
                   "seeds: luaproc", "seeds: Erlang, s for 1,000"],
                  notes=["Erlang acknowledges each message, Go and mare meet at each; a buffer that moves goes there and back, and each way is a message. In the seeds, "
                         "luaproc's time was that of the copy, and Erlang's the same for each size."])
    for n in sizes:
        us = [divided(1e6, mean(taken[f"{n} {way}"], "transfers")) for way in ways]
        _, luaproc_seconds, erlang_seconds = TABLE_6_1[n]
        table.rows.append([n, *us, divided(us[4], us[1]), divided(us[4], us[3]), 1000 * luaproc_seconds, erlang_seconds])
    return [table]


# ---- memory: tables 6.4, 6.5 and formula 6-5 of the same ----

# processes, with a channel each: KiB measured, and by the seeds' formula
TABLE_6_5 = {5000: (152577, 123191), 10000: (220541, 212441), 20000: (450798, 390941), 30000: (606518, 569441), 40000: (787749, 747941), 50000: (996636, 926441)}
TERMS = ("worker", "process", "channel", "fiber")
SEEDS_TERMS = ("8,192 (its stack's addresses)", "17.48", "0.37", "–")


def memory(runner, size):
    grid = {"quick": ((1, 2), (0, 200), (0, 2000), (0, 400))}.get(size, ((1, 2, 4), (0, 5000, 20000), (0, 10000, 50000), (0, 5000, 20000)))
    points = [(w, p, c, f) for w in grid[0] for p in grid[1] for c in grid[2] for f in grid[3]]
    taken = runner.all("memory", {str(x): ("mare 1", mare("memory", x[1], x[2], x[3], workers=x[0])) for x in points}, 1)
    measured = [(x, r["all"]) for x in points for r in taken[str(x)]]
    formula = least_squares.fit(measured)
    terms = Table("memory-formula", "Formula 6-5: resident KiB = base + a·workers + b·processes + c·channels + d·waiting fibers",
                  ["term", "KiB", "± (95 %)", "seeds: kB of addresses"])
    for name, value, half, seeds in zip(("base", *TERMS), formula.coefficients, formula.half, ("17,557", *SEEDS_TERMS)):
        terms.rows.append([name if name == "base" else f"for each {name}", value, half, seeds])
    terms.notes = [f"By least squares over {formula.points} programs, all combinations of {grid[0]} workers, {grid[1]} processes, {grid[2]} channels and {grid[3]} "
                   f"fibers; each process waits, with its state, and so does each fiber of one process. R² {formula.determination:.6f}; what the formula leaves has a standard "
                   f"deviation of {formula.deviation:,.0f} KiB. The seeds counted addresses (`pmap`), we count memory that is there (`smaps_rollup`)."]
    return [terms, _estimates(runner, size, formula)]


def _estimates(runner, size, formula):
    counts = (300, 600) if size == "quick" else tuple(TABLE_6_5)
    taken = runner.all("memory, estimated", {str(n): ("mare 2", mare("memory", n, n, 0, workers=2)) for n in counts})
    table = Table("memory-estimates", "Tables 6.4, 6.5: N processes with a channel each, 2 workers: KiB measured, and by the formula, which was fitted to other programs",
                  ["processes", "at first", "with the channels", "with the processes", "by the formula", "estimated / measured", "seeds: measured", "seeds: by theirs",
                   "seeds: estimated / measured"])
    for n in counts:
        runs, (real, by_theirs) = taken[str(n)], TABLE_6_5.get(n, (None, None))
        cells = [mean(runs, metric) for metric in ("base", "channels", "all")]
        estimate = formula.at((2, n, n, 0))
        table.rows.append([n, *cells, estimate, divided(estimate, cells[2]), real, by_theirs, divided(by_theirs, real)])
    return table
