"""`mare lab budget FILE`: what a program allocates may not grow unnoticed. The check to put into CI first, since counts know no noise.

FILE, in TOML, names scenarios: a command each, and by how much its counts may grow. `--record` runs them and writes the counts beside it, into
FILE.counts, which is committed together with the program; without it, today's counts are compared with those.

Every scenario runs twice. Most programs allocate the same each time; where threads or the clock make the counts differ, a comparison with one run would
fail by chance. So a scenario whose two runs differ is refused, until it states a tolerance; then the smaller of the two counts, and only what exceeds
budget and tolerance together, counts as growth.
"""

import argparse
import os
import shlex
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from marelab import answer, describe, env, junit, native, output, progress, target, toml, trace
from marelab.errors import LabError

MEASURES = ("allocations", "bytes", "peak")
VERSION = 1
RUNS = 2
CODES = {"within": 0, "grown": 3}
TOP_SIZES = 200  # sizes whose numbers are kept, to say which of them grew
KEYS = ("command", "stdin", "env", "timeout", "allow", "at_most", "tolerance")

EPILOG = """  mare lab budget budget.toml --record    runs the scenarios and writes budget.toml.counts
  mare lab budget budget.toml             compares with it; for CI

budget.toml:
  [scenario.parse]
  command = ["./service", "--parse", "big.json"]
  allow = { allocations = 2, peak = 5 }   # percent of growth; 0 for what isn't named
  at_most = { peak = "20M" }              # limits that need no record

Exit code: 0 when everything is within its budget, 3 when something has grown, 1 when a scenario fails or its runs differ, 2 for a mistake in the
input; --codes grown=1 sets others.
"""


@dataclass(frozen=True)
class Scenario:
    name: str
    command: list[str]
    stdin: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    timeout: float = 300.0
    allow: dict[str, float] = field(default_factory=dict)
    at_most: dict[str, int] = field(default_factory=dict)
    tolerance: float = 0.0


def add_arguments(parser) -> None:
    parser.add_argument("file", metavar="FILE", help="the scenarios, in TOML")
    parser.add_argument("--record", action="store_true", help="write today's counts into FILE.counts; with --only, of these scenarios")
    parser.add_argument("--only", metavar="NAME,…", help="only these scenarios")
    parser.add_argument("--codes", metavar="WORD=N,…", help="other exit codes, as in grown=1")
    parser.add_argument("--junit", metavar="FILE", help="write the result as a JUnit report, too")
    parser.add_argument("--json", action="store_true", help="the result as JSON on standard output")


# ---- the file ----

def read(path: Path) -> list[Scenario]:
    data, _ = toml.read(path)
    unknown = [k for k in data if k != "scenario"]
    if unknown:
        raise LabError(f"{path}: '{unknown[0]}' is no key of a budget; write [scenario.NAME] tables")
    named = data.get("scenario")
    if not isinstance(named, dict) or not named:
        raise LabError(f"{path}: there is no [scenario.NAME] with a command")
    return [scenario(path, name, s) for name, s in named.items()]


def scenario(path: Path, name: str, s) -> Scenario:
    where = f"{path}: scenario {name}"
    if not isinstance(s, dict):
        raise LabError(f"{where}: write [scenario.{name}] and its keys below")
    for key in s:
        if key not in KEYS:
            raise LabError(f"{where}: there is no key '{key}'; there are {', '.join(KEYS)}")
    command, folder = s.get("command"), Path(path).resolve().parent
    if not isinstance(command, list) or not command or not all(isinstance(w, str) for w in command):
        raise LabError(f"{where}: command is a list of words, as in [\"./app\", \"--once\"]")
    variables = s.get("env", {})
    if not isinstance(variables, dict) or not all(isinstance(v, str) for v in variables.values()):
        raise LabError(f"{where}: env holds texts, as in {{ LANG = \"C\" }}")
    stdin = s.get("stdin")
    if stdin is not None and not (isinstance(stdin, str) and (folder / stdin).is_file()):
        raise LabError(f"{where}: stdin = {stdin!r}: there is no such file beside {Path(path).name}")
    return Scenario(name, command, str(folder / stdin) if stdin else None, variables, number(where, "timeout", s.get("timeout", 300)),
                    allowed(where, s.get("allow", 0)), limits(where, s.get("at_most", {})), number(where, "tolerance", s.get("tolerance", 0)))


