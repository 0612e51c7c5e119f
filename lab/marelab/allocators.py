"""The catalogue of allocators, which of them are here, and what exactly each of them is."""

import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from marelab import elf, native, recipes, toml
from marelab.errors import LabError
from marelab.recipes import Recipe

CATALOGUE = Path(__file__).resolve().parents[1] / "allocators.toml"
KEYS = {"name", "library", "also", "env", "package", "version", "is", "native", "recipe", "named"}
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,31}")


@dataclass(frozen=True)
class Allocator:
    """A treatment: a shared object to preload (None: the C library's own) and an environment."""

    name: str
    library: str | None = None  # its path
    also: tuple[str, ...] = ()  # further objects in which its code runs
    env: tuple[tuple[str, str], ...] = ()
    package: str | None = None
    version_of: str | None = None
    what: str = ""
    missing: str | None = None  # why it can't be used here
    drop: tuple[str, ...] = field(default=())  # objects, preloaded or linked, that would take its place
    as_is: bool = False  # the environment as the user has it, nothing added
    recipe: Recipe | None = None  # how it is built on demand
    named: bool = False  # takes part only where the user names it

    @property
    def objects(self) -> tuple[str, ...]:
        """Real paths of the objects that hold its code."""
        first = (self.library,) if self.library else (c_library(),)
        return tuple(os.path.realpath(p) for p in first + self.also)

    @property
    def operators(self) -> list[str]:
        """libstdc++, whose C++ operators call malloc: where an object that must give way has operators of its own, and this allocator has none."""
        theirs = any("_Znwm" in (elf.defined(o) or ()) for o in self.drop)
        own = self.library is not None and any(elf.defines(o, "_Znwm") for o in self.objects)
        found = loader_names().get("libstdc++.so.6")
        return [found] if theirs and not own and found else []

    def environment(self, environ) -> dict[str, str]:
        """What to set on top of the user's environment: other allocators' preloads leave, others stay behind ours."""
        if self.as_is:
            return {}
        present = parts(environ.get("LD_PRELOAD", ""))
        kept = [p for p in present if not is_allocator(p) and os.path.realpath(p) not in self.drop]
        settings = dict(self.env)
        if self.library and parts(self.library) != [self.library]:
            raise LabError(f"{self.library}: {NOT_IN_PATHS}")
        first = self.library or (c_library() if self.drop or kept != present else None)
        preload = ([first] if first else []) + self.operators + kept
        if preload or present:
            settings["LD_PRELOAD"] = ":".join(preload)
        if "GLIBC_TUNABLES" in settings and environ.get("GLIBC_TUNABLES"):
            settings["GLIBC_TUNABLES"] = environ["GLIBC_TUNABLES"] + ":" + settings["GLIBC_TUNABLES"]
        return settings


NOT_IN_PATHS = "the loader takes no path with a space or a colon in it from LD_PRELOAD: make a link to it elsewhere, and name that"


def parts(preload: str) -> list[str]:
    """As the loader takes LD_PRELOAD apart."""
    return [p for p in re.split(r"[:\s]+", preload) if p]


AS_IS = Allocator("as it is", what="the environment as it is", as_is=True)


def is_allocator(path: str) -> bool:
    return re.search(r"(je|tc|mi|tbb|sn|rp|super|dl|pt|mare-|hardened_)malloc|hoard|scalloc|mesh|scudo|miser", os.path.basename(path)) is not None


@functools.cache
def c_library() -> str:
    """The path of the C library that this interpreter runs on, which the programs here use, too."""
    with open("/proc/self/maps") as f:
        for line in f:
            path = line.rstrip("\n").partition("/")[2]
            if re.search(r"(^|/)libc(\.so\.6|-[0-9.]+\.so)$", path):
                return "/" + path
    raise LabError("this Python does not run on glibc: the laboratory needs it")


@functools.cache
def loader_names() -> dict[str, str]:
    """Shared objects the dynamic loader knows: name → path."""
    tool = shutil.which("ldconfig") or "/sbin/ldconfig"
    try:
        text = subprocess.run([tool, "-p"], capture_output=True, text=True, timeout=20).stdout
    except OSError:
        return {}
    found: dict[str, str] = {}
    wide = sys.maxsize > 2**32
    for line in text.splitlines():
        m = re.match(r"\s+(\S+) \((.*?)\) => (\S+)", line)
        if m and (("64" in m[2]) == wide or "AArch64" in m[2]):
            found.setdefault(m[1], m[3])
    return found


def locate(library: str) -> str | None:
    if "/" in library:
        return library if os.path.exists(library) else None
    return loader_names().get(library)


