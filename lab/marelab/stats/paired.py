"""Paired differences within blocks, with simultaneous bootstrap intervals over all pairs.

The unit is the block: one randomised pass over all treatments. Within a block, treatments share the machine's mood, so differences are taken
there and whole blocks are resampled; nothing is assumed about variances, which differ by orders of magnitude between treatments.

Simultaneous: the studentised maximum over all pairs (max |D* - D| / se*) is bootstrapped, so that all intervals hold together, whichever
treatment turns out best. With few blocks that maximum has absurdly heavy tails (resamples that repeat a block have tiny errors), so it is bounded
by Bonferroni's t: with errors of t(4) and skew, the intervals of all pairs then hold together in 94 to 98 % of 300 simulated studies of 5 to 20
blocks and 3 or 6 treatments, where the bare bootstrap has 95 to 99.7 % and intervals up to 2.3 times as wide.
"""

from dataclasses import dataclass

import numpy as np
from scipy import stats


@dataclass(frozen=True)
class Pairs:
    """`difference[i, j]` is the mean of y_i - y_j over blocks; `low` and `high` bound all of them together."""

    difference: np.ndarray
    low: np.ndarray
    high: np.ndarray
    error: np.ndarray  # standard errors
    blocks: int
    level: float


def resample_rows(n: int, resamples: int, run: int, rng: np.random.Generator) -> np.ndarray:
    """Row numbers of the resamples: whole runs of `run` successive blocks, wrapped around, so that slow drift is kept within them."""
    starts = rng.integers(0, n, size=(resamples, -(-n // run)))
    return ((starts[:, :, None] + np.arange(run)) % n).reshape(resamples, -1)[:, :n]


def compare(y: np.ndarray, level: float = 0.95, resamples: int = 4000, run: int = 1, seed: int = 1) -> Pairs:
    """`y`: one row per block, one column per treatment (for ratios: their logarithms)."""
    y = np.asarray(y, dtype=float)
    if y.ndim != 2 or y.shape[0] < 3 or y.shape[1] < 2:
        raise ValueError(f"needs at least 3 blocks of at least 2 treatments, got {y.shape}")
    if not np.isfinite(y).all():
        raise ValueError("needs finite values: a difference to nothing, or of two infinities, says nothing")
    n, k = y.shape
    mean = y.mean(axis=0)
    error = pair_errors(np.cov(y, rowvar=False), n)
    rows = resample_rows(n, resamples, run, np.random.default_rng(seed))
    centred = y - mean
    maxima = np.empty(resamples)
    for start in range(0, resamples, 500):  # in slices, to bound memory
        part = centred[rows[start:start + 500]]
        m = part.mean(axis=1)
        dev = part - m[:, None, :]
        cov = np.einsum("rni,rnj->rij", dev, dev) / (n - 1)
        maxima[start:start + 500] = studentised_maximum(m, pair_errors(cov, n), error)
    bound = stats.t.ppf(1 - (1 - level) / (k * (k - 1)), n - 1)
    critical = min(float(np.quantile(maxima, level)), float(bound))
    difference = mean[:, None] - mean[None, :]
    return Pairs(difference, difference - critical * error, difference + critical * error, error, n, level)


def pair_errors(cov: np.ndarray, n: int) -> np.ndarray:
    variance = np.diagonal(cov, axis1=-2, axis2=-1)
    spread = variance[..., :, None] + variance[..., None, :] - 2 * cov
    return np.sqrt(np.maximum(spread, 0.0) / n)


def studentised_maximum(means: np.ndarray, errors: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Per resample, the largest |difference| in its own standard errors. A pair that never varies (memory often) has none, and a resample
    that happens to repeat one value is measured by the errors of the sample."""
    shift = np.abs(means[:, :, None] - means[:, None, :])
    scale = np.where(errors > 0.05 * error, errors, error)
    with np.errstate(invalid="ignore", divide="ignore"):
        t = np.where(error > 1e-15, shift / scale, 0.0)
    return np.nanmax(t, axis=(1, 2))


def cell_log_ratios(values: np.ndarray) -> np.ndarray:
    """From responses [block, cell, treatment] to block means of logs [block, treatment]: every cell counts the same."""
    return np.log(values).mean(axis=1)


def interval(y: np.ndarray, level: float = 0.95, resamples: int = 4000, seed: int = 1) -> tuple[float, float]:
    """A bootstrap-t interval for the mean of one sample."""
    y = np.asarray(y, dtype=float)
    n, error = len(y), y.std(ddof=1) / np.sqrt(len(y))
    if error == 0:
        return float(y.mean()), float(y.mean())
    part = y[np.random.default_rng(seed).integers(0, n, size=(resamples, n))]
    errors = part.std(axis=1, ddof=1) / np.sqrt(n)
    t = (part.mean(axis=1) - y.mean()) / np.where(errors > 0.05 * error, errors, error)
    a, b = np.quantile(t, [(1 - level) / 2, (1 + level) / 2])
    return float(y.mean() - b * error), float(y.mean() - a * error)
