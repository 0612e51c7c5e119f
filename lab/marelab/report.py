"""`mare lab report`: one self-contained page of a result. All text is escaped by the template engine; all figures are inside the file."""

import csv
import shlex
from pathlib import Path

import jinja2
import numpy as np

from marelab import analyse, answer, env, output, paste, plots, rank, responses, results

TEMPLATES = Path(__file__).with_name("templates")
EPILOG = "Writes DIR/report.html, or the file named with -o. The page needs no network and no other file.\n"


def add_arguments(parser) -> None:
    parser.add_argument("result", help="the folder of a study or of choose")
    parser.add_argument("-o", dest="out", metavar="FILE", help="the page (default: DIR/report.html)")
    parser.add_argument("--json", action="store_true", help="what the page is made from, as JSON on standard output")


def number(x, digits: int = 3) -> str:
    """A figure for people: three digits that count, thousands apart."""
    if x is None or x != x:
        return "–"
    if isinstance(x, str):
        return x
    if x != 0 and (abs(x) >= 1e7 or abs(x) < 1e-4):
        return f"{x:.{digits - 1}e}"
    decimals = max(0, digits - 1 - int(np.floor(np.log10(abs(x))))) if x else 0
    return f"{x:,.{decimals}f}".replace(",", " ")


def said(sentence: str) -> str:
    """A sentence for the page: a number stays on the line of its per cent sign."""
    return sentence[:1].upper() + sentence[1:].replace(" %", "\u00a0%")


def engine() -> jinja2.Environment:
    loader = jinja2.FileSystemLoader(TEMPLATES)
    e = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined)
    e.filters.update(number=number, words=shlex.join, percent=lambda x, d=1: "–" if x is None else f"{x * 100:.{d}f}\u00a0%", said=said,
                     p=analyse.p_text, mib=lambda k: number(k / 1024))
    return e


# ---- choose ----

def choose_page(r: results.Results) -> tuple[str, dict]:
    result = r.about
    colour = plots.colours(sorted(r.allocators))
    s = result["standings"]
    main = result["response"]
    figures = {k: plots.ratio_dots(s[k]["allocators"], result["margin"], f"{responses.NAMES[k]}, times the best", colour, result["present"]) for k in s}
    other = responses.other(main, responses.of(result))
    time, space = (other, main) if main in ("peak", "idle") else (main, other)
    figures["front"] = plots.front(s[time]["allocators"], s[space]["allocators"], result["front"], colour, (responses.NAMES[time], responses.NAMES[space]))
    cube = r.cube(responses.COLUMNS[main])[:, 0, :]
    unit, scale = responses.UNITS[main]
    figures["runs"] = plots.runs({n: (cube[:, i] * scale).tolist() for i, n in enumerate(r.allocators)}, f"{responses.NAMES[main]}, {unit}", colour)
    figures["memory"] = memory_figure(r, colour)
    if result.get("tuning"):
        figures["search"] = plots.search(result["tuning"]["candidates"], result["tuning"]["responses"], responses.NAMES, list(colour), colour)
    by = {k: {x["name"]: x for x in v["allocators"]} for k, v in s.items()}
    for x in s[main]["allocators"]:
        x["tag"] = answer.tag(x, result)
    page = {"r": result, "figures": figures, "by": by, "names": responses.NAMES, "keys": responses.of(result), "head": table_head, "figure": answer.figure, "machine": result["machine"], "explanation": explained(result),
            "load": load_of(r), "paste": paste.lines(result), "legend": answer.legend(result)}
    return engine().get_template("choose.html").render(page), result


def table_head(key: str) -> tuple[str, str]:
    """Two lines: what, and in which unit. A service's rate is shown, not the time of a request."""
    heads = {"request": ("requests", "per second"), "request-cpu": ("CPU time,", "µs a request"), "p50": ("median,", "ms"), "p99": ("99 in 100,", "ms"),
             "p999": ("999 in 1000,", "ms"), "idle": ("memory after,", "MiB")}
    return heads.get(key) or (responses.NAMES[key], responses.UNITS[key][0])


