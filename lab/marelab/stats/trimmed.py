"""Trimmed means of paired differences, and bounds of each treatment's distance to the best one, whichever that is.

The unit is the block: one randomised pass over all treatments. Differences are taken within it, so what a block's runs share falls out. Of the
differences of a pair a quarter at each end is left out and the rest averaged: what is estimated is the difference of typical runs, and a few runs
that were disturbed move it little. Its standard error comes from the Winsorised variance (Yuen 1974): sw² (n - 1) / (h (h - 1)), where h of n
values are kept; it is compared with Student's t of h - 1 degrees of freedom. Every pair has its own error; none is pooled.

Three families of comparisons, each of which holds together at the level (Bonferroni):
- all treatments with the best. Who that is isn't known, so bounds are taken over the *candidates*: those not shown to be worse than any other
  (Hsu 1981). The true best is one of them whenever its own k - 1 comparisons hold;
- one treatment, fixed beforehand, with each other: k - 1 comparisons, too;
- all ordered pairs, k (k - 1): wider bounds, which hold for any two, also where many candidates make the first family vague.
A lower bound of the distance to the best may come from any of them, since the distance to the best is at least that to any other one.
"""

from dataclasses import dataclass

import numpy as np
from scipy import stats

TRIM = 0.25
LEAST = 4  # values of which two are kept


@dataclass(frozen=True)
class Pairs:
    """`difference[i, j]` is the trimmed mean of y_i - y_j over blocks, `error` its standard error; `kept` of `blocks` values count."""

    difference: np.ndarray
    error: np.ndarray
    blocks: int
    kept: int

    def critical(self, comparisons: int, level: float = 0.95) -> float:
        """Student's t that so many two-sided comparisons hold together."""
        return float(stats.t.ppf(1 - (1 - level) / (2 * comparisons), self.kept - 1))


def kept(blocks: int) -> int:
    return blocks - 2 * int(TRIM * blocks)


def mean(y: np.ndarray, axis: int = 0) -> np.ndarray:
    return stats.trim_mean(y, TRIM, axis=axis)


def error(y: np.ndarray, trim: float = TRIM, axis: int = 0) -> np.ndarray:
    """The standard error of the trimmed mean along the axis."""
    n = y.shape[axis]
    cut = int(trim * n)
    h = n - 2 * cut
    ordered = np.sort(y, axis=axis)
    winsorised = np.clip(y, *(np.take(ordered, [k], axis=axis) for k in (cut, n - 1 - cut)))  # as scipy.stats.mstats.winsorize, of all pairs at once
    return np.sqrt(winsorised.var(axis=axis, ddof=1) * (n - 1) / (h * (h - 1)))


def pairs(y: np.ndarray) -> Pairs:
    """`y`: one row per block, one column per treatment (for ratios: their logarithms)."""
    y = np.asarray(y, dtype=float)
    if y.ndim != 2 or y.shape[0] < LEAST or y.shape[1] < 2:
        raise ValueError(f"needs at least {LEAST} blocks of at least 2 treatments, got {y.shape}")
    d = y[:, :, None] - y[:, None, :]
    return Pairs(mean(d), error(d), y.shape[0], kept(y.shape[0]))


@dataclass(frozen=True)
class Distance:
    """Of each treatment to the best one: how much larger it is. `best` is the one that is least beaten; the true one is among `candidates`."""

    best: int
    candidates: list[int]
    estimate: np.ndarray
    low: np.ndarray
    high: np.ndarray


def candidates(p: Pairs, level: float = 0.95) -> list[int]:
    """Those that may be the best (smallest): not shown to be worse than any other."""
    k = len(p.difference)
    low = p.difference - p.critical(k - 1, level) * p.error
    np.fill_diagonal(low, 0.0)
    return [i for i in range(k) if low[i].max() <= 0]


def to_best(p: Pairs, fixed: int | None = None, level: float = 0.95) -> Distance:
    """`fixed`: a treatment chosen beforehand, whose own comparisons with all others are made."""
    k = len(p.difference)
    reach = p.critical(k - 1, level) * p.error
    best = int(np.argmin(p.difference.max(axis=1)))
    may = candidates(p, level) or [best]
    low = (p.difference - reach)[:, may].min(axis=1)
    high = (p.difference + reach)[:, may].max(axis=1)
    low = np.maximum(low, (p.difference - p.critical(k * (k - 1), level) * p.error).max(axis=1))
    if fixed is not None:
        low[fixed] = max(low[fixed], (p.difference - reach)[fixed].max())
    low = np.maximum(low, 0.0)
    high = np.maximum(high, low)
    return Distance(best, may, np.clip(p.difference[:, best], low, high), low, high)
