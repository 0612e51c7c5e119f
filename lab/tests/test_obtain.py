"""Allocators built on demand, from a registry that is a folder: nothing here needs a network."""

import hashlib
import io
import json
import os
import stat
import sys
import tarfile
from pathlib import Path

import pytest

from marelab import allocators, cli, obtain, proof, recipes
from marelab.errors import LabError

OURS = Path(__file__).resolve().parents[1] / "allocators"
SERVES = """
#include "heap.h"
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);
void *heap_allocate(size_t n) { return __libc_malloc(n); }
void *heap_zeroed(size_t n) { return __libc_calloc(1, n); }
void *heap_aligned(size_t a, size_t n) { return __libc_memalign(a, n); }
void *heap_resize(void *p, size_t n) { return __libc_realloc(p, n); }
void heap_release(void *p) { __libc_free(p); }
size_t heap_usable(void *p) { return p ? 8 : 0; }
"""


class Registry:
    """A folder with one package, and a catalogue that has a recipe for it."""

    def __init__(self, folder: Path, source: str):
        self.place, self.catalogue, self.cache = folder / "crates", folder / "c.toml", folder / "cache"
        self.place.mkdir()
        self.archive = self.place / "tiny-sys-1.0.0.crate"
        with tarfile.open(self.archive, "w:gz") as tar:
            entry = tarfile.TarInfo("tiny-sys-1.0.0/src/tiny.c")
            entry.size = len(source)
            tar.addfile(entry, io.BytesIO(source.encode()))
        self.write(hashlib.sha256(self.archive.read_bytes()).hexdigest())

    def write(self, checksum: str, **more: str) -> None:
        ours = json.dumps([os.path.relpath(OURS / n, self.catalogue.parent.resolve()) for n in ("heap.h", "standard.c")])
        recipe = {"crate": '"tiny-sys"', "version": '"1.0.0"', "sha256": f'"{checksum}"', "compiler": '"cc"', "licence": '"MIT"', "sources": '["src/*.c"]',
                  "ours": ours, "flags": json.dumps([f"-I{OURS}"])} | more
        self.catalogue.write_text('[[allocator]]\nname = "tiny"\n[allocator.recipe]\n' + "".join(f"{k} = {v}\n" for k, v in recipe.items()))

    def kept(self) -> list[Path]:
        return sorted(self.cache.glob("tiny-*/libtiny.so"))


@pytest.fixture
def registry(tmp_path):
    return Registry(tmp_path, SERVES)


@pytest.fixture
def mare(lab, registry):
    """Runs `mare lab COMMAND` with the registry's catalogue."""

    def run(*words, **variables):
        env = os.environ | {"MARE_LAB_CACHE": str(registry.cache)} | variables
        return lab(words[0], "--catalogue", registry.catalogue, *words[1:], env=env)

    return run


def test_an_allocator_is_fetched_built_proved_and_from_then_on_one_of_all(mare, registry):
    r = mare("allocators", "--get", "tiny", "--from", registry.place.as_uri(), "--json")
    assert r.returncode == 0, r.stderr
    [a] = json.loads(r.stdout)["allocators"]
    assert a["serves"] and a["bound"]["malloc"] > 1 and a["version"] == "tiny-sys-1.0.0" and [a["library"]] == list(map(str, registry.kept()))
    registry.archive.unlink()
    again = mare("allocators", "--get", "tiny")
    assert again.returncode == 0 and "compiling" not in again.stderr
    used = mare("workload", "--under", "tiny", "--", "--allocations", "1000")
    assert used.returncode == 0, used.stderr
    assert not [p for p in registry.cache.iterdir() if p.name.startswith(".")]  # no half of anything


def test_one_that_is_absent_is_listed_with_how_it_can_be_got(mare, registry, monkeypatch, capsys):
    monkeypatch.setattr(proof, "prove", lambda *_: proof.Proof())  # the others' proofs are not looked at
    for form in ([], ["--json"]):
        _, args = cli.subcommand(["allocators", "--catalogue", str(registry.catalogue), *form])
        proof.run(args)
        said = capsys.readouterr().out
        assert "`mare lab allocators --get tiny` builds it from the crate tiny-sys 1.0.0, with cc" in said
    [tiny] = [m for m in json.loads(said)["missing"] if m["name"] == "tiny"]
    assert tiny["can_be_got"]
    named = mare("allocators", "--allocators", "tiny")
    assert named.returncode == 2 and "--get tiny" in named.stderr


def test_a_package_with_another_checksum_is_refused(mare, registry):
    registry.write("0" * 64)
    r = mare("allocators", "--get", "tiny", "--from", registry.place)
    assert r.returncode == 1 and "checksum of tiny-sys-1.0.0.crate" in r.stderr and "0" * 64 in r.stderr and "compiling" not in r.stderr
    assert not registry.kept() and not list((registry.cache / "packages").iterdir())


@pytest.fixture
def recipe(registry, monkeypatch):
    """The registry's, in this process."""
    monkeypatch.setenv("MARE_LAB_CACHE", str(registry.cache))
    return allocators.read_catalogue(registry.catalogue)[0].recipe


def test_a_damaged_package_in_the_cache_is_fetched_anew(registry, recipe):
    (registry.cache / "packages").mkdir(parents=True)
    (registry.cache / "packages" / registry.archive.name).write_bytes(b"half of it")
    assert obtain.package(recipe, str(registry.place)).read_bytes() == registry.archive.read_bytes()


@pytest.mark.parametrize("place,words", [("/nonexistent/crates", "can't fetch file:///nonexistent"), ("nosuch://x", "can't fetch nosuch://x")])
def test_a_download_that_fails_is_told(mare, place, words):
    r = mare("allocators", "--get", "tiny", "--from", place)
    assert r.returncode == 1 and words in r.stderr and "Traceback" not in r.stderr


