"""Figures to text: the table, the Markdown page and the plot. What the figures say is stats.py's matter."""
from .stats import summary


def human(value):
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def plain(value):
    """Three significant digits without an exponent."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


class Result:
    """A finding with its values, one per complete repetition."""

    def __init__(self, experiment, finding, repetitions):
        self.experiment, self.finding = experiment, finding
        self.repetitions = repetitions
        self.values = [finding.of(r) for r in repetitions if self._computable(r)]

    def _computable(self, repetition):
        try:
            self.finding.of(repetition)
        except (KeyError, ZeroDivisionError):
            return False
        return True

    @property
    def reached(self):
        f = self.finding
        if not f.sense:
            return ""
        if not self.values:
            return "not measured"
        return summary(self.values).verdict(f.sense, f.target)

    @property
    def score(self):
        """(mean, low, high) as fractions of the target, 1 = just reached, more is better."""
        s = summary([v / self.finding.target if self.finding.sense == ">=" else self.finding.target / max(v, 1e-9) for v in self.values])
        return (s.mean, s.mean, s.mean) if s.low is None else (s.mean, s.low, s.high)

    def shown(self, labels):
        metric = self.finding.metric or self.experiment.metric
        unit = self.finding.unit if self.finding.metric and self.finding.unit != "×" else self.experiment.unit
        parts = []
        for label in labels:
            values = [r[label][metric] for r in self.repetitions if metric in r.get(label, {})]
            if values:
                parts.append(f"{label}: {human(summary(values).mean)}{'' if unit == '/s' else ' '}{unit}")
        return ", ".join(parts) or "–"

    def cells(self):
        f = self.finding
        figure = summary(self.values).text(plain, f.unit) if self.values else "–"
        sign = {">=": "≥", "<=": "≤", "": ""}[f.sense]
        target = f"{sign} {f.target:g} {f.unit}" + (f" {f.source}" if f.source else "") if f.sense else ""
        return [f.work, self.shown(f.mare), self.shown(f.peers), figure, target, self.reached]


HEADINGS = ["work", "mare", "peers", "reached: mean [95 % interval]", "target", "target reached"]


def terminal(results):
    for result in results:
        work, mine, peers, figure, target, reached = result.cells()
        print(f"{work}\n    {figure}" + (f"   target {target}: {reached}" if target else ""))
        print(f"    {mine}   |   {peers}")


def table(headings, rows):
    return ["| " + " | ".join(headings) + " |", "|" + "---|" * len(headings)] + ["| " + " | ".join(row) + " |" for row in rows]


def markdown(known, picture):
    """`known`: (experiment, run, results, figures) for each; the runs are numbered, the newest is 1."""
    runs = sorted({id(run): run for _, run, _, _ in known}.values(), key=lambda run: run.facts["date"], reverse=True)
    number = {id(run): str(n + 1) for n, run in enumerate(runs)}
    lines = ["# Results", "",
             "Written by `bench/run`; how it is measured and how to read it: `docs/benchmarks.md`. Each row is from the newest run that has it: its last "
             "column is the number of that run, and what the runs were stands at the end. Geometric means of the repetitions, with intervals that hold the true "
             "value in 95 of 100 cases; a ratio is taken inside one repetition. “noise”: the interval holds the target, so the run can't tell.", ""]
    lines += table(HEADINGS + ["run"], [r.cells() + [number[id(run)]] for _, run, results, _ in known for r in results])
    if picture:
        lines += ["", f"![targets](data/{picture})"]
    lines += ["", "## Every program", "", "Label: language and schedulers; “twice”: two OS processes at the same time, their rates summed.", ""]
    lines += table(["experiment", "program", "metric", "mean", "least", "most", "run"],
                   [[experiment.name, label, metric, human(summary(values).mean), human(min(values)), human(max(values)), number[id(run)]]
                    for experiment, run, _, figures in known for label, metric, values in figures])
    lines += ["", "## The runs"]
    for run in runs:
        lines += ["", f"### Run {number[id(run)]}", "", f"- command: `{run.command}`"] + [f"- {key}: {value}" for key, value in run.facts.items()]
        lines += [f"- not measured: {name}: {why}" for name, why in sorted(run.failures.items())]
    return "\n".join(lines) + "\n"


def plot(results, path, title):
    """One bar per target: how much of it was reached. Returns False when matplotlib is missing."""
    try:
        import matplotlib
        matplotlib.use("svg")
        from matplotlib import pyplot
    except ImportError:
        return False
    shown = [r for r in results if r.finding.sense and r.values][::-1]
    if not shown:
        return True
    scores = [r.score for r in shown]
    figure, axes = pyplot.subplots(figsize=(10, 0.32 * len(shown) + 1.6), layout="constrained")
    middles = [s[0] for s in scores]
    errors = [[s[0] - s[1] for s in scores], [s[2] - s[0] for s in scores]]
    colours = ["#2b7a8c" if m >= 1 else "#c0603c" for m in middles]
    axes.barh([r.finding.work for r in shown], middles, xerr=errors, color=colours, ecolor="#444444", height=0.7)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.set_xticks([0.25, 0.5, 1, 2, 4], ["¼", "½", "1", "2", "4"])
    axes.minorticks_off()
    axes.set_xlabel("reached, as a fraction of the target (1 = the target; bars: mean, whiskers: 95 % interval)")
    axes.set_title(title, fontsize=10)
    figure.savefig(path)
    pyplot.close(figure)
    return True
