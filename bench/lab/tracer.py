"""What tracing costs, and describing: nanoseconds per event with a core free and with none, and with the tracer asleep, its start-up, a table-heavy Lua script (heaptrack beside it, where it
is here), bytes per event, and the time and memory of describing a hundred million events. For a quiet machine; every figure is the median of
alternated rounds.

    python bench/lab/tracer.py [rounds]
"""

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from marelab import allocators, attach, env, format, measure, native

HERE = Path(__file__).resolve().parent
LOOP = ["--allocations", "5000000", "--long-share", "0", "--alive", "64", "--touch", "none"]
HUNDRED_MILLION = ["--allocations", "50000000", "--long-share", "0.02", "--alive", "1000", "--death", "random", "--touch", "none"]


def traced(folder: Path, argv: list[str], **options) -> subprocess.CompletedProcess:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    command = [native.path("launcher"), "--library", native.path("tracer"), "--out", str(folder), "--limit", str(8 << 30), "--", *argv]
    return subprocess.run(command, capture_output=True, text=True, check=True, **options)


def one_cpu() -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def per_event(folder: Path, rounds: int, threads: int, pinned: bool) -> dict:
    """The workload program's own time for its calls, with and without the tracer, divided by the events recorded."""
    argv = [native.path("workload"), *LOOP, "--threads", str(threads)]
    options = {"preexec_fn": one_cpu} if pinned else {}
    plain, with_tracer, header = [], [], {}
    for _ in range(rounds + 1):
        plain.append(json.loads(subprocess.run(argv, capture_output=True, text=True, check=True, **options).stdout))
        with_tracer.append(json.loads(traced(folder, argv, **options).stdout))
        header = format.load(folder).header
    (a, b), (cpu_a, cpu_b) = ([statistics.median(r[key] for r in runs[1:]) for runs in (plain, with_tracer)] for key in ("seconds", "cpu_seconds"))
    return {"threads": threads, "one_cpu": pinned, "plain_s": a, "traced_s": b, "events": header["events"],
            "bytes_per_event": header["bytes"] / header["events"],
            "ns_per_event": (b - a) * 1e9 / header["events"] * threads, "own_cpu_ns_per_event": (cpu_b - cpu_a) * 1e9 / header["events"],
            "stalls": header["stalls"]}


def asleep(rounds: int) -> dict:
    """The workload program's own CPU time with the tracer asleep beside that without it: nanoseconds per call, and the ratio in each pair."""
    argv = [native.path("workload"), *LOOP, "--threads", "1"]
    environment = {**os.environ, **attach.environment()}
    pairs = []
    for i in range(rounds + 1):
        turn = [(0, None), (1, environment)]
        both = {k: json.loads(subprocess.run(argv, capture_output=True, text=True, check=True, env=e).stdout)["cpu_seconds"] for k, e in turn[::(-1) ** i]}
        pairs.append((both[0], both[1]))
    a, b = (statistics.median(p[k] for p in pairs[1:]) for k in (0, 1))
    return {"plain_s": a, "asleep_s": b, "ns_per_call": (b - a) * 1e9 / 1e7, "ratio": statistics.median(b / a for a, b in pairs[1:])}


def wall(argv: list[str], **options) -> float:
    start = time.perf_counter()
    subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, **options)
    return time.perf_counter() - start


def start(folder: Path, rounds: int) -> dict:
    """What a program of nothing takes longer under the tracer: to its end, and in CPU time of all that is started for it."""
    bare, plain, cpu_plain, with_tracer, cpu_traced = ["true"], [], [], [], []

    def cpu() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    for _ in range(5 * rounds):
        before = cpu()
        plain.append(wall(bare))
        between = cpu()
        began = time.perf_counter()
        traced(folder, bare)
        with_tracer.append(time.perf_counter() - began)
        cpu_plain.append(between - before)
        cpu_traced.append(cpu() - between)
    return {"seconds": statistics.median(with_tracer) - statistics.median(plain), "least_seconds": min(with_tracer) - min(plain),
            "cpu_seconds": statistics.mean(cpu_traced) - statistics.mean(cpu_plain)}


def script(folder: Path, rounds: int) -> dict:
    """CPU of the script itself would hide what a busy second core costs it: wall time, from its start to its end."""
    argv = ["lua5.4", str(HERE / "tables.lua")]
    times = {"plain": [], "traced": [], "heaptrack": []}
    for _ in range(rounds + 1):
        times["plain"].append(wall(argv))
        start = time.perf_counter()
        traced(folder, argv)
        times["traced"].append(time.perf_counter() - start)
        if shutil.which("heaptrack"):
            times["heaptrack"].append(wall(["heaptrack", "-o", str(folder / "heaptrack"), *argv]))
    m = {k: statistics.median(v[1:]) for k, v in times.items() if v}
    events = format.load(folder).header["events"]
    return {"seconds": m, "events": events, "events_per_second": events / m["plain"], "traced_ratio": m["traced"] / m["plain"],
            "heaptrack_ratio": m["heaptrack"] / m["plain"] if "heaptrack" in m else None}


def hundred_million(folder: Path) -> dict:
    traced(folder, [native.path("workload"), *HUNDRED_MILLION])
    t = format.load(folder)
    argv = (native.path("describe"), str(t.main().file))
    start = time.perf_counter()
    d = json.loads(subprocess.run(argv, capture_output=True, text=True, check=True).stdout)
    seconds = time.perf_counter() - start
    peak = measure.once(measure.Target(argv), allocators.AS_IS).peak_kib
    return {"events": d["events"], "seconds": seconds, "peak_kib": peak, "blocks_at_peak": d["live"]["most_blocks"],
            "limit_kib": 256 * 1024 + d["live"]["most_blocks"] * 32 // 1024, "impossible_steps": d["order"]["impossible_steps"]}


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    with tempfile.TemporaryDirectory(prefix="mare-lab-bench-", dir=os.environ.get("TMPDIR", "/var/tmp")) as place:
        folder = Path(place) / "t"
        result = {"load": os.getloadavg()[0], "rounds": rounds,
                  "per_event": [per_event(folder, rounds, threads, pinned) for threads, pinned in ((1, False), (1, True), (2, False))],
                  "asleep": asleep(rounds), "start": start(folder, rounds),
                  "lua": script(folder, rounds), "describe": hundred_million(folder)}
    result["machine"] = env.machine()
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
