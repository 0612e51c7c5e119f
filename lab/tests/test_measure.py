"""One run of one program: what it used, and every way in which it can go wrong."""

import os
import subprocess
import sys

import pytest
from tracing import ended, said, wait_until

from marelab import allocators, measure, native
from marelab.errors import LabError

PLAIN = allocators.AS_IS


def once(*argv, **more):
    return measure.once(measure.Target(tuple(argv), **more), PLAIN)


def test_a_run_is_measured():
    o = once(sys.executable, "-c", "x = b'a' * 100_000_000")
    assert o.problem() is None
    assert 100_000 < o.peak_kib < 200_000 and o.minor_faults > 1000
    assert 0 < o.cpu_s < 60 and o.wall_s > 0


def test_the_size_of_the_laboratory_is_not_handed_down():
    """ru_maxrss of /bin/true under a parent of 300 MB must stay that of /bin/true."""
    big = bytearray(300 << 20)
    o = once("/bin/true")
    assert len(big) and o.peak_kib < 20_000


def test_memory_and_time_of_children_count():
    o = once("sh", "-c", f"{sys.executable} -c 'x = b\"a\" * 100_000_000; sum(range(10**6))'")
    assert o.peak_kib > 100_000 and o.cpu_s > 0.005


def test_a_program_that_does_not_exist_says_so():
    assert "did not start: No such file" in once("/no/such/program").problem()


@pytest.mark.parametrize("code,good,words", [(3, (0,), "exit code 3"), (3, (0, 3), None)])
def test_exit_codes(code, good, words):
    problem = once("sh", "-c", f"exit {code}").problem(good)
    assert words in problem if words else problem is None


def test_a_crash_has_its_signals_name():
    assert "SIGSEGV" in once("sh", "-c", "kill -SEGV $$").problem()


def test_the_time_limit_ends_the_whole_family(tmp_path):
    mark = tmp_path / "pid"
    for limit in (0.3, 5, 60):  # on a busy machine it may not even have begun by then
        o = once("sh", "-c", f"setsid sleep 600 & echo $! > {mark}; sleep 600", timeout=limit)
        assert "time limit" in o.problem() and limit <= o.wall_s < 500
        if mark.exists():
            break
    assert not os.path.exists(f"/proc/{mark.read_text().strip()}")


def test_what_the_program_leaves_behind_is_ended_and_counted(tmp_path):
    mark = tmp_path / "pid"
    o = once("sh", "-c", f"setsid sleep 600 & echo $! > {mark}")
    assert o.problem() is None and o.left_behind == 1
    assert not os.path.exists(f"/proc/{mark.read_text().strip()}")


def test_the_memory_guard_ends_a_run_before_the_machine_suffers():
    o = once(sys.executable, "-c", "x = []\nwhile True: x.append(b'a' * 10_000_000)", rss_limit_kib=300_000, timeout=300)
    assert "memory guard" in o.problem()


def test_affinity_is_that_of_the_program():
    first = min(os.sched_getaffinity(0))
    o = once(sys.executable, "-c", f"import os, sys; sys.exit(os.sched_getaffinity(0) != {{{first}}})", cpus=str(first))
    assert o.problem() is None


def test_settings_reach_the_program_and_not_the_runner():
    a = allocators.Allocator("x", env=(("MARELAB_TEST", "yes"),))
    o = measure.once(measure.Target(("sh", "-c", 'test "$MARELAB_TEST" = yes')), a)
    assert o.problem() is None


def test_standard_input_is_a_file_or_empty(tmp_path):
    (tmp_path / "in").write_text("hello")
    assert once("sh", "-c", 'test "$(cat)" = hello', stdin=str(tmp_path / "in")).problem() is None
    assert once("sh", "-c", 'test -z "$(cat)"').problem() is None


def test_killing_the_laboratory_ends_the_program(tmp_path):
    mark = tmp_path / "pid"
    code = (f"from marelab import measure, allocators\n"
            f"measure.once(measure.Target(('sh', '-c', 'echo $$ > {mark}; sleep 600')), allocators.AS_IS)")
    p = subprocess.Popen([sys.executable, "-c", code], env=os.environ | {"TMPDIR": str(tmp_path)})  # what it can't remove goes with the test
    pid = said(mark)
    p.kill()
    p.wait()
    wait_until(lambda: ended(pid))


def test_a_missing_runner_names_the_remedy(monkeypatch, tmp_path):
    monkeypatch.setattr(native, "FOLDER", tmp_path)
    with pytest.raises(LabError, match="make lab"):
        once("true")
