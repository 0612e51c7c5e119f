"""Whole scripts, their allocator included: `mare run`, whose processes have heaps of their own, beside plain lua5.4 with mimalloc or glibc's malloc. CPU time.
bench/heap/run compares the allocators alone, in the same Lua."""
import math

from .commands import MIMALLOC, mare, script
from .model import Experiment, Finding

SCRIPTS = ("tables", "strings", "json", "large")


def experiments():
    made = {}
    for name in SCRIPTS:
        made[f"mare 1 {name}"] = mare("script", name, directory="heap")
        made[f"mimalloc {name}"] = script("heap", "script", name, env={"LD_PRELOAD": MIMALLOC or ""})
        made[f"lua {name}"] = script("heap", "script", name)

    def mean(peer):
        return lambda m: math.prod(m[f"{peer} {n}"]["time"] / m[f"mare 1 {n}"]["time"] for n in SCRIPTS) ** (1 / len(SCRIPTS))
    findings = [Finding("scripts on a process's heap, mean of four", mean("mimalloc"), ">=", 1.15, source="lua5.4 with mimalloc"),
                Finding("scripts on a process's heap, mean of four, beside lua5.4", mean("lua"))]
    for name in SCRIPTS:
        findings.append(Finding(f"script {name}: time of lua5.4 with mimalloc", lambda m, n=name: m[f"mimalloc {n}"]["time"] / m[f"mare 1 {n}"]["time"],
                                mare=(f"mare 1 {name}",), peers=(f"mimalloc {name}", f"lua {name}")))
    return [Experiment("heap-scripts", made, findings, "time", "s")]
