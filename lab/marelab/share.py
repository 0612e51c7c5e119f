"""How much of a program's CPU time is spent inside allocator calls: the most that any allocator can gain.

By sampling (perf, the cpu-clock event, which needs no hardware counters) and not by wrapping the calls: a wrapper costs a good part of
what a call costs, and the program that is studied would no longer be the program. A sample counts

- as *allocator* when its instruction lies in the allocator's own code: anywhere in the preloaded object, or for glibc in the functions of its
  malloc (by symbol where glibc's debug symbols are installed, else by address, see `malloc_range`);
- as *kernel, for memory* when the kernel was entered by a page fault, mmap, munmap, mremap, brk or madvise. These are an allocator's doing
  only in part (fresh memory must come from somewhere, files are mapped, too), so they are told apart.

Seen needs permission: without it for the kernel, only the first is known, and that is said.
"""

import math
import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass

from marelab import measure, perf
from marelab.allocators import Allocator, c_library

# glibc's malloc/malloc.c, arena.c and hooks, as its debug symbols name them
GLIBC_MALLOC = re.compile("|".join((
    r"(__libc_|__GI___libc_|__)?(malloc|free|cfree|calloc|realloc|reallocarray|memalign|aligned_alloc|posix_memalign|valloc|pvalloc|mallopt)"
    r"(_usable_size|_trim|_consolidate)?(\.\w+(\.\d+)?)?$",
    r"_int_(malloc|free|realloc|memalign)|_int_free_\w+|_mid_memalign|sysmalloc|systrim|sysmalloc_mmap|unlink_chunk|tcache_\w+",
    r"munmap_chunk|mremap_chunk|arena_get\w*|reused_arena|detach_arena|heap_for_ptr|new_heap|heap_trim|grow_heap|shrink_heap|__default_morecore|ptmalloc_init",
    r"malloc_info|__malloc\w*|mtrim|checked_request2size|alloc_perturb|free_perturb|do_check_\w+",
)))
FIRST, LAST = "malloc", "malloc_info"
KERNEL_MEMORY = re.compile("|".join((
    r"asm_exc_page_fault|exc_page_fault|do_user_addr_fault|handle_mm_fault|do_page_fault|do_mem_abort|el0_da",
    r"(__x64_|__arm64_|__do_)?sys_(mmap|munmap|mremap|brk|madvise|mprotect)\w*|ksys_mmap_pgoff|vm_mmap_pgoff|do_mmap|__vm_munmap|do_madvise",
)))
FREQUENCY = 1999


@dataclass
class Share:
    samples: int
    allocator: int
    kernel_memory: int | None  # None: the kernel could not be sampled
    kernel: int | None
    by: str
    top: list[tuple[str, int]]

    @property
    def most(self) -> float:
        """The most a better allocator can take away, as a share of the CPU time."""
        return (self.allocator + (self.kernel_memory or 0)) / self.samples

    def interval(self, count: int) -> tuple[float, float]:
        """Wilson's 95 % interval of a share."""
        z, n, p = 1.96, self.samples, count / self.samples
        middle = (p + z * z / (2 * n)) / (1 + z * z / n)
        half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return max(0.0, middle - half), min(1.0, middle + half)

    def as_dict(self) -> dict:
        low, high = self.interval(self.allocator)
        return {"samples": self.samples, "allocator": self.allocator / self.samples, "allocator_low": low, "allocator_high": high,
                "kernel_memory": None if self.kernel_memory is None else self.kernel_memory / self.samples,
                "kernel": None if self.kernel is None else self.kernel / self.samples, "most": self.most, "by": self.by,
                "top": [{"function": f, "share": n / self.samples} for f, n in self.top]}


def symbols(library: str) -> list[tuple[int, int, str]]:
    tool = shutil.which("nm") or shutil.which("readelf")
    if not tool or not tool.endswith("nm"):
        return []
    text = subprocess.run([tool, "-D", "-S", "--defined-only", library], capture_output=True, text=True).stdout
    found = []
    for line in text.splitlines():
        w = line.split()
        if len(w) == 4 and w[2] in "TtWwi":
            found.append((int(w[0], 16), int(w[1], 16), w[3].partition("@")[0]))
    return sorted(found)


def malloc_range(library: str) -> tuple[int, int] | None:
    """Addresses of glibc's malloc in a stripped library: one object file, from the end of the exported function before `malloc` that belongs to
    another file, to the end of `malloc_info`, its last. The static functions before `malloc` are its own (_int_malloc, _int_free, …)."""
    table = symbols(library)
    starts = {name: at for at, _, name in table}
    if FIRST not in starts or LAST not in starts:
        return None
    before = [at + size for at, size, name in table if at + size <= starts[FIRST] and not GLIBC_MALLOC.fullmatch(name)]
    end = max(at + size for at, size, name in table if name == LAST)
    return (max(before), end) if before else None


