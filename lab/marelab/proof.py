"""Proof, inside the target and its children, that an allocator serves it.

Two witnesses, neither of which adds a line of code to the program:

- the dynamic loader itself (LD_DEBUG=bindings with LD_BIND_NOW=1): to which object each reference of each object to malloc, free, operator
  new and the rest was bound, in every process that inherits the environment;
- the kernel (perf's exec and mapping records): which programs were started at all, and whether the allocator's object was mapped into each.
  A child that clears its environment says nothing to the loader, and is found here. So is a program that became another user before it started, who may not
  write into the report that its process has begun: each program with the C library is in the report once, as it refers to __libc_start_main.

Reports of the loader are some 300 KB per process; they are read and removed while the program runs. Processes that were forked and start no
program write into the same report, each line in two pieces; where two write at once, pieces of different lines stand in one. Such a line is passed
over: only lines that are whole are believed. Their bindings were told before the fork, but for objects that are loaded later.
"""

import os
import re
import shutil
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

from marelab import allocators, elf, measure, obtain, output, perf, progress, target
from marelab.allocators import Allocator, c_library
from marelab.beside import Beside
from marelab.errors import LabError

ALIGNED = {"posix_memalign", "aligned_alloc", "memalign", "valloc", "pvalloc"}
CXX = re.compile(r"_Zn[wa]m|_Zd[la]Pv")
# One line as the loader writes it, whole: its process, two objects, a symbol, perhaps a version
BINDING = re.compile(rb"\s*\d+:\tbinding file ([^\[\]\t]+) \[\d+\] to ([^\[\]\t]+) \[\d+\]: \w+ symbol `(\w+)'(?: \[[\w.+-]+\])?\n")
INTERESTING = re.compile(rb"symbol `(?:malloc|free|calloc|realloc|posix_memalign|aligned_alloc|memalign|p?valloc|_Zn[wa]m\w*|_Zd[la]Pv\w*)'")
START = b"symbol `__libc_start_main'"
UNHEARD = "(it became another user, who can't write the loader's report, or cleared its environment, or has another root folder)"
SPACE = 512 << 20  # bytes of reports at the same time


@dataclass
class Proof:
    bound: Counter = field(default_factory=Counter)  # (routine kind, object) → references
    wrong: Counter = field(default_factory=Counter)  # (routine, by whom, to what) → references
    processes: int = 0  # that the loader reported
    images: int | None = None  # programs started, as the kernel saw; None: perf could not be used
    without: Counter = field(default_factory=Counter)  # programs that ran without the allocator's object
    unheard: Counter = field(default_factory=Counter)  # programs that the kernel saw start, and the loader doesn't report
    mute: str | None = None  # the one of them that the target itself became
    problem: str | None = None  # the program itself failed under it
    settings: str = ""  # of its knobs, as it says itself
    outcome: measure.Outcome | None = None  # of the run in which it was proved

    @property
    def serves(self) -> bool:
        return self.problem is None and not self.wrong and self.count("malloc") > 0 and self.count("free") > 0

    @property
    def complete(self) -> bool:
        return self.serves and not self.without and not self.unheard

    def count(self, kind: str) -> int:
        return sum(n for (k, _), n in self.bound.items() if k == kind)

    def objects(self, kind: str) -> list[str]:
        return sorted({o for k, o in self.bound if k == kind})

    def lines(self) -> list[str]:
        out = []
        if self.problem:
            out.append(f"the program failed: {self.problem}")
        if self.settings:
            out.append(f"it says itself: {self.settings}")
        seen = ", ".join(f"{k} {self.count(k)}" for k in ("malloc", "free", "operator new", "aligned") if self.count(k))
        out.append(f"references bound to it: {seen or 'none'}; in {self.processes} process{'es' if self.processes != 1 else ''}")
        for (routine, by, to), n in self.wrong.most_common(4):
            out.append(f"WRONG: {by} takes {routine} from {to}" + (f" ({n} times)" if n > 1 else ""))
        for image, n in self.without.most_common(4):
            out.append(f"ran without it{f' {n} times' if n > 1 else ''}: {image} (its environment was cleared, or it is static or setuid)")
        for image, n in self.unheard.most_common(4):
            out.append(f"not heard of by the loader{f' {n} times' if n > 1 else ''}: {image} {UNHEARD}")
        if self.images is None:
            out.append("perf can't be used here: children that clear their environment can't be seen")
        return out

    def as_dict(self) -> dict:
        return {"serves": self.serves, "complete": self.complete, "bound": {k: self.count(k) for k in sorted({k for k, _ in self.bound})},
                "processes": self.processes, "images": self.images, "problem": self.problem,
                "wrong": [{"routine": r, "by": b, "to": t, "times": n} for (r, b, t), n in self.wrong.items()],
                "without": dict(self.without), "unheard": dict(self.unheard)}