def number(where: str, key: str, value) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e9:
        raise LabError(f"{where}: {key} is a number that isn't negative, not {value!r}")
    return float(value)


def allowed(where: str, value) -> dict[str, float]:
    """Percent of growth for each measure; one number is meant for all of them."""
    if not isinstance(value, dict):
        return dict.fromkeys(MEASURES, number(where, "allow", value))
    measured(where, "allow", value)
    return {m: number(where, f"allow.{m}", value.get(m, 0)) for m in MEASURES}


def limits(where: str, value) -> dict[str, int]:
    if not isinstance(value, dict):
        raise LabError(f"{where}: at_most names measures, as in {{ peak = \"20M\" }}")
    measured(where, "at_most", value)
    found = {}
    for m, v in value.items():
        text = v if isinstance(v, str) else str(v)
        try:
            found[m] = trace.size(text)
        except argparse.ArgumentTypeError:
            raise LabError(f"{where}: at_most.{m} = {v!r}: write a number, or 500k, 20M, 2G") from None
    return found


def measured(where: str, key: str, value: dict) -> None:
    for m in value:
        if m not in MEASURES:
            raise LabError(f"{where}: {key}: there is no measure '{m}'; there are {', '.join(MEASURES)}")


def counts_path(path: str) -> Path:
    return Path(f"{path}.counts")


def recorded(path: Path) -> dict:
    """What --record wrote: scenario -> measures and sizes."""
    if not path.exists():
        return {}
    found = output.read(path, "budget", VERSION, ("scenarios",), "write it by --record")["scenarios"]
    for name, counts in found.items():
        if not isinstance(counts, dict) or not all(k in counts for k in (*MEASURES, "sizes", "libc")):
            raise LabError(f"{path}: what is recorded of {name} is not whole: write it anew by --record")
    return found


# ---- measuring ----

def measure(s: Scenario, folder: Path) -> dict:
    """The measures of one run: allocations and bytes of all its processes, the peak of the one that has the highest."""
    place, complaints = Path(tempfile.mkdtemp(dir=folder)) / "t", tempfile.TemporaryFile("w+")
    with complaints, open(s.stdin or os.devnull, "rb") as stdin:
        try:
            t = trace.record(s.command, place, stdin=stdin, stdout=subprocess.DEVNULL, stderr=complaints, timeout=s.timeout, env=os.environ | s.env)
        except subprocess.TimeoutExpired:
            raise LabError(f"scenario {s.name} did not end within {s.timeout:g} s; `timeout` in its table sets more", code=1) from None
        except LabError as error:
            raise LabError(f"scenario {s.name}: {error}", code=error.code) from None
        complaints.seek(0)
        said = complaints.read()[-300:].strip()
    h = t.header
    if h["status"] != 0:
        how = f"with exit code {h['status']}" if h["status"] > 0 else f"by signal {-h['status']}"
        raise LabError(f"scenario {s.name} ended {how}" + (f"; its last words: {said}" if said else ""), code=1)
    lost = ("it allocates more than a trace may hold on this disk" if h["limit_reached"] else h["write_error"] or
            h["lost_events"] and f"{h['lost_events']} events are missing" or
            h["untraced_processes"] and f"{h['untraced_processes']} processes were not traced")
    if lost:
        raise LabError(f"scenario {s.name} can't be counted: {lost}", code=1)
    found = [describe.describe(t, i.name) for i in t.images]
    sizes: dict[int, int] = {}
    for d in found:
        for size, n in zip(d["sizes"]["size"], d["sizes"]["number"]):
            sizes[size] = sizes.get(size, 0) + n
    return {"allocations": sum(d["allocations"]["number"] for d in found), "bytes": sum(d["allocations"]["bytes"] for d in found),
            "peak": max((d["live"]["peak_bytes"] for d in found), default=0), "sizes": sizes}


