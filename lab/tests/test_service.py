"""Services: started, loaded, ended; what is measured of them, and every way in which that can fail."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tracing import wait_until

from marelab import allocators, cli, loads, measure, service

SERVER = r"""
import os, signal, socket, sys
os.fork() if "fork" in sys.argv else None
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
s.bind(("127.0.0.1", int(sys.argv[1]))); s.listen(64)
if "deaf" in sys.argv: signal.signal(signal.SIGTERM, signal.SIG_IGN)
kept = []
while True:
    c, _ = s.accept()
    if "dies" in sys.argv: os._exit(7)
    if "crash" in sys.argv: signal.signal(signal.SIGTERM, lambda *_: os.abort())
    kept.append(bytearray(1 << 20) if "keeps" in sys.argv else b"")
    sum(range(100000)); c.send(b"x"); c.close()
"""
LOAD = r"""
import socket, sys, time
t, n = time.time(), int(sys.argv[2])
for _ in range(n):
    c = socket.create_connection(("127.0.0.1", int(sys.argv[1]))); c.recv(1); c.close()
print(f"handled {n / (time.time() - t):.3f} per second, {n} in all, p99 {1.5}")
"""
UNHURRIED = """
import sys
from marelab import cli, quick, recommend
quick.Limit.over = lambda limit, blocks, block: blocks >= recommend.LEAST
quick.Limit.may_trace = lambda limit: True
sys.exit(cli.main())
"""
READ = ["--read", r"rps=handled ([\d.]+)", "--read", r"requests=(\d+) in all", "--read", r"p99=p99 ([\d.]+)"]


@pytest.fixture
def made(tmp_path, monkeypatch):
    """A service at a free port: how to run it once."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "load.py").write_text(LOAD)
    port = free_port()

    def goal(*words, load=f"python3 load.py {port} 50", **more):
        more = {"timeout": 30, "idle": 0.3, "read": loads.patterns(READ[1::2]), **more}
        return service.Service(("python3", "server.py", str(port), *words), load=load, **more)

    goal.port = port
    return goal


@pytest.fixture
def quickly(tmp_path):
    """`mare lab choose --quick …` whose two minutes are over after ten blocks and not before, however busy the machine is; test_quick.py sees to the minutes."""

    def run(*args):
        words = [sys.executable, "-c", UNHURRIED, "choose", "--quick", *map(str, args)]
        return subprocess.run(words, capture_output=True, text=True, timeout=600, cwd=tmp_path)

    return run


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def once(goal, **more) -> service.Run:
    return measure.once(goal, allocators.AS_IS, **more)


def gone(port: int) -> bool:
    return not any(str(port) in " ".join(open(f"/proc/{p}/cmdline").read().split("\0")) for p in os.listdir("/proc")
                   if p.isdecimal() and os.path.exists(f"/proc/{p}/cmdline") and p != str(os.getpid()))


def test_rate_latency_time_and_memory_of_a_service(made):
    r = once(made())
    row = r.columns()
    assert r.problem() is None and r.said.rps > 0 and r.peak_kib > 2000 and r.idle_kib > 2000
    assert float(row["request_s"]) == pytest.approx(1 / r.said.rps, rel=1e-3) and float(row["p99_s"]) == 0.0015 and row["p50_s"] == ""
    assert 0 < float(row["request_cpu_s"]) < 0.1 and float(row["request_cpu_s"]) == pytest.approx(r.cpu_s / 50, rel=1e-3)
    assert len(r.memory) >= 3 and gone(made.port)


def test_memory_that_stays_after_the_load_is_seen_over_time(made):
    r = once(made("keeps"))
    assert r.idle_kib > 50 * 1024 * 0.8 and r.memory[-1][1] >= r.memory[0][1] and r.memory == sorted(r.memory)


def test_all_processes_of_a_service_count_and_end(made):
    one, two = once(made()), once(made("fork"))
    assert two.problem() is None and two.idle_kib > one.idle_kib and gone(made.port)


def test_a_load_knows_nothing_of_the_allocator(made):
    a = allocators.load()["jemalloc"]
    r = measure.once(made(load="env | grep LD_PRELOAD; echo handled 5; echo 5 in all; echo p99 1"), a)
    assert r.problem() is None and r.said.rps == 5
    r = measure.once(made(load="env | grep LD_PRELOAD && echo handled 5"), a)
    assert "the load ended with exit code 1" in r.problem()


@pytest.mark.parametrize("words,more,message", [
    (["dies"], {}, "exit code"), (["crash"], {}, "the service ended by SIGABRT"), (["deaf"], {}, "did not end within 10 s of SIGTERM"),
    ([], {"load": "echo nothing of use"}, "says no requests per second that is understood"), ([], {"load": "sleep 60", "timeout": 5}, "the load did not end within 5 s"),
    ([], {"ready": "false", "timeout": 1}, "was not ready within 1 s"), ([], {"load": "echo oh no >&2; exit 3"}, "the load ended with exit code 3: oh no")])
