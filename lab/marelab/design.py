"""Declared experiments: factors, levels, the command that runs one treatment, and what of it this machine can hold.

A design is a TOML file:

    title = "what it is about"
    command = ["{workload}", "--allocations", "{NA}", "--seed", "{seed}"]   # {FACTOR}; of a range 16-64 also {FACTOR_low}, {FACTOR_high};
                                     # {seed}: of block and cell; {workload}: the laboratory's program
    cpus = "NP"                      # optional: this factor is the number of CPUs the program may use
    blocks = 10                      # replications, beside the warm-up
    fraction = 1                     # n: keep the cells whose level numbers add up to a multiple of n
    allocators = ["glibc"]           # optional; else all that are here
    timeout = 120                    # seconds for one run
    minutes = 45                     # optional: stop after the last whole block within this time
    [factors]
    NA = [500000, 1000000]
    TA = ["1-64", "64-512"]
    [responses]                      # what is analysed, smaller is better; columns of runs.csv
    time = "out_seconds"             # out_x: the member x of the JSON line that the program prints; else wall_s, cpu_s, peak_kib, minor_faults
    memory = "out_peak_kib"
    [limits]                         # optional: levels above are cut, with a word; a number or "2*cpus"
    NT = "4*cpus"
    [memory]                         # optional: cells that need more than the machine can spare are left out, with a word
    bytes = ["NA", "TA", 0.2]        # the product of these; of a range "512-2048" its middle
"""

import hashlib
import itertools
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from marelab import env, toml
from marelab.errors import LabError

DESIGNS = Path(__file__).resolve().parents[1] / "designs"
KEYS = {"title", "command", "cpus", "blocks", "fraction", "allocators", "timeout", "minutes", "factors", "responses", "limits", "memory"}
MEASURED = {"wall_s", "user_s", "sys_s", "cpu_s", "peak_kib", "minor_faults", "major_faults"}
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,15}")
RESERVED = {"seed", "workload", "allocator", "block", "order"}


@dataclass
class Design:
    name: str
    title: str
    command: list[str]
    factors: dict[str, list]
    responses: dict[str, str]
    blocks: int = 10
    fraction: int = 1
    cpus: str | None = None
    allocators: list[str] | None = None
    timeout: float = 120
    minutes: float | None = None
    limits: dict = field(default_factory=dict)
    memory: list = field(default_factory=list)
    digest: str = ""
    cuts: list[str] = field(default_factory=list)  # what this machine made us leave out
    cells: list[dict] = field(default_factory=list)


def available() -> list[str]:
    return sorted(p.stem for p in DESIGNS.glob("*.toml"))


def find(name: str) -> Path:
    path = Path(name)
    if path.suffix == ".toml" or "/" in name:
        if not path.is_file():
            raise LabError(f"{name}: there is no such design")
        return path
    if not (DESIGNS / f"{name}.toml").is_file():
        raise LabError(f"no design '{name}'; there are {', '.join(available())}; or give the path of a .toml file")
    return DESIGNS / f"{name}.toml"


def read(name: str) -> Design:
    path = find(name)
    data, raw = toml.read(path)
    design = check(data, path)
    design.digest = hashlib.sha256(raw).hexdigest()[:16]
    return design


def check(data: dict, path: Path) -> Design:
    def bad(text: str) -> LabError:
        return LabError(f"{path}: {text}")

    unknown = set(data) - KEYS
    if unknown:
        raise bad(f"unknown key '{sorted(unknown)[0]}'; there are {', '.join(sorted(KEYS))}")
    factors, command = data.get("factors"), data.get("command")
    if not isinstance(factors, dict) or not factors:
        raise bad("it needs a table [factors] with at least one factor, as in NA = [500000, 1000000]")
    for f, levels in factors.items():
        if not NAME.fullmatch(f) or f in RESERVED:
            raise bad(f"'{f}' can't be the name of a factor")
        if not isinstance(levels, list) or not levels or not all(isinstance(v, (int, float, str)) for v in levels):
            raise bad(f"factor {f} needs a list of levels, numbers or strings")
        if len({str(v) for v in levels}) != len(levels):
            raise bad(f"factor {f} has a level twice")
    if not isinstance(command, list) or not command or not all(isinstance(w, str) for w in command):
        raise bad("it needs command = [\"program\", \"argument\", …]")
    check_words(command, data.get("cpus"), factors, bad)
    responses = data.get("responses", {"time": "wall_s", "memory": "peak_kib"})
    for r, column in responses.items():
        if column not in MEASURED and not re.fullmatch(r"out_\w+", str(column)):
            raise bad(f"response {r}: '{column}' is neither out_NAME, a member of the program's JSON, nor one of {', '.join(sorted(MEASURED))}")
    for f in data.get("limits", {}):
        if f not in factors:
            raise bad(f"[limits] names '{f}', which is no factor; there are {', '.join(factors)}")
    product = data.get("memory", {}).get("bytes", [])
    for word in product:
        if isinstance(word, str) and word not in factors:
            raise bad(f"[memory] names '{word}', which is no factor; there are {', '.join(factors)}")
    blocks, fraction = data.get("blocks", 10), data.get("fraction", 1)
    if not isinstance(blocks, int) or blocks < 1 or not isinstance(fraction, int) or fraction < 1:
        raise bad("blocks and fraction are whole numbers from 1 on")
    return Design(path.stem, str(data.get("title", path.stem)), command, factors, responses, blocks, fraction, data.get("cpus"),
                  data.get("allocators"), float(data.get("timeout", 120)), data.get("minutes"), data.get("limits", {}), product)


