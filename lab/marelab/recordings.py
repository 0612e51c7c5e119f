"""What recordings of a program say in the study's measures, replication by replication: a file per scenario, without the traces themselves."""

from pathlib import Path

import numpy as np

from marelab import output

VERSION = 1
KEYS = ("scenario", "program", "about", "machine", "runs")
LEVELS = {"1-64": (1, 64), "64-512": (65, 512), "512-2048": (513, 2048)}  # TA of the study's table 5.2
PATTERNS = ("peak", "growing", "mixed", "undetermined")


def measures(d: dict) -> dict:
    """Of a description; shares in per cent."""
    a, f, r = d["allocations"], d["frees"], d["retention"]
    return {"allocations": a["number"], "megabytes": a["megabytes"], "mean_bytes": a["mean"], "distinct_sizes": a["distinct_sizes"],
            "top_ten": 100 * a["top_ten_share"], **{k: 100 * a["routines"][k]["share"] for k in ("malloc", "realloc", "calloc", "aligned")},
            "frees": f["number"], "null_frees": 100 * f["null_share"], **{k: 100 * r[k]["share"] for k in ("short", "medium", "long")},
            "never_freed": 100 * r["never_freed"]["share"], "pattern": d["pattern"]["name"], "seconds": d["seconds"],
            "live_peak_mb": d["live"]["peak_bytes"] / 1e6, "impossible_steps": d["order"]["impossible_steps"]}


def levels(d: dict) -> dict[str, float]:
    """Shares of the allocations in the study's levels of size, in per cent."""
    size, number = np.array(d["sizes"]["size"]), np.array(d["sizes"]["number"])
    return {k: float(100 * number[(size >= low) & (size <= high)].sum() / max(number.sum(), 1)) for k, (low, high) in LEVELS.items()}


def mean_of(runs: list[dict]) -> dict:
    """Means of the numbers; of words the most frequent one."""
    out = {}
    for k, first in runs[0].items():
        values = [r[k] for r in runs]
        if isinstance(first, dict):
            out[k] = mean_of(values)
        elif isinstance(first, str):
            out[k] = max(sorted(set(values)), key=values.count)
        else:
            out[k] = float(np.mean(values))
    return out


def path(place: Path, name: str) -> Path:
    return Path(place) / f"{name}.json"


def load(place: Path, name: str) -> dict | None:
    """None where it was not recorded."""
    file = path(place, name)
    if not file.exists():
        return None
    return output.read(file, "scenario", VERSION, KEYS, "give the folder that `mare lab scenario` wrote")


def save(place: Path, name: str, program: str | None, about: dict, machine: dict, runs: list[dict]) -> dict:
    data = {"kind": "scenario", "version": VERSION, "scenario": name, "program": program, "about": about, "machine": machine, "runs": runs}
    output.save(path(place, name), data, 1)
    return data
