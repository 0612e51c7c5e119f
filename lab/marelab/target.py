"""The program to be studied: found as execvp would find it, and refused before it starts where LD_PRELOAD could not reach it."""

import os
import shutil
import stat
from pathlib import Path

from marelab import elf
from marelab.errors import LabError

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
    try:
        program, own = elf.read(path), elf.read(os.path.realpath("/proc/self/exe"))
    except elf.DAMAGED:
        raise LabError(f"'{name}' is a damaged ELF file: its header names places that lie outside of it") from None
    if program is None:
        raise LabError(f"'{name}' is neither an ELF program nor a script with `#!`: put its interpreter in front")
    if own and (program.bits, program.machine) != (own.bits, own.machine):
        what = elf.MACHINES.get(program.machine, f"machine {program.machine}")
        raise LabError(f"'{name}' is a {program.bits}-bit {what} program; the allocators here are {own.bits}-bit: build it for this machine")
    if program.interpreter is None:
        raise LabError(f"'{name}' is linked statically, so no other allocator can be put into it: link it dynamically")
    if "musl" in program.interpreter:
        raise LabError(f"'{name}' uses musl ({program.interpreter}); the allocators here are built for glibc: build it for glibc")
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
        raise LabError("no program: give it after `--`, as in  -- ./service --its arguments")
    path = find(argv[0])
    refuse(runs(path), argv[0])
    return str(Path(path))
