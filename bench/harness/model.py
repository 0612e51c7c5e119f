"""What an experiment is: labelled commands, and the findings computed from one repetition of them."""
from dataclasses import dataclass, field
from typing import Callable, Optional


@dataclass
class Finding:
    """A figure computed from one repetition. `of` gets {label: {metric: value}}."""
    work: str
    of: Callable
    sense: str = ""                 # ">=" or "<=": what the target means; "" = no target, only told
    target: Optional[float] = None
    unit: str = "×"                 # "×" for ratios
    mare: tuple = ()                # (label, …) shown in the column "mare"
    peers: tuple = ()               # and in the column "peers"
    metric: str = ""                # of the shown labels; default: the experiment's
    source: str = ""                # what the ratio is taken against


@dataclass
class Experiment:
    name: str
    commands: dict
    findings: list = field(default_factory=list)
    metric: str = "hops"
    unit: str = "/s"


def ratio(a, b, metric):
    return lambda m: m[a][metric] / m[b][metric]