def spread(runs: list[dict], m: str) -> float:
    """By how many percent the runs differ, of the smallest."""
    low, high = min(r[m] for r in runs), max(r[m] for r in runs)
    return 0.0 if low == high else 100 * (high - low) / low if low else float("inf")


def steady(s: Scenario, runs: list[dict]) -> None:
    m = max(MEASURES, key=lambda m: spread(runs, m))
    worst = spread(runs, m)
    if worst > s.tolerance:
        raise LabError(f"scenario {s.name}: its {m} differ by {worst:.2g} % from run to run ({' and '.join(str(r[m]) for r in runs)}): make it the same each "
                       f"time (one thread, a fixed seed), or state  tolerance = {float(f'{worst * 2:.1g}'):g}  in its table", code=1)


def counted(s: Scenario, folder: Path) -> dict:
    runs = [measure(s, folder) for _ in range(RUNS)]
    steady(s, runs)
    best = min(runs, key=lambda r: r["bytes"])
    top = sorted(best["sizes"].items(), key=lambda i: -i[1])[:TOP_SIZES]
    return {m: min(r[m] for r in runs) for m in MEASURES} | {"sizes": {str(size): n for size, n in sorted(top)}}


# ---- comparing ----

def grown(before: dict[str, int], now: dict[str, int]) -> list[tuple[int, int]]:
    """Sizes of which more were allocated, the largest growth first."""
    more = [(int(size), n - before.get(size, 0)) for size, n in now.items() if n > before.get(size, 0)]
    return sorted(more, key=lambda i: -i[1])[:3]


def judge(s: Scenario, now: dict, before: dict | None) -> dict:
    """A row for each measure. `limit`: what it may be at most; None where nothing was said or recorded."""
    rows = {}
    for m in MEASURES:
        bounds = [s.at_most[m]] if m in s.at_most else []
        if before:
            bounds.append(int(before[m] * (1 + s.allow[m] / 100) * (1 + s.tolerance / 100)))
        limit = min(bounds) if bounds else None
        rows[m] = {"now": now[m], "before": before and before[m], "limit": limit, "grown": limit is not None and now[m] > limit}
    over = [m for m in MEASURES if rows[m]["grown"]]
    return {"name": s.name, "word": "grown" if over else "within", "measures": rows, "command": s.command, "tolerance": s.tolerance,
            "sizes": grown(before["sizes"], now["sizes"]) if before and over else []}


def change(row: dict) -> str:
    if not row["before"]:
        return "" if row["before"] is None else "was 0"
    percent = 100 * (row["now"] - row["before"]) / row["before"]
    return "as before" if row["now"] == row["before"] else f"{percent:+.2g} %" if abs(percent) < 100 else f"{row['now'] / row['before']:.3g} times"


def text(result: dict) -> str:
    lines = [f"{'scenario':<20} {'measure':<12} {'now':>14} {'at most':>14}"]
    for s in result["scenarios"]:
        for i, (m, row) in enumerate(s["measures"].items()):
            limit = "–" if row["limit"] is None else f"{row['limit']:,}"
            note = "  ".join(x for x in (change(row), "GROWN" if row["grown"] else "") if x)
            lines.append(f"{s['name'] if i == 0 else '':<20} {m:<12} {row['now']:>14,} {limit:>14}  {note}".rstrip())
        if s["sizes"]:
            lines.append(" " * 21 + "more blocks of " + ", ".join(f"{size:,} bytes (+{n:,})" for size, n in s["sizes"]))
        if s["word"] == "grown":
            lines.append(" " * 21 + f"where: mare lab trace --stacks 100 -o t -- {shlex.join(s['command'])} && mare lab describe t")
    lines += ["", result["sentence"], *result["notes"]]
    return "\n".join(lines)


