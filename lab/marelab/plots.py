"""Figures as SVG text, to be put into the page. One colour per allocator throughout; intervals are always drawn; zero is never faked."""

import io
import re

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402
import matplotlib.ticker  # noqa: E402
import numpy as np  # noqa: E402
from scipy import stats as sp  # noqa: E402

from marelab import units  # noqa: E402

# Okabe and Ito's palette, which colour-blind readers can tell apart
# the page has lighter ones for the dark (--c0 …)
PALETTE = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#c98500", "#3a9bd6", "#666666", "#8b5a2b", "#000000", "#aa3377"]
MARKERS = "osD^vPX*<>"
MOST_SIZES = 1000  # lines in the figure of sizes
STYLE = {"svg.fonttype": "none", "font.family": "sans-serif", "font.size": 9.5, "axes.spines.top": False, "axes.spines.right": False,
         "axes.edgecolor": "#888888", "axes.labelcolor": "#333333", "xtick.color": "#333333", "ytick.color": "#333333", "text.color": "#333333",
         "axes.grid": True,
         "grid.color": "#e6e6e6", "grid.linewidth": 0.8, "axes.axisbelow": True, "legend.frameon": False, "figure.dpi": 96}

VARIABLES = {"#333333": "--ink", "#888888": "--soft", "#777777": "--soft", "#999999": "--soft", "#e6e6e6": "--line", "#dcefe6": "--band", "#ffffff": "--paper", "#000000": "--ink",
             "#8a94a3": "--soft"} | {c: f"--c{i}" for i, c in enumerate(PALETTE) if c != "#000000"}


def colours(names: list[str]) -> dict[str, str]:
    return {n: PALETTE[i % len(PALETTE)] for i, n in enumerate(names)}


def markers(names: list[str]) -> dict[str, str]:
    return {n: MARKERS[i % len(MARKERS)] for i, n in enumerate(names)}


def svg(figure, title: str) -> str:
    """The figure as an <svg> element that scales with the page and has a title for screen readers."""
    out = io.StringIO()
    figure.savefig(out, format="svg", bbox_inches="tight", transparent=True, metadata={"Date": None, "Creator": None})
    plt.close(figure)
    text = out.getvalue()
    text = text[text.index("<svg"):]
    text = re.sub(r'(<svg[^>]*?) width="[^"]*pt" height="[^"]*pt"', r'\1 role="img" preserveAspectRatio="xMidYMid"', text, count=1)
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    for colour, variable in VARIABLES.items():  # the page's, which are others in the dark
        text = text.replace(colour, f"var({variable})")
    return re.sub(r"(<svg[^>]*>)", lambda m: m[1] + f"<title>{escape(title)}</title>", text, count=1)


def escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def log_axis(axis, low: float, high: float) -> None:
    """A logarithmic axis with few, plain ticks: 1, 2, 5 of each decade, or only its tenths where the range is long."""
    (axis.axes.set_xscale if axis.axis_name == "x" else axis.axes.set_yscale)("log")
    decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    ticks = [m * 10.0**d for d in decades for m in ((1, 2, 5) if len(decades) < 4 else (1,)) if low / 1.3 <= m * 10.0**d <= high * 1.3]
    axis.set_ticks(ticks, [f"{t:,.0f}".replace(",", " ") if t >= 1 else f"{t:g}" for t in ticks])
    axis.set_minor_locator(matplotlib.ticker.NullLocator())


def ratio_dots(lines: list[dict], margin: float | None, label: str, colour: dict[str, str], present: str | None = None) -> str:
    """Ratio to the best with its interval, one line per allocator; the band is what does not matter."""
    with plt.rc_context(STYLE):
        fig, ax = plt.subplots(figsize=(5.2, 0.42 * len(lines) + 0.9))
        if margin:
            ax.axvspan(1, 1 + margin, color="#dcefe6", zorder=0, lw=0)
        ax.axvline(1, color="#777777", lw=1)
        for i, x in enumerate(lines):
            ax.plot([x["low"], x["high"]], [i, i], color=colour[x["name"]], lw=2.2, solid_capstyle="butt")
            ax.plot(x["ratio"], i, "o", color=colour[x["name"]], ms=7)
        ax.set_yticks(range(len(lines)), [x["name"] + ("  (today)" if x["name"] == present else "") for x in lines])
        ax.invert_yaxis()
        ax.set_xlabel(label)
        low, high = min(x["low"] for x in lines), max(x["high"] for x in lines)
        if high > 3 * max(x["ratio"] for x in lines) or high > 8:
            log_axis(ax.xaxis, low, high)
        ax.grid(axis="y", visible=False)
        return svg(fig, label)


def front(time: list[dict], memory: list[dict], on_front: list[str], colour: dict[str, str], units: tuple[str, str]) -> str:
    """Time against memory, in times of the best of each; who is on the front is filled."""
    mem = {x["name"]: x for x in memory}
    marker = markers(list(colour))
    with plt.rc_context(STYLE):
        fig, ax = plt.subplots(figsize=(5.0, 3.7))
        for x in time:
            y = mem[x["name"]]
            ax.errorbar(
                x["ratio"],
                y["ratio"],
                xerr=[[x["ratio"] - x["low"]], [x["high"] - x["ratio"]]],
                yerr=[[y["ratio"] - y["low"]], [y["high"] - y["ratio"]]],
                fmt=marker[x["name"]],
                color=colour[x["name"]],
                ms=8,
                lw=1,
                capsize=2,
                mfc=colour[x["name"]] if x["name"] in on_front else "white",
                mew=1.6,
                label=x["name"],
            )
        ax.set_xlabel(f"{units[0]}, times the best")
        ax.set_ylabel(f"{units[1]}, times the best")
        ax.legend(loc="lower center", bbox_to_anchor=(0.45, 1.0), ncol=3, fontsize=8.5, columnspacing=1.2, handletextpad=0.4)
        return svg(fig, "time against memory; filled: nobody beats it in both")


