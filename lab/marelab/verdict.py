"""What a choice says: one of three words about the allocator that is used today, in a sentence, with its reasons.

- *better*: another one is, surely; by at least so much, which may be less than the margin, and then that is said;
- *same*: the best can't be better by more than the margin, so keep what you have;
- *undecided*: neither is shown, and how many blocks, or minutes, would show it.

An interval that excludes 1 is never called "nothing shown", and one that holds more than the margin never "the same".
"""

import math
from dataclasses import asdict, dataclass, field

import numpy as np

from marelab import recommend
from marelab.recommend import LEAST, SAME, Standing, worse
from marelab.responses import NAMES

BETTER, UNDECIDED = "better", recommend.UNDECIDED


@dataclass
class Verdict:
    word: str  # better, same or undecided
    choice: str  # what to use
    present: str
    by: float | None  # better by at least this share
    further: int | None  # blocks beside those made that would decide
    seconds: float | None  # how long they take
    sentence: str
    alternatives: list[str]  # the same as the best, too
    reasons: list[str] = field(default_factory=list)

    def as_dict(self) -> dict:
        return {**asdict(self), "keep": self.choice == self.present}


def share(x: float) -> str:
    """A bound that promises: rounded to what is surely kept, with two digits that count."""
    percent = x * 100
    return f"{math.floor(percent)} %" if percent >= 10 else f"{math.floor(percent * 10) / 10:g} %"


def at_most(x: float) -> str:
    percent = x * 100
    return f"{math.ceil(percent)} %" if percent >= 10 else f"{math.ceil(percent * 10 - 1e-9) / 10:g} %"


def verdict(time: Standing, memory: Standing, present: str, margin: float, pace: float = 0.0) -> Verdict:
    """`time` is the response that decides, `memory` the other one: their roles are swapped where peak memory decides. `pace`: seconds a block."""
    high, word = time.high[time.names.index(present)], time.words[present]
    others = [n for n in time.names if n != present and time.more(present, n)[1] > 1]
    if time.blocks < LEAST:
        v = too_few(time, present, pace)
    elif word == SAME:
        v = Verdict(SAME, present, present, None, None, None, f"Keep {present}.", [])
        v.reasons.append(within(time, present, high))
    elif others:
        v = better(time, memory, present, margin, pace)
    else:
        v = open_question(time, present, margin, pace)
    v.alternatives = [n for n in time.names if time.words[n] == SAME and n != v.choice]
    v.reasons += means_differ(time, [present, v.choice, *v.alternatives], margin)
    if v.word != UNDECIDED:
        v.reasons += thrift(time, memory, v.choice, margin)
    return v


def interval(s: Standing, a: str, b: str) -> str:
    """a over b, in words."""
    ratio, low, high = s.more(a, b)
    return f"with {a} a typical run's {NAMES[s.response]} is {ratio:.3f} times that with {b} (95 % interval {low:.3f} to {high:.3f})"


def within(s: Standing, present: str, high: float) -> str:
    other = next_best(s) if present == s.best else s.best
    limit = f"no other one is better by more than {at_most(high - 1)}" if high > 1 else "no other one is better"
    return f"{interval(s, present, other)}: {limit}"


def better(time: Standing, memory: Standing, present: str, margin: float, pace: float) -> Verdict:
    named = recommend.choice(time, memory, present, margin)
    by = time.more(present, named)[1] - 1
    sure = f"better by at least {share(by)}" + ("" if by > margin else f", not surely by {margin * 100:g} %")
    v = Verdict(BETTER, named, present, by, None, None, f"Use {named}: {sure}.", [], [interval(time, present, named)])
    if time.words[named] != SAME:
        rivals = [n for n in time.candidates if n not in (named, present)]
        more = recommend.to_decide(time, named)
        limit = time.high[time.names.index(named)] - 1
        v.reasons.append(f"whether {listed(rivals)} would be better still, by up to {at_most(limit)}, is undecided: {blocks_text(time, more, pace)}")
        v.further, v.seconds = more, None if more is None else more * pace
    return v


def open_question(s: Standing, present: str, margin: float, pace: float) -> Verdict:
    more, high = recommend.to_decide(s, present), s.high[s.names.index(present)]
    rivals = [n for n in s.candidates if n != present] or [s.best]
    rivals.sort(key=lambda n: -s.more(present, n)[2])
    return Verdict(UNDECIDED, present, present, None, more, None if more is None else more * pace,
                   f"Undecided: {present} may be as good as any; {listed(rivals[:3])} may be better by up to {at_most(high - 1)}.", [],
                   [interval(s, present, s.best if s.best != present else next_best(s)), blocks_text(s, more, pace)])


def too_few(s: Standing, present: str, pace: float) -> Verdict:
    more = LEAST - s.blocks
    return Verdict(UNDECIDED, present, present, None, more, more * pace, f"Undecided: only {s.blocks} whole blocks were made, and a verdict needs {LEAST}.", [])


def blocks_text(s: Standing, more: int | None, pace: float) -> str:
    if more is None:
        return "the difference lies so near the margin, or the machine is so restless, that no sensible number of blocks would decide"
    time = f", {minutes(more * pace)}," if pace else ""
    return f"about {more} further blocks{time} would decide: the same command with  --blocks {s.blocks + more}"


def minutes(seconds: float) -> str:
    return "a minute" if seconds < 90 else f"{round(seconds / 60)} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def listed(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}" if len(names) > 1 else names[0] if names else "another one"


def next_best(s: Standing) -> str:
    return min((n for n in s.names if n != s.best), key=lambda n: s.ratio[s.names.index(n)])


def means_differ(s: Standing, names: list[str], margin: float) -> list[str]:
    """A word where the mean of all runs says something else than typical runs do: rare, slow ones are part of what a user meets."""
    out = []
    for n in dict.fromkeys(names):
        typical, mean = s.ratio[s.names.index(n)], s.mean_ratio(n)
        if abs(np.log(mean / typical)) > np.log1p(margin):
            out.append(f"this is about typical runs; by the mean of all of them {n} is {mean:.2f} times {s.best}, not {typical:.2f}: "
                       f"some runs of {n if mean > typical else s.best} are much slower than the rest")
    return out


def thrift(time: Standing, memory: Standing, named: str, margin: float) -> list[str]:
    """What the choice costs or saves in the other response."""
    less = [n for n in memory.names if worse(memory, named, n, margin)]
    kind, verb = ("memory", "needs") if memory.response in ("peak", "idle") else ("time", "takes")
    if not less:
        return [f"no other one surely {verb} less {kind} by more than {margin * 100:g} %"]
    least = min(less, key=lambda n: memory.ratio[memory.names.index(n)])
    return [f"if {kind} counts more: {least} {verb} 1/{memory.more(named, least)[0]:.2f} of the {NAMES[memory.response]}, "
            f"at {time.more(least, named)[0]:.3f} times the {NAMES[time.response]}"]