def sentence(scenarios: list[dict]) -> str:
    over = [s["name"] for s in scenarios if s["word"] == "grown"]
    if not over:
        return f"Within its budget: {scenarios[0]['name']}." if len(scenarios) == 1 else f"All {len(scenarios)} scenarios are within their budgets."
    return f"Grown beyond {'its budget' if len(over) == 1 else 'their budgets'}: {', '.join(over)}."


def notes(path: Path, scenarios: list[dict], libraries: set[str]) -> list[str]:
    out = []
    fallen = [s["name"] for s in scenarios if any(r["before"] and r["now"] < 0.98 * r["before"] for r in s["measures"].values())]
    if fallen:
        out.append(f"Less than before: {', '.join(fallen)}; --record keeps that, so that it can't come back unnoticed.")
    here = env.machine()["libc"]
    if libraries - {here}:
        out.append(f"{path} was recorded with {', '.join(sorted(libraries - {here}))}, here it is {here}: what the C library allocates itself may differ.")
    return out


# ---- the command ----

def chosen(scenarios: list[Scenario], only: str | None, path: str) -> list[Scenario]:
    names = only.split(",") if only else [s.name for s in scenarios]
    for name in names:
        if name not in [s.name for s in scenarios]:
            raise LabError(f"--only {name}: {path} has no such scenario; there are {', '.join(s.name for s in scenarios)}")
    return [s for s in scenarios if s.name in names]


def limited(path: str, scenarios: list[Scenario], before: dict) -> None:
    """A scenario that nothing limits would pass for ever."""
    free = [s.name for s in scenarios if s.name not in before and not s.at_most]
    if free:
        raise LabError(f"nothing limits {', '.join(free)}: record it first,  mare lab budget {path} --record --only {','.join(free)}  or give at_most")


def count_all(scenarios: list[Scenario], folder: Path) -> dict[str, dict]:
    """In the folder of FILE, so that its commands may be relative to it."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="mare-lab-") as place, progress.bar(len(scenarios), "counting", "scenario") as bar:
        here = os.getcwd()
        os.chdir(folder)
        try:
            for s in scenarios:
                bar.set_postfix_str(s.name)
                target.check(s.command)
                found[s.name] = counted(s, Path(place))
                bar.update()
        finally:
            os.chdir(here)
    return found


def run(args) -> int:
    exits, scenarios, path = answer.codes(args.codes, CODES), read(Path(args.file)), counts_path(args.file)
    scenarios = chosen(scenarios, args.only, args.file)
    before = recorded(path)
    if not args.record:
        limited(args.file, scenarios, before)
    native.path("launcher")
    now = count_all(scenarios, Path(args.file).resolve().parent)
    libc = env.machine()["libc"]
    if args.record:
        kept = {s.name: before[s.name] for s in read(Path(args.file)) if s.name in before}
        output.save(path, {"kind": "budget", "version": VERSION, "scenarios": kept | {n: c | {"libc": libc} for n, c in now.items()}}, 1)
        before = recorded(path)
    judged = [judge(s, now[s.name], before.get(s.name)) for s in scenarios]
    libraries = {before[s.name]["libc"] for s in scenarios if s.name in before}
    result = {"kind": "budget-result", "version": VERSION, "word": max((s["word"] for s in judged), key=list(CODES).index), "sentence": sentence(judged),
              "scenarios": judged, "notes": notes(path, judged, libraries), "recorded": str(path) if args.record else None}
    if args.junit:
        cases = [junit.Case(s["name"], "failure" if s["word"] == "grown" else None, sentence([s]), 
                            text(result | {"scenarios": [s], "sentence": sentence([s])})) for s in judged]
        junit.write(args.junit, "budget", cases)
    print(output.text(result) if args.json else text(result) + (f"\nWritten: {path}" if args.record else ""))
    return exits[result["word"]]
