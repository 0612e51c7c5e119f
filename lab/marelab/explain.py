"""Why an allocator comes out as it does: what the program allocates, from one trace of it. Explains the result of choose, never changes it.

Steps, each left out with a word when it can't be done or would take too long: DIR/trace and DIR/description.json; a second trace, with stacks, for the places
that allocate (apart, as taking stacks makes the program slower, which would change lifetimes); memory over time under each allocator; a replay of the trace under
the same allocators; DIR/fit.profile, if a synthetic workload resembles the trace; and DIR/study, a small experiment with that workload: twice the
allocations, blocks touched once or filled. Of a service there are the first two: it is traced under its load.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from scipy import stats

from marelab import (allocators, analyse, describe, design, fit, format, leaks, measure, memory, output, pattern, progress, replay, results, service, sites, study, trace,
                     units, workload)
from marelab.allocators import Allocator
from marelab.errors import LabError
from marelab.measure import Target

LIMIT = 512 << 20  # bytes of trace; a quick choice records 64 MiB
SECONDS = 45.0  # for replay, fit and study together
SLOWER = 20  # a traced run may take this many times the longest run, and a minute
SAMPLES = 200_000  # allocations whose stacks are taken, about
WATCHED = 20.0  # seconds for looking at memory over time


def explain(goal: Target, used: list[Allocator], place: Path, result: dict, quick: bool = False) -> dict:
    """Records, describes, and puts into sentences; where that fails, a result with `problem`."""
    progress.note("tracing it once, to explain the result")
    limit, timeout = 64 << 20 if quick else LIMIT, 60 + SLOWER * max(wall_times(result).values(), default=1.0)
    try:
        recorded = record(goal, place / "trace", limit, timeout)
        description = describe.describe(recorded, partial=True)
    except LabError as error:
        return {"problem": f"No trace: {error}"}
    except subprocess.TimeoutExpired:
        return {"problem": "No trace: the traced program did not end in time"}
    output.save(place / "description.json", description, None)
    e = {"description": description, "sentences": sentences(description), "problem": None, "replay": None, "fit": None, "study": None}
    e["sites"] = allocating(goal, description, place / "sites", limit, timeout)
    e["sentences"] += site_sentences(e["sites"]) + left_sentences(description, e["sites"])
    if is_service(goal):
        return e
    e["memory"] = watched(goal, used, result)
    e["sentences"] += memory_sentences(e["memory"])
    if not quick and description["allocations"]["number"]:
        further(e, recorded, used, place, result)
    return e


def wall_times(result: dict) -> dict[str, float]:
    """Allocator → seconds of a typical run, where the result tells them."""
    return {a["name"]: a["typical"] for a in result["standings"].get("wall", {"allocators": []})["allocators"]}


def is_service(goal: Target) -> bool:
    return isinstance(goal, service.Service)


# ---- places, and memory over time ----

def allocating(goal: Target, description: dict, folder: Path, limit: int, timeout: float) -> dict:
    """Where it allocates, from a trace with stacks, which is not kept."""
    if not description["allocations"]["number"]:
        return {"left_out": "it allocates nothing"}
    progress.note("tracing it with stacks, to find the places that allocate")
    try:
        found = sites.of_trace(record(goal, folder, limit, timeout, stacks=1 + description["allocations"]["number"] // SAMPLES))
        return found or {"left_out": "its trace has no stacks"}
    except LabError as error:
        return {"left_out": str(error)}
    except subprocess.TimeoutExpired:
        return {"left_out": "traced with stacks it did not end in time"}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def watched(goal: Target, used: list[Allocator], result: dict) -> dict:
    progress.note("looking at its memory over time under each allocator")
    found, missing = memory.over_time(goal, used, WATCHED, wall_times(result))
    return {"by": found, "missing": missing}


def memory_sentences(found: dict) -> list[str]:
    without: dict[str, list[str]] = {}
    for name, why in found["missing"].items():
        without.setdefault(why, []).append(name)
    return [f"No picture of memory over the run under {', '.join(names)}: {why}." for why, names in without.items()]


def site_sentences(found: dict) -> list[str]:
    if "left_out" in found:
        return [f"No picture of the places that allocate: {found['left_out']}."]
    out, rows = [], sites.table(found)
    for k, what in ((0, "Most allocations are made by"), (2, "Most of the memory in use at its peak was allocated by")):
        first = sorted((r for r in rows if r["shares"][k] > 0.02), key=lambda r: -r["shares"][k])[:3]
        if first:
            out.append(what + " " + "; ".join(f"{sites.spoken(r)}: {units.share(r['shares'][k])}" for r in first) + ".")
    return out


def left_sentences(description: dict, found: dict) -> list[str]:
    return leaks.sentences(description, None if "left_out" in found else found) if description["allocations"]["number"] else []


def further(e: dict, recorded, used: list[Allocator], place: Path, result: dict) -> None:
    """Replay, fit and study, as far as they are possible and the time lasts."""
    until = time.monotonic() + SECONDS
    for name, step in (("replay", replayed), ("fit", fitted), ("study", studied)):
        try:
            e[name] = step(e, recorded, used, place, result, until)
        except LabError as error:
            e[name] = {"left_out": str(error)}
        if e[name]["left_out"]:
            e["sentences"].append(f"No {name}: {e[name]['left_out']}.")
            if name != "replay":
                return  # the study needs the fit


def rounds_that_fit(seconds: float, options: list[str], used: list[Allocator], part: float) -> int:
    """How many rounds of all allocators, beside the warm-up, this part of the time allows; at most 5."""
    start = time.monotonic()
    workload.response(options, os.environ | used[0].environment(os.environ))
    one = time.monotonic() - start
    return min(5, int(seconds * part / (one * len(used))) - 1)


# ---- replay ----

def replayed(e: dict, recorded, used: list[Allocator], place: Path, result: dict, until: float) -> dict:
    progress.note("replaying the trace")
    with tempfile.TemporaryDirectory(prefix="mare-lab-") as folder:
        made, script = replay.make_script(recorded.image(None), Path(folder), partial=True)
        options = ["--replay", str(script), "--touch", "pages"]
        n = rounds_that_fit(until - time.monotonic(), options, used, 0.3)
        if n < 1:
            return {"left_out": f"it would take too long; by hand, with --keep-trace:  mare lab replay {place / 'trace'}"}
        runs = replay.rounds(options, used, n)
    times, peaks = replay.medians(runs, "seconds"), replay.medians(runs, "peak_bytes")
    out = {"left_out": None, "runs": n, "script": made, "seconds": times, "peak_bytes": peaks, "wait_seconds": replay.medians(runs, "wait_seconds")}
    own = {a["name"]: a["typical"] for a in result["standings"]["cpu"]["allocators"]}
    names = list(own)
    same = len(set(own.values())) < 2 or len(set(times.values())) < 2  # then there is no order to compare
    agree = float(stats.spearmanr([own[n] for n in names], [times[n] for n in names]).statistic) if len(names) > 2 and not same else None
    best = min(times, key=times.get)
    words = f"Replayed without the program's own work, {best} is fastest, "
    words += f"{max(times, key=times.get)} takes {max(times.values()) / times[best]:.2f} times as long"
    if agree is not None:
        words += f"; the order {'resembles' if agree > 0.5 else 'differs from'} that of the program itself (rank correlation {agree:.2f})"
        words += "" if agree > 0.5 else ": what tells the allocators apart there is not the speed of their calls alone"
    e["sentences"].append(words + ".")
    return out | {"agreement": agree}


# ---- fit ----

def fitted(e: dict, recorded, used: list[Allocator], place: Path, result: dict, until: float) -> dict:
    progress.note("fitting a synthetic workload")
    image = recorded.image(None)
    with tempfile.TemporaryDirectory(prefix="mare-lab-") as folder:
        profile = Path(folder) / "profile"
        before = fit.facts(recorded, None, profile)
        tests = fit.compare(before, fit.synthesise(profile, Path(folder), image.words))
        if all(t["passed"] for t in tests.values()):
            n = rounds_that_fit(until - time.monotonic(), ["--profile", str(profile)], used, 0.2)
            if n < 1:
                return {"left_out": f"it would take too long; by hand, with --keep-trace:  mare lab fit {place / 'trace'}"}
            tests |= fit.ratios(image, profile, Path(folder), used, n, 0.3 * max(until - time.monotonic(), 0.0))
        accepted = all(t["passed"] for t in tests.values())
        if accepted:
            fit.write(profile, place / "fit.profile")
    failed = [n for n, t in tests.items() if not t["passed"]]
    if failed and all(tests[n].get("restless") for n in failed):
        return {"left_out": "a synthetic workload resembles this program, but the machine was too busy to compare the allocators under both",
                "tests": tests}
    if not accepted:
        return {"left_out": f"no synthetic workload resembles this program closely enough (it differs in {', '.join(failed)}); "
                            f"what can be used in its place is the trace itself, with --keep-trace:  mare lab replay {place / 'trace'}", "tests": tests}
    e["sentences"].append("A synthetic workload with the same sizes, lifetimes and threads passes all its tests against the trace.")
    return {"left_out": None, "tests": tests}


# ---- a small study ----

def studied(e: dict, recorded, used: list[Allocator], place: Path, result: dict, until: float) -> dict:
    number = min(e["description"]["allocations"]["number"], 2_000_000)
    profile = place / "fit.profile"
    data = {"title": "The fitted workload: more of it, and blocks touched once or filled", "blocks": 4, "timeout": 60,
            "command": ["{workload}", "--profile", str(profile.resolve()), "--allocations", "{NA}", "--touch", "{touch}", "--seed", "{seed}"],
            "factors": {"NA": [number, 2 * number], "touch": ["first", "all"]},
            "responses": {"time": "out_seconds", "memory": "out_peak_bytes"}}
    options = ["--profile", str(place / "fit.profile"), "--allocations", str(2 * number), "--touch", "all"]
    if rounds_that_fit(until - time.monotonic(), options, used, 0.25) < 4:
        return {"left_out": "it would take too long; by hand: a design whose command is  {workload} --profile " + str(place / "fit.profile")}
    progress.note("a small study of the fitted workload")
    d = design.fit_to_machine(design.check(data, place / "study"))
    study.conduct(d, used, place / "study", 1, 4, None)
    r = results.load(place / "study")
    ratios = {name: analyse.ratios(r, column) for name, column in r.responses.items()}
    first = ratios["time"]["lines"]
    e["sentences"].append(f"In a small study of it {first[0]['allocator']} is fastest, "
                          f"{first[-1]['allocator']} takes {first[-1]['ratio']:.2f} times as long.")
    return {"left_out": None, "ratios": ratios, "design": data}


# ---- the trace ----

def record(goal: Target, folder: Path, limit: int, timeout: float, stacks: int = 0) -> format.Trace:
    """A trace of the target, in a session of its own, so that all of it can be ended when it takes too long."""
    if is_service(goal):
        return record_service(goal, folder, limit, stacks)
    argv = ["taskset", "-c", goal.cpus, *goal.argv] if goal.cpus else list(goal.argv)
    with open(goal.stdin or os.devnull, "rb") as stdin, tempfile.NamedTemporaryFile("w+") as leader:
        try:
            return trace.record(argv, folder, limit=limit, stacks=stacks, stdin=stdin, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=timeout,
                                start_new_session=True, preexec_fn=lambda: Path(leader.name).write_text(str(os.getpid())))
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            with contextlib.suppress(OSError, ValueError):
                os.killpg(int(Path(leader.name).read_text()), signal.SIGKILL)
            raise


def record_service(goal: service.Service, folder: Path, limit: int, stacks: int) -> format.Trace:
    """The service under its load, once, with the tracer in front of it."""
    run = measure.once(goal, allocators.AS_IS, wrap=trace.in_front(folder, limit=limit, stacks=stacks))
    if run.problem():
        raise LabError(f"under the tracer {run.problem()}", code=1)
    return format.load(folder)


def sentences(d: dict) -> list[str]:
    a, live, kept, share = d["allocations"], d["live"], d["retention"], units.share
    if not a["number"]:
        return ["The trace holds no allocation."]
    out = [f"In {units.seconds(d['seconds'])} it asks for memory {units.count(a['number'])} times, {units.size(a['bytes'])} in all, {units.size(a['mean'])} on average. "
           f"It asks for {units.count(a['distinct_sizes'])} different sizes; the ten most frequent make up {share(a['top_ten_share'])}."]
    routines = [f"{n} {share(r['share'])}" for n, r in sorted(a["routines"].items(), key=lambda i: -i[1]["share"]) if r["number"]]
    out.append(f"By function: {', '.join(routines)}.")
    limits = [units.seconds(s) for s in kept["limits_seconds"]]
    out.append(f"{share(kept['short']['share'])} of the blocks are freed within {limits[0]}, {share(kept['medium']['share'])} later but within {limits[1]}, "
               f"{share(kept['long']['share'])} later still or never. "
               f"At most {units.size(live['peak_bytes'])} are in use at a time, in {units.count(live['peak_blocks'])} blocks.")
    out.append(f"Long-lived blocks {pattern.WORDS[d['pattern']['name']]}: {d['pattern']['reason']}.")
    crossed = d["frees"]["by_another_thread_share"]
    if crossed and crossed > 0.005:
        out.append(f"{share(crossed)} of the blocks are freed by another thread than allocated them: there allocators differ most.")
    note = (d.get("memory") or {}).get("note")
    if note:
        out.append(f"{note[0].upper()}{note[1:]}.")
    if d["trace"].get("limit_reached"):
        out.append("The trace ends at its limit on disk, before the program did; what follows from its end is left out.")
    return out
