"""own.py DIR: the table of docs/lab-mare.md from a study by own.toml. CPU time of a cell and an allocator is the least of the blocks, since whatever
else the machine does only adds; bytes are the blocks' mean. A figure is the geometric mean over the cells of its ratio to the best allocator of the cell,
and in brackets the worst of these ratios.
"""

import sys
from collections import defaultdict
from pathlib import Path
from statistics import fmean, geometric_mean

from marelab import rows
from marelab.errors import LabError

SHOWN = {"out_cpu_seconds": ("CPU time", min), "out_peak_bytes": ("peak", fmean), "out_after_bytes": ("after the frees", fmean)}


def by_cell(runs: list[dict[str, str]], column: str, of_blocks) -> dict[str, dict[str, float]]:
    """One figure for each cell and allocator."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for r in runs:
        found[r["cell"]][r["allocator"]].append(float(r[column]))
    return {cell: {name: of_blocks(values) for name, values in names.items()} for cell, names in found.items()}


def ratios(cells: dict[str, dict[str, float]]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = defaultdict(list)
    for cell in cells.values():
        best = min(cell.values())
        for name, value in cell.items():
            found[name].append(value / best)
    return found


def shown(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:,.0f}"


def main(folder: str) -> None:
    _, all_runs, _ = rows.read(Path(folder) / "runs.csv")
    bad = [r for r in all_runs if r["problem"]]
    if bad:
        sys.exit(f"{folder}: {len(bad)} runs failed, the first: {bad[0]['command']}: {bad[0]['problem']}")
    runs = [r for r in all_runs if r["warm_up"] == "0"]
    table = {column: ratios(by_cell(runs, column, of_blocks)) for column, (_, of_blocks) in SHOWN.items()}
    cpu = table["out_cpu_seconds"]
    if not cpu or len({len(r) for r in cpu.values()}) != 1:
        sys.exit(f"{folder}: not every allocator has run in every cell; let the study go on first")
    print(f"| {len(next(iter(cpu.values())))} cells | " + " | ".join(title for title, _ in SHOWN.values()) + " |\n|---|" + "---|" * len(SHOWN))
    for name in sorted(cpu, key=lambda n: geometric_mean(cpu[n])):
        print(f"| {name} | " + " | ".join(f"{shown(geometric_mean(table[c][name]))} ({shown(max(table[c][name]))})" for c in SHOWN) + " |")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    try:
        main(sys.argv[1])
    except LabError as e:
        sys.exit(str(e))
