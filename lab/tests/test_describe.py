"""Every measure on traces whose answer is known; the pattern rule on generated traces; damaged and foreign traces."""

import csv
import dataclasses
import json
import random
import struct
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from traces import Writer
from tracing import BUILD

from marelab import describe, explain, format, native, pattern
from marelab.errors import LabError


def described(w: Writer, tmp_path, **options) -> dict:
    return describe.describe(format.load(w.save(tmp_path / "made")), **options)


def test_the_units_of_the_reader_pass_under_sanitizers(tmp_path):
    r = subprocess.run([str(BUILD / "tests" / "reader-test")], capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert r.returncode == 0, r.stderr


def test_counts_sizes_and_shares_are_those_of_the_trace(tmp_path):
    w = Writer()
    for i in range(100):
        w.malloc(i, 10 if i < 60 else 100 + i)
    for i in range(50):
        w.free(i)
    for _ in range(25):
        w.free(None)
    d = described(w, tmp_path)
    a, f = d["allocations"], d["frees"]
    assert (a["number"], a["distinct_sizes"]) == (100, 41)
    assert a["bytes"] == 600 + sum(100 + i for i in range(60, 100))
    assert a["mean"] == pytest.approx(a["bytes"] / 100) and a["megabytes"] == pytest.approx(a["bytes"] / 1e6)
    assert a["top_ten_share"] == pytest.approx(0.69) and a["top_sizes"][0] == {"size": 10, "number": 60, "share": 0.6}
    assert a["routines"]["malloc"]["share"] == 1.0
    assert (f["number"], f["null"], f["null_share"]) == (75, 25, pytest.approx(1 / 3))
    assert d["retention"]["never_freed"]["number"] == 50
    assert d["sizes"]["size"] == [10, *range(160, 200)] and d["sizes"]["number"] == [60] + [1] * 40


def test_retention_is_classed_by_limits_that_can_be_set(tmp_path):
    w = Writer()
    for i, lived in enumerate([50, 100, 101, 1000, 1001]):
        w.clock = i * 10_000_000
        w.malloc(i, 8)
        w.clock += lived * 1000
        w.free(i)
    w.malloc(9, 8)
    r = described(w, tmp_path)["retention"]
    assert [r[k]["number"] for k in ("short", "medium", "long", "never_freed")] == [2, 2, 2, 1]
    r = describe.describe(format.load(tmp_path / "made"), short=0.05, medium=0.1)["retention"]
    assert [r[k]["number"] for k in ("short", "medium", "long")] == [1, 1, 4]


def test_lifetimes_are_counted_on_the_allocation_clock(tmp_path):
    w = Writer()
    w.malloc(0, 1000)
    for i in range(1, 8):
        w.malloc(i, 256)
        w.free(i)
    w.free(0)
    life = described(w, tmp_path)["lifetimes"]
    assert dict(zip(life["operations"]["upper"], life["operations"]["number"])) == {1: 7, 15: 1}
    assert sum(life["bytes"]["number"]) == 8 and life["bytes"]["upper"][-1] >= 7 * 256 >= life["bytes"]["upper"][-1] * 0.8


def test_long_lived_allocations_accumulate_per_block_of_1000_operations(tmp_path):
    w = Writer()
    for i in range(1500):  # operations 0 to 1499; the first 200 live beyond a second
        w.malloc(i, 8)
    for i in range(200, 1500):
        w.free(i)
    w.clock = 2_000_000
    for i in range(200):
        w.free(i)
    assert described(w, tmp_path)["long_lived"] == {"block_operations": 1000, "cumulative": [200, 200, 200]}


def test_live_memory_has_its_peak_and_its_curves(tmp_path):
    w = Writer()
    for i in range(100):
        w.clock = i * 1000
        w.malloc(i, 1000)
    for i in range(100):
        w.clock = 100_000 + i * 1000
        w.free(i)
    live = described(w, tmp_path)["live"]
    assert (live["peak_bytes"], live["peak_blocks"], live["peak_seconds"]) == (100_000, 100, pytest.approx(0.099))
    assert live["end_bytes"] == 0
    assert live["curve"]["bytes"][50] == 51_000 and max(live["curve"]["bytes"]) == 100_000
    assert live["curve_operations"]["blocks"][:100] == list(range(1, 101))


# ---- the pattern ----

def program(born_long, operations=30000, alive=5, cut=1.0) -> Writer:
    """Blocks that die after a few operations; those for which born_long(part of the run) says so live to the end."""
    rng, w, short, kept = random.Random(7), Writer(), [], []
    for i in range(int(operations * cut)):
        if rng.random() < born_long(i / operations):
            w.malloc(i, 32)
            kept.append(i)
        else:
            w.malloc(i, 16)
            short.append(i)
        if len(short) > alive:
            w.free(short.pop(0))
    if cut == 1.0:
        for i in short + kept:
            w.free(i)
    return w


PROGRAMS = {
    "peak": lambda x: 0.5 if x < 0.15 else 0.002,
    "growing": lambda x: 0.05,
    "mixed": lambda x: 0.3 if x < 0.2 else 0.05,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_pattern_of_generated_programs_is_found(tmp_path, name):
    assert described(program(PROGRAMS[name]), tmp_path)["pattern"]["name"] == name


def test_what_is_said_of_long_lived_blocks_is_plain(tmp_path):
    p = pattern.classify({"operations": 1 << 20, "step": 1024, "octaves": [[0] * 40 + [285]]})
    assert p["name"] == "peak" and p["reason"].startswith("80 % of the 285 long-lived blocks were allocated within less than 1 % of the run. ")
    assert "Long-lived is what is still there 65,536 calls of malloc or free later, or is never freed" in p["reason"]
    d = described(program(PROGRAMS["growing"]), tmp_path)
    said = next(s for s in explain.sentences(d | {"seconds": 1.0, "trace": {}}) if s.startswith("Long-lived"))
    assert said.startswith("Long-lived blocks come steadily, all through the run: 80 % of the ") and "operations" not in said


def test_a_peak_at_the_end_is_left_out_as_nobody_knows_how_long_it_would_have_lived(tmp_path):
    p = described(program(lambda x: 0.05 if x < 0.97 else 1.0, cut=0.999), tmp_path)["pattern"]
    assert p["name"] == "growing"


@pytest.mark.parametrize("name", ["peak", "growing"])
@pytest.mark.parametrize("cut", [0.4, 0.7])
def test_a_truncated_trace_keeps_its_pattern(tmp_path, name, cut):
    assert described(program(PROGRAMS[name], cut=cut), tmp_path)["pattern"]["name"] == name


def test_too_little_to_judge_is_said(tmp_path):
    p = described(program(PROGRAMS["growing"], operations=500), tmp_path)["pattern"]
    assert p["name"] == "undetermined" and "too few" in p["reason"]


# ---- damage ----

def files(tmp_path, data: bytes):
    folder = small().save(tmp_path / "bad")
    (folder / "4242-0.mtr").write_bytes(data)
    return format.load(folder)


def small() -> Writer:
    w = Writer()
    for i in range(3000):
        w.malloc(i, i)
    return w


def test_a_truncated_trace_says_where_and_can_be_described_in_part(tmp_path):
    data = small().data()
    t = files(tmp_path, data[: len(data) - 4])
    with pytest.raises(LabError, match=r"4242-0.mtr: byte 16464: the file ends inside this chunk: it is truncated; --partial"):
        describe.describe(t)
    d = describe.describe(t, partial=True)
    assert 1500 < d["allocations"]["number"] < 3000


def test_a_foreign_file_is_refused_with_what_to_give(tmp_path):
    with pytest.raises(LabError, match="byte 0: not a trace: it doesn't begin with MARETRC1"):
        describe.describe(files(tmp_path, b"heaptrack" + bytes(100)))


def test_another_version_is_named(tmp_path):
    data = bytearray(small().data())
    data[8] = 9
    with pytest.raises(LabError, match="byte 8: trace format version 9, this program reads version 1"):
        describe.describe(files(tmp_path, bytes(data)))


def test_folders_that_are_no_trace_are_refused(tmp_path):
    with pytest.raises(LabError, match="no such trace"):
        format.load(tmp_path / "nothing")
    with pytest.raises(LabError, match="trace.json is missing"):
        format.load(tmp_path)
    (tmp_path / "trace.json").write_text("{}")
    with pytest.raises(LabError, match="not a trace's header"):
        format.load(tmp_path)
    folder = small().save(tmp_path / "made")
    with pytest.raises(LabError, match="no process '17'; there are 4242-0"):
        describe.describe(format.load(folder), "17")


def checked(path, *options):
    r = subprocess.run([str(BUILD / "tests" / "describe-trace-checked"), str(path), *options], capture_output=True, timeout=300)
    assert r.returncode in (0, 1) and b"Sanitizer" not in r.stderr and b"runtime error" not in r.stderr, r.stderr[-2000:]
    return r


BASE = program(PROGRAMS["mixed"], operations=300).data()


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_no_damage_crashes_the_reader(tmp_path, data):
    """Under AddressSanitizer and UBSan: bytes changed, cut, doubled anywhere."""
    bad = bytearray(BASE)
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(bad) - 9))
        what = data.draw(st.sampled_from(["byte", "word", "cut", "repeat", "kind"]))
        if what == "byte":
            bad[at] = data.draw(st.integers(0, 255))
        elif what == "word":
            bad[at : at + 8] = struct.pack("<Q", data.draw(st.integers(0, 2**64 - 1)))
        elif what == "kind":
            at = 80 + (at // 8) * 8 % (len(bad) - 96)
            bad[at + 7] = bad[at + 7] & 15 | data.draw(st.integers(0, 15)) << 4
        elif what == "cut" and len(bad) > 200:
            del bad[at : at + data.draw(st.integers(1, 100))]
        else:
            bad[at:at] = bad[at : at + 64]
    path = tmp_path / "bad.mtr"
    path.write_bytes(bad)
    r = checked(path, *data.draw(st.sampled_from([(), ("--partial",)])), "--joint", str(tmp_path / "joint"))
    if r.returncode == 0:
        json.loads(r.stdout)


# ---- outputs ----

def test_text_tables_and_figures_hold_the_same_facts(tmp_path):
    folder = program(PROGRAMS["mixed"], operations=3000).save(tmp_path / "made")
    r = subprocess.run([sys.executable, "-m", "marelab", "describe", folder, "--csv", tmp_path / "tables", "--figures", tmp_path / "figures"],
                       capture_output=True, text=True, timeout=300)
    assert r.returncode == 0, r.stderr
    d = json.loads((folder / "description.json").read_text())
    assert "allocations  3,000 of" in r.stdout and f"at most {d['live']['peak_bytes'] / 1e6:,.3f} MB" in r.stdout
    with open(tmp_path / "tables" / "sizes.csv") as f:
        assert sum(int(row["number"]) for row in csv.DictReader(f)) == 3000
    names = {p.stem for p in (tmp_path / "figures").iterdir()}
    assert names == {"sizes", "long_lived", "top_ten", "retention", "live", "lifetimes"}
    assert all((tmp_path / "figures" / f"{n}.svg").read_text().startswith("<?xml") for n in names)


def test_several_programs_stand_side_by_side_with_their_averages(tmp_path):
    a = program(PROGRAMS["peak"], operations=6000).save(tmp_path / "first")
    b = program(PROGRAMS["growing"], operations=12000).save(tmp_path / "second")
    r = subprocess.run([sys.executable, "-m", "marelab", "describe", a, b, "--csv", tmp_path / "tables", "--figures", tmp_path / "figures"],
                       capture_output=True, text=True, timeout=300)
    assert r.returncode == 0, r.stderr
    assert "made (first)" in r.stdout and "made (second)" in r.stdout and "9,000.00" in r.stdout  # the average number of allocations
    with open(tmp_path / "tables" / "retention.csv") as f:
        assert [row["pattern"] for row in csv.DictReader(f)] == ["peak", "growing"]
    assert {p.name for p in (tmp_path / "tables").iterdir()} == {"memory.csv", "routines.csv", "frees.csv", "retention.csv"}
    assert {p.name for p in (tmp_path / "figures").iterdir()} == {"top_ten.svg", "retention.svg"}


def test_mistakes_in_the_options_are_named(tmp_path):
    folder = small().save(tmp_path / "made")

    def said(*options):
        r = subprocess.run([sys.executable, "-m", "marelab", "describe", folder, *options], capture_output=True, text=True, timeout=300)
        assert r.returncode == 2 and "Traceback" not in r.stderr
        return r.stderr

    assert "is no time" in said("--short", "-1")
    assert "--medium 0.1 is below --short 5" in said("--short", "5", "--medium", "0.1")


def test_native_parts_that_are_missing_are_named(monkeypatch, tmp_path):
    monkeypatch.setattr(native, "FOLDER", tmp_path)
    with pytest.raises(LabError, match="run `make lab`"):
        native.path("describe")


def test_blocks_are_counted_by_size_and_lifetime_together(tmp_path):
    w = Writer()
    for i, (size, calls, ms) in enumerate([(16, 1, 0), (17, 2, 1), (1000, 5, 200), (70000, 3, 3000)]):
        w.malloc(i, size)
        for k in range(calls - 1):
            w.free(500 + 10 * i + k)  # of blocks that it does not know: calls that pass
        w.clock += ms * 1000
        w.free(i)
    w.malloc(99, 0)
    g = described(w, tmp_path)["grid"]
    assert sorted(g["operations"]) == [[0, 40, 1, 0], [4, 0, 1, 16], [5, 1, 1, 17], [10, 3, 1, 1000], [17, 2, 1, 70000]]
    assert sorted(g["milliseconds"]) == [[0, 40, 1, 0], [4, 0, 1, 16], [5, 0, 1, 17], [10, 8, 1, 1000], [17, 12, 1, 70000]]
    assert sorted(g["kinds"]) == [[0, 3, 1, 0], [4, 0, 1, 16], [5, 0, 1, 17], [10, 1, 1, 1000], [17, 2, 1, 70000]]


def test_what_malloc_does_not_see_is_told_also_of_small_programs():
    """Python's own allocator takes its memory by mmap: of 12 MiB malloc sees 2. A C program's stack and tables are no reason to say so."""
    image = format.Image(1, 0, None, ["p"], "/p", 1, 1.0, 12 << 20, None)
    assert "malloc sees 17%" in describe.memory(image, 2 << 20)["note"]
    assert describe.memory(image, 9 << 20)["note"] is None
    assert describe.memory(dataclasses.replace(image, anonymous_peak=3 << 20), 1 << 20)["note"] is None


def test_of_many_processes_the_largest_are_named_with_their_programs(tmp_path):
    t = format.load(small().save(tmp_path / "made"))
    several = [dataclasses.replace(t.images[0], pid=100 + i, words=i, executable=f"/usr/bin/p{i}") for i in range(30)]
    with pytest.raises(LabError, match=r"no process '77'; there are 129-0 \(p29\), 128-0 \(p28\), .*, 120-0 \(p20\) and 20 smaller ones$"):
        dataclasses.replace(t, images=several).image("77")
