"""A program that was started asleep, recorded for a while: again and again, with its threads, forks and execs, and by launchers that are killed."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest
from tracing import case, descriptions, number_of, total_of, wait_until

from marelab import attach, describe, format, native
from marelab.errors import LabError


CHUNKS = 4096 * ((192 + 1024 * 832 + 65536 * 8 + 4095) // 4096)  # tr_shared.chunk: count, taking, and at 64 the words


class Program:
    """cases/orders.c, asleep."""

    def __init__(self, **more):
        self.process = subprocess.Popen([case("orders")], env={**os.environ, **attach.environment()}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, **more)
        self("main 10 40")

    @property
    def pid(self) -> int:
        return self.process.pid

    def __call__(self, order: str) -> None:
        self.process.stdin.write(order + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def end(self) -> int:
        self.process.stdin.close()
        return self.process.wait(60)


@pytest.fixture
def program():
    p = Program()
    yield p
    p.process.kill()
    p.process.wait()


class Recording:
    """`launch-trace --attach`, until stop()."""

    def __init__(self, pid, folder, *more):
        self.folder = folder
        folder.mkdir()
        self.process = subprocess.Popen([native.path("launcher"), "--attach", str(pid), "--out", str(folder), *more], stderr=subprocess.PIPE, text=True)
        wait_until(lambda: self.process.poll() is not None or recorded_by(pid) == self.process.pid)

    def stop(self) -> format.Trace:
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(60) == 0, self.process.stderr.read()
        self.process.stderr.close()
        return format.load(self.folder)


def mapping(pid) -> str:
    return next(s.mapping for s in attach.sleepers() if s.pid == pid)


def recorded_by(pid) -> int:
    """The launcher whose clock runs: tr_shared.launcher, at 12, if tr_shared.clock, at 64, does not stand."""
    with open(mapping(pid), "rb", buffering=0) as f:
        clock = int.from_bytes(os.pread(f.fileno(), 8, 64), "little")
        return 0 if clock == 2**64 - 1 else int.from_bytes(os.pread(f.fileno(), 4, 12), "little")


def assert_ordered(t):
    assert t.header["complete"] and t.header["lost_events"] == 0 and t.header["untraced_processes"] == 0
    for d in descriptions(t):
        assert (d["order"]["impossible_steps"], d["order"]["relaxed_waits"]) == (0, 0)


def test_each_session_has_what_happened_in_it_and_nothing_else(tmp_path, program):
    """Threads go on in chunks that the session before left half written."""
    for i in range(4):
        program("main 50 501")
        program("threads 30 503")
        r = Recording(program.pid, tmp_path / str(i))
        program(f"main {100 + i} 701")
        program(f"threads {1000 * i + 7} 703")
        t = r.stop()
        program("threads 20 505")
        assert_ordered(t)
        (d,) = descriptions(t)
        assert [number_of(d, s) for s in (501, 503, 505, 701, 703)] == [0, 0, 0, 100 + i, 3 * (1000 * i + 7)]
        assert d["thread_count"] == 4 and d["seconds"] < 60
        assert t.header["attached"] == program.pid and t.command == [case("orders")]
        assert "was recorded as it ran" in describe.text(d)


def test_frees_of_blocks_from_before_are_counted_as_unknown(tmp_path, program):
    for _ in range(20):
        program("keep 901")
    r = Recording(program.pid, tmp_path / "t")
    program("keep 907")
    program("drop")
    (d,) = descriptions(r.stop())
    assert d["frees"]["unknown"] == 20 and number_of(d, 907) == 1 and number_of(d, 901) == 0
    assert d["live"]["peak_bytes"] < 20 * 901


def test_a_child_that_forked_asleep_and_made_threads_is_recorded_beside_its_parent(tmp_path, program):
    program("fork")
    for i in range(3):
        r = Recording(program.pid, tmp_path / str(i))
        program("main 5 601")
        program("child 40 603")
        t = r.stop()
        assert_ordered(t)
        assert (total_of(t, 601), total_of(t, 603), len(t.images)) == (5, 4 * 40, 2)
        assert [p["forked"] for p in t.header["processes"]].count(True) == 1


def test_a_child_of_a_recorded_program_is_recorded_after_its_fork_and_in_the_next_session(tmp_path, program):
    r = Recording(program.pid, tmp_path / "a")
    program("main 5 601")
    program("fork")
    program("child 40 603")
    t = r.stop()
    assert_ordered(t)
    assert total_of(t, 603) == 4 * 40
    r = Recording(program.pid, tmp_path / "b")
    program("child 30 605")
    t = r.stop()
    assert_ordered(t)
    assert (total_of(t, 605), total_of(t, 603)) == (4 * 30, 0)


@pytest.mark.parametrize("when", ["asleep", "recorded"])
def test_what_the_program_becomes_by_exec_stays_in_the_same_mapping(tmp_path, program, when):
    before = mapping(program.pid)
    first = Recording(program.pid, tmp_path / "a")
    program("main 5 601")
    if when == "asleep":
        first.stop()
    program("exec")
    program("main 7 603")
    if when == "recorded":
        t = first.stop()
        assert_ordered(t)
        assert (total_of(t, 601), total_of(t, 603)) == (5, 7) and {p["ended_by"] for p in t.header["processes"]} == {"exec", "detached"}
    assert mapping(program.pid) == before
    r = Recording(program.pid, tmp_path / "b")
    program("threads 9 605")
    t = r.stop()
    assert_ordered(t)
    assert total_of(t, 605) == 27 and total_of(t, 603) == 0


def test_a_launcher_that_was_killed_leaves_the_program_running_and_the_next_one_records(tmp_path, program):
    r = Recording(program.pid, tmp_path / "a")
    program("threads 3000 601")
    r.process.kill()
    r.process.wait()
    r.process.stderr.close()
    program("threads 3000 603")
    r = Recording(program.pid, tmp_path / "b")
    program("threads 3000 605")
    t = r.stop()
    assert_ordered(t)
    assert total_of(t, 605) == 9000 and total_of(t, 603) == 0


def test_the_end_waits_for_a_thread_that_has_taken_a_region_and_not_said_so_yet(tmp_path, program):
    """Here we are that thread, preempted at the worst place: its words come when the clock stands already."""
    r = Recording(program.pid, tmp_path / "t")
    program("main 50 601")
    with open(mapping(program.pid), "r+b", buffering=0) as f:
        fd, chunk = f.fileno(), CHUNKS
        os.pwrite(fd, (1).to_bytes(4, "little"), chunk + 4)
        r.process.send_signal(signal.SIGINT)
        wait_until(lambda: recorded_by(program.pid) == 0)
        count = int.from_bytes(os.pread(fd, 4, chunk), "little")
        assert r.process.poll() is None and count > 50
        os.pwrite(fd, (1 << 60 | 977 << 46 | 0x10000 >> 3).to_bytes(8, "little"), chunk + 64 + 8 * count)
        os.pwrite(fd, (count + 1).to_bytes(4, "little") + bytes(4), chunk)
    t = r.stop()
    assert_ordered(t)
    assert (total_of(t, 977), total_of(t, 601)) == (1, 50)


def test_the_end_does_not_wait_for_one_that_is_gone(tmp_path, program):
    r = Recording(program.pid, tmp_path / "t")
    program("main 50 601")
    with open(mapping(program.pid), "r+b", buffering=0) as f:
        os.pwrite(f.fileno(), (1).to_bytes(4, "little"), CHUNKS + 4)
    program.process.kill()
    assert total_of(r.stop(), 601) == 50


def test_one_records_at_a_time_and_the_other_is_told(tmp_path, program):
    r = Recording(program.pid, tmp_path / "a")
    with pytest.raises(LabError):
        attach.record(program.pid, tmp_path / "b", seconds=0.1)
    assert not (tmp_path / "b").exists()
    program("main 9 601")
    assert total_of(r.stop(), 601) == 9


def test_memory_goes_back_when_a_session_ends(tmp_path, program):
    path = mapping(program.pid)
    asleep = os.stat(path).st_blocks * 512
    r = Recording(program.pid, tmp_path / "a")
    program("threads 100000 601")
    awake = os.stat(path).st_blocks * 512
    r.stop()
    after = os.stat(path).st_blocks * 512
    assert asleep <= 16384 and awake > 1 << 20 and after <= 2 << 20


def test_the_limit_and_the_ring_and_stacks_work_as_for_a_program_that_is_started(tmp_path, program):
    r = Recording(program.pid, tmp_path / "limit", "--limit", str(8 << 20))
    program("threads 400000 601")
    t = r.stop()
    assert t.header["limit_reached"] and t.header["bytes"] < 12 << 20
    r = Recording(program.pid, tmp_path / "ring", "--ring", "5000")
    program("threads 20000 603")
    program("main 100 605")
    t = r.stop()
    assert t.header["ring_events"] == 5000 and total_of(t, 605) == 100 and total_of(t, 603) < 20000
    r = Recording(program.pid, tmp_path / "stacks", "--stacks", "10")
    program("main 1000 607")
    t = r.stop()
    (d,) = descriptions(t)
    assert number_of(d, 607) == 1000 and any("churn" in f or "orders" in f for s in d["stacks"] for f in s["frames"])


def test_the_program_may_end_while_it_is_recorded(tmp_path):
    p = Program()
    r = Recording(p.pid, tmp_path / "t")
    p("main 9 601")
    assert p.end() == 0
    assert r.process.wait(60) == 0
    r.process.stderr.close()
    t = format.load(tmp_path / "t")
    assert total_of(t, 601) == 9 and [i["ended_by"] for i in t.header["processes"]] == ["exit"]
    assert not os.path.exists(f"/dev/shm/{attach.NAME}{p.pid}")


def test_many_short_sessions_beside_threads_that_free_each_others_blocks_keep_the_order(tmp_path, program):
    program.process.stdin.write("spin 600000\n")
    program.process.stdin.flush()
    events = 0
    for i in range(6):
        t = attach.record(program.pid, tmp_path / str(i), seconds=0.03, limit=64 << 20)
        assert_ordered(t)
        events += t.header["events"]
    assert events > 10000


def test_a_daemon_whose_parent_ended_can_be_recorded(tmp_path):
    code = "import os, sys, time; pid = os.fork(); pid and (print(pid, flush=True), sys.exit()); [bytes(7001) for i in range(10000) if not time.sleep(.01)]"
    with open(tmp_path / "said", "w") as out:  # not a pipe, which the daemon would keep open
        subprocess.run([sys.executable, "-c", code], env={**os.environ, **attach.environment(), "PYTHONMALLOC": "malloc"}, stdout=out, timeout=300, check=True)
    pid = int((tmp_path / "said").read_text())
    try:
        t = attach.record(pid, tmp_path / "t", seconds=1)
    finally:
        os.kill(pid, signal.SIGKILL)
    assert sum(number_of(d, s) for d in descriptions(t) for s in range(7001, 7080)) > 5


@pytest.mark.parametrize("code", ["import os, threading, time; t = threading.Thread(target=lambda: os.fork() or time.sleep(600)); t.start(); t.join(1)",
                                  "import os, time; a = os.fork(); a or os.fork() or time.sleep(600); a and os.waitpid(a, 0)",
                                  "import subprocess; subprocess.Popen(['sleep', '600'])"], ids=["by a thread", "twice", "by exec"])
def test_what_a_program_leaves_asleep_can_still_be_recorded(tmp_path, code):
    before = {s.pid for s in attach.sleepers()}
    with open(tmp_path / "said", "w") as out:
        subprocess.run([sys.executable, "-c", code], env={**os.environ, **attach.environment()}, stdout=out, timeout=300)
    left = [s.pid for s in attach.sleepers() if s.pid not in before]
    try:
        assert left and attach.record(left[0], tmp_path / "t", seconds=0.05).header["complete"]
    finally:
        for pid in left:
            os.kill(pid, signal.SIGKILL)


def test_a_program_that_overwrites_the_mapping_does_its_recorder_no_harm(tmp_path, program):
    r = Recording(program.pid, tmp_path / "t")
    with open(mapping(program.pid), "r+b", buffering=0) as f:  # tr_shared.usable and the two behind it; the second record; chunks' words
        for at, bytes_ in ((128, b"\xff" * 12), (192 + 832 + 4, os.urandom(800)), (852160, os.urandom(4096))):
            os.pwrite(f.fileno(), bytes_, at)
    program("main 100 601")
    r.process.send_signal(signal.SIGINT)
    assert r.process.wait(60) in (0, 125)
    r.process.stderr.close()


def test_a_program_that_ends_in_order_leaves_nothing_in_shared_memory():
    p = Program()
    path = mapping(p.pid)
    assert p.end() == 0 and not os.path.exists(path)


# ---- the command line ----

def test_the_command_starts_lists_and_records(tmp_path, lab):
    p = subprocess.Popen([sys.executable, "-m", "marelab", "attach", "--start", "--", case("orders")], stdin=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: any(s.pid == p.pid for s in attach.sleepers()))
        assert re.search(rf"^ *{p.pid}  .*orders$", lab("attach", "--list").stdout, re.M)
        assert {"pid": p.pid, "command": [case("orders")], "mapping": mapping(p.pid)} in json.loads(lab("attach", "--list", "--json").stdout)
        p.stdin.write("spin 600000\n")
        p.stdin.flush()
        r = lab("attach", p.pid, "--for", "0.3", "-o", "t")
    finally:
        p.kill()
        p.wait()
        p.stdin.close()
    assert r.returncode == 0 and "its frees are counted" in r.stderr and "next:  mare lab describe t" in r.stderr
    assert 0.3 <= json.loads((tmp_path / "t" / "trace.json").read_text())["seconds"] < 60


def test_a_session_in_which_nothing_was_allocated_says_so(tmp_path, lab, program):
    r = lab("attach", program.pid, "--for", "0.1", "-o", "t")
    assert r.returncode == 0 and "nothing was recorded: the program allocated nothing in this time" in r.stderr


def test_mistakes_are_told_with_what_to_do(lab):
    assert "give the number of a process" in lab("attach").stderr
    assert "is no number of seconds" in lab("attach", "1", "--for", "long").stderr
    plain = subprocess.Popen(["sleep", "300"])
    r = lab("attach", plain.pid)
    plain.kill()
    plain.wait()
    assert r.returncode == 2 and "was not started with the tracer" in r.stderr and "mare lab attach --start" in r.stderr
    assert "there is no process" in lab("attach", 2**22 + 1).stderr
    assert "no program" in lab("attach", "--start").stderr
    variables = dict(line.split("=", 1) for line in lab("attach", "--env").stdout.splitlines())
    assert variables == attach.environment()