def check_words(command: list[str], cpus: str | None, factors: dict, bad) -> None:
    if cpus is not None and cpus not in factors:
        raise bad(f"cpus = \"{cpus}\" is no factor; there are {', '.join(factors)}")
    used = {m for w in command for m in re.findall(r"\{(\w+)\}", w)}
    used = {re.sub(r"_(low|high)$", "", u) if u not in factors else u for u in used}
    unknown = used - set(factors) - {"seed", "workload"}
    if unknown:
        raise bad(f"the command names {{{sorted(unknown)[0]}}}, which is no factor; there are {', '.join(factors)}, and seed, workload")
    idle = set(factors) - used - {cpus}
    if idle:
        raise bad(f"factor {sorted(idle)[0]} changes nothing: neither the command nor cpus uses it")


# ---- what this machine can hold ----

def limit_of(text, cpus: int) -> float:
    m = re.fullmatch(r"(?:(\d+(?:\.\d+)?)\s*\*\s*)?cpus", str(text))
    if m:
        return float(m[1] or 1) * cpus
    try:
        return float(text)
    except ValueError:
        raise LabError(f"[limits]: '{text}' is neither a number nor like \"4*cpus\"") from None


def number(level) -> float:
    """A level as a number; of a range its middle."""
    m = re.fullmatch(r"(\d+)-(\d+)", str(level))
    return (float(m[1]) + float(m[2])) / 2 if m else float(level)


def bytes_needed(design: Design, cell: dict) -> float:
    need = 1.0
    for word in design.memory:
        need *= number(cell[word]) if isinstance(word, str) else float(word)
    return need


def fit_to_machine(design: Design, cpus: int | None = None, spare_mib: float | None = None) -> Design:
    """Cuts levels and cells that the machine can't hold and makes the list of cells; design.cuts says what went."""
    cpus = cpus or len(os.sched_getaffinity(0))
    spare = (spare_mib if spare_mib is not None else 0.6 * env.meminfo("MemAvailable") / 1024) * 2**20
    limits = dict(design.limits)
    if design.cpus:
        limits.setdefault(design.cpus, "cpus")
    factors = {}
    for f, levels in design.factors.items():
        kept = [v for v in levels if f not in limits or number(v) <= limit_of(limits[f], cpus)]
        gone = [str(v) for v in levels if v not in kept]
        if gone:
            design.cuts.append(f"{f}: levels {', '.join(gone)} are cut (limit {limits[f]} with {cpus} CPUs)")
        if not kept:
            raise LabError(f"no level of factor {f} fits this machine ({cpus} CPUs)")
        factors[f] = kept
    design.factors = factors
    cells = []
    for numbers in itertools.product(*(range(len(v)) for v in factors.values())):
        cell = {f: factors[f][i] for f, i in zip(factors, numbers)}
        if sum(numbers) % design.fraction:
            continue
        if design.memory and bytes_needed(design, cell) > spare:
            design.cuts.append(f"cell {label(cell)} is left out: it needs some {bytes_needed(design, cell) / 2**20:.0f} MiB")
            continue
        cells.append(cell)
    if design.fraction > 1:
        design.cuts.append(f"a fraction: every {design.fraction}th cell")
    design.cells = cells
    return design


def label(cell: dict) -> str:
    return " ".join(f"{f}={v}" for f, v in cell.items())


def words(design: Design, cell: dict, seed: int, workload: str) -> list[str]:
    """The command of one treatment."""
    values = {**{f: str(v) for f, v in cell.items()}, "seed": str(seed), "workload": workload}
    for f, v in cell.items():
        m = re.fullmatch(r"(\d+)-(\d+)", str(v))
        values |= {f"{f}_low": m[1], f"{f}_high": m[2]} if m else {}

    def replaced(m: re.Match) -> str:
        if m[1] not in values:
            raise LabError(f"the command of design {design.name} names {{{m[1]}}}, but the level {level_of(cell, m[1])} is no range like 16-64")
        return values[m[1]]

    return [re.sub(r"\{(\w+)\}", replaced, w) for w in design.command]


def level_of(cell: dict, name: str):
    return cell.get(re.sub(r"_(low|high)$", "", name), "of it")


def cpu_list(design: Design, cell: dict) -> str | None:
    if not design.cpus:
        return None
    here = sorted(os.sched_getaffinity(0))
    return ",".join(map(str, here[: int(cell[design.cpus])]))
