"""The rows of luaproc: the same programs run by the original and by mare's module of that name, beside mare's own channels and processes
(bench/mare). See rows.py for what a row is.

The original comes from no package manager for Lua 5.4, so where it is is told: LUAPROC=/path/to/luaproc.so. Otherwise its columns stay empty.
"""
import os

from .commands import LUA, MARE, BENCH, Command, mare
from .model import Experiment, Finding, ratio

ORIGINAL = os.environ.get("LUAPROC", "")


def _command(runner, name, args, cpath=""):
    env = {"LUA_PATH": f"{BENCH}/luaproc/?.lua;;", "LUA_CPATH": cpath + ";;", "LUA_INIT": ""}
    return Command((*runner, f"{BENCH}/luaproc/{name}.lua", *map(str, args)), env)


def _three(name, own, args, own_args):
    """Labels: "mare 1 luaproc" the module, "mare 1" mare's own words for the same, "luaproc 1" the original."""
    made = {}
    for n in (1, 2):
        made[f"mare {n} luaproc"] = _command((MARE, "run", "-w", str(n)), name, (*args, n))
        made[f"mare {n}"] = mare(own, *own_args, workers=n)
        if ORIGINAL:
            made[f"luaproc {n}"] = _command((LUA or "lua5.4",), name, (*args, n), ORIGINAL)
    return made


def _rates(name, work, made, metric, against_original):
    findings = []
    for n in (1, 2):
        text = f"luaproc: {work}, {n} worker{'s'[:n - 1]}"
        findings.append(Finding(text, ratio(f"mare {n} luaproc", f"mare {n}", metric), ">=", 0.8, mare=(f"mare {n} luaproc", f"mare {n}"),
                                source="mare's own channels"))
        if ORIGINAL and against_original:
            findings.append(Finding(text, ratio(f"mare {n} luaproc", f"luaproc {n}", metric), ">=", against_original[n - 1],
                                    mare=(f"mare {n} luaproc",), peers=(f"luaproc {n}",), source="the original"))
    return Experiment(name, made, findings, metric)


def _spawn():
    made = _three("spawn", "spawn", (200000,), (200000,))
    return Experiment("luaproc-spawn", made, [
        Finding(f"luaproc: spawn and exit, recycled, {n} worker{'s'[:n - 1]}", lambda m, n=n: m[f"mare {n} luaproc"]["spawn"] / m[f"mare {n}"]["spawn"],
                "<=", 1.25, mare=(f"mare {n} luaproc", f"mare {n}"), peers=(f"luaproc {n}",), source="the time of mare's own")
        for n in (1, 2)], "spawn", "µs")


def _waiting():
    made = {label: command for label, command in _three("waiting", "waiting", (20000,), (20000,)).items() if "1" in label}
    return Experiment("luaproc-waiting", made, [
        Finding("luaproc: 20,000 waiting processes, memory of each", lambda m: m["mare 1 luaproc"]["memory"], "<=", 10.0, "KiB",
                ("mare 1 luaproc", "mare 1"), ("luaproc 1",), "memory")], "memory", "KiB")


def experiments():
    return [
        _rates("luaproc-ring", "ring of 10", _three("ring", "ring", (10, 1000000), (10, 1, 1000000)), "hops", (1.4, 2.0)),
        _rates("luaproc-pingpong", "ping-pong", _three("pairs", "pairs", (1, 300000), (1, 300000)), "trips", None),
        _rates("luaproc-pairs", "8 independent pairs", _three("pairs", "pairs", (8, 300000), (8, 300000)), "trips", None),
        _spawn(), _waiting(),
    ]
