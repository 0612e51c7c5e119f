"""Replay does what the trace did: traced again, a replay has the trace's own description."""

import json
import os
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from traces import Writer
from tracing import BUILD, assert_sound, case, descriptions, record

from marelab import format, native, replay, workload
from marelab.errors import LabError

LUA = ("lua5.4", "-e", "local t = {} for i = 1, 4000 do t[i % 300] = {tostring(i):rep(i % 30)} end")


def script_of(t: format.Trace, tmp_path, **options):
    return replay.make_script(t.main(), tmp_path, **options)


def replayed(tmp_path, script, *options) -> dict:
    t = record(tmp_path, native.path("workload"), "--replay", script, *options, name="again", stdout=subprocess.DEVNULL)
    assert t.header["status"] == 0
    assert_sound(t)
    return descriptions(t)[0]


def test_a_replay_makes_the_same_calls_with_the_same_lifetimes(tmp_path):
    t = record(tmp_path, *LUA, stdout=subprocess.DEVNULL)
    before = descriptions(t)[0]
    _, script = script_of(t, tmp_path)
    after = replayed(tmp_path, script)
    assert after["allocations"]["number"] - before["allocations"]["number"] in range(0, 40)  # the workload program's own few
    assert after["allocations"]["routines"]["realloc"]["number"] == before["allocations"]["routines"]["realloc"]["number"]
    sizes = dict(zip(after["sizes"]["size"], after["sizes"]["number"]))
    assert all(sizes.get(s, 0) >= n for s, n in zip(before["sizes"]["size"], before["sizes"]["number"]))
    for upper, n in zip(before["lifetimes"]["operations"]["upper"], before["lifetimes"]["operations"]["number"]):
        again = dict(zip(after["lifetimes"]["operations"]["upper"], after["lifetimes"]["operations"]["number"]))
        assert abs(again.get(upper, 0) - n) <= max(20, n * 0.02)
    assert abs(after["live"]["peak_bytes"] - before["live"]["peak_bytes"]) < 100_000


def test_blocks_change_hands_in_a_replay_as_in_the_trace(tmp_path):
    t = record(tmp_path, case("exchange"), 4, 10000)
    before = descriptions(t)[0]
    made, script = script_of(t, tmp_path)
    for _ in range(50):  # until one thread was faster than another
        r = workload.response(["--replay", str(script)], dict(os.environ))
        assert made["threads"] == r["threads"] == 5 and made["unknown"] == 0
        assert r["cross_frees"] == made["shared_blocks"] > 1000
        assert (r["waits"] > 0) == (r["wait_seconds"] > 0)
        if r["waits"] > 0:
            break
    assert r["waits"] > 0
    after = replayed(tmp_path, script)
    assert after["frees"]["by_another_thread"] == pytest.approx(before["frees"]["by_another_thread"], rel=0.01)
    assert after["reallocs"]["number"] == before["reallocs"]["number"]


def test_a_paced_replay_takes_as_long_as_the_original(tmp_path):
    code = "import time; time.sleep(0.4); x = [str(i) for i in range(5000)]; time.sleep(0.3)"
    t = record(tmp_path, sys.executable, "-c", code)
    _, script = script_of(t, tmp_path)
    paced = workload.response(["--replay", str(script), "--paced"], dict(os.environ))["seconds"]
    fast = [workload.response(["--replay", str(script)], dict(os.environ))["seconds"] for _ in range(5)]
    assert paced >= 0.65 > min(fast)  # one of them, even on a busy machine


def test_a_part_can_be_replayed(tmp_path):
    t = record(tmp_path, *LUA, stdout=subprocess.DEVNULL)
    made, script = script_of(t, tmp_path, events=500)
    assert made["events"] == 500
    assert workload.response(["--replay", str(script)], dict(os.environ))["operations"] <= 500


def test_inherited_blocks_are_left_out(tmp_path):
    t = record(tmp_path, case("forks"))
    child = next(i for i, p in zip(t.images, t.header["processes"]) if p["forked"])
    made, script = replay.make_script(child, tmp_path)
    assert made["unknown"] == 1
    assert workload.response(["--replay", str(script)], dict(os.environ))["allocations"] == 100


def checked(*options):
    env = os.environ | {"ASAN_OPTIONS": "detect_leaks=0"}
    return subprocess.run([str(BUILD / "tests" / "workload-checked"), *map(str, options)], capture_output=True, timeout=300, env=env)


