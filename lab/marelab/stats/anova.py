"""Analysis of variance of balanced factorial experiments, all terms, in closed form.

In a balanced design the terms are orthogonal, so each sum of squares comes from the cell means alone: for a term, average over the other
factors, then take away along each of its own axes the mean (the effects), square and sum. 110,000 rows with all 63 terms of six factors need
no matrix. Replications are blocks: their main effect is taken out of the error when asked for.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy import stats


@dataclass(frozen=True)
class Term:
    factors: tuple[str, ...]
    ss: float
    df: int
    ms: float
    f: float
    p: float
    eta2: float  # share of the total sum of squares
    omega2: float  # partial omega squared: share of the variance it explains beside the error, corrected for chance

    @property
    def name(self) -> str:
        return " x ".join(self.factors)


@dataclass(frozen=True)
class Anova:
    terms: list[Term]
    error_ss: float
    error_df: int
    total_ss: float
    total_df: int
    n: int
    method: str = "balanced, closed form"

    @property
    def mse(self) -> float:
        return self.error_ss / self.error_df

    def term(self, *factors: str) -> Term:
        return next(t for t in self.terms if set(t.factors) == set(factors))


def make_term(factors, ss: float, df: int, mse: float, error_df: int, total_ss: float, n: int) -> Term:
    ms = ss / df
    if mse > 0:
        f = ms / mse
    else:
        f = np.inf if ms > 0 else np.nan
    p = float(stats.f.sf(f, df, error_df)) if np.isfinite(f) else (0.0 if f == np.inf else np.nan)
    omega = (ss - df * mse) / (ss + (n - df) * mse) if ss + (n - df) * mse > 0 else 0.0
    return Term(tuple(factors), float(ss), int(df), float(ms), float(f), p, float(ss / total_ss) if total_ss > 0 else 0.0, float(max(0.0, omega)))


def effects(means: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """The interaction effects of these axes, one number per combination of their levels."""
    others = tuple(a for a in range(means.ndim) if a not in axes)
    e = means.mean(axis=others, keepdims=True) if others else means.copy()
    for a in axes:
        e = e - e.mean(axis=a, keepdims=True)
    return e


def balanced(y: np.ndarray, factors: list[str], blocks: bool = False, order: int | None = None) -> Anova:
    """`y`: one axis per factor, the last one replications. With `blocks`, replication r of every cell belongs to block r. `order`: the highest
    interaction taken as a term; what is above goes into the error."""
    y = np.asarray(y, dtype=float)
    if y.ndim != len(factors) + 1:
        raise ValueError(f"{len(factors)} factors need {len(factors) + 1} axes, got {y.ndim}")
    if not np.isfinite(y).all():
        raise ValueError("every cell needs a value")
    y = y - y.mean()  # sums of squares don't change, and cancellation is avoided
    n, reps = y.size, y.shape[-1]
    means = y.mean(axis=-1)
    total_ss = float((y * y).sum())
    found = []  # factors, sum of squares, degrees of freedom
    for size in range(1, min(order or len(factors), len(factors)) + 1):
        for axes in combinations(range(len(factors)), size):
            e = effects(means, axes)
            df = int(np.prod([y.shape[a] - 1 for a in axes]))
            if df:
                found.append((tuple(factors[a] for a in axes), float((e * e).sum()) * n / e.size, df))
    if blocks:
        b = y.mean(axis=tuple(range(y.ndim - 1)))
        found.append((("block",), float((b * b).sum()) * n / reps, reps - 1))
    error_df = n - 1 - sum(df for _, _, df in found)
    if error_df <= 0:
        raise ValueError("no degrees of freedom are left for the error: replicate, or leave out high interactions")
    error_ss = max(0.0, total_ss - sum(ss for _, ss, _ in found))
    if error_ss < 1e-13 * total_ss:
        error_ss = 0.0
    mse = error_ss / error_df
    terms = [make_term(f, ss, df, mse, error_df, total_ss, n) for f, ss, df in found]
    return Anova(terms, error_ss, error_df, total_ss, n - 1, n)


def refit(data, response: str, factors: list[str], blocks: bool = False, order: int = 2) -> Anova:
    """Unbalanced data (a pandas frame): least squares with type II sums of squares, main effects and interactions up to `order`."""
    # statsmodels takes seconds to import, and only designs with lost cells come here
    import statsmodels.formula.api as smf
    from statsmodels.stats.anova import anova_lm

    names = {f: f"f{i}" for i, f in enumerate(factors)}
    frame = data[factors].astype(str).rename(columns=names)
    frame["y"] = data[response].astype(float)
    words = [":".join(f"C({names[f]})" for f in c) for size in range(1, order + 1) for c in combinations(factors, size)]
    labels = [c for size in range(1, order + 1) for c in combinations(factors, size)]
    if blocks:
        frame["b"] = data["block"].astype(str)
        words.append("C(b)")
        labels.append(("block",))
    model = smf.ols("y ~ " + " + ".join(words), frame).fit()
    table = anova_lm(model, typ=2)
    error_ss, error_df = float(table.loc["Residual", "sum_sq"]), int(table.loc["Residual", "df"])
    y = frame["y"].to_numpy()
    total = float(((y - y.mean()) ** 2).sum())
    terms = [make_term(f, float(table.loc[w, "sum_sq"]), int(table.loc[w, "df"]), error_ss / error_df, error_df, total, len(y))
             for f, w in zip(labels, words)]
    return Anova(terms, error_ss, error_df, total, len(y) - 1, len(y), f"unbalanced: least squares, type II, interactions up to {order} factors")