def default_program() -> tuple[str, ...]:
    return (sys.executable, "-I", str(Path(__file__).with_name("probe.py")), "", "child")


def kind_of(symbol: str) -> str:
    return "operator new" if CXX.match(symbol) else "aligned" if symbol in ALIGNED else symbol


class Reader(Beside):
    """Reads the loader's reports of processes that have ended, and removes them."""

    def __init__(self, folder: str, objects: tuple[str, ...] | None, proof: Proof):
        super().__init__(every=0.1)
        self.folder, self.objects, self.proof, self.full = folder, objects, proof, False
        self.real: dict[str, str] = {}
        self.started: Counter = Counter()  # process → programs that reported there

    def look(self) -> None:
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
        if text not in self.real:  # a program that was started by name alone is called by that name
            self.real[text] = os.path.realpath(text if "/" in text else shutil.which(text) or text)
        return self.real[text]

    def read(self, report: str) -> None:
        self.proof.processes += 1
        with open(report, "rb") as f:
            for line in f:
                if START in line:
                    self.started[report.rpartition(".")[2]] += 1
                m = INTERESTING.search(line) and BINDING.fullmatch(line)
                if m:
                    self.binding(self.path(m[1]), self.path(m[2]), m[3].decode())

    def binding(self, by: str, to: str, symbol: str) -> None:
        kind, objects = kind_of(symbol), self.objects
        if not elf.defines(to, symbol):
            pass  # a program's own jump stub, whose binding is looked at by itself
        elif objects is None or to in objects:
            self.proof.bound[kind, to] += 1
        elif by in objects:
            pass  # what the allocator itself uses underneath is its own matter
        elif kind == "operator new" and not elf.defines(to, "malloc"):
            self.proof.bound[kind, to] += 1  # libstdc++, or a copy of it: it calls malloc, whose binding is looked at by itself
        elif kind == "aligned" and by == to:
            pass  # the C library's references to itself
        else:
            self.proof.wrong[symbol, by, to] += 1

    def __exit__(self, *_):
        super().__exit__()
        self.sweep(only_ended=False)


# ---- the kernel's witness ----

def images(data: str) -> list[tuple[str, set[str], str]]:
    """Programs started, each with the objects mapped into it and its process. The first is `env`, which we put in front."""
    text = perf.script(data, "tid,pid,event", "--show-task-events", "--show-mmap-events")
    found: list[tuple[str, set[str], str]] = []
    current: dict[str, int] = {}
    for line in text.splitlines():
        execed = re.search(r"PERF_RECORD_COMM exec: .*:(\d+)/\d+\s*$", line)
        mapped = re.search(r"PERF_RECORD_MMAP2 (\d+)/\d+: .*: \S*x\S* (/.*)$", line)
        if execed:
            current[execed[1]] = len(found)
            found.append(("", set(), execed[1]))
        elif mapped and mapped[1] in current:
            at = current[mapped[1]]
            name, objects, process = found[at]
            found[at] = (name or mapped[2], objects | {mapped[2]}, process)
    return [f for f in found[1:] if f[0]]


