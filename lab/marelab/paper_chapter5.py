"""Tables 5.3 to 5.7: factors and rankings, from a study with chapter 5's factors.

Places are those of `mare lab rank`, by ratios of geometric means that have intervals; the published places are by grand means, so that is beside ours.
"""

from marelab import published, rank, results
from marelab.errors import LabError
from marelab.paper_table import Maker, Table

RANKINGS = {"5.4": "Allocators by time", "5.5": "Allocators by memory, long-lived blocks in one burst (AL = peak)",
            "5.6": "Allocators by memory, long-lived blocks all along (AL = growing)"}
RUN = "mare lab study preset -o"


def loaded(number: str, at) -> results.Results:
    if "study" not in at.kept:
        if not (at.study / "study.json").exists():
            raise LabError(f"table {number} needs a study with chapter 5's factors: {RUN} {at.study}")
        at.kept["study"] = results.load(at.study)
    r = at.kept["study"]
    lost = [f for f in published.study()["factors"] if f not in r.about["factors"]]
    if r.kind != "study" or lost:
        raise LabError(f"table {number} needs a study with chapter 5's factors, and {at.study} has no {', '.join(lost)}: {RUN} study-preset")
    return r


def ranked(at, number: str) -> dict:
    r = loaded(number, at)
    if "ranking" not in at.kept:
        at.kept["ranking"] = rank.rank(r)
    return at.kept["ranking"]


def of_factors(number: str, at) -> Table:
    r = loaded(number, at)
    t = Table(number, "Factors and levels", ["levels"])
    for factor, theirs in published.study()["factors"].items():
        t.add(factor, "published", {"levels": ", ".join(theirs)})
        t.add(factor, "here", {"levels": ", ".join(map(str, r.about["factors"][factor]))})
    t.notes = [said_of(r), *r.about["cuts"]]
    return t


def said_of(r: results.Results) -> str:
    m = r.about["machine"]
    return (f"here: {r.about['design']}, {len(r.cells)} cells, {r.blocks} blocks, {len(r.allocators)} allocators on {m['cpus']} CPUs, {m['when'][:10]}; "
            f"published: 648 cells, {published.study()['replications']} replications, 6 allocators on 32 processors")


def of_ranking(number: str, at) -> Table:
    a, r = ranked(at, number), loaded(number, at)
    found = next((t for t in a["tables"] if t["number"] == number), None)
    if found is None:
        raise LabError(f"table {number} needs runs of both patterns (AL = peak, growing) and the responses time and memory: {RUN} study-preset")
    t = Table(number, RANKINGS[number], ["allocator", "to the first", "95 % interval", "by grand means"])
    place = 1
    for name, percent in published.rankings()[number].items():
        t.add(f"#{place}", "published", {"allocator": name, "to the first": "–", "by grand means": percentage(percent)})
        place += 1 + name.count(" / ")
    for line in found["lines"]:
        interval = f"{line['low']:.2f} to {line['high']:.2f}" if line["low"] is not None and line["ratio"] > 1 else "–"
        t.add(f"#{line['place']}", "here", {"allocator": line["allocator"], "to the first": f"{line['ratio']:.2f} ×" if line["ratio"] > 1 else "–", "95 % interval": interval,
                                            "by grand means": percentage(line["percent"])})
    t.notes = [said_of(r), "the study's places are by grand means; ours by ratios paired within block and cell: allocators share a place where the interval holds 1",
               *([rank.DEFECTS[1]] if number != "5.4" else [])]
    return t


def percentage(x: float) -> str:
    return f"+{x:.4g} %" if x > 0 else "–"


def of_places(number: str, at) -> Table:
    a, r = ranked(at, number), loaded(number, at)
    columns = {"time": "5.4", "memory (AL = peak)": "5.5", "memory (AL = growing)": "5.6"}
    t = Table(number, "All rankings together", list(columns))
    theirs = {c: list(published.rankings()[n]) for c, n in columns.items()}
    by = {t["number"]: t for t in a["tables"]}
    if any(n not in by for n in columns.values()):
        raise LabError(f"table {number} needs runs of both patterns (AL = peak, growing) and the responses time and memory: {RUN} study-preset")
    ours = {c: [f"#{p} {o}" for p, o in zip(by[n]["places"], by[n]["order"])] for c, n in columns.items()}
    for whose, lists in (("published", theirs), ("here", ours)):
        for i in range(max(map(len, lists.values()))):
            t.add("", whose, {c: v[i] if i < len(v) else "" for c, v in lists.items()})
    t.notes = [said_of(r), *rank.DEFECTS]
    return t


MAKERS = {"5.3": Maker("Factors and levels", of_factors), **{n: Maker(title, of_ranking, loaded) for n, title in RANKINGS.items()},
          "5.7": Maker("All rankings together", of_places, loaded)}
