"""`mare lab choose`: the program itself under every allocator, in randomised blocks; then the verdict.

What is fixed before the first run: the response, the margin, the seed of the order, the number of blocks that are always made, and the rule by
which more are made: until the widest interval is within half the margin (then a difference of twice the margin is found all but surely), the time
is used up, or there are 200. The rule looks at widths only, never at who is ahead. The first block is warm-up and is left out.

The folder is made, and its rows locked, before anything is run; when it comes to no run that counts, what was made is taken away again.

A choice that was killed goes on by the same command with -o DIR: begun.json holds what must not change, whole blocks count, a torn one does not,
and a new warm-up comes first.
"""

import argparse
import datetime
import os
import re
import shlex
import shutil
import threading
import time
from dataclasses import replace
from pathlib import Path

from marelab import (allocators, answer, apply, blocks, env, explain, flaky, knobs, measure, native, output, progress, proof, quick, recommend,
                     report, responses, service, share, target)
from marelab.allocators import Allocator
from marelab.blocks import Plan
from marelab.errors import LabError
from marelab.rows import Rows, results

EPILOG = """The program is run some 10 to 200 times under each allocator, so it should end by itself within seconds, do the same work each time,
and write to no place that grows. A service has options of its own: it is started, put under load when it is ready, and ended.

  mare lab choose -- ./service --once requests.txt
  mare lab choose --stdin queries.sql -- sqlite3 :memory:
  mare lab choose --serve './server --port 8080' --load 'wrk -d2 --latency http://127.0.0.1:8080/'
  mare lab choose --response p99 --serve 'redis-server --port 7000 --save ""' --ready 'redis-cli -p 7000 ping' --load 'redis-benchmark -p 7000 -t set,get'
  mare lab choose --allocator mine=/opt/lib/libmine.so -- ./program

  mare lab choose --apply Dockerfile -- ./program

Exit code: 0 whatever the verdict, unless --codes says otherwise, as in --codes same=3,undecided=4. 1 when something measured failed, 2 for a mistake in
the input.

Files in DIR: report.html (open it), choose.json (all figures), runs.csv (every run with its environment). If it was killed before it came to a
result, the same command with -o DIR goes on.
"""

CODES = {"better": 0, "same": 0, "undecided": 0}
HOLDS = "already holds results; name another folder with -o"
PATIENCE = 20  # seconds for the first run, until a word is said
ENDS = "choose needs a program that ends by itself, within seconds; a service is given by --serve and --load, see --help"


def add_arguments(parser) -> None:
    parser.add_argument("--quick", action="store_true", help=f"only as many blocks as necessary, {recommend.LEAST} or those of --blocks; and a short trace. For a service: two minutes in all")
    parser.add_argument("--blocks", type=int, metavar="N", help=f"at least N blocks (default, and least: {recommend.LEAST})")
    parser.add_argument("--budget", type=float, default=120, metavar="S",
                        help="after these blocks, go on for up to S seconds in all while intervals are wide")
    add_run_arguments(parser)
    parser.add_argument("--no-trace", action="store_true", help="don't explain by a trace; only measure")
    parser.add_argument("--keep-trace", action="store_true", help="leave the trace in DIR/trace; otherwise only its description is kept")


def add_run_arguments(parser) -> None:
    """What is run and how, what decides, and what becomes of the answer; for tune, too."""
    parser.add_argument("-o", dest="out", metavar="DIR", help="where the results go (default: mare-lab-PROGRAM-TIME)")
    parser.add_argument("--response", choices=[k for k in responses.COLUMNS if k != "faults"],
                        help="what decides: wall (run time), cpu or peak (memory); of a service request (time per request), request-cpu, p50, p99, p999, peak or idle "
                             "(memory after the load). Default: wall, request")
    parser.add_argument("--serve", metavar="CMD", help="a service instead of a program: the command that starts it in the foreground")
    parser.add_argument("--ready", metavar="CMD", help="a command that succeeds when the service is ready (default: ready when it listens)")
    parser.add_argument("--load", metavar="CMD", help="the load: wrk, ab, oha, redis-benchmark, memtier_benchmark, pgbench, mysqlslap; others with --read")
    parser.add_argument("--read", action="append", default=[], metavar="KEY=REGEX", help="reads rps, p50, p99 or p999 (in ms) from the load's output")
    parser.add_argument("--stop", metavar="CMD", help="a command that ends the service (default: SIGTERM)")
    parser.add_argument("--idle", type=float, metavar="S", help="seconds to wait after the load, for the memory that stays (default: 1)")
    parser.add_argument("--margin", type=float, default=5, metavar="PERCENT", help="differences up to this don't matter (default: 5)")
    parser.add_argument("--seed", type=int, help="for the order of runs (default: from the clock; it is recorded)")
    parser.add_argument("--stdin", metavar="FILE", help="the program's standard input (default: empty)")
    parser.add_argument("--cpus", metavar="LIST", help="run on these CPUs only, as in 0,2-3")
    parser.add_argument("--timeout", type=float, default=120, metavar="S", help="limit of one run (default: 120 s)")
    parser.add_argument("--exit", default="0", metavar="N,…", help="exit codes that count as success (default: 0)")
    parser.add_argument("--codes", metavar="WORD=N,…", help="exit codes by the verdict: better, same, undecided (default: 0 for each), as in undecided=4")
    parser.add_argument("--json", action="store_true", help="the result as JSON on standard output")
    apply.add_apply_argument(parser)
    allocators.add_catalogue_arguments(parser)
    parser.add_argument("program", nargs="*", help="after `--`: the program and its arguments")


