"""The answer of a choice: what choose.json holds, made from the rows, and in words."""

from pathlib import Path

import numpy as np

from marelab import blocks, output, recommend, responses

VERSION = 1
# what choose.json must hold
KEYS = ("program", "response", "margin", "seed", "stopped", "machine", "share", "out", "present", "allocators", "verdict", "front", "standings", "gain")


def load(place: Path) -> dict:
    return output.read(Path(place) / "choose.json", "choose", VERSION, KEYS, "give the folder that `mare lab choose` wrote")


# ---- from the rows ----

def assess(names: list[str], rows: list[dict[str, str]], response: str, margin: float, present: str | None, resamples: int = 4000) -> dict:
    """Everything that follows from the rows: standings of all responses, the front, the verdict."""
    standings = {}
    for key, column in responses.COLUMNS.items():
        standings[key] = recommend.standing(key, names, blocks.table(rows, names, column), margin, resamples=resamples)
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


# ---- in words ----

def gain(shared: dict | str) -> list[str]:
    """The most any allocator can gain."""
    if not isinstance(shared, dict):
        return []
    text = f"{shared['allocator'] * 100:.1f} % of its CPU time is spent inside allocator calls"
    if shared["kernel_memory"] is None:
        return [text + " (time in the kernel could not be sampled)"]
    return [f"{text}, {shared['kernel_memory'] * 100:.1f} % in the kernel on behalf of memory: an allocator that cost nothing would save at most "
            f"{shared['most'] * 100:.0f} % of it, beyond what better placement of blocks saves in the program's own code"]


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
