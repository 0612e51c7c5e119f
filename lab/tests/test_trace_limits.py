"""What bounds a trace: the limit on disk, the ring, a full disk; and the stacks that may be taken."""

import resource
import shutil
import signal
import subprocess

import pytest
from tracing import case, descriptions, number_of, record, total_of

from marelab import describe, format, native, trace
from marelab.errors import LabError


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
    (tmp_path / "t").mkdir()
    command = [native.path("launcher"), "--library", native.path("tracer"), "--out", str(tmp_path / "t"), "--",
               "sh", "-c", f"echo ready; read x; exec {case('exchange')} 2 100000"]
    p = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert p.stdout.readline() == b"ready\n"
    resource.prlimit(p.pid, resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))  # the launcher's files alone
    p.communicate(b"go\n", timeout=300)
    assert p.returncode == 0
    t = format.load(tmp_path / "t")
    assert t.header["write_error"] == "File too large" and not t.header["limit_reached"]
    assert "could not be written: File too large" in "\n".join(trace.summary(t))
    assert max(d["allocations"]["number"] for d in descriptions(t)) > 10000  # what was written is whole
