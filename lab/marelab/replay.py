"""replay: runs a recorded trace against allocators: the same calls in the same order, on as many threads, with the same lifetimes.

A replay computes nothing between the calls and touches one byte of each page of a block, so contention and the allocator's share are
overstated: it is a check, not the truth; the truth is the program itself under each allocator (`mare lab choose`). A free by another thread waits
for its block; how long is reported.
"""

import argparse
import os
import statistics
import tempfile
from pathlib import Path

from marelab import allocators, format, native, output, workload
from marelab.errors import LabError
from marelab.progress import bar

EPILOG = """examples:
  mare lab replay service.trace                          under every allocator that is here
  mare lab replay service.trace --allocators glibc,jemalloc --runs 10
  mare lab replay service.trace --paced                  with the pauses of the original"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace", help="the trace's folder")
    parser.add_argument("--process", metavar="PID[-N]", help="which process (default: the one with the most events)")
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="runs of each allocator (default 5)")
    parser.add_argument("--paced", action="store_true", help="keep the times between the calls, to the millisecond")
    parser.add_argument("--touch", choices=["none", "first", "ends", "pages", "line", "all"], default="pages",
                        help="what is written of a block (default: pages, a byte of each page)")
    parser.add_argument("--cpus", type=int, default=0, metavar="N", help="pin to the first N CPUs")
    parser.add_argument("--events", type=int, default=0, metavar="N", help="only the trace's first N events")
    parser.add_argument("--partial", action="store_true", help="replay what a truncated trace holds whole")
    parser.add_argument("--json", action="store_true", help="print every run as JSON")
    allocators.add_catalogue_arguments(parser)


def run(args: argparse.Namespace) -> int:
    if args.runs < 1:
        raise LabError(f"--runs {args.runs}: at least one")
    chosen = allocators.select(allocators.load(args.catalogue, args.allocator), args.allocators)
    image = format.load(args.trace).image(args.process)
    with tempfile.TemporaryDirectory(prefix="mare-lab-") as folder:
        made, script = make_script(image, Path(folder), args.events, args.partial)
        options = ["--replay", str(script), "--touch", args.touch, "--cpus", str(args.cpus)] + (["--paced"] if args.paced else [])
        runs = rounds(options, chosen, args.runs)
    print(output.text({"version": 1, "script": made, "runs": runs}, 1) if args.json else text(made, runs))
    return 0


# ---- for other modules ----

def make_script(image: format.Image, folder: Path, events: int = 0, partial: bool = False) -> tuple[dict, Path]:
    script = folder / f"{image.name}.script"
    options = (["--partial"] if partial else []) + (["--events", str(events)] if events else [])
    return native.answer("script", *options, str(image.file), str(script)), script


def rounds(options: list[str], chosen: list[allocators.Allocator], runs: int, label: str = "replay") -> list[dict]:
    """Every allocator once per round, so that drifts of the machine meet all alike; the first round is warm-up and not kept."""
    answers = []
    with bar((runs + 1) * len(chosen), label) as progress:
        for i in range(runs + 1):
            for a in chosen:
                r = workload.response(options, os.environ | a.environment(os.environ))
                if i > 0:
                    answers.append({"allocator": a.name, "round": i, **r})
                progress.update(1)
    return answers


def medians(runs: list[dict], key: str) -> dict[str, float]:
    names = dict.fromkeys(r["allocator"] for r in runs)
    return {n: statistics.median(r[key] for r in runs if r["allocator"] == n) for n in names}


def text(made: dict, runs: list[dict]) -> str:
    times, peaks, after = (medians(runs, k) for k in ("seconds", "peak_bytes", "after_bytes"))
    waits, faults = medians(runs, "wait_seconds"), medians(runs, "minor_faults")
    best = min(times.values()) or 1e-9
    lines = [f"{made['events']:,} events on {made['threads']} thread{'s' if made['threads'] != 1 else ''}; "
             f"{made['shared_blocks']:,} blocks change hands; medians of {len(runs) // len(times)} runs", "",
             f"{'allocator':<16}{'time':>10}{'ratio':>8}{'peak':>11}{'after':>11}{'faults':>10}{'waiting':>10}"]
    for name in sorted(times, key=times.get):
        lines.append(f"{name:<16}{times[name]:>8.3f} s{times[name] / best:>8.2f}{peaks[name] / 1e6:>8.1f} MB{after[name] / 1e6:>8.1f} MB"
                     f"{faults[name]:>10,.0f}{waits[name]:>8.3f} s")
    if made["unknown"]:
        lines.append(f"{made['unknown']:,} frees of blocks from before the trace were left out")
    return "\n".join(lines + ["", "a check, not the truth: nothing is computed between the calls; `mare lab choose` runs the program itself"])
