"""What is measured and what is to be reached: one experiment per row of the table.

An experiment is a set of labelled commands ("mare 2" = mare with two workers); each repetition runs all of them in
turn, and every figure of a finding comes from one repetition, so that neighbours on the machine hit both sides alike.
Counts are chosen so that a program takes some 0.3-0.5 s.
"""
from . import dict_rows, heap_rows, io_rows, json_rows, luaproc_rows, seeds_rows, seeing_rows, supervised_rows, together_rows
from .commands import c, erlang, go, lua, mare
from .model import Experiment, Finding, ratio


def gain(a, metric):
    """Speed with two workers against one."""
    return lambda m: m[f"{a} 2"][metric] / m[f"{a} 1"][metric]


def everyone(row, *args, program=None):
    """mare, Go and Erlang with one and two schedulers."""
    made = {}
    for n in (1, 2):
        made[f"mare {n}"] = mare(program or row, *args, workers=n)
        made[f"go {n}"] = go(row, *args, workers=n)
        made[f"erlang {n}"] = erlang(row, *args, workers=n)
    return made


def ring(size, hops, target):
    name = f"ring of {size:,}"
    findings = [Finding(f"{name}, {n} worker{'s'[:n - 1]}", ratio(f"mare {n}", f"go {n}", "hops"), ">=", target,
                        mare=(f"mare {n}",), peers=(f"go {n}", f"erlang {n}"), source="Go") for n in (1, 2)]
    findings.append(Finding(f"{name}, 2 workers against 1", gain("mare", "hops"), ">=", 0.95,
                            mare=("mare 1", "mare 2"), peers=("go 1", "go 2"), source="1 worker"))
    return Experiment(f"ring-{size}", everyone("ring", size, 1, hops), findings)


def speedup_against_go(name, work, commands, metric):
    return Experiment(name, commands, [
        Finding(f"{work}, 2 workers against 1", lambda m: gain("mare", metric)(m) / gain("go", metric)(m), ">=", 1.0,
                mare=("mare 1", "mare 2"), peers=("go 1", "go 2"), source="Go's speed-up"),
    ], metric)


def against_ceiling(name, work, commands, metric, target):
    """The ceiling is what two independent OS processes with one worker each reach in the same repetition."""
    commands["mare 1 twice"] = commands["mare 1"].twice()
    return Experiment(name, commands, [
        Finding(f"{work}, 2 workers against 1", ratio("mare 2", "mare 1 twice", metric), ">=", target,
                mare=("mare 1", "mare 2"), peers=("mare 1 twice", "go 1", "go 2"), source="2 OS processes"),
    ], metric)


def tasks(steps):
    """Calibrated steps per language: a task takes 20 µs on one core."""
    made = {}
    for n in (1, 2):
        made[f"mare {n}"] = mare("tasks", 8, 20000, steps["mare"], workers=n)
        made[f"go {n}"] = go("tasks", 8, 20000, steps["go"], workers=n)
        made[f"erlang {n}"] = erlang("tasks", 8, 20000, steps["erlang"], workers=n)
    return speedup_against_go("tasks", "tasks of 20 µs", made, "tasks")


def pingpong():
    made = everyone("pingpong", 600000)
    for n in (1, 2):
        made[f"mare {n}"] = mare("pairs", 1, 600000, workers=n)
    made["lua 1"] = lua("host", 300000, 1, directory="mare")
    findings = [Finding(f"ping-pong, {n} worker{'s'[:n - 1]}", ratio(f"mare {n}", f"go {n}", "trips"), ">=", 1.3,
                        mare=(f"mare {n}",), peers=(f"go {n}", f"erlang {n}"), source="Go") for n in (1, 2)]
    findings.append(Finding("ping-pong of a plain lua5.4 script and a process", lambda m: 1e6 / m["lua 1"]["trips"],
                            "<=", 1.0, "µs", mare=("lua 1",)))
    return Experiment("pingpong", made, findings, "trips")


