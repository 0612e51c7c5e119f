"""Resident memory over time under each allocator: one more run of each, looked at from outside. For the page only; nothing is judged by it.

What is seen is the resident memory of the largest process of the program's family, as for the peak that is compared. A picture needs some hundred points: when there
are more than MOST, every second one goes, and it is looked at half as often from then on.
"""

import contextlib
import os
import subprocess
import tempfile
import time
from pathlib import Path

from marelab import measure
from marelab.allocators import Allocator
from marelab.errors import LabError

MOST, LEAST_PAUSE = 400, 0.002
PAGE_KIB = os.sysconf("SC_PAGE_SIZE") / 1024


def over_time(goal: measure.Target, used: list[Allocator], most: float, usual: dict[str, float]) -> tuple[dict[str, dict], dict[str, str]]:
    """Allocator → seconds and KiB, and allocator → why it has none. All runs together have `most` seconds; `usual` is how long one takes."""
    until, found, missing = time.monotonic() + most, {}, {}
    for a in used:
        if time.monotonic() + usual.get(a.name, 0.0) >= until:
            missing[a.name] = f"it would take longer than the {most:g} s that all of them have"
            continue
        try:
            found[a.name] = dict(zip(("seconds", "kib"), watch(goal, a)))
        except (LabError, OSError) as error:
            missing[a.name] = str(error)
    return found, missing


def watch(goal: measure.Target, allocator: Allocator) -> tuple[list[float], list[int]]:
    seconds, kib = [], []
    with tempfile.TemporaryDirectory(prefix="mare-lab-") as folder:
        words = measure.command(goal, allocator, os.path.join(folder, "result"), stderr=os.devnull)
        runner = subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, cwd=goal.cwd)
        began, pause = time.monotonic(), LEAST_PAUSE
        try:
            while runner.poll() is None:
                now = largest(runner.pid)
                if now:
                    seconds.append(time.monotonic() - began)
                    kib.append(now)
                if len(seconds) > MOST:
                    seconds, kib, pause = seconds[1::2], kib[1::2], pause * 2
                time.sleep(pause)
        except BaseException:
            runner.terminate()  # which ends the program
            runner.wait()
            raise
    if runner.returncode:
        raise LabError("the runner failed", code=1)
    return seconds, kib


def largest(runner: int) -> int:
    """KiB of the largest process below the runner."""
    most, waiting = 0, children(runner)
    while waiting:
        pid = waiting.pop()
        waiting += children(pid)
        with contextlib.suppress(OSError, IndexError, ValueError):
            most = max(most, int(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_KIB))
    return most


def children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.scandir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                found += map(int, Path(task.path, "children").read_text().split())
    return found
