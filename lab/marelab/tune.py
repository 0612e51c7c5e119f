"""`mare lab tune`: which allocator, with which of its settings, serves a program best?

Two stages, of which only the second is believed.

The search: the candidates are the allocators as they come, and each with one knob turned (knobs.py), if it says itself that it took the setting. They run
in rungs of a few blocks. After each rung the better half goes on (successive halving): most of the places by the response that decides, a quarter by
the other one, so that the thrifty are not lost. Pairs of the settings that were best of one allocator join the next rung. Figures are differences within
blocks, to the allocator that is used today.

The confirmation: the few that are left, beside today's allocator and the winner without its settings, in fresh blocks, judged as by `choose`. Among forty
candidates one is always ahead by luck; here luck is lost again, since nothing measured in the search counts.
"""

import itertools
import math
import shlex
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from marelab import allocators, answer, apply, blocks, choose, disturbed, env, knobs, native, output, progress, recommend, report, responses, service
from marelab.allocators import Allocator
from marelab.errors import LabError
from marelab.rows import Rows, results

HINTS = {"--quick": "a short search is --minutes 1"}
EPILOG = """  mare lab tune -- ./program its arguments
  mare lab tune --response peak --allocators jemalloc --minutes 5 -- ./program
  mare lab tune --try MALLOC_CONF=dirty_decay_ms:5000,narenas:4 -- ./program
  mare lab tune --list                     the knobs of the allocators that are here

The program is run many times, as by `mare lab choose`, and so should end by itself within seconds and do the same work each time. Files in DIR:
report.html, choose.json, runs.csv (the confirmation), search.csv (every run of the search). The same exit codes as those of choose.
"""

RUNG = 3  # blocks of one rung
FEW = 6  # candidates with which the search ends
PART = 0.6  # of the time, for the search
PAIRS = 3  # that join at a rung
FIRST = 0.5  # of the search, for the first rung
FLOOR = 8  # candidates, however short the time


@dataclass
class Candidate:
    allocator: Allocator
    base: str  # the allocator without settings of ours
    settings: dict[str, str]
    rungs: int = 0
    scores: dict[str, float] = field(default_factory=dict)  # response → log ratio to today's allocator

    @property
    def name(self) -> str:
        return self.allocator.name


def add_arguments(parser) -> None:
    parser.add_argument("--minutes", type=float, default=10, metavar="M", help="for search and confirmation together (default: 10)")
    parser.add_argument("--try", dest="extra", action="append", default=[], metavar="VARIABLE=VALUE", help="one more candidate: settings as in the environment")
    parser.add_argument("--list", action="store_true", help="the knobs, their values here, and what is tried")
    choose.add_run_arguments(parser)


# ---- candidates ----

def candidates(args, usable: list[Allocator], present: Allocator) -> tuple[list[Candidate], list[str]]:
    """All that could be tried, the more promising first, and why others can't."""
    found = [Candidate(a, a.name, {}) for a in usable]
    families, seen, left, turned = {}, set(), [], []
    thp = env.chosen(env.read("/sys/kernel/mm/transparent_hugepage/enabled", "never"))
    for a in usable:
        fam = knobs.family(a)
        if fam is None or (fam, a.library) in seen:
            continue  # a variant from the catalogue, of one that is there already
        seen.add((fam, a.library))
        families.setdefault(fam, a)
        settings, reasons = knobs.singles(a, thp)
        left += reasons
        for place, s in enumerate(settings):
            made = candidate(a, s)
            if isinstance(made, str):
                left.append(made)
            else:
                turned.append((place, made))
    asked = [Candidate(knobs.with_settings(families[fam], s), families[fam].name, s) for fam, s in knobs.asked(args.extra, families)]
    return found + asked + [c for _, c in sorted(turned, key=lambda x: x[0])], left


def candidate(a: Allocator, settings: dict[str, str]) -> Candidate | str:
    """With proof that it took the settings; else why not."""
    made = Candidate(knobs.with_settings(a, settings), a.name, settings)
    why = knobs.untrue(made.allocator, list(settings.items()))
    return f"{made.name}: {why}" if why else made


def affordable(seconds: float, usual: float) -> int:
    """How many candidates the first rung has time for."""
    return max(FLOOR, int(seconds * PART * FIRST / ((RUNG + 1) * max(usual, 0.02))))


# ---- the search ----

