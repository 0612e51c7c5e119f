"""trace: runs a program with the tracer in front of its allocator; its trace lands in a folder (lab/tracer/FORMAT.md)."""

import argparse
import os
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

from marelab import allocators, format, native, output, target
from marelab.errors import LabError, Terminated

EPILOG = """examples:
  mare lab trace -- ./service --port 80         into ./service.trace
  mare lab trace -o t --ring 1000000 -- ./app   only the last million events
  mare lab trace -o t --stacks 100 -- ./app     one allocation in a hundred with its stack"""

LIMIT = 2 << 30
LEAST_ROOM = 64 << 20
UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def size(text: str) -> int:
    m = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kKmMgGtT]?)(?:i?[bB])?", text)
    if not m:
        raise argparse.ArgumentTypeError(f"'{text}' is no size; write bytes, or 500M, 2G")
    return int(float(m[1]) * UNITS[m[2].lower()])


def positive(text: str) -> int:
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is no number above 0")
    return int(text)


def add_recording(parser: argparse.ArgumentParser) -> None:
    """The options of every command that writes a trace."""
    parser.add_argument("-o", "--out", metavar="DIR", help="where the trace goes (default: NAME.trace); must not exist, or be a trace with --force")
    parser.add_argument("--force", action="store_true", help="replace the trace that is there")
    parser.add_argument("--limit", type=size, metavar="SIZE", help="stop recording at this size on disk (default: 2G, or half of what is free)")
    parser.add_argument("--ring", type=positive, metavar="N", help="keep only the last N events, in memory until the end")
    parser.add_argument("--stacks", type=positive, metavar="N", help="record the stack of each Nth allocation on average, and of each of 32 KiB and more")
    parser.add_argument("--json", action="store_true", help="print the trace's header")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_recording(parser)
    parser.add_argument("program", nargs=argparse.REMAINDER, help="-- program and its arguments")


def run(args: argparse.Namespace) -> int:
    argv = args.program[1:] if args.program[:1] == ["--"] else args.program
    trace = record(argv, args.out, limit=args.limit, ring=args.ring or 0, stacks=args.stacks or 0, force=args.force)
    tell(trace, args.json)
    status = trace.header["status"]
    return status if status >= 0 else 128 - status


def tell(trace: format.Trace, json: bool) -> None:
    if json:
        print(output.text(trace.header, 1))
    else:
        print(*summary(trace), sep="\n", file=sys.stderr)


# ---- for other modules ----

def record(argv: list[str], out: str | Path | None = None, *, limit: int | None = None, ring: int = 0, stacks: int = 0, force: bool = False,
           **popen) -> format.Trace:
    """Traces a program; keyword arguments go to subprocess.Popen (stdin, stdout, env, cwd …), and `timeout` in seconds."""
    target.check(argv)
    folder = Path(out or os.path.basename(argv[0]) + ".trace")
    return write([native.path("launcher"), "--library", library()], folder, f"'{argv[0]}' did not start", argv, limit=limit, ring=ring, stacks=stacks,
                 force=force, **popen)


def library() -> str:
    """The tracer's path, which the loader must be able to take."""
    path = native.path("tracer")
    if allocators.parts(path) != [path]:
        raise LabError(f"{path}: the loader takes no path with a space or a colon in it from LD_PRELOAD: move mare's source folder to another place")
    return path


def write(command: list[str], folder: Path, unstarted: str, argv: list[str] = (), *, limit: int | None, ring: int, stacks: int, force: bool,
          **popen) -> format.Trace:
    """Runs the launcher, which writes into `folder`."""
    folder = make_folder(folder, force)
    ended = launch([*written(command, folder, limit, ring, stacks), *(["--", *argv] if argv else [])], **popen)
    if ended == 125 and not (folder / "trace.json").exists():
        folder.rmdir()
        raise LabError("the trace could not be made; see above", code=1)
    trace = format.load(folder)
    if ended == 125 and not trace.header["complete"]:
        raise LabError("the trace could not be made; see above", code=1)
    if ended == 127 and not trace.header["processes"]:
        raise LabError(unstarted, code=1)
    return trace


def in_front(folder: Path, *, limit: int, stacks: int) -> list[str]:
    """Makes the folder; what to put before the words of a program that somebody else starts, so that it is traced into it."""
    return [*written([native.path("launcher"), "--library", library()], make_folder(folder, False), limit, 0, stacks), "--"]


