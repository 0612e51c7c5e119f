"""The share of CPU time inside allocator calls."""

import sys

import pytest

from marelab import allocators, measure, perf, share

HEAD = " 100 \n"


def test_samples_are_sorted_by_where_their_innermost_frame_lies():
    text = "\n".join([
        HEAD + "\t 7f00 work+0x3 (/usr/bin/prog)\n\t 7f01 malloc+0x8 (/opt/liballoc.so)\n",                      # the program, called by it
        HEAD + "\t 7f02 anything+0x3 (/opt/liballoc.so)\n\t 7f00 work+0x3 (/usr/bin/prog)\n",                    # the allocator
        HEAD + "\tffff clear_page+0x1 ([kernel.kallsyms])\n\tffff asm_exc_page_fault+0x2 ([kernel.kallsyms])\n",  # a page fault
        HEAD + "\tffff vfs_read+0x1 ([kernel.kallsyms])\n\tffff do_syscall_64+0x2 ([kernel.kallsyms])\n",         # the kernel, otherwise
    ]) + "\n"
    s = share.parse(text, ("/opt/liballoc.so",), glibc=False)
    assert (s.samples, s.allocator, s.kernel_memory, s.kernel) == (4, 1, 1, 2)
    assert s.most == pytest.approx(0.5)


def test_glibcs_malloc_is_told_by_symbol_and_by_address():
    library = allocators.c_library()
    low, high = share.malloc_range(library)
    by_name = f"{HEAD}\t 1 _int_malloc+0x3 ({library})\n\n{HEAD}\t 1 strlen+0x3 ({library})\n\n"
    by_name += f"{HEAD}\t 1 unlink_chunk.constprop.0+0x1 ({library})\n\n"
    assert share.parse(by_name, (library,), glibc=True).allocator == 2
    by_address = f"{HEAD}\t {low + 100:x} [unknown] ({library})\n\n{HEAD}\t {high + 100:x} [unknown] ({library})\n\n"
    assert share.parse(by_address, (library,), glibc=True).allocator == 1
    mapped = f" 100 PERF_RECORD_MMAP2 1/1: [0x7f0000000000({high + 4096:#x}) @ 0 fe:00 1 2]: r-xp {library}\n"
    assert share.parse(mapped + f"{HEAD}\t {0x7f0000000000 + low + 100:x} [unknown] ({library})\n\n", (library,), glibc=True).allocator == 1


def test_exported_functions_of_glibcs_malloc_lie_within_its_range():
    library = allocators.c_library()
    low, high = share.malloc_range(library)
    table = {name: at for at, _, name in share.symbols(library)}
    for name in ("malloc", "free", "calloc", "realloc", "memalign", "posix_memalign", "mallopt"):
        assert low <= table[name] < high, name
    for name in ("memcpy", "strlen", "qsort", "obstack_free"):
        assert not low <= table[name] < high, name
    assert high - low < 100_000


def test_the_interval_of_a_share_is_wilsons():
    s = share.Share(100, 10, None, None, "", [])
    low, high = s.interval(10)
    assert (low, high) == (pytest.approx(0.0552, abs=1e-3), pytest.approx(0.1744, abs=1e-3))


@pytest.mark.skipif(not perf.works(), reason="perf can't be used here")
@pytest.mark.parametrize("code,low,high", [
    ("x = 0\nfor i in range(3_000_000): x = (x * 3 + i) & 255", 0.0, 0.15),             # computes; small integers are cached
    ("import ctypes\nfor i in range(60): b = [bytearray(600 + j % 50) for j in range(20000)]; del b", 0.05, 0.95),  # allocates
])
def test_a_program_that_allocates_has_a_larger_share_than_one_that_computes(code, low, high):
    s = share.record(measure.Target((sys.executable, "-c", code)), allocators.AS_IS, allocators.Allocator("glibc").objects, runs=2)
    assert not isinstance(s, str), s
    assert low <= s.allocator / s.samples <= high


def test_without_perf_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(perf, "works", lambda: False)
    assert "linux-perf" in share.record(measure.Target(("true",)), allocators.AS_IS, ("/x",))
