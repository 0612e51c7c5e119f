"""Proof, inside the target and its children, that an allocator serves it.

Two witnesses, neither of which adds a line of code to the program:

- the dynamic loader itself (LD_DEBUG=bindings with LD_BIND_NOW=1): to which object each reference of each object to malloc, free, operator
  new and the rest was bound, in every process that inherits the environment;
- the kernel (perf's exec and mapping records): which programs were started at all, and whether the allocator's object was mapped into each.
  A child that clears its environment says nothing to the loader, and is found here.

Reports of the loader are some 300 KB per process; they are read and removed while the program runs.
"""

import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

from marelab import measure, target
from marelab.allocators import Allocator, c_library
from marelab.errors import LabError

C_ROUTINES = {"malloc", "free", "calloc", "realloc"}
ALIGNED = {"posix_memalign", "aligned_alloc", "memalign", "valloc", "pvalloc"}
CXX = re.compile(r"_Zn[wa]m|_Zd[la]Pv")
BINDING = re.compile(rb"binding file (.+?) \[\d+\] to (.+?) \[\d+\]: \w+ symbol `(\w+)'")
INTERESTING = re.compile(rb"symbol `(?:malloc|free|calloc|realloc|posix_memalign|aligned_alloc|memalign|p?valloc|_Zn[wa]m\w*|_Zd[la]Pv\w*)'")
# without BPF events, whose start-up costs a second, and without looking up build ids
PERF = ("perf", "record", "-q", "-e", "cpu-clock:u", "--no-bpf-event", "-B", "-N")
SPACE = 512 << 20  # bytes of reports at the same time


@dataclass
class Proof:
    bound: Counter = field(default_factory=Counter)  # (routine kind, object) → references
    wrong: Counter = field(default_factory=Counter)  # (routine, by whom, to what) → references
    processes: int = 0  # that the loader reported
    images: int | None = None  # programs started, as the kernel saw; None: perf could not be used
    without: Counter = field(default_factory=Counter)  # programs that ran without the allocator's object
    problem: str | None = None  # the program itself failed under it

    @property
    def serves(self) -> bool:
        return self.problem is None and not self.wrong and self.count("malloc") > 0 and self.count("free") > 0

    @property
    def complete(self) -> bool:
        return self.serves and not self.without

    def count(self, kind: str) -> int:
        return sum(n for (k, _), n in self.bound.items() if k == kind)

    def objects(self, kind: str) -> list[str]:
        return sorted({o for k, o in self.bound if k == kind})

    def lines(self) -> list[str]:
        out = []
        if self.problem:
            out.append(f"the program failed: {self.problem}")
        seen = ", ".join(f"{k} {self.count(k)}" for k in ("malloc", "free", "operator new", "aligned") if self.count(k))
        out.append(f"references bound to it: {seen or 'none'}; in {self.processes} process{'es' if self.processes != 1 else ''}")
        for (routine, by, to), n in self.wrong.most_common(4):
            out.append(f"WRONG: {by} takes {routine} from {to}" + (f" ({n} times)" if n > 1 else ""))
        for image, n in self.without.most_common(4):
            out.append(f"ran without it{f' {n} times' if n > 1 else ''}: {image} (its environment was cleared, or it is static or setuid)")
        if self.images is None:
            out.append("perf can't be used here: children that clear their environment can't be seen")
        return out

    def as_dict(self) -> dict:
        return {"serves": self.serves, "complete": self.complete, "bound": {k: self.count(k) for k in sorted({k for k, _ in self.bound})},
                "processes": self.processes, "images": self.images, "problem": self.problem,
                "wrong": [{"routine": r, "by": b, "to": t, "times": n} for (r, b, t), n in self.wrong.items()],
                "without": dict(self.without)}


def default_program() -> tuple[str, ...]:
    return (sys.executable, "-I", str(Path(__file__).with_name("probe.py")), "", "child")


def kind_of(symbol: str) -> str:
    return "operator new" if CXX.match(symbol) else "aligned" if symbol in ALIGNED else symbol


