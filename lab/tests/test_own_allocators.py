"""The allocators of lab/allocators, as programs see them and with sanitizers watching. Ptmalloc3 needs Doug Lea's malloc: see test_built.py."""

import os
import subprocess

import pytest

from marelab import allocators, measure, native, proof

TESTS = native.FOLDER.parent / "tests"


def run(program: str, *words: str, preload: str | None = None, **variables: str) -> None:
    env = os.environ | variables | ({"LD_PRELOAD": preload} if preload else {})
    r = subprocess.run([str(TESTS / program), *words], env=env, capture_output=True, text=True, timeout=300)
    assert r.returncode == 0 and r.stdout == "ok\n", r.stderr[-4000:]


@pytest.fixture(params=["miser", "mare"])
def own(request):
    return allocators.load()[request.param]


@pytest.fixture(scope="module")
def miser():
    return allocators.select(allocators.load(), "miser")[0]


def test_miser_takes_part_only_where_it_is_named(miser):
    found = allocators.load()
    assert miser.named and miser.name not in [a.name for a in allocators.select(found, None)]
    assert [a.name for a in allocators.select(found, "glibc,miser")] == ["glibc", "miser"]


def test_miser_serves_malloc_free_and_new_in_a_program_and_its_child(miser, cxx_program):
    p = proof.prove(miser, measure.Target((cxx_program, "child"), timeout=300))
    assert p.complete and p.processes >= 2 and p.count("operator new") >= 1, p.lines()


def test_they_answer_as_glibc_does_at_the_edges(own):
    run("allocator-edges", preload=own.library)


STRESS = [["exchange", "4", "60000"], ["forks"], ["endings"], ["crowd", "1100"], ["giving"], ["classes"]]


@pytest.mark.parametrize("words", STRESS, ids=lambda w: w[0])
def test_they_stand_threads_that_give_back_each_others_blocks(own, words):
    run("allocator-stress", *words, preload=own.library)


def test_a_librarys_handlers_of_forks_may_allocate_and_wait_for_its_threads(own):
    run("allocator-forks", preload=own.library)


def test_without_an_allocator_handlers_of_forks_may_do_so_too():
    run("allocator-forks")


@pytest.mark.parametrize("program,words", [("miser-edges-asan", []), ("miser-stress-asan", ["exchange", "3", "20000"]), ("miser-stress-asan", ["endings"]),
                                           ("miser-stress-tsan", ["exchange", "3", "12000"])])
def test_miser_with_a_sanitizer_watching(program, words):
    may_fail = {f"{kind}_OPTIONS": "allocator_may_return_null=1" for kind in ("ASAN", "TSAN")}
    run(program, *words, **may_fail)


def test_the_stress_test_finds_an_allocator_that_gives_a_block_to_two(tmp_path):
    """The tests above would see it: here every thousandth block of a size is one that is in use."""
    (tmp_path / "bad.c").write_text("""
        #include <stddef.h>
        extern void *__libc_malloc(size_t);
        static __thread void *last; static __thread size_t size; static __thread int n;
        void *malloc(size_t want) {
          if (++n % 1000 == 0 && last && want <= size) return last;
          size = want;
          return last = __libc_malloc(want);
        }
        void free(void *p) { (void)p; }
    """)
    library = str(tmp_path / "libbad.so")
    subprocess.run(["cc", "-shared", "-fPIC", "-fno-builtin", "-o", library, str(tmp_path / "bad.c")], check=True)
    r = subprocess.run([str(TESTS / "allocator-stress"), "exchange", "1", "60000"], env=os.environ | {"LD_PRELOAD": library}, capture_output=True, text=True, timeout=300)
    assert r.returncode == 1 and "not so: holds" in r.stderr
