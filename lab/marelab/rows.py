"""Results row by row: a CSV file that survives a kill at any moment.

A row is written in one piece and synced before the next run starts. A torn last line, which only a crash of the machine can leave, is cut off
when the file is opened again. The columns are those of the first row ever written; a later row with others is an error of ours.
"""

import csv
import io
import os
import shutil
from pathlib import Path

from marelab.errors import LabError


SPACE = 64 << 20  # bytes of disk that must be free before anything is begun


def check_space(place: Path) -> None:
    free = shutil.disk_usage(place).free
    if free < SPACE:
        raise LabError(f"{place}: only {free >> 20} MB are free there, {SPACE >> 20} MB are needed: make room, or use another folder with -o", code=1)


class Rows:
    def __init__(self, path: Path):
        self.path = Path(path)
        self.columns: list[str] | None = None
        self.kept: list[dict[str, str]] = []
        if self.path.exists():
            self.repair()
        self.file = open(self.path, "a", newline="")

    def repair(self) -> None:
        text = self.path.read_bytes().decode(errors="replace")
        whole = text[: text.rfind("\n") + 1]
        if whole != text:
            self.path.write_bytes(whole.encode())
        reader = csv.DictReader(io.StringIO(whole))
        self.columns = reader.fieldnames and list(reader.fieldnames)
        self.kept = [r for r in reader if None not in r.values()]

    def add(self, row: dict) -> None:
        if self.columns is None:
            self.columns = list(row)
            self.write([self.columns])
        if set(row) != set(self.columns):
            raise LabError(f"{self.path} was written with other columns; use another folder (-o)")
        self.write([[row[c] for c in self.columns]])
        self.kept.append({c: str(row[c]) for c in self.columns})

    def write(self, lines) -> None:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(lines)
        try:
            self.file.write(text.getvalue())
            self.file.flush()
            os.fsync(self.file.fileno())
        except OSError as e:
            raise LabError(f"{self.path}: {e.strerror}; what was measured before is kept, "
                           "run the same command again when there is room", code=1) from e

    def close(self) -> None:
        self.file.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
