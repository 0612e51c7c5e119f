"""Names of functions: static ones have their own, never that of the nearest exported one; without symbols that is said."""

import lzma
import shutil
import struct
import subprocess
import types

import pytest
from tracing import record

from marelab import allocators, describe, explain, measure, memory, sites, stacks, symbols, target
from marelab.errors import LabError

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


def name_in(file, address: int, folder) -> str:
    """What a process that has the file mapped calls the address, as describe asks for it."""
    maps = folder / "maps"
    maps.write_text(f"1000-ffffffffffff0000 r-xp 00000000 fe:00 12 {file}\n")
    return stacks.Namer(maps).names({address})[address]


def test_damaged_files_give_no_names_and_no_errors(built, tmp_path):
    whole = built.read_bytes()
    for cut in [*range(0, 200, 4), *range(200, len(whole), 997), *range(len(whole) - 64 * 40, len(whole), 8)]:
        path = tmp_path / f"cut{cut}"
        path.write_bytes(whole[:cut])
        assert symbols.look_up(str(path), [0x1140])[0] and name_in(path, 0x2140, tmp_path)
        bad = bytearray(whole)
        bad[cut:cut + 8] = b"\xff" * 8
        (tmp_path / f"bad{cut}").write_bytes(bad)
        assert symbols.look_up(str(tmp_path / f"bad{cut}"), [0x1140])[0] and name_in(tmp_path / f"bad{cut}", 0x2140, tmp_path)
    assert symbols.look_up("/nonexistent/x.so", [0x10]) == ["x.so+0x10"]


@pytest.mark.parametrize("offset", [1 << 63, (1 << 64) - 8])
def test_an_offset_that_no_file_has_is_no_traceback(built, tmp_path, offset):
    """Of the table of segments, and of the segment that names the loader, which is at hand behind the first one."""
    whole = built.read_bytes()
    for at in (32, 64 + 56 + 8):
        bad = bytearray(whole)
        struct.pack_into("<Q", bad, at, offset)
        path = tmp_path / f"bad{at}"
        path.write_bytes(bad)
        path.chmod(0o755)
        assert name_in(path, 0x1000, tmp_path) and name_in(path, 0x1000 + 0x1140, tmp_path)
        with pytest.raises(LabError, match="damaged ELF file"):
            target.check([str(path)])


def test_long_names_are_cut_and_keep_their_file(tmp_path):
    source, name = tmp_path / "p.c", "f" * 3000
    source.write_text(f"#include <stdlib.h>\nvoid *kept; __attribute__((noinline)) void {name}(void) {{ kept = malloc(5000); }} int main(void) {{ {name}(); return 0; }}")
    run("cc", "-O1", "-fno-builtin", "-o", tmp_path / "prog", source)
    s = sites.of_trace(record(tmp_path, tmp_path / "prog", stacks=1))
    assert f"{'f' * (symbols.SHOWN - 1)}… (prog)" in s["names"] and max(map(len, s["names"])) <= symbols.SHOWN + len(" (prog)")
    assert symbols.short("f (g) (p)") == "f (g) (p)" and symbols.short("libx.so+0x10") == "libx.so+0x10"


def test_packed_symbols_that_want_too_much_memory_are_passed_over(built):
    """The old form of xz has the size of its dictionary in its header."""
    packed = bytearray(lzma.compress(built.read_bytes(), lzma.FORMAT_ALONE))
    file = types.SimpleNamespace(section=lambda name: (0, memoryview(packed)))
    assert symbols.small_debug_data(file).table(symbols.SYMTAB)
    struct.pack_into("<I", packed, 1, 1 << 30)
    assert symbols.small_debug_data(file) is None


def test_a_demangler_that_does_not_answer_is_given_up(tmp_path, monkeypatch):
    (tmp_path / "c++filt").write_text("#!/bin/sh\nexec sleep 60\n")
    (tmp_path / "c++filt").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(symbols, "PATIENCE", 0.2)
    assert symbols.demangled(["_Z3addii (p)"]) == ["_Z3addii (p)"]


def test_versions_and_parts_of_functions_are_not_in_their_names():
    assert [symbols.clean(n) for n in ("f@@GLIBC_2.2.5", "f.constprop.0", "f.part.0.cold", "f")] == ["f"] * 4
    assert symbols.demangled(["_Z3addii (p)", "main (p)"]) == ["add(int, int) (p)", "main (p)"]


# ---- where it allocates ----

def test_what_lived_at_the_peak_is_that_of_the_trace(tmp_path):
    """Every allocation is looked at, so all sums are exact, also over realloc, threads and the end."""
    t = record(tmp_path, "lua5.4", "-e", "local t = {} for i = 1, 3000 do t[i % 700] = { i, tostring(i):rep(i % 50) } end", stacks=1)
    d, s = describe.describe(t), sites.of_trace(t)
    assert s["total"][:3] == [d["allocations"]["number"], d["allocations"]["bytes"], d["live"]["peak_bytes"]] and s["samples"] == s["total"][0]
    assert s["total"][3:5] == [d["live"]["end_blocks"], d["live"]["end_bytes"]]
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


def test_memory_is_looked_at_as_far_as_the_time_lasts_and_what_is_missing_is_told(monkeypatch):
    """The first one is quick, the second one fails, the third one would take too long: what was seen of the first one stays."""
    a, b, c = (allocators.Allocator(n) for n in "abc")
    seen = []

    def watch(goal, allocator):
        seen.append(allocator.name)
        if allocator is b:
            raise LabError("the runner failed")
        return [0.1, 0.2], [1000, 2000]

    monkeypatch.setattr(memory, "watch", watch)
    result = {"standings": {"wall": {"allocators": [{"name": n, "typical": t} for n, t in (("a", 1.0), ("b", 1.0), ("c", 600.0))]}}}
    found = explain.watched(measure.Target(("true",)), [a, c, b], result)
    assert found["by"] == {"a": {"seconds": [0.1, 0.2], "kib": [1000, 2000]}} and seen == ["a", "b"]
    assert explain.memory_sentences(found) == ["No picture of memory over the run under c: it would take longer than the 20 s that all of them have.",
                                               "No picture of memory over the run under b: the runner failed."]