def requests():
    """The more processes, the less of what a request touches lies in a cache."""
    sizes = ((10, 1000000), (1000, 1000000), (100000, 300000))
    made = {}
    for many, count in sizes:
        made[f"mare 1 {many}"] = mare("requests", many, count)
        made[f"go 1 {many}"] = go("requests", many, count)
    return Experiment("requests", made, [
        Finding(f"request and reply over {many:,} processes: time of one over 10", ratio("mare 1 10", f"mare 1 {many}", "requests"), "<=", 2.5, "x",
                ("mare 1 10", f"mare 1 {many}"), ("go 1 10", f"go 1 {many}"), source="10 processes") for many, _ in sizes[1:]
    ], "requests")


def fanout():
    made = {}
    for n in (1, 2):
        made[f"mare {n}"] = mare("fanout", 8, 27, workers=n)
        made[f"go {n}"] = go("fanout", 8, 34, workers=n)
        made[f"erlang {n}"] = erlang("fanout", 8, 32, workers=n)
    return against_ceiling("fanout", "fan-out of 8 CPU-bound tasks", made, "tasks", 0.97)


def spawn():
    made = {f"mare {n}": mare("spawn", 1000000, workers=n) for n in (1, 2)}
    made.update({f"mare {n} fresh": mare("spawn", 300000, "fresh", workers=n) for n in (1, 2)})
    for n in (1, 2):
        made[f"go {n}"] = go("spawn", 1000000, workers=n)
        made[f"erlang {n}"] = erlang("spawn", 300000, workers=n)

    def told(label, target, text):
        n = label.split()[1]
        return Finding(f"spawn and exit, {text}, {n} worker{'s' if n == '2' else ''}",
                       lambda m: m[label]["spawn"], "<=", target, "µs", (label,), (f"go {n}", f"erlang {n}"))
    return Experiment("spawn", made, [
        told("mare 1", 1.2, "recycled"), told("mare 2", 1.2, "recycled"),
        told("mare 1 fresh", 5.0, "recycling off"), told("mare 2 fresh", 5.0, "recycling off"),
    ], "spawn", "µs")


def waiting():
    made = {f"{name} 2": make("waiting", 100000, workers=2)
            for name, make in (("mare", mare), ("go", go), ("erlang", erlang))}
    peers = ("erlang 2", "go 2")
    return Experiment("waiting", made, [
        Finding("100,000 waiting processes, memory of each", lambda m: m["mare 2"]["memory"], "<=", 6.5, "KiB",
                ("mare 2",), peers, "memory"),
        Finding("100,000 waiting processes, created and woken", ratio("mare 2", "erlang 2", "both"), "<=", 3.0,
                mare=("mare 2",), peers=peers, metric="both", source="Erlang's time"),
    ], "both", "s")


def strings(name, size, count):
    made = {"mare 1": mare("messages", "strings", size, count), "c 1": c("strings", size, count),
            "erlang 1": erlang("strings", size, count), "go 1": go("strings", size, count)}
    return Experiment(f"strings-{size}", made, [
        Finding(f"strings of {name}", ratio("mare 1", "c 1", "transfers"), ">=", 0.8, mare=("mare 1",),
                peers=("c 1",), source="malloc + memcpy"),
    ], "transfers")


def tables(kind, work, count, many, target):
    made = {"mare 1": mare("messages", kind, count, many), "erlang 1": erlang(kind, count, many * 2),
            "go 1": go(kind, count, many * 4)}
    return Experiment(kind, made, [
        Finding(work, ratio("mare 1", "erlang 1", "transfers"), ">=", target, mare=("mare 1",),
                peers=("erlang 1", "go 1"), source="Erlang"),
    ], "transfers")


def ticker():
    made = {f"{name} 1": make("ticker") for name, make in (("mare", mare), ("go", go), ("erlang", erlang))}
    return Experiment("ticker", made, [
        Finding("ticks of a 10 ms ticker beside a busy loop, of 100 in 2 s", lambda m: m["mare 1"]["ticks"], ">=", 99,
                "ticks", ("mare 1",), ("go 1", "erlang 1")),
    ], "ticks", "ticks")


