"""The allocator of lab/allocators/mare: what each function answers, threads, want of memory, and real programs.

At the edges, over forks and with many threads: see test_own_allocators.py."""

import os
import shutil
import subprocess
import sys

import pytest

from marelab import allocators, native

TESTS = native.FOLDER.parent / "tests"
ALLOCATOR = allocators.load()["mare"]


def names(program: str) -> list[str]:
    """Without a name a test program lists those it has."""
    file = TESTS / program
    return subprocess.run([file], capture_output=True, text=True, check=True).stdout.split() if file.exists() else ["no-such-file"]


def under(*words, timeout=120, **more):
    return subprocess.run(words, env=os.environ | {"LD_PRELOAD": ALLOCATOR.library}, capture_output=True, text=True, timeout=timeout, **more)


MISUSE = {n for n in names("mare-malloc-entries") if n.startswith("freed")}


@pytest.mark.parametrize("name", [n for n in names("mare-malloc-entries") if n not in MISUSE])
def test_it_does_what_the_c_library_does(name):
    r = under(TESTS / "mare-malloc-entries", name)
    assert r.returncode == 0, r.stderr


@pytest.mark.parametrize("name", [n for n in names("mare-malloc-entries") if n not in MISUSE and "want_of_memory" not in n and "for_a_second" not in n])
def test_its_code_does_nothing_undefined(name):
    r = subprocess.run([TESTS / "mare-malloc-entries-checked", name], capture_output=True, text=True, timeout=120)
    assert r.returncode == 0, r.stderr


@pytest.mark.parametrize("name", sorted(MISUSE))
def test_what_is_freed_wrongly_ends_the_program(name):
    r = under(TESTS / "mare-malloc-entries", name)
    assert r.returncode < 0
    if "large_twice" not in name:  # that one's memory is gone: the system ends the program
        assert r.stderr.startswith("mare malloc: ") and "0x" in r.stderr


@pytest.mark.parametrize("name", names("mare-malloc-threads"))
def test_threads(name):
    r = under(TESTS / "mare-malloc-threads", name)
    assert r.returncode == 0, r.stderr


@pytest.mark.parametrize("name", [n for n in names("mare-malloc-threads") if "memory_stays" not in n and "destructors" not in n])
def test_no_two_threads_are_in_one_list(name):
    """Under ThreadSanitizer, whose shadow memory grows with threads and can't be forked with them."""
    r = subprocess.run([TESTS / "mare-malloc-threads-tsan", name, "4000"], capture_output=True, text=True, timeout=240)
    assert r.returncode == 0, r.stderr


PROGRAMS = {
    "bash": (["bash", "-c", "for i in {1..300}; do a[i]=$(echo $i); done; echo ${#a[@]}"], "300\n"),
    "lua5.4": (["lua5.4", "-e", "local t = {} for i = 1, 2e5 do t[i % 5000] = { i, tostring(i) } end print(#t)"], "4999\n"),
    "python3": (["python3", "-c", "import json; d = {str(i): [i] * 9 for i in range(30000)}; print(json.loads(json.dumps(d)) == d)"], "True\n"),
    "sqlite3": (["sqlite3", ":memory:", "with recursive c(i) as (select 1 union all select i + 1 from c where i < 50000) "
                 "select count(distinct substr(hex(i), 1, 5)) from c;"], None),
    "gcc": (["gcc", "-O1", "-x", "c", "-S", "-o", "-", "-"], None),
    "node": (["node", "-e", "const a = []; for (let i = 0; i < 3e5; i++) a.push(Buffer.alloc(100, i)); console.log(a.length)"], "300000\n"),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_real_programs_say_the_same_as_without_it(program):
    if not shutil.which(program):
        pytest.skip(f"{program} is not here")
    words, said = PROGRAMS[program]
    source = "#include <stdio.h>\nint main(void) { for (int i = 0; i < 9; i++) printf(\"%d\", i); return 0; }\n"
    r = under(*words, input=source)
    assert r.returncode == 0, r.stderr
    assert r.stdout == (said or subprocess.run(words, input=source, capture_output=True, text=True, timeout=120).stdout)


def test_it_takes_part_only_where_it_is_named():
    found = allocators.load()
    assert "mare" not in [a.name for a in allocators.select(found, None)]
    assert [a.name for a in allocators.select(found, "glibc,mare")] == ["glibc", "mare"]
    assert allocators.version(ALLOCATOR) and allocators.probe(ALLOCATOR)["glibc_serves"]["malloc"] is False


def own_table(folder):
    program = native.FOLDER.parents[2] / "bench" / "lab" / "own.py"
    return subprocess.run([sys.executable, program, folder], capture_output=True, text=True, timeout=60)


def test_the_table_of_its_page_counts_ratios_to_the_best_of_each_cell(tmp_path):
    """One's CPU times are 1 and 2, as the least of two blocks, the other's 2 and 16: ratios 2 and 8, whose geometric mean is 4."""
    head = "block,order,warm_up,allocator,problem,cell,out_cpu_seconds,out_peak_bytes,out_after_bytes\n"
    runs = [(0, "one", "a", 0.1, 1, 1), (1, "one", "a", 1, 100, 1), (2, "one", "a", 3, 300, 1), (1, "one", "b", 2, 100, 1), (2, "one", "b", 2, 100, 1),
            (1, "two", "a", 9, 200, 2000), (2, "two", "a", 2, 200, 2000), (1, "two", "b", 16, 100, 2000), (2, "two", "b", 17, 100, 2000)]
    rows = [f"{block},1,{int(block == 0)},{name},,{cell},{cpu},{peak},{after}\n" for block, name, cell, cpu, peak, after in runs]
    (tmp_path / "runs.csv").write_text(head + "".join(rows))
    r = own_table(tmp_path)
    assert r.returncode == 0, r.stderr
    assert r.stdout.splitlines()[2:] == ["| one | 1.00 (1.00) | 1.00 (1.00) | 1.00 (1.00) |", "| two | 4.00 (8.00) | 1.00 (1.00) | 2,000 (2,000) |"]
    (tmp_path / "runs.csv").write_text(head + "".join(rows[:-2]))
    assert "not every allocator" in own_table(tmp_path).stderr
    r = own_table(tmp_path / "nowhere")
    assert r.returncode == 1 and "runs.csv" in r.stderr and "Traceback" not in r.stderr
