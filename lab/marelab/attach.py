"""attach: records a program that runs, for a while; it was started with the tracer asleep (--start, or the variables of --env)."""

import argparse
import contextlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from marelab import native, output, target, trace
from marelab.errors import LabError

EPILOG = """examples:
  mare lab attach --start -- ./service --port 80    start it; nothing is recorded
  mare lab attach 1234 --for 10 -o busy             record it, and what it forks, for ten seconds
  mare lab attach --list                            who can be recorded
  mare lab attach --env                             the variables for a unit or a Dockerfile, instead of --start

A program that was started without the tracer can't be recorded. While asleep, the tracer checks at each call whether anybody is recording, and takes
a page of /dev/shm."""

FOLDER = Path("/dev/shm")
NAME = "mare-lab-asleep."
TAIL = "program"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pid", nargs="?", type=trace.positive, help="the process to record; --list shows them")
    parser.add_argument("--for", dest="seconds", type=seconds, metavar="SECONDS", help="how long (default: until Ctrl-C, or the program's end)")
    parser.add_argument("--start", action="store_true", help="start the program after --, with the tracer asleep in it")
    parser.add_argument("--list", action="store_true", help="show the processes that can be recorded")
    parser.add_argument("--env", action="store_true", help="print the variables that start a program asleep, one a line")
    trace.add_recording(parser)


def seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"'{text}' is no number of seconds above 0")
    return value


def run(args: argparse.Namespace) -> int:
    if args.start + args.list + args.env + (args.pid is not None) != 1:
        raise LabError("give the number of a process, or --start -- program, --list, or --env")
    if args.start:
        start(args.program)
    if args.env:
        print(*(f"{k}={v}" for k, v in environment().items()), sep="\n")
        return 0
    if args.list:
        return show(sleepers(), args.json)
    got = record(args.pid, args.out, seconds=args.seconds, limit=args.limit, ring=args.ring or 0, stacks=args.stacks or 0, force=args.force)
    trace.tell(got, args.json)
    return 0


# ---- for other modules ----

def environment() -> dict[str, str]:
    """What a program needs in its environment to be started with the tracer asleep."""
    tracer = trace.library()
    return {"LD_PRELOAD": tracer, "MARE_LAB_TRACE": f"asleep:{tracer}"}


def start(argv: list[str]) -> None:
    """Becomes the program, with the tracer asleep in it."""
    target.check(argv)
    more = environment()
    env = {**os.environ, **more, "LD_PRELOAD": ":".join(filter(None, (more["LD_PRELOAD"], os.environ.get("LD_PRELOAD"))))}
    try:
        os.execvpe(argv[0], argv, env)
    except OSError as error:
        raise LabError(f"can't start {argv[0]}: {error.strerror}", code=1) from None


def record(pid: int, out: str | Path | None = None, *, seconds: float | None = None, limit: int | None = None, ring: int = 0, stacks: int = 0,
           force: bool = False):
    """Records process `pid` and those that share its trace, for so many seconds or until an interrupt. Returns a format.Trace."""
    if pid not in {s.pid for s in sleepers()}:
        refuse(pid)
    command = [native.path("launcher"), "--attach", str(pid), "--for", str(max(round(seconds * 1e6), 1) if seconds else 0)]
    return trace.write(command, Path(out or f"{pid}.trace"), "the trace could not be made; see above", limit=limit, ring=ring, stacks=stacks, force=force)


@dataclass(frozen=True)
class Sleeper:
    pid: int
    mapping: str  # processes with the same one are recorded together
    command: list[str]


def sleepers() -> list[Sleeper]:
    """The processes that can be recorded and looked at by this user. Mappings that nobody has any more are removed."""
    found, launcher = [], os.path.realpath(native.path("launcher"))
    for entry in sorted(filter(str.isdecimal, os.listdir("/proc")), key=int):
        with contextlib.suppress(OSError):
            m = re.search(rf"{FOLDER}/{re.escape(NAME)}\d+", Path(f"/proc/{entry}/maps").read_text(errors="replace"))
            if m and os.path.realpath(f"/proc/{entry}/exe") != launcher:  # which has it mapped while it records
                words = Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")[:-1]
                found.append(Sleeper(int(entry), m[0], [os.fsdecode(w) for w in words]))
    remove_orphans({s.mapping for s in found})
    return found


def remove_orphans(used: set[str]) -> None:
    for path in FOLDER.glob(NAME + "*"):
        with contextlib.suppress(OSError, ValueError):
            alive = os.path.exists(f"/proc/{int(path.name[len(NAME):])}")
            if str(path) not in used and not alive and path.stat().st_uid == os.getuid():
                path.unlink()


def refuse(pid: int) -> None:
    if not os.path.exists(f"/proc/{pid}"):
        raise LabError(f"there is no process {pid}; `mare lab attach --list` shows those that can be recorded")
    if not readable(pid):
        raise LabError(f"process {pid} can't be looked into: attach as its user, or as root" if os.getuid() else
                       f"process {pid} can't be looked into, not even by root here")
    below = [s for s in sleepers() if parent(s.pid) == pid]
    if below:
        raise LabError(f"process {pid} was not started with the tracer; its child {below[0].pid} ({' '.join(below[0].command)[:60]}) was: attach to that one")
    raise LabError(f"process {pid} was not started with the tracer: start it by  mare lab attach --start -- program,  or with the variables that "
                   "`mare lab attach --env` prints")


def readable(pid: int) -> bool:
    try:
        Path(f"/proc/{pid}/maps").read_bytes()
        return True
    except OSError:
        return False


def parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(") ")[2].split()[1])
    except (OSError, IndexError):
        return 0


def show(found: list[Sleeper], json: bool) -> int:
    if json:
        print(output.text([{"pid": s.pid, "command": s.command, "mapping": s.mapping} for s in found], 1))
        return 0
    if not found:
        print("nobody: start a program by  mare lab attach --start -- program")
    for s in found:
        print(f"{s.pid:>8}  {' '.join(s.command)[:100]}")
    return 0
