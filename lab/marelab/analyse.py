"""`mare lab analyse`: the study's analysis, and beside it the one that fits the data.

As published: analysis of variance per allocator and response over the factors, and over all with the allocator as a factor; Tukey's HSD at 5 %
with homogeneous groups; means with 95 % intervals. On logarithms, which was decided before any data; --raw takes the values themselves, as the
study did. Beside it: ratios paired within block and cell with simultaneous bootstrap intervals, Games-Howell, effect sizes, residuals.
"""

import csv
from itertools import combinations
from pathlib import Path

import numpy as np

from marelab import output, results
from marelab.errors import LabError
from marelab.stats import anova, diagnose, paired, posthoc

ALPHA = 0.05
MOST = 36  # combinations of levels compared in one Tukey table

EPILOG = """Writes DIR/analysis.json, and anova.csv, means.csv, ratios.csv beside it. An effect is called significant at 5 %; read its size
(omega²) first: with many runs everything is significant.
"""


def add_arguments(parser) -> None:
    parser.add_argument("result", help="the folder of a study (or of choose)")
    parser.add_argument("--raw", action="store_true", help="analyse the values, as the published study did, not their logarithms")
    parser.add_argument("--json", action="store_true", help="JSON on standard output")


# ---- analysis of variance ----

def arranged(r: results.Results, y: str, allocator: str | None) -> tuple[np.ndarray, list[str]]:
    """[levels of each factor…, (allocator,) block]; only for full designs."""
    cube = r.cube(y)  # block, cell, allocator; cells are in the order of the product of the factors
    shape = [len(v) for v in r.factors.values()]
    cube = cube.reshape(cube.shape[0], *shape, len(r.allocators))
    names = list(r.factors)
    if allocator is not None:
        cube = cube[..., r.allocators.index(allocator)]
    else:
        names = [*names, "allocator"]
    return np.moveaxis(cube, 0, -1), names


def variance(r: results.Results, y: str, allocator: str | None) -> anova.Anova | None:
    """None where there is nothing to compare; unbalanced designs are refitted."""
    factors = list(r.factors) + ([] if allocator else ["allocator"])
    if not factors:
        return None
    if r.full:
        return anova.balanced(*arranged(r, y, allocator), blocks=r.blocks > 1)
    frame = r.frame if allocator is None else r.frame[r.frame["allocator"] == allocator]
    return anova.refit(frame, y, factors, blocks=r.blocks > 1)


def table(a: anova.Anova) -> dict:
    terms = [{"term": t.name, "ss": t.ss, "df": t.df, "ms": t.ms, "f": t.f, "p": t.p, "eta2": t.eta2, "omega2": t.omega2,
              "significant": bool(t.p < ALPHA)} for t in a.terms]
    return {"method": a.method, "n": a.n, "terms": terms, "error": {"ss": a.error_ss, "df": a.error_df, "ms": a.mse},
            "total": {"ss": a.total_ss, "df": a.total_df}}


# ---- means and groups ----

def groups_of(frame, by: list[str], y: str, a: anova.Anova, log: bool) -> dict:
    """Means per combination of levels, with intervals and homogeneous groups."""
    grouped = frame.groupby(by, sort=False)[y]
    means, counts = grouped.mean(), grouped.size()
    labels = [", ".join(map(str, k)) if isinstance(k, tuple) else str(k) for k in means.index]
    half = posthoc.mean_interval(means, counts, a.mse, a.error_df)
    m, n = means.to_numpy(), counts.to_numpy(float)
    letters = posthoc.tukey(labels, m, n, a.mse, a.error_df, ALPHA).groups
    back = np.exp if log else (lambda v: v)
    lines = [{"level": labels[i], "n": int(n[i]), "mean": float(back(m[i])), "low": float(back(m[i] - half[i])), "high": float(back(m[i] + half[i])),
              "groups": letters[i]} for i in np.argsort(m, kind="stable")]
    return {"by": by, "lines": lines}


def worth_comparing(r: results.Results, a: anova.Anova, extra: list[str]) -> list[list[str]]:
    """Each factor, and each pair of factors that interact significantly, as far as a table stays readable."""
    factors = [*r.factors, *extra]
    sizes = {f: len(r.allocators) if f == "allocator" else r.frame[f].nunique() for f in factors}
    out = [[f] for f in factors]
    for pair in combinations(factors, 2):
        known = {frozenset(t.factors): t for t in a.terms}.get(frozenset(pair))
        if known and known.p < ALPHA and sizes[pair[0]] * sizes[pair[1]] <= MOST:
            out.append(list(pair))
    return out