def parse(text: str, objects: tuple[str, ...], glibc: bool) -> Share:
    """`perf script` output, one sample after another: a head line, then frames `address symbol+offset (object)`, innermost first."""
    total = mine = kernel_memory = kernel = 0
    top: Counter = Counter()
    limits = malloc_range(objects[0]) if glibc else None
    by_symbol = False
    places: list[tuple[int, int, int]] = []  # where the C library is mapped: from, to, minus what gives the address in the file
    frames: list[tuple[str, str, int]] = []

    def inside(ip: int) -> bool:
        """Some versions of perf print the address within the object, some the one in memory."""
        return limits is not None and (limits[0] <= ip < limits[1] or any(a <= ip < b and limits[0] <= ip - c < limits[1] for a, b, c in places))

    def close():
        nonlocal total, mine, kernel_memory, kernel, by_symbol
        if not frames:
            return
        total += 1
        symbol, where, ip = frames[0]
        if where.startswith("[kernel") or where == "[guest.kernel.kallsyms]" or where.endswith(".ko"):
            kernel += 1
            if any(KERNEL_MEMORY.match(s) for s, w, _ in frames if not w.startswith("/")):
                kernel_memory += 1
                top["kernel, for memory"] += 1
            return
        if os.path.realpath(where) not in objects:
            return
        if glibc:
            named = symbol != "[unknown]" and GLIBC_MALLOC.match(symbol) is not None
            by_symbol = by_symbol or (named and symbol.startswith("_int_"))
            if not (named or inside(ip)):
                return
        mine += 1
        top[symbol if symbol != "[unknown]" else os.path.basename(where)] += 1

    for line in text.splitlines():
        m = re.match(r"\s+([0-9a-f]+) (.+?) \((.*)\)$", line)
        mapped = None if m or "MMAP" not in line else re.search(r"\[0x([0-9a-f]+)\(0x([0-9a-f]+)\) @ (?:0x)?([0-9a-f]+) .*: \S*x\S* (/.*)$", line)
        if m:
            frames.append((m[2].rpartition("+0x")[0] or m[2], m[3], int(m[1], 16)))
        elif mapped and os.path.realpath(mapped[4]) == objects[0]:
            start = int(mapped[1], 16)
            places.append((start, start + int(mapped[2], 16), start - int(mapped[3], 16)))
        elif not line.strip():
            close()
            frames = []
    close()
    how = "code of " + ", ".join(map(os.path.basename, objects))
    if glibc:
        how = "glibc's debug symbols" if by_symbol else "address range of glibc's malloc"
    return Share(total, mine, kernel_memory, kernel, how, top.most_common(8))


def record(target: measure.Target, allocator: Allocator, objects: tuple[str, ...], seconds: float = 20.0, runs: int = 8) -> Share | str:
    """Samples whole runs until there are 2000 samples, or the time or number of runs is used up; a sentence where it can't be done."""
    if not perf.works():
        return "perf can't be used here: install linux-perf, and allow it with  sysctl kernel.perf_event_paranoid=2"
    event = perf.ALL if perf.allowed(perf.ALL) else perf.USER
    glibc = objects[0] == os.path.realpath(c_library())
    shares, spent = [], 0.0
    while len(shares) < runs and spent < seconds and sum(s.samples for s in shares) < 2000:
        with tempfile.TemporaryDirectory(prefix="mare-lab-") as folder:
            data = f"{folder}/p"
            outcome = measure.once(target, allocator, wrap=perf.record(event, data, "-F", str(FREQUENCY), "-g"))
            spent += outcome.wall_s
            problem = outcome.problem(target.good)
            if problem:
                return f"the program failed under perf: {problem}"
            shares.append(parse(perf.script(data, "tid,ip,sym,symoff,dso", "--show-mmap-events"), objects, glibc))
    return add(shares, event == perf.ALL) if any(s.samples for s in shares) else "the program is too short to be sampled"


def add(shares: list[Share], with_kernel: bool) -> Share:
    top: Counter = Counter()
    for s in shares:
        top.update(dict(s.top))
    return Share(sum(s.samples for s in shares), sum(s.allocator for s in shares), sum(s.kernel_memory for s in shares) if with_kernel else None,
                 sum(s.kernel for s in shares) if with_kernel else None, max(shares, key=lambda s: s.samples).by, top.most_common(8))