# ---- preparation ----

def plan_from(args) -> Plan:
    number = args.blocks or recommend.LEAST
    if number < recommend.LEAST:
        raise LabError(f"--blocks: at least {recommend.LEAST} are needed for a verdict")
    plan = plan_of(args, number, 0.0 if args.quick else args.budget)
    plan.limit = quick.limit_of(args)
    return plan


def plan_of(args, number: int, budget: float) -> Plan:
    if not 0 < args.margin < 100:
        raise LabError("--margin is a percentage between 0 and 100, as in 5")
    if args.stdin and not os.path.isfile(args.stdin):
        raise LabError(f"--stdin {args.stdin}: there is no such file")
    if args.cpus and not re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", args.cpus):
        raise LabError(f"--cpus {args.cpus}: write a list like 0,2-3")
    if not re.fullmatch(r"\d+(,\d+)*", args.exit):
        raise LabError(f"--exit {args.exit}: write exit codes like 0,1")
    goal = goal_of(args)
    seed = args.seed if args.seed is not None else int(time.time()) % 1_000_000
    return Plan(goal, args.response, args.margin / 100, seed, number, budget)


def goal_of(args) -> measure.Target:
    """The program, or the service, and what decides of it."""
    kind = responses.SERVICE if args.serve else responses.PROGRAM
    args.response = args.response or kind[0]
    if args.response not in kind:
        raise LabError(f"--response {args.response} is not measured of a {'service' if args.serve else 'program'}; there are {', '.join(k for k in kind if k != 'faults')}")
    if not args.serve:
        lost = next((o for o in ("ready", "load", "read", "stop") if getattr(args, o)), None)
        if lost:
            raise LabError(f"--{lost} needs --serve 'COMMAND', a service")
        target.check(args.program)
        return measure.Target(tuple(args.program), stdin=args.stdin, timeout=args.timeout, cpus=args.cpus, spare_kib=env.spare_kib(),
                              good=tuple(map(int, args.exit.split(","))))
    if args.program or args.stdin:
        raise LabError("--serve takes the place of the program behind `--`, and has no --stdin")
    goal = service.target_of(args, env.spare_kib())
    target.check(list(goal.argv))
    args.program = list(goal.argv)
    return goal


def folder(args) -> Path:
    """Where the results go."""
    stem = re.sub(r"[^A-Za-z0-9._-]", "", os.path.basename(args.program[0])) or "program"
    path = Path(args.out or f"mare-lab-{stem}-{datetime.datetime.now():%Y%m%d-%H%M%S}")
    if (path / "choose.json").exists():
        raise LabError(f"{path} {HOLDS}")
    return path


def begin(place: Path, plan: Plan, usable: list[Allocator], seed: int | None) -> None:
    """Writes begun.json, or compares with the one that is there: what was measured for another question must not mix with this. A seed that
    wasn't given is the one of then."""
    path, goal = place / "begun.json", plan.target
    now = {"program": list(goal.argv), "stdin": goal.stdin, "cpus": goal.cpus, "exit": list(goal.good), "response": plan.response,
           "margin": plan.margin, "allocators": {a.name: allocators.fingerprint(a.objects[0]) for a in usable}}
    now |= {} if seed is None else {"seed": seed}
    now |= {"service": service.about(goal)} if service.about(goal) else {}
    if not path.exists():
        output.save(path, {"kind": "begun", "version": answer.VERSION, **now, "seed": plan.seed})
        return
    then = output.read(path, "begun", answer.VERSION, [*now, "seed"], "name another folder with -o")
    for key, value in now.items():
        if then[key] != value:
            raise LabError(f"{place} was begun with another {key} ({then[key]}, now {value}): name another folder with -o, or use the same again")
    plan.seed = then["seed"]
    progress.note(f"going on with what was begun in {place}")