# ---- the analysis that fits the data ----

def ratios(r: results.Results, column: str, seed: int = 1) -> dict:
    """Every allocator to the best, paired within block and cell, and whom Games-Howell tells apart."""
    block_means = paired.cell_log_ratios(r.cube(column))
    names = r.allocators
    if block_means.shape[0] < 3 or len(names) < 2:
        return {"note": "at least 3 blocks and 2 allocators are needed"}
    p = paired.compare(block_means, seed=seed)
    means = block_means.mean(axis=0)
    best = int(np.argmin(means))
    centred = block_means - block_means.mean(axis=1, keepdims=True)
    gh = posthoc.games_howell(names, [centred[:, i] for i in range(len(names))])
    lines = []
    for i in np.argsort(means):
        d = block_means[:, i] - block_means[:, best]
        effect = float(d.mean() / d.std(ddof=1)) if i != best and d.std(ddof=1) > 0 else 0.0
        lines.append({"allocator": names[i], "geometric_mean": float(np.exp(means[i])), "ratio": float(np.exp(p.difference[i, best])),
                      "low": float(np.exp(p.low[i, best])), "high": float(np.exp(p.high[i, best])), "effect": effect,
                      "significant": bool(p.low[i, best] > 0 or p.high[i, best] < 0), "games_howell": gh.groups[i]})
    matrix = {names[i]: {names[j]: [float(np.exp(x[i, j])) for x in (p.difference, p.low, p.high)] for j in range(len(names)) if j != i}
              for i in range(len(names))}
    return {"best": names[best], "blocks": int(block_means.shape[0]), "lines": lines, "pairs": matrix}


def floor_of(r: results.Results, column: str, best: str | None) -> dict | None:
    """The allocator that only counts up, relative to the best, over the blocks and cells that both have: a floor, taken from nothing."""
    if r.floor is None or best is None:
        return None
    both = r.frame[r.frame["allocator"] == best].merge(r.floor, on=["block", "cell"], suffixes=("", "_floor"))
    if both.empty:
        return None
    return {"allocator": r.floor["allocator"].iloc[0], "ratio": float(np.exp(np.log(both[f"{column}_floor"] / both[column]).mean())),
            "cells": int(both["cell"].nunique())}


def residuals(r: results.Results, y: str, log: bool) -> dict:
    cells = [g.to_numpy() for _, g in r.frame.groupby(["cell", "allocator"])[y]]
    d = diagnose.diagnose(cells, r.residuals(y), log)
    return {"variance_ratio": d.variance_ratio, "levene_p": d.levene_p, "skew": d.skew, "kurtosis": d.kurtosis, "normal_p": d.normal_p,
            "autocorrelation": d.autocorrelation, "drift": d.drift, "sentences": list(d.sentences)}


# ---- all of it ----

def analyse_response(r: results.Results, name: str, column: str, log: bool) -> dict:
    y = f"_{name}"
    r.frame[y] = np.log(r.frame[column]) if log else r.frame[column]
    out = {"column": column, "scale": "log" if log else "raw", "ratios": ratios(r, column), "per_allocator": {}, "overall": None}
    out["floor"] = floor_of(r, column, out["ratios"].get("best"))
    out["residuals"] = residuals(r, y, log) if r.blocks > 1 else None
    if r.blocks < 2:
        out["note"] = "a single block: no analysis of variance without replications"
        return out
    overall = variance(r, y, None)
    if overall:
        out["overall"] = table(overall)
        out["groups"] = [groups_of(r.frame, by, y, overall, log) for by in worth_comparing(r, overall, ["allocator"])]
    for a in r.allocators if r.factors else []:
        one = variance(r, y, a)
        frame = r.frame[r.frame["allocator"] == a]
        out["per_allocator"][a] = {**table(one), "groups": [groups_of(frame, by, y, one, log) for by in worth_comparing(r, one, [])]}
    return out


