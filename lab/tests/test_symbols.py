"""Names of functions: static ones have their own, never that of the nearest exported one; without symbols that is said."""

import lzma
import shutil
import subprocess

import pytest
from tracing import record

from marelab import allocators, describe, measure, memory, sites, symbols

SOURCE = """
    #include <stdlib.h>
    void *kept[3];
    __attribute__((noinline)) void *shown(int n) { return kept[0] = malloc(n); }
    __attribute__((noinline)) static void *hidden(int n) { void *a = malloc(n); kept[2] = malloc(2 * n); return kept[1] = a; }
    int main(void) { shown(1000); hidden(3000); return kept[0] == kept[1]; }
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The program, unstripped, whose static function is hidden from the dynamic symbols; -rdynamic exports the others."""
    folder = tmp_path_factory.mktemp("built")
    (folder / "p.c").write_text(SOURCE)
    subprocess.run(["cc", "-O1", "-fno-builtin", "-rdynamic", "-o", folder / "whole", folder / "p.c"], check=True)
    return folder / "whole"


def run(*words):
    subprocess.run([str(w) for w in words], check=True)


def copy(built, folder, how):
    """The program stripped, with its symbols where distributions put them."""
    program = folder / "prog"
    run("objcopy", "--strip-all", built, program)
    if how == "link":
        run("objcopy", "--only-keep-debug", built, folder / "prog.debug")
        run("objcopy", f"--add-gnu-debuglink={folder / 'prog.debug'}", program)
    elif how == "inside":
        run("objcopy", "--only-keep-debug", built, folder / "mini")
        (folder / "mini.xz").write_bytes(lzma.compress((folder / "mini").read_bytes()))
        run("objcopy", f"--add-section=.gnu_debugdata={folder / 'mini.xz'}", program)
    elif how == "whole":
        shutil.copy(built, program)
    symbols.names_of.cache_clear()
    return program


def first_frames(tmp_path, program) -> dict[int, list[str]]:
    d = describe.describe(record(tmp_path, program, stacks=1))
    return {s["bytes"]: s["frames"] for s in d["stacks"] if s["bytes"] in (1000, 3000, 6000)}


@pytest.mark.parametrize("how", ["whole", "link", "inside"])
def test_static_functions_have_their_own_names(built, tmp_path, how):
    found = first_frames(tmp_path, copy(built, tmp_path, how))
    assert [found[b][0] for b in (1000, 3000, 6000)] == ["shown (prog)", "hidden (prog)", "hidden (prog)"]
    assert all(f[1] == "main (prog)" for f in found.values()) and not symbols.nameless(str(tmp_path / "prog"))


def test_a_program_without_symbols_says_so_and_calls_of_one_function_stay_together(built, tmp_path):
    program = copy(built, tmp_path, "stripped")
    found = first_frames(tmp_path, program)
    assert found[1000][0] == "shown (prog)" and found[3000][0] == found[6000][0]  # an exported name covers its own function only
    start = next(line.split()[0] for line in subprocess.run(["nm", built], capture_output=True, text=True).stdout.splitlines() if line.endswith(" hidden"))
    assert found[3000][0] == f"prog+{int(start, 16):#x}" and symbols.nameless(str(program))
    assert "prog" in sites.of_trace(record(tmp_path, program, stacks=1, name="again"))["nameless"]


def test_damaged_files_give_no_names_and_no_errors(built, tmp_path):
    whole = built.read_bytes()
    for cut in [*range(0, 200, 4), *range(200, len(whole), 997), *range(len(whole) - 64 * 40, len(whole), 8)]:
        path = tmp_path / f"cut{cut}"
        path.write_bytes(whole[:cut])
        assert symbols.look_up(str(path), [0x1140])[0]
        bad = bytearray(whole)
        bad[cut:cut + 8] = b"\xff" * 8
        (tmp_path / f"bad{cut}").write_bytes(bad)
        assert symbols.look_up(str(tmp_path / f"bad{cut}"), [0x1140])[0]
    assert symbols.look_up("/nonexistent/x.so", [0x10]) == ["x.so+0x10"]


