"""describe: every measure of a trace, as text, CSV, JSON and figures.

`describe-trace` (lab/reader) reads a process's trace once and prints JSON; this module chooses the process, adds what the trace's header knows and writes
`description.json`. Its keys (all numbers, unless said otherwise; shares are 0 to 1):

    version                 1
    trace                   folder, command (list), complete, limit_reached, ring_events, lost_events, clock_gap_ms, stall_seconds
    process                 pid, image, command, executable: the one described (that with the most events, unless told)
    processes               list: pid, image, command, words, seconds
    seconds, events         duration of the process, allocations + frees + reallocs
    allocations             number, bytes, megabytes, mean, distinct_sizes, top_ten_share, failed,
                            top_sizes: [{size, number, share}] (ten),
                            routines: {malloc|calloc|realloc|aligned: {number, bytes, share}}, labels: {new, new_array}
    sizes                   {size: [...], number: [...]}: the distribution, ascending
    births                  step, operations, octaves: [[...]]: allocations by when (steps of the allocation clock) and by lifetime (octaves
                            of operations; the last one never freed); what the pattern is taken from
    frees                   number (with null ones), null, null_share, by_another_thread, by_another_thread_share (of those that freed a
                            block), unknown (blocks allocated before the trace, or inherited by a fork), labels
    reallocs                number, in_place, moved, failed, freed (realloc(p, 0)), null
    retention               limits_seconds [short, medium]; short, medium, long: {number, share}; of `long`, never_freed: {number, bytes, share}
    lifetimes               seconds, operations, bytes: {upper: [...], number: [...]} (never-freed blocks apart, in `never_freed`)
    long_lived              block_operations 1000, cumulative [...]: long-lived allocations up to each block (the study's figures)
    pattern                 name (peak, growing, mixed, undetermined), reason, threshold_operations, fraction, share, distance, curve [...]
    live                    peak_bytes, peak_blocks, peak_seconds, peak_operations, end_bytes, end_blocks,
                            curve: {seconds, bytes, blocks}, curve_operations: {operations, bytes, blocks}
    threads                 list: number, tid, allocations, bytes, frees, frees_of_others
    memory                  anonymous_peak_bytes, malloc_share (live peak over it; null if unknown), note (text or null)
    order                   impossible_steps, relaxed_waits: both 0 unless the trace is damaged or a ring
    stacks                  list, when stacks were sampled: number, bytes (both estimates of the whole), at_peak (of these bytes, those that lived at the peak),
                            never_freed, never_freed_bytes, samples, frames (list of text)
    never_freed             null without stacks; else number, bytes, late (share of the blocks that was allocated in the second half of the operations),
                            every (each block that was looked at stands for so many), and places, those with the most bytes first: name (function
                            and file), callers (list), number, bytes, share (of these bytes), late
    grid                    blocks by size and lifetime, in classes that double: never (the class of what is never freed); operations, milliseconds, kinds
                            (0 to 3: short, medium, long, never freed): lists of [class of size, class of lifetime, number, bytes]; class k is what is above 2^(k-1)
                            and at most 2^k
"""

import argparse
import csv
import sys
import tempfile
from pathlib import Path

from marelab import format, leaks, native, output, pattern, programs, stacks, units
from marelab.errors import LabError

APART = 4 << 20  # bytes between what malloc sees and what the program has, from which on it is said

EPILOG = """examples:
  mare lab describe t                      text, and t/description.json
  mare lab describe t --figures figures    the study's figures 4.3 to 4.20 for this program
  mare lab describe t --csv tables         a CSV file per table
  mare lab describe a b c                  three programs side by side"""


def seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 4_000_000:
        raise argparse.ArgumentTypeError(f"'{text}' is no time in seconds")
    return value


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace", nargs="+", help="the trace's folder; of several programs' traces, their comparison (the study's section 4.7)")
    parser.add_argument("--process", metavar="PID[-N]", help="which process (default: the one with the most events)")
    parser.add_argument("--short", type=seconds, default=0.1, metavar="S", help="a short retention is at most this long (default 0.1)")
    parser.add_argument("--medium", type=seconds, default=1.0, metavar="S", help="a medium one at most this long (default 1)")
    parser.add_argument("--partial", action="store_true", help="describe the complete part of a truncated trace")
    parser.add_argument("--json", action="store_true", help="print description.json instead of text")
    parser.add_argument("--csv", metavar="DIR", help="write the tables as CSV files")
    parser.add_argument("--figures", metavar="DIR", help="write the figures as SVG files")


def run(args: argparse.Namespace) -> int:
    if args.medium < args.short:
        raise LabError(f"--medium {args.medium:g} is below --short {args.short:g}")
    found = []
    for folder in args.trace:
        trace = format.load(folder)
        d = describe(trace, args.process, args.short, args.medium, args.partial)
        output.save(trace.folder / "description.json", d, 1)
        found.append(d)
    several = len(found) > 1
    if args.csv:
        write_csv(Path(args.csv), programs.tables(found) if several else tables(found[0]))
    if args.figures:
        from marelab import describe_figures  # matplotlib takes half a second to import, which text need not wait for

        (describe_figures.draw_programs if several else describe_figures.draw)(Path(args.figures), found if several else found[0])
    if args.json:
        print(output.text(found if several else found[0], 1))
    else:
        print(programs.text(found) if several else text(found[0]))
    return 0


# ---- for other modules ----

def describe(trace: format.Trace, process: str | None = None, short: float = 0.1, medium: float = 1.0, partial: bool = False,
             joint: str | Path | None = None) -> dict:
    """The description of one process of a trace; `joint` also writes the joint distribution that fit draws from."""
    image, h = trace.image(process), trace.header
    every = h["stack_every"] if isinstance(h["stack_every"], int) and h["stack_every"] > 0 else 1
    arguments = [str(image.file), "--every", str(every), "--short", str(round(short * 1000)), "--medium", str(round(medium * 1000))]
    arguments += ["--partial"] if partial else []
    arguments += ["--joint", str(joint)] if joint else []
    with tempfile.TemporaryDirectory(prefix="mare-lab-") as scratch:
        by_stack = Path(scratch) / "sites"
        measured = native.answer("describe", *arguments, "--sites", str(by_stack))
        left = leaks.of_stacks(image, by_stack, every) if measured["stacks"] else None
    known = {
        "version": 1,
        "trace": {"folder": str(trace.folder), **{k: h.get(k) for k in ("command", "complete", "attached", "status", "limit_reached", "ring_events",
                                                                        "lost_events",
                                                                        "clock_gap_ms", "stall_seconds", "stack_every")}},
        "process": {"pid": image.pid, "image": image.number, "command": image.command, "executable": image.executable},
        "processes": [{"pid": i.pid, "image": i.number, "command": i.command, "words": i.words, "seconds": i.seconds} for i in trace.images],
    }
    d = known | {k: v for k, v in measured.items() if k != "version"}
    d["pattern"] = pattern.classify(d["births"])
    d["memory"] = memory(image, d["live"]["peak_bytes"])
    d["stacks"] = stacks.named(d["stacks"], image.maps)
    d["never_freed"] = left
    return d


def memory(image: format.Image, live_peak: int) -> dict:
    """How much of the program's own memory malloc saw: a program with an allocator of its own is told."""
    anonymous = image.anonymous_peak
    share = min(live_peak / anonymous, 1.0) if anonymous else None
    note = None
    if share is not None and anonymous - live_peak > APART and share < 0.5:
        note = (f"malloc sees {share:.0%} of this program's memory ({units.size(live_peak)} of {units.size(anonymous)}): "
                "the rest it takes from the system itself (an allocator of its own, thread stacks, a garbage collector); "
                "another malloc cannot change that part")
    return {"anonymous_peak_bytes": anonymous or None, "malloc_share": share, "note": note}


# ---- text ----

def percent(x: float) -> str:
    return f"{100 * x:.2f} %"


def text(d: dict) -> str:
    a, f, r, live = d["allocations"], d["frees"], d["retention"], d["live"]
    routines = ", ".join(f"{name} {percent(v['share'])}" for name, v in a["routines"].items() if v["number"])
    rows = [
        ("program", " ".join(" ".join(d["process"]["command"] or d["trace"]["command"]).split())),  # some pad their title with blanks
        ("time", f"{d['seconds']:.2f} s (the clock's largest gap: {d['trace']['clock_gap_ms']:.1f} ms)"),
        ("allocations", f"{a['number']:,} of {a['megabytes']:,.2f} MB, {a['mean']:,.1f} bytes on average"
                        + (f"; {a['failed']:,} failed" if a["failed"] else "")),
        ("sizes", f"{a['distinct_sizes']:,} distinct; the ten most frequent are {percent(a['top_ten_share'])}: "
                  + ", ".join(f"{s['size']} ({percent(s['share'])})" for s in a["top_sizes"])),
        ("routines", routines + labels(a["labels"])),
        ("frees", f"{f['number']:,}, of them {percent(f['null_share'])} with a null pointer (which is legal and does nothing)"),
    ]
    if f["unknown"]:
        rows.append(("", f"{f['unknown']:,} of blocks allocated before the trace, or by the parent before a fork"))
    if d["thread_count"] > 1:
        rows.append(("threads", f"{d['thread_count']:,}; {percent(f['by_another_thread_share'])} of the blocks freed by another thread than "
                                "allocated them"))
    short, medium = r["limits_seconds"]
    rows += [
        ("retention", f"short (up to {short:g} s) {percent(r['short']['share'])}, medium (up to {medium:g} s) {percent(r['medium']['share'])}, "
                      f"long {percent(r['long']['share'])}"),
        ("never freed", f"{r['never_freed']['number']:,} blocks ({percent(r['never_freed']['share'])}; counted as long), "
                        f"{r['never_freed']['bytes'] / 1e6:,.3f} MB"),
        ("pattern", f"{d['pattern']['name']}: {d['pattern']['reason']}"),
        ("live memory", f"at most {live['peak_bytes'] / 1e6:,.3f} MB in {live['peak_blocks']:,} blocks, after {live['peak_seconds']:.2f} s"),
    ]
    rows += left(d)
    rows += notes(d)
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {what}" for name, what in rows)


def labels(l: dict) -> str:
    return f" (of these {l['new']:,} by C++ new, {l['new_array']:,} by new[])" if l["new"] or l["new_array"] else ""


def left(d: dict) -> list[tuple[str, str]]:
    """The places of what was not freed, where stacks were sampled."""
    f = d["never_freed"]
    if not f or not f["places"]:
        return []
    said = leaks.KEPT + (f"; one allocation in {f['every']:,} was looked at, and each of 32 KiB and more" if f["every"] > 1 else "")
    return [*(("not freed" if i == 0 else "", line) for i, line in enumerate(leaks.lines(f))), ("", said)]


def notes(d: dict) -> list[tuple[str, str]]:
    """What the reader must know before he believes the rest."""
    rows = [("note", d["memory"]["note"])] if d["memory"]["note"] else []
    if not d["trace"]["complete"]:
        rows.append(("note", "the tracer was killed: the trace ends early"))
    if d["trace"]["limit_reached"]:
        rows.append(("note", "the trace ends at its limit on disk: what was alive then counts as never freed"))
    if d["trace"].get("attached"):
        rows.append(("note", f"process {d['trace']['attached']} was recorded as it ran: blocks from before are unknown"))
    if d["trace"]["ring_events"]:
        rows.append(("note", f"only the last {d['trace']['ring_events']:,} events were kept: blocks from before are unknown"))
    if d["order"]["impossible_steps"]:
        rows.append(("note", f"{d['order']['impossible_steps']:,} steps are impossible: events are missing from this trace"))
    for s in d["stacks"][:5]:
        rows.append(("stack", f"{s['number']:,} allocations of {s['bytes']:,} bytes: " + " < ".join(s["frames"][:6])))
    return rows


# ---- CSV ----

def tables(d: dict) -> dict[str, list[list]]:
    """Table name -> rows, the first one the header. The first three are the study's tables 4.5, 4.6 and 4.22."""
    a, f, r, live = d["allocations"], d["frees"], d["retention"], d["live"]
    shares = {k: v["share"] for k, v in a["routines"].items()}
    t = {
        "allocations": [["number", "megabytes", "mean_bytes", "distinct_sizes", "top_ten_share", *shares],
                        [a["number"], a["megabytes"], a["mean"], a["distinct_sizes"], a["top_ten_share"], *shares.values()]],
        "frees": [["number", "null_share", "short_share", "medium_share", "long_share", "never_freed_share", "by_another_thread_share"],
                  [f["number"], f["null_share"], *(r[k]["share"] for k in ("short", "medium", "long", "never_freed")), f["by_another_thread_share"]]],
        "routines": [["routine", "number", "bytes", "share"], *([k, v["number"], v["bytes"], v["share"]] for k, v in a["routines"].items())],
        "sizes": [["size", "number"], *zip(d["sizes"]["size"], d["sizes"]["number"])],
        "long_lived": [["operations", "cumulative"],
                       *([(i + 1) * d["long_lived"]["block_operations"], n] for i, n in enumerate(d["long_lived"]["cumulative"]))],
        "live": [["seconds", "bytes", "blocks"], *zip(*live["curve"].values())],
        "live_operations": [["operations", "bytes", "blocks"], *zip(*live["curve_operations"].values())],
        "threads": [["number", "tid", "allocations", "bytes", "frees", "frees_of_others"], *(list(t.values()) for t in d["threads"])],
    }
    for clock in ("seconds", "operations", "bytes"):
        t[f"lifetimes_{clock}"] = [[f"{clock}_up_to", "number"], *zip(d["lifetimes"][clock]["upper"], d["lifetimes"][clock]["number"])]
    return t


def write_csv(folder: Path, named: dict[str, list[list]]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, rows in named.items():
            with open(folder / f"{name}.csv", "w", newline="") as f:
                csv.writer(f).writerows(rows)
    except OSError as error:
        raise LabError(f"can't write {folder}: {error.strerror}") from None
    print(f"{folder}: {len(named)} tables", file=sys.stderr)