def test_a_replay_is_sound_under_sanitizers(tmp_path):
    t = record(tmp_path, case("exchange"), 3, 5000)
    _, script = script_of(t, tmp_path)
    r = checked("--replay", script, "--touch", "all")
    assert r.returncode == 0, r.stderr


@settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_damaged_script_is_refused_or_harmless(tmp_path, data):
    script = tmp_path / "script"
    subprocess.run([native.path("workload"), "--allocations", "50", "--alive", "5", "--threads", "2", "--cross", "0.5", "--save", script], check=True)
    bad = bytearray(script.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, 60 if data.draw(st.booleans()) else len(bad) - 1))
        bad[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.sampled_from([0, 0, 0, 1, 17]))
    script.write_bytes(bad[: len(bad) - cut])
    r = checked("--replay", script, "--save", tmp_path / "copy")  # read and checked, not run
    assert r.returncode in (0, 2) and b"Sanitizer" not in r.stderr and b"runtime error" not in r.stderr


def some_of_everything() -> bytes:
    w = Writer()
    for i in range(6):
        w.malloc(i, 1 << 20 if i == 3 else 20 + i)
        w.clock += 1500
    w.realloc(1, 10, 50)
    w.realloc(2, None, 0)
    w.realloc(99, 11, 60)
    for block in (0, 3, 98, None, 10):
        w.free(block)
    return w.data()


@pytest.mark.parametrize("damage", ["cut", "changed"])
def test_a_damaged_trace_makes_a_script_or_an_error_whichever_byte_it_is(tmp_path, damage):
    """The converter under sanitizers; what it makes of it, the workload program accepts or refuses."""
    data, env = some_of_everything(), os.environ | {"ASAN_OPTIONS": "detect_leaks=0"}
    for at in range(0, len(data), 2):
        bad = data[:at] if damage == "cut" else data[:at] + bytes([data[at] ^ (0x90 if at % 4 else 0xff)]) + data[at + 1:]
        (tmp_path / "t.mtr").write_bytes(bad)
        words = [BUILD / "tests" / "script-trace-checked", *(["--partial"] if at % 3 == 0 else []), tmp_path / "t.mtr", tmp_path / "script"]
        r = subprocess.run(words, capture_output=True, timeout=300, env=env)
        assert r.returncode in (0, 1) and b"Sanitizer" not in r.stderr and b"runtime error" not in r.stderr, (at, r.stderr)
        assert r.returncode == 0 or b"t.mtr: byte " in r.stderr, (at, r.stderr)
        if r.returncode == 0:
            r = checked("--replay", tmp_path / "script", "--save", tmp_path / "copy")
            assert r.returncode in (0, 2) and b"Sanitizer" not in r.stderr and b"runtime error" not in r.stderr, (at, r.stderr)


def test_the_command_shows_every_allocator(tmp_path):
    t = record(tmp_path, *LUA, stdout=subprocess.DEVNULL)
    r = subprocess.run([sys.executable, "-m", "marelab", "replay", t.folder, "--runs", "1", "--allocators", "glibc,jemalloc"], capture_output=True,
                       text=True,
                       timeout=300)
    assert r.returncode == 0, r.stderr
    assert "glibc " in r.stdout and "jemalloc " in r.stdout and "a check, not the truth" in r.stdout
    r = subprocess.run([sys.executable, "-m", "marelab", "replay", t.folder, "--runs", "2", "--allocators", "glibc", "--json"], capture_output=True,
                       text=True,
                       timeout=300)
    assert [run["round"] for run in json.loads(r.stdout)["runs"]] == [1, 2]


def test_too_many_threads_and_damage_are_named(tmp_path):
    t = record(tmp_path, *LUA, stdout=subprocess.DEVNULL)
    file = t.main().file
    file.write_bytes(file.read_bytes()[:-3])
    with pytest.raises(LabError, match="it is truncated"):
        script_of(t, tmp_path)
    made, _ = script_of(t, tmp_path, partial=True)
    assert made["events"] > 0


def test_a_replay_takes_as_much_memory_as_is_live(tmp_path):
    """Large blocks are touched in each of their pages, as most programs do, and not only at their ends."""
    t = record(tmp_path, sys.executable, "-c", "x = [bytearray(1_000_000) for _ in range(7)]")
    _, script = script_of(t, tmp_path)
    live = descriptions(t)[0]["live"]["peak_bytes"]
    r, ends = (workload.response(["--replay", str(script), "--exact-peak", *more], dict(os.environ)) for more in ([], ["--touch", "ends"]))
    assert live > 7e6 and r["peak_bytes"] > 0.95 * live > 2 * ends["peak_bytes"]
