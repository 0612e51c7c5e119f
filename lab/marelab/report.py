"""`mare lab report`: one self-contained page of a result. All text is escaped by the template engine; all figures are inside the file."""

import functools
import shlex
from pathlib import Path

import jinja2
import numpy as np
from markupsafe import Markup

from marelab import analyse, answer, charts, env, leaks, output, paste, plots, rank, responses, results, units

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
    return units.typeset(f"{x:,.{decimals}f}")


def said(sentence: str) -> str:
    """A sentence for the page: with a capital letter, and numbers in one way."""
    return units.typeset(sentence[:1].upper() + sentence[1:])


def measured(write, x) -> str:
    return "–" if x is None else units.typeset(write(x))


def engine() -> jinja2.Environment:
    loader = jinja2.FileSystemLoader(TEMPLATES)
    e = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined)
    e.globals["source"] = lambda name: Markup((TEMPLATES / name).read_text())
    e.filters.update(number=number, words=shlex.join, percent=lambda x, d=1: "–" if x is None else f"{x * 100:.{d}f}\u00a0%", said=said, p=analyse.p_text,
                     mib=lambda k: number(k / 1024), typeset=lambda text: units.typeset(str(text)))
    for name in ("count", "size", "share", "seconds"):
        e.filters[name] = functools.partial(measured, getattr(units, name))
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
    if result.get("tuning"):
        figures["search"] = plots.search(result["tuning"]["candidates"], result["tuning"]["responses"], responses.NAMES, list(colour), colour)
    by = {k: {x["name"]: x for x in v["allocators"]} for k, v in s.items()}
    for x in s[main]["allocators"]:
        x["tag"] = answer.tag(x, result)
    page = {"r": result, "figures": figures, "by": by, "names": responses.NAMES, "keys": responses.of(result), "head": table_head, "figure": answer.figure,
            "machine": result["machine"], "explanation": explained(result), "charts": output.finite(charts.of_choice(r)), "load": load_of(r),
            "paste": paste.lines(result), "legend": answer.legend(result)}
    return engine().get_template("choose.html").render(page), result


def table_head(key: str) -> tuple[str, str]:
    """Two lines: what, and in which unit. A service's rate is shown, not the time of a request."""
    heads = {"request": ("requests", "per second"), "request-cpu": ("CPU time,", "µs a request"), "p50": ("median,", "ms"), "p99": ("99 in 100,", "ms"),
             "p999": ("999 in 1000,", "ms"), "idle": ("memory after,", "MiB")}
    return heads.get(key) or (responses.NAMES[key], responses.UNITS[key][0])


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
    e = {"problem": None, "sentences": [], "description": None, "replay": None, "fit": None, "study": None, "figures": {}, "classes": [], "places": [],
         "found": None, "left": [], **e}  # steps that were not come to
    d = e.get("description")
    if not d:
        return e
    figures = {}
    if d.get("sizes", {}).get("size"):
        figures["sizes"] = plots.sizes(d["sizes"]["size"], d["sizes"]["number"])
    found = e.get("sites")
    return {**e, "figures": figures, "classes": charts.classes(d), "places": charts.places(found), "left": leaks.table(found or {}), "when": leaks.when(d),
            "found": found if found and "left_out" not in found else None}


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
