"""A picture for each question that people ask, drawn from the runs that were kept.

Each picture is one row of panels; a panel compares programs in one figure, and says in its title whether more or less is better. A bar is the geometric
mean of the repetitions, the line at its end the 95 % interval, the number the mean. Nothing is measured here, and nothing is left out of a panel because
mare loses in it.
"""
import os
from dataclasses import dataclass

from . import commands
from .report import human
from .stats import summary

FOLDER = os.path.join(commands.ROOT, "docs", "pictures")
COLOURS = {"mare": "#2b7a8c", "go": "#8fa3ad", "erlang": "#b5a191", "node": "#a9b08f", "c": "#9a8fb0", "lua": "#c3b27f", "mimalloc": "#b0938f", "nginx": "#93a98f"}
MORE, LESS = "more is better", "less is better"


@dataclass(frozen=True)
class Bar:
    name: str
    label: str   # as the experiment's program is called
    colour: str


@dataclass(frozen=True)
class Panel:
    title: str
    better: str
    experiment: str
    metric: str
    bars: tuple
    unit: str = ""


def bars(schedulers, *languages):
    names = {"mare": "mare", "go": "Go", "erlang": "Erlang", "node": "Node", "c": "C", "lua": "lua5.4", "mimalloc": "lua5.4, mimalloc"}
    return tuple(Bar(names[language], f"{language} {schedulers}", language) for language in languages)


def ring(n):
    return Panel(f"messages a second round\na ring of {n:,} processes", MORE, f"ring-{n}", "hops", bars(1, "mare", "go", "erlang"))


THREE = ("mare", "go", "erlang")
SPAWN = Panel("time to start a process\nand wait for its end", LESS, "spawn", "spawn", bars(1, *THREE), "µs")
WEB = Panel("small web pages a second,\n64 connections, two cores", MORE, "web", "requests",
            (Bar("mare", "mare 2", "mare"), Bar("Go", "go 2", "go"), Bar("Node", "node 1", "node")))
RECORDS = Panel("a hundred records to another\nprocess, times a second", MORE, "records", "transfers", bars(1, "mare", "erlang", "go"))

PICTURES = {
    "overview": (ring(1000), SPAWN, WEB, RECORDS),
    "messages": (ring(10), ring(1000), ring(10000), Panel("there and back, times a second,\nbetween two processes", MORE, "pingpong", "trips", bars(1, *THREE))),
    "processes": (SPAWN, Panel("100,000 processes made\nand woken once, two cores", LESS, "waiting", "both", bars(2, *THREE), "s"),
                  Panel("memory of a waiting process", LESS, "waiting", "memory", bars(2, *THREE), "KiB")),
    "data": (Panel("a table of 1,000 integers,\ntimes a second", MORE, "integers", "transfers", bars(1, "mare", "erlang", "go")), RECORDS,
             Panel("a string of 1 MiB, copied,\ntimes a second", MORE, "strings-1048576", "transfers", bars(1, "mare", "c"))),
    "fairness": (Panel("rate that 100 pairs keep beside\none process that computes for ever", MORE, "fair-1-1", "kept", bars(1, *THREE)),
                 Panel("the same beside sixteen", MORE, "fair-1-16", "kept", bars(1, *THREE)),
                 Panel("latest of 100 ticks of 10 ms\nbeside a process that computes", LESS, "ticker", "latest", bars(1, *THREE), "ms")),
    "web": (Panel("mare.http: a small file, times a\nsecond, 64 connections, two cores", MORE, "http", "requests",
                  (Bar("mare", "mare 2 file", "mare"), Bar("nginx", "nginx 2 file", "nginx"))), WEB, Panel("the server's CPU time\nfor a page", LESS, "web", "cpu", WEB.bars, "µs"),
            Panel("memory of an idle connection", LESS, "connections", "memory",
                  (Bar("with a process", "mare 2 process", "mare"), Bar("with a fiber", "mare 2 fiber", "mare")), "KiB")),
    "heaps": tuple(Panel(f"script {script!r}: time", LESS, "heap-scripts", "time",
                         tuple(Bar(bar.name, f"{bar.label.split()[0]}{' 1' * (bar.colour == 'mare')} {script}", bar.colour)
                               for bar in bars(1, "mare", "lua", "mimalloc")), "s") for script in ("tables", "strings", "json", "large")),
}


def values(panel, kept):
    """{label: values of all repetitions} of the newest run that has the experiment, and that run; ({}, None) if none has."""
    for run in kept:
        if run.has(panel.experiment):
            return {bar.label: [r[bar.label][panel.metric] for r in run.taken[panel.experiment] if panel.metric in r.get(bar.label, ())] for bar in panel.bars}, run
    return {}, None


def draw_panel(axes, panel, found):
    shown = [bar for bar in panel.bars if found.get(bar.label)][::-1]
    known = [summary(found[bar.label]) for bar in shown]
    errors = [[s.mean - (s.mean if s.low is None else s.low) for s in known], [(s.mean if s.high is None else s.high) - s.mean for s in known]]
    axes.barh([bar.name for bar in shown], [s.mean for s in known], xerr=errors, color=[COLOURS[bar.colour] for bar in shown], ecolor="#444444", height=0.72)
    furthest = max(s.mean if s.high is None else s.high for s in known)
    for place, s in enumerate(known):
        axes.text((s.mean if s.high is None else s.high) + furthest * 0.03, place, f"{human(s.mean)} {panel.unit}".strip(), va="center", fontsize=9)
    axes.set_xlim(0, furthest * 1.32)
    axes.set_xticks([])
    axes.tick_params(left=False, labelsize=9.5)
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.set_title(panel.title, fontsize=9.5, loc="left")
    axes.set_xlabel(panel.better, fontsize=8, loc="left", color="#555555")
    for name in axes.get_yticklabels():
        if name.get_text() == "mare":
            name.set_fontweight("bold")


def draw(panels, kept, path):
    """False if no run has any of its figures."""
    from matplotlib import pyplot
    known = [(panel, *values(panel, kept)) for panel in panels]
    known = [(panel, found, run) for panel, found, run in known if any(found.values())]
    if not known:
        return False
    most = max(len(panel.bars) for panel, _, _ in known)
    figure, all_axes = pyplot.subplots(1, len(known), figsize=(2.9 * len(known), 0.95 + 0.33 * most), layout="constrained", squeeze=False)
    for axes, (panel, found, _) in zip(all_axes[0], known):
        draw_panel(axes, panel, found)
    dates = sorted({run.facts["date"][:10] for _, _, run in known})
    figure.supxlabel(f"{known[0][2].facts['system']}; {', '.join(dates)}; lines: 95 % intervals", fontsize=7, color="#777777", x=0.995, ha="right")
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
    return True


def publish(kept, folder=FOLDER):
    """Draws all of them; returns their paths. None where matplotlib is missing."""
    try:
        import matplotlib
    except ImportError:
        return None
    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "mare",      # the same figures give the same file
                                "svg.fonttype": "none",      # text stays text: small files, and it can be searched and read aloud
                                "font.family": ["DejaVu Sans", "sans-serif"]})
    os.makedirs(folder, exist_ok=True)
    paths = [(panels, os.path.join(folder, name + ".svg")) for name, panels in PICTURES.items()]
    return [path for panels, path in paths if draw(panels, kept, path)]
