"""What the tests share: programs to study, and the command line."""

import ctypes
import os
import subprocess
import sys

import pytest

from marelab import cli

# Allocators that the user had built take no part in the tests, so that the same ones do everywhere; test_built.py alone looks for them.
USERS_CACHE = os.environ.get("MARE_LAB_CACHE", "")
os.environ["MARE_LAB_CACHE"] = "/nonexistent"


@pytest.fixture(scope="session", autouse=True)
def small_pages():
    """Memory and page faults of what the tests run are those of small pages, whatever the machine is set to."""
    ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)  # PR_SET_THP_DISABLE, which children inherit


@pytest.fixture
def lab(tmp_path):
    """Runs `mare lab …` in an empty folder."""

    def run(*args, timeout=300, **more):
        words = [sys.executable, "-m", "marelab", *map(str, args)]
        return subprocess.run(words, capture_output=True, text=True, timeout=timeout, cwd=tmp_path, **more)

    return run


@pytest.fixture
def here(tmp_path, monkeypatch, capfd):
    """As `lab`, without an interpreter of its own: for what takes longer to import than to do."""

    def run(*args):
        monkeypatch.chdir(tmp_path)
        capfd.readouterr()
        code = cli.main([*map(str, args)])
        return subprocess.CompletedProcess(args, code, *capfd.readouterr())

    return run


@pytest.fixture(scope="session")
def seen(tmp_path_factory):
    """What a script finds in a page that a browser has drawn."""
    from pages import Browser  # which takes long to import

    with Browser(tmp_path_factory.mktemp("browser")) as browser:
        yield browser.seen


@pytest.fixture(scope="session")
def cxx_program(tmp_path_factory):
    """A C++ program that allocates in every way, and starts a child; with the argument `clear`, one without the environment."""
    folder = tmp_path_factory.mktemp("cxx")
    source = folder / "p.cpp"
    source.write_text("""
        #include <cstdio>
        #include <cstdlib>
        #include <cstring>
        #include <string>
        int main(int argc, char **argv) {
          char *a = new char[100], *b = (char *)malloc(10), *c = (char *)calloc(2, 10);
          char *d = (char *)realloc(b, 2000), *e = (char *)aligned_alloc(64, 640);
          std::string s(5000, 'x');
          std::printf("%d\\n", a && c && d && e && s.size());
          delete[] a; free(c); free(d); free(e);
          if (argc > 1) return std::system(std::strcmp(argv[1], "clear") == 0 ? "env -i /usr/bin/lua5.4 -e 'x=1'" : "lua5.4 -e 'x=1'");
          return 0;
        }""")
    program = folder / "p"
    subprocess.run(["c++", "-O0", "-fno-builtin", "-o", str(program), str(source)], check=True, timeout=600)
    return str(program)


@pytest.fixture(scope="session")
def own_malloc(tmp_path_factory):
    """A shared object that counts as an allocator by name only: it slows glibc's malloc, which still serves."""
    folder = tmp_path_factory.mktemp("own")
    source = folder / "m.c"
    source.write_text("""
        #include <stddef.h>
        extern void *__libc_malloc(size_t); extern void __libc_free(void *); extern void *__libc_calloc(size_t, size_t);
        extern void *__libc_realloc(void *, size_t);
        void *malloc(size_t n) { return __libc_malloc(n); }
        void free(void *p) { __libc_free(p); }
        void *calloc(size_t n, size_t m) { return __libc_calloc(n, m); }
        void *realloc(void *p, size_t n) { return __libc_realloc(p, n); }
    """)
    library = folder / "libwrapped.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-fno-builtin", "-o", str(library), str(source)], check=True, timeout=600)
    return str(library)
