"""`mare lab study`: runs a design over allocators, in randomised blocks, one row of CSV per run.

A block is one pass over all cells and allocators in an order drawn from the seed; the first is warm-up. The seed handed to the program belongs to
block and cell, so all allocators get the same script. Whatever is interrupted goes on where it was by the same command: rows are keyed by
(block, cell, allocator), and study.json holds what must not change in between.
"""

import datetime
import json
import random
import shlex
import tempfile
import time
import zlib
from pathlib import Path

from marelab import allocators, design as designs, env, measure, native, output, progress, proof, workload
from marelab.allocators import Allocator
from marelab.design import Design
from marelab.errors import LabError
from marelab.rows import Rows, read, results

EPILOG = """  mare lab study preset -o DIR          a study of at most 45 minutes on this machine
  mare lab study chapter5 -o DIR        the published study's treatments, cut to what the machine has
  mare lab study my.toml -o DIR         your own; the format is described in docs/lab.md
  mare lab study --rerun 17 -o DIR      the 17th run of DIR once more, to look at

The same command goes on with a study that was interrupted.
"""

VERSION = 1
FLOOR = "bump"  # what it serves is never reused, so the guard may end it where others live: that leaves out nobody else


def add_arguments(parser) -> None:
    parser.add_argument("design", nargs="?", help="a design of lab/designs, or the path of a .toml file")
    parser.add_argument("-o", dest="out", metavar="DIR", help="where the results go (default: study-DESIGN)")
    parser.add_argument("--blocks", type=int, metavar="N", help="replications in addition to the warm-up (default: the design's)")
    parser.add_argument("--minutes", type=float, metavar="M", help="stop after the last whole block within M minutes (default: the design's)")
    parser.add_argument("--seed", type=int, default=1, help="for orders and scripts (default: 1)")
    parser.add_argument("--floor", action="store_true", help="also run an allocator that only counts up: shown as the floor, never ranked")
    parser.add_argument("--plan", action="store_true", help="only say what would be run, and what is cut")
    parser.add_argument("--rerun", type=int, metavar="ROW", help="run the ROWth run of the results in -o again and print it; nothing is recorded")
    parser.add_argument("--json", action="store_true", help="JSON on standard output")
    allocators.add_catalogue_arguments(parser)


# ---- the plan ----

def workload_path(design: Design) -> str:
    if not any("{workload}" in w for w in design.command):
        return ""
    return native.path("workload")


def chosen_allocators(args, design: Design) -> list[Allocator]:
    found = allocators.load(args.catalogue, args.allocator)
    names = args.allocators or (",".join(design.allocators) if design.allocators else None)
    return allocators.select(found, names) + ([workload.floor()] if args.floor else [])


def cell_id(cell: dict) -> str:
    return designs.label(cell)


def script_seed(seed: int, block: int, cell: dict) -> int:
    """The same for every allocator; differs between blocks and cells."""
    return zlib.crc32(f"{seed}/{block}/{cell_id(cell)}".encode()) & 0x7FFFFFFF


def order_of(block: int, seed: int, cells: list[dict], names: list[str]) -> list[tuple[dict, str]]:
    runs = [(c, n) for c in cells for n in sorted(names)]
    random.Random(f"{seed}/{block}").shuffle(runs)
    return runs


def manifest(seed: int, design: Design, used: list[Allocator]) -> dict:
    return {
        "kind": "study", "version": VERSION, "design": design.name, "title": design.title, "digest": design.digest, "seed": seed,
        "command": design.command, "factors": design.factors, "responses": design.responses, "cpus": design.cpus, "timeout": design.timeout,
        "cells": design.cells, "cuts": design.cuts, "machine": env.machine(),
        "allocators": [{"name": a.name, "library": a.library, "also": list(a.also), "env": dict(a.env), "version": allocators.version(a),
                        "sha256": allocators.fingerprint(a.objects[0]), "floor": a.name == FLOOR} for a in used],
    }


FIXED = ("design", "digest", "seed", "factors", "cells")
KEYS = (*FIXED, "title", "command", "responses", "cpus", "timeout", "cuts", "machine", "allocators")  # what study.json must hold


