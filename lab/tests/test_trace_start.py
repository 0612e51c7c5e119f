"""What happens when a traced program starts and ends: room that grows with it, and an end that is seen at once."""

import os
import signal
import subprocess
from pathlib import Path

import pytest
from tracing import BUILD, case, descriptions, wait_until

from marelab import format, native, trace

CHUNK, CHUNKS, AT_ONCE = 16384 + 64, 2048, 128  # bytes of one; how many there usually are, and before the program starts


def launcher(folder: Path, *argv: str, limit: int = 1 << 30) -> list[str]:
    folder.mkdir()
    return [native.path("launcher"), "--library", native.path("tracer"), "--out", str(folder), "--limit", str(limit), "--", *argv]


def reserved(pid: int) -> int:
    return os.stat(f"/dev/shm/mare-lab-trace.{pid}").st_blocks * 512


@pytest.mark.parametrize(("limit", "chunks"), [(1 << 30, CHUNKS), (4 * 700 * CHUNK, 700), (1 << 20, 64)])
def test_buffers_are_reserved_while_the_program_runs_up_to_their_usual_number(tmp_path, limit, chunks):
    p = subprocess.Popen(launcher(tmp_path / "t", "sh", "-c", "read x", limit=limit), stdin=subprocess.PIPE)
    try:
        wait_until(lambda: (tmp_path / "t" / "trace.json").exists() and reserved(p.pid) >= chunks * CHUNK)
    finally:
        p.communicate(b"\n")
    assert p.returncode == 0 and format.load(tmp_path / "t").header["complete"]


def test_a_program_that_allocates_fast_gets_room_at_once_and_loses_nothing(tmp_path):
    subprocess.run(launcher(tmp_path / "t", case("exchange"), "2", "100000"), check=True)
    t = format.load(tmp_path / "t")
    assert t.header["lost_events"] == 0 and descriptions(t)[0]["allocations"]["number"] >= 100_000
    assert t.images[0].words > AT_ONCE * 2048


def test_an_ignored_sigchld_stays_the_programs_own(tmp_path):
    def ignoring(folder: str, *argv: str) -> subprocess.CompletedProcess:
        return subprocess.run(launcher(tmp_path / folder, *argv), stdout=subprocess.PIPE, text=True, preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))

    def has_child(line: str) -> int:
        return int(line.split()[1], 16) >> (signal.SIGCHLD - 1) & 1

    assert has_child(ignoring("a", "grep", "SigIgn", "/proc/self/status").stdout) and ignoring("b", "sh", "-c", "exit 7").returncode == 7
    r = subprocess.run(launcher(tmp_path / "c", "grep", "-E", "Sig(Ign|Blk)", "/proc/self/status"), stdout=subprocess.PIPE, text=True, check=True)
    assert [has_child(line) for line in r.stdout.splitlines()] == [0, 0]


def test_a_limit_of_time_ends_the_wait_and_the_process(tmp_path):
    process = tmp_path / "pid"
    with pytest.raises(subprocess.TimeoutExpired):
        trace.launch(["sh", "-c", f"echo $$ >{process}; exec sleep 600"], timeout=0.3)
    assert not process.exists() or not Path(f"/proc/{process.read_text().strip() or 0}").exists()
    assert trace.launch(["sh", "-c", "exit 3"], timeout=600) == 3 == trace.launch(["sh", "-c", "exit 3"])


def test_it_also_waits_where_the_kernel_gives_no_descriptor_of_a_process(monkeypatch):
    def none(pid):
        raise OSError("not here")

    monkeypatch.setattr(os, "pidfd_open", none)
    assert trace.launch([str(BUILD / "cases" / "routines")], timeout=600, stdout=subprocess.DEVNULL) == trace.launch([str(BUILD / "cases" / "routines")], stdout=subprocess.DEVNULL)
