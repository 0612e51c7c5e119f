"""`mare lab choose`: the program itself under every allocator, in randomised blocks; then the recommendation.

What is fixed before the first run: the response, the margin, the seed of the order, the number of blocks that are always made, and the rule by
which more are made: until the widest simultaneous interval is within half the margin (then a difference of twice the margin is found all but
surely), the time is used up, or there are 200. The rule looks at widths only, never at who is ahead. The first block is warm-up and is left out.

What was killed in between goes on by the same command with -o DIR: begun.json holds what must not change, whole blocks count, a torn one does not,
and a new warm-up comes first.
"""

import argparse
import datetime
import itertools
import os
import random
import re
import shlex
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from marelab import allocators, env, measure, output, progress, proof, recommend, share, target
from marelab.allocators import Allocator
from marelab.errors import LabError
from marelab.rows import Rows, check_space

EPILOG = """The program is run some 10 to 200 times under each allocator, so it should end by itself within seconds, do the same work each time,
and write to no place that grows. A service needs a script that starts it, sends it requests and ends it:

  mare lab choose -- ./service --once requests.txt
  mare lab choose --stdin queries.sql -- sqlite3 :memory:
  mare lab choose --response cpu -- sh -c './server & until ./client --ping; do sleep 0.01; done; ./client --requests 1000; kill $!'
  mare lab choose --allocator mine=/opt/lib/libmine.so -- ./program

Files in DIR: report.html (open it), choose.json (all figures), runs.csv (every run with its environment). If it was killed before it came to a
result, the same command with -o DIR goes on.
"""

VERSION = 1
MAX_BLOCKS, LEAST = 200, 4
INTERRUPTED = "it was interrupted"
PATIENCE = 20  # seconds for the first run, until a word is said
ENDS = "choose needs a program that ends by itself, within seconds: a service needs a script around it, see --help"
RESPONSES = {"wall": "wall_s", "cpu": "cpu_s", "peak": "peak_kib"}
FLOORS = {"wall_s": 1e-6, "cpu_s": 1e-4, "peak_kib": 1.0, "minor_faults": 1.0}
UNITS = {"wall": "s", "cpu": "s", "peak": "KiB"}


@dataclass
class Plan:
    target: measure.Target
    response: str
    margin: float
    seed: int
    blocks: int  # always made, beside the warm-up
    budget: float  # seconds for further ones


def add_arguments(parser) -> None:
    parser.add_argument("--quick", action="store_true", help="5 blocks and no more: a first impression")
    parser.add_argument("-o", dest="out", metavar="DIR", help="where the results go (default: mare-lab-PROGRAM-TIME)")
    parser.add_argument("--response", choices=list(RESPONSES), default="wall",
                        help="what decides: wall time, CPU time or peak memory (default: wall)")
    parser.add_argument("--margin", type=float, default=5, metavar="PERCENT", help="differences up to this don't matter (default: 5)")
    parser.add_argument("--blocks", type=int, metavar="N", help="at least N blocks (default: 10)")
    parser.add_argument("--budget", type=float, default=90, metavar="S",
                        help="after these blocks, go on for up to S seconds in all while intervals are wide")
    parser.add_argument("--seed", type=int, help="of the order of runs (default: from the clock; it is written down)")
    parser.add_argument("--stdin", metavar="FILE", help="the program's standard input (default: empty)")
    parser.add_argument("--cpus", metavar="LIST", help="run on these CPUs only, as in 0,2-3")
    parser.add_argument("--timeout", type=float, default=600, metavar="S", help="limit of one run (default: 600 s)")
    parser.add_argument("--exit", default="0", metavar="N,…", help="exit codes that count as success (default: 0)")
    parser.add_argument("--json", action="store_true", help="the result as JSON on standard output")
    parser.add_argument("--no-trace", action="store_true", help="don't explain by a trace; only measure")
    allocators.add_catalogue_arguments(parser)
    parser.add_argument("program", nargs="*", help="after `--`: the program and its arguments")


# ---- preparation ----