def written(command: list[str], folder: Path, limit: int | None, ring: int, stacks: int) -> list[str]:
    return [*command, "--out", str(folder.resolve()), "--limit", str(room(folder, limit, ring)), "--ring", str(ring), "--stacks", str(stacks)]


def launch(command: list[str], timeout: float | None = None, **popen) -> int:
    """Ctrl-C is the program's, which is in our terminal's group: the launcher goes on to the trace's end, and so do we."""
    process = subprocess.Popen(command, **popen)
    deadline = time.monotonic() + timeout if timeout is not None else None
    while True:
        try:
            if deadline is not None:
                wait_for_end(process, deadline)
            return process.wait(None if deadline is None else max(deadline - time.monotonic(), 0))
        except BaseException as error:
            if isinstance(error, Terminated):  # the launcher passes it on to the program
                process.terminate()
                continue
            if isinstance(error, KeyboardInterrupt) and not popen.get("start_new_session"):
                continue
            process.kill()
            process.wait()
            raise


def wait_for_end(process: subprocess.Popen, deadline: float) -> None:
    """Until it ends or the time is over. With a limit Popen.wait looks again after up to 50 ms; the kernel says at once."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except OSError:  # before Linux 5.3, or forbidden
        return
    try:
        ended = select.poll()
        ended.register(descriptor, select.POLLIN)
        ended.poll(min(max(deadline - time.monotonic(), 0), 1_000_000) * 1000)
    finally:
        os.close(descriptor)


def make_folder(folder: Path, force: bool) -> Path:
    if folder.exists():
        if not force:
            raise LabError(f"{folder} exists: choose another folder with -o, or replace the trace with --force")
        if any(folder.iterdir()) and not (folder / "trace.json").exists():
            raise LabError(f"{folder} is no trace, so it isn't replaced: choose another folder with -o")
        shutil.rmtree(folder)
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise LabError(f"can't make {folder}: {error.strerror}; choose another folder with -o") from None
    return folder


def room(folder: Path, limit: int | None, ring: int) -> int:
    """The limit on disk: what was asked for if there is room, else what there is room for."""
    free = shutil.disk_usage(folder).free
    wanted = limit if limit is not None else min(LIMIT, max(free // 2, 1))
    wanted = max(wanted, ring * 16)
    if free < (limit if limit is not None else LEAST_ROOM):
        folder.rmdir()
        raise LabError(f"{free >> 20} MiB are free in {folder.parent.resolve()}, too little for a trace: choose another folder with -o, "
                       "or a smaller --limit")
    return wanted


def summary(trace: format.Trace) -> list[str]:
    h = trace.header
    lines = [f"{h['events']:,} events of {len(trace.images)} process{'es' if len(trace.images) != 1 else ''} in {h['seconds']:.1f} s, "
             f"{h['bytes'] / 1e6:,.1f} MB in {trace.folder}"]
    if h["status"] > 0:
        lines.append(f"the program ended with status {h['status']}")
    elif h["status"] < 0:
        lines.append(f"the program was ended by signal {-h['status']}")
    if h.get("attached"):
        lines.append("what was allocated before is not in the trace: its frees are counted as of unknown blocks")
    if h["limit_reached"]:
        lines.append(f"recording stopped after {h['limit_seconds']:.1f} s, at the limit of {h['limit_bytes'] / 1e6:,.0f} MB: "
                     "a higher --limit records more, --ring N keeps the end instead")
    if h["write_error"]:
        lines.append(f"recording stopped because the trace could not be written: {h['write_error']}")
    if h["stalls"]:
        lines.append(f"threads waited {h['stall_seconds']:.2f} s in all for the disk ({h['stalls']} times): times in this trace are too long by that")
    if h["lost_events"]:
        lines.append(f"{h['lost_events']:,} events are missing: more than 16,383 threads at once, or signal handlers inside signal handlers")
    if h["untraced_processes"]:
        lines.append(f"{h['untraced_processes']} processes were not traced: more than 1,024 lived at once")
    if not trace.images and h.get("attached"):
        lines.append("nothing was recorded: the program allocated nothing in this time")
    elif not trace.images:
        lines.append("nothing was recorded: the program never called malloc, or it started another that LD_PRELOAD does not reach")
    else:
        lines.append(f"next:  mare lab describe {trace.folder}")
    return lines
