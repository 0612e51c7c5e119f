"""What is measured of a run: the responses of choose, their columns in runs.csv, and what they are called.

A program that ends has run time, CPU time and peak memory; a service has them per request, latencies, and memory after the load. `PROGRAM` and `SERVICE` are
the keys of each, the deciding ones first.
"""

COLUMNS = {"wall": "wall_s", "cpu": "cpu_s", "peak": "peak_kib", "faults": "minor_faults",
           "request": "request_s", "request-cpu": "request_cpu_s", "p50": "p50_s", "p99": "p99_s", "p999": "p999_s", "idle": "idle_kib"}
PROGRAM, SERVICE = ("wall", "cpu", "peak", "faults"), ("request", "request-cpu", "peak", "p50", "p99", "p999", "idle")
DECIDING = {k: COLUMNS[k] for k in ("wall", "cpu", "peak")}  # those of a program that --response may name
NAMES = {"wall": "run time", "cpu": "CPU time", "peak": "peak memory", "faults": "page faults", "request": "time per request",
         "request-cpu": "CPU time per request", "p50": "median latency", "p99": "latency of 99 in 100", "p999": "latency of 999 in 1000", "idle": "memory after the load"}
UNITS = {"peak": ("MiB", 1 / 1024), "idle": ("MiB", 1 / 1024), "faults": ("", 1), "wall": ("s", 1), "cpu": ("s", 1), "request": ("µs", 1e6), "request-cpu": ("µs", 1e6),
         "p50": ("ms", 1e3), "p99": ("ms", 1e3), "p999": ("ms", 1e3)}  # and by how much the column's value is multiplied
FLOORS = {"wall_s": 1e-6, "cpu_s": 1e-4, "peak_kib": 1.0, "minor_faults": 1.0, "request_s": 1e-9, "request_cpu_s": 1e-9, "idle_kib": 1.0}
PAGE = 4096


def floor(column: str) -> float:
    """What is less is taken for this much: a ratio to nothing says nothing. Of memory that is a page."""
    return FLOORS.get(column, PAGE if column.endswith("_bytes") else 1e-9)


def of(result: dict) -> list[str]:
    """The responses that a result has."""
    return list(result["standings"] or PROGRAM)


def other(response: str, keys) -> str:
    """Beside which a response is looked at: memory beside time, and time beside memory."""
    return keys[0] if response in ("peak", "idle") else "peak"


def measured(rows: list[dict[str, str]]) -> list[str]:
    """The responses of these runs. Not every load generator says all latencies."""
    keys = SERVICE if rows and "request_s" in rows[0] else PROGRAM
    return [k for k in keys if all(r.get(COLUMNS[k]) for r in rows if not r["problem"])]
