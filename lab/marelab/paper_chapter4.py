"""Tables 4.1 to 4.23, and 5.1 and 5.2 which sort the same programs: from recordings of the scenarios."""

import numpy as np

from marelab import published, recordings
from marelab.errors import LabError
from marelab.paper_table import Maker, Table
from marelab.scenarios import catalogue

# column of a table → key of a measure
ALLOCATIONS = {"allocations": "allocations", "MB": "megabytes", "mean bytes": "mean_bytes"}
SIZES = {"distinct sizes": "distinct_sizes", "ten sizes %": "top_ten"}
ROUTINES = {"malloc %": "malloc", "realloc %": "realloc", "calloc %": "calloc", "aligned %": "aligned"}
FREES = {"frees": "frees", "null %": "null_frees"}
RETENTION = {"short %": "short", "medium %": "medium", "long %": "long", "pattern": "pattern"}
MOST = 70.0  # per cent of the allocations in one level of TA: the study's rule in table 5.2

ALIGNED = "the study's tracer knew no aligned allocations (posix_memalign, aligned_alloc, memalign)"
RETAINED = "short: freed within 100 ms; medium: within 1 s; long: later or never. The pattern is the section's, no column of the published table"


# ---- what was recorded ----

def known() -> dict[str, str]:
    """The study's programs by the name of their scenario."""
    return {name: p["short_name"] for name, p in published.programs().items()}


def recorded(at, name: str) -> dict | None:
    """The recordings of a scenario with their means."""
    if name not in at.kept:
        found = recordings.load(at.programs, name)
        at.kept[name] = found and found | {"mean": recordings.mean_of(found["runs"])}
    return at.kept[name]


def need(at, name: str, number: str) -> dict:
    found = recorded(at, name)
    if found:
        return found
    title = published.programs()[name]["short_name"]
    raise LabError(f"table {number} needs recordings of {title}: mare lab scenario {name} -o {at.programs}")


def all_recorded(at, number: str) -> dict[str, dict]:
    found = {name: r for name in known() if (r := recorded(at, name))}
    if not found:
        raise LabError(f"table {number} needs recordings: mare lab scenario all -o {at.programs}")
    return found


def said_of(r: dict) -> str:
    n = len(r["runs"])
    return f"here: {r['program']}, mean of {n} recording{'s' if n > 1 else ''} (published: {published.study()['replications']}), {r['machine']['when'][:10]}"


def missing_note(found: dict) -> list[str]:
    lost = [f"{title} ({name})" for name, title in known().items() if name not in found]
    return [f"not recorded here: {', '.join(lost)}"] if lost else []


def cells(columns: dict, values: dict) -> dict:
    return {c: values.get(k) for c, k in columns.items()}


# ---- one program: 4.5 to 4.20 ----

def of_program(name: str, columns: dict, notes: tuple[str, ...]):
    def make(number: str, at) -> Table:
        p, r = published.programs()[name], need(at, name, number)
        t = Table(number, title_of(name, columns), list(columns))
        t.add(p["name"], "published", cells(columns, p))
        t.add(p["name"], "here", cells(columns, r["mean"]))
        t.notes = [said_of(r), *notes, *p.get("said", [])]
        t.notes.append(f"what it did here: {catalogue.ALL[name].what}")
        return t
    return make


def title_of(name: str, columns: dict) -> str:
    what = "allocations, sizes and routines" if "allocations" in columns else "frees and retention"
    return f"{published.programs()[name]['short_name']}: {what}"


# ---- 4.1 to 4.4 ----

def of_records(number: str, at) -> Table:
    found = published.study()["recorded"][number]
    t = Table(number, found["title"], ["what"])
    for name, theirs, ours in found["rows"]:
        t.add(name, "published", {"what": theirs})
        t.add(name, "here", {"what": ours})
    return t


def of_media(number: str, at) -> Table:
    m = published.study()["media"][number]
    about = need(at, m["program"], number)["about"]
    t = Table(number, m["title"], ["what", "seconds", "MB", "details"])
    for whose, facts in (("published", m), ("here", about)):
        t.add("", whose, {"what": facts.get("what"), "seconds": facts.get("seconds"), "MB": facts.get("megabytes"), "details": facts.get("details")})
    return t