def fair():
    """What 100 pairs keep of their rate beside busy ones, and how these share the rest. The least of the issue is 0.38 and 1.5."""
    made, kinds = [], ((1, 1, 1, "one that computes for ever"), (1, 2, 2, "two, on two workers"),
                       (2, 1, 1, "one that computes 5 ms for each message"), (3, 1, 1, "one that yields every 5 ms"),
                       (1, 16, 1, "16 that compute for ever"))
    for kind, count, n, text in kinds:
        commands = {f"{name} {n}": make("fair", kind, count, workers=n)
                    for name, make in (("mare", mare), ("go", go), ("erlang", erlang))}
        peers = (f"go {n}", f"erlang {n}")
        findings = [Finding(f"rate that 100 pairs keep beside {text}", lambda m, n=n: m[f"mare {n}"]["kept"], ">=", 0.38,
                            mare=(f"mare {n}",), peers=peers, metric="kept", source="their own")]
        if count > 1:
            findings.append(Finding(f"the rest, {text}: most / least", lambda m, n=n: m[f"mare {n}"]["spread"], "<=", 1.5,
                                    "", (f"mare {n}",), peers, metric="spread"))
        made.append(Experiment(f"fair-{kind}-{count}", commands, findings, "kept"))
    return made


def ready():
    made = []
    for kind, text in ((1, "one that computes for ever"), (2, "one that spawns in a loop")):
        commands = {f"{name} 1": make("ready", kind) for name, make in (("mare", mare), ("go", go), ("erlang", erlang))}
        peers = ("go 1", "erlang 1")
        findings = [Finding(f"longest gap of 1,000 that yield beside {text}", lambda m: m["mare 1"]["gap"], "<=", 50, "ms",
                            ("mare 1",), peers, metric="gap")]
        if kind == 2:
            findings.append(Finding("most processes alive then", lambda m: m["mare 1"]["processes"], "<=", 11000,
                                    "processes", ("mare 1",), peers, metric="processes"))
        made.append(Experiment(f"fair-ready-{kind}", commands, findings, "gap", "ms"))
    return made


def cancel():
    made = {"mare 2": mare("cancel", 2000, workers=2), "mare 2 busy": mare("cancel", 200, "busy", workers=2)}
    return Experiment("cancel", made, [
        Finding("cancel of a parked process until its end is known, 99th percentile", lambda m: m["mare 2"]["p99"], "<=", 1, "ms",
                ("mare 2",), metric="p99"),
        Finding("cancel of a busy process until its end is known, 99th percentile", lambda m: m["mare 2 busy"]["p99"], "<=", 25, "ms",
                ("mare 2 busy",), metric="p99"),
    ], "p99", "ms")


def priority():
    """
    A high one does not interrupt who has just begun a turn, so it is late by a quantum (10 ms) at most, and the time to wake. A low one has a 16th at
    least; beside a single one that computes, whose turns are as long as its own, one turn in eleven.
    """
    return Experiment("priority", {"mare 1": mare("priority", workers=1)}, [
        Finding("ticks of a high process beside 16 that compute, 99th percentile late by", lambda m: m["mare 1"]["latest"], "<=", 12, "ms",
                ("mare 1",), (), metric="latest"),
        Finding("what a low process gets done beside a normal one", lambda m: m["mare 1"]["share"], ">=", 0.06, "of its",
                ("mare 1",), (), metric="share"),
    ], "latest", "ms")


def cpu(name, target):
    made = {"mare 1": mare(name, directory="cpu"), "lua 1": lua(name)}
    return Experiment(f"cpu-{name}", made, [
        Finding(f"CPU-bound: {name}", ratio("mare 1", "lua 1", "speed"), ">=", target, mare=("mare 1",),
                peers=("lua 1",), source="lua5.4"),
    ], "speed", "runs/s")


def message_size(size, count):
    """The seeds' table 6.1; no target but the strings above: Erlang and Go pass references."""
    made = {"mare 1": mare("messages", "strings", size, count), "erlang 1": erlang("strings", size, count),
            "go 1": go("strings", size, count)}
    return Experiment(f"size-{size}", made, [
        Finding(f"messages of {size:,} bytes", lambda m: 1e6 / m["mare 1"]["transfers"], unit="µs", mare=("mare 1",),
                peers=("erlang 1", "go 1")),
    ], "transfers")


