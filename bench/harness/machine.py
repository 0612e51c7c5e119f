"""Where and when something was measured, and how quiet it was there."""
import datetime
import os
import platform
import subprocess
import sys

from . import commands


def output(*argv):
    """The first line that a program prints, as of its version."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=20, cwd=commands.ROOT)
    except (OSError, subprocess.TimeoutExpired):
        return "–"
    lines = (done.stdout or done.stderr * (done.returncode == 0)).strip().splitlines()
    return lines[0] if lines else "–"


def cpu_model():
    with open("/proc/cpuinfo") as info:
        for line in info:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()


def facts(repetitions):
    """What every page of results begins with."""
    return {
        "date": datetime.datetime.now().isoformat(timespec="seconds"),
        "repetitions": repetitions,
        "system": f"{platform.system()} {platform.release()}, {len(os.sched_getaffinity(0))} CPUs, {cpu_model()}",
        "load before": f"{os.getloadavg()[0]:.2f}",
        "mare": output(commands.MARE, "--version") + ", commit " + output("git", "describe", "--always", "--dirty"),
    }


def warn_if_busy():
    if os.getloadavg()[0] > 0.5 * len(os.sched_getaffinity(0)):
        print(f"the machine is busy (load {os.getloadavg()[0]:.1f}): ratios will be noisy", file=sys.stderr)


def stolen():
    """(ticks stolen by neighbours, all ticks) since the machine started"""
    with open("/proc/stat") as stat:
        ticks = [int(t) for t in stat.readline().split()[1:9]]
    return ticks[7], sum(ticks)
