"""Progress with time left, on stderr; silent when that is no terminal, so that logs and tests stay readable."""

import sys

from tqdm import tqdm


def bar(total: int | float, label: str, unit: str = "run") -> tqdm:
    """A context manager with `update(n)` and `set_postfix_str(text)`."""
    return tqdm(total=total, desc=label, unit=unit, leave=False, dynamic_ncols=True, disable=not sys.stderr.isatty(), file=sys.stderr)


def note(text: str) -> None:
    """One line about what happens now, without tearing a bar apart."""
    tqdm.write(text, file=sys.stderr)
