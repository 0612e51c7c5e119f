"""A trace folder: its header, and which of its files holds what. The format is documented in lab/tracer/FORMAT.md."""

import json
from dataclasses import dataclass
from pathlib import Path

from marelab.errors import LabError

VERSION = 1


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

    def image(self, name: str | None) -> Image:
        if name is None:
            return self.main()
        found = [i for i in self.images if i.name == name or str(i.pid) == name]
        if not found:
            raise LabError(f"{self.folder}: no process '{name}'; there are {', '.join(i.name for i in self.images) or 'none'}")
        return max(found, key=lambda i: i.words)


def load(folder: str | Path) -> Trace:
    folder = Path(folder)
    path = folder / "trace.json"
    if not folder.exists():
        raise LabError(f"{folder}: no such trace; record one with  mare lab trace -o {folder} -- program")
    if not path.exists():
        raise LabError(f"{folder} holds no trace: trace.json is missing; give a folder that `mare lab trace` wrote")
    try:
        header = json.loads(path.read_text(encoding="utf-8"))
        version = header["version"]
    except (ValueError, KeyError, TypeError) as error:
        raise LabError(f"{path}: not a trace's header ({error}); give a folder that `mare lab trace` wrote") from None
    if version != VERSION:
        raise LabError(f"{path}: trace format version {version}, this program reads version {VERSION}; trace again")
    images = [image(folder, p) for p in header["processes"] if p["file"]] if header["complete"] else found(folder)
    return Trace(folder, header, images)


def image(folder: Path, p: dict) -> Image:
    maps = folder / p["maps"] if p.get("maps") else None
    return Image(p["pid"], p["image"], folder / p["file"], p["command"], p["executable"], p["words"], p["ended"] - p["started"],
                 p["anonymous_peak_bytes"], maps)


def found(folder: Path) -> list[Image]:
    """The files of a trace whose launcher was killed: all that is known are their names and sizes."""
    images = []
    for file in sorted(folder.glob("*-*.mtr")):
        pid, number = file.stem.split("-")
        images.append(Image(int(pid), int(number), file, [], "", file.stat().st_size // 8, 0.0, 0, None))
    return images