def entry(table: dict, where: str) -> Allocator:
    unknown = set(table) - KEYS
    name = table.get("name")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise LabError(f"{where}: an allocator needs a name of letters, digits and . _ + -, not {name!r}")
    if unknown:
        raise LabError(f"{where}: allocator '{name}': unknown key '{sorted(unknown)[0]}'; there are {', '.join(sorted(KEYS))}")
    env = table.get("env", {})
    if not isinstance(env, dict) or not all(isinstance(v, str) for v in env.values()):
        raise LabError(f"{where}: allocator '{name}': env must be a table of strings, as in {{ MALLOC_ARENA_MAX = \"1\" }}")
    library, missing, package = table.get("library"), None, table.get("package")
    if library is not None and not isinstance(library, str):
        raise LabError(f"{where}: allocator '{name}': library must be a path or a name, as in \"libjemalloc.so.2\"")
    recipe = recipes.from_table(name, table["recipe"], where) if "recipe" in table else None
    remedy = f"install the package {package}" if package else "check the path"
    if recipe:
        library, remedy = str(recipe.library), recipe.remedy
    elif "native" in table:
        library, remedy = str(native.FOLDER / f"lib{table['native']}.so"), "run `make lab` in mare's source folder"
    path = locate(library) if library else None
    if library and path is None:
        missing = recipe.remedy if recipe else f"{library} is not here: {remedy}"
    elif path and parts(path) != [path]:
        missing = f"{path}: {NOT_IN_PATHS}"
    also = tuple(p for p in (locate(a) for a in table.get("also", [])) if p)
    return Allocator(name, path, also, tuple(sorted(env.items())), package, table.get("version"), table.get("is", ""), missing,
                     recipe=recipe, named=table.get("named") is True)


def read_catalogue(path: Path) -> list[Allocator]:
    data, _ = toml.read(path)
    tables = data.get("allocator")
    if not isinstance(tables, list) or set(data) - {"allocator"}:
        raise LabError(f"{path}: a catalogue is a list of [[allocator]] tables")
    found = [entry(t, str(path)) for t in tables]
    names = [a.name for a in found]
    twice = next((n for n in names if names.count(n) > 1), None)
    if twice:
        raise LabError(f"{path}: two allocators are named '{twice}'")
    return found


def user_catalogue() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(base) / "mare" / "allocators.toml"


def load(catalogues=(), extra=()) -> dict[str, Allocator]:
    """The whole catalogue, later entries replacing earlier ones of the same name; `extra` are NAME=PATH words."""
    paths = [CATALOGUE, *([user_catalogue()] if user_catalogue().exists() else []), *map(Path, catalogues)]
    found = {a.name: a for p in paths for a in read_catalogue(p)}
    for word in extra:
        name, equals, path = word.partition("=")
        if not equals:
            raise LabError(f"--allocator {word}: write NAME=/path/to/library.so")
        if not os.path.exists(path):
            raise LabError(f"--allocator {word}: there is no file {path}")
        if not elf.is_elf(path):
            raise LabError(f"--allocator {word}: {path} is no shared object; name the allocator's .so file")
        found[name] = entry({"name": name, "library": os.path.abspath(path)}, "--allocator")
    return found


def select(found: dict[str, Allocator], names: str | None) -> list[Allocator]:
    """Those asked for (comma separated), or all that are here, but for those that want to be named."""
    if not names:
        return [a for a in found.values() if not a.missing and not a.named]
    chosen = []
    for name in names.split(","):
        if name not in found:
            raise LabError(f"no allocator '{name}' in the catalogue; there are {', '.join(found)}. Add yours with --allocator {name}=/path/to/lib.so")
        if found[name].missing:
            raise LabError(f"allocator '{name}': {found[name].missing}")
        chosen.append(found[name])
    return chosen


# ---- identity: what exactly was measured ----

@functools.cache
def fingerprint(path: str) -> str:
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()[:12] if hasattr(hashlib, "file_digest") else hashlib.sha256(f.read()).hexdigest()[:12]


@functools.cache
def package_version(path: str) -> str | None:
    """The package that owns the file, as name=version; None where no package manager knows it."""
    if not shutil.which("dpkg-query"):
        return None
    for p in (path, re.sub(r"^/lib/", "/usr/lib/", path), re.sub(r"^/usr/lib/", "/lib/", path)):
        r = subprocess.run(["dpkg-query", "-S", p], capture_output=True, text=True)
        if r.returncode == 0:
            owner = r.stdout.split(": ")[0].split(",")[0].strip()
            version = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", owner], capture_output=True, text=True).stdout
            return f"{owner.split(':')[0]}={version}"
    return None


def version(a: Allocator) -> str:
    """What the library says of itself, and the package it came in; else a digest of the file."""
    own = probe(a).get("version") or (a.recipe.package if a.recipe else None)
    package = package_version(a.objects[0])
    return own or (package.partition("=")[2] if package else None) or f"sha256:{fingerprint(a.objects[0])}"


@functools.cache
def probe(a: Allocator) -> dict:
    """Runs marelab/probe.py under the allocator."""
    settings = a.environment(os.environ)
    script = str(Path(__file__).with_name("probe.py"))
    r = subprocess.run([sys.executable, "-I", script, a.version_of or ""], env=os.environ | settings, capture_output=True, text=True, timeout=60)
    if r.returncode != 0:
        return {"failed": (r.stderr.strip().splitlines() or [f"ended with {r.returncode}"])[-1]}
    return json.loads(r.stdout)


# ---- options that several commands have ----

def add_catalogue_arguments(parser) -> None:
    parser.add_argument("--catalogue", action="append", default=[], metavar="FILE", help="a further catalogue (TOML)")
    parser.add_argument("--allocator", action="append", default=[], metavar="NAME=LIB", help="one more allocator: a name and a shared object")
    parser.add_argument("--allocators", metavar="A,B,…", help="only these (default: all that are here)")
