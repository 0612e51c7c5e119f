"""The page of bench/orb/seeds: tables, and what the seeds' text (Maia, ch. 5) says beside what was measured. Each sentence is made of the figures."""
from statistics import geometric_mean, mean, pstdev

TITLES = {"send_void": "5.4 no parameter", "raise_empty": "an exception", "send_objref": "a reference", "send_objrefs": "5.6 ten references",
          "send_structs_10": "5.5 ten structures"}
PLACES = {"calls": "one machine", "network": "network"}
JAVA = ("JacORB", "GlassFish")


def short(value):
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def grid(head, rows):
    return "\n".join(["| " + " | ".join(head) + " |", "|---" * len(head) + "|", *("| " + " | ".join(row) + " |" for row in rows)])


def names(taken):
    """Of those that were measured, in the order of the first repetition that has them."""
    return list(dict.fromkeys(name for repetition in taken for name in repetition))


def all_means(taken, orb, work):
    return [mean(r[orb][work]) for r in taken if work in r.get(orb, {})]


def cell(taken, orb, work):
    values = all_means(taken, orb, work)
    if not values:
        return "–"
    return f"{short(mean(values))} ± {short(mean(pstdev(r[orb][work]) for r in taken if work in r.get(orb, {})))}"


def ratio(results, part, work, orb, other):
    """Of the means, inside each repetition: (geometric mean, least, greatest); None: one was not measured."""
    values = [mean(r[orb][work]) / mean(r[other][work]) for r in results.get(part) or () if work in r.get(orb, {}) and work in r.get(other, {})]
    return (geometric_mean(values), min(values), max(values)) if values else None


def times(found):
    return "not measured" if not found else f"{short(found[0])} ×" + (f" ({short(found[1])}–{short(found[2])})" if found[1] != found[2] else "")


def calls_table(results):
    parts = [part for part in PLACES if results.get(part)]
    orbs = names([r for part in parts for r in results[part]])
    rows = [[f"{TITLES[work]} (`{work}`), {PLACES[part]}", *(cell(results[part], orb, work) for orb in orbs)]
            for work in TITLES for part in parts if any(work in v for r in results[part] for v in r.values())]
    return grid(["ms for 100 calls, mean ± standard deviation of the samples", *orbs], rows)


def concurrent_table(taken):
    servers = names(taken)
    counts = sorted({n for r in taken for row in r.values() for n in row}, key=int)
    rows = []
    for n in counts:
        values = [[r[s][n] for r in taken if n in r.get(s, {})] for s in servers]
        rows.append([str(n), *(short(mean(v)) if v else "–" for v in values)])
    return grid(["callers: ms for 100 calls of one of them", *servers], rows)


def memory_table(sizes):
    return grid(["greatest sizes of the server, MB", "image (SZ)", "virtual (VSZ)", "resident (RSS)"],
                [[orb, *(f"{peak[kind]:.1f}" for kind in ("SZ", "VSZ", "RSS"))] for orb, peak in sizes.items()])


def settled(samples):
    """(what the last ten took on the average, after how many calls the average of five is for the first time within a third of that)"""
    end = mean(samples[-10:])
    for k in range(len(samples) - 4):
        if mean(samples[k:k + 5]) <= end * 4 / 3:
            return end, 100 * k
    return end, 100 * len(samples)


def warmup_table(taken):
    rows = []
    for orb, samples in taken.items():
        end, calls = settled(samples)
        rows.append([orb, short(samples[0]), short(end), str(calls)])
    return grid(["5.3 from the first call on", "first 100 calls, ms", "last ten samples, ms", "calls until it is within a third of that"], rows)


