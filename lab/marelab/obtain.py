"""Brings the package that a recipe names, checks it, builds the library and keeps it.

A package comes from the user's cache; else from where --from says, a folder or an address; else by the registry's own client, which knows the user's
mirrors and proxies. Wherever it comes from, its checksum must be the recipe's before anything in it is looked at. Building happens in a temporary folder;
what is kept appears in its place at once and whole.
"""

import contextlib
import hashlib
import os
import platform
import shutil
import subprocess
import tarfile
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Iterator

from marelab import elf, progress, recipes
from marelab.errors import LabError
from marelab.recipes import Recipe

LARGEST = 64 << 20  # bytes of a package
PATIENCE = 600  # seconds, for a download and for a compiler


def failed(recipe: Recipe, words: str) -> LabError:
    return LabError(f"{recipe.name}: {words}", code=1)


def last_line(text: str) -> str:
    return next((w for w in reversed(text.strip().splitlines()) if w.strip()), "it said nothing").strip()


# ---- the package ----

def sha256(path: Path) -> str:
    h = hashlib.sha256()
    with open(path, "rb") as f:
        while piece := f.read(1 << 20):
            h.update(piece)
    return h.hexdigest()


def from_place(recipe: Recipe, place: str, into: Path) -> None:
    """From a folder, or from an address such as file:///srv/crates, under which the packages' files lie."""
    address = place if "://" in place else Path(place).absolute().as_uri()
    address = address.rstrip("/") + "/" + recipe.archive
    progress.note(f"{recipe.name}: fetching {address}")
    try:
        with urllib.request.urlopen(address, timeout=60) as source, open(into, "wb") as out:
            while piece := source.read(1 << 16):
                out.write(piece)
                if out.tell() > LARGEST:
                    raise failed(recipe, f"{address} is larger than {LARGEST >> 20} MiB: that is no such package")
    except (urllib.error.URLError, OSError, ValueError) as e:
        raise failed(recipe, f"can't fetch {address}: {getattr(e, 'reason', None) or e}") from None


def from_registry(recipe: Recipe, into: Path) -> None:
    """By cargo: an empty project that needs this crate in this version alone."""
    cargo = shutil.which("cargo")
    if not cargo:
        raise failed(recipe, f"cargo, which fetches crates, is not here: install it (Debian: cargo), or put {recipe.archive} into a folder and say --from FOLDER")
    progress.note(f"{recipe.name}: fetching the crate {recipe.crate} {recipe.version} by cargo")
    with tempfile.TemporaryDirectory(prefix="mare-lab-") as folder:
        Path(folder, "lib.rs").touch()
        Path(folder, "Cargo.toml").write_text(f'[package]\nname = "mare-lab-fetch"\nversion = "0.0.0"\nedition = "2021"\n[lib]\npath = "lib.rs"\n'
                                              f'[dependencies]\n{recipe.crate} = {{ version = "={recipe.version}", default-features = false }}\n')
        words = [cargo, "fetch", "--manifest-path", f"{folder}/Cargo.toml"]
        try:
            r = subprocess.run(words, cwd=folder, capture_output=True, text=True, errors="replace", timeout=PATIENCE, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            raise failed(recipe, f"cargo did not bring {recipe.package} within {PATIENCE} s") from None
    if r.returncode != 0:
        raise failed(recipe, f"cargo can't fetch {recipe.package}: {last_line(r.stderr)}")
    home = Path(os.environ.get("CARGO_HOME") or os.path.expanduser("~/.cargo"))
    found = sorted((home / "registry" / "cache").glob(f"*/{recipe.archive}"))
    if not found:
        raise failed(recipe, f"cargo brought {recipe.package}, but its file is not below {home}/registry/cache; say --from FOLDER, where {recipe.archive} lies")
    shutil.copyfile(next((f for f in found if sha256(f) == recipe.sha256), found[0]), into)  # other registries may have kept another file of this name


def package(recipe: Recipe, place: str | None) -> Path:
    """The package's file, in the cache, with the right checksum."""
    kept = recipes.cache() / "packages" / recipe.archive
    if kept.exists() and sha256(kept) == recipe.sha256:
        return kept
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".coming-", dir=kept.parent) as folder:
        new = Path(folder, recipe.archive)
        if place:
            from_place(recipe, place, new)
        else:
            from_registry(recipe, new)
        got = sha256(new)
        if got != recipe.sha256:
            raise failed(recipe, f"the checksum of {recipe.archive} is {got}, where the catalogue wants {recipe.sha256}: it was changed on its way, or "
                                 "it is another package; nothing of it was used")
        os.replace(new, kept)
    return kept


