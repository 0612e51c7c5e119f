"""The rule: how each allocator stands to the best one, in one response. Response, machine and margin are fixed before anything is measured.

What is compared is the typical run: trimmed means of differences within blocks (stats/trimmed.py). An allocator is *the same* as the best when
its interval ends within the margin, *worse* when its interval leaves 1 out, and else *undecided*. With fewer than ten blocks every one is.
Time and memory together give a front: who is on it, nobody beats.
"""

from dataclasses import dataclass, field

import numpy as np

from marelab.stats import trimmed

LEAST = 10  # blocks, for any verdict
SAME, WORSE, UNDECIDED = "same", "worse", "undecided"


@dataclass
class Standing:
    """One response of all allocators, relative to the best."""

    response: str
    names: list[str]
    values: np.ndarray  # [block, allocator]
    pairs: trimmed.Pairs
    best: str
    candidates: list[str]  # the best may be any of them
    typical: list[float]  # of single runs, in the response's unit
    ratio: list[float]  # to the best
    low: list[float]
    high: list[float]
    margin: float
    words: dict[str, str] = field(default_factory=dict)

    @property
    def blocks(self) -> int:
        return self.pairs.blocks

    def row(self, name: str) -> dict:
        i = self.names.index(name)
        return {"name": name, "typical": self.typical[i], "mean": float(self.values[:, i].mean()), "ratio": self.ratio[i], "low": self.low[i],
                "high": self.high[i], "mean_ratio": self.mean_ratio(name), "word": self.words[name]}

    def rows(self) -> list[dict]:
        """In the order of what the intervals are about."""
        return [self.row(n) for n in sorted(self.names, key=lambda n: (self.ratio[self.names.index(n)], n != self.best))]

    def mean_ratio(self, name: str) -> float:
        """By the mean of all runs, which rare slow ones rule, where `ratio` is that of typical ones."""
        i, b = self.names.index(name), self.names.index(self.best)
        return float(self.values[:, i].mean() / self.values[:, b].mean())

    def widest(self) -> float:
        """The widest half of an interval of a ratio to the best, as a share of the ratio."""
        reach = self.pairs.critical(len(self.names) - 1) * self.pairs.error
        return float(np.expm1(reach[:, self.names.index(self.best)].max()))

    def more(self, a: str, b: str) -> tuple[float, float, float]:
        """a over b with the interval that holds when one of the two was fixed beforehand."""
        i, j = self.names.index(a), self.names.index(b)
        d, reach = self.pairs.difference[i, j], self.pairs.critical(len(self.names) - 1) * self.pairs.error[i, j]
        return tuple(float(np.exp(x)) for x in (d, d - reach, d + reach))


def standing(response: str, names: list[str], values: np.ndarray, margin: float, present: str | None = None) -> Standing:
    """`values`: [block, allocator], positive. `present`: what is used today, whose comparisons with all others were fixed beforehand."""
    logs = np.log(values)
    pairs = trimmed.pairs(logs)
    d = trimmed.to_best(pairs, names.index(present) if present in names else None)
    s = Standing(response, list(names), values, pairs, names[d.best], [names[i] for i in d.candidates], np.exp(trimmed.mean(logs)).tolist(),
                 np.exp(d.estimate).tolist(), np.exp(d.low).tolist(), np.exp(d.high).tolist(), margin)
    s.words = {n: word(s, i) for i, n in enumerate(s.names)}
    return s


def word(s: Standing, i: int) -> str:
    if s.blocks < LEAST:
        return UNDECIDED
    return SAME if s.high[i] <= 1 + s.margin else WORSE if s.low[i] > 1 else UNDECIDED


def worse(s: Standing, a: str, b: str, margin: float) -> bool:
    """a is worse than b by more than the margin, for sure, whichever two they are."""
    i, j, k = s.names.index(a), s.names.index(b), len(s.names)
    reach = s.pairs.critical(k * (k - 1) // 2) * s.pairs.error[i, j]
    return bool(s.blocks >= LEAST and s.pairs.difference[i, j] - reach > np.log1p(margin))


def front(time: Standing, memory: Standing, margin: float) -> list[str]:
    """Those that no other allocator beats: worse by more than the margin in one response and not better in the other."""
    def beaten(a, b):
        return (worse(time, a, b, margin) and not worse(memory, b, a, margin)) or (worse(memory, a, b, margin) and not worse(time, b, a, margin))

    return [a for a in time.names if not any(beaten(a, b) for b in time.names if b != a)]


def choice(time: Standing, memory: Standing, present: str, margin: float) -> str:
    """Whom to use instead of the present one: the one least beaten that is surely better than it; or one that can't be told from that and clearly
    needs less of the other response."""
    better = [n for n in time.names if n != present and time.more(present, n)[1] > 1]
    named = time.best if time.best in better else min(better, key=lambda n: time.ratio[time.names.index(n)])
    for n in better:
        if time.words[n] == SAME and worse(memory, named, n, margin):
            named = n
    return named


# ---- what more blocks would bring ----

MOST = 2000  # blocks; where more were needed, the difference lies at the margin itself


def further(s: Standing, settled) -> int | None:
    """How many blocks beside those made would settle it, if everything stayed as it is but for the errors, which shrink; None: too many.
    `settled(reach)` says whether these half widths of all pairs would do."""
    made, n = s.blocks, max(s.blocks, LEAST)
    comparisons = len(s.names) - 1
    while n <= MOST:
        n += max(1, n // 20)
        kept = trimmed.kept(n)
        shrunk = s.pairs.error * np.sqrt(shape(n) / shape(made))
        reach = trimmed.Pairs(s.pairs.difference, shrunk, n, kept).critical(comparisons) * shrunk
        if settled(reach):
            return n - made
    return None


def shape(n: int) -> float:
    """How the squared error of a trimmed mean goes with the number of blocks."""
    h = trimmed.kept(n)
    return (n - 1) / (h * (h - 1))


def to_decide(s: Standing, name: str) -> int | None:
    """Blocks until `name` would be the same as the best, or worse by more than the margin."""
    i, d, limit = s.names.index(name), s.pairs.difference, np.log1p(s.margin)

    def settled(reach):
        low = d - reach
        np.fill_diagonal(low, 0.0)
        may = [j for j in range(len(s.names)) if low[j].max() <= 0] or [s.names.index(s.best)]
        return low[i].max() > limit or (d + reach)[i, may].max() <= limit

    return further(s, settled)