def shared_size(size, count):
    """Buffers against what goes by reference there. Erlang's binaries of up to 64 bytes are copied."""
    made = {"mare 1": mare("messages", "buffers", size, count), "mare 1 slices": mare("messages", "slices", size, count),
            "mare 1 strings": mare("messages", "strings", size, max(200, min(count, 10 ** 10 // size))),
            "erlang 1": erlang("strings", size, count), "go 1": go("strings", size, count)}
    return Experiment(f"buffer-{size}", made, [
        Finding(f"buffers of {size:,} bytes, {text}", ratio(label, "erlang 1", "transfers"), ">=", 1.0, mare=(label, "mare 1 strings"),
                peers=("erlang 1", "go 1"), source="Erlang's binaries")
        for label, text in (("mare 1", "the same one"), ("mare 1 slices", "each time another"))
    ], "transfers")


def frozen_messages(size, mare_count, erlang_count):
    """Both go by reference."""
    made = {"mare 1": mare("messages", "frozen", size, mare_count), "erlang 1": erlang("strings", size, erlang_count)}
    return Experiment(f"frozen-messages-{size}", made, [
        Finding(f"messages of a frozen table of {size:,} bytes", ratio("mare 1", "erlang 1", "transfers"), ">=", 1.0,
                mare=("mare 1",), peers=("erlang 1",), source="Erlang's binaries"),
    ], "transfers")


def frozen_reads(kind, count, most):
    """Frozen against plain, in one process: the same loop."""
    made = {"mare 1": mare("frozen", kind, "frozen", count), "plain 1": mare("frozen", kind, "plain", count)}
    return Experiment(f"frozen-{kind}", made, [
        Finding(f"reading a frozen table: {kind}", ratio("plain 1", "mare 1", "reads"), "<=", most, "x", mare=("mare 1",),
                peers=("plain 1",), source="a plain table"),
    ], "reads")


def sorting():
    """The seeds' tables 4.4 to 4.6 in the small: `bin/mare run bench/mare/sorting.lua tables` prints them beside theirs, whose best row had 0.47."""
    made = {f"mare 2 {mode}": mare("sorting", mode, 4, 4, 150, 600, workers=2) for mode in ("sync", "simulated", "async")}
    return Experiment("sorting", made, [
        Finding("arrays sent asynchronously to who sorts them: time until the providers' summary",
                lambda m: m["mare 2 async"]["summary"] / min(m["mare 2 sync"]["summary"], m["mare 2 simulated"]["summary"]),
                mare=("mare 2 async",), peers=("mare 2 sync", "mare 2 simulated"), source="the better of the others")], "summary", "s")


def experiments(steps):
    """`steps`: {language: steps of a task of 20 µs}, from `tasks calibrate`."""
    return [
        ring(10, 2000000, 1.5), ring(100, 2000000, 1.5), ring(1000, 2000000, 1.2), ring(10000, 1000000, 1.0),
        speedup_against_go("tokens", "ring of 1,000 with 100 tokens", everyone("ring", 1000, 100, 2000000), "hops"),
        tasks(steps), pingpong(), requests(),
        against_ceiling("pairs", "8 independent pairs", everyone("pairs", 8, 600000), "trips", 0.9), fanout(),
        spawn(), waiting(), strings("100 KB", 100000, 40000), strings("1 MiB", 1048576, 4000),
        *seeds_rows.experiments(), *heap_rows.experiments(),
        tables("integers", "table of 1,000 integers", 1000, 25000, 1.5),
        tables("records", "100 nested records", 100, 8000, 0.45), sorting(), ticker(), *fair(), *ready(), priority(), cancel(),
        *[cpu(name, 0.9 if name == "generators" else 0.99)
          for name in ("fib", "nbody", "spectral", "strings", "sort", "generators")],
        *[message_size(*s) for s in ((10, 200000), (104, 200000), (1048, 200000), (10485, 100000), (104857, 20000),
                                     (1048576, 2000), (10485760, 200))],
        *[shared_size(size, 400000) for size in (64, 65536, 1 << 20, 10 << 20)],
        *[frozen_messages(size, 600000, 1000000) for size in (1000, 1000000)],
        frozen_reads("small", 20000000, 3), frozen_reads("nested", 10000000, 3), frozen_reads("large", 5000000, 6),
        frozen_reads("array", 5000000, 6), frozen_reads("records", 3000000, 6), frozen_reads("pairs", 5000000, 6),
        *io_rows.experiments(), *luaproc_rows.experiments(), *supervised_rows.experiments(), *seeing_rows.experiments(), *dict_rows.experiments(),
        *together_rows.experiments(), *json_rows.experiments(),
    ]
