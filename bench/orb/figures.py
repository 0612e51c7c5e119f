"""Figures 5.3 to 5.7 of the seeds (Maia, ch. 5), redrawn with omniORB, JacORB, GlassFish's ORB and mare."""
from statistics import mean, median, pstdev

COLOURS = {"omniORB": "#7a7a7a", "JacORB": "#c0803c", "GlassFish": "#a0507c", "mare": "#2b7a8c", "mare → omniORB": "#6aa9b5", "omniORB → mare": "#a9cfd6",
           "mare, 2 processes": "#6aa9b5"}


def bars(axes, taken, works, title):
    """Means of 100 calls with the standard deviation of the samples, as there."""
    labels = [label for label in COLOURS if any(label in r for r in taken)]
    width = 0.8 / len(labels)
    for k, label in enumerate(labels):
        heights = [median([mean(r[label][w]) for r in taken if label in r]) for w in works]
        errors = [median([pstdev(r[label][w]) for r in taken if label in r]) for w in works]
        axes.bar([i + k * width for i in range(len(works))], heights, width, yerr=errors, color=COLOURS[label], label=label)
    axes.set_xticks([i + 0.4 - width / 2 for i in range(len(works))], [w.replace("send_", "") for w in works])
    axes.set_ylabel("ms per 100 calls")
    axes.set_title(title, fontsize=9)
    axes.legend(fontsize=7)


def lines(axes, samples):
    for label, values in samples.items():
        axes.plot(range(1, len(values) + 1), values, color=COLOURS[label], label=label, linewidth=1)
    axes.set_yscale("log")
    axes.set_xlabel("sample of 100 calls")
    axes.set_ylabel("ms")
    axes.set_title("5.3 from the first call on, send_void", fontsize=9)
    axes.legend(fontsize=7)


def memory(axes, sizes):
    kinds, width = ("SZ", "VSZ", "RSS"), 0.8 / len(sizes)
    for k, (label, peak) in enumerate(sizes.items()):
        axes.bar([i + k * width for i in range(3)], [peak[kind] for kind in kinds], width, color=COLOURS[label], label=label)
    axes.set_xticks([i + 0.4 - width / 2 for i in range(3)], kinds)
    axes.set_yscale("log")
    axes.set_ylabel("MB")
    axes.set_title("5.7 memory of the server, greatest", fontsize=9)
    axes.legend(fontsize=7)


def concurrent(axes, taken):
    for label in COLOURS:
        rows = [r[label] for r in taken if r.get(label)]
        if rows:
            counts = sorted(rows[0], key=int)
            axes.plot([int(n) for n in counts], [mean([r[n] for r in rows if n in r]) for n in counts], "o-", color=COLOURS[label], label=label,
                      linewidth=1, markersize=3)
    axes.set_xlabel("callers")
    axes.set_ylabel("ms for 100 calls of one")
    axes.set_title("concurrent callers, send_void", fontsize=9)
    axes.legend(fontsize=7)


def plotting():
    """matplotlib's pyplot, writing SVG; None when it is missing."""
    try:
        import matplotlib
        matplotlib.use("svg")
        from matplotlib import pyplot
    except ImportError:
        return None
    return pyplot


def finish(pyplot, figure, title, path):
    figure.suptitle(title, fontsize=10)
    figure.savefig(path)
    pyplot.close(figure)
    return True


def draw_seeds(results, path):
    """Of bench/orb/seeds. False when matplotlib is missing."""
    pyplot = plotting()
    if not pyplot:
        return False
    figure, grid = pyplot.subplots(3, 3, figsize=(14, 11), layout="constrained")
    for row, (part, place) in zip(grid, (("calls", "one machine"), ("network", "network"))):
        if results.get(part):
            bars(row[0], results[part], ["send_void", "raise_empty"], f"5.4 calls without a parameter, {place}")
            bars(row[1], results[part], ["send_structs_10"], f"5.5 ten structures, {place}")
            bars(row[2], results[part], ["send_objref", "send_objrefs"], f"5.6 a reference, ten of them, {place}")
    for axes, part, drawn in zip(grid[2], ("warmup", "memory", "concurrent"), (lines, memory, concurrent)):
        if results.get(part):
            drawn(axes, results[part])
    return finish(pyplot, figure, f"The seeds' experiment with CORBA, {results['machine']['date'][:10]}", path)


def draw(results, path):
    """Of bench/orb/run. False when matplotlib is missing."""
    pyplot = plotting()
    if not pyplot:
        return False
    figure, grid = pyplot.subplots(2, 3, figsize=(13, 7.5), layout="constrained")
    grid = list(grid.flat)
    if "warmup" in results:
        lines(grid[0], results["warmup"])
    if "calls" in results:
        bars(grid[1], results["calls"], ["send_void", "raise_empty"], "5.4 calls without a parameter")
        bars(grid[2], results["calls"], ["send_structs_10", "send_structs_100", "send_structs_1000"], "5.5 sequences of structures")
        grid[2].set_yscale("log")
        bars(grid[3], results["calls"], ["send_objref", "send_objrefs"], "5.6 a reference, a sequence of ten")
    if "memory" in results:
        memory(grid[4], results["memory"])
    if "large" in results:
        bars(grid[5], results["large"], ["string_1m", "octets_1m"], "1 MiB, echoed")
    return finish(pyplot, figure, f"ORBs on one core, {results['machine']['date'][:10]}", path)
