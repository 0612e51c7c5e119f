"""A table of the study beside ours, as text and as JSON."""

from collections.abc import Callable
from dataclasses import dataclass, field

WHOLE = {"allocations", "frees", "distinct sizes"}


@dataclass(frozen=True)
class Maker:
    title: str
    make: Callable  # (number, sources) → Table
    needs: Callable | None = None  # raises where it can't be made, and is quicker than making it


@dataclass
class Table:
    number: str
    title: str
    columns: list[str]
    rows: list[dict] = field(default_factory=list)  # name, whose (published, here), cells by column; a cell that is not known is None
    notes: list[str] = field(default_factory=list)

    def add(self, name: str, whose: str, cells: dict) -> None:
        self.rows.append({"name": name, "whose": whose, "cells": {c: cells.get(c) for c in self.columns}})

    def data(self) -> dict:
        return {"kind": "paper", "version": 1, "table": self.number, "title": self.title, "columns": self.columns, "rows": self.rows, "notes": self.notes}

    def text(self) -> str:
        cells = [["", "", *self.columns]]
        before = None
        for r in self.rows:
            cells.append([r["name"] if r["name"] != before else "", r["whose"], *(shown(c, r["cells"][c]) for c in self.columns)])
            before = r["name"]
        widths = [max(map(len, column)) for column in zip(*cells)]
        left = {0, 1} | {i for i, c in enumerate(self.columns, 2) if any(isinstance(r["cells"][c], str) for r in self.rows)}
        lines = ("  ".join(v.ljust(w) if i in left else v.rjust(w) for i, (v, w) in enumerate(zip(row, widths))).rstrip() for row in cells)
        return "\n".join([f"Table {self.number}. {self.title}", *lines, *(f"note: {n}" for n in self.notes)])


def shown(column: str, value) -> str:
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if column in WHOLE:
        return f"{value:,.0f}"
    return f"{value:,.2f}"
