"""Comparisons of means after an analysis of variance: Tukey's honest differences with homogeneous groups, and Games-Howell where variances differ."""

import functools
from dataclasses import dataclass
from string import ascii_lowercase

import numpy as np
from scipy import stats


@dataclass(frozen=True)
class Comparison:
    names: list[str]
    means: np.ndarray
    counts: np.ndarray
    difference: np.ndarray  # [i, j] = mean i - mean j
    low: np.ndarray
    high: np.ndarray
    different: np.ndarray  # the interval leaves zero out
    groups: list[str]  # letters: who shares one is not shown to differ
    alpha: float
    p: np.ndarray | None = None


def letters(means: np.ndarray, different: np.ndarray) -> list[str]:
    """Homogeneous groups by insert and absorb: begin with one group of all, split at each difference, drop groups inside others. A treatment gets
    the letters of all its groups, so groups overlap as the differences demand."""
    k = len(means)
    order = np.argsort(means, kind="stable")
    groups = [frozenset(range(k))]
    for a in range(k):
        for b in range(a + 1, k):
            i, j = int(order[a]), int(order[b])
            if not different[i, j]:
                continue
            split = []
            for g in groups:
                split += [g - {i}, g - {j}] if i in g and j in g else [g]
            groups = [g for g in set(split) if not any(g < h for h in split)]
    place = {int(t): r for r, t in enumerate(order)}
    groups.sort(key=lambda g: (min(place[t] for t in g), max(place[t] for t in g)))
    return [" ".join(label(n) for n, g in enumerate(groups) if t in g) if len(groups) > 26 else
            "".join(label(n) for n, g in enumerate(groups) if t in g) for t in range(k)]


def label(n: int) -> str:
    return ascii_lowercase[n] if n < 26 else ascii_lowercase[n // 26 - 1] + ascii_lowercase[n % 26]


@functools.lru_cache(maxsize=512)
def critical(alpha: float, k: int, df: float) -> float:
    """Of the studentised range. It takes milliseconds to compute, many tables share one, and beyond so many degrees of freedom nothing changes."""
    return float(stats.studentized_range.ppf(1 - alpha, k, min(df, 100_000)))


def tukey(names: list[str], means, counts, mse: float, df: float, alpha: float = 0.05) -> Comparison:
    """Tukey's HSD (Tukey-Kramer where counts differ) with the error of an analysis of variance."""
    means, counts = np.asarray(means, float), np.asarray(counts, float)
    half = critical(alpha, len(means), df) * np.sqrt(mse / 2 * (1 / counts[:, None] + 1 / counts[None, :]))
    difference = means[:, None] - means[None, :]
    different = np.abs(difference) > half
    np.fill_diagonal(different, False)
    return Comparison(list(names), means, counts, difference, difference - half, difference + half, different, letters(means, different), alpha)


def games_howell(names: list[str], samples: list[np.ndarray], alpha: float = 0.05) -> Comparison:
    """Every pair with its own variances and degrees of freedom (Welch), against the studentised range."""
    samples = [np.asarray(s, float) for s in samples]
    k = len(samples)
    means = np.array([s.mean() for s in samples])
    counts = np.array([len(s) for s in samples], float)
    share = np.array([s.var(ddof=1) / len(s) for s in samples])
    both = share[:, None] + share[None, :]
    with np.errstate(invalid="ignore", divide="ignore"):
        df = both**2 / (share[:, None] ** 2 / (counts[:, None] - 1) + share[None, :] ** 2 / (counts[None, :] - 1))
    difference = means[:, None] - means[None, :]
    half, p = np.zeros((k, k)), np.ones((k, k))
    for i in range(k):
        for j in range(i + 1, k):
            se = np.sqrt(both[i, j] / 2)
            if se == 0:
                p[i, j] = p[j, i] = float(difference[i, j] == 0)
                continue
            half[i, j] = half[j, i] = critical(alpha, k, df[i, j]) * se
            p[i, j] = p[j, i] = float(np.clip(stats.studentized_range.sf(abs(difference[i, j]) / se, k, df[i, j]), 0, 1))
    different = np.abs(difference) > half
    np.fill_diagonal(different, False)
    return Comparison(list(names), means, counts, difference, difference - half, difference + half, different, letters(means, different), alpha, p)


def mean_interval(means, counts, mse: float, df: float, level: float = 0.95) -> np.ndarray:
    """Half widths of the intervals of means with the pooled error, as in the study's figures."""
    return stats.t.ppf((1 + level) / 2, df) * np.sqrt(mse / np.asarray(counts, float))
