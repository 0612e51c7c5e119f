"""Several programs side by side: the study's tables 4.21 to 4.23, its retention shares (figure 4.20) and patterns, and their averages."""

import os

import numpy as np

ROUTINES = ("malloc", "realloc", "calloc", "aligned")
RETENTION = ("short", "medium", "long")


def names(descriptions: list[dict]) -> list[str]:
    """The programs' names, told apart by their traces where they are the same."""
    plain = [os.path.basename((d["process"]["command"] or d["trace"]["command"] or ["?"])[0]) for d in descriptions]
    return [f"{n} ({os.path.basename(d['trace']['folder'].rstrip('/'))})" if plain.count(n) > 1 else n for n, d in zip(plain, descriptions)]


def tables(descriptions: list[dict]) -> dict[str, list[list]]:
    rows = list(zip(names(descriptions), descriptions))
    return {
        "memory": [["program", "allocations", "megabytes", "mean_bytes", "distinct_sizes", "top_ten_share"],
                   *([n, a["number"], a["megabytes"], a["mean"], a["distinct_sizes"], a["top_ten_share"]]
                     for n, d in rows for a in [d["allocations"]])],
        "routines": [["program", *ROUTINES], *([n, *(d["allocations"]["routines"][r]["share"] for r in ROUTINES)] for n, d in rows)],
        "frees": [["program", "frees", "null_share", "by_another_thread_share"],
                  *([n, f["number"], f["null_share"], f["by_another_thread_share"]] for n, d in rows for f in [d["frees"]])],
        "retention": [["program", *RETENTION, "never_freed", "pattern"],
                      *([n, *(d["retention"][k]["share"] for k in (*RETENTION, "never_freed")), d["pattern"]["name"]] for n, d in rows)],
    }


def shown(name: str, value) -> str:
    if isinstance(value, str):
        return value
    if name.endswith("_share") or name in (*ROUTINES, *RETENTION, "never_freed"):
        return f"{100 * value:.2f} %"
    return f"{value:,.2f}" if isinstance(value, float) else f"{value:,}"


def text(descriptions: list[dict]) -> str:
    blocks = []
    for head, *rows in tables(descriptions).values():
        columns = list(zip(*rows))
        average = ["average", *(float(np.mean(c)) if not isinstance(c[0], str) else "" for c in columns[1:])]
        cells = [[h.replace("_share", "").replace("_", " ") for h in head], *([shown(h, v) for h, v in zip(head, row)] for row in (*rows, average))]
        widths = [max(map(len, column)) for column in zip(*cells)]
        lines = ("  ".join(v.ljust(w) if i == 0 else v.rjust(w) for i, (v, w) in enumerate(zip(row, widths))) for row in cells)
        blocks.append("\n".join(line.rstrip() for line in lines))
    return "\n\n".join(blocks)
