"""Results row by row: a CSV file that survives a kill at any moment.

A row is written in one piece and synced before the next run starts. A torn last row, which only a crash of the machine can leave, is put into a
file beside (.torn) when the file is opened again for writing. The columns are those of the first row ever written; a later row with others is an
error of ours. One of us at a time writes; reading changes nothing, so a study can be looked at while it runs, or where nothing may be written.
"""

import contextlib
import csv
import fcntl
import io
import os
import shutil
from pathlib import Path

from marelab.errors import LabError

SPACE = 64 << 20  # bytes of disk that must be free before anything is begun


def make_place(place: Path) -> None:
    """The folder of a study or of choose, if there is room."""
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise LabError(f"{place}: {e.strerror}") from e
    check_space(place)


def check_space(place: Path) -> None:
    free = shutil.disk_usage(place).free
    if free < SPACE:
        raise LabError(f"{place}: only {free >> 20} MB are free there, {SPACE >> 20} MB are needed: make room, or use another folder with -o", code=1)


@contextlib.contextmanager
def results(place: Path, beside: str):
    """The folder, made where it isn't, and its rows, locked before anything is run. Where it comes to no row, nothing of ours stays: neither the
    file `beside` them, which says what was begun."""
    new = not place.exists()
    make_place(place)
    try:
        with Rows(place / "runs.csv") as rows:
            try:
                yield rows
            finally:
                if rows.columns is None:
                    for name in ("runs.csv", beside):
                        (place / name).unlink(missing_ok=True)
    finally:
        if new:
            with contextlib.suppress(OSError):  # it holds something
                place.rmdir()


NEEDED = ("block", "order", "warm_up", "allocator", "problem")  # what makes a file one of ours
WHOLE = ("row", "block", "order", "warm_up")  # numbers wherever they are


def read(path: Path) -> tuple[list[str] | None, list[dict[str, str]], int]:
    """The columns, the rows, and how many bytes are whole; an error where the file is none of ours."""
    try:
        lines = Path(path).read_bytes().split(b"\n")[:-1]
    except OSError as e:
        raise LabError(f"{path}: {e.strerror}; give the folder of a study or of choose") from e
    columns, found, whole, seen = None, [], 0, 0
    reader = csv.reader((line.decode(errors="replace") + "\n" for line in lines), strict=True)
    try:
        for fields in reader:
            if columns is None:
                columns = check_columns(fields, path)
            elif len(fields) == len(columns):
                found.append(check_row(dict(zip(columns, fields)), len(found) + 1, path))
            elif fields and reader.line_num < len(lines):
                raise LabError(f"{path}: row {len(found) + 1} has {len(fields)} fields, not {len(columns)}: the file is damaged")
            elif fields:
                break  # torn
            whole += sum(len(line) + 1 for line in lines[seen:reader.line_num])
            seen = reader.line_num
    except csv.Error as e:
        if reader.line_num < len(lines):
            raise LabError(f"{path}: line {reader.line_num}: {e}; the file is damaged") from e
    return columns, found, whole


def check_columns(fields: list[str], path: Path) -> list[str]:
    lost = [c for c in NEEDED if c not in fields]
    if lost:
        raise LabError(f"{path}: line 1: there is no column '{lost[0]}'; give the folder of a study or of choose")
    return fields


def check_row(row: dict[str, str], number: int, path: Path) -> dict[str, str]:
    wrong = [c for c in WHOLE if not row.get(c, "0").isdecimal()]
    if wrong:
        raise LabError(f"{path}: row {number}: {wrong[0]} is '{row[wrong[0]]}', which is no number: the file is damaged")
    return row


class Rows:
    def __init__(self, path: Path):
        self.path = Path(path)
        try:
            self.file = open(self.path, "a", newline="")
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LabError(f"{self.path}: another `mare lab` writes there; wait for it, or name another folder with -o", code=1) from None
        except OSError as e:
            raise LabError(f"{self.path}: {e.strerror}; name another folder with -o") from e
        self.columns, self.kept, whole = read(self.path)
        self.tear_off(whole)

    def tear_off(self, whole: int) -> None:
        torn = self.path.read_bytes()[whole:]
        if torn:
            self.path.with_suffix(".torn").write_bytes(torn)
            self.file.truncate(whole)

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