def first_run(goal: measure.Target) -> float:
    """The program as it is, without any change: how long it takes."""
    word = threading.Timer(PATIENCE, progress.note, [f"{goal.argv[0]} still runs after {PATIENCE:g} s; {ENDS}. Ctrl-C gives up"])
    word.daemon = True
    word.start()
    try:
        o = measure.once(goal, allocators.AS_IS)
    finally:
        word.cancel()
    if o.killed == "signal":
        raise KeyboardInterrupt
    problem = o.problem(goal.good)
    if problem:
        hint = f"{ENDS[0].upper()}{ENDS[1:]}; or a wider --timeout." if o.killed == "time" \
            else "Try it by hand." if o.signal or o.killed else "Try it by hand; if its exit code is meant to be so, say --exit."
        raise LabError(f"the program fails before anything is changed: {problem}{o.last_words()}\n{hint}", code=1)
    return o.wall_s


def who_serves(goal: measure.Target, found: dict[str, Allocator], usual: float) -> tuple[Allocator, proof.Proof]:
    """The allocator the program uses today, as a treatment."""
    seen, path = proof.present(goal, usual)
    if seen.problem:
        flaky.check(goal, f"while the loader told what it binds, {seen.problem}")
        raise LabError(f"the program fails while the loader tells what it binds (LD_DEBUG=bindings): {seen.problem}", code=1)
    if seen.mute:
        raise LabError(f"which allocator {seen.mute} uses can't be found out: the loader doesn't report it {proof.UNHEARD}. A service that must not be root can be started with "
                       "unshare --user --map-user=1000 --map-group=1000 CMD; or run the whole mare lab as its user", code=1)
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


def why_not(a: Allocator, p: proof.Proof, present: Allocator, goal: measure.Target) -> str:
    """Why an allocator that was proved doesn't take part."""
    if present.library and any(to in present.objects for _, _, to in p.wrong):
        return f"this program links {present.name} itself, so {a.name} can't be tried"
    if p.problem:
        flaky.check(goal, f"under {a.name} {p.problem}")
        return p.problem
    for (routine, by, to), _ in p.wrong.most_common(1):
        return f"{by} takes {routine} from {to}"
    return "it does not serve the program's malloc"


def treatments(args, goal: measure.Target, least: int = 2):
    """Who takes part: allocators with their proofs, who uses what today, and who was left out and why."""
    found = allocators.load(args.catalogue, args.allocator)
    wanted = allocators.select(found, args.allocators)
    progress.note("running the program as it is, and finding out which allocator it uses")
    usual = first_run(goal)
    present, _ = who_serves(goal, found, usual)
    if present.library:  # whoever replaces it must come first, even the C library
        wanted = [a if a.name == present.name else replace(a, drop=present.objects) for a in wanted]
    if present.name not in [a.name for a in wanted]:
        wanted.insert(0, present)
    out = {a.name: a.missing for a in found.values() if a.missing and not a.recipe and not args.allocators}
    proofs, usable = {}, []
    for a in wanted:
        why = knobs.refused(a)
        if why:
            out[a.name] = why
            continue
        progress.note(f"proving that {a.name} serves it")
        p = proof.prove(a, goal, usual)
        proofs[a.name] = p
        if p.serves:
            usable.append(a)
        else:
            out[a.name] = why_not(a, p, present, goal)
    if len(usable) < least:
        raise LabError("fewer than two allocators serve this program: " + "; ".join(f"{n}: {w}" for n, w in out.items()), code=1)
    return usable, present, proofs, out


# ---- the result ----

# what a result depends on, as the command line says it; the seed is added always, so that the order is the same
ASKED = ("response", "margin", "blocks", "budget", "stdin", "cpus", "timeout", "exit", "allocators", "allocator", "catalogue")


