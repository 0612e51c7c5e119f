"""One way to write numbers and units for people; templates/page.js does the same in the browser.

Thousands stand apart by a space; three digits count; memory is in units of 1024 (KiB, MiB, GiB), times in s, ms or µs; a share is in per cent. Terminals get plain
spaces; `typeset` puts no-break spaces in their place, for the page.
"""

import re

MEMORY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
GAP = "\u00a0"


def count(n) -> str:
    return f"{round(n):,}".replace(",", " ")


def digits(x: float) -> str:
    """Three digits that count, and no less than the whole number."""
    for decimals in (2, 1, 0):
        if abs(round(x, decimals)) < 10 ** (3 - decimals):
            text = f"{x:.{decimals}f}"
            return text.rstrip("0").rstrip(".") if "." in text else text
    return count(x)


def size(bytes_: float) -> str:
    x, unit = float(bytes_), 0
    while round(x, 0) >= 1024 and unit + 1 < len(MEMORY):
        x, unit = x / 1024, unit + 1
    return f"{digits(x)} {MEMORY[unit]}" if unit else f"{count(x)} B"


def seconds(s: float) -> str:
    if s == 0:
        return "0 s"
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if s >= 0.9995 * scale:
            return f"{digits(s / scale)} {unit}"
    return f"{digits(s / 1e-6)} µs"


def share(x: float) -> str:
    if x == 0 or x == 1:
        return f"{x * 100:.0f} %"
    if x < 0.0005:
        return "less than 0.1 %"
    if x > 0.9995:
        return "more than 99.9 %"
    return f"{x * 100:.1f} %" if x < 0.1 or x > 0.995 else f"{x * 100:.0f} %"


def typeset(text: str) -> str:
    """For the page: thousands stand apart in one way, and neither they nor a unit are cut off from their number at a line's end."""
    text = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", GAP, text)
    text = re.sub(r"(?<=\d) (?=\d{3}(?!\d))", GAP, text)
    return re.sub(r"(?<=\d) (?=(?:%|B|[KMGTP]iB|s|ms|µs)(?![\w]))", GAP, text)
