"""The tracer against valgrind and real programs, and through each case it must survive."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys

import pytest
from tracing import BUILD, assert_sound, case, descriptions, number_of, over, record, total_of, wait_until

from marelab import describe, format, native, trace
from marelab.errors import LabError

LUA = "local t = {} for i = 1, 3000 do t[i % 100] = {i, tostring(i):rep(i % 40)} end"


def valgrind(argv, cwd) -> tuple[int, int, int]:
    r = subprocess.run(["valgrind", "--run-libc-freeres=no", "--run-cxx-freeres=no", *map(str, argv)], capture_output=True, text=True, cwd=cwd,
                       timeout=300)
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


def test_a_failed_realloc_of_any_size_is_no_free(tmp_path):
    """Sizes of 2^60 and more don't fit into a word of the trace: they are written as the largest that does."""
    d = describe.describe(record(tmp_path, case("huge")))
    assert d["reallocs"]["failed"] == 4 and d["reallocs"]["freed"] == 0 and d["allocations"]["failed"] == 6
    assert d["live"]["peak_bytes"] >= 1001 and d["frees"]["number"] == 1 and d["retention"]["never_freed"]["number"] == 0
    assert d["allocations"]["number"] == 1 and d["allocations"]["bytes"] == 1001


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


def test_a_program_does_not_notice_that_the_tracer_is_refused_something(tmp_path):
    r = subprocess.run(["setarch", "-R", str(BUILD / "tests" / "attach-test")], capture_output=True, text=True, timeout=300, cwd=tmp_path)
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
def test_recording_and_draining_are_sound_under_sanitizers(tmp_path, kind):
    r = subprocess.run(["setarch", "-R", str(BUILD / "tests" / f"record-test-{kind}")], capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert r.returncode == 0 and not r.stderr, r.stderr


def test_what_a_program_leaves_behind_is_traced_to_its_end(tmp_path):
    t = record(tmp_path, "sh", "-c", "lua5.4 -e 'for i = 1, 1000 do local t = {} end' & exit 3")
    assert t.header["status"] == 3
    assert_sound(t)
    assert total_of(t, 56) >= 1000


def test_threads_wait_for_a_launcher_that_is_behind_and_the_wait_is_counted(tmp_path):
    (tmp_path / "t").mkdir()
    command = [native.path("launcher"), "--library", native.path("tracer"), "--out", str(tmp_path / "t"), "--limit", str(8 << 20), "--",
               "sh", "-c", f"echo begun; read x; exec {case('exchange')} 2 200000"]
    p = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    path = f"/dev/shm/mare-lab-trace.{p.pid}"
    assert p.stdout.readline() == b"begun\n"
    p.send_signal(signal.SIGSTOP)  # a disk that takes long
    p.stdin.write(b"go\n")
    p.stdin.flush()
    with open(path, "rb", buffering=0) as f:
        wait_until(lambda: int.from_bytes(os.pread(f.fileno(), 4, 132), "little"))  # tr_shared.waiting
    p.send_signal(signal.SIGCONT)
    p.communicate(timeout=300)
    assert p.returncode == 0
    t = format.load(tmp_path / "t")
    assert t.header["stalls"] >= 1 and t.header["stall_seconds"] > 0 and t.header["lost_events"] == 0
    assert "waited" in "\n".join(trace.summary(t))


# ---- refusals, before anything starts; test_target.py has them all ----

def refused(tmp_path, program) -> str:
    with pytest.raises(LabError) as e:
        trace.record([str(program)], tmp_path / "t")
    assert not (tmp_path / "t").exists()
    return str(e.value)


def test_a_script_is_judged_by_its_interpreter(tmp_path):
    script = tmp_path / "script"
    script.write_text(f"#!{BUILD}/bin/measure\n")
    script.chmod(0o755)
    assert "statically" in refused(tmp_path, script)
    script.write_text("#!/usr/bin/env lua5.4\nprint(1)\n")
    t = record(tmp_path, script, stdout=subprocess.DEVNULL)
    assert t.header["status"] == 0 and t.main().executable.endswith("lua5.4")


def test_what_is_refused_leaves_no_folder(tmp_path):
    assert "not found" in refused(tmp_path, "no-such-program-here")
    assert "statically" in refused(tmp_path, BUILD / "bin" / "measure")


def test_a_folder_that_is_no_trace_is_not_replaced(tmp_path):
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "precious").write_text("x")
    for force in (False, True):
        with pytest.raises(LabError, match="choose another folder"):
            trace.record(["/bin/true"], tmp_path / "t", force=force)
    assert (tmp_path / "t" / "precious").exists()


# ---- other ends, and other allocators ----

def test_an_interrupt_is_the_programs_and_the_trace_is_finished(tmp_path):
    p = subprocess.Popen([sys.executable, "-m", "marelab", "trace", "-o", str(tmp_path / "t"), "--", "sh", "-c", "echo ready; exec cat"],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    assert p.stdout.readline() == b"ready\n"
    os.killpg(p.pid, signal.SIGINT)
    _, said = p.communicate(timeout=300)
    assert p.returncode == 130 and b"ended by signal 2" in said and b"Traceback" not in said
    assert json.loads((tmp_path / "t" / "trace.json").read_text())["complete"]


def test_a_killed_launcher_leaves_a_trace_that_says_so(tmp_path):
    (tmp_path / "t").mkdir()
    command = [native.path("launcher"), "--library", native.path("tracer"), "--out", str(tmp_path / "t"), "--", case("private_heap")]
    p = subprocess.Popen(command, stdin=subprocess.PIPE)
    wait_until(lambda: os.path.exists(f"/dev/shm/mare-lab-trace.{p.pid}") and (tmp_path / "t" / "trace.json").exists())
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
    assert p.wait(300) == 0
    d = describe.describe(format.load(tmp_path / "t"))
    assert 0.005 < d["memory"]["malloc_share"] < 0.05
    assert "malloc sees 2% of this program's memory" in describe.text(d) or "malloc sees 1% of this program's memory" in describe.text(d)


# ---- the command line ----

def lab(*args, **options):
    return subprocess.run([sys.executable, "-m", "marelab", *map(str, args)], capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL,
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


def test_a_c_program_whose_plugin_is_in_cxx_runs_on(tmp_path):
    """Its libstdc++ is in the plugin's scope alone, as VLC's is."""
    (tmp_path / "plugin.cpp").write_text("""
        #include <new>
        static char *volatile p;
        static int *volatile q;
        extern "C" int work(int n) { p = new char[n]; q = new int(n); int r = p && *q; delete q; delete[] p; return r; }
    """)
    (tmp_path / "main.c").write_text("""
        #include <dlfcn.h>
        int main(int argc, char **argv) {
          for (int i = 0; i < 2; i++) {
            void *plugin = dlopen(argv[argc - 1], RTLD_NOW | RTLD_LOCAL);
            int (*work)(int) = plugin ? (int (*)(int))dlsym(plugin, "work") : 0;
            if (!work || !work(7654 + i)) return 1;
            dlclose(plugin);
          }
          return 0;
        }
    """)
    plugin, program = tmp_path / "plugin.so", tmp_path / "program"
    subprocess.run(["c++", "-O1", "-fno-builtin", "-shared", "-fPIC", "-o", plugin, tmp_path / "plugin.cpp"], check=True, timeout=600)
    subprocess.run(["cc", "-O1", "-o", program, tmp_path / "main.c", "-ldl"], check=True, timeout=600)
    t = record(tmp_path, program, plugin)
    assert_sound(t)
    assert t.header["status"] == 0 and (total_of(t, 7654), total_of(t, 7655)) == (1, 1)