def memory_figure(r: results.Results, colour) -> str | None:
    """A service's memory over time, every run."""
    path = r.place / "memory.csv"
    if not path.exists():
        return None
    lines: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row in csv.reader(path.read_text().splitlines()):
        if len(row) == 4 and row[1] in r.allocators:
            lines.setdefault((row[1], row[0]), []).append((float(row[2]), float(row[3]) / 1024))
    return plots.over_time({n: [v for (a, _), v in lines.items() if a == n] for n in r.allocators}, "s since the start", "memory, MiB", colour)


def load_of(r: results.Results) -> dict:
    """How quiet the machine was: what the hypervisor took, how often runs were pushed off their CPU, the load average."""
    f = r.frame
    return {"steal": int(f["steal_ticks"].astype(float).sum()), "preempted": float(f["preempted"].astype(float).mean()),
            "load": (float(f["load"].astype(float).min()), float(f["load"].astype(float).max()))}


def explained(result: dict) -> dict | None:
    """Figures of the trace's description, when there is one."""
    e = result.get("explanation")
    if not e:
        return None
    e = {"problem": None, "sentences": [], "replay": None, "fit": None, "study": None, **e}  # steps that were not come to
    d = e.get("description")
    if not d:
        return e
    figures = {}
    if d.get("sizes", {}).get("size"):
        figures["sizes"] = plots.sizes(d["sizes"]["size"], d["sizes"]["number"])
    # the clock of a trace is coarse: a short program is shown over its operations
    clock, curve = ("seconds", "curve") if d["seconds"] >= 2 else ("operations", "curve_operations")
    live = d.get("live", {}).get(curve)
    if live and live.get(clock):
        figures["live"] = plots.curve(live[clock], [b / 2**20 for b in live["bytes"]], clock, "live MiB", step=True)
    long = d.get("long_lived", {}).get("cumulative")
    if long:
        figures["long"] = plots.curve(list(range(len(long))), long, "thousands of calls", "long-lived so far", fill=False)
    return {**e, "figures": figures}


# ---- study ----

def study_page(r: results.Results) -> tuple[str, dict]:
    a = analyse.analyse(r)
    ranked = rank.rank(r)
    colour = plots.colours(sorted(r.allocators))
    figures = {}
    for name, response in a["responses"].items():
        lines = [{"name": x["allocator"], **x} for x in response["ratios"].get("lines", [])]
        label = f"{name} ({response['column']})"
        figures[name] = {"ratios": plots.ratio_dots(lines, None, f"{name}, times the best", colour) if lines else None,
                         "means": mean_figures(r, response, label, colour), "residuals": residual_figure(r, name, response)}
    page = {"study": r.about, "a": a, "ranked": ranked, "figures": figures, "machine": r.about["machine"],
            "heading": rank.heading, "load": load_of(r),
            "seed": r.about["seed"]}
    return engine().get_template("study.html").render(page), {"analysis": a, "ranking": ranked}


def mean_figures(r: results.Results, response: dict, label: str, colour) -> list[tuple[str, str]]:
    out = []
    for factor, levels in r.factors.items():
        tables = {}
        for name, t in response["per_allocator"].items():
            lines = next((g["lines"] for g in t["groups"] if g["by"] == [factor]), None)
            if lines:
                at = {x["level"]: x for x in lines}
                tables[name] = [at[str(v)] for v in levels if str(v) in at]
        if tables:
            out.append((factor, plots.means(tables, factor, label, colour, response["scale"] == "log")))
    return out


def residual_figure(r: results.Results, name: str, response: dict) -> str | None:
    if r.blocks < 2:
        return None
    return plots.residuals(r.residuals(f"_{name}"), f"{'log ' if response['scale'] == 'log' else ''}{name}")


# ---- both ----

def page_of(place: Path) -> tuple[str, dict]:
    r = results.load(place)
    return choose_page(r) if r.kind == "choose" else study_page(r)


def write(place: Path, path: Path) -> dict:
    text, data = page_of(place)
    output.write(path, text)
    return data


def run(args) -> int:
    place = Path(args.result)
    path = Path(args.out or place / "report.html")
    data = write(place, path)
    print(output.text({"page": str(path), "machine": env.machine(), **data}) if args.json else path)
    return 0
