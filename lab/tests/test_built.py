"""The allocators that are built on demand, as they are: those that the user had built. The others are left out aloud; `make soak` gets all of them."""

import os
import subprocess

import pytest
from conftest import USERS_CACHE

from marelab import allocators, measure, native, obtain, proof

TESTS, SOURCES = native.FOLDER.parent / "tests", native.FOLDER.parents[2] / "lab" / "allocators"
NAMES = [a.name for a in allocators.load().values() if a.recipe]
OURS = ["dlmalloc", "ptmalloc3"]
SOAK = os.environ.get("MARE_SOAK")


@pytest.fixture
def built(request, monkeypatch, lab):
    """The allocator that the test names."""
    monkeypatch.setenv("MARE_LAB_CACHE", USERS_CACHE)
    name = request.param
    if SOAK and allocators.load()[name].missing:
        r = lab("allocators", "--get", name, timeout=900)
        assert r.returncode == 0, r.stderr
    a = allocators.load()[name]
    if a.missing:
        pytest.skip(f"{name} is not built on this machine: mare lab allocators --get {name}")
    return a


def run(a, program: str, *words: str) -> None:
    r = subprocess.run([str(TESTS / program), *words], env=os.environ | {"LD_PRELOAD": a.library}, capture_output=True, text=True, timeout=300)
    assert r.returncode == 0 and r.stdout == "ok\n", r.stderr[-4000:]


@pytest.mark.parametrize("built", NAMES, indirect=True)
def test_one_that_was_built_serves_a_program_and_its_child(built, cxx_program):
    p = proof.prove(built, measure.Target((cxx_program, "child"), timeout=300))
    assert p.complete and p.processes >= 2, p.lines()


@pytest.mark.parametrize("built", OURS, indirect=True)
def test_those_over_doug_leas_malloc_answer_as_glibc_does_at_the_edges_and_over_forks(built):
    run(built, "allocator-edges")
    run(built, "allocator-forks")


STRESS = [["exchange", "4", "60000"], ["forks"], ["endings"], ["crowd", "300"], ["giving"], ["classes"]]


@pytest.mark.parametrize("words", STRESS, ids=lambda w: w[0])
@pytest.mark.parametrize("built", ["ptmalloc3"], indirect=True)
def test_ptmalloc3_under_threads_that_give_back_each_others_blocks(built, words):
    run(built, "allocator-stress", *words)


@pytest.mark.skipif(not SOAK, reason="for make soak")
@pytest.mark.parametrize("built", [n for n in NAMES if n not in OURS], indirect=True)
def test_each_under_threads_that_give_back_each_others_blocks(built):
    run(built, "allocator-stress", "exchange", "4", "200000")
    run(built, "allocator-stress", "endings")


@pytest.mark.skipif(not SOAK, reason="for make soak")
@pytest.mark.parametrize("kind", ["thread", "address,undefined"])
@pytest.mark.parametrize("built", ["ptmalloc3"], indirect=True)
def test_ptmalloc3_with_a_sanitizer_watching(built, kind, tmp_path):
    tree = obtain.unpacked(built.recipe, obtain.package(built.recipe, None), tmp_path)
    program = str(tmp_path / "stress")
    subprocess.run(["cc", "-O1", "-g", "-w", "-pthread", "-DHEAP", f"-fsanitize={kind}", "-fno-sanitize=alignment,pointer-overflow", f"-I{tree}/libffi/src",
                    str(SOURCES / "stress.c"), str(SOURCES / "ptmalloc3" / "ptmalloc3.c"), "-o", program], check=True, timeout=600)
    r = subprocess.run([program, "exchange", "4", "40000"], capture_output=True, text=True, timeout=600)
    assert r.returncode == 0 and r.stdout == "ok\n", r.stderr[-4000:]
