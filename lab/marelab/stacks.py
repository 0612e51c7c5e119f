"""Names for sampled stacks: addresses -> function (file), by the memory map that the launcher copied and binutils' addr2line where that is here."""

import bisect
import re
import shutil
import subprocess
from pathlib import Path

from marelab import elf

LINE = re.compile(r"([0-9a-f]+)-([0-9a-f]+) \S*x\S* ([0-9a-f]+) \S+ \d+ +(/.*)")


def read_maps(path: Path) -> list[tuple[int, int, int, str]]:
    """Executable file mappings: start, end, offset in the file, file; ascending."""
    rows = []
    for line in path.read_text(errors="replace").splitlines():
        m = LINE.fullmatch(line)
        if m:
            rows.append((int(m[1], 16), int(m[2], 16), int(m[3], 16), m[4]))
    return sorted(rows)


def look_up(file: str, addresses: list[int]) -> list[str]:
    """Function names, by addr2line; the file and address where there is none."""
    plain = [f"{Path(file).name}+{a:#x}" for a in addresses]
    if not shutil.which("addr2line") or not Path(file).exists():
        return plain
    r = subprocess.run(["addr2line", "-f", "-C", "-e", file], input="\n".join(f"{a:#x}" for a in addresses), capture_output=True, text=True)
    lines = r.stdout.splitlines()
    if r.returncode != 0 or len(lines) != 2 * len(addresses):
        return plain
    return [p if name == "??" else f"{name} ({Path(file).name})" for name, p in zip(lines[::2], plain)]


def named(stacks: list[dict], maps: Path | None) -> list[dict]:
    """The stacks with `frames` (text) for their addresses; a return address belongs to the call before it."""
    rows = read_maps(maps) if maps and maps.is_file() else []
    starts = [r[0] for r in rows]
    names: dict[int, str] = {}
    asked: dict[str, list[tuple[int, int]]] = {}
    for address in {a for s in stacks for a in s["addresses"]}:
        i = bisect.bisect_right(starts, address) - 1
        names[address] = f"{address:#x}"
        if i >= 0 and address < rows[i][1]:
            start, _, offset, file = rows[i]
            asked.setdefault(file, []).append((address, elf.link_address(file, address - start + offset) - 1))
    for file, pairs in asked.items():
        names.update(zip((a for a, _ in pairs), look_up(file, [where for _, where in pairs])))
    return [{"number": s["number"], "bytes": s["bytes"], "frames": [names[a] for a in s["addresses"]]} for s in stacks]
