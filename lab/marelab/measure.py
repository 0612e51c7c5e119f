"""One run of one program under one allocator: what it used, as build/lab/bin/measure saw it."""

import json
import os
import signal
import subprocess
import tempfile
from dataclasses import dataclass, field

from marelab import native
from marelab.allocators import Allocator
from marelab.errors import LabError


@dataclass(frozen=True)
class Target:
    """What is run, the same way each time. Standard input is a file or empty; output goes nowhere unless asked for."""

    argv: tuple[str, ...]
    stdin: str | None = None
    timeout: float = 0.0  # seconds; 0: none
    cpus: str | None = None
    rss_limit_kib: int = 0
    spare_kib: int = 0  # keep this much of the machine's memory available
    good: tuple[int, ...] = (0,)  # exit codes that count as success
    cwd: str | None = None


@dataclass
class Outcome:
    wall_s: float
    user_s: float
    sys_s: float
    peak_kib: int
    minor_faults: int
    major_faults: int
    switches: int
    preempted: int
    exit: int
    signal: int
    killed: str | None
    left_behind: int
    exec_errno: int = 0
    stderr: str = ""
    steal_ticks: int = field(default=0)

    @property
    def cpu_s(self) -> float:
        return self.user_s + self.sys_s

    def columns(self) -> dict:
        """What every row of results says of a run."""
        return {"wall_s": f"{self.wall_s:.6f}", "user_s": f"{self.user_s:.6f}", "sys_s": f"{self.sys_s:.6f}", "cpu_s": f"{self.cpu_s:.6f}",
                "peak_kib": self.peak_kib, "minor_faults": self.minor_faults, "major_faults": self.major_faults, "switches": self.switches,
                "preempted": self.preempted, "steal_ticks": self.steal_ticks}

    def last_words(self) -> str:
        """The last line that the program wrote to standard error, to be put behind its problem."""
        said = self.stderr.strip().splitlines()
        return f"; it said: {said[-1][:200]}" if said else ""

    def problem(self, good: tuple[int, ...] = (0,)) -> str | None:
        """Why this run doesn't count, in words; None where it does."""
        if self.exec_errno:
            return f"it did not start: {os.strerror(self.exec_errno)}"
        if self.killed == "time":
            return f"it was ended at the time limit, after {self.wall_s:.0f} s"
        if self.killed == "memory":
            return f"it was ended by the memory guard at {self.peak_kib / 1024:.0f} MiB"
        if self.killed == "signal":
            return "it was interrupted"
        if self.signal:
            return f"it was ended by {signal.Signals(self.signal).name}"
        if self.exit not in good:
            return f"it ended with exit code {self.exit}"
        return None


def steal_ticks() -> int:
    """Ticks that the hypervisor took from all CPUs so far."""
    with open("/proc/stat") as f:
        words = f.readline().split()
    return int(words[8]) if len(words) > 8 else 0


def command(target: Target, allocator: Allocator, result: str, extra: dict[str, str] | None = None, stderr: str | None = None,
            stdout: str | None = None, wrap: list[str] | None = None) -> list[str]:
    """The command line of one run; `wrap` is put in front of the program (perf record …)."""
    words = [native.path("measure"), "-o", result]
    for option, value in (("-i", target.stdin), ("-O", stdout), ("-E", stderr), ("-c", target.cpus)):
        words += [option, value] if value else []
    for option, number in (("-t", target.timeout), ("-m", target.rss_limit_kib), ("-a", target.spare_kib)):
        words += [option, str(number)] if number else []
    settings = allocator.environment(os.environ) | (extra or {})
    if wrap:  # the wrapper itself must not get the allocator
        return [*words, "--", *wrap, "env", *(f"{k}={v}" for k, v in settings.items()), *target.argv]
    for name, value in settings.items():
        words += ["-e", f"{name}={value}"]
    return [*words, "--", *target.argv]


def once(target: Target, allocator: Allocator, extra: dict[str, str] | None = None, wrap: list[str] | None = None,
         stdout: str | None = None) -> Outcome:
    """Runs the target once. An outcome with a problem is returned like any other; only our own faults raise."""
    if hasattr(target, "conduct"):  # a service, which doesn't end by itself
        return target.conduct(allocator, extra, wrap)
    with tempfile.TemporaryDirectory(prefix="mare-lab-") as folder:
        result, errors = os.path.join(folder, "result"), os.path.join(folder, "stderr")
        before = steal_ticks()
        words = command(target, allocator, result, extra, errors, stdout, wrap)
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True, cwd=target.cwd)
        try:
            _, complaint = process.communicate()
        except BaseException:
            process.terminate()
            process.wait()
            raise
        if process.returncode != 0:
            raise LabError(f"the runner failed: {complaint.strip() or process.returncode}", code=1)
        with open(result) as f:
            data = json.load(f)
        with open(errors, errors="replace") as f:
            tail = f.read()[-2000:]
        return Outcome(**data, stderr=tail, steal_ticks=steal_ticks() - before)