def unpacked(recipe: Recipe, archive: Path, folder: Path) -> Path:
    """The package's files; `folder` is empty and temporary."""
    try:
        with tarfile.open(archive, "r:gz") as tar:
            if hasattr(tarfile, "data_filter"):
                tar.extractall(folder, filter="data")
            else:
                tar.extractall(folder)
    except (tarfile.TarError, OSError, EOFError) as e:
        raise failed(recipe, f"{archive.name} can't be unpacked: {e}") from None
    return folder / recipe.package


# ---- the library ----

def sources(recipe: Recipe, tree: Path) -> list[str]:
    found = []
    for pattern in recipe.sources:
        matching = sorted(tree.glob(pattern))
        if not matching:
            raise failed(recipe, f"{recipe.package} has no file {pattern}")
        found += map(str, matching)
    for name in recipe.empty:
        (tree / name).write_text("")
    return found + [p for p in recipe.ours if not p.endswith(".h")]


def command(recipe: Recipe, tree: Path, library: Path) -> list[str]:
    compiler = shutil.which(recipe.compiler)
    if not compiler:
        raise failed(recipe, f"{recipe.compiler}, which compiles it, is not here: install it (Debian: {recipes.COMPILERS[recipe.compiler]})")
    calls = [f"-fno-builtin-{f}" for f in ("malloc", "calloc", "realloc", "free")]  # or a compiler makes calloc call calloc
    special = recipe.flags_x86_64 if platform.machine() == "x86_64" else ()
    return [compiler, "-O2", "-DNDEBUG", "-fPIC", "-shared", "-pthread", "-w", *calls, *(f"-I{tree / i}" for i in recipe.include), *recipe.flags, *special,
            *sources(recipe, tree), "-o", str(library), *recipe.link]


@contextlib.contextmanager
def built(recipe: Recipe, place: str | None) -> Iterator[Path]:
    """The library, in a temporary folder beside those that are kept."""
    try:
        recipes.cache().mkdir(parents=True, exist_ok=True, mode=0o700)
        archive = package(recipe, place)
        with tempfile.TemporaryDirectory(prefix=f".{recipe.name}-", dir=recipes.cache()) as folder:
            made = Path(folder, "made")
            made.mkdir()
            library, tree = made / recipe.library.name, unpacked(recipe, archive, Path(folder, "tree"))
            words = command(recipe, tree, library)
            progress.note(f"{recipe.name}: compiling it with {recipe.compiler}")
            compile_it(recipe, words)
            yield library
    except OSError as e:
        raise failed(recipe, f"{e.filename or recipes.cache()}: {e.strerror}") from None


def compile_it(recipe: Recipe, words: list[str]) -> None:
    try:
        r = subprocess.run(words, capture_output=True, text=True, errors="replace", timeout=PATIENCE, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        raise failed(recipe, f"{recipe.compiler} was not done after {PATIENCE} s") from None
    if r.returncode == 0 and elf.is_elf(words[words.index("-o") + 1]):
        return
    log = recipes.cache() / f"{recipe.name}.log"
    log.write_text(" ".join(words) + "\n" + r.stdout + r.stderr)
    said = next((line for line in r.stderr.splitlines() if "error" in line), last_line(r.stderr))
    raise failed(recipe, f"{recipe.compiler} can't compile it: {said.strip()[:300]} (the whole output is in {log})")


def keep(recipe: Recipe, library: Path) -> str:
    """Puts it where the catalogue looks for it, as a whole; one that is there already, made by the same recipe, stays."""
    place = recipe.library.parent
    try:
        os.rename(library.parent, place)
    except OSError:
        if not recipe.library.exists():
            raise
    return str(recipe.library)