# ---- all programs: 4.21 to 4.23 ----

def of_all(title: str, columns: dict, averaged: tuple[str, ...] = ()):
    def make(number: str, at) -> Table:
        found = all_recorded(at, number)
        t = Table(number, title, list(columns))
        for name, p in published.programs().items():
            t.add(p["short_name"], "published", cells(columns, p))
            if name in found:
                t.add(p["short_name"], "here", cells(columns, found[name]["mean"]))
        if averaged:
            t.add("average", "published", cells(columns, {k: published.study()["averages"].get(k) for k in averaged}))
            t.add("average", "here", cells(columns, {k: float(np.mean([r["mean"][k] for r in found.values()])) for k in averaged}))
        t.notes = missing_note(found) + ([ALIGNED] if "aligned %" in columns else [])
        t.notes += [f"{r['scenario']}: {said_of(r)}" for r in found.values()]
        return t
    return make


# ---- 5.1 and 5.2 ----

def group_of(allocations: float) -> str:
    """The nearest of the study's groups, by ratio."""
    groups = published.study()["groups"]
    return min(groups, key=lambda g: abs(np.log(max(allocations, 1) / g["about"])))["name"]


def of_groups(number: str, at) -> Table:
    found = all_recorded(at, number)
    t = Table(number, "Programs by their number of allocations", ["about", "programs", "level of NA"])
    for g in published.study()["groups"]:
        ours = [name for name, r in found.items() if group_of(r["mean"]["allocations"]) == g["name"]]
        t.add(g["name"], "published", {"about": f"{g['about']:,}", "programs": names(g["programs"]), "level of NA": g["level"]})
        t.add(g["name"], "here", {"about": f"{g['about']:,}", "programs": names(ours)})
    said = [s for p in published.programs().values() for s in p.get("said", []) if "table 5.1" in s]
    t.notes = missing_note(found) + ["here a program belongs to the group whose number is nearest, by ratio", *said]
    return t


def of_levels(number: str, at) -> Table:
    found = all_recorded(at, number)
    t = Table(number, f"Programs with at least {MOST:.0f} % of their allocations in one level of TA", ["programs"])
    theirs, ours = published.programs(), {}
    for name, r in found.items():
        level, share = max(r["mean"]["levels"].items(), key=lambda i: i[1])
        if share >= MOST:
            ours[name] = level
    for level in recordings.LEVELS:
        t.add(f"{level} bytes", "published", {"programs": names(n for n, p in theirs.items() if p["TA"] == level)})
        t.add(f"{level} bytes", "here", {"programs": names(n for n, at_level in ours.items() if at_level == level)})
    spread = [f"{known()[n]} ({', '.join(f'{k} {v:.0f} %' for k, v in r['mean']['levels'].items())})" for n, r in found.items() if n not in ours]
    t.notes = missing_note(found) + ["here 64 bytes belong to the first level and 512 to the second"] + ([f"in none: {', '.join(spread)}"] if spread else [])
    return t


def names(found) -> str:
    return ", ".join(known()[n] for n in found) or "–"


def makers() -> dict[str, Maker]:
    made = {n: Maker(r["title"], of_records) for n, r in published.study()["recorded"].items()}
    made |= {n: Maker(m["title"], of_media) for n, m in published.study()["media"].items()}
    for name, p in published.programs().items():
        for number, columns, notes in zip(p["tables"], (ALLOCATIONS | SIZES | ROUTINES, FREES | RETENTION), ((ALIGNED,), (RETAINED,))):
            made[number] = Maker(title_of(name, columns), of_program(name, columns, notes))
    made["4.21"] = Maker("Memory by program", of_all("Memory by program", ALLOCATIONS))
    made["4.22"] = Maker("Routines by program", of_all("Routines by program", ROUTINES, ("malloc", "realloc", "calloc")))
    made["4.23"] = Maker("Frees by program", of_all("Frees by program", FREES))
    made["5.1"] = Maker("Programs by their number of allocations", of_groups)
    made["5.2"] = Maker("Programs by their level of size", of_levels)
    return made


MAKERS = makers()