def command_line(args, seed: int) -> str:
    """The command that does all of it again."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    words = ["--quick"] if args.quick else []
    words += service.words(args)
    for name in ASKED:
        value = getattr(args, name)
        if value != parser.get_default(name) and not (name == "response" and value in (responses.PROGRAM[0], responses.SERVICE[0])):
            words += [w for v in (value if isinstance(value, list) else [value]) for w in (f"--{name}", str(v))]
    words += [w for w, asked in (("--no-trace", args.no_trace), ("--keep-trace", args.keep_trace)) if asked]
    return shlex.join(["mare", "lab", "choose", *words, "--seed", str(seed), *([] if args.serve else ["--", *args.program])])


def explained(args, plan: Plan, used: list[Allocator], place: Path, result: dict) -> dict | None:
    """What the program allocates, from a trace: explains the result, never changes it."""
    if plan.limit and not plan.limit.may_trace():
        return {"problem": "Not explained: the two minutes of --quick were used up"}
    try:
        return explain.explain(plan.target, used, place, result, quick=args.quick)
    except KeyboardInterrupt:  # who asks for the end wants the result, not nothing
        return {"problem": "Not explained: it was interrupted"}
    except Exception as error:  # a fault of ours must not cost the user what was measured
        progress.note(f"the explanation failed, which is a fault of the laboratory ({type(error).__name__}: {error}); the measurement is not touched")
        return {"problem": f"Not explained, by a fault of the laboratory: {type(error).__name__}: {error}"}
    finally:
        if not args.keep_trace:  # often hundreds of megabytes; its description stays
            shutil.rmtree(place / "trace", ignore_errors=True)


def measured(args, plan: Plan, place: Path, rows: Rows) -> tuple[dict, list[Allocator]]:
    """The result without its explanation, and the allocators that it is about."""
    usable, present, proofs, out = treatments(args, plan.target)
    if plan.limit:
        usable = quick.finalists(plan.limit, plan.response, usable, present.name, proofs, out, place / "begun.json")
    begin(place, plan, usable, args.seed)
    seconds = 0.1 if plan.limit else 3 if args.quick else 10  # 0.1: a single run
    result, used = judged(plan, usable, present, proofs, out, rows, command_line(args, plan.seed), seconds)
    if plan.limit:
        quick.temper(plan.limit, result, answer.pace(rows.kept, len(used)), service.IDLE - plan.target.idle)
    return result, used


def judged(plan: Plan, usable: list[Allocator], present: Allocator, proofs: dict[str, proof.Proof], out: dict[str, str], rows: Rows, command: str,
           sampling: float) -> tuple[dict, list[Allocator]]:
    """Measures these in whole blocks, and judges. `sampling`: seconds for finding out where the program's time goes."""
    progress.note("sampling where its time goes")
    sampled = share.record(plan.target, allocators.AS_IS, present.objects, seconds=sampling)
    shared = sampled if isinstance(sampled, str) else sampled.as_dict()
    left, plan.present = {a.name: a for a in usable}, present.name
    stopped = blocks.make(plan, left, rows, out)
    result = {
        "kind": "choose", "version": answer.VERSION, "command": command, "program": list(plan.target.argv), "response": plan.response,
        "margin": plan.margin, "seed": plan.seed, "stopped": stopped, "machine": env.machine(), "share": shared, "out": out,
        "present": present.name, "repeated": blocks.repeated(rows.kept), "service": service.about(plan.target),
        "allocators": [{"name": a.name, "library": a.library, "version": allocators.version(a), "sha256": allocators.fingerprint(a.objects[0]),
                        "package": a.package, "built": a.recipe is not None, "is": a.what, "env": a.environment(os.environ), "proof": proofs[a.name].as_dict(), "seen": proofs[a.name].lines()}
                       for a in left.values()],
        **answer.assess(list(left), rows.kept, plan.response, plan.margin, present.name),
    }
    result["verdict"]["reasons"] += answer.mood(rows.kept, plan.response)
    result["gain"] = answer.gain(shared)
    return result, list(left.values())


def run(args) -> int:
    plan, exits = plan_from(args), answer.codes(args.codes, CODES)
    native.path("measure")
    apply.check(args.apply)
    place = folder(args)
    with results(place, "begun.json") as rows:
        if rows.columns is not None and not (place / "begun.json").exists():
            raise LabError(f"{place} {HOLDS}")
        result, used = measured(args, plan, place, rows)
    output.save(place / "choose.json", result)  # before anything else can go wrong
    if not args.no_trace and result["stopped"] != blocks.INTERRUPTED:
        result["explanation"] = explained(args, plan, used, place, result)
        output.save(place / "choose.json", result)
    report.write(place, place / "report.html")
    print(output.text(result) if args.json else answer.text(result, place))
    apply.apply(result, args.apply)
    return exits[result["verdict"]["word"]]
