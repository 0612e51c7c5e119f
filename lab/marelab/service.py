"""A service as what is measured: started under an allocator, put under load when it is ready, left alone for a moment, ended by a signal.

What is said of a run: seconds per request (the inverse of the load's own rate), its latencies, CPU time of the service per request, its memory under load and
after a moment without, over time in memory.csv. CPU and memory are those of the service's processes, found by their session and their parents; the load's
are not among them, and the load doesn't get the allocator.
"""

import contextlib
import os
import shlex
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from marelab import loads, measure, quick
from marelab.allocators import Allocator
from marelab.beside import Beside
from marelab.errors import LabError

EVERY = 0.1  # seconds between two looks at memory
PATIENCE = 10.0  # seconds that it may take to end
IDLE = 1.0  # seconds after the load, where nothing else is said
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Service(measure.Target):
    ready: str | None = None  # a command that succeeds when it is; else it is ready as soon as it listens
    load: str = ""
    stop: str | None = None  # a command that ends it; else SIGTERM
    idle: float = 1.0  # seconds after the load
    read: dict = field(default_factory=dict)  # regular expressions for the load's output; else it is known

    def conduct(self, allocator: Allocator, extra: dict[str, str] | None, wrap: list[str] | None) -> "Run":
        return once(self, allocator, extra, wrap)


@dataclass
class Run(measure.Outcome):
    said: loads.Said | None = None
    cpu_before: float = 0.0  # of the service, until the load
    idle_kib: int = 0
    whole_s: float = 0.0  # with its start and its end
    failure: str | None = None
    memory: list[tuple[float, int]] = field(default_factory=list)  # seconds since the start, KiB

    def columns(self) -> dict:
        requests = (self.said.requests or self.said.rps * self.wall_s) if self.said else 0.0
        latency = self.said.latency if self.said else {}
        return {**super().columns(), "request_s": f"{1 / self.said.rps if self.said else 0:.9f}",
                "request_cpu_s": f"{self.cpu_s / requests if requests else 0:.9f}", "idle_kib": self.idle_kib,
                **{f"{p}_s": f"{latency[p] / 1e3:.9f}" if p in latency else "" for p in ("p50", "p99", "p999")}}

    def problem(self, good: tuple[int, ...] = (0,)) -> str | None:
        return self.failure


# ---- the service's processes ----

def processes(session: int) -> dict[int, list[str]]:
    """Those of the session and their descendants: pid → the fields of its stat behind the name."""
    found: dict[int, list[str]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            with contextlib.suppress(OSError, IndexError):
                found[int(entry)] = Path(f"/proc/{entry}/stat").read_text(errors="replace").rpartition(") ")[2].split()
    ours = {p for p, f in found.items() if int(f[3]) == session}
    while True:
        more = {p for p, f in found.items() if int(f[1]) in ours} - ours
        if not more:
            return {p: found[p] for p in ours}
        ours |= more


def cpu_seconds(session: int) -> tuple[float, float]:
    """User and system time of all of them, ended children with them."""
    stats = processes(session).values()
    return tuple(sum(int(f[a]) + int(f[b]) for f in stats) / TICKS for a, b in ((11, 13), (12, 14)))


def memory_kib(session: int) -> int:
    """Proportional shares, so that what workers share counts once."""
    total = 0
    for pid in processes(session):
        with contextlib.suppress(OSError):
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
            total += int(text.partition("\nPss:")[2].split(None, 1)[0])
    return total


def listens(session: int) -> bool:
    """Whether one of them has a socket that listens."""
    waiting = set()
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            waiting |= {f[9] for f in (line.split() for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]) if f[3] == "0A"}
    with contextlib.suppress(OSError):
        waiting |= {f[6] for f in (line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]) if f[3] == "00010000"}
    for pid in processes(session):
        with contextlib.suppress(OSError):
            for fd in os.scandir(f"/proc/{pid}/fd"):
                link = os.readlink(fd.path)
                if link.startswith("socket:[") and link[8:-1] in waiting:
                    return True
    return False


class Sampler(Beside):
    """Looks at its memory now and then, until it is left."""

    def __init__(self, session: int, began: float):
        super().__init__(EVERY)
        self.session, self.began, self.seen = session, began, []

    def look(self) -> None:
        kib = memory_kib(self.session)
        if kib:
            self.seen.append((time.monotonic() - self.began, kib))


# ---- one run ----

def once(goal: Service, allocator: Allocator, extra: dict[str, str] | None = None, wrap: list[str] | None = None) -> Run:
    settings = allocator.environment(os.environ) | (extra or {})
    words = [*(["taskset", "-c", goal.cpus] if goal.cpus else []), *goal.argv]
    words = [*wrap, "env", *(f"{k}={v}" for k, v in settings.items()), *words] if wrap else words
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        began, before = time.monotonic(), measure.steal_ticks()
        process = subprocess.Popen(words, env=None if wrap else os.environ | settings, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors,
                                   start_new_session=True, cwd=goal.cwd)
        try:
            run = under_load(goal, process, began)
            ended = end(goal, process)
        finally:
            kill(process)
        errors.seek(0)
        run.stderr, run.steal_ticks = errors.read()[-2000:], measure.steal_ticks() - before
        run.failure, run.whole_s = run.failure or ended, time.monotonic() - began
        return run