def witness_kernel(proof: Proof, allocator: Allocator, data: str, reported: Counter) -> None:
    started = images(data)
    proof.images = len(started)
    need = None if allocator.as_is else allocator.objects[0]
    heard = []  # of whom the loader should have told
    for name, objects, process in started:
        if need and need not in {os.path.realpath(o) for o in objects}:
            proof.without[name] += 1
        elif any(re.match(r"libc(\.so|-2)", os.path.basename(o)) for o in objects) and not privileged(name):
            heard.append((name, process))
    last = max((i for i, (_, process) in enumerate(heard) if process == started[0][2]), default=-1)  # what the target itself became
    missing = len(heard) - reported.total()
    for i, (name, process) in reversed(list(enumerate(heard))):  # what a process became last is what can't report any more
        if missing > 0 and reported[process] < sum(p == process for _, p in heard):
            proof.unheard[name] += 1
            proof.mute = name if i == last else proof.mute
            reported[process] += 1
            missing -= 1


def privileged(image: str) -> bool:
    """To whom the loader listens in nothing."""
    try:
        return bool(os.stat(image).st_mode & 0o6000)
    except OSError:
        return False


def patient(goal: measure.Target, usual: float | None) -> measure.Target:
    """The same with a time limit for a run in which the loader binds everything at once and reports it: by how long a run usually takes."""
    return replace(goal, timeout=5 * (usual or goal.timeout) + 30) if goal.timeout or usual else goal


def prove(allocator: Allocator, goal: measure.Target, usual: float | None = None) -> Proof:
    """Runs the target once under the allocator with both witnesses. `usual`: how many seconds it takes, where that is known."""
    proof = Proof()
    objects = None if allocator.as_is else allocator.objects
    with tempfile.TemporaryDirectory(prefix="mare-lab-") as folder:
        data = f"{folder}/perf" if perf.works() else None
        wrap = perf.record(perf.USER, data, "-F", "49") if data else None
        debug = {"LD_DEBUG": "bindings", "LD_BIND_NOW": "1", "LD_DEBUG_OUTPUT": f"{folder}/bindings"}
        with Reader(folder, objects, proof) as reader:
            outcome = measure.once(patient(goal, usual), allocator, debug, wrap)
        if reader.full:
            raise LabError(f"the loader's reports need more than {SPACE >> 20} MB in {folder}: prove it on a shorter run of the program", code=1)
        proof.problem, proof.outcome = outcome.problem(goal.good), outcome
        if proof.problem:
            proof.problem += outcome.last_words()
        if data and os.path.exists(data):
            witness_kernel(proof, allocator, data, reader.started)
    if "tcache_count=0" in dict(allocator.env).get("GLIBC_TUNABLES", "") and not proof.problem:
        check_tunable(proof, allocator)
    return proof


def check_tunable(proof: Proof, allocator: Allocator) -> None:
    if allocators.probe(allocator).get("thread_caches") is not False:
        proof.problem = "GLIBC_TUNABLES has no effect here: glibc still uses thread caches"


def present(goal: measure.Target, usual: float | None = None) -> tuple[Proof, str]:
    """What serves malloc in the program as it is: the proof and the object's path."""
    proof = prove(allocators.AS_IS, goal, usual)
    objects = proof.objects("malloc")
    if proof.problem or not objects:
        return proof, ""
    own = [o for o in objects if o != os.path.realpath(c_library())]
    return proof, max(own or objects, key=lambda o: proof.bound["malloc", o])


# ---- the command ----

EPILOG = """Without a program, the proof is made in a small one that also starts a child. With one, the program itself is run once under each
allocator: every reference to malloc, free and operator new of every object in every process is looked at.

  mare lab allocators
  mare lab allocators -- ./service --once
  mare lab allocators --allocator mine=/opt/lib/libmine.so -- ./service --once

--get builds allocators that no Debian package brings, from packages of a registry, with the compiler that is here; a library that doesn't serve
is not kept. What is there already is proved once more.

  mare lab allocators --get hoard,rpmalloc
  mare lab allocators --get snmalloc --from /media/crates
"""