def test_without_a_compiler_it_says_what_to_install(mare, registry):
    r = mare("allocators", "--get", "tiny", "--from", registry.place, PATH="/nonexistent")
    assert r.returncode == 1 and "cc, which compiles it, is not here: install it (Debian: gcc)" in r.stderr


def test_what_the_compiler_refuses_is_told_with_the_whole_output_in_a_file(mare, registry):
    registry.write(hashlib.sha256(registry.archive.read_bytes()).hexdigest(), flags='["-DNO_SUCH", "-include", "nothere.h"]')
    r = mare("allocators", "--get", "tiny", "--from", registry.place)
    assert r.returncode == 1 and "cc can't compile it" in r.stderr and "nothere.h" in r.stderr
    assert "nothere.h" in (registry.cache / "tiny.log").read_text() and not registry.kept()


def test_a_library_that_does_not_serve_is_not_kept(mare, registry):
    registry.write(hashlib.sha256(registry.archive.read_bytes()).hexdigest(), ours="[]")
    r = mare("allocators", "--get", "tiny", "--from", registry.place)
    assert r.returncode == 1 and "does not serve a program, and is not kept" in r.stderr and not registry.kept()


@pytest.mark.parametrize("words,said", [(["--get", "nosuch"], "no such allocator"), (["--get", "jemalloc"], "install the package libjemalloc2"),
                                        (["--get", "glibc"], "no recipe"), (["--from", "/tmp"], "name what to get")])
def test_mistakes_on_the_command_line_are_named(mare, words, said):
    r = mare("allocators", *words)
    assert r.returncode == 2 and said in r.stderr


# ---- the registry's own client ----

def client(folder: Path, script: str) -> str:
    """A cargo of the test's own; gives the PATH that finds it."""
    path = folder / "bin" / "cargo"
    path.parent.mkdir()
    path.write_text(f"#!{sys.executable}\n{script}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return f"{path.parent}:{os.environ['PATH']}"


def test_packages_come_by_cargo_which_is_asked_for_one_version(registry, recipe, monkeypatch, tmp_path):
    script = f"""
import os, pathlib, shutil, sys, tomllib
manifest = tomllib.loads(pathlib.Path(sys.argv[sys.argv.index("--manifest-path") + 1]).read_text())
assert sys.argv[1] == "fetch" and manifest["dependencies"] == {{"tiny-sys": {{"version": "=1.0.0", "default-features": False}}}}
cache = pathlib.Path(os.environ["CARGO_HOME"], "registry/cache")
for name in ("another-1", "mirror-1", "other-1"):
    (cache / name).mkdir(parents=True)
    (cache / name / "tiny-sys-1.0.0.crate").write_text("of another registry, kept from an earlier day")
shutil.copy({str(registry.archive)!r}, cache / "mirror-1")
""".replace("tomllib", "tomllib" if sys.version_info >= (3, 11) else "tomli")
    monkeypatch.setenv("PATH", client(tmp_path, script))
    monkeypatch.setenv("CARGO_HOME", str(tmp_path / "home"))
    assert obtain.package(recipe, None).read_bytes() == registry.archive.read_bytes()


def test_what_cargo_says_when_it_fails_is_passed_on(mare, tmp_path):
    path = client(tmp_path, "import sys; sys.exit('error: no matching package named `tiny-sys` found')")
    r = mare("allocators", "--get", "tiny", PATH=path)
    assert r.returncode == 1 and "cargo can't fetch tiny-sys-1.0.0: error: no matching package named `tiny-sys` found" in r.stderr


def test_without_cargo_it_says_what_to_install_or_to_do(mare):
    r = mare("allocators", "--get", "tiny", PATH="/nonexistent")
    assert r.returncode == 1 and "install it (Debian: cargo)" in r.stderr and "--from FOLDER" in r.stderr


# ---- recipes ----

@pytest.mark.parametrize("more,words", [
    ({"compiler": '"tcc"'}, "needs compiler, one of cc"), ({"sha256x": '"a"'}, "unknown key 'sha256x'"), ({"version": '"../x"'}, "needs version"),
    ({"sources": '"a.c"'}, "sources must be a list"), ({"sources": '["../a.c"]'}, "must lie inside"), ({"empty": '["/etc/passwd"]'}, "must lie inside"),
    ({"ours": '["nosuch.c"]'}, "nosuch.c: No such file"),
])
def test_a_mistake_in_a_recipe_is_named(registry, more, words):
    registry.write("0" * 64, **more)
    with pytest.raises(LabError, match=words):
        allocators.read_catalogue(registry.catalogue)


def test_another_recipe_or_another_source_of_ours_makes_another_library(registry, tmp_path):
    def library() -> Path:
        recipes.digest.cache_clear()
        return allocators.read_catalogue(registry.catalogue)[0].recipe.library

    (tmp_path / "x.c").write_text("int x;")
    registry.write("0" * 64, ours='["x.c"]')
    first = library()
    registry.write("0" * 64, ours='["x.c"]', flags='["-O3"]')
    second = library()
    (tmp_path / "x.c").write_text("int y;")
    assert len({first, second, library()}) == 3


def test_every_recipe_of_the_catalogue_is_pinned_and_says_its_licence():
    able = [a.recipe for a in allocators.load().values() if a.recipe]
    assert {r.name for r in able} >= {"hoard", "snmalloc", "rpmalloc", "scudo", "hardened_malloc", "mimalloc-secure", "dlmalloc", "ptmalloc3"}
    assert all(len(r.sha256) == 64 and r.licence for r in able)
