"""Names for sampled stacks: addresses -> function (file), by the memory map that the launcher copied and the files' own symbols (symbols.py)."""

import bisect
import re
from pathlib import Path

from marelab import elf, symbols

LINE = re.compile(r"([0-9a-f]{1,16})-([0-9a-f]{1,16}) \S*x\S* ([0-9a-f]{1,16}) \S+ \d+ +(/.*)")
UNKNOWN = "code that is in no file"  # made while the program ran, or of an object that was unloaded


def read_maps(path: Path) -> list[tuple[int, int, int, str]]:
    """Executable file mappings: start, end, offset in the file, file; ascending."""
    rows = []
    for line in path.read_text(errors="replace").splitlines():
        m = LINE.fullmatch(line)
        if m:
            rows.append((int(m[1], 16), int(m[2], 16), int(m[3], 16), m[4]))
    return sorted(rows)


class Namer:
    """Addresses of one process; `files` are those that were asked for a name, with how often."""

    def __init__(self, maps: Path | None):
        self.rows = read_maps(maps) if maps and maps.is_file() else []
        self.starts = [r[0] for r in self.rows]
        self.files: dict[str, int] = {}

    def names(self, addresses: set[int]) -> dict[int, str]:
        """A return address belongs to the call before it."""
        found = {a: f"{a:#x}" for a in addresses}
        asked: dict[str, list[tuple[int, int]]] = {}
        for address in addresses:
            i = bisect.bisect_right(self.starts, address) - 1
            if i >= 0 and address < self.rows[i][1]:
                start, _, offset, file = self.rows[i]
                asked.setdefault(file, []).append((address, address - start + offset))
        for file, offsets in asked.items():
            self.files[file] = len(offsets)
            head = elf.readable(file)
            pairs = [(a, max(elf.address_in(head, at) - 1, 0)) for a, at in offsets]
            found.update(zip((a for a, _ in pairs), symbols.look_up(file, [where for _, where in pairs])))
        keys = list(found)
        return dict(zip(keys, map(symbols.short, symbols.demangled([found[k] for k in keys]))))


def named(stacks: list[dict], maps: Path | None) -> list[dict]:
    """The stacks with `frames` (text) in the place of their addresses."""
    names = Namer(maps).names({a for s in stacks for a in s["addresses"]})
    return [{**{k: v for k, v in s.items() if k != "addresses"}, "frames": [names[a] for a in s["addresses"]]} for s in stacks]
