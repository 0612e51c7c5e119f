"""What figures from several repetitions say, by the laboratory's own method (lab/marelab/stats/paired.py): the repetition is the block.

A figure is taken inside one repetition, and all of them are compared as logarithms: their geometric mean, and an interval that holds the true value
in 95 of 100 cases, by bootstrap over the repetitions, bounded by Student's t where few of them make that too wild.
"""
import os
import sys
from dataclasses import dataclass
from typing import Optional

import numpy as np

from .commands import ROOT

sys.path.append(os.path.join(ROOT, "lab"))
from marelab.stats import paired  # noqa: E402

LEAST = 3       # repetitions, for an interval
SMALLEST = 1e-9  # what is less is taken for this: a ratio to nothing says nothing


@dataclass(frozen=True)
class Summary:
    mean: float
    low: Optional[float]   # None: too few repetitions
    high: Optional[float]

    def text(self, shown, unit=""):
        """`shown` makes text of a number."""
        unit = f" {unit}" if unit else ""
        if self.low is None:
            return f"{shown(self.mean)}{unit}"
        return f"{shown(self.mean)}{unit} [{shown(self.low)}, {shown(self.high)}]"

    def verdict(self, sense, target):
        """yes or no by the mean; "noise" is added when the interval holds the target."""
        good = "yes" if (self.mean >= target if sense == ">=" else self.mean <= target) else "no"
        if self.low is None:
            return good + " (no interval)"
        return good + (" (noise)" if self.low < target < self.high else "")


def summary(values):
    logs = np.log(np.maximum(np.asarray(values, dtype=float), SMALLEST))
    mean = float(np.exp(logs.mean()))
    if len(logs) < LEAST or not np.isfinite(logs).all():  # of an infinite value nothing can be said but that
        return Summary(mean, None, None)
    pairs = paired.compare(np.column_stack([logs, np.zeros(len(logs))]))  # to one that is always 1
    return Summary(mean, float(np.exp(pairs.low[0, 1])), float(np.exp(pairs.high[0, 1])))
