"""What the laboratory reads of ELF files: what a program needs, which names an object defines, where its bytes lie in memory."""

import functools
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator

MACHINES = {3: "x86", 40: "ARM", 62: "x86-64", 183: "AArch64", 243: "RISC-V"}
LOAD, INTERPRETER, DYNAMIC_SYMBOLS = 1, 3, 11  # PT_LOAD, PT_INTERP, SHT_DYNSYM
DAMAGED = (ValueError, OverflowError, IndexError, struct.error)  # what offsets that lead nowhere end in


@dataclass(frozen=True)
class Segment:
    kind: int
    offset: int  # in the file
    address: int  # in memory
    length: int  # in the file


@dataclass(frozen=True)
class Elf:
    bits: int
    machine: int
    segments: tuple[Segment, ...]
    interpreter: str | None  # the path of the dynamic loader; None: static


def is_elf(path: str) -> bool:
    try:
        with open(path, "rb") as f:
            return f.read(4) == b"\x7fELF"
    except OSError:
        return False


def read(path: str) -> Elf | None:
    """The header's facts, or None where the file is no ELF file (a script). Raises one of DAMAGED where its own offsets lead nowhere."""
    with open(path, "rb") as f:
        head = f.read(64)
        if len(head) < 52 or head[:4] != b"\x7fELF":
            return None
        wide, order = head[4] == 2, "<" if head[5] == 1 else ">"
        if wide and len(head) < 64:
            return None
        machine = struct.unpack_from(order + "H", head, 18)[0]
        table = struct.unpack_from(order + ("Q" if wide else "I"), head, 32 if wide else 28)[0]
        size, count = struct.unpack_from(order + "HH", head, 54 if wide else 42)
        segments = tuple(read_segments(f, wide, order, table, size, count))
        named = next((s for s in segments if s.kind == INTERPRETER), None)
        if named:
            f.seek(named.offset)
        loader = f.read(min(named.length, 4096)).rstrip(b"\0").decode(errors="replace") if named else None
        return Elf(64 if wide else 32, machine, segments, loader)


def read_segments(f, wide: bool, order: str, table: int, size: int, count: int) -> Iterator[Segment]:
    for i in range(count):
        f.seek(table + i * size)
        entry = f.read(size)
        if len(entry) < (56 if wide else 32):
            continue
        if wide:
            kind, _, offset, address, _, length = struct.unpack_from(order + "IIQQQQ", entry)
        else:
            kind, offset, address, _, length = struct.unpack_from(order + "IIIII", entry)
        yield Segment(kind, offset, address, length)


def link_address(path: str, offset: int) -> int:
    """The address that the file itself gives to the byte at this offset; the offset where it gives none."""
    return address_in(readable(path), offset)


def readable(path: str) -> Elf | None:
    """The same, and None where it can't be read or is damaged."""
    try:
        return read(path)
    except (OSError, *DAMAGED):
        return None


def address_in(found: Elf | None, offset: int) -> int:
    for s in found.segments if found else ():
        if s.kind == LOAD and s.offset <= offset < s.offset + s.length:
            return (offset - s.offset + s.address) % (1 << 64)
    return offset


@functools.cache
def defined(path: str) -> frozenset[str] | None:
    """The names an object's dynamic symbol table defines; None where it can't be read.

    A non-position-independent program that takes the address of `free` has an entry for it with an address but no section: a jump in its own PLT
    to whoever serves. Such names are not defined here.
    """
    try:
        data = Path(path).read_bytes()
    except OSError:
        return None
    if data[:6] not in (b"\x7fELF\x02\x01", b"\x7fELF\x02\x02"):
        return None
    order = "<" if data[5] == 1 else ">"
    try:
        at, (size, count) = struct.unpack_from(order + "Q", data, 40)[0], struct.unpack_from(order + "HH", data, 58)
        sections = [struct.unpack_from(order + "IIQQQQII", data, at + i * size) for i in range(count)]
        table = next(s for s in sections if s[1] == DYNAMIC_SYMBOLS)
        names = sections[table[6]][4]
        found = set()
        for i in range(table[5] // 24):
            name, _, _, section = struct.unpack_from(order + "IBBH", data, table[4] + 24 * i)
            if section:
                found.add(data[names + name:data.index(b"\0", names + name)].decode(errors="replace"))
        return frozenset(found)
    except (StopIteration, *DAMAGED):
        return None


def defines(path: str, symbol: str) -> bool:
    """Whether the object defines it; yes where it can't be read."""
    names = defined(path)
    return names is None or symbol in names
