"""fit: a synthetic workload that draws from a trace's joint distribution, and the tests it must pass before it is used.

The distribution is that of size × lifetime on the allocation clock × thread × freeing thread × routine × how it ended × size after a realloc,
in phases that end at the turns of the live bytes (lab/reader/phases.h); with the order of death in each phase; the 2000 largest blocks are kept one
by one. The workload that comes of it is run under the tracer and its trace is compared with the original:

    sizes, lifetimes        Kolmogorov distance at most 0.05
    size_given_lifetime     the same within each class of lifetimes, at most 0.10: a fit whose lifetimes were dealt out anew over the sizes fails here
    peak                    live bytes at the peak within 5 %
    curve                   live bytes over the allocation clock: mean distance at most 10 % of the original's peak
    cross, routines         frees by another thread, shares of the routines: within 1 point
    time, memory            the allocators' times and peaks, relative to each other, within 10 % of replay's

The limits of all but the last row are no narrower than twice the distance between two traces of the same program: give a second one with --again.
The last one stands: where the replays are too far apart among themselves to tell 10 % (two halves of them more than 5 %), more are made, and if that
doesn't help nothing can be said, and the fit isn't used. A fit that fails is not written; the report says which test it failed.
"""

import argparse
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

from marelab import allocators, describe, format, native, output, replay, trace, workload
from marelab.errors import LabError

EPILOG = """examples:
  mare lab trace -o a -- ./service; mare lab trace -o b -- ./service
  mare lab fit a --again b -o service.profile
  mare lab workload --under jemalloc -- --profile service.profile"""

LIMITS = {"sizes": 0.05, "lifetimes": 0.05, "size_given_lifetime": 0.10, "peak": 0.05, "curve": 0.10, "cross": 0.01, "routines": 0.01}
RATIO_LIMIT = 0.10
ENOUGH_SECONDS, MOST_RUNS = 0.5, 40  # short workloads are run more often: medians of milliseconds are noise
RATIO_SECONDS = 120.0  # no further runs after that
PEAK_RUNS, BRIEF = 3, 0.2  # peaks are exact and hardly vary: of workloads that take longer than so many seconds one will do
UNITS = {"sizes": "", "lifetimes": "", "size_given_lifetime": "", "peak": "%", "curve": "%", "cross": "points", "routines": "points", "time": "%",
         "memory": "%"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace", help="the trace's folder")
    parser.add_argument("-o", "--out", metavar="FILE", help="where the profile goes (default: TRACE/fit.profile)")
    parser.add_argument("--process", metavar="PID[-N]", help="which process (default: the one with the most events)")
    parser.add_argument("--again", metavar="TRACE", help="a second trace of the same program: how far apart two runs of it are")
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="runs of each allocator for the comparison with replay, at least (default 5)")
    parser.add_argument("--no-ratios", action="store_true", help="don't compare the allocators' ratios with replay's (for a busy machine)")
    parser.add_argument("--json", action="store_true", help="print the comparison as JSON")
    allocators.add_catalogue_arguments(parser)


def run(args: argparse.Namespace) -> int:
    original = format.load(args.trace)
    image = original.image(args.process)
    out = Path(args.out) if args.out else original.folder / "fit.profile"
    with tempfile.TemporaryDirectory(prefix="mare-lab-") as place:
        profile = Path(place) / "profile"
        before = facts(original, args.process, profile)
        tests = compare(before, synthesise(profile, Path(place), image.words), noise_of(before, args))
        if not args.no_ratios:
            chosen = allocators.select(allocators.load(args.catalogue, args.allocator), args.allocators)
            tests |= ratios(image, profile, Path(place), chosen, args.runs)
        good = all(t["passed"] for t in tests.values())
        if good:
            write(profile, out)
    result = {"version": 1, "accepted": good, "profile": str(out) if good else None, "tests": tests, "trace": args.trace, "again": args.again}
    print(output.text(result, 1) if args.json else text(result))
    return 0 if good else 1


def write(profile: Path, out: Path) -> None:
    try:
        shutil.copyfile(profile, out)
    except OSError as error:
        raise LabError(f"can't write {out}: {error.strerror}") from None


# ---- facts: what is compared ----

def facts(t: format.Trace, process: str | None, joint: Path) -> dict:
    """A description, and the joint distribution as an array (the columns of the CSV file)."""
    d = describe.describe(t, process, joint=joint)
    if d["allocations"]["number"] < 1000:
        raise LabError(f"{t.folder}: {d['allocations']['number']} allocations are too few for a fit (at least 1000)", code=1)
    with open(joint) as f:
        return d | {"joint": np.loadtxt((row for row in f if row[0].isdigit()), delimiter=",", dtype=np.int64, ndmin=2)}


