"""Whether the residuals are what an analysis of variance assumes, and if not, how far from it."""

from dataclasses import dataclass

import numpy as np
from scipy import stats


@dataclass(frozen=True)
class Diagnosis:
    variance_ratio: float  # 95th over 5th percentile of the cells' variances; 1 would be equal
    levene_p: float  # Brown-Forsythe over cells (of at most 200 cells)
    skew: float
    kurtosis: float  # excess; 0 for a normal distribution
    normal_p: float
    autocorrelation: float  # of residuals in the order of running, lag 1
    drift: float  # correlation of residuals with the order of running
    sentences: tuple[str, ...]


def diagnose(cells: list[np.ndarray], in_order: np.ndarray | None = None, log: bool = True) -> Diagnosis:
    """`cells`: values per cell. `in_order`: residuals in the order the runs were made."""
    cells = [np.asarray(c, float) for c in cells if len(c) > 1]
    residuals = np.concatenate([c - c.mean() for c in cells])
    variances = np.array([c.var(ddof=1) for c in cells])
    positive = variances[variances > 0]
    ratio = float(np.percentile(positive, 95) / np.percentile(positive, 5)) if len(positive) > 1 else 1.0
    step = max(1, len(cells) // 200)
    some = [c for c in cells[::step] if c.std() > 0]
    levene = float(stats.levene(*some, center="median").pvalue) if len(some) > 1 else 1.0
    constant = residuals.std() < 1e-15
    skew = 0.0 if constant else float(stats.skew(residuals))
    kurtosis = 0.0 if constant else float(stats.kurtosis(residuals))
    normal = 1.0 if constant or len(residuals) < 20 else float(stats.jarque_bera(residuals).pvalue)
    lag = drift = 0.0
    if in_order is not None and len(in_order) > 3 and np.std(in_order) > 0:
        r = np.asarray(in_order, float)
        lag = float(np.corrcoef(r[:-1], r[1:])[0, 1])
        drift = float(stats.spearmanr(np.arange(len(r)), r).statistic)
    return Diagnosis(ratio, levene, skew, kurtosis, normal, lag, drift, tuple(sentences(ratio, levene, kurtosis, normal, lag, drift, log)))


def sentences(ratio, levene, kurtosis, normal, lag, drift, log) -> list[str]:
    scale = "logarithms" if log else "values"
    out = []
    if ratio > 10:
        out.append(f"Variances within cells differ {ratio:.0f}-fold (95th to 5th percentile, {scale}): one pooled error term does not fit; "
                   "read the paired ratios and Games-Howell, not the pooled intervals.")
    elif levene < 0.01:
        out.append(f"Variances differ between cells (Brown-Forsythe p = {levene:.2g}), {ratio:.1f}-fold.")
    else:
        out.append(f"Variances within cells are alike ({ratio:.1f}-fold).")
    if normal < 0.01:
        out.append(f"Residuals are not normal (excess kurtosis {kurtosis:.1f}): means of many runs bear it, tails don't.")
    if abs(lag) > 0.2:
        out.append(f"Successive runs resemble each other (correlation {lag:.2f}): the machine was not quiet; blocks take out part of it.")
    if abs(drift) > 0.2:
        out.append(f"Residuals drift over the study (rank correlation with the order of running {drift:.2f}).")
    return out