def test_versions_and_parts_of_functions_are_not_in_their_names():
    assert [symbols.clean(n) for n in ("f@@GLIBC_2.2.5", "f.constprop.0", "f.part.0.cold", "f")] == ["f"] * 4
    assert symbols.demangled(["_Z3addii (p)", "main (p)"]) == ["add(int, int) (p)", "main (p)"]


# ---- where it allocates ----

def test_what_lived_at_the_peak_is_that_of_the_trace(tmp_path):
    """Every allocation is looked at, so all sums are exact, also over realloc, threads and the end."""
    t = record(tmp_path, "lua5.4", "-e", "local t = {} for i = 1, 3000 do t[i % 700] = { i, tostring(i):rep(i % 50) } end", stacks=1)
    d, s = describe.describe(t), sites.of_trace(t)
    assert s["total"] == [d["allocations"]["number"], d["allocations"]["bytes"], d["live"]["peak_bytes"]] and s["samples"] == s["total"][0]
    top = sites.table(s)[0]
    assert top["number"] <= s["total"][0] and 0.3 < top["shares"][0] <= 1 and top["name"]


def test_samples_stand_for_the_whole(tmp_path):
    """One in ten, at random: a program that allocates in a cycle of ten is not always met at the same place of it. Large ones are never missed."""
    source = tmp_path / "p.c"
    calls = "".join(f"__attribute__((noinline)) void f{k}(void) {{ free(malloc({k + 1} * 16)); keep++; }}" for k in range(10))
    source.write_text(f"#include <stdlib.h>\nvolatile int keep; {calls}\n__attribute__((noinline)) void big(void) {{ free(malloc(1 << 20)); keep++; }}\n"
                      f"int main(void) {{ for (int i = 0; i < 2000; i++) {{ {''.join(f'f{k}();' for k in range(10))} if (i % 500 == 0) big(); }} return 0; }}")
    run("cc", "-O1", "-fno-builtin", "-o", tmp_path / "prog", source)
    s = sites.of_trace(record(tmp_path, tmp_path / "prog", stacks=10))
    found = {s["names"][n[0]]: n for n in s["up"]["nodes"] if n[1] < 0 and n[0] >= 0}
    assert all(1400 < found[f"f{k} (prog)"][2] < 2600 for k in range(10))
    assert found["big (prog)"][2:4] == [4, 4 << 20]


def test_recursion_and_what_is_deeper_than_a_stack_is_kept_are_named(tmp_path):
    source = tmp_path / "p.c"
    source.write_text("#include <stdlib.h>\nvolatile int keep; __attribute__((noinline)) void one(int n); __attribute__((noinline)) void two(int n) { one(n - 1); keep++; }"
                      "void one(int n) { if (n > 0) { two(n); } else { free(malloc(77)); } keep++; }"
                      "__attribute__((noinline)) void self(int n) { if (n) self(n - 1); else free(malloc(99)); keep++; } int main(void) { one(100); self(20); return 0; }")
    run("cc", "-O1", "-fno-optimize-sibling-calls", "-fno-builtin", "-o", tmp_path / "prog", source)
    s = sites.of_trace(record(tmp_path, tmp_path / "prog", stacks=1))
    down = [s["names"][n[0]] for n in s["down"]["nodes"] if n[0] >= 0]
    assert s["cut"] == 1 and sites.DEEPER in down and sum(n == "self (prog)" for n in down) == 1


# ---- memory over time ----

def test_memory_over_time_is_that_of_the_program(tmp_path):
    words = "local t = {} for i = 1, 40 do t[i] = string.rep('x', 1 << 20) local e = os.clock() + 0.01 repeat until os.clock() > e end"
    seconds, kib = memory.watch(measure.Target(("sh", "-c", f'lua5.4 -e "{words}"; true')), allocators.AS_IS)
    assert seconds == sorted(seconds) and len(seconds) == len(kib) <= memory.MOST + 1 and max(kib) > 40 << 10 and min(kib) < 20 << 10