class Reader:
    """Reads the loader's reports of processes that have ended, and removes them."""

    def __init__(self, folder: str, objects: tuple[str, ...] | None, proof: Proof):
        self.folder, self.objects, self.proof, self.stop, self.full = folder, objects, proof, threading.Event(), False
        self.real: dict[str, str] = {}
        self.thread = threading.Thread(target=self.loop, daemon=True)

    def loop(self) -> None:
        while not self.stop.wait(0.1):
            self.sweep(only_ended=True)

    def sweep(self, only_ended: bool) -> None:
        size = 0
        for entry in os.scandir(self.folder):
            if not entry.name.startswith("bindings."):
                continue
            if only_ended and os.path.exists(f"/proc/{entry.name.rpartition('.')[2]}"):
                size += entry.stat().st_size
                continue
            self.read(entry.path)
            os.unlink(entry.path)
        self.full = self.full or size > SPACE

    def path(self, name: bytes) -> str:
        text = name.decode(errors="replace")
        if text not in self.real:
            self.real[text] = os.path.realpath(text)
        return self.real[text]

    def read(self, report: str) -> None:
        self.proof.processes += 1
        with open(report, "rb") as f:
            for line in f:
                m = INTERESTING.search(line) and BINDING.search(line)
                if m:
                    self.binding(self.path(m[1]), self.path(m[2]), m[3].decode())

    def binding(self, by: str, to: str, symbol: str) -> None:
        kind, objects = kind_of(symbol), self.objects
        if not target.defines(to, symbol):
            pass  # a program's own jump stub, whose binding is looked at by itself
        elif objects is None or to in objects:
            self.proof.bound[kind, to] += 1
        elif by in objects:
            pass  # what the allocator itself uses underneath is its own matter
        elif kind == "operator new" and not target.defines(to, "malloc"):
            self.proof.bound[kind, to] += 1  # libstdc++, or a copy of it: it calls malloc, whose binding is looked at by itself
        elif kind == "aligned" and by == to:
            pass  # the C library's references to itself
        else:
            self.proof.wrong[symbol, by, to] += 1

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()
        self.sweep(only_ended=False)


# ---- the kernel's witness ----

@functools.cache
def perf_works() -> bool:
    if not shutil.which("perf"):
        return False
    with tempfile.TemporaryDirectory(prefix="marelab-") as folder:
        r = subprocess.run([*PERF, "-o", f"{folder}/p", "--", "true"], capture_output=True)
        return r.returncode == 0


def images(data: str) -> list[tuple[str, set[str]]]:
    """Programs started, each with the objects mapped into it. The first is `env`, which we put in front."""
    words = ["perf", "script", "-i", data, "--show-task-events", "--show-mmap-events", "-F", "tid,pid,event"]
    text = subprocess.run(words, capture_output=True, text=True, errors="replace").stdout
    found: list[tuple[str, set[str]]] = []
    current: dict[str, int] = {}
    for line in text.splitlines():
        execed = re.search(r"PERF_RECORD_COMM exec: .*:(\d+)/\d+\s*$", line)
        mapped = re.search(r"PERF_RECORD_MMAP2 (\d+)/\d+: .*: \S*x\S* (/.*)$", line)
        if execed:
            current[execed[1]] = len(found)
            found.append(("", set()))
        elif mapped and mapped[1] in current:
            at = current[mapped[1]]
            name, objects = found[at]
            found[at] = (name or mapped[2], objects | {mapped[2]})
    return [f for f in found[1:] if f[0]]


def witness_kernel(proof: Proof, allocator: Allocator, data: str) -> None:
    started = images(data)
    proof.images = len(started)
    if allocator.as_is:
        return
    need = allocator.objects[0]
    for name, objects in started:
        if need not in {os.path.realpath(o) for o in objects}:
            proof.without[name] += 1


def patient(goal: measure.Target) -> measure.Target:
    """The same with a wider time limit: binding everything at once, and reporting it, takes a while."""
    return replace(goal, timeout=5 * goal.timeout + 30) if goal.timeout else goal


def prove(allocator: Allocator, goal: measure.Target) -> Proof:
    """Runs the target once under the allocator with both witnesses."""
    proof = Proof()
    objects = None if allocator.as_is else allocator.objects
    with tempfile.TemporaryDirectory(prefix="marelab-") as folder:
        data = f"{folder}/perf" if perf_works() else None
        wrap = [*PERF, "-F", "49", "-o", data, "--"] if data else None
        debug = {"LD_DEBUG": "bindings", "LD_BIND_NOW": "1", "LD_DEBUG_OUTPUT": f"{folder}/bindings"}
        with Reader(folder, objects, proof) as reader:
            outcome = measure.once(patient(goal), allocator, debug, wrap)
        if reader.full:
            raise LabError(f"the loader's reports need more than {SPACE >> 20} MB in {folder}: prove it on a shorter run of the program", code=1)
        proof.problem = outcome.problem(goal.good)
        if proof.problem and outcome.stderr.strip():
            proof.problem += f"; it said: {outcome.stderr.strip().splitlines()[-1][:200]}"
        if data and os.path.exists(data):
            witness_kernel(proof, allocator, data)
    if "tcache_count=0" in dict(allocator.env).get("GLIBC_TUNABLES", "") and not proof.problem:
        check_tunable(proof, allocator)
    return proof


def check_tunable(proof: Proof, allocator: Allocator) -> None:
    from marelab.allocators import probe

    if probe(allocator).get("thread_caches") is not False:
        proof.problem = "GLIBC_TUNABLES has no effect here: glibc still uses thread caches"


def present(goal: measure.Target) -> tuple[Proof, str]:
    """What serves malloc in the program as it is: the proof and the object's path."""
    proof = prove(Allocator("as it is", as_is=True), goal)
    objects = [o for o in proof.objects("malloc")]
    if proof.problem or not objects:
        return proof, ""
    own = [o for o in objects if o != os.path.realpath(c_library())]
    return proof, max(own or objects, key=lambda o: proof.bound["malloc", o])