def agree(place: Path, new: dict) -> dict:
    """Writes study.json, or compares with the one that is there: the results of two studies must not mix."""
    path = place / "study.json"
    if not path.exists():
        output.save(path, new)
        return new
    old = load(place)
    for key in FIXED:
        if old.get(key) != new[key]:
            raise LabError(f"{place} holds results of another study ({key} differs): name another folder with -o, or use the same {key} again")
    for field in ("name", "sha256"):
        if [a[field] for a in old["allocators"]] != [a[field] for a in new["allocators"]]:
            raise LabError(f"{place} was begun with other allocators, or other versions of them: name another folder with -o")
    return old


def load(place: Path) -> dict:
    return output.read(Path(place) / "study.json", "study", VERSION, KEYS, "give the folder that `mare lab study` wrote")


# ---- one run ----

def target_of(design: Design, cell: dict, seed: int, workload: str) -> measure.Target:
    return measure.Target(tuple(designs.words(design, cell, seed, workload)), timeout=design.timeout, cpus=designs.cpu_list(design, cell),
                          spare_kib=env.spare_kib())


def printed(path: Path) -> dict:
    """The last line of the program's output, if it is a JSON object: its plain members, as out_NAME, and those of objects in it, as out_NAME_NAME."""
    try:
        lines = [line for line in path.read_text(errors="replace").splitlines() if line.strip()]
        data = json.loads(lines[-1]) if lines else {}
    except (OSError, json.JSONDecodeError):
        return {}
    return plain("out", data) if isinstance(data, dict) else {}


def plain(name: str, data: dict) -> dict:
    found = {}
    for k, v in data.items():
        if isinstance(v, dict):
            found |= plain(f"{name}_{k}", v)
        elif isinstance(v, (int, float, str)) and not isinstance(v, bool):
            found[f"{name}_{k}"] = v
    return found


def run_once(design: Design, cell: dict, allocator: Allocator, seed: int, workload: str) -> tuple[dict, str | None, list[str]]:
    """The figures of one run, its problem, and its command."""
    goal = target_of(design, cell, seed, workload)
    with tempfile.TemporaryDirectory(prefix="mare-lab-") as folder:
        output = Path(folder) / "stdout"
        o = measure.once(goal, allocator, stdout=str(output))
        own = printed(output)
    problem = o.problem()
    wanted = [c for c in design.responses.values() if c.startswith("out_")]
    lost = [c for c in wanted if c not in own]
    if not problem and lost:
        problem = f"its last line of output is no JSON object with '{lost[0][4:]}'"
    if problem:
        problem += o.last_words()
    figures = {**o.columns(), "killed": o.killed or ""}
    figures.update({c: own.get(c, "") for c in dict.fromkeys(wanted)})
    figures["output"] = json.dumps({k[4:]: v for k, v in own.items()})
    return figures, problem, list(goal.argv)


# ---- all runs ----

def prove_all(design: Design, used: list[Allocator], workload: str) -> None:
    """Once, in the first cell: no study of an allocator that does not serve."""
    cell = design.cells[0]
    for a in used:
        progress.note(f"proving that {a.name} serves {design.name}")
        p = proof.prove(a, target_of(design, cell, script_seed(1, 0, cell), workload))
        if p.problem:
            others = ",".join(b.name for b in used if b is not a)
            command = shlex.join(target_of(design, cell, 1, workload).argv)
            raise LabError(f"the program of this design fails under {a.name}: {p.problem}\nIts command is  {command}\n"
                           + (f"If that is right, and others serve it, leave {a.name} out with --allocators {others}" if others else ""), code=1)
        if not p.serves:
            raise LabError(f"{a.name} does not serve the program of this design: {'; '.join(p.lines()[:3])}. "
                           f"Leave it out with --allocators {','.join(b.name for b in used if b is not a)}", code=1)


