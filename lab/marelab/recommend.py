"""The rule. Response, machine and margin are fixed before anything is measured.

Recommended is every allocator whose simultaneous interval of the ratio to the best does not lie wholly above 1 + margin. If what the program
uses today is among them, the answer is: keep it. Time and memory together give a front: who is on it, nobody beats.
"""

from dataclasses import dataclass

import numpy as np

from marelab.responses import NAMES
from marelab.stats import paired


@dataclass
class Standing:
    """One response of all allocators, relative to the best."""

    response: str
    names: list[str]
    mean: list[float]  # geometric means, in the response's unit
    best: str
    ratio: list[float]  # to the best
    low: list[float]
    high: list[float]
    recommended: list[str]
    pairs: paired.Pairs
    blocks: int

    def row(self, name: str) -> dict:
        i = self.names.index(name)
        return {"name": name, "mean": self.mean[i], "ratio": self.ratio[i], "low": self.low[i], "high": self.high[i],
                "recommended": name in self.recommended}

    def widest(self) -> float:
        """The widest half of an interval of a ratio to the best, as a share of the ratio."""
        b = self.names.index(self.best)
        width = (self.pairs.high - self.pairs.low)[:, b] / 2
        return float(np.expm1(np.max(width)))


def standing(response: str, names: list[str], values: np.ndarray, margin: float, level: float = 0.95, resamples: int = 4000,
             seed: int = 1) -> Standing:
    """`values`: [block, allocator], positive."""
    logs = np.log(values)
    pairs = paired.compare(logs, level, resamples, seed=seed)
    means = logs.mean(axis=0)
    b = int(np.argmin(means))
    low, high = pairs.low[:, b], pairs.high[:, b]
    recommended = [n for i, n in enumerate(names) if not low[i] > np.log1p(margin)]
    return Standing(response, list(names), np.exp(means).tolist(), names[b], np.exp(pairs.difference[:, b]).tolist(), np.exp(low).tolist(),
                    np.exp(high).tolist(), recommended, pairs, values.shape[0])


def worse(s: Standing, a: str, b: str, margin: float) -> bool:
    """a is worse than b by more than the margin, for sure."""
    return bool(s.pairs.low[s.names.index(a), s.names.index(b)] > np.log1p(margin))


def front(time: Standing, memory: Standing, margin: float) -> list[str]:
    """Those that no other allocator beats: worse by more than the margin in one response and not better in the other."""
    def beaten(a, b):
        return (worse(time, a, b, margin) and not worse(memory, b, a, margin)) or (worse(memory, a, b, margin) and not worse(time, b, a, margin))

    return [a for a in time.names if not any(beaten(a, b) for b in time.names if b != a)]


@dataclass
class Verdict:
    keep: bool
    choice: str
    present: str | None
    alternatives: list[str]
    sentence: str
    reasons: list[str]


def verdict(time: Standing, memory: Standing, present: str | None, margin: float) -> Verdict:
    """In words. `time` is the response that decides, `memory` the other one: their roles are swapped where peak memory decides. Among those
    recommended by the first that are also on the front, the one that is best in the second is named first."""
    what = NAMES[time.response]
    if present in time.recommended:
        others = [n for n in time.recommended if n != present]
        row = time.row(present)
        if present == time.best:
            i, b = (time.names.index(n) for n in (next_best(time), present))
            ratio, low, high = (float(np.exp(m[i, b])) for m in (time.pairs.difference, time.pairs.low, time.pairs.high))
            reasons = [f"nothing measured is better: with the next one, {next_best(time)}, the {what} is {ratio:.3f} times as much "
                       f"(95 % interval {low:.3f} to {high:.3f})"]
        else:
            reasons = [f"its {what} is {row['ratio']:.3f} times the best's, {time.best} (95 % interval {row['low']:.3f} to {row['high']:.3f}): "
                       f"not shown to be more than {margin * 100:.0f} % worse"]
        clear = time.widest() <= margin
        sentence = f"Keep {present}." if clear else f"Keep {present}: nothing better has been shown."
        return Verdict(True, present, present, others, sentence, reasons + doubt(time, margin) + thrift(time, memory, present, margin))
    fit = [n for n in front(time, memory, margin) if n in time.recommended] or list(time.recommended)
    # the fastest, unless another one that can't be told from it needs clearly less memory
    choice = time.best if time.best in fit else fit[0]
    for n in fit:
        if worse(memory, choice, n, margin):
            choice = n
    reasons = []
    if present in time.names:
        i, j = time.names.index(present), time.names.index(choice)
        ratio, low, high = (float(np.exp(m[i, j])) for m in (time.pairs.difference, time.pairs.low, time.pairs.high))
        reasons.append(f"with {present} the {what} is {ratio:.3f} times that with {choice} (95 % interval {low:.3f} to {high:.3f})")
    others = [n for n in time.recommended if n != choice]
    return Verdict(False, choice, present, others, f"Use {choice}.", reasons + doubt(time, margin) + thrift(time, memory, choice, margin))


def next_best(s: Standing) -> str:
    return min((n for n in s.names if n != s.best), key=lambda n: s.mean[s.names.index(n)])


def doubt(s: Standing, margin: float) -> list[str]:
    if s.widest() <= margin:
        return []
    return [f"the intervals are wider than the margin of {margin * 100:.0f} % (up to ±{s.widest() * 100:.0f} %): more blocks, "
            "or a quieter machine, could tell more of them apart"]


def thrift(time: Standing, memory: Standing, choice: str, margin: float) -> list[str]:
    """What the choice costs or saves in the other response."""
    less = [n for n in memory.names if worse(memory, choice, n, margin)]
    kind, verb = ("memory", "needs") if memory.response == "peak" else ("time", "takes")
    if not less:
        return [f"no other one {verb} less {kind} by more than {margin * 100:.0f} %"]
    best = min(less, key=lambda n: memory.mean[memory.names.index(n)])
    i, j = memory.names.index(choice), memory.names.index(best)
    ratio = float(np.exp(memory.pairs.difference[i, j]))
    t = float(np.exp(time.pairs.difference[j, i]))
    return [f"if {kind} counts more: {best} {verb} 1/{ratio:.2f} of the {NAMES[memory.response]}, at {t:.3f} times the {NAMES[time.response]}"]
