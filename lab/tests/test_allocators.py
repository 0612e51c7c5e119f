"""The catalogue, and the proof that an allocator serves a program."""

import json
import os
import shutil
import subprocess

import pytest

from marelab import allocators, elf, measure, perf, proof
from marelab.errors import LabError


def catalogue(tmp_path, text):
    path = tmp_path / "c.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("text,words", [
    ("[[allocator]\n", "c.toml"),
    ("allocator = 3\n", "list of"),
    ('[[allocator]]\nlibrary = "x"\n', "needs a name"),
    ('[[allocator]]\nname = "a"\nlibary = "x"\n', "unknown key 'libary'"),
    ('[[allocator]]\nname = "a"\nenv = 3\n', "table of strings"),
    ('[[allocator]]\nname = "a"\n[[allocator]]\nname = "a"\n', "two allocators are named 'a'"),
])
def test_a_mistake_in_a_catalogue_is_named(tmp_path, text, words):
    with pytest.raises(LabError, match=words):
        allocators.read_catalogue(catalogue(tmp_path, text))


def test_an_absent_library_says_which_package_has_it(tmp_path):
    [a] = allocators.read_catalogue(catalogue(tmp_path, '[[allocator]]\nname = "a"\nlibrary = "libnothere.so"\npackage = "libnothere1"\n'))
    assert "libnothere1" in a.missing
    with pytest.raises(LabError, match="libnothere.so is not here"):
        allocators.select({"a": a}, "a")


def test_asking_for_an_unknown_one_names_those_that_exist():
    with pytest.raises(LabError, match="glibc.*--allocator nosuch="):
        allocators.select(allocators.load(), "nosuch")


def test_a_user_adds_a_name_and_a_library(own_malloc):
    assert allocators.load(extra=[f"mine={own_malloc}"])["mine"].library == own_malloc
    for word, message in (("mine", "NAME=/path"), ("mine=/no/such.so", "no file /no/such.so"),
                          ("mine=/etc/passwd", "no shared object")):
        with pytest.raises(LabError, match=message):
            allocators.load(extra=[word])


def test_a_path_that_the_loader_would_take_apart_is_refused(own_malloc, tmp_path):
    for name in ("a b.so", "a:b.so"):
        path = shutil.copy(own_malloc, tmp_path / name)
        assert "make a link" in allocators.load(extra=[f"mine={path}"])["mine"].missing
        with pytest.raises(LabError, match="no path with a space or a colon"):
            allocators.Allocator("mine", str(path)).environment({})


def test_other_preloads_stay_and_other_allocators_leave():
    a = allocators.Allocator("je", "/lib/libjemalloc.so.2")
    assert a.environment({"LD_PRELOAD": "/x/libfoo.so:/lib/libtcmalloc.so"})["LD_PRELOAD"] == "/lib/libjemalloc.so.2:/x/libfoo.so"
    glibc = allocators.Allocator("glibc")
    assert glibc.environment({}) == {}
    assert "tcmalloc" not in glibc.environment({"LD_PRELOAD": "/lib/libtcmalloc.so"})["LD_PRELOAD"]
    tuned = allocators.Allocator("t", env=(("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0"),))
    joined = tuned.environment({"GLIBC_TUNABLES": "glibc.malloc.arena_max=1"})["GLIBC_TUNABLES"]
    assert joined == "glibc.malloc.arena_max=1:glibc.malloc.tcache_count=0"


HERE = allocators.select(allocators.load(), None)


@pytest.mark.parametrize("a", HERE, ids=lambda a: a.name)
def test_each_allocator_here_serves_malloc_free_and_new_in_a_program_and_its_child(a, cxx_program):
    p = proof.prove(a, measure.Target((cxx_program, "child"), timeout=300))
    assert p.problem is None and not p.wrong and p.complete
    assert p.processes >= 2  # the program and what it starts
    assert p.count("malloc") >= 2 and p.count("free") >= 2 and p.count("operator new") >= 1


@pytest.mark.parametrize("a", HERE, ids=lambda a: a.name)
def test_what_the_loader_says_is_what_glibcs_own_counters_say(a):
    seen = allocators.probe(a)
    assert seen["glibc_serves"]["malloc"] == (a.library is None)
    assert len(set(seen["glibc_serves"].values())) == 1  # calloc, realloc, aligned_alloc, operator new likewise
    assert allocators.version(a)


def test_a_child_without_the_environment_is_found(cxx_program):
    if not perf.works():
        pytest.skip("perf can't be used here")
    a = next((a for a in HERE if a.library), None)
    p = proof.prove(a, measure.Target((cxx_program, "clear"), timeout=300))
    assert p.serves and not p.complete
    assert any(os.path.basename(image).startswith("lua") for image in p.without)


def test_a_library_that_does_not_serve_is_told(tmp_path, cxx_program):
    (tmp_path / "n.c").write_text("int nothing;")
    library = str(tmp_path / "libnothing.so")
    subprocess.run(["cc", "-shared", "-o", library, str(tmp_path / "n.c")], check=True)
    p = proof.prove(allocators.Allocator("nothing", library), measure.Target((cxx_program,), timeout=300))
    assert not p.serves and p.wrong