def speed_words(results):
    def against(orb, work, part="calls"):
        return times(ratio(results, part, work, "mare", orb))

    def beside(work, *orbs):
        found = [(orb, ratio(results, "calls", work, "mare", orb)) for orb in orbs]
        return "mare takes " + (", ".join(f"{times(r)} {orb}'s" for orb, r in found if r) or "a time that has none beside it")

    alone, calls = results.get("round trips"), [m for orb in names(results.get("network", [])) for m in all_means(results["network"], orb, "send_void")]
    if alone and alone > min(calls, default=alone):
        alone = f"{short(alone)} ms, longer than the calls themselves: something disturbed them"
    else:
        alone = f"{short(alone)} ms" if alone else "a time that was not measured"
    return [
        ("OiL with Lua's interpreter is the slowest: up to three times the C++ ORBs for a call without parameters",
         f"mare, with Lua's interpreter too, takes {against('omniORB', 'send_void')} omniORB's time, over the network "
         f"{against('omniORB', 'send_void', 'network')}",
         "Lua runs the program and its servant only; the message from end to end is C's matter, in one function at each side"),
        ("With LuaJIT and generated marshalling OiL is about as fast as the ORBs in Java", beside("send_void", *JAVA),
         "no JIT compiler is needed for that: what is done for each message is C"),
        ("A simple structure or reference costs OiL about as much as Java, both more than C++",
         f"a reference: {beside('send_objref', *JAVA, 'omniORB')}", "as above"),
        ("Sequences of ten structures are slower than in Java, for tables have to be searched",
         f"ten structures: {beside('send_structs_10', *JAVA, 'omniORB')}",
         "tables are still what structures are, but C reads and fills them by a program made once for the type"),
        ("Sequences of ten references take as long as in Java or less; the reason was not clear",
         f"ten references: {beside('send_objrefs', *JAVA, 'omniORB')}",
         "a reference that came before is known by its bytes and is the same proxy; others make an object of each"),
        ("The network's delay hides a part of the differences",
         f"a call without parameters, omniORB as 1: mare {against('omniORB', 'send_void')} on one machine, "
         f"{against('omniORB', 'send_void', 'network')} over the network, whose 100 round trips alone take {alone}",
         "nothing: what an ORB computes is little beside the way there and back"),
    ]


def warm_words(taken):
    def after(orb):
        return f"{orb} after {settled(taken[orb])[1]} calls"
    return [("OiL's times vary, but from the first call on inside the same bounds; the ORBs in Java settle after two thousand calls",
             "within a third of their final time are " + ", ".join(after(orb) for orb in taken),
             "the first calls of Java are still its slowest by far")]


def memory_words(sizes):
    def mb(kind, *orbs):
        found = [f"{orb} {short(sizes[orb][kind])} MB" for orb in orbs if orb in sizes]
        return ", ".join(found) or "not measured"
    return [
        ("Virtual memory: JacORB 208 MB, Sun's ORB 207 MB, C++ close to 60 MB", mb("VSZ", *JAVA, "omniORB", "mare"),
         "64-bit programs reserve addresses that they never use: Java its greatest heap and its classes' space, all of them a stack for each thread"),
        ("The program's image: C++ some 14 MB, OiL some 4 MB", mb("SZ", "omniORB", "mare", *JAVA),
         "such stacks and heaps count here, too"),
        ("Resident: Java less than 20 MB, C++ less than 4 MB, OiL close to C++; with LuaJIT up to three times that", mb("RSS", *JAVA, "omniORB", "mare"),
         "the figure to compare by today; Java takes heap from a quarter of the machine before it collects"),
    ]


def said(results):
    rows = speed_words(results) if results.get("calls") else []
    rows += warm_words(results["warmup"]) if results.get("warmup") else []
    rows += memory_words(results["memory"]) if results.get("memory") else []
    return grid(["the text (2008: Pentium D, OiL 0.5 on Lua 5.1)", "here", "what changed"], rows) if rows else ""


def tables(results):
    made = [calls_table(results)] if results.get("calls") or results.get("network") else []
    for part, table in (("concurrent", concurrent_table), ("memory", memory_table), ("warmup", warmup_table)):
        if results.get(part):
            made.append(table(results[part]))
    return "\n\n".join([*made, said(results)])


def page(results, text, name, picture):
    facts = "\n".join(f"- {k}: {v}" for k, v in results["machine"].items())
    left_out = "\n".join(f"- not measured: {k}: {v}" for k, v in results["failures"].items())
    shown = f"![figures](../data/{name}.svg)\n\n" if picture else ""
    return f"""# The seeds' experiment with CORBA

Written by `{results['command']}`; what is measured: [docs/benchmarks.md](../../docs/benchmarks.md#the-seeds-experiment-with-corba). Raw values:
`bench/data/{name}.json`. The text has only the captions of its figures 5.3 to 5.7, so the last table sets ours beside what its prose says. OiL itself is
not run (it wants seven other rocks, no package has it), nor are Mico and Orbacus: omniORB stands for C++, GlassFish's ORB for Sun's.

{facts}
{left_out}

{shown}{text}
"""
