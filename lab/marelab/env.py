"""The environment that a figure belongs to: the machine once, and what may change, in every row."""

import datetime
import os
import platform
import re
from pathlib import Path

from marelab.allocators import Allocator, c_library, fingerprint, package_version, version

VARIABLES = re.compile(r"MALLOC_|GLIBC_TUNABLES$|LD_PRELOAD$|MIMALLOC_|TCMALLOC_|TBB_|JE_|RPMALLOC_|SNMALLOC_")


def read(path: str, default: str = "") -> str:
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError:
        return default


def chosen(text: str) -> str:
    """always [madvise] never → madvise"""
    m = re.search(r"\[(\w+)\]", text)
    return m[1] if m else text


def cpu_model() -> str:
    m = re.search(r"^(?:model name|Hardware|CPU part)\s*:\s*(.*)$", read("/proc/cpuinfo"), re.M)
    return m[1] if m else platform.machine()


def meminfo(name: str) -> int:
    m = re.search(rf"^{name}:\s+(\d+)", read("/proc/meminfo"), re.M)
    return int(m[1]) if m else 0


def spare_kib() -> int:
    """The memory guard: a tenth of the machine, but at most 1 GiB, must stay available."""
    return min(meminfo("MemTotal") // 10, 1 << 20)


def machine() -> dict:
    """Facts that do not change while we measure."""
    virtual = "hypervisor" in read("/proc/cpuinfo").split("flags", 1)[-1].split("\n", 1)[0]
    return {
        "when": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "cpu": cpu_model(),
        "cpus": os.cpu_count(),
        "affinity": affinity(),
        "memory_mib": meminfo("MemTotal") // 1024,
        "virtual": virtual,
        "kernel": platform.release(),
        "libc": package_version(c_library()) or f"glibc {os.confstr('CS_GNU_LIBC_VERSION')}",
        "system": next((m[1] for m in [re.search(r'^PRETTY_NAME="?(.*?)"?$', read("/etc/os-release"), re.M)] if m), platform.system()),
        "thp": chosen(read("/sys/kernel/mm/transparent_hugepage/enabled", "unknown")),
        "aslr": read("/proc/sys/kernel/randomize_va_space", "unknown"),
        "governor": read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "unknown"),
        "load": read("/proc/loadavg"),
        "variables": variables(),
    }


def affinity() -> str:
    cpus = sorted(os.sched_getaffinity(0))
    return ",".join(map(str, cpus))


def variables(environ=os.environ) -> dict[str, str]:
    return {k: v for k, v in sorted(environ.items()) if VARIABLES.match(k)}


def row(allocator: Allocator, cpus: str | None = None) -> dict:
    """What every row of results says about where it was measured."""
    settings = variables(dict(os.environ) | allocator.environment(os.environ))
    return {
        "allocator": allocator.name,
        "version": version(allocator),
        "sha256": fingerprint(allocator.objects[0]),
        "affinity": cpus or affinity(),
        "thp": chosen(read("/sys/kernel/mm/transparent_hugepage/enabled", "unknown")),
        "libc": package_version(c_library()) or str(os.confstr("CS_GNU_LIBC_VERSION")),
        "kernel": platform.release(),
        "cpu": cpu_model(),
        "load": read("/proc/loadavg").split(" ")[0],
        "variables": " ".join(f"{k}={v}" for k, v in settings.items()),
    }