class Search:
    def __init__(self, plan: blocks.Plan, found: list[Candidate], rows: Rows, seconds: float):
        self.plan, self.rows, self.until = plan, rows, time.monotonic() + seconds
        self.all = {c.name: c for c in found}
        self.out: dict[str, str] = {}
        self.watch, self.block, self.rungs = disturbed.Watch([]), 0, 0
        self.other = responses.other(plan.response, responses.SERVICE if hasattr(plan.target, "conduct") else responses.PROGRAM)

    def run(self) -> list[Candidate]:
        """Those that are left, the best first."""
        names = list(self.all)
        while True:
            self.rung(names)
            names = self.survivors([n for n in names if n not in self.out])
            joined = self.pairs(names)
            if len(names) <= FEW + 1 and not joined or time.monotonic() > self.until:
                return [self.all[n] for n in names]
            names += joined

    def rung(self, names: list[str]) -> None:
        left = {n: self.all[n].allocator for n in names}
        number = RUNG + (1 if self.block == 0 else 0)
        with progress.bar(number * len(names), f"rung {self.rungs + 1}, {len(names)} candidates") as bar:
            for made in range(number):
                blocks.Block(self.block, self.plan, left, self.rows, self.out, self.watch, bar).make()
                self.block += 1
                if made > 1 and time.monotonic() > self.until:
                    break
        self.rungs += 1
        for n in left:
            self.all[n].rungs += 1
        self.score()

    def score(self) -> None:
        """Medians of the differences to today's allocator, over all blocks in which both ran."""
        for response in (self.plan.response, self.other):
            column = responses.COLUMNS[response]
            runs: dict[tuple[int, str], float] = {}
            for r in self.rows.kept:
                if int(r["block"]) > 0 and not r["problem"]:
                    runs[int(r["block"]), r["allocator"]] = math.log(max(float(r[column]), responses.floor(column)))
            ratios: dict[str, list[float]] = {}
            for (block, name), y in runs.items():
                if (block, self.plan.present) in runs:
                    ratios.setdefault(name, []).append(y - runs[block, self.plan.present])
            for name, d in ratios.items():
                self.all[name].scores[response] = float(np.median(d))

    def ordered(self, names, response: str) -> list[str]:
        return sorted((n for n in names if response in self.all[n].scores), key=lambda n: self.all[n].scores[response])

    def survivors(self, names: list[str]) -> list[str]:
        """The better half, and today's allocator: it is what all are compared with."""
        keep = max(FEW, math.ceil(len(names) / 2))
        best = self.ordered(names, self.plan.response)[:keep - keep // 4]
        best += [n for n in self.ordered(names, self.other) if n not in best][:keep - len(best)]
        return best if self.plan.present in best else [*best, self.plan.present]

    def pairs(self, names: list[str]) -> list[str]:
        """Settings of one allocator that were good alone, together: if each is better than the allocator as it comes, by a quarter of the margin."""
        response, joined = self.plan.response, []
        good = [c for c in (self.all[n] for n in names) if c.settings and self.gain(c, response) > np.log1p(self.plan.margin) / 4]
        for a, b in sorted(itertools.combinations(good, 2), key=lambda p: p[0].scores[response] + p[1].scores[response]):
            if a.base != b.base or set(a.settings) & set(b.settings) or len(joined) >= PAIRS:
                continue
            base = self.all[a.base].allocator
            made = candidate(base, dict(sorted((a.settings | b.settings).items())))
            if isinstance(made, Candidate) and made.name not in self.all:
                self.all[made.name] = made
                joined.append(made.name)
        return joined

    def gain(self, c: Candidate, response: str) -> float:
        """How much better it is than its allocator as it comes."""
        return self.all[c.base].scores.get(response, 0.0) - c.scores.get(response, 0.0)

    def simplest(self, c: Candidate, response: str) -> Candidate:
        """The one with a part of its settings, if any, that is as good within half the margin: what does nothing should not be pasted."""
        parts = [p for p in self.all.values() if p.base == c.base and p.settings.items() <= c.settings.items() and response in p.scores and p.name not in self.out
                 and p.scores[response] <= c.scores[response] + np.log1p(self.plan.margin) / 2]
        return min(parts, key=lambda p: (len(p.settings), p.scores[response]))

    def finalists(self, left: list[Candidate]) -> list[Candidate]:
        """The two best by what decides and the best by the other response, each as simple as it may be; the winner's allocator as it comes; today's."""
        names = [c.name for c in left]
        first = [self.simplest(self.all[n], self.plan.response) for n in self.ordered(names, self.plan.response)]
        first = list({c.name: c for c in first}.values())
        thrifty = [self.simplest(self.all[n], self.other) for n in self.ordered(names, self.other)[:1]]
        chosen = [*first[:2], *thrifty, self.all[first[0].base], self.all[self.plan.present]]
        return list({c.name: c for c in chosen if c.name not in self.out}.values())

    def as_dict(self) -> dict:
        rows = [{"name": c.name, "base": c.base, "settings": c.settings, "rungs": c.rungs, "out": self.out.get(c.name),
                 **{r: math.exp(x) for r, x in c.scores.items()}} for c in self.all.values() if c.rungs or c.name in self.out]
        rows.sort(key=lambda c: c.get(self.plan.response, math.inf))
        return {"candidates": rows, "rungs": self.rungs, "runs": len(self.rows.kept), "responses": [self.plan.response, self.other]}


# ---- the command ----

def command_line(args, seed: int) -> str:
    words = ["mare", "lab", "tune", *service.words(args), "--minutes", f"{args.minutes:g}", "--response", args.response, "--margin", f"{args.margin:g}", "--seed", str(seed)]
    for option, values in (("--try", args.extra), ("--allocator", args.allocator), ("--catalogue", args.catalogue)):
        words += [w for v in values for w in (option, v)]
    for option, value in (("--allocators", args.allocators), ("--stdin", args.stdin), ("--cpus", args.cpus)):
        words += [option, value] if value else []
    return shlex.join([*words, "--timeout", f"{args.timeout:g}", "--exit", args.exit, *([] if args.serve else ["--", *args.program])])


def proofs_of(final: list[Candidate], proofs: dict) -> dict:
    """The proof that its object serves, which settings don't change, and its own word for them."""
    return {c.name: replace(proofs[c.base], settings=", ".join(f"{n}={v}" for n, v in c.settings.items())) for c in final}


def tuned(args, plan: blocks.Plan, place: Path, rows: Rows, searched: Rows) -> dict:
    began = time.monotonic()
    usable, present, proofs, out = choose.treatments(args, plan.target, least=1)
    plan.present = present.name
    progress.note("asking the allocators for their knobs")
    found, left_out = candidates(args, usable, present)
    if len(found) < 2:
        raise LabError(f"there is nothing to tune: {', '.join(a.name for a in usable)} has no knobs here whose effect can be proved", code=1)
    usual = choose.first_run(plan.target)
    most = affordable(args.minutes * 60, usual)
    search = Search(plan, found[:most], searched, args.minutes * 60 * PART)
    final = search.finalists(search.run())
    plan.budget = max(args.minutes * 60 - (time.monotonic() - began), 1.0)
    progress.note(f"confirming on fresh blocks: {', '.join(c.name for c in final)}")
    result, _ = choose.judged(plan, [c.allocator for c in final], present, proofs_of(final, proofs), out, rows, command_line(args, plan.seed), 3)
    result["tuning"] = search.as_dict() | {"left_out": left_out, "not_tried": [c.name for c in found[most:]], "seconds": time.monotonic() - began,
                                           "allocators": sorted({c.base for c in found[:most]})}
    result["out"] |= {n: why for n, why in search.out.items()}
    return result


def summary(result: dict) -> list[str]:
    t = result["tuning"]
    lines = [f"searched: {len(t['candidates'])} candidates of {len(t['allocators'])} allocator{'s' * (len(t['allocators']) > 1)} in {t['rungs']} rungs, "
             f"{t['runs']} runs; then {', '.join(a['name'] for a in result['allocators'])} were measured afresh"]
    if t["not_tried"]:
        lines.append(f"no time for {len(t['not_tried'])} more candidates; a longer --minutes tries them: {', '.join(t['not_tried'][:6])}"
                     + (" …" if len(t["not_tried"]) > 6 else ""))
    return lines + [f"not tried: {why}" for why in t["left_out"]]


def listing(args) -> tuple[dict, dict]:
    """The knobs of the allocators that are here: what each is today, and what would be tried; and why some have none."""
    out, why, seen = {}, {}, set()
    for a in allocators.select(allocators.load(args.catalogue, args.allocator), args.allocators):
        fam = knobs.family(a)
        if fam is None or (fam, a.library) not in seen:
            seen.add((fam, a.library))
            why[a.name] = knobs.why_none(a)
            out[a.name] = [{"name": k.name, "now": None if k.family == "glibc" else now, "values": list(k.values), "what": k.what} for k, now in knobs.known(a)]
    return out, why


NONE = "no settings that tune can prove to take effect: it takes part as it comes"


def list_text(found: dict, why: dict) -> str:
    lines = []
    for name, rows in found.items():
        none = f"  no settings that the environment could make: {why[name]}" if why.get(name) else f"  {NONE}"
        lines += [name, *([] if rows else [none]), *(f"  {k['name']:<30} {'' if k['now'] is None else 'now ' + k['now'] + '; '}tried: {', '.join(k['values'])}\n      {k['what']}" for k in rows)]
    return "\n".join(lines)


def run(args) -> int:
    if args.list:
        found, why = listing(args)
        print(output.text(found) if args.json else list_text(found, why))
        return 0
    if not 0.1 <= args.minutes <= 10000:
        raise LabError("--minutes is a time of at least 0.1, as in 10")
    for word in args.extra:
        knobs.settings_of(word)  # a mistake is told before anything runs
    plan, exits = choose.plan_of(args, recommend.LEAST, 0.0), answer.codes(args.codes, choose.CODES)
    native.path("measure")
    apply.check(args.apply)
    place = choose.folder(args)
    if any((place / name).exists() for name in ("search.csv", "runs.csv")):
        raise LabError(f"{place} {choose.HOLDS}")
    with results(place, "search.csv") as rows, Rows(place / "search.csv") as searched:
        result = tuned(args, plan, place, rows, searched)
    output.save(place / "choose.json", result)
    report.write(place, place / "report.html")
    print(output.text(result) if args.json else answer.text(result, place) + "\n" + "\n".join(summary(result)))
    apply.apply(result, args.apply)
    return exits[result["verdict"]["word"]]