class Runner:
    def __init__(self, design: Design, used: list[Allocator], rows: Rows, seed: int):
        self.design, self.rows, self.seed = design, rows, seed
        self.used = {a.name: a for a in used}
        self.workload = workload_path(design)
        self.done = {(int(r["block"]), r["cell"], r["allocator"]) for r in rows.kept}
        # a cell that the memory guard or the time limit ended once is not tried again: it would end again
        self.skipped = {r["cell"]: r["problem"] for r in rows.kept if r["killed"] in ("memory", "time") and r["allocator"] != FLOOR}
        self.sunk = {r["cell"] for r in rows.kept if r["killed"] and r["allocator"] == FLOOR}

    def block(self, block: int, bar, until: float) -> bool:
        """What is left of the block; no when the time ends before it does."""
        for place, (cell, name) in enumerate(order_of(block, self.seed, self.design.cells, list(self.used)), 1):
            key = (block, cell_id(cell), name)
            if key in self.done:
                continue
            if time.monotonic() > until:
                return False
            if key[1] not in self.skipped and not (name == FLOOR and key[1] in self.sunk):
                bar.set_postfix_str(f"{name} {key[1]}")
                self.one(block, place, cell, name)
            bar.update(1)
        return True

    def one(self, block: int, place: int, cell: dict, name: str) -> None:
        seed = script_seed(self.seed, block, cell)
        figures, problem, argv = run_once(self.design, cell, self.used[name], seed, self.workload)
        if figures["killed"] == "signal":
            raise KeyboardInterrupt
        self.rows.add({"row": len(self.rows.kept) + 1, "block": block, "order": place, "warm_up": int(block == 0), "cell": cell_id(cell), **cell,
                       "script_seed": seed, "problem": problem or "", **figures, "command": shlex.join(argv),
                       "when": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds"),
                       **env.row(self.used[name], designs.cpu_list(self.design, cell))})
        if figures["killed"] and name == FLOOR:
            self.sunk.add(cell_id(cell))
        elif figures["killed"] in ("memory", "time"):
            self.skipped[cell_id(cell)] = problem
            progress.note(f"cell {cell_id(cell)} is left out from here on: under {name} {problem}")

    def all(self, blocks: int, minutes: float | None) -> int:
        """Whole blocks until the number or the time is reached; how many were made."""
        start, size = time.monotonic(), len(self.design.cells) * len(self.used)
        until = start + minutes * 60 if minutes else float("inf")
        with progress.bar(size * (blocks + 1), "study") as bar:
            for block in range(blocks + 1):
                began = time.monotonic()
                if not self.block(block, bar, until):
                    return max(block - 1, 0)
                last = time.monotonic() - began
                if time.monotonic() + last > until:
                    return block
        return blocks


def run(args) -> int:
    if args.rerun is not None:
        return rerun(args)
    if not args.design:
        raise LabError(f"name a design; there are {', '.join(designs.available())}")
    native.path("measure")
    design = designs.fit_to_machine(designs.read(args.design))
    used = chosen_allocators(args, design)
    blocks = args.blocks or design.blocks
    if blocks < 1:
        raise LabError("--blocks: at least one")
    if args.plan:
        print(output.text(plan_of(design, used, blocks)) if args.json else plan_text(design, used, blocks))
        return 0
    summary, problems = conduct(design, used, Path(args.out or f"study-{design.name}"), args.seed, blocks, args.minutes or design.minutes)
    print(output.text(summary) if args.json else summary_text(summary, problems))
    return 0 if summary["blocks"] else 1


def conduct(design: Design, used: list[Allocator], place: Path, seed: int, blocks: int, minutes: float | None) -> tuple[dict, list[dict]]:
    """Runs what is not there yet, into `place`; a summary, and the rows with problems."""
    with results(place, "study.json") as rows:
        agree(place, manifest(seed, design, used))
        for cut in design.cuts:
            progress.note(cut)
        if rows.columns is None:
            prove_all(design, used, workload_path(design))
        runner = Runner(design, used, rows, seed)
        made = runner.all(blocks, minutes)
        problems = [r for r in rows.kept if r["problem"]]
    summary = {"folder": str(place), "rows": len(rows.kept), "blocks": made, "problems": len(problems),
               "skipped": runner.skipped, "cuts": design.cuts}
    return summary, problems