def search(candidates: list[dict], by: list[str], words: dict[str, str], final: list[str], colour: dict[str, str]) -> str:
    """Every candidate by two responses, in times of today's allocator: small and hollow, but for those that were measured afresh."""
    found = [c for c in candidates if all(r in c for r in by)]
    marker = markers(list(colour))
    with plt.rc_context(STYLE):
        fig, ax = plt.subplots(figsize=(5.0, 3.7))
        rest = [c for c in found if c["name"] not in final]
        ax.plot([c[by[0]] for c in rest], [c[by[1]] for c in rest], "o", ms=4, mfc="none", mec="#8a94a3", mew=1, ls="", label="others")
        for c in found:
            if c["name"] in final:
                ax.plot(c[by[0]], c[by[1]], marker[c["name"]], ms=8, color=colour[c["name"]], ls="", label=c["name"])
        ax.axvline(1, lw=0.8, color="#8a94a3")
        ax.axhline(1, lw=0.8, color="#8a94a3")
        ax.set_xlabel(f"{words[by[0]]}, times today's")
        ax.set_ylabel(f"{words[by[1]]}, times today's")
        ax.legend(loc="lower center", bbox_to_anchor=(0.45, 1.0), ncol=3, fontsize=8.5, columnspacing=1.2, handletextpad=0.4)
        return svg(fig, "all candidates of the search")


def means(tables: dict[str, dict], by: str, label: str, colour: dict[str, str], log: bool) -> str:
    """Means with 95 % intervals over the levels of one factor, one line per allocator: the form of the study's figures 5.3 to 5.54."""
    marker = markers(list(colour))
    with plt.rc_context(STYLE):
        fig, ax = plt.subplots(figsize=(5.4, 3.2))
        levels: list[str] = []
        for i, (name, lines) in enumerate(tables.items()):
            levels = levels or [x["level"] for x in lines]
            shift = (i - (len(tables) - 1) / 2) * 0.04
            at = np.arange(len(lines)) + shift
            y = np.array([x["mean"] for x in lines])
            ax.errorbar(at, y, yerr=[y - [x["low"] for x in lines], np.array([x["high"] for x in lines]) - y], fmt=marker[name] + "-", ms=5, lw=1.2,
                        capsize=2, color=colour[name], label=name)
        ax.set_xticks(range(len(levels)), levels)
        ax.set_xlabel(by)
        ax.set_ylabel(label)
        if log:
            low, high = ([x[k] for t in tables.values() for x in t] for k in ("low", "high"))
            log_axis(ax.yaxis, min(low), max(high))
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncol=3, fontsize=8.5, columnspacing=1.2, handletextpad=0.4)
        return svg(fig, f"{label} by {by}")


def residuals(values: np.ndarray, label: str) -> str:
    """Residuals in the order of running, and against the normal distribution."""
    v = np.asarray(values, float)
    keep = v[:: max(1, len(v) // 1500)]
    with plt.rc_context(STYLE):
        fig, (a, b) = plt.subplots(1, 2, figsize=(7.4, 2.6))
        a.plot(np.linspace(1, len(v), len(keep)), keep, ".", ms=2.5, color=PALETTE[0])
        a.set_xlabel("order of running")
        a.set_ylabel(f"residual, {label}")
        q = sp.norm.ppf((np.arange(len(keep)) + 0.5) / len(keep)) * (v.std() or 1)
        b.plot(q, np.sort(keep), ".", ms=2.5, color=PALETTE[0])
        b.plot(q, q, color="#999999", lw=1)
        b.set_xlabel("if they were normal")
        fig.tight_layout()
        return svg(fig, f"residuals of {label}")


def sizes(size: list[int], number: list[int]) -> str:
    """How many allocations of each size, as the study's distribution figures."""
    with plt.rc_context(STYLE):
        fig, ax = plt.subplots(figsize=(5.2, 2.4))
        if len(size) > MOST_SIZES:  # together in sixteenths of an octave
            at = np.round(np.log2(np.maximum(size, 1)) * 16)
            size, number = (2 ** (np.unique(at) / 16)).tolist(), [float(np.sum(np.array(number)[at == a])) for a in np.unique(at)]
        ax.vlines(size, 0, np.array(number) / max(1, sum(number)) * 100, color=PALETTE[0], lw=1.4)
        ax.set_xscale("log", base=2)
        ax.set_xlabel("bytes asked for")
        ax.set_ylabel("% of allocations")
        ax.set_ylim(bottom=0)
        ticks = [t for t in (2**i for i in range(0, 41, 3)) if min(size) / 2 <= t <= max(size) * 2]
        ax.set_xticks(ticks, [units.size(t) for t in ticks])
        ax.minorticks_off()
        return svg(fig, "sizes")
