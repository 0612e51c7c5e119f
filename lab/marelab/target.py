"""The program to be studied: found as execvp would find it, and refused before it starts where LD_PRELOAD could not reach it."""

import functools
import os
import shutil
import stat
import struct
from dataclasses import dataclass
from pathlib import Path

from marelab.errors import LabError

ELF_MACHINES = {3: "x86", 40: "ARM", 62: "x86-64", 183: "AArch64", 243: "RISC-V"}


@dataclass(frozen=True)
class Elf:
    bits: int
    machine: int
    interpreter: str | None  # of the dynamic loader; None: static


def read_elf(path: str) -> Elf | None:
    """The header's facts, or None where the file is no ELF file (a script)."""
    with open(path, "rb") as f:
        head = f.read(64)
        if len(head) < 52 or head[:4] != b"\x7fELF":
            return None
        wide, order = head[4] == 2, "<" if head[5] == 1 else ">"
        machine = struct.unpack_from(order + "H", head, 18)[0]
        if wide:
            offset, size, count = struct.unpack_from(order + "Q", head, 32)[0], *struct.unpack_from(order + "HH", head, 54)
        else:
            offset, size, count = struct.unpack_from(order + "I", head, 28)[0], *struct.unpack_from(order + "HH", head, 42)
        return Elf(64 if wide else 32, machine, interpreter(f, wide, order, offset, size, count))


def interpreter(f, wide, order, offset, size, count) -> str | None:
    for i in range(count):
        f.seek(offset + i * size)
        entry = f.read(size)
        if len(entry) < (56 if wide else 32) or struct.unpack_from(order + "I", entry)[0] != 3:  # PT_INTERP
            continue
        at, length = (struct.unpack_from(order + "Q", entry, 8)[0], struct.unpack_from(order + "Q", entry, 32)[0]) if wide else \
                     (struct.unpack_from(order + "I", entry, 4)[0], struct.unpack_from(order + "I", entry, 16)[0])
        f.seek(at)
        return f.read(min(length, 4096)).rstrip(b"\0").decode(errors="replace")
    return None


@functools.cache
def defined(path: str) -> frozenset[str] | None:
    """The names an object's dynamic symbol table defines; None where it can't be read.

    A non-position-independent program that takes the address of `free` has an entry for it with an address but no section: its own jump stub, which
    leads on to whoever serves. Such names are not defined here.
    """
    try:
        data = Path(path).read_bytes()
    except OSError:
        return None
    if data[:6] not in (b"\x7fELF\x02\x01", b"\x7fELF\x02\x02"):
        return None
    order = "<" if data[5] == 1 else ">"
    at, (size, count) = struct.unpack_from(order + "Q", data, 40)[0], struct.unpack_from(order + "HH", data, 58)
    try:
        sections = [struct.unpack_from(order + "IIQQQQII", data, at + i * size) for i in range(count)]
        table = next(s for s in sections if s[1] == 11)  # SHT_DYNSYM
        names = sections[table[6]][4]
        found = set()
        for i in range(table[5] // 24):
            name, _, _, section = struct.unpack_from(order + "IBBH", data, table[4] + 24 * i)
            if section:
                found.add(data[names + name:data.index(b"\0", names + name)].decode(errors="replace"))
        return frozenset(found)
    except (StopIteration, IndexError, ValueError, struct.error):
        return None


def defines(path: str, symbol: str) -> bool:
    """Whether the object defines it; yes where it can't be read."""
    names = defined(path)
    return names is None or symbol in names


def find(program: str) -> str:
    """The path of what runs in the end: the interpreter of a script, else the program."""
    path = program if "/" in program else shutil.which(program)
    if path is None:
        raise LabError(f"'{program}': not found on PATH; give its path, and the program after `--`")
    if not os.path.exists(path):
        raise LabError(f"'{path}': no such program")
    if os.path.isdir(path) or not os.access(path, os.X_OK):
        raise LabError(f"'{path}' can't be executed (a script needs `#!` and chmod +x, or its interpreter in front)")
    return path


def runs(path: str, depth: int = 0) -> str:
    """Follows `#!` lines to the ELF file."""
    with open(path, "rb") as f:
        line = f.readline(512)
    if not line.startswith(b"#!") or depth > 4:
        return path
    words = line[2:].decode(errors="replace").split()
    if words and os.path.basename(words[0]) == "env":
        words = [w for w in words[1:] if not w.startswith("-") and "=" not in w]
    if not words:
        return path
    return runs(find(words[0]), depth + 1)


def refuse(path: str, name: str) -> None:
    elf = read_elf(path)
    own = read_elf(os.path.realpath("/proc/self/exe"))
    if elf is None:
        raise LabError(f"'{name}' is neither an ELF program nor a script with `#!`: put its interpreter in front")
    if own and (elf.bits, elf.machine) != (own.bits, own.machine):
        what = ELF_MACHINES.get(elf.machine, f"machine {elf.machine}")
        raise LabError(f"'{name}' is a {elf.bits}-bit {what} program; the allocators here are {own.bits}-bit: build it for this machine")
    if elf.interpreter is None:
        raise LabError(f"'{name}' is linked statically, so no other allocator can be put into it: link it dynamically")
    if "musl" in elf.interpreter:
        raise LabError(f"'{name}' uses musl ({elf.interpreter}); the allocators here are built for glibc: build it for glibc")
    mode = os.stat(path).st_mode
    if mode & (stat.S_ISUID | stat.S_ISGID) and not (mode & stat.S_ISUID and os.stat(path).st_uid == os.geteuid() and not mode & stat.S_ISGID):
        raise LabError(f"'{name}' is setuid or setgid, where the loader ignores LD_PRELOAD: study a copy without these bits")


    if capabilities(path):
        raise LabError(f"'{name}' has file capabilities, with which the loader ignores LD_PRELOAD: study a copy (cp drops them)")


def capabilities(path: str) -> bool:
    try:
        return bool(os.getxattr(path, "security.capability"))
    except OSError:
        return False


def check(argv: list[str]) -> str:
    """The path of the program; raises what makes it unfit."""
    if not argv:
        raise LabError("no program: give it after `--`, as in  mare lab choose -- ./service --its arguments")
    path = find(argv[0])
    refuse(runs(path), argv[0])
    return str(Path(path))