def synthesise(profile: Path, place: Path, words: int) -> dict:
    """Runs the workload that the profile gives, traced, and describes it."""
    t = trace.record([native.path("workload"), "--profile", str(profile), "--touch", "none"], place / "synthetic", limit=24 * words + (64 << 20),
                     force=True,
                     stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    if t.header["status"] != 0:
        raise LabError(f"the synthetic workload ended with status {t.header['status']}; see above", code=1)
    return facts(t, None, place / "synthetic.joint")


def noise_of(before: dict, args: argparse.Namespace) -> dict[str, float]:
    if not args.again:
        return {}
    with tempfile.TemporaryDirectory(prefix="mare-lab-") as place:
        again = facts(format.load(args.again), None, Path(place) / "joint")
    return distances(before, again)


# ---- distances ----

def kolmogorov(values_a, weights_a, values_b, weights_b) -> float:
    """The largest distance between two weighted distribution functions."""
    points = np.union1d(values_a, values_b)

    def cumulated(values, weights):
        order = np.argsort(values, kind="stable")
        sums = np.concatenate([[0.0], np.cumsum(np.asarray(weights, dtype=float)[order])])
        return sums[np.searchsorted(np.asarray(values)[order], points, side="right")] / max(sums[-1], 1e-300)

    return float(np.max(np.abs(cumulated(values_a, weights_a) - cumulated(values_b, weights_b)))) if len(points) else 0.0


SIZE, LIFE_FROM, LIFE_TO, NUMBER = 5, 6, 7, 8
NEVER = 1 << 62


def lifetimes(d: dict) -> tuple[np.ndarray, np.ndarray]:
    """Lifetimes with what was never freed behind all others."""
    life = d["lifetimes"]
    return np.array([*life["operations"]["upper"], NEVER], dtype=float), np.array([*life["operations"]["number"], life["never_freed"]], dtype=float)


def size_given_lifetime(a: dict, b: dict) -> float:
    """The mean over classes of lifetimes (octaves) of the distance between the sizes there, weighted by how many blocks they hold."""
    def octaves(joint):
        life = (joint[:, LIFE_FROM] + joint[:, LIFE_TO]) / 2
        return np.where(life < 0, 63, np.floor(np.log2(np.maximum(life, 1)))).astype(int)

    ja, jb = a["joint"], b["joint"]
    oa, ob = octaves(ja), octaves(jb)
    total, sum_ = ja[:, NUMBER].sum(), 0.0
    for octave in np.unique(oa):
        part_a, part_b = ja[oa == octave], jb[ob == octave]
        n = part_a[:, NUMBER].sum()
        distance = 1.0 if not len(part_b) else kolmogorov(part_a[:, SIZE], part_a[:, NUMBER], part_b[:, SIZE], part_b[:, NUMBER])
        sum_ += n / total * max(distance - 1.0 / np.sqrt(n), 0.0)  # classes of a few blocks differ by chance
    return float(sum_)


def curve(d: dict, points: int = 200) -> np.ndarray:
    c = d["live"]["curve_operations"]
    at = np.linspace(0, 1, points + 1)[1:]
    return np.interp(at, np.array(c["operations"], dtype=float) / max(d["operations"], 1), np.array(c["bytes"], dtype=float))


def distances(a: dict, b: dict) -> dict[str, float]:
    peak = max(a["live"]["peak_bytes"], 1)
    routines = a["allocations"]["routines"]
    return {
        "sizes": kolmogorov(a["sizes"]["size"], a["sizes"]["number"], b["sizes"]["size"], b["sizes"]["number"]),
        "lifetimes": kolmogorov(*lifetimes(a), *lifetimes(b)),
        "size_given_lifetime": size_given_lifetime(a, b),
        "peak": abs(b["live"]["peak_bytes"] / peak - 1),
        "curve": float(np.mean(np.abs(curve(a) - curve(b))) / peak),
        "cross": abs(a["frees"]["by_another_thread_share"] - b["frees"]["by_another_thread_share"]),
        "routines": max(abs(r["share"] - b["allocations"]["routines"][name]["share"]) for name, r in routines.items()),
    }


def compare(a: dict, b: dict, noise: dict[str, float] | None = None) -> dict[str, dict]:
    """Every test with its distance, its limit, and whether it passed."""
    noise = noise or {}
    tests = {}
    for name, distance in distances(a, b).items():
        limit = max(LIMITS[name], 2 * noise.get(name, 0.0))
        tests[name] = {"distance": distance, "limit": limit, "passed": distance <= limit}
    return tests


def ratios(image: format.Image, profile: Path, place: Path, chosen, runs: int, seconds: float = RATIO_SECONDS) -> dict[str, dict]:
    """The allocators' times and peaks, relative to each other: the synthetic workload's against replay's."""
    if len(chosen) < 2:
        return {}
    _, script = replay.make_script(image, place)
    both, until = (["--replay", str(script)], ["--profile", str(profile)]), time.monotonic() + seconds
    once = workload.response(both[0], dict(os.environ))["seconds"]
    runs = max(runs, min(MOST_RUNS, int(ENOUGH_SECONDS / max(once, 1e-3))))
    peaks = [peaks_of(options, chosen, PEAK_RUNS if once < BRIEF else 1) for options in both]
    times: list[list[dict]] = [[], []]
    while True:
        for made, options, label in zip(times, both, ("replay", "fit")):
            before = len(made) // len(chosen)
            made += [r | {"round": r["round"] + before} for r in replay.rounds(options, chosen, runs, label)]
        test = ratio_test(*times, "seconds", min)
        if not test["restless"] or len(times[0]) >= 10 * MOST_RUNS * len(chosen) or time.monotonic() > until:
            return {"time": test, "memory": ratio_test(*peaks, "peak_bytes")}


def peaks_of(options: list[str], chosen, runs: int) -> list[dict]:
    """Without a warm-up, as time doesn't matter here."""
    words = [*options, "--exact-peak"]
    return [{"allocator": a.name, "round": i, **workload.response(words, os.environ | a.environment(os.environ))} for i in range(runs) for a in chosen]


def summed_up(runs: list[dict], key: str, what) -> dict[str, float]:
    return {n: float(what([r[key] for r in runs if r["allocator"] == n])) for n in dict.fromkeys(r["allocator"] for r in runs)}


def apart(a: dict[str, float], b: dict[str, float]) -> tuple[float, str]:
    """How far the ratio of any two allocators in b is from that in a, at most; and which two."""
    off = {n: float(np.log(max(b[n], 1e-9) / max(a[n], 1e-9))) for n in a}
    high, low = max(off, key=off.get), min(off, key=off.get)
    return float(np.expm1(off[high] - off[low])), f"{high} to {low}"


def ratio_test(recorded: list[dict], synthetic: list[dict], key: str, what=np.median) -> dict:
    """The largest distance of a ratio of two allocators. `what` makes one value of an allocator's runs: for times the least, which is the least
    disturbed. Restless: the first and the second half of the recorded trace's own runs are so far apart that the limit can't be told."""
    distance, worst = apart(summed_up(recorded, key, what), summed_up(synthetic, key, what))
    middle = np.median([r["round"] for r in recorded])
    halves = [summed_up([r for r in recorded if (r["round"] > middle) == second], key, what) for second in (False, True)]
    noise = apart(*halves)[0] if all(halves) else 0.0
    restless = 2 * noise > RATIO_LIMIT
    return {"distance": distance, "limit": RATIO_LIMIT, "passed": distance <= RATIO_LIMIT and not restless, "worst": worst, "noise": noise,
            "restless": restless}


def text(result: dict) -> str:
    lines = []
    for name, t in result["tests"].items():
        scale, unit = (100, f" {UNITS[name]}") if UNITS[name] else (1, "")
        worst = f" (most: {t['worst']})" if t.get("worst") else ""
        verdict = "" if t["passed"] else "   FAILED"
        if t.get("restless"):
            verdict += f": two halves of the trace's own replays are {100 * t['noise']:.0f} % apart, so nothing can be said; try on a quieter machine"
        lines.append(f"{name:<20} {scale * t['distance']:8.3f}{unit}, limit {scale * t['limit']:.2f}{unit}{worst}{verdict}")
    if result["accepted"]:
        return "\n".join(lines + [f"accepted; run it with  mare lab workload -- --profile {result['profile']}"])
    failed = ", ".join(n for n, t in result["tests"].items() if not t["passed"])
    return "\n".join(lines + [f"not accepted, and not written: it differs from the trace in {failed}.", *instead(result)])


def instead(result: dict) -> list[str]:
    """What to do without a fit."""
    where = result["trace"]
    out = [f"  The trace itself can be used in its place:  mare lab replay {where}  makes the very same calls under each allocator."]
    if not result.get("again"):
        out.append(f"  Is the program never the same twice? Trace it again, into another folder; with  mare lab fit {where} --again FOLDER  "
                   "the limits are twice the distance of the two.")
    return out + ["  To vary the workload, make the program's own arguments the factors of a design:  mare lab study --help"]