def test_what_goes_wrong_is_said_and_nothing_is_left(made, words, more, message):
    r = once(made(*words, **more))
    assert message in r.problem(), r.problem()
    assert gone(made.port)


def test_a_service_that_does_not_start_or_listens_nowhere(made):
    r = measure.once(service.Service(("python3", "-c", "raise SystemExit(4)"), timeout=5, load="true"), allocators.AS_IS)
    assert "ended before it was ready, with exit code 4" in r.problem()
    r = measure.once(service.Service(("sleep", "30"), timeout=0.5, load="true"), allocators.AS_IS)
    assert "it listens nowhere; --ready" in r.problem()


def test_a_stop_command_ends_it(made):
    start = time.monotonic()
    r = once(made(stop=f"pkill -9 -f 'server.py {made.port}'", load="echo handled 1; echo 1 in all; echo p99 1"))
    assert r.problem() is None and time.monotonic() - start < 8


def test_a_whole_choice_for_a_service(made, quickly, tmp_path):
    r = quickly("-o", "out", "--allocators", "glibc,mimalloc", "--serve", f"python3 server.py {made.port}",
                "--load", f"python3 load.py {made.port} 30", *READ, "--idle", "0.1", "--json")
    assert r.returncode == 0, r.stderr
    result = json.loads(r.stdout)
    assert result["response"] == "request" and list(result["standings"]) == ["request", "request-cpu", "peak", "p99", "idle"]
    assert result["service"]["load"] == f"python3 load.py {made.port} 30" and result["present"] == "glibc"
    assert all(a["proof"]["serves"] for a in result["allocators"]) and "--serve 'python3 server.py" in result["command"] and " -- " not in result["command"]
    page = (tmp_path / "out/report.html").read_text()
    assert "requests<br>per second" in page and "99 in 100,<br>ms" in page and "Memory of the service" in page
    assert result["explanation"].get("problem") is None and "left_out" not in result["explanation"]["sites"], result["explanation"]
    assert "Where it allocates" in page and result["explanation"]["description"]["allocations"]["number"] > 1000  # traced under its load
    assert not (tmp_path / "out/trace").exists() and not (tmp_path / "out/sites").exists() and gone(made.port)
    memory = np.genfromtxt(tmp_path / "out/memory.csv", delimiter=",", usecols=(0, 2, 3))
    assert len(memory) > 40 and memory[:, 2].min() > 1000 and memory[:, 0].min() == 1


def test_sigterm_ends_the_service_and_the_load_as_an_interrupt_does(made, tmp_path):
    """`timeout`, CI and systemd send it."""
    words = ["choose", "--quick", "--no-trace", "-o", "out", "--allocators", "glibc,mimalloc", "--serve", f"python3 server.py {made.port}", "--load", "sleep 311",
             "--read", r"rps=(\d+)"]
    p = subprocess.Popen([sys.executable, "-m", "marelab", *words], stderr=subprocess.PIPE, text=True)

    def begun(word):
        return [pid for pid in os.listdir("/proc") if pid.isdecimal() and word in command_of(pid)]

    wait_until(lambda: begun(f"server.py\x00{made.port}") and begun("sleep\x00311"))
    p.terminate()
    _, said = p.communicate(timeout=300)
    assert p.returncode == 143 and "interrupted" in said and "Traceback" not in said
    wait_until(lambda: not begun(f"server.py\x00{made.port}") and not begun("sleep\x00311"))


def command_of(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


def test_redis_links_an_allocator_of_its_own_and_is_measured_all_the_same(quickly, tmp_path):
    port = free_port()
    (tmp_path / "redis-server").symlink_to(shutil.which("redis-check-rdb"))  # one file, which looks at its name
    r = quickly("-o", "out", "--allocators", "jemalloc,mimalloc", "--response", "p99", "--serve", f"./redis-server --port {port} --save ''",
                "--ready", f"redis-cli -p {port} ping", "--load", f"redis-benchmark -p {port} -t set -n 1000", "--idle", "0", "--json")
    assert r.returncode == 0, r.stderr
    result = json.loads(r.stdout)
    assert result["present"] == "jemalloc" and {a["name"] for a in result["allocators"]} == {"jemalloc", "mimalloc"} and "p99" in result["standings"]


@pytest.mark.parametrize("words,message", [
    (["--serve", "sleep 1"], "--serve needs --load"), (["--load", "true", "--", "/bin/true"], "--load needs --serve"),
    (["--serve", "sleep 1", "--load", "true", "--response", "wall"], "wall is not measured of a service; there are request"),
    (["--response", "p99", "--", "/bin/true"], "p99 is not measured of a program"), (["--serve", "sleep 1", "--load", "true", "--", "x"], "takes the place of the program"),
    (["--serve", "nosuchservice", "--load", "true"], "nosuchservice"), (["--serve", "'", "--load", "true"], "--serve")])
def test_mistakes_are_said(capsys, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["choose", "-o", "out", *words]) == 2
    assert message in capsys.readouterr().err
