"""The answer of a choice: what choose.json holds, made from the rows, and in words."""

import datetime
from pathlib import Path

import numpy as np

from marelab import blocks, output, paste, recommend, responses, verdict
from marelab.errors import LabError

VERSION = 2
# what choose.json must hold
KEYS = ("program", "response", "margin", "seed", "stopped", "machine", "share", "out", "present", "allocators", "verdict", "front", "standings",
        "gain", "repeated")


def load(place: Path) -> dict:
    return output.read(Path(place) / "choose.json", "choose", VERSION, KEYS, "give the folder that `mare lab choose` wrote")


def codes(text: str | None, usual: dict[str, int]) -> dict[str, int]:
    """Exit codes by the verdict's word, as --codes says them."""
    found = dict(usual)
    for part in text.split(",") if text else []:
        word, _, number = part.partition("=")
        if word not in usual or not number.isdecimal() or int(number) > 125:
            raise LabError(f"--codes {part}: write a word of {', '.join(usual)} and a number up to 125, as in better=10")
        found[word] = int(number)
    return found


# ---- from the rows ----

def assess(names: list[str], rows: list[dict[str, str]], response: str, margin: float, present: str) -> dict:
    """Everything that follows from the rows: standings of all responses, the front, the verdict."""
    keys = responses.measured(rows)
    if response not in keys:
        raise LabError(f"--response {response}: the load's output doesn't say it; it says {', '.join(k for k in keys if k != 'faults')}", code=1)
    standings = {key: recommend.standing(key, names, blocks.table(rows, names, responses.COLUMNS[key]), margin, present) for key in keys}
    other = responses.other(response, keys)
    main, memory = standings[response], standings[other]
    time, space = (other, response) if response in ("peak", "idle") else (response, other)
    return {
        "verdict": verdict.verdict(main, memory, present, margin, pace(rows, len(names))).as_dict(),
        "front": recommend.front(standings[time], standings[space], margin),
        "standings": {k: {"best": s.best, "candidates": s.candidates, "blocks": s.blocks, "widest": s.widest(), "allocators": s.rows()}
                      for k, s in standings.items()},
    }


def pace(rows: list[dict[str, str]], allocators: int) -> float:
    """Seconds a block, with what lies between its runs; 0 where the rows don't tell."""
    ends = [datetime.datetime.fromisoformat(r["when"]).timestamp() for r in rows if int(r["block"]) > 0 and r.get("when")]
    return float(np.median(np.diff(ends))) * allocators if len(ends) > 1 else 0.0


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


def tag(row: dict, result: dict) -> str:
    """A row's word, to be read beside its interval."""
    words = {recommend.SAME: f"within {result['margin'] * 100:g} % of the best", recommend.WORSE: worse_by(row["low"] - 1),
             recommend.UNDECIDED: "undecided"}[row["word"]]
    return words + (", used today" if row["name"] == result["present"] else "")


def worse_by(low: float) -> str:
    return f"worse by at least {verdict.share(low)}" if low >= 0.001 else "worse, perhaps by less than 0.1 %"


def legend(result: dict) -> list[str]:
    """What the table's names stand for, where the catalogue says so."""
    return [f"{a['name']} is {a['is']}" for a in result["allocators"] if a.get("is")]


def again(result: dict) -> str:
    n = result["repeated"]
    return f", {n} disturbed run{'s' if n > 1 else ''} made again" if n else ""


SHORT = {"faults": "faults", "request": "requests/s", "request-cpu": "CPU µs/req.", "idle": "idle MiB", "cpu": "CPU s"}


def head(key: str) -> str:
    return SHORT.get(key) or f"{key} {responses.UNITS[key][0]}"


def figure(key: str, typical: float) -> str:
    """For people: the rate instead of the time that a request takes."""
    if key == "request":
        return f"{1 / typical:.0f}"
    scaled = typical * responses.UNITS[key][1]
    return f"{scaled:.0f}" if key == "faults" else f"{scaled:.1f}" if key in ("peak", "idle", "request-cpu") else f"{scaled:.3f}"


def text(result: dict, place: Path) -> str:
    v, lines = result["verdict"], []
    main = result["standings"][result["response"]]
    lines.append(v["sentence"])
    lines += [f"  {r}" for r in v["reasons"] + result["gain"]]
    found = paste.lines(result)
    lines += ["", paste.text(found), ""] if found else [""]
    width = max(16, *(len(r["name"]) for r in main["allocators"]))
    shown = [k for k in responses.of(result) if k != "p50"]
    heads = " ".join(f"{head(k):>{max(9, len(head(k)))}}" for k in shown)
    lines.append(f"{'allocator':<{width}} {heads}   "
                 f"{result['response']}, times the best ({result['margin'] * 100:g} % margin)")
    by = {k: {r["name"]: r for r in s["allocators"]} for k, s in result["standings"].items()}
    for r in main["allocators"]:
        n = r["name"]
        figures = " ".join(f"{figure(k, by[k][n]['typical']):>{max(9, len(head(k)))}}" for k in shown)
        lines.append(f"{n:<{width}} {figures}   "
                     f"{r['ratio']:.3f} [{r['low']:.3f}, {r['high']:.3f}]  {tag(r, result)}")
    lines += legend(result)
    lines += [f"left out: {n}: {w}" for n, w in result["out"].items()]
    for a in result["allocators"]:
        lines += [f"in part: {a['name']}: {line}" for line in a["seen"] if line.startswith("ran without")]
    if isinstance(result["share"], str):
        lines.append(f"share of allocator calls not measured: {result['share']}")
    lines.append(f"{main['blocks']} blocks after a warm-up{again(result)}; stopped because {result['stopped']}. Report: {place / 'report.html'}")
    return "\n".join(lines)
