"""The tracer against valgrind and real programs, and through each case it must survive."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
from tracing import BUILD, assert_sound, case, descriptions, number_of, over, record, total_of

from marelab import describe, native, trace
from marelab.errors import LabError

LUA = "local t = {} for i = 1, 3000 do t[i % 100] = {i, tostring(i):rep(i % 40)} end"


def valgrind(argv, cwd) -> tuple[int, int, int]:
    r = subprocess.run(["valgrind", "--run-libc-freeres=no", "--run-cxx-freeres=no", *map(str, argv)], capture_output=True, text=True, cwd=cwd,
                       timeout=100)
    m = re.search(r"total heap usage: ([\d,]+) allocs, ([\d,]+) frees, ([\d,]+) bytes", r.stderr)
    assert m, r.stderr
    return tuple(int(x.replace(",", "")) for x in m.groups())


def totals(d: dict) -> tuple[int, int, int]:
    """As valgrind counts: a realloc is an allocation and a free."""
    a, f, r = d["allocations"], d["frees"], d["reallocs"]
    return a["number"], f["number"] - f["null"] + r["number"], a["bytes"]


SQL = "create table t(a); insert into t values (1), (2); select sum(a) from t"


@pytest.mark.parametrize("argv", [("lua5.4", "-e", LUA), ("/bin/ls", "/"), ("sqlite3", ":memory:", SQL), ("sort", "/etc/passwd")],
                         ids=lambda argv: argv[0])
def test_counts_equal_valgrinds_total_heap_usage(tmp_path, argv):
    assert shutil.which(argv[0]) and shutil.which("valgrind")
    t = record(tmp_path, *argv, stdout=subprocess.DEVNULL)
    assert_sound(t)
    assert totals(descriptions(t)[0]) == valgrind(argv, tmp_path)


def test_counts_equal_valgrinds_with_every_routine(tmp_path):
    d = describe.describe(record(tmp_path, case("routines")))
    shares = d["allocations"]["routines"]
    assert {k: v["number"] for k, v in shares.items()} == {"malloc": 1, "calloc": 1, "realloc": 3, "aligned": 4}
    assert d["allocations"]["bytes"] == 1001 + 1001 + 1003 + 1005 + 100001 + 1007 + 1024 + 1009 + 1011
    assert d["reallocs"] | {"in_place": 0, "moved": 0} == {"number": 3, "in_place": 0, "moved": 0, "failed": 1, "freed": 1, "null": 1}
    assert d["reallocs"]["in_place"] + d["reallocs"]["moved"] == 2
    assert d["frees"]["number"] == 7 and d["frees"]["null"] == 1 and d["retention"]["never_freed"]["number"] == 0
    assert d["allocations"]["failed"] == 4  # malloc, calloc, realloc, posix_memalign; reallocarray never came to the allocator


@pytest.mark.parametrize("threads", [2, 4, 8])
def test_threads_that_free_each_others_blocks_leave_no_impossible_step(tmp_path, threads):
    t = record(tmp_path, case("exchange"), threads, 30000)
    assert_sound(t)
    d = descriptions(t)[0]
    assert d["thread_count"] == threads + 1 and d["frees"]["by_another_thread_share"] > 0.2
    assert d["retention"]["never_freed"]["number"] < 10  # what the C library keeps


def test_frees_in_tls_destructors_after_ours_are_recorded(tmp_path):
    t = record(tmp_path, case("destructors"))
    assert_sound(t)
    d = descriptions(t)[0]
    assert (number_of(d, 7001), number_of(d, 7003)) == (50, 150)
    assert d["live"]["end_bytes"] < 7001
    assert t.header["processes"][0]["streams"] <= 2  # one thread after another needs one more than the first


def test_ten_thousand_short_threads_share_few_streams(tmp_path):
    t = record(tmp_path, case("threads"), 10000, 50)
    assert_sound(t)
    assert number_of(descriptions(t)[0], 7001) == 10000
    assert t.header["processes"][0]["streams"] <= 60


def test_a_thousand_threads_at_once_have_a_stream_each(tmp_path):
    t = record(tmp_path, case("threads"), 1000, 1000)
    assert_sound(t)
    assert number_of(descriptions(t)[0], 7001) == 1000


@pytest.mark.parametrize("how, status", [("exit", 0), ("_exit", 0), ("kill", -signal.SIGKILL)])
def test_nothing_is_lost_when_a_program_ends_with_threads_running(tmp_path, how, status):
    t = record(tmp_path, case("leaving"), how)
    assert_sound(t)
    d = descriptions(t)[0]
    assert t.header["status"] == status
    assert number_of(d, 7001) == 500 and number_of(d, 7003) > 3000


def test_the_trace_follows_every_way_to_exec(tmp_path):
    t = record(tmp_path, case("chain"), 20)
    assert_sound(t)
    assert total_of(t, 7001) == 21
    numbers = {}
    for p in t.header["processes"]:
        numbers.setdefault(p["pid"], []).append(p["image"])
    assert all(n == list(range(len(n))) for n in numbers.values()) and max(map(len, numbers.values())) > 5
    assert {p["ended_by"] for p in t.header["processes"]} == {"exit", "exec"}


def test_children_by_fork_and_raw_clone_have_files_of_their_own(tmp_path):
    t = record(tmp_path, case("forks"))
    assert_sound(t)
    children = [p for p in t.header["processes"] if p["forked"]]
    assert len(children) == 3 and total_of(t, 7003) == 300 and total_of(t, 7005) == 600
    for d in descriptions(t):
        child = d["process"]["pid"] in [p["pid"] for p in children]
        assert number_of(d, 7003) == (100 if child else 0)
        assert d["frees"]["unknown"] == (1 if child else 0) and (d["frees"]["null"] >= 1 or not child)


def test_a_program_that_gives_up_system_calls_is_not_made_to_break_its_word(tmp_path):
    if subprocess.run([case("sandboxed")]).returncode != 0:
        pytest.skip("no seccomp here")
    t = record(tmp_path, case("sandboxed"))
    assert t.header["status"] == 0
    assert_sound(t)
    assert total_of(t, 7003) == 100


def test_processes_in_pid_namespaces_of_their_own_are_told_apart(tmp_path):
    if subprocess.run(["unshare", "-pf", "true"], capture_output=True).returncode != 0:
        pytest.skip("needs the right to make a pid namespace")
    code = "local t = {} for i = 1, 20000 do t[i % 9] = {} end"
    t = record(tmp_path, "sh", "-c", f"for i in 1 2 3; do unshare -pf lua5.4 -e '{code}' & done; wait")
    assert_sound(t)
    assert [number_of(d, 56) >= 20000 for d in descriptions(t)].count(True) == 3


def test_a_forking_server_is_traced_child_by_child(tmp_path):
    t = record(tmp_path, case("server"), 200)
    assert_sound(t)
    assert len(t.images) == 200
    assert sorted(number_of(d, 7001) for d in descriptions(t)) == [100] * 200


def test_a_handler_that_allocates_in_mid_record_loses_nothing(tmp_path):
    with open(tmp_path / "said", "w") as said:
        t = record(tmp_path, case("handler"), 20000, env=over(native.path("bump")), stdout=said)
    assert_sound(t)
    plain, fired = map(int, (tmp_path / "said").read_text().split())
    d = descriptions(t)[0]
    assert fired >= 200
    assert [number_of(d, s) for s in (701, 705, 703, 707)] == [plain, plain, fired, fired]
    assert d["reallocs"]["number"] == plain + fired


def test_the_process_stays_alone_with_no_descriptor_no_handler_no_thread(tmp_path):
    t = record(tmp_path, case("private"))
    assert t.header["status"] == 0
    assert [total_of(t, s) for s in (7001, 7003, 7005)] == [1, 1, 1]


def libraries():
    found = []
    for name in ("libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so.2", "libtbbmalloc_proxy.so.2"):
        found += [p for p in (f"/usr/lib/x86_64-linux-gnu/{name}.0", f"/usr/lib/x86_64-linux-gnu/{name}") if os.path.exists(p)][-1:]
    return found


@pytest.mark.parametrize("library", ["", *libraries()], ids=lambda p: os.path.basename(p) or "glibc")
def test_operators_only_label_the_inner_call_whatever_allocator_is_below(tmp_path, library):
    env = over(library) if library else None
    before = descriptions(record(tmp_path, case("operators"), 0, name="none", env=env))[0]  # tcmalloc uses operators of its own as it starts
    t = record(tmp_path, case("operators"), 3, env=env)
    assert_sound(t)
    d = descriptions(t)[0]
    assert [number_of(d, s) for s in (2001, 2002, 1984, 2004, 2005)] == [3, 3, 3, 3, 3]
    made, dropped = ({k: d[part]["labels"][k] - before[part]["labels"][k] for k in d[part]["labels"]} for part in ("allocations", "frees"))
    assert (made, dropped) == ({"new": 6, "new_array": 6}, {"delete": 6, "delete_array": 6})


def test_a_program_does_not_notice_that_the_tracer_is_refused_something():
    r = subprocess.run(["setarch", "-R", str(BUILD / "tests" / "attach-test")], capture_output=True, text=True, timeout=100)
    assert r.returncode == 0 and not r.stderr, r.stderr


def test_a_program_whose_address_space_is_too_small_for_the_buffers_runs_untraced(tmp_path):
    with open(tmp_path / "said", "w") as said:
        t = record(tmp_path, "sh", "-c", f"ulimit -v 400000; exec {case('handler')} 1000", env=over(native.path("bump")), stdout=said)
    assert t.header["status"] == 0 and int((tmp_path / "said").read_text().split()[0]) >= 1000


def test_a_program_ends_by_itself_when_its_launcher_was_killed(tmp_path):
    """Its buffers fill up, nobody drains them; after ten seconds it stops waiting."""
    (tmp_path / "t").mkdir()
    command = [native.path("launcher"), "--library", native.path("tracer"), "--out", str(tmp_path / "t"), "--limit", str(8 << 20), "--",
               "sh", "-c", f"echo ready; read x; {case('exchange')} 2 200000; echo $?"]
    p = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert p.stdout.readline() == b"ready\n"
    p.kill()
    p.wait()
    p.stdin.write(b"go\n")
    p.stdin.close()
    assert p.stdout.read() == b"0\n"


@pytest.mark.parametrize("kind", ["asan", "tsan"])
def test_recording_and_draining_are_sound_under_sanitizers(kind):
    r = subprocess.run(["setarch", "-R", str(BUILD / "tests" / f"record-test-{kind}")], capture_output=True, text=True, timeout=100)
    assert r.returncode == 0 and not r.stderr, r.stderr


def test_what_a_program_leaves_behind_is_traced_to_its_end(tmp_path):
    t = record(tmp_path, "sh", "-c", "lua5.4 -e 'for i = 1, 1000 do local t = {} end' & exit 3")
    assert t.header["status"] == 3
    assert_sound(t)
    assert total_of(t, 56) >= 1000


def test_threads_wait_for_a_launcher_that_is_behind_and_the_wait_is_counted(tmp_path):
    (tmp_path / "t").mkdir()
    command = [native.path("launcher"), "--library", native.path("tracer"), "--out", str(tmp_path / "t"), "--limit", str(8 << 20), "--",
               "sh", "-c", f"read x; exec {case('exchange')} 2 200000"]
    p = subprocess.Popen(command, stdin=subprocess.PIPE)
    path, deadline = f"/dev/shm/mare-lab-trace.{p.pid}", time.monotonic() + 60
    while not (tmp_path / "t" / "trace.json").exists() and time.monotonic() < deadline:
        pass
    p.send_signal(signal.SIGSTOP)  # a disk that takes long
    p.stdin.write(b"go\n")
    p.stdin.close()
    with open(path, "rb", buffering=0) as f:
        while time.monotonic() < deadline:
            f.seek(132)  # tr_shared.waiting
            if int.from_bytes(f.read(4), "little"):
                break
    p.send_signal(signal.SIGCONT)
    assert p.wait(60) == 0
    from marelab import format
    t = format.load(tmp_path / "t")
    assert t.header["stalls"] >= 1 and t.header["stall_seconds"] > 0 and t.header["lost_events"] == 0
    assert "waited" in "\n".join(trace.summary(t))


# ---- refusals, before anything starts ----

def refused(tmp_path, program) -> str:
    with pytest.raises(LabError) as e:
        trace.record([str(program)], tmp_path / "t")
    assert not (tmp_path / "t").exists()
    return str(e.value)


def elf(path, bits=64, machine=62, interpreter=None):
    """A file with the header of such a program; nobody will start it."""
    import struct
    name = (interpreter or "").encode() + b"\0"
    if bits == 64:
        head = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, 0, 64, 0, 0, 64, 56, 1 if interpreter else 0, 0, 0, 0)
        rest = struct.pack("<IIQQQQQQ", 3, 4, 120, 0, 0, len(name), len(name), 1) + name
    else:
        head = b"\x7fELF\x01\x01\x01" + bytes(9) + struct.pack("<HHIIIIIHHHHHH", 2, machine, 1, 0, 52, 0, 0, 52, 32, 1 if interpreter else 0, 0, 0, 0)
        rest = struct.pack("<IIIIIIII", 3, 84, 0, 0, len(name), len(name), 4, 1) + name
    path.write_bytes(head + rest)
    path.chmod(0o755)
    return path


def test_a_static_program_is_refused(tmp_path):
    assert "statically" in refused(tmp_path, BUILD / "bin" / "measure")


def test_a_32_bit_program_is_refused(tmp_path):
    assert "32-bit" in refused(tmp_path, elf(tmp_path / "old", 32, 3, "/lib/ld-linux.so.2"))


def test_a_musl_program_is_refused(tmp_path):
    assert "musl" in refused(tmp_path, elf(tmp_path / "small", interpreter="/lib/ld-musl-x86_64.so.1"))


def test_a_setuid_program_is_refused(tmp_path):
    program = tmp_path / "powerful"
    shutil.copy("/bin/true", program)
    program.chmod(0o2755)
    assert "setuid" in refused(tmp_path, program)


def test_a_program_with_file_capabilities_is_refused(tmp_path, monkeypatch):
    program = tmp_path / "able"
    shutil.copy("/bin/true", program)
    asked = []

    def getxattr(path, name):
        asked.append((str(path), name))
        return b"\x01\x00\x00\x02"

    monkeypatch.setattr(os, "getxattr", getxattr)  # setting real ones needs a privilege
    assert "file capabilities" in refused(tmp_path, program)
    assert asked == [(str(program), "security.capability")]


def test_a_script_is_judged_by_its_interpreter(tmp_path):
    script = tmp_path / "script"
    script.write_text(f"#!{BUILD}/bin/measure\n")
    script.chmod(0o755)
    assert "statically" in refused(tmp_path, script)
    script.write_text("#!/usr/bin/env lua5.4\nprint(1)\n")
    t = record(tmp_path, script, stdout=subprocess.DEVNULL)
    assert t.header["status"] == 0 and t.main().executable.endswith("lua5.4")


def test_a_program_that_does_not_exist_is_refused(tmp_path):
    assert "not found" in refused(tmp_path, "no-such-program-here")


def test_a_folder_that_is_no_trace_is_not_replaced(tmp_path):
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "precious").write_text("x")
    for force in (False, True):
        with pytest.raises(LabError, match="choose another folder"):
            trace.record(["/bin/true"], tmp_path / "t", force=force)
    assert (tmp_path / "t" / "precious").exists()


# ---- limits ----

def test_the_limit_on_disk_ends_recording_not_the_program(tmp_path):
    t = record(tmp_path, case("exchange"), 2, 200000, limit=4 << 20)
    h = t.header
    assert h["limit_reached"] and h["status"] == 0 and h["bytes"] <= 11 << 19 and 0 < h["limit_seconds"] <= h["seconds"]
    assert "at the limit" in "\n".join(trace.summary(t))
    assert descriptions(t)[0]["trace"]["limit_reached"]


def test_a_ring_keeps_the_last_events(tmp_path):
    t = record(tmp_path, "lua5.4", "-e", "for i = 1, 100000 do local t = {} end for i = 1, 100 do string.rep('x', 5000 + i) end", ring=5000)
    assert 5000 <= t.header["events"] <= 5000 + 2048
    d = descriptions(t)[0]
    assert number_of(d, 56) < 5000
    assert max(d["sizes"]["size"]) >= 5100
    assert d["trace"]["ring_events"] == 5000


def test_a_ring_holds_what_came_before_a_crash(tmp_path):
    code = "for i = 1, 100000 do local t = {} end for i = 1, 50 do string.rep('x', 7000 + i) end os.execute('kill -SEGV $PPID')"
    t = record(tmp_path, "lua5.4", "-e", code, ring=3000)
    assert t.header["status"] == -signal.SIGSEGV and 3000 <= t.header["events"] <= 3000 + 3 * 2048
    d = describe.describe(t, next(i.name for i in t.images if i.executable.endswith("lua5.4")))
    assert all(sum(n for s, n in zip(d["sizes"]["size"], d["sizes"]["number"]) if 7000 + i < s < 7100 + i) for i in range(50))


def test_a_ring_spans_processes(tmp_path):
    t = record(tmp_path, case("server"), 60, ring=100000)
    assert len(t.images) == 60 and total_of(t, 7001) == 6000
    few = record(tmp_path, case("server"), 60, ring=1000, name="few")
    assert 5 <= len(few.images) <= 10


def test_stacks_name_the_functions_that_allocate(tmp_path):
    t = record(tmp_path, case("server"), 3, stacks=1)
    stacks = [s for d in descriptions(t) for s in d["stacks"]]
    assert any(s["bytes"] % 7001 == 0 and any(f.startswith("main ") for f in s["frames"][:2]) for s in stacks)


def test_too_little_disk_is_said_before_the_program_starts(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda p: shutil._ntuple_diskusage(10 << 30, 10 << 30, 3 << 20))
    with pytest.raises(LabError, match="3 MiB are free .* too little"):
        trace.record(["/bin/true"], tmp_path / "t")
    assert not (tmp_path / "t").exists()


def test_a_disk_that_fills_up_ends_recording_not_the_program(tmp_path):
    import resource
    (tmp_path / "t").mkdir()
    command = [native.path("launcher"), "--library", native.path("tracer"), "--out", str(tmp_path / "t"), "--",
               "sh", "-c", f"echo ready; read x; exec {case('exchange')} 2 100000"]
    p = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert p.stdout.readline() == b"ready\n"
    resource.prlimit(p.pid, resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))  # the launcher's files alone
    p.communicate(b"go\n", timeout=60)
    assert p.returncode == 0
    from marelab import format
    t = format.load(tmp_path / "t")
    assert t.header["write_error"] == "File too large" and not t.header["limit_reached"]
    assert "could not be written: File too large" in "\n".join(trace.summary(t))
    assert max(d["allocations"]["number"] for d in descriptions(t)) > 10000  # what was written is whole


def test_an_interrupt_is_the_programs_and_the_trace_is_finished(tmp_path):
    p = subprocess.Popen([sys.executable, "-m", "marelab", "trace", "-o", str(tmp_path / "t"), "--", "sh", "-c", "echo ready; exec cat"],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    assert p.stdout.readline() == b"ready\n"
    os.killpg(p.pid, signal.SIGINT)
    _, said = p.communicate(timeout=60)
    assert p.returncode == 130 and b"ended by signal 2" in said and b"Traceback" not in said
    assert json.loads((tmp_path / "t" / "trace.json").read_text())["complete"]


def test_a_killed_launcher_leaves_a_trace_that_says_so(tmp_path):
    (tmp_path / "t").mkdir()
    command = [native.path("launcher"), "--library", native.path("tracer"), "--out", str(tmp_path / "t"), "--", case("leaving"), "exit"]
    command[-2:] = [case("private_heap")]
    p = subprocess.Popen(command, stdin=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not any(x.name.startswith(f"mare-lab-trace.{p.pid}") for x in os.scandir("/dev/shm")) and time.monotonic() < deadline:
        pass
    while not (tmp_path / "t" / "trace.json").exists() and time.monotonic() < deadline:
        pass
    p.kill()
    p.wait()
    p.stdin.close()  # the program, which goes on without its launcher, ends with its input
    assert json.loads((tmp_path / "t" / "trace.json").read_text())["complete"] is False
    record(tmp_path, "/bin/true", name="next")  # removes what the killed one left
    assert not os.path.exists(f"/dev/shm/mare-lab-trace.{p.pid}")


def test_a_program_with_an_allocator_of_its_own_is_told(tmp_path):
    (tmp_path / "t").mkdir()
    command = [native.path("launcher"), "--library", native.path("tracer"), "--out", str(tmp_path / "t"), "--", case("private_heap")]
    p = subprocess.Popen(command, stdin=subprocess.PIPE)
    p.stdin.close()
    assert p.wait(60) == 0
    from marelab import format
    d = describe.describe(format.load(tmp_path / "t"))
    assert 0.005 < d["memory"]["malloc_share"] < 0.05
    assert "malloc sees 2% of this program's memory" in describe.text(d) or "malloc sees 1% of this program's memory" in describe.text(d)


# ---- the command line ----

def lab(*args, **options):
    return subprocess.run([sys.executable, "-m", "marelab", *map(str, args)], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
                          **options)


def test_trace_gives_the_programs_output_and_status(tmp_path):
    r = lab("trace", "-o", tmp_path / "t", "--", "sh", "-c", "echo said; exit 7")
    assert r.returncode == 7 and r.stdout == "said\n"
    assert "ended with status 7" in r.stderr and "mare lab describe" in r.stderr
    again = lab("trace", "-o", tmp_path / "t", "--", "true")
    assert again.returncode == 2 and "--force" in again.stderr
    r = lab("trace", "--json", "--force", "-o", tmp_path / "t", "--", "sh", "-c", "kill -9 $$")
    assert r.returncode == 128 + 9 and json.loads(r.stdout)["status"] == -9


def test_mistakes_in_the_options_are_named(tmp_path):
    assert "is no size" in lab("trace", "--limit", "much", "--", "true").stderr
    assert "is no number above 0" in lab("trace", "--ring", "0", "--", "true").stderr
    assert "no program" in lab("trace").stderr


@pytest.mark.parametrize("argv", [("/usr/bin/python3", "-c", "import json, re; x = [str(i) for i in range(1000)]; print(len(json.dumps(x)))"),
                                  ("gcc", "-c", "-o", "x.o", "x.c"), ("lynx", "-dump", "page.html")], ids=lambda argv: argv[0])
def test_real_programs_are_traced_whole(tmp_path, argv):
    (tmp_path / "x.c").write_text("#include <stdio.h>\nint main(void) { return puts(\"x\"); }\n")
    (tmp_path / "page.html").write_text("<html><body><h1>Title</h1><p>Some <b>text</b>.</p></body></html>")
    t = record(tmp_path, *argv, cwd=tmp_path, stdout=subprocess.DEVNULL)
    assert t.header["status"] == 0
    assert_sound(t)
    assert sum(d["allocations"]["number"] for d in descriptions(t)) > 100