def plan_of(design: Design, used: list[Allocator], blocks: int) -> dict:
    return {"design": design.name, "factors": design.factors, "cells": len(design.cells), "allocators": [a.name for a in used], "blocks": blocks,
            "runs": len(design.cells) * len(used) * (blocks + 1), "cuts": design.cuts}


def plan_text(design: Design, used: list[Allocator], blocks: int) -> str:
    p = plan_of(design, used, blocks)
    lines = [f"{design.name}: {design.title}"] + [f"  {f}: {', '.join(map(str, v))}" for f, v in design.factors.items()]
    lines += [f"  cut: {c}" for c in design.cuts]
    lines.append(f"{p['cells']} cells x {len(used)} allocators ({', '.join(p['allocators'])}) x {blocks} blocks and a warm-up = {p['runs']} runs")
    return "\n".join(lines)


def summary_text(s: dict, problems: list[dict]) -> str:
    lines = [f"{s['rows']} runs in {s['folder']}/runs.csv, {s['blocks']} whole blocks beside the warm-up"]
    if not s["blocks"]:
        return "\n".join(lines + ["no block is whole yet: the time was too short for one; the same command, with more minutes, goes on"])
    lines += [f"left out: {cell}: {why}" for cell, why in s["skipped"].items()]
    lines += [f"row {r['row']}: {r['allocator']} {r['cell']}: {r['problem']}" for r in problems[:5]]
    if len(problems) > 5:
        lines.append(f"… and {len(problems) - 5} more problems")
    lines.append(f"next:  mare lab analyse {s['folder']}   mare lab rank {s['folder']}   mare lab report {s['folder']}")
    return "\n".join(lines)


def rerun(args) -> int:
    """One run of a study once more, as it was: same command, allocator, seed and CPUs."""
    if not args.out:
        raise LabError("--rerun needs the folder of the study: -o DIR")
    place = Path(args.out)
    study = load(place)
    kept = read(place / "runs.csv")[1]
    row = next((r for r in kept if int(r["row"]) == args.rerun), None)
    if row is None:
        raise LabError(f"{place} has no row {args.rerun}; its rows are 1 to {len(kept)}")
    allocator = same_allocator(study, row)
    design = Design(study["design"], study["title"], shlex.split(row["command"]), {}, study["responses"], timeout=study["timeout"])
    cell = {f: row[f] for f in study["factors"]}
    if study["cpus"]:
        design.cpus = study["cpus"]
    figures, problem, argv = run_once(design, cell, allocator, int(row["script_seed"]), "")
    surroundings = env.row(allocator, designs.cpu_list(design, cell))
    changed = {k: {"then": row[k], "now": surroundings[k]} for k in SURROUNDINGS if k in row and row[k] != surroundings[k]}
    now = {"row": args.rerun, "allocator": allocator.name, "command": argv, "problem": problem, "then": {k: row[k] for k in figures}, "now": figures,
           "changed": changed}
    print(output.text(now) if args.json else rerun_text(now))
    return 1 if problem else 0


SURROUNDINGS = ("sha256", "libc", "kernel", "cpu", "affinity", "thp", "variables")


def same_allocator(study: dict, row: dict) -> Allocator:
    """The allocator of a row, as it was given then. A library that is gone would be passed over by the loader, and another one be measured."""
    a = next((a for a in study["allocators"] if a["name"] == row["allocator"]), None)
    if a is None:
        raise LabError(f"row {row['row']} names the allocator '{row['allocator']}', which study.json does not: the folder is damaged")
    if a["library"] and not Path(a["library"]).exists():
        raise LabError(f"allocator '{a['name']}': {a['library']} is not here any more")
    return Allocator(a["name"], a["library"], tuple(a["also"]), tuple(sorted(a["env"].items())))


def rerun_text(now: dict) -> str:
    lines = [f"row {now['row']}: {now['allocator']}: {shlex.join(now['command'])}"]
    lines += [f"  {k:<14} then {now['then'][k]:<16} now {v}" for k, v in now["now"].items()]
    lines += [f"  changed since then: {k}: {v['then'] or 'none'}, now {v['now'] or 'none'}" for k, v in now["changed"].items()]
    return "\n".join(lines + ([f"  {now['problem']}"] if now["problem"] else []))