def under_load(goal: Service, process: subprocess.Popen, began: float) -> Run:
    run = Run(0.0, 0.0, 0.0, 0, 0, 0, 0, 0, 0, 0, None, 0)
    run.failure = become_ready(goal, process, began)
    if run.failure:
        return run
    with Sampler(process.pid, began) as sampler:
        user, system = cpu_seconds(process.pid)
        start = time.monotonic()
        text, run.failure = put_load(goal)
        run.wall_s = time.monotonic() - start
        after = cpu_seconds(process.pid)
        run.user_s, run.sys_s, run.cpu_before = after[0] - user, after[1] - system, user + system
        if not run.failure and process.poll() is not None:
            run.failure = f"the service ended during the load, {how(process.returncode)}"
        loaded = len(sampler.seen)
        time.sleep(goal.idle)
    run.memory = sampler.seen
    run.peak_kib = max((kib for _, kib in sampler.seen[:max(loaded, 1)]), default=0)
    run.idle_kib = sampler.seen[-1][1] if sampler.seen else 0
    if not run.failure:
        run.said = loads.read(text, goal.read)
        run.failure = judge(text, run.said)
    return run


def judge(text: str, said: loads.Said | None) -> str | None:
    if said is None and loads.served_nothing(text):
        return "the load says that no request was answered: the service is too slow, its address is wrong, or --ready must say when it answers"
    if said is None:
        last = (text.strip().splitlines() or ["nothing"])[-1][:200]
        return f"the load's output says no requests per second that is understood (known are {', '.join(loads.READERS)}; others by --read); it ended with: {last}"
    return f"requests failed: {said.failed}" if said.failed else None


def become_ready(goal: Service, process: subprocess.Popen, began: float) -> str | None:
    while process.poll() is None:
        if goal.ready:
            r = subprocess.run(goal.ready, shell=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=goal.timeout or None,
                               cwd=goal.cwd)
            if r.returncode == 0:
                return None
        elif listens(process.pid):
            return None
        if goal.timeout and time.monotonic() - began > goal.timeout:
            return f"the service was not ready within {goal.timeout:g} s" + ("" if goal.ready else ": it listens nowhere; --ready 'COMMAND' says how to find out")
        time.sleep(0.02)
    return f"the service ended before it was ready, {how(process.returncode)}"


def put_load(goal: Service) -> tuple[str, str | None]:
    process = subprocess.Popen(goal.load, shell=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
                               start_new_session=True, cwd=goal.cwd)
    try:
        out, err = process.communicate(timeout=goal.timeout or None)
    except subprocess.TimeoutExpired:
        return "", f"the load did not end within {goal.timeout:g} s; --timeout sets more"
    finally:
        kill(process)  # with what the shell has started for it
    if process.returncode:
        return out, f"the load ended {how(process.returncode)}: {(err.strip() or out.strip() or 'without a word').splitlines()[-1][:200]}"
    return out + err, None


def how(code: int) -> str:
    return f"with exit code {code}" if code >= 0 else f"by {signal.Signals(-code).name}"


def end(goal: Service, process: subprocess.Popen) -> str | None:
    """Asks it to end; a failure where it doesn't, or ends by a crash."""
    if process.poll() is None:
        if goal.stop:
            subprocess.run(goal.stop, shell=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=PATIENCE, cwd=goal.cwd)
        else:
            process.terminate()
    try:
        code = process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        return f"the service did not end within {PATIENCE:g} s of {'its stop command' if goal.stop else 'SIGTERM'}"
    crashes = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE}
    return f"the service ended {how(code)}" if -code in crashes or code - 128 in crashes else None


def kill(process: subprocess.Popen) -> None:
    """Whatever is left of it; when it has gone, so that its port is free for the next run."""
    for pid in [*processes(process.pid), *([] if process.poll() is not None else [process.pid])]:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + PATIENCE
    while processes(process.pid) and time.monotonic() < deadline:
        time.sleep(0.01)


def idle(args) -> float:
    """Seconds after the load."""
    return args.idle if args.idle is not None else quick.IDLE if quick.limit_of(args) else IDLE


def target_of(args, spare_kib: int) -> Service:
    """From the options of choose."""
    try:
        argv = tuple(shlex.split(args.serve))
    except ValueError as e:
        raise LabError(f"--serve: {e}") from None
    if not args.load:
        raise LabError("--serve needs --load 'COMMAND', a load generator such as  wrk -d2 --latency http://127.0.0.1:8080/")
    return Service(argv, timeout=args.timeout, cpus=args.cpus, spare_kib=spare_kib, ready=args.ready, load=args.load, stop=args.stop, idle=idle(args),
                   read=loads.patterns(args.read))


def words(args) -> list[str]:
    """Its options, as a command line says them."""
    if not args.serve:
        return []
    found = ["--serve", args.serve, *(w for p in args.read for w in ("--read", p)), *([] if args.idle is None else ["--idle", f"{args.idle:g}"])]
    return found + [w for o, v in (("--ready", args.ready), ("--load", args.load), ("--stop", args.stop)) if v for w in (o, v)]


def about(goal: measure.Target) -> dict | None:
    """For the result; None of a program."""
    if not isinstance(goal, Service):
        return None
    return {"ready": goal.ready, "load": goal.load, "stop": goal.stop, "idle": goal.idle, "read": {k: p.pattern for k, p in goal.read.items()}}
