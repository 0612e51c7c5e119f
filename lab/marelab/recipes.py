"""Recipes: how an allocator that no Debian package brings is built from a package of a registry, and where the result is kept.

A recipe is a table of a catalogue (lab/allocators.toml explains its keys). What it makes is kept in the user's cache folder under a name that holds the
version of the package and a digest of the recipe and of our own sources in it, so that another recipe makes another library, and a library that a study
has measured stays as it was.
"""

import functools
import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from marelab.errors import LabError

COMPILERS = {"cc": "gcc", "c++": "g++", "clang++": "clang"}  # and the Debian package that brings each
TEXTS = ("crate", "version", "sha256", "compiler", "licence")
LISTS = ("sources", "ours", "include", "flags", "link", "empty", "flags_x86_64")
MEANT = {"version": r"[0-9A-Za-z.+-]+", "crate": r"[A-Za-z0-9_-]+", "sha256": r"[0-9a-f]{64}", "compiler": "|".join(map(re.escape, COMPILERS))}


@dataclass(frozen=True)
class Recipe:
    name: str
    crate: str
    version: str
    sha256: str
    compiler: str
    licence: str
    sources: tuple[str, ...]  # patterns, inside the package
    ours: tuple[str, ...]  # paths of sources and headers of the catalogue's own
    include: tuple[str, ...]  # folders inside the package
    flags: tuple[str, ...]
    link: tuple[str, ...]
    empty: tuple[str, ...]  # files of the package that are taken as empty
    flags_x86_64: tuple[str, ...]  # further flags, on such machines

    @property
    def package(self) -> str:
        return f"{self.crate}-{self.version}"

    @property
    def archive(self) -> str:
        """The name of the package's file."""
        return f"{self.package}.crate"

    @property
    def library(self) -> Path:
        return cache() / f"{self.name}-{self.version}-{digest(self)}" / f"lib{self.name}.so"

    @property
    def remedy(self) -> str:
        return f"`mare lab allocators --get {self.name}` builds it from the crate {self.crate} {self.version}, with {self.compiler}"


def cache() -> Path:
    """The user's, for what can be made again; MARE_LAB_CACHE names another, as for several users."""
    if os.environ.get("MARE_LAB_CACHE"):
        return Path(os.environ["MARE_LAB_CACHE"]).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or ""
    return Path(base if os.path.isabs(base) else os.path.expanduser("~/.cache")) / "mare" / "allocators"


@functools.cache
def digest(recipe: Recipe) -> str:
    h = hashlib.sha256(repr(tuple(v for k, v in sorted(vars(recipe).items()) if k != "ours")).encode())
    for path in recipe.ours:
        try:
            h.update(Path(path).read_bytes())
        except OSError as e:
            raise LabError(f"allocator '{recipe.name}': {path}: {e.strerror}") from e
    return h.hexdigest()[:8]


def from_table(name: str, table, where: str) -> Recipe:
    """The recipe that a catalogue has for an allocator. `where`: the catalogue's path, beside which its own sources are."""
    said = f"{where}: allocator '{name}': its recipe"
    if not isinstance(table, dict):
        raise LabError(f"{said} must be a table, as in lab/allocators.toml")
    unknown = sorted(set(table) - {*TEXTS, *LISTS})
    if unknown:
        raise LabError(f"{said} has an unknown key '{unknown[0]}'; there are {', '.join((*TEXTS, *LISTS))}")
    for key in TEXTS:
        if not isinstance(table.get(key), str) or not re.fullmatch(MEANT.get(key, ".+"), table[key]):
            raise LabError(f"{said} needs {key}, " + {"sha256": "64 hexadecimal digits", "compiler": f"one of {', '.join(COMPILERS)}"}.get(key, "a text"))
    for key in LISTS:
        values = table.get(key, [])
        if not isinstance(values, list) or not all(isinstance(v, str) for v in values):
            raise LabError(f"{said}: {key} must be a list of texts")
    lists = {k: tuple(table.get(k, [])) for k in LISTS}
    outside = next((p for p in lists["sources"] + lists["include"] + lists["empty"] if os.path.isabs(p) or ".." in Path(p).parts), None)
    if outside:
        raise LabError(f"{said}: {outside} must lie inside the package")
    lists["ours"] = tuple(str(Path(where).resolve().parent / p) for p in lists["ours"])
    return Recipe(name, **{k: table[k] for k in TEXTS}, **lists)
