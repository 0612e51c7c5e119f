"""`mare lab scenario`: the published study's programs, recorded and described, or chosen over.

Each recording is made, described and thrown away; what stays is DIR/NAME.json with the study's measures of every replication, from which `mare lab paper`
makes its tables 4.3 to 4.23, 5.1 and 5.2. Recordings of the same version of a program add up.
"""

import contextlib
import shlex
import subprocess
import tempfile
from pathlib import Path

from marelab import allocators, cli, describe, env, explain, measure, output, progress, recordings, rows, service
from marelab.errors import LabError
from marelab.scenarios import Scenario, catalogue, display, where

TAIL = "options"
LIMIT = 4 << 30  # bytes of a trace, which is thrown away
SECONDS = 300.0  # for one recording

EPILOG = """  mare lab scenario                         which there are, and what they need
  mare lab scenario lynx octave             records both, three times each, into study-programs
  mare lab scenario octave --choose         which allocator serves it best
  mare lab scenario octave --choose -- --quick -o octave

`tools/setup study`, in mare's source folder, installs what they need. Tables beside the published ones:  mare lab paper
"""


def add_arguments(parser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="which; all: every one that is here")
    parser.add_argument("-o", dest="out", metavar="DIR", default="study-programs", help="where the results go (default: study-programs)")
    parser.add_argument("-n", "--replications", type=int, default=3, metavar="N", help="recordings of each, more to those that are there (default: 3; the study's: 30)")
    parser.add_argument("--figures", action="store_true", help="also draw the first recording into DIR/NAME, as figures 4.3 to 4.18")
    parser.add_argument("--choose", action="store_true", help="measure it under every allocator: `mare lab choose`, with the options behind --")
    parser.add_argument("--json", action="store_true", help="JSON on standard output")


def run(args) -> int:
    if not args.names:
        print(output.text(listing()) if args.json else text(listing()))
        return 0
    if args.replications < 1:
        raise LabError("--replications: at least one")
    if args.options and not args.choose:
        raise LabError("options behind -- are those of choose: add --choose")
    chosen = every(args.names)
    if args.choose:
        return choose(chosen, args.options)
    place = Path(args.out)
    rows.make_place(place)
    found = [record(s, place, args.replications, args.figures) for s in chosen]
    print(output.text(found) if args.json else "\n".join(summary(f) for f in found) + f"\nnext:  mare lab paper --programs {place}")
    return 0


def every(names: list[str]) -> list[Scenario]:
    if names == ["all"]:
        return [s for s in catalogue.ALL.values() if not s.missing]
    chosen = [catalogue.named(n) for n in dict.fromkeys(names)]
    for s in chosen:
        if s.missing:
            raise LabError(f"scenario {s.name}: {', '.join(s.missing)} is not here: run `tools/setup study` in mare's source folder")
    return chosen


# ---- what there is ----

def version(s: Scenario) -> str | None:
    """The package of its program, as name=version."""
    found = where(s.needs[0])
    return allocators.package_version(str(Path(found).resolve())) or allocators.package_version(found) if found else None


def listing() -> list[dict]:
    return [{"name": s.name, "title": s.title, "what": s.what, "version": version(s), "missing": s.missing} for s in catalogue.ALL.values()]


def text(found: list[dict]) -> str:
    lines = []
    for f in found:
        state = f"not here: {', '.join(f['missing'])}" if f["missing"] else f["version"] or "here"
        lines += [f"{f['name']:<11} {f['title']} ({state})", f"{'':<11} {f['what']}"]
    if any(f["missing"] for f in found):
        lines += ["", "`tools/setup study`, in mare's source folder, installs what is not here."]
    return "\n".join(lines)


# ---- recording ----

@contextlib.contextmanager
def made(s: Scenario):
    """Its input in a folder of its own, with its display; how it is run there."""
    with tempfile.TemporaryDirectory(prefix="mare-lab-", dir="/var/tmp") as folder, display.virtual() if s.display else contextlib.nullcontext():
        place = Path(folder).resolve()
        progress.note(f"{s.name}: making its input")
        yield place, s.make(place)


def target(m, place: Path) -> measure.Target:
    common = {"timeout": SECONDS, "cwd": str(place)}
    return service.Service(tuple(m.argv), load=m.load, ready=m.ready, idle=0, **common) if m.load else measure.Target(tuple(m.argv), **common)


def record(s: Scenario, place: Path, replications: int, figures: bool) -> dict:
    program, before = version(s), recordings.load(place, s.name)
    if before and before["program"] != program:
        raise LabError(f"{place} holds recordings of {before['program']}, and here is {program}: name another folder with -o")
    runs = list(before["runs"]) if before else []
    with made(s) as (folder, m):
        for i in range(replications):
            progress.note(f"{s.name}: recording {i + 1} of {replications}")
            d = described(s, target(m, folder), folder / f"trace{i}")
            runs.append(recordings.measures(d) | {"levels": recordings.levels(d)})
            found = recordings.save(place, s.name, program, m.about, env.machine(), runs)
            if figures and i == 0:
                from marelab import describe_figures  # matplotlib takes half a second to import, which is not needed otherwise

                describe_figures.draw(place / s.name, d)
    return found


def described(s: Scenario, goal: measure.Target, folder: Path) -> dict:
    """The description of its busiest process, from a recording that counts."""
    try:
        trace = explain.record(goal, folder, LIMIT, SECONDS)
    except subprocess.TimeoutExpired:
        raise LabError(f"scenario {s.name} did not end within {SECONDS:g} s under the tracer", code=1) from None
    h = trace.header
    if not isinstance(goal, service.Service) and h["status"]:
        raise LabError(f"scenario {s.name} failed under the tracer, with status {h['status']}", code=1)
    if h["limit_reached"] or h["write_error"]:
        raise LabError(f"scenario {s.name}: its recording is not whole: {h['write_error'] or 'the limit on disk'}", code=1)
    return describe.describe(trace)


def summary(found: dict) -> str:
    m, n = recordings.mean_of(found["runs"]), len(found["runs"])
    return (f"{found['scenario']} ({found['program']}), {n} recording{'s' if n > 1 else ''}: {m['allocations']:,.0f} allocations, {m['megabytes']:,.1f} MB, "
            f"ten sizes {m['top_ten']:.1f} %, short-lived {m['short']:.1f} %, long-lived {m['long']:.1f} %, {m['pattern']}")


# ---- choosing ----

def choose(chosen: list[Scenario], options: list[str]) -> int:
    if len(chosen) != 1:
        raise LabError("--choose takes one scenario at a time")
    with made(chosen[0]) as (folder, m):
        command, parsed = cli.subcommand(["choose", *options, *choice(m)])
        return command.run(parsed)


def choice(m) -> list[str]:
    """The part of choose's command line that says what is run."""
    if m.load:
        return ["--serve", shlex.join(m.argv), "--load", m.load, *(["--ready", m.ready] if m.ready else [])]
    return ["--", *m.argv]