def test_an_allocator_that_lacks_a_routine_is_told(own_malloc, cxx_program):
    """The wrapper has no aligned_alloc: such blocks come from elsewhere and are freed by it."""
    p = proof.prove(allocators.Allocator("wrapped", own_malloc), measure.Target((cxx_program,), timeout=300))
    assert any(routine == "aligned_alloc" for routine, _, _ in p.wrong)


def test_a_programs_own_jump_stub_is_no_allocator(tmp_path, monkeypatch):
    """A program at a fixed address that takes the address of free: other objects' references lead to its stub, which leads on."""
    source = tmp_path / "p.c"
    source.write_text("#include <stdlib.h>\nint main(void) { void (*volatile f)(void *) = free; f(malloc(10)); return 0; }\n")
    program = str(tmp_path / "p")
    subprocess.run(["cc", "-O0", "-fno-pic", "-no-pie", "-o", program, str(source)], check=True)
    assert "free" not in elf.defined(program) and "malloc" in elf.defined(allocators.c_library())
    for a in HERE:
        p = proof.prove(a, measure.Target((program,), timeout=300))
        assert p.serves, (a.name, p.lines())
    _, path = proof.present(measure.Target((program,), timeout=300))
    assert os.path.basename(path).startswith("libc")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")  # started by its name, the loader calls it by that
    p = proof.prove(HERE[-1], measure.Target(("p",), timeout=300))
    assert p.serves, p.lines()


LINE = "     4242:\tbinding file /usr/lib/libcap.so.2 [0] to {to} [0]: normal symbol `{name}'"


def read_report(tmp_path, text: str) -> proof.Proof:
    """What is seen in a report of processes that write into one."""
    (tmp_path / "bindings.1").write_text(text)
    seen = proof.Proof()
    proof.Reader(str(tmp_path), allocators.load()["jemalloc"].objects, seen).sweep(only_ended=False)
    return seen


def test_lines_that_two_processes_wrote_into_each_other_are_passed_over(tmp_path):
    """Each process writes a line in two pieces: the binding, and its version."""
    libc, jemalloc = allocators.c_library(), allocators.load()["jemalloc"].library
    foreign, good = LINE.format(to=libc, name="fopen64"), LINE.format(to=jemalloc, name="malloc")
    for torn in (foreign + good + " [GLIBC_2.2.5]\n [GLIBC_2.2.5]\n", foreign + good + "\n", good[20:] + foreign + good + " [X]\n"):
        seen = read_report(tmp_path, torn)
        assert not seen.wrong and not seen.bound
    whole = read_report(tmp_path, foreign + " [GLIBC_2.2.5]\n" + good + "\n" + LINE.format(to=libc, name="free") + " [GLIBC_2.2.5]\n")
    assert whole.count("malloc") == 1 and list(whole.wrong) == [("free", "/usr/lib/libcap.so.2", os.path.realpath(libc))]


def test_workers_that_load_objects_all_at_once_don_t_speak_against_an_allocator(tmp_path):
    """Forked without exec, they share one report."""
    source = tmp_path / "w.c"
    source.write_text("""
        #include <dlfcn.h>
        #include <stdlib.h>
        #include <sys/wait.h>
        #include <unistd.h>
        int main(void) {
          const char *names[] = { "libm.so.6", "libresolv.so.2", "libncursesw.so.6", "libtinfo.so.6", "libsqlite3.so.0", "libz.so.1", "libstdc++.so.6" };
          for (int i = 0; i < 8; i++)
            if (fork() == 0) {
              for (int k = 0; k < 7; k++) dlopen(names[(i + k) % 7], RTLD_NOW);
              free(malloc(100));
              _exit(0);
            }
          while (wait(NULL) > 0) {}
          return 0;
        }""")
    program = str(tmp_path / "w")
    subprocess.run(["cc", "-O0", "-fno-builtin", "-o", program, str(source), "-ldl"], check=True)
    for a in [a for a in HERE if a.library][:2]:
        p = proof.prove(a, measure.Target((program,), timeout=300))
        assert p.complete, p.lines()


def test_a_program_that_fails_under_an_allocator_is_told():
    p = proof.prove(HERE[0], measure.Target(("sh", "-c", "echo broken >&2; exit 5"), timeout=300))
    assert not p.serves and "exit code 5" in p.problem and "broken" in p.problem


def test_the_command_lists_and_proves(lab, cxx_program):
    r = lab("allocators", "--allocators", "glibc", "--json", "--", cxx_program)
    assert r.returncode == 0, r.stderr
    row = json.loads(r.stdout)["allocators"][0]
    assert row["name"] == "glibc" and row["serves"] and row["version"] and row["sha256"]
    assert "glibc" in lab("allocators", "--allocators", "glibc").stdout
