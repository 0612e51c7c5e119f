"""A trace folder: its header, and which of its files holds what. The format is documented in lab/tracer/FORMAT.md."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

from marelab.errors import LabError

VERSION = 1
SHOWN = 10  # processes that an error names
NUMBERS = ("seconds", "status", "events", "bytes", "limit_bytes", "ring_events", "stack_every", "clock_gap_ms", "stalls", "stall_seconds", "lost_events",
           "untraced_processes")


@dataclass(frozen=True)
class Image:
    """A process between two execs."""

    pid: int
    number: int
    file: Path
    command: list[str]
    executable: str
    words: int
    seconds: float
    anonymous_peak: int
    maps: Path | None

    @property
    def name(self) -> str:
        return f"{self.pid}-{self.number}"


@dataclass(frozen=True)
class Trace:
    folder: Path
    header: dict
    images: list[Image]

    @property
    def command(self) -> list[str]:
        return self.header["command"]

    def main(self) -> Image:
        """The process image with the most events."""
        if not self.images:
            raise LabError(f"{self.folder}: no process recorded anything (a program that never allocates, or one that LD_PRELOAD didn't reach)",
                           code=1)
        return max(self.images, key=lambda i: i.words)

    def largest(self) -> str:
        """The processes with the most events, and which programs they are."""
        several = sorted(self.images, key=lambda i: -i.words)
        more = f" and {len(several) - SHOWN} smaller ones" if len(several) > SHOWN else ""
        return ", ".join(f"{i.name} ({os.path.basename(i.executable or (i.command or ['?'])[0])})" for i in several[:SHOWN]) + more

    def image(self, name: str | None) -> Image:
        if name is None:
            return self.main()
        found = [i for i in self.images if i.name == name or str(i.pid) == name]
        if not found:
            raise LabError(f"{self.folder}: no process '{name}'; there are {self.largest() or 'none'}")
        return max(found, key=lambda i: i.words)


def load(folder: str | Path) -> Trace:
    folder = Path(folder)
    path = folder / "trace.json"
    if not folder.exists():
        raise LabError(f"{folder}: no such trace; record one with  mare lab trace -o {folder} -- program")
    if not path.exists():
        raise LabError(f"{folder} holds no trace: trace.json is missing; give a folder that `mare lab trace` wrote")
    remedy = "give a folder that `mare lab trace` wrote"
    try:
        header = json.loads(path.read_text(encoding="utf-8"))
        version = header["version"]
        if version != VERSION:
            raise LabError(f"{path}: trace format version {version}, this program reads version {VERSION}; trace again")
        check(header)
        images = [image(folder, p) for p in header["processes"] if p["file"]] if header["complete"] else found(folder)
    except OSError as error:
        raise LabError(f"{path}: {error.strerror}; {remedy}") from None
    except KeyError as error:
        raise LabError(f"{path}: not a trace's header: {error} is missing; {remedy}") from None
    except (ValueError, TypeError, OverflowError) as error:
        raise LabError(f"{path}: not a trace's header ({error}); {remedy}") from None
    return Trace(folder, header, images)


def check(header: dict) -> None:
    """That what others compute and print with is there and can be."""
    for key in ("complete", "limit_reached", "write_error"):
        if key not in header:
            raise KeyError(key)
    for key in NUMBERS:
        if not isinstance(header[key], (int, float)):
            raise ValueError(f"{key} is no number")
    if not all(isinstance(w, str) for w in header["command"]) or not isinstance(header["processes"], list):
        raise ValueError("command or processes is no list")
    if header["limit_reached"] and not isinstance(header["limit_seconds"], (int, float)):
        raise ValueError("limit_seconds is no number")


def image(folder: Path, p: dict) -> Image:
    if any(b"/" in os.fsencode(p[k]) for k in ("file", "maps") if p[k]):
        raise ValueError("a file outside of the trace")
    maps = folder / p["maps"] if p["maps"] else None
    return Image(int(p["pid"]), int(p["image"]), folder / p["file"], [str(w) for w in p["command"]], str(p["executable"]), int(p["words"]),
                 float(p["ended"]) - float(p["started"]), int(p["anonymous_peak_bytes"]), maps)


def found(folder: Path) -> list[Image]:
    """The files of a trace whose launcher was killed: all that is known are their names and sizes."""
    images = []
    for file in sorted(folder.glob("*-*.mtr")):
        pid, _, number = file.stem.partition("-")
        if pid.isdecimal() and number.isdecimal():
            images.append(Image(int(pid), int(number), file, [], "", file.stat().st_size // 8, 0.0, 0, None))
    return images
