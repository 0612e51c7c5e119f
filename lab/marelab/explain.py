"""Why an allocator comes out as it does: what the program allocates, from one trace of it. Explains the result of choose, never changes it.

Four steps, each leaving what the next one reads, each left out with a word when it can't be done or would take too long:
DIR/trace, DIR/description.json; a replay of the trace under the same allocators; DIR/fit.profile, if a synthetic workload resembles the trace; and
DIR/study, a small experiment with that workload: twice the allocations, blocks touched once or filled.
"""

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from scipy import stats

from marelab import analyse, describe, design, fit, output, pattern, progress, replay, results, study, trace, workload
from marelab.allocators import Allocator
from marelab.errors import LabError
from marelab.measure import Target

LIMIT = 512 << 20  # bytes of trace; a quick choice records 64 MiB
SECONDS = 45.0  # for replay, fit and study together
SLOWER = 20  # a traced run may take this many times the longest run, and a minute


def explain(goal: Target, used: list[Allocator], place: Path, result: dict, quick: bool = False) -> dict:
    """Records, describes, and puts into sentences; where that fails, a result with `problem`."""
    progress.note("tracing it once, to explain the result")
    longest = max((a["typical"] for a in result["standings"]["wall"]["allocators"]), default=1.0)
    try:
        recorded = record(goal, place / "trace", 64 << 20 if quick else LIMIT, 60 + SLOWER * longest)
        description = describe.describe(recorded, partial=True)
    except LabError as error:
        return {"problem": f"No trace: {error}"}
    except subprocess.TimeoutExpired:
        return {"problem": "No trace: the traced program did not end in time"}
    output.save(place / "description.json", description, None)
    e = {"description": description, "sentences": sentences(description), "problem": None, "replay": None, "fit": None, "study": None}
    if not quick and description["allocations"]["number"]:
        further(e, recorded, used, place, result)
    return e


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

def record(goal: Target, folder: Path, limit: int, timeout: float):
    """A trace of the target, in a session of its own, so that all of it can be ended when it takes too long."""
    argv = ["taskset", "-c", goal.cpus, *goal.argv] if goal.cpus else list(goal.argv)
    with open(goal.stdin or os.devnull, "rb") as stdin, tempfile.NamedTemporaryFile("w+") as leader:
        try:
            return trace.record(argv, folder, limit=limit, stdin=stdin, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=timeout,
                                start_new_session=True, preexec_fn=lambda: Path(leader.name).write_text(str(os.getpid())))
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            with contextlib.suppress(OSError, ValueError):
                os.killpg(int(Path(leader.name).read_text()), signal.SIGKILL)
            raise


def share(x: float) -> str:
    return f"{x * 100:.1f} %" if x < 0.1 or x > 0.995 and x < 1 else f"{x * 100:.0f} %"


def thousands(n: int) -> str:
    return f"{n:,}".replace(",", " ")


def sentences(d: dict) -> list[str]:
    a, live, kept = d["allocations"], d["live"], d["retention"]
    if not a["number"]:
        return ["The trace holds no allocation."]
    out = [f"{thousands(a['number'])} allocations of {a['mean']:.0f} bytes on average ({a['megabytes']:.1f} MB in all) in {d['seconds']:.2f} s, of "
           f"{thousands(a['distinct_sizes'])} distinct sizes; the ten most frequent make up {share(a['top_ten_share'])}."]
    routines = [f"{n} {share(r['share'])}" for n, r in sorted(a["routines"].items(), key=lambda i: -i[1]["share"]) if r["number"]]
    out.append(f"By routine: {', '.join(routines)}.")
    limits = kept["limits_seconds"]
    out.append(f"{share(kept['short']['share'])} are freed within {limits[0]:g} s, {share(kept['medium']['share'])} later but within {limits[1]:g} s, "
               f"{share(kept['long']['share'])} later still or never. "
               f"At most {live['peak_bytes'] / 2**20:.1f} MiB are in use at a time, in {thousands(live['peak_blocks'])} blocks.")
    out.append(f"Long-lived blocks {pattern.WORDS[d['pattern']['name']]}: {d['pattern']['reason']}.")
    crossed = d["frees"]["by_another_thread_share"]
    if crossed and crossed > 0.005:
        out.append(f"{share(crossed)} of the blocks are freed by another thread than allocated them: there allocators differ most.")
    note = (d.get("memory") or {}).get("note")
    if note:
        out.append(note)
    if d["trace"].get("limit_reached"):
        out.append("The trace ends at its limit on disk, before the program did; what follows from its end is left out.")
    return out
