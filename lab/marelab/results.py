"""Results as tables: what analyse, rank, compare and report read. Nothing is dropped without its name being said."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from marelab import answer, responses, rows, study
from marelab.errors import LabError


@dataclass
class Results:
    place: Path
    kind: str  # "study" or "choose"
    about: dict  # study.json or choose.json
    frame: pd.DataFrame  # the runs that count: no warm-up, no problems, whole blocks
    factors: dict[str, list]  # those with at least two levels
    responses: dict[str, str]  # name → column
    allocators: list[str]
    cells: list[str]
    notes: list[str] = field(default_factory=list)  # what was left out, and why
    floor: pd.DataFrame | None = None  # runs of the allocator that only counts up

    @property
    def blocks(self) -> int:
        return int(self.frame["block"].nunique())

    @property
    def full(self) -> bool:
        """Whether the cells make up a full factorial."""
        return len(self.cells) == int(np.prod([len(v) for v in self.factors.values()] or [1]))

    def cube(self, column: str, factor: str | None = None, level=None) -> np.ndarray:
        """[block, cell, allocator]; with a factor, of the cells at that level of it."""
        frame = self.frame if factor is None else self.frame[self.frame[factor] == str(level)]
        cells = [c for c in self.cells if c in set(frame["cell"])]
        table = frame.pivot(index="block", columns=["cell", "allocator"], values=column)
        wanted = pd.MultiIndex.from_product([cells, self.allocators])
        return table[wanted].to_numpy().reshape(len(table), len(cells), len(self.allocators))

    def residuals(self, column: str) -> np.ndarray:
        """What is left of each run beside the mean of its cell and allocator, in the order in which the runs were made."""
        frame = self.frame
        centred = frame[column] - frame.groupby(["cell", "allocator"])[column].transform("mean")
        order = frame[["block"]].assign(order=frame["order"].astype(int)).sort_values(["block", "order"]).index
        return centred.loc[order].to_numpy()


def read_frame(place: Path) -> pd.DataFrame:
    path = place / "runs.csv"
    frame = pd.DataFrame(rows.read(path)[1])
    if frame.empty:
        raise LabError(f"{path} has no rows yet")
    for column in ("block", "warm_up"):
        frame[column] = frame[column].astype(int)
    return frame


def load(place) -> Results:
    place = Path(place)
    if (place / "study.json").exists():
        return load_study(place)
    if (place / "choose.json").exists():
        return load_choose(place)
    if (place / "trace.json").exists():
        raise LabError(f"{place} is a trace: `mare lab describe {place} --figures DIR` describes and draws it")
    raise LabError(f"{place} holds no results: give the folder of `mare lab study` or `mare lab choose`")


def numbers(frame: pd.DataFrame, columns, place: Path) -> pd.DataFrame:
    for c in columns:
        if c not in frame:
            raise LabError(f"{place}/runs.csv: line 1: there is no column '{c}', which the results name as a response; the folder is damaged")
        frame[c] = pd.to_numeric(frame[c], errors="coerce").clip(lower=responses.floor(c))
        bad = ~np.isfinite(frame[c].astype(float))
        if bad.any():
            raise LabError(f"{place}/runs.csv: row {frame.index[bad][0] + 1}: {c} is no number")
    return frame


def load_choose(place: Path) -> Results:
    about = answer.load(place)
    names = [a["name"] for a in about["allocators"]]
    frame = read_frame(place)
    frame = frame[(frame["block"] > 0) & (frame["problem"] == "") & frame["allocator"].isin(names)]
    frame = frame.drop_duplicates(["block", "allocator"], keep="last").copy()  # of a run that was made again, the last counts
    frame["cell"] = ""
    whole = frame.groupby("block")["allocator"].nunique()
    frame = frame[frame["block"].isin(whole.index[whole == len(names)])].copy()
    columns = {k: responses.COLUMNS[k] for k in responses.of(about)}
    return Results(place, "choose", about, numbers(frame, columns.values(), place), {}, columns, names, [""])


def load_study(place: Path) -> Results:
    about = study.load(place)
    frame = read_frame(place)
    names = [a["name"] for a in about["allocators"] if not a.get("floor")]
    floors = {a["name"] for a in about["allocators"] if a.get("floor")}
    notes = list(about["cuts"])
    below = frame[(frame["block"] > 0) & (frame["problem"] == "") & frame["allocator"].isin(floors)].copy()
    frame = frame[frame["allocator"].isin(names)]
    counted = frame[frame["block"] > 0]
    killed = counted[counted["killed"].isin(["memory", "time"])] if "killed" in counted else counted[:0]
    killed = pd.concat([killed, frame[(frame["block"] == 0) & frame["killed"].isin(["memory", "time"])]])
    for cell, group in killed.groupby("cell"):
        notes.append(f"cell {cell} is left out for all: under {group['allocator'].iloc[0]} {group['problem'].iloc[0]}")
    cells = [study.cell_id(c) for c in about["cells"]]
    cells = [c for c in cells if c not in set(killed["cell"])]
    good = counted[(counted["problem"] == "") & counted["cell"].isin(cells)].copy()
    cells, good, more = make_whole(good, cells, names)
    if good.empty:
        raise LabError(f"{place}: no block is whole yet; go on with the same `mare lab study` command")
    factors = {f: levels for f, levels in about["factors"].items() if good[f].nunique() > 1}
    good = numbers(good, about["responses"].values(), place)
    floor = numbers(below, about["responses"].values(), place) if len(below) else None
    return Results(place, "study", about, good, factors, about["responses"], names, cells, notes + more, floor)


def make_whole(good: pd.DataFrame, cells: list[str], names: list[str]):
    """Keeps what every block, cell and allocator has: drops unfinished blocks, then cells with failed runs."""
    notes, size = [], len(cells) * len(names)
    per_block = good.groupby("block").size()
    poor = per_block.index[per_block < 0.95 * size]
    if len(poor):
        notes.append(f"block{'s' if len(poor) > 1 else ''} {', '.join(map(str, poor))} left out: not whole")
        good = good[~good["block"].isin(poor)]
    blocks = good["block"].nunique()
    per_cell = good.groupby("cell").size()
    for cell in list(cells):
        if per_cell.get(cell, 0) < blocks * len(names):
            notes.append(f"cell {cell} is left out: some of its runs failed")
            cells = [c for c in cells if c != cell]
    return cells, good[good["cell"].isin(cells)].copy(), notes
