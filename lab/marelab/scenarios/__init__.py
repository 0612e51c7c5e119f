"""The published study's seven programs in eight scenarios, from Debian's packages: scripted, without a user, and with input that is made here.

A scenario makes its input in an empty folder and says how its program is run there: a program that ends by itself, or a service with its load. What it
needs is looked up before anything is made. Nothing is read from the network, nor from the user's own settings: HOME lies in the folder, too.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from marelab.errors import LabError

SBIN = "/usr/local/sbin:/usr/sbin:/sbin"  # where servers are, and users' PATH may not reach


@dataclass(frozen=True)
class Made:
    """How the program is run, in the folder where its input was made."""

    argv: list[str]
    load: str | None = None  # of a service, the command of its load
    ready: str | None = None
    about: dict = field(default_factory=dict)  # facts of the input


@dataclass(frozen=True)
class Scenario:
    name: str  # as in lab/published.toml
    title: str
    what: str
    needs: tuple[str, ...]  # commands; the first is the program whose version counts
    make: Callable[[Path], Made]
    display: bool = False  # an X server is started beside it

    @property
    def missing(self) -> list[str]:
        commands = self.needs + (("Xvfb",) if self.display else ())
        return [c for c in commands if not where(c)]


def where(command: str) -> str | None:
    return shutil.which(command) or shutil.which(command, path=SBIN)


def file(command: str) -> str:
    found = where(command)
    if not found:
        raise LabError(f"{command} is not here: run `tools/setup study` in mare's source folder")
    return found


def settings(place: Path, **more: str) -> list[str]:
    """What stands before a program that looks for settings of its user."""
    home = place / "home"
    home.mkdir(exist_ok=True)
    unset = [w for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "DBUS_SESSION_BUS_ADDRESS") for w in ("-u", name)]
    return ["env", *unset, f"HOME={home}", *(f"{k}={v}" for k, v in more.items())]