def spare_kib() -> int:
    """The memory guard: a tenth of the machine, but at most 1 GiB, must stay available."""
    return min(env.meminfo("MemTotal") // 10, 1 << 20)


def plan_from(args) -> Plan:
    if not 0 < args.margin < 100:
        raise LabError("--margin is a percentage between 0 and 100, as in 5")
    if args.stdin and not os.path.isfile(args.stdin):
        raise LabError(f"--stdin {args.stdin}: there is no such file")
    if args.cpus and not re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", args.cpus):
        raise LabError(f"--cpus {args.cpus}: write a list like 0,2-3")
    if not re.fullmatch(r"\d+(,\d+)*", args.exit):
        raise LabError(f"--exit {args.exit}: write exit codes like 0,1")
    blocks = args.blocks or (5 if args.quick else 10)
    if blocks < LEAST:
        raise LabError(f"--blocks: at least {LEAST} are needed for an interval")
    target.check(args.program)
    goal = measure.Target(tuple(args.program), stdin=args.stdin, timeout=args.timeout, cpus=args.cpus, spare_kib=spare_kib(),
                          good=tuple(map(int, args.exit.split(","))))
    seed = args.seed if args.seed is not None else int(time.time()) % 1_000_000
    return Plan(goal, args.response, args.margin / 100, seed, blocks, 0.0 if args.quick else args.budget)


def folder(args) -> Path:
    stem = re.sub(r"[^A-Za-z0-9._-]", "", os.path.basename(args.program[0])) or "program"
    path = Path(args.out or f"mare-lab-{stem}-{datetime.datetime.now():%Y%m%d-%H%M%S}")
    if (path / "choose.json").exists() or ((path / "runs.csv").exists() and not (path / "begun.json").exists()):
        raise LabError(f"{path} already holds results; name another folder with -o")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise LabError(f"{path}: {e.strerror}") from e
    check_space(path)
    return path


def begin(place: Path, plan: Plan, usable: list[Allocator], seed: int | None) -> None:
    """Writes begun.json, or compares with the one that is there: what was measured for another question must not mix with this. A seed that
    wasn't given is the one of then."""
    path, goal = place / "begun.json", plan.target
    now = {"program": list(goal.argv), "stdin": goal.stdin, "cpus": goal.cpus, "exit": list(goal.good), "response": plan.response,
           "margin": plan.margin, "allocators": {a.name: allocators.fingerprint(a.objects[0]) for a in usable}}
    now |= {} if seed is None else {"seed": seed}
    if not path.exists():
        output.save(path, {"kind": "begun", "version": VERSION, **now, "seed": plan.seed})
        return
    then = output.read(path, "begun", VERSION, [*now, "seed"], "name another folder with -o")
    for key, value in now.items():
        if then[key] != value:
            raise LabError(f"{place} was begun with another {key} ({then[key]}, now {value}): name another folder with -o, or use the same again")
    plan.seed = then["seed"]
    progress.note(f"going on with what was begun in {place}")


def who_serves(goal: measure.Target, found: dict[str, Allocator]) -> tuple[Allocator, proof.Proof]:
    """The allocator the program uses today, as a treatment."""
    word = threading.Timer(PATIENCE, progress.note, [f"{goal.argv[0]} still runs after {PATIENCE:g} s; {ENDS}. Ctrl-C gives up"])
    word.daemon = True
    word.start()
    try:
        seen, path = proof.present(goal)
    finally:
        word.cancel()
    if seen.problem:
        hint = f"{ENDS[0].upper()}{ENDS[1:]}." if "time limit" in seen.problem else "Try it by hand; if its exit code is meant to be so, say --exit."
        raise LabError(f"the program fails before anything is changed: {seen.problem}\n{hint}", code=1)
    if not path:
        raise LabError("the loader reports no use of malloc in this program: it can't be given another allocator. "
                       "It may clear its environment, or bring an allocator of its own under other names (Go, a linked-in allocator)", code=1)
    real = os.path.realpath(path)
    program = os.path.realpath(target.runs(target.find(goal.argv[0])))
    if real == program:
        raise LabError(f"{goal.argv[0]} brings its own malloc, inside the program: preloading can't replace it. "
                       "Link it without, and try again", code=1)
    for a in found.values():
        if not a.missing and a.library and real in a.objects:
            return a, seen
    if real == os.path.realpath(allocators.c_library()):
        return found.get("glibc") or Allocator("glibc"), seen
    name = re.sub(r"^lib|\.so.*$", "", os.path.basename(real))
    return Allocator(name if allocators.NAME.fullmatch(name) and name not in found else "present", path, what="what the program uses today"), seen


def treatments(args, goal: measure.Target):
    """Who takes part: allocators with their proofs, who uses what today, and who was left out and why."""
    found = allocators.load(args.catalogue, args.allocator)
    wanted = allocators.select(found, args.allocators)
    progress.note("finding out what the program uses today")
    present, seen = who_serves(goal, found)
    if present.library:  # whoever replaces it must come first, even the C library
        wanted = [a if a.library else replace(a, drop=present.objects) for a in wanted]
    if present.name not in [a.name for a in wanted]:
        wanted.insert(0, present)
    out = {a.name: a.missing for a in found.values() if a.missing and not args.allocators}
    proofs, usable = {}, []
    for a in wanted:
        progress.note(f"proving that {a.name} serves it")
        p = proof.prove(a, goal)
        proofs[a.name] = p
        if p.serves:
            usable.append(a)
        else:
            out[a.name] = p.problem or (p.lines()[1] if p.wrong else "it does not serve the program's malloc")
    if len(usable) < 2:
        raise LabError("fewer than two allocators serve this program: " + "; ".join(f"{n}: {w}" for n, w in out.items()), code=1)
    return usable, present, proofs, out


# ---- measuring ----

def order_of(block: int, seed: int, names: list[str]) -> list[str]:
    """The same for the same seed, whatever was measured before."""
    shuffled = sorted(names)
    random.Random(f"{seed}/{block}").shuffle(shuffled)
    return shuffled


def one_block(block: int, plan: Plan, usable: dict[str, Allocator], rows: Rows, out: dict[str, str], bar) -> None:
    for place, name in enumerate(order_of(block, plan.seed, list(usable)), 1):
        if name not in usable:
            continue
        bar.set_postfix_str(name)
        o = measure.once(plan.target, usable[name])
        problem = o.problem(plan.target.good)
        rows.add({"block": block, "order": place, "warm_up": int(block == 0), "seed": plan.seed, "problem": problem or "",
                  "wall_s": f"{o.wall_s:.6f}", "user_s": f"{o.user_s:.6f}", "sys_s": f"{o.sys_s:.6f}", "cpu_s": f"{o.cpu_s:.6f}",
                  "peak_kib": o.peak_kib, "minor_faults": o.minor_faults, "major_faults": o.major_faults, "switches": o.switches,
                  "preempted": o.preempted, "exit": o.exit, "signal": o.signal, "left_behind": o.left_behind, "steal_ticks": o.steal_ticks,
                  "when": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds"), **env.row(usable[name], plan.target.cpus)})
        bar.update(1)
        if problem:
            if problem == INTERRUPTED:
                raise KeyboardInterrupt
            out[name] = f"in block {block} {problem}" + (f"; it said: {o.stderr.strip().splitlines()[-1][:200]}" if o.stderr.strip() else "")
            del usable[name]
            if len(usable) < 2:
                raise LabError("fewer than two allocators are left: " + "; ".join(f"{n}: {w}" for n, w in out.items()), code=1)


def table(rows: list[dict[str, str]], names: list[str], column: str) -> np.ndarray:
    """[block, allocator] without the warm-up and without blocks that are not whole."""
    found: dict[int, dict[str, float]] = {}
    for r in rows:
        if int(r["block"]) > 0 and r["allocator"] in names and not r["problem"]:
            found.setdefault(int(r["block"]), {})[r["allocator"]] = max(float(r[column]), FLOORS.get(column, 0.0))
    return np.array([[b[n] for n in names] for _, b in sorted(found.items()) if len(b) == len(names)])


def measure_blocks(plan: Plan, usable: dict[str, Allocator], rows: Rows, out: dict[str, str]) -> str:
    """Makes the blocks, beside those that are there; why it stopped."""
    start, column = time.monotonic(), RESPONSES[plan.response]
    last = max((int(r["block"]) for r in rows.kept), default=0)
    there = len(table(rows.kept, list(usable), column))
    with progress.bar((max(plan.blocks - there, 0) + 1) * len(usable), "measuring") as bar:
        for made, block in enumerate(itertools.chain([0], itertools.count(last + 1)), 1):
            try:
                one_block(block, plan, usable, rows, out, bar)
            except KeyboardInterrupt:
                if len(table(rows.kept, list(usable), column)) < LEAST:
                    progress.note(f"too few blocks for an answer; the same command with  -o {rows.path.parent}  goes on")
                    raise
                return INTERRUPTED
            values = table(rows.kept, list(usable), column)
            if len(values) < plan.blocks:
                continue
            if recommend.standing(plan.response, list(usable), values, plan.margin, resamples=1000).widest() <= plan.margin / 2:
                return f"the widest interval is within ±{plan.margin * 50:.1f} %"
            if len(values) >= MAX_BLOCKS:
                return f"{MAX_BLOCKS} blocks were made"
            spent = time.monotonic() - start
            if spent + spent / made > max(plan.budget, 0.0):
                return "the time for it was used up" if plan.budget else "--quick: no further blocks"
            bar.total += len(usable)
            bar.refresh()
    raise AssertionError


# ---- the result ----

def assess(names: list[str], rows: list[dict[str, str]], response: str, margin: float, present: str | None, resamples: int = 4000) -> dict:
    """Everything that follows from the rows: standings of all responses, the front, the verdict."""
    standings = {}
    for key, column in [*RESPONSES.items(), ("faults", "minor_faults")]:
        standings[key] = recommend.standing(key, names, table(rows, names, column), margin, resamples=resamples)
    main, memory = standings[response], standings["peak" if response != "peak" else "wall"]
    v = recommend.verdict(main, memory, present if present in names else None, margin)
    return {
        "verdict": {
            "sentence": v.sentence,
            "keep": v.keep,
            "choice": v.choice,
            "present": present,
            "reasons": v.reasons,
            "alternatives": v.alternatives,
        },
        "front": recommend.front(standings["wall" if response == "peak" else response], standings["peak"], margin),
        "standings": {
            k: {
                "best": s.best,
                "blocks": s.blocks,
                "widest": s.widest(),
                "recommended": s.recommended,
                "allocators": [s.row(n) for n in sorted(names, key=lambda n: s.mean[s.names.index(n)])],
            }
            for k, s in standings.items()
        },
    }


def gain(result: dict, shared: dict | None) -> list[str]:
    """The most any allocator can gain, and what one does."""
    if not isinstance(shared, dict):
        return []
    text = f"{shared['allocator'] * 100:.1f} % of its CPU time is spent inside allocator calls"
    if shared["kernel_memory"] is None:
        return [text + " (time in the kernel could not be sampled)"]
    return [f"{text}, {shared['kernel_memory'] * 100:.1f} % in the kernel on behalf of memory: an allocator that cost nothing would save at most "
            f"{shared['most'] * 100:.0f} % of it, beyond what better placement of blocks saves in the program's own code"]


# what a result depends on, as the command line says it; the seed is added always, so that the order is the same
ASKED = ("response", "margin", "blocks", "budget", "stdin", "cpus", "timeout", "exit", "allocators", "allocator", "catalogue")


def command_line(args, seed: int) -> str:
    """The command that does all of it again."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    words = ["--quick"] if args.quick else []
    for name in ASKED:
        value = getattr(args, name)
        if value != parser.get_default(name):
            words += [w for v in (value if isinstance(value, list) else [value]) for w in (f"--{name}", str(v))]
    words += ["--no-trace"] if args.no_trace else []
    return shlex.join(["mare", "lab", "choose", *words, "--seed", str(seed), "--", *args.program])


def explain(args, plan: Plan, used: list[Allocator], place: Path, result: dict) -> dict | None:
    """What the program allocates, from a trace: explains the result, never changes it."""
    from marelab import explain as module

    try:
        return module.explain(plan.target, used, place, result, quick=args.quick)
    except KeyboardInterrupt:  # who asks for the end wants the result, not nothing
        return {"problem": "Not explained: it was interrupted"}
    except Exception as error:  # a fault of ours must not cost the user what was measured
        progress.note(f"the explanation failed, which is a fault of the laboratory ({type(error).__name__}: {error}); the measurement is not touched")
        return {"problem": f"Not explained, by a fault of the laboratory: {type(error).__name__}: {error}"}


def mood(rows: list[dict[str, str]], response: str = "wall") -> list[str]:
    """A word when the machine was busy with something else, as figures then say little about anything but ratios; and when the program mostly
    waits, as run time then says little about allocators."""
    counted = [r for r in rows if int(r["block"]) > 0]
    wall, cpu = (sum(float(r[c]) for r in counted) for c in ("wall_s", "cpu_s"))
    load, cpus = float(np.median([float(r["load"]) for r in counted])), len(counted[0]["affinity"].split(","))
    pushed = float(np.median([float(r["preempted"]) / max(float(r["wall_s"]), 1e-3) for r in counted]))
    if load > 0.75 * cpus + 1 and pushed > 20:
        return [f"the machine was busy with other work (load average {load:.1f} on {cpus} CPUs; "
                f"{cpu / wall * 100:.0f} % of the run time was CPU time): "
                "measure again when it is quiet" + ("" if response == "cpu" else ", or let --response cpu decide")]
    if response == "wall" and cpu / wall < 0.5:
        return [f"the program waits for {(1 - cpu / wall) * 100:.0f} % of its run time, where allocators make no difference: "
                "let --response cpu decide, or leave out of it what only sleeps"]
    return []


def run(args) -> int:
    plan = plan_from(args)
    measure.measure_program()
    place = folder(args)
    usable, present, proofs, out = treatments(args, plan.target)
    begin(place, plan, usable, args.seed)
    progress.note("sampling where its time goes")
    sampled = share.record(plan.target, allocators.AS_IS, present.objects, seconds=3 if args.quick else 10)
    shared = sampled if isinstance(sampled, str) else sampled.as_dict()
    left = {a.name: a for a in usable}
    with Rows(place / "runs.csv") as rows:
        stopped = measure_blocks(plan, left, rows, out)
        kept = rows.kept
    names = list(left)
    result = {
        "kind": "choose", "version": VERSION, "command": command_line(args, plan.seed), "program": list(args.program), "response": plan.response,
        "margin": plan.margin, "seed": plan.seed, "stopped": stopped, "machine": env.machine(), "share": shared, "out": out,
        "present": present.name,
        "allocators": [{"name": a.name, "library": a.library, "version": allocators.version(a), "sha256": allocators.fingerprint(a.objects[0]),
                        "proof": proofs[a.name].as_dict(), "seen": proofs[a.name].lines()} for a in left.values()],
        **assess(names, kept, plan.response, plan.margin, present.name),
    }
    result["verdict"]["reasons"] += mood(kept, plan.response)
    result["gain"] = gain(result, shared if isinstance(shared, dict) else None)
    output.save(place / "choose.json", result)  # before anything else can go wrong
    if not args.no_trace and stopped != INTERRUPTED:
        result["explanation"] = explain(args, plan, list(left.values()), place, result)
        output.save(place / "choose.json", result)
    write_report(place)
    print(output.text(result) if args.json else text(result, place))
    return 0


def write_report(place: Path) -> None:
    from marelab import report

    report.write(place, place / "report.html")


def text(result: dict, place: Path) -> str:
    v, lines = result["verdict"], []
    main = result["standings"][result["response"]]
    lines.append(v["sentence"])
    lines += [f"  {r}" for r in v["reasons"] + result["gain"]]
    lines.append("")
    lines.append(f"{'allocator':<16} {'wall s':>9} {'CPU s':>9} {'peak MiB':>9} {'faults':>9}   "
                 f"{result['response']}, times the best ({result['margin'] * 100:.0f} % margin)")
    by = {k: {r["name"]: r for r in s["allocators"]} for k, s in result["standings"].items()}
    for r in main["allocators"]:
        n = r["name"]
        mark = "recommended" if r["recommended"] else ""
        mark += (", " if mark else "") + "used today" if n == result["present"] else ""
        lines.append(f"{n:<16} {by['wall'][n]['mean']:>9.3f} {by['cpu'][n]['mean']:>9.3f} "
                     f"{by['peak'][n]['mean'] / 1024:>9.1f} {by['faults'][n]['mean']:>9.0f}   "
                     f"{r['ratio']:.3f} [{r['low']:.3f}, {r['high']:.3f}]  {mark}")
    lines += [f"left out: {n}: {w}" for n, w in result["out"].items()]
    for a in result["allocators"]:
        lines += [f"in part: {a['name']}: {line}" for line in a["seen"] if line.startswith("ran without")]
    if isinstance(result["share"], str):
        lines.append(f"share of allocator calls not measured: {result['share']}")
    lines.append(f"{main['blocks']} blocks after a warm-up; stopped because {result['stopped']}. Report: {place / 'report.html'}")
    return "\n".join(lines)
