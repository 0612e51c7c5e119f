"""Rows of the seeds' experiments: tables sent directly and as strings; scatter with and without a barrier; buffers that move. bench/seeds/run has the
seeds' own tables. See rows.py for what a row is."""
from .commands import erlang, luaproc, mare
from .model import Experiment, Finding, ratio

SCATTERS = 4000


def knapsack(mode, workers=4, capacity=12000, objects=200, weight=3, threads=2):
    """Of section 4.1; a fortieth of its objects."""
    return mare("knapsack", mode, workers, capacity, objects, weight, workers=threads)


def _knapsack():
    made = {f"mare 2 {mode}": knapsack(mode) for mode in ("direct", "packed", "text")} | {"luabins 2": knapsack("luabins")}
    strings = ("mare 2 packed", "mare 2 text")
    return Experiment("knapsack", made, [
        Finding("knapsack: tables sent directly, against strings made and parsed in Lua", lambda m: min(m[s]["time"] for s in strings) / m["mare 2 direct"]["time"],
                ">=", 2.0, mare=("mare 2 direct", *strings), source="the faster of string.pack and source text"),
        Finding("knapsack: tables sent directly, against Luabins", ratio("luabins 2", "mare 2 direct", "time"), ">=", 2.0,
                mare=("mare 2 direct",), peers=("luabins 2",), source="Luabins (the seeds: 1.5 to 1.9)"),
        Finding("knapsack: greatest memory beyond the program's own", lambda m: m["mare 2 direct"]["memory"], unit="MiB", metric="memory",
                mare=("mare 2 direct", *strings), peers=("luabins 2",)),
    ], "time", "s")


def scatter(mode, receivers, rounds=SCATTERS, items=800, threads=2):
    if mode == "collective":
        return mare("scatter", receivers, items, rounds, workers=threads)
    return luaproc("scatter", mode, receivers, items, rounds, workers=threads)


def _scatter(receivers):
    made = {f"mare 2 {mode}": scatter(mode, receivers) for mode in ("simulated", "barrier", "collective")}
    return Experiment(f"scatter-{receivers}", made, [
        Finding(f"scatter to {receivers}, {how}, against notices instead of a barrier", ratio(f"mare 2 {mode}", "mare 2 simulated", "scatters"),
                mare=(f"mare 2 {mode}", "mare 2 simulated"))
        for mode, how in (("barrier", "luaproc.barrier"), ("collective", "mare.collective"))], "scatters")


def _moved(size):
    """There and back; Erlang's binaries are shared."""
    made = {"mare 1": mare("moved", size, 400000), "erlang 1": erlang("strings", size, 400000)}
    return Experiment(f"moved-{size}", made, [
        Finding(f"buffers of {size:,} bytes, moved", lambda m: 1e6 / m["mare 1"]["transfers"], unit="µs", mare=("mare 1",), peers=("erlang 1",))], "transfers")


def experiments():
    return [_knapsack(), _scatter(8), _scatter(32), _moved(10), _moved(10485760)]
