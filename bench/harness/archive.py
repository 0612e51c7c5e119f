"""The runs that were kept, bench/data/<date>.json, and what is known by them: of each experiment its newest figures.

So a run of a part replaces the rows of that part, and no others.
"""
import glob
import json
import os

from .commands import BENCH
from .report import Result

FOLDER = os.path.join(BENCH, "data")


class Run:
    def __init__(self, kept):
        self.command, self.facts, self.failures = kept["command"], kept["machine"], kept["failures"]
        self.taken = kept["runs"]       # {experiment: [{label: metrics}, one for each repetition]}

    def has(self, name):
        return any(self.taken.get(name, ()))


def keep(run, results):
    """Writes the run to the archive, with the values of its findings for other readers; returns the path without its ending."""
    base = os.path.join(FOLDER, run.facts["date"][:16].replace(":", ""))
    os.makedirs(FOLDER, exist_ok=True)
    with open(base + ".json", "w") as file:
        json.dump({"command": run.command, "machine": run.facts, "runs": run.taken, "failures": run.failures,
                   "results": [{"work": r.finding.work, "values": r.values, "sense": r.finding.sense,
                                "target": r.finding.target, "unit": r.finding.unit, "reached": r.reached}
                               for r in results]}, file, indent=1, ensure_ascii=False)
    return base


def runs():
    """The newest first. Other measurements are kept in the folder, too: their names don't begin with a date."""
    for path in sorted(glob.glob(os.path.join(FOLDER, "[0-9]*.json")), reverse=True):
        with open(path) as file:
            yield Run(json.load(file))


def newest(experiments, kept):
    """[(experiment, run)]: those of which one of the runs has figures, each with the first that has them."""
    found = [(e, next((r for r in kept if r.has(e.name)), None)) for e in experiments]
    return [(e, r) for e, r in found if r]


def results_of(experiment, run):
    return [Result(experiment, finding, run.taken[experiment.name]) for finding in experiment.findings]


def figures(experiment, run):
    """(label, metric, values of all repetitions), for all programs of the experiment"""
    for label in experiment.commands:
        repetitions = [r[label] for r in run.taken[experiment.name] if label in r]
        for metric in (repetitions[0] if repetitions else ()):
            yield label, metric, [r[metric] for r in repetitions if metric in r]
