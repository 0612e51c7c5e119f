"""Figures of a description, as the study's: sizes (4.3), long-lived allocations (4.4), shares (4.19, 4.20); and what it lacked: live memory and
lifetimes."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from marelab import programs
from marelab.errors import LabError

INK, SOFT = "#1b4f72", "#aed6f1"


def frame(title: str, x: str, y: str):
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    axes.set(title=title, xlabel=x, ylabel=y)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def sizes(d: dict):
    """4.3, 4.5 …: the cumulated share of allocations up to each size."""
    figure, axes = frame("Sizes", "size (bytes)", "allocations up to this size (%)")
    number = np.array(d["sizes"]["number"], dtype=float)
    axes.step(d["sizes"]["size"], 100 * np.cumsum(number) / number.sum(), where="post", color=INK)
    axes.set_xscale("symlog", base=2, linthresh=1)
    axes.set_ylim(0, 101)
    return figure


def long_lived(d: dict):
    """4.4, 4.6 …: long-lived allocations, cumulated per block of 1000 operations."""
    figure, axes = frame("Long-lived allocations", f"blocks of {d['long_lived']['block_operations']} operations", "allocations, cumulated")
    axes.plot(np.arange(1, len(d["long_lived"]["cumulative"]) + 1), d["long_lived"]["cumulative"], color=INK)
    axes.set_ylim(bottom=0)
    return figure


def top_ten(d: dict):
    """4.19: the shares of the ten most frequent sizes."""
    top = d["allocations"]["top_sizes"]
    share = 100 * d["allocations"]["top_ten_share"]
    figure, axes = frame(f"The ten most frequent sizes: {share:.1f} % of all allocations", "size (bytes)", "share (%)")
    axes.bar([str(s["size"]) for s in top], [100 * s["share"] for s in top], color=INK)
    return figure


def retention(d: dict):
    """4.20: short, medium and long retention; of the last, what was never freed."""
    r = d["retention"]
    figure, axes = frame("Retention", "share of the allocations (%)", "")
    left = 0.0
    never = 100 * r["never_freed"]["share"]
    parts = [(k, 100 * r[k]["share"]) for k in ("short", "medium")] + [("long", 100 * r["long"]["share"] - never), ("never freed", never)]
    for (name, share), colour in zip(parts, ("#d6eaf8", "#85c1e9", "#2e86c1", "#1b2631")):
        axes.barh([""], [share], left=left, color=colour, label=f"{name} {share:.1f} %")
        left += share
    axes.legend(ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.15), frameon=False)
    return figure


def live(d: dict):
    figure, axes = frame("Live memory", "time (s)", "bytes alive (MB)")
    axes.fill_between(d["live"]["curve"]["seconds"], np.array(d["live"]["curve"]["bytes"]) / 1e6, step="pre", color=SOFT)
    axes.axhline(d["live"]["peak_bytes"] / 1e6, color=INK, linewidth=0.8, linestyle="--")
    axes.set_ylim(bottom=0)
    return figure


def lifetimes(d: dict):
    figure, axes = frame("Lifetimes on the allocation clock", "operations lived", "blocks up to this lifetime (%)")
    h = d["lifetimes"]["operations"]
    number = np.array(h["number"], dtype=float)
    total = number.sum() + d["lifetimes"]["never_freed"]
    axes.step(h["upper"], 100 * np.cumsum(number) / max(total, 1), where="post", color=INK)
    axes.set_xscale("symlog", base=10, linthresh=1)
    axes.set_ylim(0, 101)
    return figure


def programs_top_ten(found: list[dict]):
    """4.19: the share of the ten most frequent sizes, program by program."""
    figure, axes = frame("The ten most frequent sizes", "", "share of the allocations (%)")
    axes.bar(programs.names(found), [100 * d["allocations"]["top_ten_share"] for d in found], color=INK)
    axes.tick_params(axis="x", rotation=30)
    axes.set_ylim(0, 101)
    return figure


def programs_retention(found: list[dict]):
    """4.20: short, medium and long retention, program by program."""
    figure, axes = frame("Retention", "share of the allocations (%)", "")
    left = np.zeros(len(found))
    for name, colour in zip(("short", "medium", "long"), ("#d6eaf8", "#85c1e9", "#2e86c1")):
        share = np.array([100 * d["retention"][name]["share"] for d in found])
        axes.barh(programs.names(found), share, left=left, color=colour, label=name)
        left += share
    axes.legend(ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.15), frameon=False)
    return figure


FIGURES = {"sizes": sizes, "long_lived": long_lived, "top_ten": top_ten, "retention": retention, "live": live, "lifetimes": lifetimes}
OF_PROGRAMS = {"top_ten": programs_top_ten, "retention": programs_retention}


def draw(folder: Path, d: dict) -> list[Path]:
    if not d["allocations"]["number"]:
        raise LabError("nothing was allocated, so there is nothing to draw")
    return save(folder, FIGURES, d)


def draw_programs(folder: Path, found: list[dict]) -> list[Path]:
    return save(folder, OF_PROGRAMS, found)


def save(folder: Path, figures: dict, what) -> list[Path]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LabError(f"can't make {folder}: {error.strerror}") from None
    paths = []
    for name, make in figures.items():
        figure = make(what)
        paths.append(folder / f"{name}.svg")
        figure.savefig(paths[-1])
        plt.close(figure)
    return paths
