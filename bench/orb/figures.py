"""Figures 5.3 to 5.7 of the seeds (Maia, ch. 5), redrawn with omniORB, JacORB and mare."""
from statistics import mean, median, pstdev

COLOURS = {"omniORB": "#7a7a7a", "JacORB": "#c0803c", "mare": "#2b7a8c", "mare → omniORB": "#6aa9b5", "omniORB → mare": "#a9cfd6"}


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
    kinds = ("SZ", "VSZ", "RSS")
    for k, (label, peak) in enumerate(sizes.items()):
        axes.bar([i + k * 0.27 for i in range(3)], [peak[kind] for kind in kinds], 0.27, color=COLOURS[label], label=label)
    axes.set_xticks([i + 0.27 for i in range(3)], kinds)
    axes.set_yscale("log")
    axes.set_ylabel("MB")
    axes.set_title("5.7 memory of the server, greatest", fontsize=9)
    axes.legend(fontsize=7)


def draw(results, path):
    """False when matplotlib is missing."""
    try:
        import matplotlib
        matplotlib.use("svg")
        from matplotlib import pyplot
    except ImportError:
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
    figure.suptitle(f"ORBs on one core, {results['machine']['date'][:10]}", fontsize=10)
    figure.savefig(path)
    pyplot.close(figure)
    return True
