"""Names of functions by their addresses, from what ELF files themselves say.

A name is given only where its symbol covers the address. Exported names alone would give each static function the name of the nearest exported one before
it; so the tables are tried in this order, the later ones only for what is still open: .symtab of the file; that of its debug file (by build ID, or by
.gnu_debuglink, in the usual places); the small table that some distributions put into the file itself (.gnu_debugdata, MiniDebugInfo); .dynsym. What no symbol covers
has the start of its function for a name, from the file's unwinding table: `libx.so+0x4f20`, the same for all calls from one function.
"""

import contextlib
import functools
import lzma
import os
import re
import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from marelab.elf import DAMAGED

SYMTAB, DYNSYM, NOTE, NOBITS = 2, 11, 7, 8
FUNCTION, INDIRECT = 2, 10  # STT_FUNC, STT_GNU_IFUNC
DEBUG = Path("/usr/lib/debug")
ENTRY = {"<": np.dtype("<u4, u1, u1, <u2, <u8, <u8"), ">": np.dtype(">u4, u1, u1, >u2, >u8, >u8")}  # name, info, other, section, value, size
MOST = 1 << 30  # bytes of a file that are looked into
UNPACKED = 1 << 28  # bytes of what was packed, and of memory to unpack it
MANGLED, SHOWN = 4096, 300  # characters that a name may have in a file, where templates make long ones, and where it is shown
PATIENCE = 60.0  # seconds for c++filt


@dataclass(frozen=True)
class Table:
    """Functions in the order of their addresses; `names` are offsets into `text`."""

    start: np.ndarray
    end: np.ndarray
    names: np.ndarray
    text: memoryview  # of the mapped file

    def name(self, address: int) -> str | None:
        i = int(np.searchsorted(self.start, address, side="right")) - 1
        for k in range(i, max(i - 4, -1), -1):  # a short one may lie inside of a long one
            if self.start[k] <= address < self.end[k]:
                at = int(self.names[k])
                return bytes(self.text[at:at + MANGLED]).partition(b"\0")[0].decode(errors="replace")
        return None