def add_arguments(parser) -> None:
    allocators.add_catalogue_arguments(parser)
    parser.add_argument("--get", metavar="A,B,…", help="build these into the user's cache: those that the list calls absent, with a recipe; all: every one")
    parser.add_argument("--from", dest="place", metavar="PLACE", help="a folder or an address where their packages lie, in the registry's place")
    parser.add_argument("--timeout", type=float, default=120, metavar="S", help="limit of one run of the program (default: 120 s)")
    parser.add_argument("--json", action="store_true", help="JSON on standard output")
    parser.add_argument("program", nargs="*", help="after `--`: the program to prove it in")


def to_get(found: dict[str, Allocator], names: str) -> list[Allocator]:
    """Those that --get names, each with a recipe."""
    able = [a for a in found.values() if a.recipe]
    if names == "all":
        return able
    for name in names.split(","):
        if name not in found:
            raise LabError(f"--get {name}: no such allocator in the catalogue; there are {', '.join(a.name for a in able)}")
        if not found[name].recipe:
            how = f"install the package {found[name].package}" if found[name].package else "the catalogue has no recipe for it"
            raise LabError(f"--get {name}: it is not built on demand: {how}")
    return [found[n] for n in dict.fromkeys(names.split(","))]


def get(a: Allocator, place: str | None, goal: measure.Target) -> None:
    """Builds it, and keeps it if it serves."""
    if not a.missing:
        return
    with obtain.built(a.recipe, place) as library:
        proof = prove(replace(a, library=str(library), missing=None), goal)
        if not proof.serves:
            raise LabError(f"{a.name}: what was built does not serve a program, and is not kept: {proof.lines()[0]}", code=1)
        progress.note(f"{a.name}: it serves; kept as {obtain.keep(a.recipe, library)}")


def choice(args) -> tuple[dict[str, Allocator], list[Allocator]]:
    """The catalogue, and of it what is to be proved: those named, or all that are here."""
    found = allocators.load(args.catalogue, args.allocator)
    names = args.allocators
    if args.get:
        wanted = to_get(found, args.get)
        for a in wanted:
            get(a, args.place, measure.Target(default_program(), timeout=args.timeout))
        names = ",".join(a.name for a in wanted)
        found = allocators.load(args.catalogue, args.allocator)
    elif args.place:
        raise LabError("--from says where --get finds packages: name what to get, as in --get hoard --from FOLDER")
    return found, allocators.select(found, names) if names else [a for a in found.values() if not a.missing]


def run(args) -> int:
    found, wanted = choice(args)
    if args.program:
        target.check(args.program)
    goal = measure.Target(tuple(args.program) or default_program(), timeout=args.timeout)
    first = measure.once(goal, allocators.AS_IS)
    if first.problem():
        raise LabError(f"the program fails before anything is changed: {first.problem()}{first.last_words()}", code=1)
    results = [(a, prove(a, goal, first.wall_s)) for a in wanted]
    absent = [a for a in found.values() if a.missing and not args.allocators and not args.get]
    if args.json:
        rows = [{"name": a.name, "library": a.library, "version": allocators.version(a), "package": allocators.package_version(a.objects[0]),
                 "sha256": allocators.fingerprint(a.objects[0]), **p.as_dict()} for a, p in results]
        print(output.text({"allocators": rows, "missing": [{"name": a.name, "why": a.missing, "can_be_got": a.recipe is not None} for a in absent]}))
    else:
        show(results, absent)
    return 0 if all(p.serves for _, p in results) else 1


def show(results, absent) -> None:
    print(f"{'allocator':<16} {'version':<22} {'serves':<8} object, and what was seen")
    for a, p in results:
        word = "yes" if p.complete else "in part" if p.serves else "no"
        print(f"{a.name:<16} {allocators.version(a)[:22]:<22} {word:<8} {a.library or c_library()}")
        for line in p.lines():
            print(f"{'':<48} {line}")
    for a in absent:
        print(f"{a.name:<16} {'-':<22} {'absent':<8} {a.missing}")
    if any(a.named for a, _ in results):
        print(f"Take part only where they are named, as in --allocators glibc,miser: {', '.join(a.name for a, _ in results if a.named)}")
