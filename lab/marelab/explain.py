"""Why an allocator comes out as it does: what the program allocates, from one trace of it. Explains the result of choose, never changes it.

The trace is kept in DIR/trace and its description in DIR/description.json, so that `mare lab describe`, `replay` and `fit` can go on from there.
"""

import contextlib
import json
import os
import signal
import subprocess
import tempfile
from pathlib import Path

from marelab import describe, progress, trace
from marelab.errors import LabError
from marelab.measure import Target

LIMIT = 512 << 20  # bytes of trace; a quick choice records 64 MiB
SLOWER = 20  # a traced run may take this many times the longest run, and a minute


def explain(goal: Target, place: Path, result: dict, quick: bool = False) -> dict:
    """Records, describes, and puts into sentences; where that fails, a result with `problem`."""
    progress.note("tracing it once, to explain the result")
    longest = max((a["mean"] for a in result["standings"]["wall"]["allocators"]), default=1.0)
    try:
        recorded = record(goal, place / "trace", 64 << 20 if quick else LIMIT, 60 + SLOWER * longest)
        description = describe.describe(recorded, partial=True)
    except LabError as error:
        return {"problem": f"No trace: {error}"}
    except subprocess.TimeoutExpired:
        return {"problem": "No trace: the traced program did not end in time"}
    (place / "description.json").write_text(json.dumps(description) + "\n")
    return {"description": description, "sentences": sentences(description), "problem": None}


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
    out.append(f"{share(kept['short']['share'])} live no longer than {limits[0]:g} s, {share(kept['medium']['share'])} no longer than {limits[1]:g} s, "
               f"{share(kept['long']['share'])} longer. At the peak {live['peak_bytes'] / 2**20:.1f} MiB are live in {thousands(live['peak_blocks'])} blocks.")
    out.append(f"Long-lived blocks: {d['pattern']['name']} ({d['pattern']['reason']}).")
    crossed = d["frees"]["by_another_thread_share"]
    if crossed and crossed > 0.005:
        out.append(f"{share(crossed)} of the blocks are freed by another thread than allocated them: there allocators differ most.")
    note = (d.get("memory") or {}).get("note")
    if note:
        out.append(note)
    if d["trace"].get("limit_reached"):
        out.append("The trace ends at its limit on disk, before the program did; what follows from its end is left out.")
    return out