class File:
    """The sections of an ELF file of 64 bits."""

    def __init__(self, data):
        self.data = data
        if bytes(data[:5]) != b"\x7fELF\x02":
            raise ValueError("no ELF file of 64 bits")
        self.order = "<" if data[5] == 1 else ">"
        at, (size, count, names) = struct.unpack_from(self.order + "Q", data, 40)[0], struct.unpack_from(self.order + "HHH", data, 58)
        rows = [struct.unpack_from(self.order + "IIQQQQIIQQ", data, at + i * size) for i in range(count)]
        base = rows[names][4] if names < len(rows) else 0
        self.sections = [(self.string(base + r[0]) if base else "", *r[1:]) for r in rows]  # name, type, flags, address, offset, size, link, …

    def string(self, at: int) -> str:
        raw = bytes(self.data[at:at + 256])
        return raw.partition(b"\0")[0].decode(errors="replace")

    def section(self, name: str) -> tuple[int, memoryview] | None:
        """Its address and its bytes."""
        for s in self.sections:
            if s[0] == name and s[1] != NOBITS and s[5]:
                return s[3], memoryview(self.data)[s[4]:s[4] + s[5]]
        return None

    def table(self, kind: int) -> Table | None:
        found = next((s for s in self.sections if s[1] == kind and s[5]), None)
        if not found or found[6] >= len(self.sections):
            return None
        strings = self.sections[found[6]]
        symbols = np.frombuffer(self.data, ENTRY[self.order], found[5] // 24, found[4])
        functions = symbols[np.isin(symbols["f1"] & 15, (FUNCTION, INDIRECT)) & (symbols["f3"] != 0) & (symbols["f5"] > 0)]
        text = memoryview(self.data)[strings[4]:strings[4] + strings[5]]
        functions = functions[functions["f0"] < len(text)]
        functions = functions[np.argsort(functions["f4"], kind="stable")]
        return Table(functions["f4"].astype(np.uint64), functions["f4"].astype(np.uint64) + functions["f5"].astype(np.uint64), functions["f0"], text)

    def build_id(self) -> str | None:
        found = self.section(".note.gnu.build-id")
        return bytes(found[1][16:]).hex() if found and len(found[1]) > 17 else None

    def debug_link(self) -> str | None:
        found = self.section(".gnu_debuglink")
        name = bytes(found[1]).partition(b"\0")[0].decode(errors="replace") if found else ""
        return name if name and "/" not in name else None

    def function_starts(self) -> np.ndarray | None:
        """Where functions begin, by .eh_frame_hdr's table for binary search, in the form that linkers write."""
        found = self.section(".eh_frame_hdr")
        if not found or len(found[1]) < 12 or bytes(found[1][:4]) != b"\x01\x1b\x03\x3b":
            return None
        address, data = found
        count = struct.unpack_from(self.order + "I", data, 8)[0]
        pairs = np.frombuffer(data, self.order + "i4", min(2 * count, (len(data) - 12) // 4), 12)
        return np.sort(pairs[::2].astype(np.int64) + address)


def opened(path: Path) -> File | None:
    try:
        return File(np.memmap(path, dtype=np.uint8, mode="r")) if path.stat().st_size < MOST else None
    except (OSError, *DAMAGED):
        return None


def debug_file(path: Path, f: File) -> File | None:
    build, link = f.build_id(), f.debug_link()
    places = [DEBUG / ".build-id" / build[:2] / f"{build[2:]}.debug"] if build else []
    if link:
        places += [path.parent / link, path.parent / ".debug" / link, DEBUG / str(path.parent).lstrip("/") / link]
    for place in places:
        other = opened(place) if place.is_file() and place.resolve() != path else None
        if other and (build is None or other.build_id() in (None, build)):
            return other
    return None


def small_debug_data(f: File) -> File | None:
    found = f.section(".gnu_debugdata")
    if not found:
        return None
    try:
        return File(lzma.LZMADecompressor(memlimit=UNPACKED).decompress(bytes(found[1]), UNPACKED))
    except (lzma.LZMAError, EOFError, MemoryError, *DAMAGED):
        return None


@dataclass(frozen=True)
class Names:
    """What is known of one file's functions."""

    tables: tuple[Table, ...]
    starts: np.ndarray | None
    whole: bool  # static functions are among them

    def name(self, address: int) -> str | None:
        return next((n for n in (t.name(address) for t in self.tables) if n), None)

    def start(self, address: int) -> int:
        """Where the function at the address begins; the address itself where nothing tells."""
        if self.starts is None or not len(self.starts) or address < self.starts[0]:
            return address
        return int(self.starts[np.searchsorted(self.starts, address, side="right") - 1])


@functools.cache
def names_of(path: str) -> Names:
    real = Path(os.path.realpath(path))
    f = opened(real)
    if f is None:
        return Names((), None, False)
    tables: list[Table] = []
    with contextlib.suppress(*DAMAGED):  # a damaged file has the names that came before the damage
        own = f.table(SYMTAB)
        if own is None:
            other = debug_file(real, f) or small_debug_data(f)
            own = other.table(SYMTAB) if other else None
        tables += [own] if own else []
        exported = f.table(DYNSYM)
        tables += [exported] if exported else []
        return Names(tuple(tables), f.function_starts(), own is not None)
    return Names(tuple(tables), None, bool(tables))


def look_up(path: str, addresses: list[int]) -> list[str]:
    """A name for each address of the file, mangled where the file has it so."""
    names, file = names_of(path), Path(path).name
    return [f"{clean(found)} ({file})" if (found := names.name(a)) else f"{file}+{names.start(a):#x}" for a in addresses]


def clean(name: str) -> str:
    """Without its version, and the parts that compilers put behind a function that they cut up."""
    return re.sub(r"(\.(constprop|isra|part|cold|lto_priv|llvm)(\.\d+)*)+$", "", re.sub(r"@+[A-Z][\w.]*$", "", name))


def demangled(names: list[str]) -> list[str]:
    """C++ and Rust names as the source has them, by binutils' c++filt where that is here."""
    tool = shutil.which("c++filt")
    if not tool or not any(n.startswith(("_Z", "_R")) for n in names):
        return names
    try:
        r = subprocess.run([tool], input="\n".join(names), capture_output=True, text=True, errors="replace", timeout=PATIENCE)
    except (OSError, subprocess.TimeoutExpired):
        return names
    lines = r.stdout.splitlines()
    return lines if r.returncode == 0 and len(lines) == len(names) else names


def short(name: str) -> str:
    """With at most SHOWN characters of the function; its file stays."""
    function, space, file = name.rpartition(" (")
    return f"{function[:SHOWN - 1]}…{space}{file}" if len(function) > SHOWN else name


def nameless(path: str) -> bool:
    """Whether the file says only exported names, or none."""
    return not names_of(path).whole
