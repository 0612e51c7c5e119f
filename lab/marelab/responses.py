"""What is measured of a run: the responses of choose, their columns in runs.csv, and what they are called."""

DECIDING = {"wall": "wall_s", "cpu": "cpu_s", "peak": "peak_kib"}  # those that --response may name
COLUMNS = {**DECIDING, "faults": "minor_faults"}
NAMES = {"wall": "run time", "cpu": "CPU time", "peak": "peak memory", "faults": "page faults"}
FLOORS = {"wall_s": 1e-6, "cpu_s": 1e-4, "peak_kib": 1.0, "minor_faults": 1.0}
PAGE = 4096


def floor(column: str) -> float:
    """What is less is taken for this much: a ratio to nothing says nothing. Of memory that is a page."""
    return FLOORS.get(column, PAGE if column.endswith("_bytes") else 1e-9)