def analyse(r: results.Results, log: bool = True) -> dict:
    return {"kind": "analysis", "version": 1, "of": str(r.place), "blocks": r.blocks, "runs": len(r.frame), "factors": r.factors,
            "allocators": r.allocators, "notes": r.notes, "balanced": r.full,
            "responses": {n: analyse_response(r, n, c, log) for n, c in r.responses.items()}}


def write_tables(place: Path, a: dict) -> None:
    with open(place / "anova.csv", "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(["response", "allocator", "term", "ss", "df", "ms", "f", "p", "eta2", "omega2"])
        for name, r in a["responses"].items():
            for who, t in [("all", r["overall"]), *r["per_allocator"].items()]:
                for line in t["terms"] if t else []:
                    w.writerow([name, who, *(line[k] for k in ("term", "ss", "df", "ms", "f", "p", "eta2", "omega2"))])
                if t:
                    w.writerow([name, who, "error", t["error"]["ss"], t["error"]["df"], t["error"]["ms"], "", "", "", ""])
    with open(place / "means.csv", "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(["response", "allocator", "factors", "level", "n", "mean", "low", "high", "groups"])
        for name, r in a["responses"].items():
            for who, tables in [("all", r.get("groups", [])), *((k, v["groups"]) for k, v in r["per_allocator"].items())]:
                for t in tables:
                    for line in t["lines"]:
                        w.writerow([name, who, " x ".join(t["by"]), *(line[k] for k in ("level", "n", "mean", "low", "high", "groups"))])
    with open(place / "ratios.csv", "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(["response", "allocator", "geometric_mean", "ratio_to_best", "low", "high", "effect", "games_howell"])
        for name, r in a["responses"].items():
            for line in r["ratios"].get("lines", []):
                w.writerow([name, *(line[k] for k in ("allocator", "geometric_mean", "ratio", "low", "high", "effect", "games_howell"))])


def p_text(p: float) -> str:
    return "–" if p != p else "< 0.0001" if p < 0.0001 else f"{p:.4f}"


def text(a: dict) -> str:
    lines = [f"{a['runs']} runs in {a['blocks']} blocks, {len(a['allocators'])} allocators" + ("" if a["balanced"] else "; not balanced, refitted")]
    lines += [f"note: {n}" for n in a["notes"]]
    for name, r in a["responses"].items():
        lines += ["", f"== {name} ({r['column']}, {'logarithms' if r['scale'] == 'log' else 'raw values'})"]
        if "lines" in r["ratios"]:
            lines.append(f"   ratio to {r['ratios']['best']}, paired within block and cell; 95 % intervals that hold together; Games-Howell groups")
            for line in r["ratios"]["lines"]:
                word = "" if line["significant"] or line["ratio"] == 1 else "   not significant"
                lines.append(f"   {line['allocator']:<16} {line['ratio']:.3f} "
                             f"[{line['low']:.3f}, {line['high']:.3f}]  {line['games_howell']:<6}{word}")
            if r["floor"]:
                lines.append(f"   {r['floor']['allocator'] + ' (floor)':<16} {r['floor']['ratio']:.3f}   "
                             f"only counts up, never reuses; over {r['floor']['cells']} cells")
        else:
            lines.append(f"   {r['ratios']['note']}")
        if r["overall"]:
            lines += ["", "   analysis of variance, all allocators; by size of effect",
                      f"   {'term':<28} {'df':>5} {'F':>12} {'p':>9} {'omega²':>7}"]
            for t in sorted(r["overall"]["terms"], key=lambda t: -t["omega2"])[:12]:
                word = "" if t["significant"] else "   not significant"
                lines.append(f"   {t['term']:<28} {t['df']:>5} {t['f']:>12.2f} {p_text(t['p']):>9} {t['omega2']:>7.3f}{word}")
            if len(r["overall"]["terms"]) > 12:
                lines.append(f"   … {len(r['overall']['terms']) - 12} more in anova.csv")
        lines += [f"   {s}" for s in (r["residuals"] or {}).get("sentences", [])]
    return "\n".join(lines)


def run(args) -> int:
    r = results.load(args.result)
    if len(r.allocators) < 2 and not r.factors:
        raise LabError(f"{args.result}: one allocator and no factor: there is nothing to compare")
    a = analyse(r, log=not args.raw)
    output.save(r.place / "analysis.json", a, 1)
    write_tables(r.place, a)
    print(output.text(a) if args.json else text(a))
    return 0
