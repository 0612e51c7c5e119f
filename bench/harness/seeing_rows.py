"""What it costs to be seen: a list of all processes, a trace, a profile. The trace is made when the program has told its time, so it is not in it."""
import atexit
import contextlib
import os
import tempfile

from .commands import MARE, mare
from .model import Experiment, Finding, ratio


def remove(path):
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)


def experiments():
    trace = os.path.join(tempfile.gettempdir(), f"mare-bench-{os.getpid()}.json")
    atexit.register(remove, trace)
    ring = {"mare 1": (), "traced 1": ("--trace", trace, "--trace-size", "16M"), "profiled 1": ("--profile", "/dev/null")}
    return [
        Experiment("list", {"mare 1": mare("list", 100000)}, [
            Finding("process.list of 100,000 processes", lambda m: m["mare 1"]["list"], "<=", 50, "ms", ("mare 1",)),
        ], "list", "ms"),
        Experiment("seen", {name: mare("ring", 10, 1, 2000000, options=options) for name, options in ring.items()}, [
            Finding("ring of 10 under --trace: time", ratio("mare 1", "traced 1", "hops"), "<=", 1.15, mare=("traced 1",), peers=("mare 1",), source="without"),
            Finding("ring of 10 under --profile: time", ratio("mare 1", "profiled 1", "hops"), "<=", 1.05, mare=("profiled 1",), peers=("mare 1",), source="without"),
        ], "hops"),
        Experiment("explore", {"mare 1": mare("explore", MARE, 2000)}, [
            Finding("schedules of a small test tried by mare explore", lambda m: m["mare 1"]["schedules"], ">=", 200, "/s", ("mare 1",)),
        ], "schedules", "/s"),
        Experiment("explore sockets", {"mare 1": mare("explore", MARE, 2000, "sockets")}, [
            Finding("schedules of a small test over connections tried by mare explore", lambda m: m["mare 1"]["schedules"], ">=", 200, "/s", ("mare 1",)),
        ], "schedules", "/s"),
    ]
