"""The published study's values, from lab/published.toml: data, nothing computed."""

import functools
from pathlib import Path

from marelab import toml

FILE = Path(__file__).resolve().parents[1] / "published.toml"


@functools.cache
def study() -> dict:
    return toml.read(FILE)[0]


def programs() -> dict[str, dict]:
    """By the name of our scenario of the same kind."""
    return study()["programs"]


def rankings() -> dict[str, dict[str, float]]:
    """Tables 5.4 to 5.6: allocator → difference to the first in per cent."""
    return study()["rankings"]
