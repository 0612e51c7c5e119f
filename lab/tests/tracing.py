"""What tests share: running a case under the tracer and describing all its processes; waiting for what another process does."""

import os
import subprocess
import time
from pathlib import Path

from marelab import describe, format, trace

BUILD = Path(__file__).resolve().parents[2] / "build" / "lab"


def case(name: str) -> str:
    return str(BUILD / "cases" / name)


def record(tmp_path, *argv, name="t", **options) -> format.Trace:
    options.setdefault("stdin", subprocess.DEVNULL)
    options.setdefault("timeout", 300)
    return trace.record([str(a) for a in argv], tmp_path / name, **options)


def descriptions(t: format.Trace) -> list[dict]:
    return [describe.describe(t, i.name) for i in t.images]


def number_of(d: dict, size: int) -> int:
    """How many allocations of exactly this size."""
    return dict(zip(d["sizes"]["size"], d["sizes"]["number"])).get(size, 0)


def total_of(t: format.Trace, size: int) -> int:
    return sum(number_of(d, size) for d in descriptions(t))


def assert_sound(t: format.Trace) -> None:
    """Nothing lost, nothing impossible, no block freed that wasn't allocated (in processes that inherited none)."""
    assert t.header["complete"] and t.header["lost_events"] == 0 and t.header["untraced_processes"] == 0
    forked = {f"{p['pid']}-{p['image']}" for p in t.header["processes"] if p["forked"]}
    for i, d in zip(t.images, descriptions(t)):
        assert (d["order"]["impossible_steps"], d["order"]["relaxed_waits"]) == (0, 0), i.name
        assert i.name in forked or d["frees"]["unknown"] == 0


def over(library: str) -> dict:
    """The environment in which another allocator is below the tracer."""
    return os.environ | {"LD_PRELOAD": library}


def wait_until(what, seconds: float = 300, pause: float = 0.01) -> None:
    """Until what() holds, which takes as long as the machine's other work makes it take."""
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(pause)


def ended(pid: str) -> bool:
    """Whether the process is gone, or only waits for its parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def said(file: Path) -> str:
    """What stands in a file that a program under test writes, once it is there."""
    wait_until(lambda: file.exists() and file.read_text().strip())
    return file.read_text().strip()
