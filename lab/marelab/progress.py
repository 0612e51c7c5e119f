"""Progress with time left, on stderr: a bar at a terminal; elsewhere a line now and then, so that a log says where it is."""

import sys
import time

from tqdm import tqdm

EVERY = 10.0  # seconds between two lines


class Lines:
    """The part of a bar's interface that is used here, for logs."""

    def __init__(self, total: int | float, label: str, unit: str):
        self.total, self.label, self.unit, self.n = total, label, unit, 0
        self.began = self.said = time.monotonic()

    def update(self, n: int | float = 1) -> None:
        self.n += n
        now = time.monotonic()
        if now - self.said >= EVERY:
            self.said = now
            left = (now - self.began) / self.n * max(self.total - self.n, 0)
            print(f"{self.label}: {self.n:g} of {self.total:g} {self.unit}s, {now - self.began:.0f} s; {left:.0f} s left", file=sys.stderr, flush=True)

    def set_postfix_str(self, text: str) -> None:
        pass

    def refresh(self) -> None:
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def bar(total: int | float, label: str, unit: str = "run") -> tqdm | Lines:
    """A context manager with `update(n)` and `set_postfix_str(text)`."""
    if sys.stderr.isatty():
        return tqdm(total=total, desc=label, unit=unit, leave=False, dynamic_ncols=True, file=sys.stderr)
    return Lines(total, label, unit)


def note(text: str) -> None:
    """One line about what happens now, without tearing a bar apart."""
    tqdm.write(text, file=sys.stderr)
