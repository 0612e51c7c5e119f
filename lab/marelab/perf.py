"""Linux's perf, as far as it may be used here: the words that record, and those that show what was recorded."""

import functools
import shutil
import subprocess
import tempfile

USER, ALL = "cpu-clock:u", "cpu-clock"  # needs no hardware counters; the second one includes the kernel's own time


def record(event: str, data: str, *options: str) -> list[str]:
    """To be put in front of a program. Without BPF events, whose start-up costs a second, and without looking up build ids."""
    return ["perf", "record", "-q", "-e", event, "--no-bpf-event", "-B", "-N", *options, "-o", data, "--"]


def script(data: str, fields: str, *options: str) -> str:
    """What was recorded, as text."""
    words = ["perf", "script", "-i", data, *options, "-F", fields]
    return subprocess.run(words, capture_output=True, text=True, errors="replace").stdout


def allowed(event: str) -> bool:
    if not shutil.which("perf"):
        return False
    with tempfile.TemporaryDirectory(prefix="mare-lab-") as folder:
        r = subprocess.run([*record(event, f"{folder}/p"), "true"], capture_output=True, text=True)
        return r.returncode == 0 and "restricted" not in r.stderr


@functools.cache
def works() -> bool:
    return allowed(USER)
