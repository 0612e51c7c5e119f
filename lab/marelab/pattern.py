"""The pattern of a program's long-lived blocks: peak, growing, mixed; a stated rule on the allocation clock.

A block is *long-lived* if it lives for at least T operations, T being the smallest power of two from a sixteenth of the trace up (at least 256), or
is never freed. Time is not used: a program of one second has no block older than a second. Blocks born in the last T operations are left out, as
nobody can know how long they would have lived.

Over the births that remain, with F the share of long-lived blocks born up to each operation:
- *growing*: F stays within 0.15 of the straight line (the Kolmogorov distance to an even spread);
- *peak*: four fifths of them are born within two fifths of the operations, one after another;
- *mixed*: neither;
- *undetermined*: fewer than 50 long-lived blocks, or fewer than 4096 operations.
"""

import numpy as np

LEAST_OPERATIONS = 4096
LEAST_BLOCKS = 50
EVEN = 0.15
PEAK_SHARE, PEAK_WIDTH = 0.8, 0.4
NEVER = 40

# what is said of long-lived blocks
WORDS = {"peak": "come in one burst", "growing": "come steadily, all through the run", "mixed": "come at an uneven pace",
         "undetermined": "come in a way that can't be told"}


def classify(births: dict) -> dict:
    operations, step = births["operations"], births["step"]
    octave = max(int(np.ceil(np.log2(max(operations / 16, 1)))), 8)
    threshold = 2**octave
    answer = {"name": "undetermined", "reason": "", "threshold_operations": threshold, "fraction": None, "distance": None, "width": None, "curve": []}
    if operations < LEAST_OPERATIONS:
        return answer | {"reason": f"the program made {operations:,} calls, too few to tell (at least {LEAST_OPERATIONS:,})"}
    matrix = np.array(births["octaves"], dtype=np.int64)
    bins = max(int((operations - threshold) // step), 1)
    matrix = np.pad(matrix, ((0, max(0, bins - len(matrix))), (0, 0)))  # no row is written where nothing was born: a long tail of frees
    long_lived = matrix[:bins, octave:].sum(axis=1)
    total = int(long_lived.sum())
    answer["fraction"] = total / max(int(matrix[:bins].sum()), 1)
    if total < LEAST_BLOCKS:
        return answer | {"reason": f"there are {total} of them, too few to tell (at least {LEAST_BLOCKS}). {long_lived_is(threshold)}"}
    curve = np.cumsum(long_lived) / total
    distance = float(np.max(np.abs(curve - np.arange(1, bins + 1) / bins)))
    width = narrowest(curve, PEAK_SHARE)
    answer |= {"curve": [float(x) for x in curve], "distance": distance, "width": width}
    facts = f"{PEAK_SHARE * 100:.0f} % of the {total:,} long-lived blocks were allocated within {part(width)} of the run. {long_lived_is(threshold)}"
    if distance <= EVEN:
        return answer | {"name": "growing", "reason": facts}
    if width <= PEAK_WIDTH:
        return answer | {"name": "peak", "reason": facts}
    return answer | {"name": "mixed", "reason": facts}


def part(width: float) -> str:
    return "less than 1 %" if width < 0.01 else f"{width * 100:.0f} %"


def long_lived_is(threshold: int) -> str:
    return f"Long-lived is what is still there {threshold:,} calls of malloc or free later, or is never freed; the run is counted in such calls, too, not in seconds"


def narrowest(curve: np.ndarray, share: float) -> float:
    """The smallest stretch, as a part of all bins, in which this share lies."""
    before = np.concatenate([[0.0], curve])
    ends = np.searchsorted(curve, before[:-1] + share - 1e-12)
    starts = np.arange(len(curve))
    inside = ends < len(curve)
    return float(np.min(ends[inside] - starts[inside] + 1) / len(curve))
